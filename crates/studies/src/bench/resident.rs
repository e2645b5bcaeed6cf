//! Resident sessions: two neighboring daemons that hold many, and refresh them.
//!
//! ```text
//!   s ---Path---> r1 ---Path---> r2 ---Path---> d
//!     <--Resv----    <--Resv----    <--Resv----
//! ```
//!
//! If hosts and routers refresh every session every R, N sessions bring each router N/R Paths and N/R Resvs a second,
//! and it sends as many. *A relayed refresh* is one message in and one message out.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;

use super::Supervision;
use super::host::{End, Offer};
use super::network::{Network, Set};

/// Default number of routers in the chain.
pub const ROUTERS: usize = 2;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of sessions.
    pub sessions: u32,
    /// Name of the measurement.
    pub name: &'static str,
    /// Settings of the daemons.
    pub set: Set,
    /// Refresh period R of the hosts.
    pub host_refresh: Duration,
    /// Time before the window without a measurement.
    pub warm_up: Duration,
    /// Length of the window.
    pub window: Duration,
    /// Number of parts of the window, at least 1.
    pub parts: u32,
    /// Timeout of setting up the sessions.
    pub timeout: Duration,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residents {
    /// Name of the measurement.
    pub name: &'static str,
    /// Established sessions.
    pub sessions: u32,
    /// Refresh period R of the daemons, seconds.
    pub refresh_s: f64,
    /// Cost for each daemon.
    pub daemons: Vec<DaemonCost>,
}

/// Cost for one daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DaemonCost {
    /// Name of the node.
    pub node: String,
    /// Packets a second received.
    pub packets_in: f64,
    /// Octets a second received, from the IP header on.
    pub octets_in: f64,
    /// Packets a second sent.
    pub packets_out: f64,
    /// Octets a second sent, from the IP header on.
    pub octets_out: f64,
    /// Share of one processor, 0 to 1.
    pub processor: f64,
    /// Share of one processor in each part of the window.
    pub processor_of_parts: Vec<f64>,
    /// Processor time for one message in and one out, microseconds; `None` if there were no messages, or if one
    /// message covers many sessions.
    pub relay_us: Option<f64>,
    /// Additional memory, octets a session.
    pub memory_octets: f64,
}

/// Runs a measurement on a network of its own.
///
/// # Errors
/// The network cannot be built, a process of it ends, or the sessions cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    supervision.watcher.begin("the network starts", 1);
    let network = Network::up(&plan.set, plan.sessions)?;
    let sessions = network.sessions(plan.sessions, plan.host_refresh)?;
    let routers = plan.set.routers;
    let samples = || (1..=routers).map(|router| network.sample(router)).collect::<Result<Vec<_>>>();
    let empty = samples()?;
    let receiver = network.start(End::Receiver, sessions)?;
    supervision.await_all("the receiver starts", 1, plan.timeout, || receiver.started())?;
    let sender = network.start(End::Sender(Offer::Unanswered(1_000)), sessions)?;
    let what = format!("{} sessions are set up ({})", plan.sessions, plan.name);
    let all = supervision.await_all(&what, plan.sessions.into(), plan.timeout, || {
        receiver.progress()?;
        Ok(sender.progress()?.done.into())
    })?;
    if !all {
        bail!("{} of {} sessions were set up in time", sender.progress()?.done, plan.sessions);
    }
    supervision.wait("warm-up", plan.warm_up)?;
    let mut course = vec![samples()?];
    let parts = plan.parts.max(1);
    for part in 1..=parts {
        let what = format!("the daemons are watched, part {part} of {parts}");
        supervision.wait(&what, plan.window / parts)?;
        course.push(samples()?);
    }
    let upkeep = |n: usize| {
        let (before, after) = (&course[0][n], &course[course.len() - 1][n]);
        let spent = after.since(before);
        let parts = course.windows(2).map(|ends| ends[1][n].since(&ends[0][n]).processor);
        DaemonCost {
            node: format!("r{}", n + 1),
            packets_in: spent.packets_in,
            octets_in: spent.octets_in,
            packets_out: spent.packets_out,
            octets_out: spent.octets_out,
            processor: spent.processor,
            processor_of_parts: parts.collect(),
            relay_us: spent.packet_us.filter(|_| !plan.set.reduction).map(|us| 2.0 * us),
            memory_octets: after.octets_a_session(&empty[n], plan.sessions),
        }
    };
    Ok(Residents {
        name: plan.name,
        sessions: plan.sessions,
        refresh_s: plan.set.refresh.as_secs_f64(),
        daemons: (0..routers).map(upkeep).collect(),
    })
}
