//! Resident sessions: two neighbouring daemons that hold many, and refresh them.
//!
//! ```text
//!   s ---Path---> r1 ---Path---> r2 ---Path---> d
//!     <--Resv----    <--Resv----    <--Resv----
//! ```
//!
//! Where hosts and routers refresh every session every R, N sessions bring each router N/R Paths and N/R Resvs a second,
//! and it sends as many on. *A relayed refresh* is one message in and one message out.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use super::Supervision;
use super::host::{End, Offer};
use super::network::{Network, Set};
use super::process::Sample;

/// Routers in the chain.
pub const ROUTERS: usize = 2;

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sessions.
    pub sessions: u32,
    /// What it is called.
    pub name: &'static str,
    /// How the daemons are set.
    pub set: Set,
    /// Refresh period R of the hosts.
    pub host_refresh: Duration,
    /// How long the daemons are left alone before they are looked at.
    pub warm_up: Duration,
    /// How long they are looked at.
    pub window: Duration,
    /// When to give up setting sessions up.
    pub patience: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residents {
    /// What was measured.
    pub name: &'static str,
    /// Sessions that stood.
    pub sessions: u32,
    /// Refresh period R of the daemons, seconds.
    pub refresh_s: f64,
    /// Each daemon.
    pub daemons: Vec<Upkeep>,
}

/// What it cost one daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Upkeep {
    /// Its node.
    pub node: String,
    /// Packets a second.
    pub packets_in: f64,
    /// Octets a second, from the IP header on.
    pub octets_in: f64,
    /// Packets a second.
    pub packets_out: f64,
    /// Octets a second, from the IP header on.
    pub octets_out: f64,
    /// Share of one processor, 0 to 1.
    pub processor: f64,
    /// Processor time for one message in and one out, microseconds; `None` where there were none, or where messages
    /// stand for many sessions each.
    pub relay_us: Option<f64>,
    /// Memory that came with the sessions, octets a session.
    pub memory_octets: f64,
}

/// Makes a measurement, on a network of its own.
///
/// # Errors
/// The network cannot be built, something in it ends, or the sessions cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    supervision.watcher.begin("the network starts", 1);
    let network = Network::up(&plan.set, plan.sessions)?;
    let sessions = network.sessions(plan.sessions, plan.host_refresh)?;
    let samples = || (1..=ROUTERS).map(|router| network.sample(router)).collect::<Result<Vec<_>>>();
    let empty = samples()?;
    let receiver = network.start(End::Receiver, sessions)?;
    supervision.await_all("the receiver starts", 1, plan.patience, || receiver.heard_of())?;
    let sender = network.start(End::Sender(Offer::Unanswered(1_000)), sessions)?;
    let what = format!("{} sessions are set up ({})", plan.sessions, plan.name);
    let all = supervision.await_all(&what, plan.sessions.into(), plan.patience, || {
        receiver.progress()?;
        Ok(sender.progress()?.done.into())
    })?;
    if !all {
        bail!("{} of {} sessions were set up in time", sender.progress()?.done, plan.sessions);
    }
    supervision.wait("warm-up", plan.warm_up)?;
    let before = samples()?;
    supervision.wait("the daemons are watched", plan.window)?;
    let after = samples()?;
    let upkeep = |n: usize| {
        let name = format!("r{}", n + 1);
        let upkeep = upkeep(name, plan.sessions, &empty[n], &before[n], &after[n]);
        Upkeep { relay_us: upkeep.relay_us.filter(|_| !plan.set.reduction), ..upkeep }
    };
    Ok(Residents {
        name: plan.name,
        sessions: plan.sessions,
        refresh_s: plan.set.refresh.as_secs_f64(),
        daemons: (0..ROUTERS).map(upkeep).collect(),
    })
}

fn upkeep(node: String, sessions: u32, empty: &Sample, before: &Sample, after: &Sample) -> Upkeep {
    let seconds = after.at.since(before.at).as_secs_f64().max(1e-9);
    let (incoming, outgoing) =
        (after.incoming.since(before.incoming), after.outgoing.since(before.outgoing));
    let processor = after.processor.saturating_sub(before.processor).as_secs_f64();
    let relayed = (incoming.packets + outgoing.packets) as f64 / 2.0;
    Upkeep {
        node,
        packets_in: incoming.packets as f64 / seconds,
        octets_in: incoming.octets as f64 / seconds,
        packets_out: outgoing.packets as f64 / seconds,
        octets_out: outgoing.octets as f64 / seconds,
        processor: processor / seconds,
        relay_us: (relayed > 0.0).then(|| processor * 1e6 / relayed),
        memory_octets: after.memory.saturating_sub(empty.memory) as f64
            / f64::from(sessions.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::Time;

    use super::super::process::Load;
    use super::*;

    #[test]
    fn the_cost_is_what_was_added_in_the_window() {
        let sample = |seconds: u64, millis: u64, packets: u64| Sample {
            at: Time::from_secs(seconds),
            processor: Duration::from_millis(millis),
            memory: 1_000 * seconds,
            incoming: Load { packets, octets: 100 * packets },
            outgoing: Load { packets: 2 * packets, octets: 0 },
        };
        let upkeep =
            upkeep("r1".into(), 10, &sample(1, 0, 0), &sample(5, 100, 10), &sample(15, 1_100, 110));
        assert_eq!((upkeep.packets_in, upkeep.octets_in), (10.0, 1_000.0));
        assert_eq!((upkeep.packets_out, upkeep.processor), (20.0, 0.1));
        assert_eq!(upkeep.relay_us, Some(1e6 / 150.0));
        assert_eq!(upkeep.memory_octets, 1_400.0);
    }
}
