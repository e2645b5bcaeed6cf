//! Set-ups through three daemons: from the sender's first Path to the ResvConf at the receiver.
//!
//! ```text
//!   s ---Path---> r1 ---> r2 ---> r3 ---> d
//!     <--Resv----    <---    <---    <---
//!     --ResvConf-->  --->    --->    --->
//! ```
//!
//! Soft state is the only means against loss: a lost message is repeated by a refresh, after 0.5 R to 1.5 R. So a
//! session that took longer than 0.5 R has recovered from a loss, if there were any; if nothing was lost, it has
//! waited.

use std::time::Duration;

use anyhow::Result;
use earmark_core::Time;
use earmark_lab::statistics::percentile;
use serde::Serialize;

use super::Supervision;
use super::host::{End, HostResult, Offer};
use super::network::{Network, Set};

/// Number of routers in the chain; the middle one is measured.
pub const ROUTERS: usize = 3;
const MIDDLE: usize = 2;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of sessions.
    pub sessions: u32,
    /// Rate at which they are offered.
    pub offer: Offer,
    /// Settings of the daemons.
    pub set: Set,
    /// Timeout of the measurement.
    pub timeout: Duration,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetUps {
    /// Rate at which sessions were offered.
    pub offer: Offer,
    /// Sessions that were offered.
    pub sessions: u32,
    /// Sessions that were confirmed to the receiver.
    pub installed: u32,
    /// Time from the first Path to the last ResvConf, seconds.
    pub seconds: f64,
    /// Confirmed sessions per second over that time.
    pub rate: f64,
    /// Median time from the Path of a session to its ResvConf, milliseconds.
    pub latency_p50_ms: f64,
    /// 99th percentile of the time from the Path of a session to its ResvConf, milliseconds.
    pub latency_p99_ms: f64,
    /// Largest possible number of sessions that recovered from a loss by a refresh.
    pub recovered: u32,
    /// Messages that were lost, in the sockets of daemons and hosts.
    pub lost_messages: u64,
    /// Error messages that reached the hosts.
    pub errors: u64,
    /// Processor time of the middle daemon, microseconds a session.
    pub processor_us: f64,
    /// Additional memory of the middle daemon, octets a session.
    pub memory_octets: f64,
}

/// Runs a measurement on a network of its own.
///
/// # Errors
/// The network cannot be built, or a process of it ends. Sessions that were not confirmed are not an error but part
/// of the result.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<SetUps> {
    supervision.watcher.begin("the network starts", 1);
    let network = Network::up(&plan.set, plan.sessions)?;
    let sessions = network.sessions(plan.sessions, plan.set.refresh)?;
    let before = network.sample(MIDDLE)?;
    let receiver = network.start(End::Receiver, sessions)?;
    // A receiver without a socket would miss the first Paths.
    supervision.await_all("the receiver starts", 1, plan.timeout, || receiver.started())?;
    let sender = network.start(End::Sender(plan.offer), sessions)?;
    let what = format!("{} sessions, {}", plan.sessions, plan.offer.describe());
    supervision.await_all(&what, plan.sessions.into(), plan.timeout, || {
        sender.progress()?;
        Ok(receiver.progress()?.done.into())
    })?;
    let after = network.sample(MIDDLE)?;
    let lost_in_routers = network.lost_in_routers()?;
    let (sender, receiver) = (sender.finish()?, receiver.finish()?);
    let installed = receiver.progress.done;
    let each = f64::from(installed.max(1));
    let processor = after.processor.saturating_sub(before.processor);
    let lost = |account: &HostResult| account.progress.overflowed + account.progress.unsent;
    let lost_messages = lost_in_routers + lost(&sender) + lost(&receiver);
    let times = SessionTimes::of(&sender.begun, &receiver.done, plan.set.refresh);
    Ok(SetUps {
        offer: plan.offer,
        sessions: plan.sessions,
        installed,
        seconds: times.whole.as_secs_f64(),
        rate: f64::from(installed) / times.whole.as_secs_f64().max(1e-9),
        latency_p50_ms: times.latency_ms(50),
        latency_p99_ms: times.latency_ms(99),
        recovered: times.late.min(u32::try_from(lost_messages).unwrap_or(u32::MAX)),
        lost_messages,
        errors: sender.progress.errors + receiver.progress.errors,
        processor_us: processor.as_secs_f64() * 1e6 / each,
        memory_octets: after.memory.saturating_sub(before.memory) as f64 / each,
    })
}

/// Summary of the times of all sessions.
struct SessionTimes {
    whole: Duration,
    /// Latencies of the confirmed sessions, sorted.
    latencies: Vec<Duration>,
    /// Sessions that took longer than half a refresh period.
    late: u32,
}

impl SessionTimes {
    /// Summarizes the begin and completion times of sessions, nanoseconds, 0 for never.
    fn of(begun: &[u64], done: &[u64], refresh: Duration) -> SessionTimes {
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
        SessionTimes { whole: last.since(first), latencies, late }
    }

    /// Returns a percentile of the latencies, milliseconds; 0 if there are none.
    fn latency_ms(&self, percent: usize) -> f64 {
        percentile(&self.latencies, percent).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_computed_from_session_times() {
        let second = 1_000_000_000;
        // The third session was never completed; the fourth needed a refresh.
        let begun = [second, 2 * second, 3 * second, 4 * second];
        let done = [second + 5_000_000, 2 * second + 1_000_000, 0, 24 * second];
        let times = SessionTimes::of(&begun, &done, Duration::from_secs(30));
        assert_eq!(times.whole, Duration::from_secs(23));
        assert_eq!(times.late, 1);
        assert_eq!(times.latency_ms(50), 5.0);
        assert_eq!(times.latency_ms(99), 20_000.0);
        assert_eq!(SessionTimes::of(&[1], &[0], Duration::ZERO).latency_ms(50), 0.0);
    }
}
