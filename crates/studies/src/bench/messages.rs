//! Cost of each kind of message for one router without I/O that holds many sessions: instructions, nanoseconds, and
//! the octets of a session.
//!
//! Nanoseconds are measured with messages about sessions far from each other in memory, so that caches are as cold as
//! that many sessions make them; new sessions are added to the existing ones and released again. Valgrind counts
//! instructions ([`instructions`]), and the kernel times its own part of Boomerang ([`offload`]).

pub mod instructions;
pub mod offload;

use std::time::Instant;

use anyhow::{Result, ensure};
use earmark_core::admission::{Demand, Ledger, LinkCapacity, Owner, Service};
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_lab::statistics::{percentile, sorted};
use earmark_linux::heap;
use serde::Serialize;

use super::Supervision;
use super::router::{MemoryGoal, Message, Protocol, Router, Step};

/// Largest number of messages of a kind that are timed in one batch.
const BATCH: u32 = 20_000;
/// Distance in the tables between consecutive sessions of a batch: a prime, so that none repeats.
pub(crate) const STRIDE: u64 = 611_953;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Protocol of the messages.
    pub protocol: Protocol,
    /// Sessions that the router holds.
    pub sessions: u32,
    /// Number of time measurements, at least 1.
    pub repetitions: u32,
}

/// Cost of a kind of message.
#[derive(Clone, Debug, Serialize)]
pub struct MessageCost {
    /// Protocol of the message.
    pub protocol: Protocol,
    /// Name of the kind.
    pub message: &'static str,
    /// Sessions that the router holds during the measurement.
    pub sessions: u32,
    /// Instructions; `None` if they were not counted.
    pub instructions: Option<u64>,
    /// Goal: largest number of instructions; `None` without a goal.
    pub goal_instructions: Option<u32>,
    /// Nanoseconds over the repetitions.
    pub nanoseconds: Spread,
}

/// A figure that was measured several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Minimum.
    pub least: f64,
    /// Maximum.
    pub most: f64,
}

/// Memory of a session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionCost {
    /// Protocol of the session.
    pub protocol: Protocol,
    /// Number of sessions.
    pub sessions: u32,
    /// Octets of heap, slack of growing tables and the claims in the ledger included.
    pub octets: f64,
    /// Octets of the claims.
    pub octets_of_claims: f64,
    /// Goal for the octets.
    pub goal: MemoryGoal,
}

impl SessionCost {
    /// Octets that the goal limits.
    pub fn octets_of_goal(&self) -> f64 {
        if self.goal.with_claims { self.octets } else { self.octets - self.octets_of_claims }
    }
}

/// Result of one measurement.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Cost by kind of message.
    pub messages: Vec<MessageCost>,
    /// Memory of a session; `None` if the heap is not counted.
    pub session: Option<SessionCost>,
}

/// Measures nanoseconds and octets.
///
/// # Errors
/// A session was not set up or not released; the measurement was interrupted.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Costs> {
    let Plan { protocol, sessions, .. } = *plan;
    let name = protocol.name();
    let watcher = supervision.watcher;
    watcher.begin(&format!("{name}: {sessions} sessions are set up"), sessions.into());
    let empty = Router::new(protocol);
    let base = heap::in_use();
    drop(empty);
    let mut router =
        Router::with_sessions(protocol, sessions, |count| watcher.reached(count.into()));
    expect(&router, protocol, sessions)?;
    let session = base.zip(heap::in_use()).map(|(base, now)| SessionCost {
        protocol,
        sessions,
        octets: now.saturating_sub(base) as f64 / f64::from(sessions),
        octets_of_claims: claims_take(router.claims()) as f64 / f64::from(sessions),
        goal: protocol.memory_goal(),
    });
    let kinds = protocol.messages();
    let mut times = vec![Vec::new(); kinds.len()];
    let rounds = plan.repetitions.max(1);
    watcher.begin(&format!("{name}: messages among {sessions} sessions"), rounds.into());
    for round in 1..=rounds {
        supervision.check_interrupted()?;
        for (kind, times) in kinds.iter().zip(&mut times) {
            let batch = BATCH.min(sessions);
            times.push(match kind.step {
                Step::Refresh => time(&mut router, kind, far_apart(sessions, batch, round), round),
                Step::SetUp | Step::Release => {
                    time(&mut router, kind, sessions..sessions + batch, round)
                }
            });
        }
        expect(&router, protocol, sessions)?;
        watcher.reached(round.into());
    }
    let messages = kinds.iter().zip(times).map(|(kind, times)| MessageCost {
        protocol,
        message: kind.name,
        sessions,
        instructions: None,
        goal_instructions: kind.goal,
        nanoseconds: Spread::of(times),
    });
    Ok(Costs { messages: messages.collect(), session })
}

