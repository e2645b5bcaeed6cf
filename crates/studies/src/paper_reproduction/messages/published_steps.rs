//! Mapping of our steps to those of Tables 3 to 8, and their comparison.

use anyhow::{Context, Result};
use earmark_core::checkpoint::Checkpoint as C;

use super::{BATCH, ROUNDS, StepResults};
use crate::bench::router::Protocol;
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{Cell, Estimate, Section, Table};
use crate::paper_reproduction::steps::{RESERVATION_MANAGEMENT, Steps, Times, step_name};

/// A published step, and our steps that do the same.
struct Counterpart {
    key: &'static str,
    protocol: Protocol,
    message: &'static str,
    steps: &'static [C],
    /// Difference, if any.
    note: Option<&'static str>,
}

const fn one(
    key: &'static str,
    protocol: Protocol,
    message: &'static str,
    steps: &'static [C],
) -> Counterpart {
    Counterpart { key, protocol, message, steps, note: None }
}

impl Counterpart {
    const fn but(self, note: &'static str) -> Counterpart {
        Counterpart { note: Some(note), ..self }
    }
}

const PATH: &str = "Path, new";
const RESV: &str = "Resv, new";
const OUT: &str = "set-up, out";
const RELEASE: &str = "release, out";

/// Mapping of the steps. None includes traffic control in the kernel: checkpoints 1 and 2 have it.
const COUNTERPARTS: [Counterpart; 20] = {
    use Protocol::{Boomerang, Rsvp};
    [
        one("table3_rsvp_path_steps.find_session", Rsvp, PATH, &[C::FindSession]),
        one("table3_rsvp_path_steps.create_session", Rsvp, PATH, &[C::CreateSession]),
        one("table3_rsvp_path_steps.search_psb", Rsvp, PATH, &[C::SearchPsb]),
        one("table3_rsvp_path_steps.create_psb", Rsvp, PATH, &[C::CreatePsb]),
        one("table3_rsvp_path_steps.route_computation", Rsvp, PATH, &[C::Route])
            .but("a look into the mirror of the kernel's routes, without asking the kernel"),
        one("table3_rsvp_path_steps.path_refresh", Rsvp, PATH, &[C::PathRefresh]),
        one("table4_rsvp_resv_steps.find_session", Rsvp, RESV, &[C::FindSession])
            .but("finds session and sender in one look"),
        one("table4_rsvp_resv_steps.check_styles", Rsvp, RESV, &[C::CheckStyles]),
        one("table4_rsvp_resv_steps.reservation_management", Rsvp, RESV, RESERVATION_MANAGEMENT)
            .but("without the kernel's traffic control, which checkpoints 1 and 2 have"),
        one("table4_rsvp_resv_steps.reservation_refresh", Rsvp, RESV, &[C::ResvRefresh]),
        one("table5_boomerang_steps.find_session", Boomerang, OUT, &[C::FindSession]),
        one("table5_boomerang_steps.create_session", Boomerang, OUT, &[C::CreateSession]),
        one("table5_boomerang_steps.reservation_management", Boomerang, OUT, BY_ROUTE)
            .but("with the look for the route, which their firewall knew; without traffic control"),
        one("table6_rsvp_path_tear_steps.search_psb", Rsvp, "PathTear", &[C::SearchPsb])
            .but("finds session and sender in one look"),
        one("table6_rsvp_path_tear_steps.tear_psb_and_path_refresh", Rsvp, "PathTear", TEAR_PSB),
        one("table7_rsvp_resv_tear_steps.find_session_and_rsb", Rsvp, "ResvTear", &[C::FindRsb]),
        one("table7_rsvp_resv_tear_steps.reservation_tear", Rsvp, "ResvTear", &[C::TearRsb])
            .but("without the kernel's traffic control"),
        one("table7_rsvp_resv_tear_steps.reservation_refresh", Rsvp, "ResvTear", &[C::ResvRefresh]),
        one("table8_boomerang_tear_steps.find_session", Boomerang, RELEASE, &[C::FindSession]),
        one("table8_boomerang_tear_steps.reservation_management", Boomerang, RELEASE, BACK)
            .but("both directions at once; without traffic control"),
    ]
};
const BY_ROUTE: &[C] = &[C::Route, C::Admission, C::ReservationManagement];
const TEAR_PSB: &[C] = &[C::PathRefresh, C::TearPsb];
const BACK: &[C] = &[C::ReservationManagement];
/// Last step of Table 8.
const TEAR_SESSION: Counterpart = one(
    "table8_boomerang_tear_steps.tear_session",
    Protocol::Boomerang,
    RELEASE,
    &[C::TearSession],
);

fn counterparts() -> impl Iterator<Item = &'static Counterpart> {
    COUNTERPARTS.iter().chain([&TEAR_SESSION])
}

