//! Life cycle of many sessions in one router without I/O: set up, refreshed, and left to expire.
//!
//! Every message is encoded and handed to the router, whose virtual clock advances by a fixed step for each session;
//! timers that come due meanwhile are served, and count. The measured time is the router's alone, without that of
//! encoding the messages. At the end the router and its ledger must be empty.

use std::time::{Duration, Instant};

use anyhow::Result;
use earmark_linux::heap;
use serde::Serialize;

use super::Supervision;
use super::process::Sample;
use super::router::{Protocol, Router, Step};

/// Virtual time between two sessions.
const PACE: Duration = Duration::from_micros(10);
/// Virtual time from the last set-up to the refresh.
const REFRESH_AFTER: Duration = Duration::from_secs(20);
/// Virtual time after which all unrefreshed sessions must have expired.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Step of virtual time while nothing arrives.
const SILENCE: Duration = Duration::from_millis(100);
/// Number of sessions whose messages are encoded at once.
const BATCH: u32 = 1_000;

/// Result of a life cycle.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    /// Protocol of the sessions.
    pub protocol: Protocol,
    /// Number of sessions offered.
    pub sessions: u32,
    /// Phases: set-up, refresh, expiry.
    pub phases: Vec<Phase>,
    /// Sessions left at the end; with NSIS, routing states as well.
    pub left: usize,
    /// Claims left at the end.
    pub claims_left: u32,
    /// Reserved bandwidth left at the end, bits per second.
    pub held_left_bps: u64,
    /// Heap of the empty router, octets; `None` if the heap is not counted.
    pub heap_before: Option<usize>,
}

/// Result of a phase.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: &'static str,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Sessions per second of wall time.
    pub rate: f64,
    /// Sessions at the end of the phase.
    pub sessions: usize,
    /// Claims in the ledger at the end of the phase.
    pub claims: u32,
    /// Peak heap of the phase, octets.
    pub heap_peak: Option<usize>,
    /// Heap at the end of the phase, octets.
    pub heap_after: Option<usize>,
    /// Resident memory of the process at the end of the phase, octets.
    pub resident: Option<u64>,
}

impl Life {
    /// Returns whether all sessions were set up and refreshed, and nothing is left of them.
    pub fn is_whole(&self) -> bool {
        let all = self.sessions as usize;
        let [set_up, refresh, _] = &self.phases[..] else { return false };
        let stood = set_up.sessions == all && refresh.sessions == all;
        let expected = if self.protocol.reserves() { self.sessions } else { 0 };
        let reserved = set_up.claims >= expected && refresh.claims == set_up.claims;
        stood && reserved && self.left == 0 && self.claims_left == 0 && self.held_left_bps == 0
    }
}

/// Runs the life cycle.
///
/// # Errors
/// The measurement was interrupted.
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

/// Delivers the messages of this step for every session; returns the router's time.
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
        supervision.check_interrupted()?;
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

/// Advances time without messages until no timer is due any more; returns the router's time.
fn wait(router: &mut Router, supervision: &Supervision<'_>) -> Result<Duration> {
    let all = router.claims();
    let start = Instant::now();
    let mut passed = Duration::ZERO;
    while passed < TIMEOUT && router.advance(SILENCE) {
        passed += SILENCE;
        supervision.check_interrupted()?;
        // The bar counts claims rather than sessions; a session of Boomerang has one in each direction.
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
    use super::*;

    #[test]
    fn sessions_of_every_protocol_are_refreshed_and_expire() {
        let supervision = Supervision::unwatched();
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
