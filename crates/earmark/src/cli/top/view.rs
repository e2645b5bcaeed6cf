//! What is shown, and what keys do.

use std::collections::HashMap;
use std::time::Instant;

use clap::Parser;
use earmark_control::command::Failure;
use earmark_control::{LinkRow, ListingFilter, ReservationRow};
use earmark_core::Rate;
use serde::Serialize;

use super::sampler::{Query, Reservations, Update};
use crate::cli::arguments::FilterOptions;
use crate::cli::listings;

/// All that is shown.
#[derive(Debug, Default, Serialize)]
pub(super) struct View {
    /// Name of the node, once it is known.
    pub(super) node: String,
    pub(super) links: Vec<Line<LinkRow>>,
    pub(super) reservations: Vec<Line<ReservationRow>>,
    /// Number of reservations that the filter includes.
    pub(super) included: u64,
    /// Number gone through in the sample that is being taken, if that takes long.
    #[serde(skip)]
    pub(super) progress: Option<u64>,
    /// Last event, as text.
    #[serde(skip)]
    pub(super) event: String,
    /// Why nothing is sampled, with what to do.
    #[serde(skip)]
    pub(super) failure: Option<Failure>,
    #[serde(skip)]
    pub(super) query: Query,
    /// The line of filters, as it was applied.
    #[serde(skip)]
    pub(super) filters: String,
    /// The line of filters that is being typed.
    #[serde(skip)]
    pub(super) typed: Option<String>,
    /// Why the typed line is refused.
    #[serde(skip)]
    pub(super) mistake: Option<String>,
    /// First reservation that is drawn.
    #[serde(skip)]
    pub(super) first: usize,
    #[serde(skip)]
    counted: HashMap<String, (u64, Instant)>,
}

/// A row, with the rate that it has used since the sample before.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line<R> {
    #[serde(flatten)]
    pub(super) row: R,
    /// Bits a second; `None` before the second sample, or without a counter.
    pub(super) used_bps: Option<Rate>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    End,
    NextColumn,
    Reverse,
    Filter,
    /// Moves by lines.
    Move(isize),
    Type(char),
    Erase,
    Apply,
    Leave,
}

/// Filters as people type them, `to 10.0.2.2 link eth1`, once `--` stands before each name.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct TypedFilters {
    #[command(flatten)]
    filter: FilterOptions,
}

impl View {
    pub(super) fn new(query: Query) -> View {
        View { query, ..View::default() }
    }

    /// Takes over what the daemon has told.
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Connected(node) => (self.node, self.failure) = (node, None),
            Update::Links(rows, at) => {
                let line = |row: LinkRow| {
                    let name = format!("link {}", row.interface);
                    let used_bps = row.sent_octets.and_then(|octets| self.used(name, octets, at));
                    Line { row, used_bps }
                };
                self.links = rows.into_iter().map(line).collect();
            }
            Update::Progress(count) => self.progress = Some(count),
            // The sample of an earlier query.
            Update::Reservations(Reservations { query, .. }) if query != self.query => {}
            Update::Reservations(Reservations { rows, included, at, .. }) => {
                let line = |row: ReservationRow| {
                    let octets = row.traffic.map(|traffic| traffic.octets);
                    let used_bps = octets.and_then(|octets| self.used(name(&row), octets, at));
                    Line { row, used_bps }
                };
                self.reservations = rows.into_iter().map(line).collect();
                (self.included, self.progress) = (included, None);
                self.counted.retain(|_, (_, counted_at)| at - *counted_at < FORGOTTEN);
                self.shift(0);
            }
            Update::Event(event) => self.event = event.text,
            Update::Failed(failure) => self.failure = Some(failure),
        }
    }

    /// Notes a counter of octets. Returns the rate since it was noted before.
    fn used(&mut self, name: String, octets: u64, at: Instant) -> Option<Rate> {
        let (before, counted_at) = self.counted.insert(name, (octets, at))?;
        let seconds = (at - counted_at).as_secs_f64();
        // A counter that has begun anew tells nothing.
        let bits = octets.checked_sub(before)? as f64 * 8.0;
        (seconds > 0.0).then(|| Rate::from_bps((bits / seconds) as u64))
    }

    /// Does what a key asks for. Returns whether other reservations are to be asked for.
    pub(super) fn act(&mut self, action: Action) -> bool {
        match action {
            Action::NextColumn => self.set_sort(listings::next_reservation_sort(&self.query.sort)),
            Action::Reverse => self.set_sort(match self.query.sort.strip_prefix('-') {
                Some(column) => column.to_owned(),
                None => format!("-{}", self.query.sort),
            }),
            Action::Filter => {
                self.typed = Some(self.filters.clone());
                false
            }
            Action::Move(lines) => self.shift(lines),
            Action::Type(letter) => self.edit(|typed| typed.push(letter)),
            Action::Erase => self.edit(|typed| _ = typed.pop()),
            Action::Apply => self.apply(),
            Action::Leave => {
                (self.typed, self.mistake) = (None, None);
                false
            }
            Action::End => false,
        }
    }

    /// Changes the line that is being typed.
    fn edit(&mut self, change: impl FnOnce(&mut String)) -> bool {
        self.mistake = None;
        if let Some(typed) = &mut self.typed {
            change(typed);
        }
        false
    }

    fn set_sort(&mut self, sort: String) -> bool {
        self.query.sort = sort;
        self.first = 0;
        true
    }

    fn shift(&mut self, lines: isize) -> bool {
        let last = self.reservations.len().saturating_sub(1);
        self.first = self.first.saturating_add_signed(lines).min(last);
        false
    }

    /// Applies the typed filters, unless they are mistaken.
    fn apply(&mut self) -> bool {
        let Some(typed) = self.typed.take() else { return false };
        match parse(&typed) {
            Ok(filter) => {
                (self.query.filter, self.filters, self.mistake) = (filter, typed, None);
                self.first = 0;
                true
            }
            Err(mistake) => {
                (self.typed, self.mistake) = (Some(typed), Some(mistake));
                false
            }
        }
    }
}

/// Age at which a counter that is no longer shown is forgotten.
const FORGOTTEN: std::time::Duration = std::time::Duration::from_secs(60);

/// Parses a line of filters: names, each with its value.
fn parse(line: &str) -> Result<ListingFilter, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let options = words.chunks(2).flat_map(|pair| {
        let name = format!("--{}", pair[0].trim_start_matches('-'));
        [Some(name), pair.get(1).map(|value| (*value).to_owned())].into_iter().flatten()
    });
    let parsed = TypedFilters::try_parse_from(options).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let reason = first.strip_prefix("error: ").unwrap_or(first);
        format!("{reason}; filters are to, from, link, protocol, user and state")
    })?;
    Ok(parsed.filter.into())
}

/// Returns a name of a reservation, for its counter.
fn name(row: &ReservationRow) -> String {
    format!(
        "{} {} {} {} {:?} {:?}",
        row.protocol, row.destination, row.destination_port, row.style, row.senders, row.interface
    )
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
