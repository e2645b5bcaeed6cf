//! Messages of Ping NSLP at a steady rate over routing state that is there: how many go through without a loss?
//!
//! Each goes from h1 to h2 and back, so every router handles it twice. Rates are tried, each twice the one before, until one
//! does not go through; then the middle between that and the last one that did, some times. A rate goes through if every
//! ping came back, and the first host could about keep the pace.
//!
//! The pings of one rate come from many applications, each with a session and so with routing state of its own. They begin one
//! after the other, over a second; the window begins when all have.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::super::Supervision;
use super::super::search::Search;
use super::sender::{Pinged, Sender};
use super::{Chain, Times};

/// Pings a second of each application. Timers have their ticks: the more often one fires, the more of its pace is lost.
const RATE_OF_ONE: u32 = 20;
/// In what time the applications of a rate begin.
const RAMP: Duration = Duration::from_secs(1);
/// How long one ping may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often progress is told.
const NAP: Duration = Duration::from_millis(50);
/// Rates, pings a second.
const SEARCH: Search = Search { first: 1_000, last: 100_000, step: RATE_OF_ONE, halvings: 3 };
/// How much of a rate has to come back to be that rate.
const PACE: f64 = 0.9;

/// One rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Pings a second that were asked for.
    pub offered: u32,
    /// Pings a second that came back.
    pub rate: f64,
    /// How many did not.
    pub lost: u64,
    /// From the first host to the last and back.
    pub round_trips: Times,
    /// Share of one processor that the first router's daemon took, 0 to 1.
    pub processor: f64,
    /// Processor time of that daemon for one message, in and out again, microseconds; each ping comes by twice.
    pub message_us: f64,
    /// Messages a second that a daemon could send on with one processor to itself, by that.
    pub per_core: f64,
    /// Whether every one came back, in time.
    pub sustained: bool,
}

/// All that was tried on one chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pings {
    /// From host to host.
    pub hops: usize,
    /// In the order in which they were tried.
    pub steps: Vec<Step>,
}

impl Pings {
    /// The largest rate that was sustained.
    pub fn best(&self) -> Option<&Step> {
        self.steps.iter().filter(|step| step.sustained).max_by_key(|step| step.offered)
    }
}

/// Looks for the largest rate on a chain of so many hops; each is tried for so long.
///
/// # Errors
/// Something in the chain ends.
pub fn measure_on(
    chain: &Chain,
    hops: usize,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<Pings> {
    let steps = chain.in_first_host(|sender| {
        sender.be_exact();
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

/// Tries one rate on a chain, for so long.
///
/// # Errors
/// Something in the chain ends.
pub fn attempt_on(
    chain: &Chain,
    rate: u32,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<Step> {
    chain.in_first_host(|sender| {
        sender.be_exact();
        attempt(chain, sender, rate, window, supervision)
    })
}

fn attempt(
    chain: &Chain,
    sender: &mut Sender,
    rate: u32,
    window: Duration,
    supervision: &Supervision<'_>,
) -> Result<Step> {
    let applications = (rate / RATE_OF_ONE).max(1);
    let interval = Duration::from_secs(1) / RATE_OF_ONE;
    // Until the last to begin has seen the window pass, and a little longer.
    let span = RAMP + window + RAMP / 2;
    let each = (span.as_secs_f64() * f64::from(RATE_OF_ONE)).ceil() as u32;
    supervision.watcher.begin(&format!("{rate} pings a second"), applications.into());
    let mut course = Course::default();
    let start = sender.now();
    for number in 0..applications {
        sender.ping(Some(each), interval, TIMEOUT);
        let due = start + RAMP * (number + 1) / applications;
        sender.go_on_until(due, &mut |pinged| course.take(&pinged))?;
    }
    let (before, begun) = (chain.sample(1)?, course.back);
    course.is_counted = true;
    let start = sender.now();
    sender.go_on_until(start + window, &mut |pinged| course.take(&pinged))?;
    course.is_counted = false;
    let seconds = sender.now().since(start).as_secs_f64();
    let (after, back) = (chain.sample(1)?, course.back - begun);
    let give_up = sender.now() + window * 4 + TIMEOUT * 2;
    while course.finished < applications && sender.now() < give_up {
        let until = sender.now() + NAP;
        sender.go_on_until(until, &mut |pinged| course.take(&pinged))?;
        supervision.watcher.reached(course.finished.into());
        supervision.go_on()?;
    }
    let processor = after.processor.saturating_sub(before.processor).as_secs_f64();
    let message_us = processor * 1e6 / (2 * back).max(1) as f64;
    let lost = u64::from(applications) * u64::from(each) - course.back;
    let achieved = back as f64 / seconds;
    Ok(Step {
        offered: rate,
        rate: achieved,
        lost,
        round_trips: Times::of(course.round_trips),
        processor: processor / seconds,
        message_us,
        per_core: 1e6 / message_us.max(1e-9),
        sustained: lost == 0 && achieved >= f64::from(rate) * PACE,
    })
}

/// What has become of the pings of one rate.
#[derive(Default)]
struct Course {
    back: u64,
    finished: u32,
    /// Whether it is the window, of which round trips are kept.
    is_counted: bool,
    round_trips: Vec<Duration>,
}

impl Course {
    fn take(&mut self, pinged: &Pinged) {
        match *pinged {
            Pinged::Back { round_trip } => {
                self.back += 1;
                if self.is_counted {
                    self.round_trips.push(round_trip);
                }
            }
            Pinged::Lost => {}
            Pinged::Finished => self.finished += 1,
        }
    }
}
