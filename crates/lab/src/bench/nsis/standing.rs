//! Sessions of Ping NSLP that stand: each is pinged every so often, and refreshed by GIST, as in *Overhead and Performance Study
//! of GIST*, Figures 8 to 10.
//!
//! Ping NSLP keeps no state on the way; the pings stand for the refreshes of an application. Sessions begin evenly over one
//! period of pings, so that those come evenly from then on. Refreshes of GIST come between 0.5 and 0.75 of the validity: a
//! window should be as long as their mean period, and begin no earlier than that after the first sessions.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::super::Supervision;
use super::super::process::Sample;
use super::sender::{Pinged, Sender};
use super::{Chain, Times};

/// How long one ping may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The first daemon of the path is looked at.
pub(super) const DAEMON: usize = 1;
/// The validity of routing state that has it refreshed once in a period, on average (RFC 5971 section 4.4.4).
const VALIDITY_OF_PERIOD: f64 = 1.6;

/// One measurement to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sessions that stand, step by step; each is more than the one before.
    pub levels: Vec<u32>,
    /// How often each is pinged.
    pub ping: Duration,
    /// How long sessions of the first level are left alone.
    pub settle: Duration,
    /// How long each level is looked at.
    pub window: Duration,
    /// In how many parts.
    pub parts: u32,
    /// Reservations by QoS NSLP that are set up one after the other at this level.
    pub set_ups: Option<(u32, u32)>,
}

/// What one level came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Sessions.
    pub sessions: u32,
    /// Share of one processor that the first daemon took, 0 to 1, in each part of the window.
    pub processor: Vec<f64>,
    /// Packets a second that came in to that daemon.
    pub packets_in: f64,
    /// Memory of that daemon that came with the sessions, octets a session.
    pub memory_octets: f64,
    /// Of pings, in each part of the window.
    pub round_trips: Vec<Times>,
    /// Pings that did not come back.
    pub lost: u64,
    /// How long reservations took that were set up at this level.
    pub set_ups_ms: Vec<f64>,
}

/// The validity with which GIST refreshes once in this period, on average.
pub fn validity(period: Duration) -> Duration {
    period.mul_f64(VALIDITY_OF_PERIOD)
}

/// Makes a measurement on a chain that is set for it.
///
/// # Errors
/// Something in the chain ends, or a reservation is refused.
pub fn measure_on(chain: &Chain, plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<Level>> {
    chain.in_first_host(|sender| climb(chain, sender, plan, supervision).map(|(levels, _)| levels))
}

/// Likewise, where the first host has GIST refresh in this mean period: one measurement after the other, each of which ends its
/// sessions.
///
/// # Errors
/// As of [`measure_on`].
pub fn measure_each_with_period(
    chain: &Chain,
    period: Duration,
    plans: &[Plan],
    supervision: &Supervision<'_>,
) -> Result<Vec<Vec<Level>>> {
    chain.in_first_host_with_validity(validity(period), |sender| {
        let measure = |plan| {
            let (levels, pings) = climb(chain, sender, plan, supervision)?;
            pings.into_iter().for_each(|ping| sender.end_ping(ping));
            Ok(levels)
        };
        plans.iter().map(measure).collect()
    })
}

/// Measures level by level; gives the pings of all sessions, too.
fn climb(
    chain: &Chain,
    sender: &mut Sender,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<(Vec<Level>, Vec<u64>)> {
    sender.be_exact();
    let empty = chain.sample(DAEMON)?;
    let most = plan.levels.last().copied().unwrap_or_default();
    let (mut standing, mut levels, mut pings) = (0, Vec::new(), Vec::new());
    for &sessions in &plan.levels {
        ensure!(sessions > standing, "levels have to rise");
        supervision.go_on()?;
        let pause = plan.ping / most.max(1);
        pings.extend(begin(sender, sessions - standing, plan.ping, pause, &mut |_| {})?);
        if standing == 0 {
            sender.go_on_for("the first sessions settle", plan.settle, supervision, |_| {})?;
        }
        standing = sessions;
        let mut level = watch(chain, sender, plan, sessions, &empty, supervision)?;
        if let Some((_, count)) = plan.set_ups.filter(|(at, _)| *at == sessions) {
            level.set_ups_ms = set_up(sender, count, supervision)?;
        }
        levels.push(level);
    }
    Ok((levels, pings))
}

/// Begins to ping so many sessions, each every `interval`, one after every pause; gives their pings.
pub(super) fn begin(
    sender: &mut Sender,
    count: u32,
    interval: Duration,
    pause: Duration,
    each: &mut dyn FnMut(Pinged),
) -> Result<Vec<u64>> {
    let start = sender.now();
    let mut pings = Vec::with_capacity(count as usize);
    for number in 1..=count {
        pings.push(sender.ping(None, interval, TIMEOUT));
        sender.go_on_until(start + pause * number, each)?;
    }
    Ok(pings)
}

/// What became of many sessions that were to stand all at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Held {
    /// How many there were to be.
    pub sessions: u32,
    /// Those of which a ping came back.
    pub back: u32,
    /// How long that took, seconds.
    pub seconds: f64,
    /// Memory of the first daemon that came with them, octets a session.
    pub memory_octets: f64,
}

/// Begins so many sessions, each with one ping in a period that is longer than this takes, and waits for all pings.
///
/// # Errors
/// Something in the chain ends.
pub fn hold_on(
    chain: &Chain,
    sessions: u32,
    rate: u32,
    supervision: &Supervision<'_>,
) -> Result<Held> {
    const INTERVAL: Duration = Duration::from_secs(300);
    chain.in_first_host(|sender| {
        sender.be_exact();
        let (empty, start) = (chain.sample(DAEMON)?, sender.now());
        let mut back = 0;
        let mut count = |pinged| back += u32::from(matches!(pinged, Pinged::Back { .. }));
        supervision.watcher.begin(&format!("{sessions} sessions begin"), sessions.into());
        // In steps of a tenth of a second, so that it can be ended.
        let step = (rate / 10).max(1);
        for begun in (0..sessions).step_by(step as usize) {
            let more = step.min(sessions - begun);
            begin(sender, more, INTERVAL, Duration::from_secs(1) / rate.max(1), &mut count)?;
            supervision.watcher.reached((begun + more).into());
            supervision.go_on()?;
        }
        let give_up = sender.now() + TIMEOUT;
        while sender.now() < give_up && back < sessions {
            let mut count = |pinged| back += u32::from(matches!(pinged, Pinged::Back { .. }));
            sender.go_on_until(sender.now() + Duration::from_millis(20), &mut count)?;
            supervision.go_on()?;
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
        sender.go_on_until(sender.now() + plan.window / parts, &mut |pinged| match pinged {
            Pinged::Back { round_trip } => times.push(round_trip),
            Pinged::Lost => *lost += 1,
            Pinged::Finished => {}
        })?;
        let after = chain.sample(DAEMON)?;
        level.processor.push(after.since(&before).processor);
        level.round_trips.push(Times::of(times));
        before = after;
        supervision.watcher.reached(part.into());
        supervision.go_on()?;
    }
    level.packets_in = before.since(&first).packets_in;
    level.memory_octets = before.octets_a_session(empty, sessions);
    Ok(level)
}

/// Reservations one after the other, which are given back; the first ones are not counted, since somebody may do something for
/// the first time.
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
        supervision.go_on()?;
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
