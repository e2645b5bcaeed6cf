//! Largest loads of state-changing messages without a loss at one router, by the methodology of RFC 4883's authors:
//! the largest burst, and the largest sustained rate.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon; s and d are threads of this program
//! ```
//!
//! Set-ups and releases go in pairs, so that the number of sessions stays the same. A load goes through if every
//! message was answered, or arrived at the other end, and no buffer overflowed. One processor serves all of it, or
//! the daemon has one and the ends share the other.
//!
//! - [`load`](mod@load): the offered load.
//! - [`message_writer`], [`nsis`](mod@nsis): the messages of each protocol, written in advance ([`message_cache`]) as far as
//!   possible.
//! - [`sender`], [`destination`]: the two ends.
//! - [`line`](mod@line): the network, and the assignment of processors.

mod destination;
pub mod line;
pub mod load;
mod message_cache;
mod message_writer;
mod nsis;
pub mod sender;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Supervision;
use super::router::Protocol;
use super::search::Search;
use line::{Line, Processors};
use load::Load;
use sender::Sender;

/// Parameters of the measurement of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Assignment of processors.
    pub processors: Processors,
    /// Search range of bursts, in sessions; `None` to skip bursts.
    pub bursts: Option<Search>,
    /// Search range of rates, in pairs of a set-up and a release a second.
    pub rates: Search,
    /// Duration of each attempt at a rate.
    pub window: Duration,
    /// Duration for which the largest rate has to hold; a rate that does not is lowered by a fifth.
    pub held: Duration,
    /// Number of searches for a rate.
    pub repetitions: u32,
    /// Duration of a final attempt at a rate; `None` to skip it.
    pub sustained: Option<Duration>,
}

/// Result of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Protocol of the messages.
    pub protocol: Protocol,
    /// Assignment of processors.
    pub processors: Processors,
    /// Largest burst of set-ups without a loss.
    pub burst: Option<u32>,
    /// Whether that was the largest burst of the search range.
    pub is_more: bool,
    /// Rates that held, one for each repetition with a result.
    pub held: Vec<Held>,
    /// Rate of the final attempt.
    pub sustained: Option<Held>,
}

/// A rate that held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Pairs of a set-up and a release a second.
    pub rate: f64,
    /// Processor time of the daemon, microseconds a pair.
    pub pair_us: f64,
    /// Share of one processor that the daemon took, 0 to 1.
    pub processor: f64,
}

/// Measures a protocol with one plan after the other, on a network of their own.
///
/// # Errors
/// The network cannot be built, or a process of it ends.
pub fn measure(
    protocol: Protocol,
    plans: &[Plan],
    supervision: &Supervision<'_>,
) -> Result<Vec<Rates>> {
    supervision.watcher.begin("the network starts", 1);
    let line = Line::up(protocol, line::NEVER)?;
    let one = |plan: &Plan| {
        line.pin(plan.processors)?;
        line.with_ends(plan.processors, |sender| repeat(&line, sender, protocol, plan, supervision))
    };
    plans.iter().map(one).collect()
}

/// Factor by which a rate that does not hold is lowered.
const FALL: f64 = 0.8;
/// Largest number of attempts: a rate far below the first is not a result.
const ATTEMPTS: i32 = 8;
/// Largest number of attempts that take a minute each.
const LONG_ATTEMPTS: i32 = 3;
/// Refresh period of sessions in [`steady_state`].
const REFRESH: Duration = Duration::from_secs(1);
/// Time longer than the lifetime of unrefreshed state, with three refreshes that may be lost: (3 + 0.5) 1.5 R (RFC
/// 2205 section 3.7).
const TIME_OUT: Duration = Duration::from_secs(6);

/// Largest number of sessions that all survive one state lifetime with a refresh every second, on two processors if
/// available; each search has a network of its own.
///
/// # Errors
/// The errors of [`measure`].
pub fn steady_state(
    protocol: Protocol,
    search: Search,
    supervision: &Supervision<'_>,
) -> Result<u32> {
    supervision.watcher.begin("the network starts", 1);
    let line = Line::up(protocol, REFRESH)?;
    let processors = Processors::available().first().copied().unwrap_or(Processors::One);
    line.pin(processors)?;
    line.with_ends(processors, |sender| {
        search.largest(|count| survives(&line, sender, protocol, count, supervision))
    })
}

