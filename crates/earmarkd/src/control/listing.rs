//! Listings, in slices: the daemon examines rows for about a millisecond in a turn of the event loop, whatever the size of
//! its tables and the number of clients that list.
//!
//! A client that asks for pages gets what one slice has found, with the position of the next one; the daemon keeps nothing
//! for it in between. Without pages the answer is one line, which grows slice by slice up to [`MAX_ANSWER`]. A position is a
//! slot of an engine's table. State stays in its slot as long as it exists, so that a listing includes it once, whatever begins and
//! ends in between.

use std::mem;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use earmark_control::{
    ApplicationId, ApplicationRow, DEFAULT_ROWS, Listing, Problem, ProblemCode, Show,
};
use earmark_core::listing::LinkRow;
use earmark_core::{InterfaceId, Time};
use earmark_node::{EngineSlots, Node, Position};
use serde_json::Value;

use super::listing_filter::{Filter, Listed};
use crate::driver::{Driver, Kernel};

/// Time for one slice.
const SLICE: Duration = Duration::from_millis(1);
/// Slots without a row that are examined between two looks at the clock.
const BETWEEN_LOOKS: u64 = 64;
/// Slots for which the kernel is asked about refreshes at a time.
const CAUGHT_UP: u64 = 512;
/// Octets of rows after which an answer without pages ends.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// Position in the listing of applications, before their number.
const APPLICATIONS: &str = "applications";

/// Rows that the control layer has itself.
pub(super) trait OwnRows {
    /// Returns the rows of the applications from a number on, in their order.
    fn applications(&self, from: ApplicationId) -> impl Iterator<Item = &ApplicationRow>;
    /// Returns all counters.
    fn counters<K: Kernel>(&self, driver: &Driver<K>) -> Value;
}

/// A listing that a client has requested, as far as its answer is built.
#[derive(Debug)]
pub(super) struct PendingListing {
    what: Listing,
    filter: Filter,
    /// Most rows.
    limit: usize,
    /// Whether the answer is a page.
    is_page: bool,
    at: Position,
    answer: Rows,
    /// End of the slice.
    deadline: Instant,
}

/// Rows of an answer.
#[derive(Debug)]
struct Rows {
    /// Line of the answer up to the last row so far.
    line: Vec<u8>,
    count: usize,
    /// Slots examined.
    examined: u64,
    /// Whether rows were left out.
    more: bool,
}

/// Why a slice does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The slots that were caught up are examined.
    CaughtUp,
    /// The slice is over, or the page is full.
    Slice,
    /// The answer is full.
    Full,
}

impl PendingListing {
    /// Begins a listing.
    ///
    /// # Errors
    /// The listing does not have the filter, or the position is none.
    pub(super) fn begin<K: Kernel>(
        show: &Show,
        driver: &Driver<K>,
    ) -> Result<PendingListing, Problem> {
        let is_page = show.after.is_some();
        let limit = match (is_page, show.limit) {
            // A page without rows would not end the listing.
            (true, limit) => limit.unwrap_or(usize::MAX).max(1),
            (false, limit) => limit.unwrap_or(DEFAULT_ROWS),
        };
        Ok(PendingListing {
            what: show.what,
            filter: Filter::check(show, driver)?,
            limit,
            is_page,
            at: position(show, driver.node())?,
            answer: Rows {
                line: br#"{"ok":{"rows":["#.to_vec(),
                count: 0,
                examined: 0,
                more: false,
            },
            deadline: Instant::now(),
        })
    }

    /// Examines one slice. Returns the line of the answer if it is complete.
    pub(super) fn advance<K: Kernel>(
        &mut self,
        now: Time,
        own: &impl OwnRows,
        driver: &mut Driver<K>,
    ) -> Option<Vec<u8>> {
        self.deadline = Instant::now() + SLICE;
        let next = loop {
            let slots = driver.node().next_slots(self.at, CAUGHT_UP);
            match self.examine(now, &slots, own, driver) {
                ControlFlow::Continue(()) => break None,
                ControlFlow::Break(Stop::Full) => {
                    self.answer.more = true;
                    break None;
                }
                ControlFlow::Break(Stop::CaughtUp) if Instant::now() < self.deadline => {}
                ControlFlow::Break(_) if self.is_page => break Some(self.at),
                ControlFlow::Break(_) => return None,
            }
        };
        Some(self.line(next, driver.node()))
    }

    /// Examines the slots from the position on, until the end of the listing or a reason to stop.
    fn examine<K: Kernel>(
        &mut self,
        now: Time,
        slots: &EngineSlots,
        own: &impl OwnRows,
        driver: &mut Driver<K>,
    ) -> ControlFlow<Stop> {
        let (at, filter) = (self.at, self.filter.rows);
        let nothing = EngineSlots::default();
        let has_sessions = matches!(self.what, Listing::Sessions | Listing::Reservations);
        driver.catch_up(now, if has_sessions { slots } else { &nothing });
        let node = driver.node();
        match self.what {
            Listing::Sessions => self.take(node.session_slots(now, at, &filter)),
            Listing::Reservations => self.take(driver.reservation_slots(now, at, &filter)),
            Listing::RoutingState => self.take(node.routing_state_slots(now, at, &filter)),
            Listing::Pinholes => self.take(node.pinhole_slots(now, at)),
            Listing::Translations => self.take(node.translation_slots(now, at)),
            Listing::Applications => {
                let rows = own.applications(ApplicationId(at.slot));
                let at = |number: ApplicationId| Position { engine: 0, slot: number.0 };
                self.take(rows.map(|row| (at(row.application), Some(row))))
            }
            Listing::Links => self.take_all(link_rows(driver, self.deadline)),
            Listing::Neighbors => self.take_all(node.neighbor_rows(now)),
            Listing::Aggregates => self.take_all(node.aggregate_rows()),
            Listing::Associations => self.take_all(node.association_rows(now)),
            Listing::Counters => self.take_all([own.counters(driver)]),
        }
    }