fn expect(router: &Router, protocol: Protocol, sessions: u32) -> Result<()> {
    let there = router.sessions(protocol);
    let name = protocol.name();
    ensure!(there == sessions as usize, "{name}: {there} sessions instead of {sessions}");
    Ok(())
}

/// Mean time of a message of a kind in a batch about these sessions, nanoseconds.
pub(crate) fn time(
    router: &mut Router,
    kind: &Message,
    sessions: impl Iterator<Item = u32>,
    round: u32,
) -> f64 {
    let arrivals: Vec<_> = sessions.map(|session| kind.of(router, session, round)).collect();
    let start = Instant::now();
    router.deliver_all(&arrivals);
    start.elapsed().as_secs_f64() * 1e9 / arrivals.len().max(1) as f64
}

/// Returns `batch` of the sessions, far from each other, and different ones in each round.
pub(crate) fn far_apart(sessions: u32, batch: u32, round: u32) -> impl Iterator<Item = u32> {
    let first = u64::from(round) * u64::from(batch);
    let place = move |number| (first + u64::from(number)) * STRIDE % u64::from(sessions);
    (0..batch).map(move |number| place(number) as u32)
}

/// Octets that `claims` claims take in a ledger.
fn claims_take(claims: u32) -> usize {
    let link = InterfaceId(1);
    let bandwidth = Rate::from_bps(u64::MAX);
    let flow = Flow {
        destination: [10, 0, 0, 1].into(),
        source: None,
        protocol: 17,
        destination_port: 1,
        source_port: 0,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let demand = Demand {
        service: Service::ControlledLoad,
        rate: Rate::from_bps(1),
        burst: 1,
        max_packet: 0,
        min_packet: 0,
    };
    let before = heap::in_use();
    let mut ledger = Ledger::new();
    ledger.set_link(link, LinkCapacity { bandwidth, reservable: bandwidth, mtu: 1_500 });
    for block in 0..claims {
        let owner = Owner { protocol: earmark_rsvp::ID, block };
        let _ = ledger.claim(link, owner, &flow, demand);
    }
    let after = heap::in_use();
    after.zip(before).map_or(0, |(after, before)| after - before)
}

impl Spread {
    /// Summarizes at least one figure.
    fn of(figures: Vec<f64>) -> Spread {
        let figures = sorted(figures);
        let [least, median, most] =
            [0, 50, 100].map(|percent| percentile(&figures, percent).unwrap_or(f64::NAN));
        Spread { median, least, most }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::bench::Unwatched;

    #[test]
    fn every_kind_of_message_is_measured() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        for protocol in Protocol::ALL {
            let plan = Plan { protocol, sessions: 50, repetitions: 3 };
            let costs = measure(&plan, &supervision).expect("sessions come and go");
            assert_eq!(costs.messages.len(), protocol.messages().len());
            for cost in &costs.messages {
                let Spread { median, least, most } = cost.nanoseconds;
                assert!(0.0 < least && least <= median && median <= most, "{cost:?}");
            }
        }
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        let plan = Plan { protocol: Protocol::Yessir, sessions: 50, repetitions: 3 };
        assert!(measure(&plan, &supervision).is_err(), "it was interrupted");
    }

    #[test]
    fn sessions_far_apart_differ_in_each_round() {
        let mut seen: Vec<u32> = (0..4).flat_map(|round| far_apart(1_000, 250, round)).collect();
        assert!(seen.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 10), "far from each other");
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..1_000), "each once");
    }

    #[test]
    fn median_of_three_is_the_second() {
        let spread = Spread::of(vec![9.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 9.0 });
    }
}
