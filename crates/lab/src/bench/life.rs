//! The whole life of many sessions in one router without I/O: set up, refreshed, and left to expire.
//!
//! Every message is written in octets and handed to the router, whose clock is virtual and goes on by so much for each session;
//! timers that come due meanwhile are served, and count. Only the router's time is taken, not that of writing the messages.
//! In the end the router and its ledger must be empty.

use std::time::{Duration, Instant};

use anyhow::Result;
use earmark_linux::heap;
use serde::Serialize;

use super::Supervision;
use super::process::Sample;
use super::router::{Protocol, Router, Step};

/// Virtual time between two sessions.
const PACE: Duration = Duration::from_micros(10);
/// When sessions are refreshed, after the last set-up, virtual time.
const REFRESH_AFTER: Duration = Duration::from_secs(20);
/// When silence must have ended them all, virtual time.
const PATIENCE: Duration = Duration::from_secs(600);
/// How far virtual time goes at once while nothing comes.
const SILENCE: Duration = Duration::from_millis(100);
/// Sessions whose messages are written at once.
const BATCH: u32 = 1_000;

/// A life.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    /// Of which protocol.
    pub protocol: Protocol,
    /// How many sessions were offered.
    pub sessions: u32,
    /// Set-up, refresh, expiry.
    pub phases: Vec<Phase>,
    /// Sessions that are left in the end, with NSIS routing states as well.
    pub left: usize,
    /// Claims that are left.
    pub claims_left: u32,
    /// What is left reserved, bits per second.
    pub held_left_bps: u64,
    /// Heap of the empty router, octets; `None` where nobody counts.
    pub heap_before: Option<usize>,
}

/// A part of it.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Which.
    pub name: &'static str,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Sessions a second of wall time.
    pub rate: f64,
    /// Sessions at its end.
    pub sessions: usize,
    /// Claims in the ledger at its end.
    pub claims: u32,
    /// Most heap in use meanwhile, octets.
    pub heap_peak: Option<usize>,
    /// Heap in use at its end.
    pub heap_after: Option<usize>,
    /// Resident memory of the process at its end, octets.
    pub resident: Option<u64>,
}

impl Life {
    /// Whether all sessions stood, were kept by the refresh, and nothing is left of them.
    pub fn is_whole(&self) -> bool {
        let all = self.sessions as usize;
        let [set_up, refresh, _] = &self.phases[..] else { return false };
        let stood = set_up.sessions == all && refresh.sessions == all;
        let reserved = set_up.claims >= self.sessions && refresh.claims == set_up.claims;
        stood && reserved && self.left == 0 && self.claims_left == 0 && self.held_left_bps == 0
    }
}

/// Lives through it.
///
/// # Errors
/// It was interrupted.
pub fn live(protocol: Protocol, sessions: u32, supervision: &Supervision<'_>) -> Result<Life> {
    let mut router = Router::new(protocol);
    let heap_before = heap::in_use();
    let mut phases = Vec::new();
    for (name, step, round) in [("set-up", Step::SetUp, 0), ("refresh", Step::Refresh, 1)] {
        supervision.watcher.begin(&format!("{}: {name}", protocol.name()), sessions.into());
        let took = visit(&mut router, protocol, sessions, (step, round), supervision)?;
        phases.push(Phase::ended(name, took, sessions, &mut router, protocol));
        if step == Step::SetUp {
            router.advance(REFRESH_AFTER);
        }
    }
    supervision.watcher.begin(&format!("{}: expiry", protocol.name()), sessions.into());
    heap::restart_peak();
    let took = wait(&mut router, supervision)?;
    phases.push(Phase::ended("expiry", took, sessions, &mut router, protocol));
    Ok(Life {
        protocol,
        sessions,
        phases,
        left: router.remains(protocol),
        claims_left: router.claims(),
        held_left_bps: router.held().as_bps(),
        heap_before,
    })
}

/// Every session has its messages that do this; gives how long the router took.
fn visit(
    router: &mut Router,
    protocol: Protocol,
    sessions: u32,
    (step, round): (Step, u32),
    supervision: &Supervision<'_>,
) -> Result<Duration> {
    heap::restart_peak();
    let mut took = Duration::ZERO;
    for first in (0..sessions).step_by(BATCH as usize) {
        supervision.go_on()?;
        let batch = first..sessions.min(first.saturating_add(BATCH));
        for run in protocol.runs(step) {
            let arrivals: Vec<_> = batch
                .clone()
                .flat_map(|session| run.iter().map(move |kind| (kind, session)))
                .map(|(kind, session)| kind.of(router, session, round))
                .collect();
            let start = Instant::now();
            router.deliver_all(&arrivals);
            took += start.elapsed();
        }
        let start = Instant::now();
        router.advance(PACE * (batch.end - batch.start));
        took += start.elapsed();
        supervision.watcher.reached(batch.end.into());
    }
    Ok(took)
}

/// Silence, until nothing is due any more.
fn wait(router: &mut Router, supervision: &Supervision<'_>) -> Result<Duration> {
    let all = router.claims();
    let start = Instant::now();
    let mut passed = Duration::ZERO;
    while passed < PATIENCE && router.advance(SILENCE) {
        passed += SILENCE;
        supervision.go_on()?;
        // Both directions of a session count, and that is all the bar needs to know.
        supervision.watcher.reached((all - router.claims()).into());
    }
    Ok(start.elapsed())
}

impl Phase {
    fn ended(
        name: &'static str,
        took: Duration,
        sessions: u32,
        router: &mut Router,
        protocol: Protocol,
    ) -> Phase {
        let heap_peak = heap::peak();
        router.forget_effects();
        Phase {
            name,
            seconds: took.as_secs_f64(),
            rate: f64::from(sessions) / took.as_secs_f64().max(1e-9),
            sessions: router.sessions(protocol),
            claims: router.claims(),
            heap_peak,
            heap_after: heap::in_use(),
            resident: Sample::of(std::process::id()).ok().map(|sample| sample.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::bench::Unwatched;

    #[test]
    fn sessions_of_every_protocol_live_and_end() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        for protocol in Protocol::ALL {
            let life = live(protocol, 1_500, &supervision).expect("nobody interrupts");
            assert!(life.is_whole(), "{life:?}");
            let names: Vec<&str> = life.phases.iter().map(|phase| phase.name).collect();
            assert_eq!(names, ["set-up", "refresh", "expiry"]);
            assert!(life.phases.iter().all(|phase| phase.rate > 0.0), "{life:?}");
            let broken = Life { claims_left: 1, ..life };
            assert!(!broken.is_whole());
        }
    }
}
