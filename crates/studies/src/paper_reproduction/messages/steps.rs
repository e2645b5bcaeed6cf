//! Steps of messages in the engines alone: the time of each step, message by message, on a router without I/O, traffic
//! control and routes of a kernel. The published steps have these, so none stands beside them.
//!
//! A round has a router of its own, with a few sessions, and a batch of sessions that are set up, refreshed and
//! released again, once to warm up and once to be timed. For each kind of message and each step a round gives the
//! mean of its batch, without the lowest and the highest tenth: the counter may be coarser than a step, so that a
//! median would be a multiple of its resolution.

use std::time::Duration;

use anyhow::{Result, ensure};
use earmark_core::checkpoint::Checkpoint;

use crate::bench::Supervision;
use crate::bench::router::{Protocol, Router};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::checkpoint_trace::{CheckpointTracing, Clock, by_message, record};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::repeated::{on_new_thread, run_rounds};
use crate::paper_reproduction::section::{Axis, Estimate, Figure, Kind, Section, Series, Table};
use crate::paper_reproduction::steps::{Steps, Times, step_name};

/// Number of rounds, each with a router of its own.
const ROUNDS: u32 = 8;
/// Number of messages of each kind in a round: 304 in all.
const BATCH: u32 = 38;
/// Number of resident sessions of the router.
const RESIDENT: u32 = 10;
/// Largest number of tries of a round, which is repeated if the thread lost its processor. If that does not help, the
/// report says so, and each mean relies on the tenth that is left out.
pub(super) const TRIES: u32 = 10;

