//! The retry study in the report: the papers' cases. Further cases are in the study of its own (`earmark-studies study
//! retry`).

use anyhow::Result;

use super::PartOptions;
use super::section::{Cell, Estimate, Section, Table};
use crate::bench::Supervision;
use crate::study::retry::{self, Case, Load, Row};
use earmark_lab::statistics::Median;

/// Returns the key of a row's case among the published figures.
fn key(row: &Row) -> Option<&'static str> {
    Some(match (row.load, row.case) {
        (Load::Regular, Case::Rsvp) => "pan.regular_load.rsvp",
        (Load::Regular, Case::Refresh) => "pan.regular_load.one_pass_refresh",
        (Load::Regular, Case::GrabInfinite) => "pan.regular_load.one_pass_grabbing",
        (Load::Regular, _) => return None,
        (Load::High, Case::Rsvp) => "pan.high_load.rsvp",
        (Load::High, Case::Refresh) => "pan.high_load.refresh_only",
        (Load::High, Case::GrabInfinite) => "pan.high_load.grabbing_unlimited",
        (Load::High, Case::Grab10) => "pan.high_load.grabbing_T10",
        (Load::High, Case::Grab8) => "pan.high_load.grabbing_T8",
        (Load::High, Case::Grab3) => "pan.high_load.grabbing_T3",
        (Load::High, Case::Grab1) => "pan.high_load.grabbing_T1",
    })
}

/// Runs each case with many seeds.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    supervision.watcher.begin("retry: the papers' cases", 1);
    let seeds = if order.quick { 30 } else { 100 };
    let rows = retry::rows(seeds)?;
    supervision.watcher.reached(1);
    let mut section = Section::default();
    section.text(format!(
        "How often refused reservations are tried again, and how long the test flow waits until it has all of its own: one run of each \
         case was published, {seeds} were played here, in the simulator, with the same engines as the daemon's. What is different, and \
         why, is told by the study of its own: earmark-studies study retry."
    ));
    let mut table = Table::new(
        "retry",
        "Retries in 550 s, and the wait of the test flow",
        &[
            "load",
            "case",
            "retries",
            "published",
            "wait s (300: never)",
            "published s",
            "tries",
            "published tries",
        ],
    );
    for row in &rows {
        let published = row.case.published(row.load);
        let wait = published.map(|then| then.completed_after.unwrap_or(300.0));
        table.row([
            row.load.name().into(),
            row.case.title().into(),
            estimate(&row.retries, seeds).into(),
            published.and_then(|then| then.retries).map(f64::from).into(),
            estimate(&row.completion_s, seeds).into(),
            wait.into(),
            estimate(&row.tries, seeds).into(),
            published.map_or(Cell::Nothing, |then| f64::from(then.tries).into()),
        ]);
        let (Some(key), Some(published)) = (key(row), published) else { continue };
        if published.retries.is_some() {
            section.entry(
                format!("{key}.retries"),
                "retries in 550 s",
                estimate(&row.retries, seeds),
            );
        }
        if published.completed_after.is_some() {
            section.entry(
                format!("{key}.completed_after_s"),
                "s",
                estimate(&row.completion_s, seeds),
            );
            section.entry(format!("{key}.tries"), "tries", estimate(&row.tries, seeds));
        }
    }
    section.table(table);
    section.leave_out(
        "pan.high_load.rsvp.successful_flows",
        "the published number is larger than that of all flows that came in this time; what was counted is not said",
    );
    Ok(section)
}

fn estimate(median: &Median, repetitions: u64) -> Estimate {
    let Median { median, low, high } = *median;
    Estimate { median, low, high, repetitions }
}
