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
//! - [`speaker`]: the messages of each protocol.
//! - [`ends`], [`destination`]: the two ends.
//! - [`line`](mod@line): the network, and who runs on which processor.

mod destination;
pub mod ends;
pub mod line;
pub mod speaker;

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::Supervision;
use super::search::Search;
use ends::{Load, Sender};
use line::{Line, Processors};
use speaker::Protocol;

/// What to measure of one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whose messages.
    pub protocol: Protocol,
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
    /// How often all of it is done.
    pub repetitions: u32,
    /// How often of that with bursts.
    pub repetitions_of_bursts: u32,
}

/// What was found, an item for each repetition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Whose messages.
    pub protocol: Protocol,
    /// Who ran where.
    pub processors: Processors,
    /// Set-ups that came at once.
    pub bursts: Vec<f64>,
    /// Whether even the largest burst that was tried went through.
    pub is_more: bool,
    /// Messages a second, set-ups and releases.
    pub rates: Vec<f64>,
    /// Processor time of the daemon at the rate that held, microseconds for a message that changes something.
    pub message_us: Vec<f64>,
    /// Share of one processor that the daemon took then, 0 to 1.
    pub processor: Vec<f64>,
}

/// Makes a measurement, on a network of its own.
///
/// # Errors
/// The network cannot be built, or something in it ends.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Rates> {
    supervision.watcher.begin("the network starts", 1);
    let line = Line::up(plan.protocol, line::NEVER)?;
    line.pin(plan.processors)?;
    line.with_ends(plan.processors, |sender| repeat(&line, sender, plan, supervision))
}

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
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Rates> {
    let (protocol, processors) = (plan.protocol, plan.processors);
    let mut rates = Rates {
        protocol,
        processors,
        bursts: Vec::new(),
        is_more: false,
        rates: Vec::new(),
        message_us: Vec::new(),
        processor: Vec::new(),
    };
    // Somebody may do something for the first time.
    attempt(line, sender, Load::Burst(100), supervision)?;
    let mut search = plan.rates;
    for repetition in 0..plan.repetitions.max(1) {
        if let Some(bursts) = plan.bursts.filter(|_| repetition < plan.repetitions_of_bursts) {
            let largest =
                bursts.largest(|count| attempt(line, sender, Load::Burst(count), supervision))?;
            rates.is_more |= largest > bursts.last / 2;
            rates.bursts.push(largest.into());
        }
        let largest = search.largest(|rate| {
            attempt(line, sender, Load::Rate { rate, window: plan.window }, supervision)
        })?;
        let Some(held) = hold(line, sender, plan, largest, supervision)? else { continue };
        rates.rates.push(2.0 * held.rate);
        rates.message_us.push(held.message_us);
        rates.processor.push(held.processor);
        if repetition == 0 {
            // The others begin not far below.
            search.first = (held.rate as u32 / 2).max(search.first);
        }
    }
    Ok(rates)
}

/// Whether a load goes through.
fn attempt(
    line: &Line,
    sender: &mut Sender<'_>,
    load: Load,
    supervision: &Supervision<'_>,
) -> Result<bool> {
    supervision.go_on()?;
    supervision.watcher.begin(&load.describe(), 1);
    let before = line.lost()?;
    let course = sender.offer(load, supervision)?;
    Ok(course.is_whole() && line.lost()? == before)
}

/// The largest rate that holds.
struct Held {
    /// Pairs a second.
    rate: f64,
    message_us: f64,
    processor: f64,
}

/// Looks for a rate that holds, from this one downwards; `None` where none does.
fn hold(
    line: &Line,
    sender: &mut Sender<'_>,
    plan: &Plan,
    largest: u32,
    supervision: &Supervision<'_>,
) -> Result<Option<Held>> {
    /// A rate far below the first is none.
    const ATTEMPTS: i32 = 8;
    for attempt in 0..ATTEMPTS {
        let rate = (f64::from(largest) * 0.8_f64.powi(attempt)) as u32;
        if rate == 0 {
            break;
        }
        supervision.go_on()?;
        let load = Load::Rate { rate, window: plan.held };
        supervision.watcher.begin(&load.describe(), 1);
        let (lost, before) = (line.lost()?, line.sample()?);
        let course = sender.offer(load, supervision)?;
        let (after, is_lost) = (line.sample()?, line.lost()? != lost);
        if course.is_whole() && !is_lost {
            let spent = after.processor.saturating_sub(before.processor).as_secs_f64();
            let message_us = spent * 1e6 / course.sent.max(1) as f64;
            // Of the window alone, without the wait for the last ones.
            let processor = message_us * 2.0 * f64::from(rate) / 1e6;
            return Ok(Some(Held { rate: rate.into(), message_us, processor }));
        }
    }
    Ok(None)
}
