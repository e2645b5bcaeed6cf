//! Random sequences of requests, route changes, losses and restarts in a network of six nodes, compared with a reference
//! model of GIST and QoS NSLP that is written from the RFCs: see [`expectation`].
//!
//! `EARMARK_NSIS_MODEL_CASES` is the number of sequences, `EARMARK_NSIS_MODEL_SEED` the seed of the first one. A sequence
//! that fails is reported with its seed and with the steps that are necessary for the failure.

mod case;
mod expectation;
mod invariants;
mod log;
mod play;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::case::Case;
use self::play::play;

/// Number of sequences by default.
const CASES: u64 = 200;
/// Number of failing sequences that are reported.
const MAX_REPORTED: usize = 20;

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Plays a case; returns what is wrong.
fn failure_of(case: &Case) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| play(case))) {
        Ok(result) => result.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Some(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// Removes steps without which the case still fails.
fn minimal(mut case: Case) -> Case {
    let mut length = case.steps.len() / 2;
    while length > 0 {
        let mut from = 0;
        while from < case.steps.len() {
            let mut shorter = case.clone();
            shorter.steps.drain(from..(from + length).min(case.steps.len()));
            if failure_of(&shorter).is_some() {
                case = shorter;
            } else {
                from += length;
            }
        }
        length /= 2;
    }
    case
}

fn report(case: &Case) -> String {
    let least = minimal(case.clone());
    self::log::start();
    let failure = failure_of(&least).unwrap_or_default();
    self::log::stop();
    let steps: Vec<String> = least.steps.iter().map(|step| format!("    {step:?}")).collect();
    format!(
        "seed {}, {:?}, {:?}\n{}\n  {failure}",
        case.seed,
        case.family,
        case.variant,
        steps.join("\n")
    )
}

#[test]
fn network_agrees_with_the_model() {
    let first = number("EARMARK_NSIS_MODEL_SEED", 0);
    let cases = number("EARMARK_NSIS_MODEL_CASES", CASES);
    let failing: Vec<Case> =
        (first..first + cases).map(Case::of).filter(|case| failure_of(case).is_some()).collect();
    let reports: Vec<String> = failing.iter().take(MAX_REPORTED).map(report).collect();
    let seeds: Vec<u64> = failing.iter().map(|case| case.seed).collect();
    assert!(
        failing.is_empty(),
        "{} of {cases} fail: {seeds:?}\n{}",
        seeds.len(),
        reports.join("\n")
    );
}
