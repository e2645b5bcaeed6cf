//! Set-ups through three daemons: from the sender's first Path to the ResvConf at the receiver.
//!
//! ```text
//!   s ---Path---> r1 ---> r2 ---> r3 ---> d
//!     <--Resv----    <---    <---    <---
//!     --ResvConf-->  --->    --->    --->
//! ```
//!
//! Nothing but soft state makes up for what is lost: whoever missed a message gets it with a refresh, after 0.5 R to
//! 1.5 R. So a session that took longer than 0.5 R has recovered from a loss, as far as there were any; where nothing was
//! lost, it has waited.

use std::time::Duration;

use anyhow::Result;
use earmark_core::Time;
use serde::Serialize;

use super::Supervision;
use super::host::{Account, End, Offer};
use super::network::{Network, Set};

/// Routers in the chain; the one in the middle is looked at.
pub const ROUTERS: usize = 3;
const MIDDLE: usize = 2;

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sessions.
    pub sessions: u32,
    /// How fast they are offered.
    pub offer: Offer,
    /// How the daemons are set.
    pub set: Set,
    /// When to give up.
    pub patience: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetUps {
    /// How fast sessions were offered.
    pub offer: Offer,
    /// Sessions that were offered.
    pub sessions: u32,
    /// Those that were confirmed to the receiver.
    pub installed: u32,
    /// From the first Path to the last ResvConf, seconds.
    pub seconds: f64,
    /// Sessions per second over that time.
    pub rate: f64,
    /// From the Path of a session to its ResvConf, milliseconds: half of the sessions were faster.
    pub latency_p50_ms: f64,
    /// Likewise, 99 of 100.
    pub latency_p99_ms: f64,
    /// Sessions of which a message was lost and made up for by a refresh, at most.
    pub recovered: u32,
    /// Messages that were lost, in the sockets of daemons and hosts.
    pub lost_messages: u64,
    /// Error messages that reached the hosts.
    pub errors: u64,
    /// Processor time of the daemon in the middle, microseconds a session.
    pub processor_us: f64,
    /// Memory of the daemon in the middle, octets a session.
    pub memory_octets: f64,
}

/// Makes a measurement, on a network of its own.
///
/// # Errors
/// The network cannot be built, or something in it ends. Sessions that were not installed are no error but in the result.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    supervision.watcher.begin("the network starts", 1);
    let network = Network::up(&plan.set, plan.sessions)?;
    let sessions = network.sessions(plan.sessions, plan.set.refresh)?;
    let before = network.sample(MIDDLE)?;
    let receiver = network.start(End::Receiver, sessions)?;
    // A receiver that is not there yet would miss the first ones.
    supervision.await_all("the receiver starts", 1, plan.patience, || receiver.heard_of())?;
    let sender = network.start(End::Sender(plan.offer), sessions)?;
    let what = format!("{} sessions, {}", plan.sessions, plan.offer.describe());
    supervision.await_all(&what, plan.sessions.into(), plan.patience, || {
        sender.progress()?;
        Ok(receiver.progress()?.done.into())
    })?;
    let after = network.sample(MIDDLE)?;
    let lost_in_routers = network.lost_in_routers()?;
    let (sender, receiver) = (sender.finish()?, receiver.finish()?);
    let installed = receiver.progress.done;
    let each = f64::from(installed.max(1));
    let processor = after.processor.saturating_sub(before.processor);
    let lost = |account: &Account| account.progress.overflowed + account.progress.unsent;
    let lost_messages = lost_in_routers + lost(&sender) + lost(&receiver);
    let course = Course::of(&sender.begun, &receiver.done, plan.set.refresh);
    Ok(SetUps {
        offer: plan.offer,
        sessions: plan.sessions,
        installed,
        seconds: course.whole.as_secs_f64(),
        rate: f64::from(installed) / course.whole.as_secs_f64().max(1e-9),
        latency_p50_ms: millis(course.quantile(0.5)),
        latency_p99_ms: millis(course.quantile(0.99)),
        recovered: course.late.min(u32::try_from(lost_messages).unwrap_or(u32::MAX)),
        lost_messages,
        errors: sender.progress.errors + receiver.progress.errors,
        processor_us: processor.as_secs_f64() * 1e6 / each,
        memory_octets: after.memory.saturating_sub(before.memory) as f64 / each,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the moments of all sessions say together.
struct Course {
    whole: Duration,
    /// Of those that were installed, in order.
    latencies: Vec<Duration>,
    /// Those that took longer than half a refresh period.
    late: u32,
}

impl Course {
    /// From the moments in which sessions began and were done, by session, nanoseconds.
    fn of(begun: &[u64], done: &[u64], refresh: Duration) -> Course {
        let pairs = begun.iter().zip(done).filter(|&(&begun, &done)| begun > 0 && done > 0);
        let pairs = pairs.map(|(&begun, &done)| (Time::from_nanos(begun), Time::from_nanos(done)));
        let mut latencies = Vec::with_capacity(begun.len());
        let (mut first, mut last) = (Time::MAX, Time::ZERO);
        for (begun, done) in pairs {
            latencies.push(done.since(begun));
            first = first.min(begun);
            last = last.max(done);
        }
        latencies.sort_unstable();
        let in_time = latencies.partition_point(|&latency| latency < refresh / 2);
        let late = (latencies.len() - in_time) as u32; // of at most 2^32 sessions
        Course { whole: last.since(first), latencies, late }
    }

    /// So large a part of the sessions took no longer; nothing where there are none.
    fn quantile(&self, part: f64) -> Duration {
        let rank = (self.latencies.len() as f64 * part).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_of_sessions_is_read_from_their_moments() {
        let second = 1_000_000_000;
        // The third was never done; the fourth needed a refresh.
        let begun = [second, 2 * second, 3 * second, 4 * second];
        let done = [second + 5_000_000, 2 * second + 1_000_000, 0, 24 * second];
        let course = Course::of(&begun, &done, Duration::from_secs(30));
        assert_eq!(course.whole, Duration::from_secs(23));
        assert_eq!(course.late, 1);
        assert_eq!(course.quantile(0.5), Duration::from_millis(5));
        assert_eq!(course.quantile(0.99), Duration::from_secs(20));
        assert_eq!(Course::of(&[1], &[0], Duration::ZERO).quantile(0.5), Duration::ZERO);
    }
}
