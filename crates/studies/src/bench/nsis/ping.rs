//! Throughput of Ping NSLP over existing routing state: largest rate without a loss.
//!
//! Each ping goes from h1 to h2 and back, so every router handles it twice. The search doubles the rate until one is
//! not sustained, then halves the interval between that and the last sustained one a few times. A rate is sustained
//! if every ping came back and the first host kept the pace closely enough.
//!
//! The pings of one rate come from many applications, each with a session and so with routing state of its own. They
//! begin one after the other, over a second; the window begins when all have begun.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::super::Supervision;
use super::super::search::Search;
use super::sender::{PingEvent, Sender};
use super::{Chain, Times};

/// Pings a second of each application. Timers have a resolution: the more often one fires, the more of its pace is
/// lost.
const RATE_OF_ONE: u32 = 20;
/// Time over which the applications of a rate begin.
const RAMP: Duration = Duration::from_secs(1);
/// Timeout of a ping.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of progress reports.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Search range, pings a second.
const SEARCH: Search = Search { first: 1_000, last: 100_000, step: RATE_OF_ONE, halvings: 3 };
/// Share of a rate that has to come back.
const PACE: f64 = 0.9;

/// Result of one rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateResult {
    /// Pings a second offered.
    pub offered: u32,
    /// Pings a second answered.
    pub rate: f64,
    /// Pings without an answer.
    pub lost: u64,
    /// Round-trip times from the first host to the last and back.
    pub round_trips: Times,
    /// Share of one processor that the first router's daemon took, 0 to 1.
    pub processor: f64,
    /// Processor time of that daemon for one message, in and out, microseconds; each ping passes it twice.
    pub message_us: f64,
    /// Messages a second that a daemon could forward with a processor of its own, by `message_us`.
    pub per_core: f64,
    /// Whether every ping came back in time.
    pub sustained: bool,
}

/// Results of all rates on one chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pings {
    /// Hops from host to host.
    pub hops: usize,
    /// Results in the order of the attempts.
    pub steps: Vec<RateResult>,
}

impl Pings {
    /// Returns the largest sustained rate.
    pub fn best(&self) -> Option<&RateResult> {
        self.steps.iter().filter(|step| step.sustained).max_by_key(|step| step.offered)
    }
}

/// Searches for the largest rate on a chain of `hops` hops; each attempt takes `window`.
///
/// # Errors
/// A process of the chain ends.
pub fn measure_on(
    chain: &Chain,
    hops: usize,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<Pings> {
    let steps = chain.in_first_host(|sender| {
        sender.serve_timers_exactly();
        let mut steps = Vec::new();
        SEARCH.largest(|rate| {
            let step = attempt(chain, sender, rate, window, supervision)?;
            let sustained = step.sustained;
            steps.push(step);
            Ok(sustained)
        })?;
        Ok(steps)
    })?;
    Ok(Pings { hops, steps })
}

/// Tries one rate on a chain, for `window`.
///
/// # Errors
/// A process of the chain ends.
pub fn attempt_on(
    chain: &Chain,
    rate: u32,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<RateResult> {
    chain.in_first_host(|sender| {
        sender.serve_timers_exactly();
        attempt(chain, sender, rate, window, supervision)
    })
}

fn attempt(
    chain: &Chain,
    sender: &mut Sender,
    rate: u32,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<RateResult> {
    let applications = (rate / RATE_OF_ONE).max(1);
    let interval = Duration::from_secs(1) / RATE_OF_ONE;
    // The last application to begin covers the window and a little more.
    let span = RAMP + window + RAMP / 2;
    let each = (span.as_secs_f64() * f64::from(RATE_OF_ONE)).ceil() as u32;
    supervision.watcher.begin(&format!("{rate} pings a second"), applications.into());
    let mut counts = PingCounts::default();
    let start = sender.now();
    for number in 0..applications {
        sender.ping(Some(each), interval, TIMEOUT);
        let due = start + RAMP * (number + 1) / applications;
        sender.run_until(due, &mut |event| counts.take(&event))?;
    }
    let (before, begun) = (chain.sample(1)?, counts.back);
    counts.is_counted = true;
    let start = sender.now();
    sender.run_until(start + window, &mut |event| counts.take(&event))?;
    counts.is_counted = false;
    let seconds = sender.now().since(start).as_secs_f64();
    let (after, back) = (chain.sample(1)?, counts.back - begun);
    let give_up = sender.now() + window * 4 + TIMEOUT * 2;
    while counts.finished < applications && sender.now() < give_up {
        let until = sender.now() + MAX_WAIT;
        sender.run_until(until, &mut |event| counts.take(&event))?;
        supervision.watcher.reached(counts.finished.into());
        supervision.check_interrupted()?;
    }
    let processor = after.processor.saturating_sub(before.processor).as_secs_f64();
    let message_us = processor * 1e6 / (2 * back).max(1) as f64;
    let lost = u64::from(applications) * u64::from(each) - counts.back;
    let achieved = back as f64 / seconds;
    Ok(RateResult {
        offered: rate,
        rate: achieved,
        lost,
        round_trips: Times::of(counts.round_trips),
        processor: processor / seconds,
        message_us,
        per_core: 1e6 / message_us.max(1e-9),
        sustained: lost == 0 && achieved >= f64::from(rate) * PACE,
    })
}

/// Counts of the pings of one rate.
#[derive(Default)]
struct PingCounts {
    back: u64,
    finished: u32,
    /// Whether the window is open, in which round trips count.
    is_counted: bool,
    round_trips: Vec<Duration>,
}

impl PingCounts {
    fn take(&mut self, event: &PingEvent) {
        match *event {
            PingEvent::Back { round_trip } => {
                self.back += 1;
                if self.is_counted {
                    self.round_trips.push(round_trip);
                }
            }
            PingEvent::Lost => {}
            PingEvent::Finished => self.finished += 1,
        }
    }
}
