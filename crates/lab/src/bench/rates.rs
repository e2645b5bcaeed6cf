//! Loads of state-changing messages that one router takes without a loss, by the methodology of RFC 4883's authors: the largest
//! burst, and the largest rate that is sustained.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon; s and d are threads of this program
//! ```
//!
//! Set-ups and releases go in pairs, so that the number of sessions stays the same. A load goes through if whatever was sent was
//! answered, or came to the other end, and nobody's buffer ran over. All of it is served by one processor, or the daemon has one
//! and the ends the other.
//!
//! - [`load`](mod@load): what is offered.
//! - [`speaker`], [`nsis`](mod@nsis): the messages of each protocol, written beforehand ([`prepared`]) as far as they can be.
//! - [`ends`], [`destination`]: the two ends.
//! - [`line`](mod@line): the network, and who runs on which processor.

mod destination;
pub mod ends;
pub mod line;
pub mod load;
mod nsis;
mod prepared;
pub mod speaker;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Supervision;
use super::search::Search;
use ends::Sender;
use line::{Line, Processors};
use load::Load;
use speaker::Protocol;

/// What to measure of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Who runs where.
    pub processors: Processors,
    /// Which bursts are tried, in sessions; `None` for none.
    pub bursts: Option<Search>,
    /// Which rates are tried, in pairs of a set-up and a release a second.
    pub rates: Search,
    /// For how long each rate is tried.
    pub window: Duration,
    /// For how long the largest one has to hold; a fifth less is tried as long as it does not.
    pub held: Duration,
    /// How often rates are looked for.
    pub repetitions: u32,
    /// For how long a rate has to hold in the end, once; `None` where that is not tried.
    pub sustained: Option<Duration>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Whose messages.
    pub protocol: Protocol,
    /// Who ran where.
    pub processors: Processors,
    /// Set-ups that came at once.
    pub burst: Option<u32>,
    /// Whether that was the largest burst that was tried.
    pub is_more: bool,
    /// The rates that held, one of each repetition in which one did.
    pub held: Vec<Held>,
    /// The rate that held in the end.
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

/// Makes measurements of a protocol, one after the other on a network of their own.
///
/// # Errors
/// The network cannot be built, or something in it ends.
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

/// A rate that does not hold is lowered by this.
const FALL: f64 = 0.8;
/// How often it is lowered, at most: a rate far below the first is none. And where each attempt takes a minute.
const ATTEMPTS: i32 = 8;
const LONG_ATTEMPTS: i32 = 3;
/// The refresh period of sessions that are to stand.
const REFRESH: Duration = Duration::from_secs(1);
/// Longer than state without a refresh holds, with three refreshes that may be lost: (3 + 0.5) 1.5 R (RFC 2205 section 3.7).
const TIME_OUT: Duration = Duration::from_secs(6);

/// The largest number of sessions of which all stand after a time-out in which they were refreshed every second, on two
/// processors where there are as many; each search is of its own.
///
/// # Errors
/// As of [`measure`].
pub fn standing(protocol: Protocol, search: Search, supervision: &Supervision<'_>) -> Result<u32> {
    supervision.watcher.begin("the network starts", 1);
    let line = Line::up(protocol, REFRESH)?;
    let processors = Processors::available().first().copied().unwrap_or(Processors::One);
    line.pin(processors)?;
    line.with_ends(processors, |sender| {
        search.largest(|count| stands(&line, sender, protocol, count, supervision))
    })
}

/// Whether so many sessions all stand after a time-out.
fn stands(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    count: u32,
    supervision: &Supervision<'_>,
) -> Result<bool> {
    supervision.watcher.begin(&format!("{count} sessions are refreshed every second"), 1);
    let in_time = sender.stand(count, TIME_OUT, supervision)?;
    let stand = in_time && line.claims()? >= count * protocol.claims_of_a_session();
    sender.release(count, supervision)?;
    Ok(stand)
}

fn repeat(
    line: &Line,
    sender: &mut Sender<'_>,
    protocol: Protocol,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Rates> {
    let mut offer = |load| attempt(line, sender, load, supervision);
    // Somebody may do something for the first time.
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
        // The others begin not far below.
        search.first = (held.rate * FALL) as u32;
    }
    let sustained = match (plan.sustained, lowest(&found)) {
        (Some(how_long), Some(rate)) => hold(&mut offer, rate, how_long, LONG_ATTEMPTS)?,
        _ => None,
    };
    Ok(Rates { protocol, processors: plan.processors, burst, is_more, held: found, sustained })
}

/// The lowest of some rates, pairs a second.
fn lowest(held: &[Held]) -> Option<u32> {
    held.iter().map(|held| held.rate as u32).min()
}

/// Looks for a rate that holds for so long, from this one downwards; `None` where none of a few does.
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
            // Of the window alone, without the wait for the last ones.
            return Ok(Some(Held { rate, pair_us, processor: pair_us * rate / 1e6 }));
        }
    }
    Ok(None)
}

/// What a load has cost the daemon, microseconds a session; `None` where it did not go through.
fn attempt(
    line: &Line,
    sender: &mut Sender<'_>,
    load: Load,
    supervision: &Supervision<'_>,
) -> Result<Option<f64>> {
    supervision.go_on()?;
    supervision.watcher.begin(&load.describe(), 1);
    let (lost, before) = (line.lost()?, line.sample()?);
    let course = sender.offer(load, supervision)?;
    let (after, is_lost) = (line.sample()?, line.lost()? != lost);
    let spent = after.processor.saturating_sub(before.processor);
    let sessions = (course.sent / 2).max(1) as f64;
    let session_us = spent.as_secs_f64() * 1e6 / sessions;
    let is_through = course.is_whole() && !is_lost && load.can_go_on(session_us);
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