/// Returns the groups of a message's steps that were published as one.
pub(super) fn groups(protocol: Protocol, message: &str) -> Vec<Steps> {
    counterparts()
        .filter(|one| one.protocol == protocol && one.message == message)
        .map(|one| Steps::of(one.steps))
        .collect()
}

impl StepResults {
    fn times(&self, protocol: Protocol, message: &str) -> Option<&Times> {
        let (_, messages) = self.times.iter().find(|(of, _)| *of == protocol)?;
        messages.iter().find(|(name, _)| *name == message).map(|(_, times)| times)
    }
}

/// Returns the section on the steps.
pub(super) fn section(results: &StepResults) -> Result<Section> {
    let mut section = Section::default();
    section.heading("Checkpoint 3: the steps of a message");
    explain(&mut section, results);
    let mhz = Environment::of_this_machine().mhz;
    let theirs = published::number("budapest.cpu_mhz").context("the clock of the paper")?;
    let mut table = Table::new(
        "message-steps-published",
        "Steps of Tables 3 to 8",
        &["message", "step", "us", "published us", "cycles", "published cycles", "different here"],
    );
    for one in counterparts() {
        let key = format!("budapest.{}", one.key);
        let estimate = results
            .times(one.protocol, one.message)
            .and_then(|times| times.estimate(Steps::of(one.steps)))
            .with_context(|| format!("{key} was not measured"))?;
        let then = published::number(&key).with_context(|| format!("{key} was not published"))?;
        let step = one.key.rsplit('.').next().unwrap_or(one.key).replace('_', " ");
        table.row([
            format!("{} {}", one.protocol.name(), one.message).into(),
            step.into(),
            estimate.into(),
            then.into(),
            mhz.map(|mhz| estimate.times(mhz)).into(),
            (then * theirs).into(),
            Cell::Text(one.note.unwrap_or_default().to_owned()),
        ]);
        section.entries(key, "us", [estimate], one.note);
    }
    section.table(table);
    section.leave_out(
        "budapest.table6_rsvp_path_tear_steps.find_session",
        "a sender is found by session and template in one look, which stands under search_psb",
    );
    section.table(all_steps(results, mhz));
    Ok(section)
}

fn explain(section: &mut Section, results: &StepResults) {
    let marks = Estimate::of(&results.marks_ns);
    let (least, most) = marks.map_or((0.0, 0.0), |marks| (marks.low, marks.high));
    section.text(format!(
        "One router without I/O, with ten sessions, is handed {} messages of each kind, {BATCH} in each of {ROUNDS} rounds that lie \
         apart in time; each round has a fresh router on a fresh thread, warms up with as many messages, and gives the mean of its batch without the least and the greatest tenth. Marks \
         in the engines stamp the end of each step with the processor's own counter. A mark took {least:.1} to {most:.1} ns in \
         this run, measured in each round, and is taken off each step, so that steps of a few nanoseconds are known to a few \
         nanoseconds only. As in the paper only active time counts: rounds in which the thread lost its processor were done \
         again ({} times; {} were disturbed each time, and count).",
        ROUNDS * BATCH,
        results.again,
        results.disturbed
    ));
    section.text(
        "The paper profiled the daemon of ISI (RSVP) and the kernel module of Telia (Boomerang) on a Pentium II. What took longest \
         there were the steps in which a daemon spoke with its kernel: the route was asked for, and traffic control was told of \
         reservations. Here routes are a table of the daemon's own, which follows the kernel's, so that to look one up is a step \
         like others; and traffic control is told after the message was treated, so that no step has it. What is left are \
         look-ups in hash tables, a few blocks of memory, and composing what is sent on.",
    );
}

/// Table of each step of each message, including those without a published counterpart.
fn all_steps(results: &StepResults, mhz: Option<f64>) -> Table {
    let mut table = Table::new(
        "message-steps",
        "Every step of every message; YESSIR and NSIS, and refreshes, are additions to the paper",
        &["protocol", "message", "step", "us", "cycles", "share %"],
    );
    for (protocol, messages) in &results.times {
        for (name, times) in messages {
            let Some(whole) = times.estimate(Steps::ALL) else { continue };
            let mut row = |step: &str, estimate: Estimate| {
                table.row([
                    protocol.name().into(),
                    (*name).into(),
                    step.into(),
                    estimate.into(),
                    mhz.map(|mhz| estimate.times(mhz)).into(),
                    (100.0 * estimate.median / whole.median).round().into(),
                ]);
            };
            for &checkpoint in times.order() {
                let Some(estimate) = times.estimate(Steps::of(&[checkpoint])) else { continue };
                row(&step_name(checkpoint), estimate);
            }
            row("all of it", whole);
        }
    }
    table
}
