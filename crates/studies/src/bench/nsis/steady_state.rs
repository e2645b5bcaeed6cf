//! Established sessions of Ping NSLP: each is pinged at an interval, and refreshed by GIST, as in *Overhead and
//! Performance Study of GIST*, Figures 8 to 10.
//!
//! Ping NSLP keeps no state on the path; the pings stand for the refreshes of an application. Begins of sessions are
//! spread evenly over one ping period, so that pings come evenly from then on. Refreshes of GIST come between 0.5 and
//! 0.75 of the validity: a window should be as long as their mean period, and begin at least that long after the
//! first sessions.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::super::Supervision;
use super::super::process::Sample;
use super::sender::{PingEvent, Sender};
use super::{Chain, Times};

/// Timeout of a ping.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Index of the measured daemon: the first of the path.
pub(super) const DAEMON: usize = 1;
/// Validity of routing state per mean refresh period (RFC 5971 section 4.4.4).
const VALIDITY_OF_PERIOD: f64 = 1.6;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of sessions, level by level, in ascending order.
    pub levels: Vec<u32>,
    /// Ping interval of each session.
    pub ping: Duration,
    /// Time between the set-up of the first level and its window.
    pub settle: Duration,
    /// Length of the window of each level.
    pub window: Duration,
    /// Number of parts of the window.
    pub parts: u32,
    /// Level, and number of consecutive QoS NSLP reservations to set up at this level.
    pub set_ups: Option<(u32, u32)>,
}

/// Result of one level.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Number of sessions.
    pub sessions: u32,
    /// Share of one processor that the first daemon took, 0 to 1, in each part of the window.
    pub processor: Vec<f64>,
    /// Packets a second that this daemon received.
    pub packets_in: f64,
    /// Additional memory of this daemon, octets a session.
    pub memory_octets: f64,
    /// Round-trip times of pings, in each part of the window.
    pub round_trips: Vec<Times>,
    /// Pings that did not come back.
    pub lost: u64,
    /// Times of the reservations that were set up at this level, milliseconds.
    pub set_ups_ms: Vec<f64>,
}

/// Returns the validity with which GIST refreshes once in this period, on average.
pub fn validity(period: Duration) -> Duration {
    period.mul_f64(VALIDITY_OF_PERIOD)
}

/// Runs a measurement on a chain with these settings.
///
/// # Errors
/// A process of the chain ends, or a reservation is refused.
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<Level>> {
    chain.in_first_host(|sender| {
        measure_levels(chain, sender, plan, supervision).map(|(levels, _)| levels)
    })
}

/// Runs one measurement for each mean period of GIST refreshes at the first host; each measurement ends its sessions.
///
/// # Errors
/// The errors of [`measure_on`].
pub fn measure_each_with_period(
    chain: &Chain,
    period: Duration,
    plans: &[Plan],
    supervision: &Supervision<'_>,
) -> Result<Vec<Vec<Level>>> {
    chain.in_first_host_with_validity(validity(period), |sender| {
        let measure = |plan| {
            let (levels, pings) = measure_levels(chain, sender, plan, supervision)?;
            pings.into_iter().for_each(|ping| sender.end_ping(ping));
            Ok(levels)
        };
        plans.iter().map(measure).collect()
    })
}

/// Measures level by level; returns the pings of all sessions, too.
fn measure_levels(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<(Vec<Level>, Vec<u64>)> {
    sender.serve_timers_exactly();
    let empty = chain.sample(DAEMON)?;
    let most = plan.levels.last().copied().unwrap_or_default();
    let (mut installed, mut levels, mut pings) = (0, Vec::new(), Vec::new());
    for &sessions in &plan.levels {
        ensure!(sessions > installed, "levels have to rise");
        supervision.check_interrupted()?;
        let pause = plan.ping / most.max(1);
        pings.extend(begin(sender, sessions - installed, plan.ping, pause, &mut |_| {})?);
        if installed == 0 {
            sender.run_for("the first sessions settle", plan.settle, supervision, |_| {})?;
        }
        installed = sessions;
        let mut level = watch(chain, sender, plan, sessions, &empty, supervision)?;
        if let Some((_, count)) = plan.set_ups.filter(|(at, _)| *at == sessions) {
            level.set_ups_ms = set_up(sender, count, supervision)?;
        }
        levels.push(level);
    }
    Ok((levels, pings))
}

/// Begins to ping a number of sessions, each every `interval`, with a pause after each begin; returns their pings.
pub(super) fn begin(
    sender: &mut Sender,
    count: u32,
    interval: Duration,
    pause: Duration,
    each: &mut dyn FnMut(PingEvent),
) -> Result<Vec<u64>> {
    let start = sender.now();
    let mut pings = Vec::with_capacity(count as usize);
    for number in 1..=count {
        pings.push(sender.ping(None, interval, TIMEOUT));
        sender.run_until(start + pause * number, each)?;
    }
    Ok(pings)
}

/// Result of many sessions that are to exist at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Number of sessions.
    pub sessions: u32,
    /// Sessions with an answered ping.
    pub back: u32,
    /// Time until then, seconds.
    pub seconds: f64,
    /// Additional memory of the first daemon, octets a session.
    pub memory_octets: f64,
}

