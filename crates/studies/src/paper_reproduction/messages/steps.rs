//! Steps of messages on a router without I/O (Tables 3 to 8): the time of each step, message by message.
//!
//! A round has a router of its own, with a few sessions, and a batch of sessions that are set up, refreshed and
//! released again, once to warm up and once to be timed. For each kind of message and each step a round gives the
//! mean of its batch, without the lowest and the highest tenth: the counter may be coarser than a step, so that a
//! median would be a multiple of its resolution.

mod published;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::bench::Supervision;
use crate::bench::router::{Protocol, Router};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::checkpoint_trace::{CheckpointTracing, Clock, by_message, record};
use crate::paper_reproduction::repeated::{on_new_thread, run_rounds};
use crate::paper_reproduction::section::Section;
use crate::paper_reproduction::steps::Times;

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
    published::section(&results)
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
        times.note(&messages, clock, &published::groups(protocol, name));
    }
    Ok(true)
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
        let section = published::section(&results).unwrap();
        let is_covered = |key: &str| {
            section.entries.iter().any(|entry| entry.key == key)
                || section.left_out.iter().any(|(other, _)| other == key)
        };
        for (key, _) in crate::paper_reproduction::published::measurements() {
            let (_, table) = key.split_once('.').unwrap_or_default();
            let is_ours = (3..=8).any(|number| table.starts_with(&format!("table{number}_")));
            assert!(!key.starts_with("budapest.") || !is_ours || is_covered(key), "{key}");
        }
    }
}