    /// Takes rows slot by slot. At least one slot is examined, and a slot with several rows is taken whole.
    fn take<T: Listed>(
        &mut self,
        slots: impl Iterator<Item = (Position, Option<T>)>,
    ) -> ControlFlow<Stop> {
        let first = self.at;
        let (mut last, mut since_look) = (None, 0);
        for (position, row) in slots {
            if last != Some(position) {
                let is_late = since_look >= BETWEEN_LOOKS && Instant::now() >= self.deadline;
                let stop = match last {
                    // What the kernel did for this engine is not read yet.
                    _ if position.engine != first.engine => Some(Stop::CaughtUp),
                    None => None,
                    Some(_) if is_late => Some(Stop::Slice),
                    Some(_) if self.is_page && self.answer.count >= self.limit => Some(Stop::Slice),
                    Some(_) if position.slot >= first.slot + CAUGHT_UP => Some(Stop::CaughtUp),
                    Some(_) => None,
                };
                if let Some(stop) = stop {
                    self.at = position;
                    return ControlFlow::Break(stop);
                }
                since_look = if since_look >= BETWEEN_LOOKS { 1 } else { since_look + 1 };
                last = Some(position);
                self.answer.examined += 1;
            }
            if let Some(row) = row.filter(|row| self.filter.admits(row)) {
                self.push(&row)?;
                // A row costs much more than a slot without one.
                since_look = BETWEEN_LOOKS;
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes all rows of a short listing.
    fn take_all<T: Listed>(&mut self, rows: impl IntoIterator<Item = T>) -> ControlFlow<Stop> {
        for row in rows {
            self.answer.examined += 1;
            if self.filter.admits(&row) {
                if self.answer.count >= self.limit {
                    return ControlFlow::Break(Stop::Full);
                }
                self.push(&row)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds a row, unless the answer is full.
    fn push<T: Listed>(&mut self, row: &T) -> ControlFlow<Stop> {
        let Rows { line, count, .. } = &mut self.answer;
        let is_full = *count >= self.limit || line.len() >= MAX_ANSWER;
        if is_full && !self.is_page {
            return ControlFlow::Break(Stop::Full);
        }
        if *count > 0 {
            line.push(b',');
        }
        // Our own rows always serialize.
        let _ = serde_json::to_writer(line, row);
        *count += 1;
        ControlFlow::Continue(())
    }

    /// Completes the line of the answer. A large one is not copied.
    fn line(&mut self, next: Option<Position>, node: &Node) -> Vec<u8> {
        let Rows { examined, more, .. } = self.answer;
        let mut end = format!(r#"],"more":{}"#, more || next.is_some());
        if let Some(at) = next {
            let table = match self.what {
                Listing::Applications => APPLICATIONS,
                _ => node.engines().nth(at.engine).map_or("", |engine| engine.kind().name),
            };
            end.push_str(&format!(r#","next":"{table}:{}""#, at.slot));
        }
        if self.is_page {
            end.push_str(&format!(r#","examined":{examined}"#));
        }
        end.push_str("}}");
        let mut line = mem::take(&mut self.answer.line);
        line.extend_from_slice(end.as_bytes());
        line
    }
}

/// Returns the rows of links, with the counters that the kernel tells until the deadline.
fn link_rows<K: Kernel>(driver: &mut Driver<K>, deadline: Instant) -> Vec<LinkRow> {
    let mut rows: Vec<LinkRow> = driver.link_rows().collect();
    for row in &mut rows {
        if Instant::now() < deadline {
            row.sent_octets = driver.kernel().reserved_octets(InterfaceId(row.index));
        }
    }
    rows
}

/// Returns the position that a request names.
fn position(show: &Show, node: &Node) -> Result<Position, Problem> {
    let Some(text) = show.after.as_deref().filter(|text| *text != Show::START) else {
        return Ok(Position::START);
    };
    let engine = |table: &str| match show.what {
        Listing::Applications => (table == APPLICATIONS).then_some(0),
        what if what.has_pages() => node.engines().position(|engine| engine.kind().name == table),
        _ => None,
    };
    let parse = |text: &str| {
        let (table, slot) = text.split_once(':')?;
        Some(Position { engine: engine(table)?, slot: slot.parse().ok()? })
    };
    parse(text).ok_or_else(|| {
        let text: String = text.chars().take(64).collect();
        Problem::new(
            ProblemCode::BadRequest,
            format!("invalid position {text:?} in the listing {}", show.what.name()),
            "after is \"start\", or `next` of the page before",
        )
    })
}
