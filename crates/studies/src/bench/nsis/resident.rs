//! Resident sessions of NSIS: reservations over a chain, refreshed by QoS NSLP and by GIST, while a host pings.
//!
//! QoS NSLP refreshes each session every R, at a random time of its own and hop by hop. GIST repeats its handshake
//! before routing state becomes invalid. So with N sessions, period R and validity V a router has N/R RESERVEs a
//! second in and out, and somewhat more than N/V handshakes of three messages with either neighbor. The window is to
//! begin when both are steady: after V.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::super::Supervision;
use super::super::process::Sample;
use super::chain::Losses;
use super::sender::{PingEvent, Sender};
use super::{Chain, Set, Times};

/// Largest number of unanswered set-ups at a time.
const UNANSWERED: u32 = 200;
/// Ping interval, not a multiple of the timers' resolution.
const PING_EVERY: Duration = Duration::from_millis(47);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time from the first ping to the window, in which the path is discovered.
const BEFORE: Duration = Duration::from_secs(1);

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of sessions.
    pub sessions: u32,
    /// Name of the measurement.
    pub name: &'static str,
    /// Settings of the nodes.
    pub set: Set,
    /// Time before the window without a measurement.
    pub warm_up: Duration,
    /// Length of the window.
    pub window: Duration,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residents {
    /// Name of the measurement.
    pub name: &'static str,
    /// Number of sessions.
    pub sessions: u32,
    /// Hops from host to host.
    pub hops: usize,
    /// Refresh period of QoS NSLP, seconds.
    pub refresh_s: f64,
    /// Validity of GIST's routing state, seconds.
    pub validity_s: f64,
    /// Cost for each daemon.
    pub daemons: Vec<DaemonCost>,
    /// Round-trip times of pings from host to host in the window.
    pub round_trips: Times,
    /// Pings that did not come back.
    pub pings_lost: u64,
    /// Sessions that the first host reported lost.
    pub sessions_lost: u32,
    /// Losses and retransmissions at the daemons, set-ups included.
    pub losses: Losses,
}

/// Cost for one daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DaemonCost {
    /// Name of the node.
    pub node: String,
    /// Packets a second received.
    pub packets_in: f64,
    /// Packets a second sent.
    pub packets_out: f64,
    /// Share of one processor, 0 to 1.
    pub processor: f64,
    /// Processor time for one packet, in or out, microseconds.
    pub packet_us: f64,
    /// Additional memory, octets a session.
    pub memory_octets: f64,
}

/// Runs a measurement on a chain of its own, with this very program.
///
/// # Errors
/// The chain cannot be built, a process of it ends, or the sessions cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    supervision.watcher.begin("the network starts", 1);
    measure_on(&Chain::up(&plan.set)?, plan, supervision)
}

/// Runs a measurement on a chain with these settings.
///
/// # Errors
/// The errors of [`measure`].
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    let seen = chain.in_first_host(|sender| watch(chain, sender, plan, supervision))?;
    let Samples { empty, before, after, .. } = &seen;
    let daemons = chain.daemons().zip(empty).zip(before.iter().zip(after));
    let daemons = daemons.map(|((node, empty), (before, after))| {
        let spent = after.since(before);
        DaemonCost {
            node: chain.name(node).to_owned(),
            packets_in: spent.packets_in,
            packets_out: spent.packets_out,
            processor: spent.processor,
            packet_us: spent.packet_us.unwrap_or_default(),
            memory_octets: after.octets_a_session(empty, plan.sessions),
        }
    });
    Ok(Residents {
        name: plan.name,
        sessions: plan.sessions,
        hops: plan.set.hops,
        refresh_s: plan.set.refresh.as_secs_f64(),
        validity_s: plan.set.validity.as_secs_f64(),
        daemons: daemons.collect(),
        losses: chain.losses()?,
        round_trips: Times::of(seen.round_trips),
        pings_lost: seen.pings_lost,
        sessions_lost: seen.sessions_lost,
    })
}

/// Samples of a chain, by daemon.
struct Samples {
    empty: Vec<Sample>,
    before: Vec<Sample>,
    after: Vec<Sample>,
    round_trips: Vec<Duration>,
    pings_lost: u64,
    sessions_lost: u32,
}

fn watch(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Samples> {
    let empty = chain.samples()?;
    sender.set_up_many(plan.sessions, UNANSWERED, supervision)?;
    let mut sessions_lost = sender.run_for("warm-up", plan.warm_up, supervision, |_| {})?;
    let ping = sender.ping(None, PING_EVERY, PING_TIMEOUT);
    sessions_lost += sender.run_for("the path is found", BEFORE, supervision, |_| {})?;
    let before = chain.samples()?;
    let (mut round_trips, mut pings_lost) = (Vec::new(), 0);
    let what = format!("{} sessions are watched ({})", plan.sessions, plan.name);
    sessions_lost += sender.run_for(&what, plan.window, supervision, |event| match event {
        PingEvent::Back { round_trip } => round_trips.push(round_trip),
        PingEvent::Lost => pings_lost += 1,
        PingEvent::Finished => {}
    })?;
    let after = chain.samples()?;
    sender.end_ping(ping);
    Ok(Samples { empty, before, after, round_trips, pings_lost, sessions_lost })
}