/// Returns whether all of `count` sessions survive a state lifetime.
fn survives(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    count: u32,
    supervision: &Supervision<'_>,
) -> Result<bool> {
    supervision.watcher.begin(&format!("{count} sessions are refreshed every second"), 1);
    let in_time = sender.hold_sessions(count, TIME_OUT, supervision)?;
    let hold_sessions = in_time && line.claims()? >= count * protocol.claims_of_a_session();
    sender.release(count, supervision)?;
    Ok(hold_sessions)
}

fn repeat(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Rates> {
    let mut offer = |load| attempt(line, sender, load, supervision);
    // The first messages may include initialization.
    offer(Load::Burst(100))?;
    let mut largest_burst =
        |search: Search| search.largest(|count| Ok(offer(Load::Burst(count))?.is_some()));
    let burst = plan.bursts.map(&mut largest_burst).transpose()?;
    let is_more = plan.bursts.zip(burst).is_some_and(|(bursts, burst)| burst > bursts.last / 2);
    let (mut search, mut found) = (plan.rates, Vec::new());
    for _ in 0..plan.repetitions.max(1) {
        let window = plan.window;
        let largest = search.largest(|rate| Ok(offer(Load::Rate { rate, window })?.is_some()))?;
        let Some(held) = hold(&mut offer, largest, plan.held, ATTEMPTS)? else { continue };
        found.push(held);
        // The other searches begin a little below the first result.
        search.first = (held.rate * FALL) as u32;
    }
    let sustained = match (plan.sustained, lowest(&found)) {
        (Some(how_long), Some(rate)) => hold(&mut offer, rate, how_long, LONG_ATTEMPTS)?,
        _ => None,
    };
    Ok(Rates { protocol, processors: plan.processors, burst, is_more, held: found, sustained })
}

/// Returns the lowest of some rates, pairs a second.
fn lowest(held: &[Held]) -> Option<u32> {
    held.iter().map(|held| held.rate as u32).min()
}

/// Searches downwards from a rate for one that holds; returns `None` if none of `attempts` does.
fn hold(
    offer: &mut impl FnMut(Load) -> Result<Option<f64>>,
    largest: u32,
    how_long: Duration,
    attempts: i32,
) -> Result<Option<Held>> {
    for attempt in 0..attempts {
        let rate = (f64::from(largest) * FALL.powi(attempt)) as u32;
        if rate == 0 {
            break;
        }
        if let Some(pair_us) = offer(Load::Rate { rate, window: how_long })? {
            let rate = f64::from(rate);
            // The cost is that of the window alone, without the wait for the last answers.
            return Ok(Some(Held { rate, pair_us, processor: pair_us * rate / 1e6 }));
        }
    }
    Ok(None)
}

/// Returns the daemon's cost of a load, microseconds a session; `None` if the load did not go through.
fn attempt(
    line: &Line,
    sender: &mut Sender<'_>,
    load: Load,
    supervision: &Supervision<'_>,
) -> Result<Option<f64>> {
    supervision.check_interrupted()?;
    supervision.watcher.begin(&load.describe(), 1);
    let (lost, before) = (line.lost()?, line.sample()?);
    let result = sender.offer(load, supervision)?;
    let (after, is_lost) = (line.sample()?, line.lost()? != lost);
    let spent = after.processor.saturating_sub(before.processor);
    let sessions = (result.sent / 2).max(1) as f64;
    let session_us = spent.as_secs_f64() * 1e6 / sessions;
    let is_through = result.is_whole() && !is_lost && load.can_go_on(session_us);
    Ok(is_through.then_some(session_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_lowered_until_it_holds() {
        let mut tried = Vec::new();
        let mut below = |limit| {
            let how_long = Duration::from_secs(1);
            let mut offer = |load| {
                let Load::Rate { rate, window } = load else { panic!("{load:?}") };
                assert_eq!(window, how_long);
                tried.push(rate);
                Ok((rate <= limit).then_some(20.0))
            };
            hold(&mut offer, 10_000, how_long, 4).unwrap()
        };
        let held = below(7_000).expect("the third rate holds");
        assert_eq!((held.rate, held.pair_us), (6_400.0, 20.0));
        assert!((held.processor - 0.128).abs() < 1e-9);
        assert_eq!(below(0), None);
        assert_eq!(tried, [10_000, 8_000, 6_400, 10_000, 8_000, 6_400, 5_120]);
    }
}
