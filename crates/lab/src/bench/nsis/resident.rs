//! Resident sessions: reservations that stand over a chain, refreshed by QoS NSLP and by GIST, while somebody pings.
//!
//! QoS NSLP refreshes each session every R, at a random moment of its own; each node tells the next one by itself. GIST asks
//! again who is next before routing state becomes invalid. So a router of N sessions with R and a validity V has N/R RESERVEs a
//! second in and out, and somewhat more than N/V handshakes of three messages with either neighbour. The window is to
//! begin when both have settled: after V.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::super::Supervision;
use super::super::process::Sample;
use super::chain::Losses;
use super::sender::{Pinged, Sender};
use super::{Chain, Set, Times};

/// Set-ups that wait for their answer at a time.
const UNANSWERED: u32 = 200;
/// Between one ping and the next. Not a multiple of what timers are rounded to.
const PING_EVERY: Duration = Duration::from_millis(47);
/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Pings begin so long before the window: the path has to be found first.
const BEFORE: Duration = Duration::from_secs(1);

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sessions.
    pub sessions: u32,
    /// What it is called.
    pub name: &'static str,
    /// How the nodes are set.
    pub set: Set,
    /// How long the daemons are left alone before they are looked at.
    pub warm_up: Duration,
    /// How long they are looked at.
    pub window: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residents {
    /// What was measured.
    pub name: &'static str,
    /// Sessions.
    pub sessions: u32,
    /// From host to host.
    pub hops: usize,
    /// Period of QoS NSLP, seconds.
    pub refresh_s: f64,
    /// Validity of GIST's routing state, seconds.
    pub validity_s: f64,
    /// Each daemon.
    pub daemons: Vec<Upkeep>,
    /// Of pings from host to host meanwhile.
    pub round_trips: Times,
    /// Pings that did not come back.
    pub pings_lost: u64,
    /// Sessions that the first host heard had been lost.
    pub sessions_lost: u32,
    /// What daemons lost and repeated, set-ups included.
    pub losses: Losses,
}

/// What it cost one daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Upkeep {
    /// Its node.
    pub node: String,
    /// Packets a second.
    pub packets_in: f64,
    /// Packets a second.
    pub packets_out: f64,
    /// Share of one processor, 0 to 1.
    pub processor: f64,
    /// Processor time for one packet, in or out, microseconds.
    pub packet_us: f64,
    /// Memory that came with the sessions, octets a session.
    pub memory_octets: f64,
}

/// Makes a measurement, on a chain of its own, of this program.
///
/// # Errors
/// The chain cannot be built, something in it ends, or the sessions cannot be set up.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    supervision.watcher.begin("the network starts", 1);
    measure_on(&Chain::up(&plan.set)?, plan, supervision)
}

/// Makes a measurement on a chain that is set for it.
///
/// # Errors
/// As of [`measure`].
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<Residents> {
    let seen = chain.in_first_host(|sender| watch(chain, sender, plan, supervision))?;
    let Seen { empty, before, after, .. } = &seen;
    let daemons = chain.daemons().zip(empty).zip(before.iter().zip(after));
    let daemons = daemons.map(|((node, empty), (before, after))| {
        let spent = after.since(before);
        Upkeep {
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

/// What was seen of a chain, by daemon.
struct Seen {
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
) -> Result<Seen> {
    let empty = chain.samples()?;
    sender.set_up_many(plan.sessions, UNANSWERED, supervision)?;
    let mut sessions_lost = sender.go_on_for("warm-up", plan.warm_up, supervision, |_| {})?;
    let ping = sender.ping(None, PING_EVERY, PING_TIMEOUT);
    sessions_lost += sender.go_on_for("the path is found", BEFORE, supervision, |_| {})?;
    let before = chain.samples()?;
    let (mut round_trips, mut pings_lost) = (Vec::new(), 0);
    let what = format!("{} sessions are watched ({})", plan.sessions, plan.name);
    sessions_lost += sender.go_on_for(&what, plan.window, supervision, |pinged| match pinged {
        Pinged::Back { round_trip } => round_trips.push(round_trip),
        Pinged::Lost => pings_lost += 1,
        Pinged::Finished => {}
    })?;
    let after = chain.samples()?;
    sender.end_ping(ping);
    Ok(Seen { empty, before, after, round_trips, pings_lost, sessions_lost })
}