/// Results of the rounds.
struct StepResults {
    /// Times by protocol and by name of the message.
    times: Vec<(Protocol, Vec<(&'static str, Times)>)>,
    /// Cost of a mark, round by round, nanoseconds.
    marks_ns: Vec<f64>,
    /// Number of repeated rounds.
    again: u32,
    /// Number of rounds that were disturbed each time.
    disturbed: u32,
}

/// Measures and describes the steps.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    // Intervals between rounds make them sample the machine at different times.
    let apart = Duration::from_millis(if order.quick { 2_000 } else { 3_000 });
    let results = rounds(ROUNDS, apart, supervision)?;
    Ok(section(&results))
}

fn rounds(rounds: u32, apart: Duration, supervision: &Supervision<'_>) -> Result<StepResults> {
    supervision.watcher.begin("messages: their steps", rounds.into());
    let marks = CheckpointTracing::begin();
    let mut clock = Clock::calibrate(&marks)?;
    let nothing = |protocol: Protocol| {
        let names =
            protocol.messages_of_both_ends().into_iter().map(|kind| (kind.name, Times::default()));
        (protocol, names.collect())
    };
    let times = Protocol::RESERVING.into_iter().map(nothing).collect();
    let mut results = StepResults { times, marks_ns: Vec::new(), again: 0, disturbed: 0 };
    run_rounds(rounds, apart, supervision, |_| {
        clock.measure_mark_cost(&marks)?;
        results.marks_ns.push(clock.mark_ns());
        for (protocol, times) in &mut results.times {
            supervision.check_interrupted()?;
            let mut tries = 1;
            while !on_new_thread(|| round(*protocol, &marks, &clock, times, tries < TRIES))? {
                tries += 1;
            }
            results.again += tries - 1;
            results.disturbed += u32::from(tries == TRIES);
        }
        Ok(())
    })?;
    Ok(results)
}

/// Runs one round of a protocol. Returns `false`, and records nothing, if an undisturbed round is required and this
/// one was disturbed.
fn round(
    protocol: Protocol,
    marks: &CheckpointTracing,
    clock: &Clock,
    times: &mut [(&'static str, Times)],
    undisturbed: bool,
) -> Result<bool> {
    let mut router = Router::with_sessions(protocol, RESIDENT, |_| {});
    let kinds = protocol.messages_of_both_ends();
    let mut stamps = Vec::new();
    let mut noted = Vec::new();
    for warm in [false, true] {
        noted.clear();
        for kind in &kinds {
            let of = |number| kind.of(&router, RESIDENT + number, u32::from(warm));
            let arrivals: Vec<_> = (0..BATCH).map(of).collect();
            let deliver = || router.deliver_all(&arrivals);
            let ((), is_undisturbed) = record(marks, &mut stamps, deliver)?;
            if warm && undisturbed && !is_undisturbed {
                return Ok(false);
            }
            noted.push(stamps.clone());
        }
        let left = router.sessions(protocol);
        ensure!(left == RESIDENT as usize, "{left} sessions are left of {}", protocol.name());
    }
    for ((name, times), stamps) in times.iter_mut().zip(&noted) {
        let messages: Vec<_> = by_message(stamps).collect();
        ensure!(messages.len() == BATCH as usize, "{} of {BATCH} of {name}", messages.len());
        times.note(&messages, clock, &[]);
    }
    Ok(true)
}

/// Returns the section on the steps of the engines.
fn section(results: &StepResults) -> Section {
    let mut section = Section::default();
    section.heading("The steps of the engines alone");
    explain(&mut section, results);
    for (protocol, messages) in &results.times {
        section.figure(figure(*protocol, messages));
    }
    section.table(all_steps(results, Environment::of_this_machine().mhz));
    section
}

/// Draws the steps of a protocol's messages, in the order of their first occurrence.
fn figure(protocol: Protocol, messages: &[(&'static str, Times)]) -> Figure {
    let mut steps: Vec<Checkpoint> = Vec::new();
    for step in messages.iter().flat_map(|(_, times)| times.order()) {
        if !steps.contains(step) {
            steps.push(*step);
        }
    }
    let series = messages.iter().map(|(name, times)| {
        let points = steps.iter().enumerate().filter_map(|(place, step)| {
            Some(times.estimate(Steps::of(&[*step]))?.at(place as f64))
        });
        Series::measured(*name, points)
    });
    let names: Vec<String> = steps.iter().map(|step| step_name(*step)).collect();
    Figure {
        name: format!("message-steps-{}", protocol.name().to_lowercase()),
        title: format!("{}: steps of the engine alone", protocol.name()),
        across: Axis::named("step", &names),
        up: Axis::linear("us"),
        kind: Kind::Dots,
        series: series.collect(),
    }
}

fn explain(section: &mut Section, results: &StepResults) {
    let marks = Estimate::of(&results.marks_ns);
    let (least, most) = marks.map_or((0.0, 0.0), |marks| (marks.low, marks.high));
    section.text(format!(
        "What the steps take without a kernel: no socket, no traffic control, and routes that never change. One router without I/O, with ten sessions, is handed {} messages of each kind, {BATCH} in each of {ROUNDS} rounds that lie \
         apart in time; each round has a fresh router on a fresh thread, warms up with as many messages, and gives the mean of its batch without the least and the greatest tenth. Marks \
         in the engines stamp the end of each step with the processor's own counter. A mark took {least:.1} to {most:.1} ns in \
         this run, measured in each round, and is taken off each step, so that steps of a few nanoseconds are known to a few \
         nanoseconds only. Only active time counts: rounds in which the thread lost its processor were done \
         again ({} times; {} were disturbed each time, and count).",
        ROUNDS * BATCH,
        results.again,
        results.disturbed
    ));
    section.text(
        "No published figure stands beside these: the published steps were measured in daemons that asked their kernel for routes and told \
         it of reservations. What is left here are look-ups in hash tables, a few blocks of memory, and composing what is sent on.",
    );
}

/// Table of each step of each message, including those without a published counterpart.
fn all_steps(results: &StepResults, mhz: Option<f64>) -> Table {
    let mut table = Table::new(
        "message-steps",
        "Every step of every message in the engines alone",
        &["protocol", "message", "step", "us", "cycles", "share %"],
    );
    for (protocol, messages) in &results.times {
        for (name, times) in messages {
            let Some(whole) = times.estimate(Steps::ALL) else { continue };
            let mut row = |step: &str, estimate: &Estimate| {
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
                row(&step_name(checkpoint), &estimate);
            }
            row("all of it", &whole);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use earmark_core::checkpoint::Checkpoint;

    use super::*;
    use crate::paper_reproduction::steps::Steps;

    /// The steps add up to the whole, and a new Path has exactly those of the papers.
    #[test]
    fn every_message_has_steps_that_add_up() {
        let supervision = Supervision::unwatched();
        let results = rounds(2, Duration::ZERO, &supervision).unwrap();
        for (protocol, times) in &results.times {
            for (name, times) in times {
                let all = times.of(Steps::ALL).unwrap();
                assert!(all.len() == 2 && all.iter().all(|&us| us > 0.0), "{name}: {all:?}");
                assert_eq!(times.order().last(), Some(&Checkpoint::End), "{name}");
                assert!(times.order().len() > 1, "{} {name} has no steps", protocol.name());
            }
        }
        let (_, rsvp) = &results.times[0];
        let order: Vec<_> = rsvp[0].1.order().iter().map(|step| step.name()).collect();
        let steps = ["parse", "search_psb", "route", "find_session", "create_session"];
        assert_eq!(order[..5], steps);
        assert_eq!(order[5..], ["create_psb", "path_refresh", "end"]);
        let section = section(&results);
        assert!(section.entries.is_empty(), "the published steps do other work");
    }
}