/// Begins a number of sessions, each with one ping in a period longer than this test, and waits for all pings.
///
/// # Errors
/// A process of the chain ends.
pub fn hold_on(
    chain: &Chain,
    sessions: u32,
    rate: u32,
    supervision: &Supervision<'_>,
) -> Result<Held> {
    const INTERVAL: Duration = Duration::from_secs(300);
    chain.in_first_host(|sender| {
        sender.serve_timers_exactly();
        let (empty, start) = (chain.sample(DAEMON)?, sender.now());
        let mut back = 0;
        let mut count = |event| back += u32::from(matches!(event, PingEvent::Back { .. }));
        supervision.watcher.begin(&format!("{sessions} sessions begin"), sessions.into());
        // Steps of a tenth of a second allow an interrupt.
        let step = (rate / 10).max(1);
        for begun in (0..sessions).step_by(step as usize) {
            let more = step.min(sessions - begun);
            begin(sender, more, INTERVAL, Duration::from_secs(1) / rate.max(1), &mut count)?;
            supervision.watcher.reached((begun + more).into());
            supervision.check_interrupted()?;
        }
        let give_up = sender.now() + TIMEOUT;
        while sender.now() < give_up && back < sessions {
            let mut count = |event| back += u32::from(matches!(event, PingEvent::Back { .. }));
            sender.run_until(sender.now() + Duration::from_millis(20), &mut count)?;
            supervision.check_interrupted()?;
        }
        let seconds = sender.now().since(start).as_secs_f64();
        let memory_octets = chain.sample(DAEMON)?.octets_a_session(&empty, sessions);
        Ok(Held { sessions, back, seconds, memory_octets })
    })
}

fn watch(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    sessions: u32,
    empty: &Sample,
    supervision: &Supervision<'_>,
) -> Result<Level> {
    let mut level = Level { sessions, ..Level::default() };
    let parts = plan.parts.max(1);
    supervision.watcher.begin(&format!("{sessions} sessions are watched"), parts.into());
    let first = chain.sample(DAEMON)?;
    let mut before = first;
    for part in 1..=parts {
        let mut times = Vec::new();
        let lost = &mut level.lost;
        sender.run_until(sender.now() + plan.window / parts, &mut |event| match event {
            PingEvent::Back { round_trip } => times.push(round_trip),
            PingEvent::Lost => *lost += 1,
            PingEvent::Finished => {}
        })?;
        let after = chain.sample(DAEMON)?;
        level.processor.push(after.since(&before).processor);
        level.round_trips.push(Times::of(times));
        before = after;
        supervision.watcher.reached(part.into());
        supervision.check_interrupted()?;
    }
    level.packets_in = before.since(&first).packets_in;
    level.memory_octets = before.octets_a_session(empty, sessions);
    Ok(level)
}

/// Sets up consecutive reservations and releases them; the first ones do not count, as they may include
/// initialization.
fn set_up(sender: &mut Sender, count: u32, supervision: &Supervision<'_>) -> Result<Vec<f64>> {
    const FIRST: u32 = 5;
    supervision.watcher.begin(&format!("{count} set-ups"), count.into());
    let mut times = Vec::new();
    for number in 0..FIRST + count {
        let time = sender.set_up(number)?;
        sender.release(number)?;
        if number >= FIRST {
            times.push(time.as_secs_f64() * 1e3);
        }
        supervision.watcher.reached(number.into());
        supervision.check_interrupted()?;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_come_once_in_a_period_on_average() {
        let validity = validity(Duration::from_secs(180));
        assert_eq!(validity, Duration::from_secs(288));
        assert_eq!((validity / 2 + validity * 3 / 4) / 2, Duration::from_secs(180));
    }
}
