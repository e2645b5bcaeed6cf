//! Soft-state timers in each structure, that of Earmark and those of earlier implementations.
//!
//! Each session has two timers, like a state block of RSVP: one sends a refresh every 30 s, and one expires the
//! session and restarts with each received refresh, every 30 s too.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::times::TimesBySize;
use crate::bench::messages::STRIDE;
use crate::paper_reproduction::baselines::timers::{self, Timers};

/// Refresh period, milliseconds.
const REFRESH: u64 = 30_000;
/// Lifetime of an unrefreshed session, in milliseconds of whole seconds: 3.5 times 1.5 periods (RFC 2205 section
/// 3.7).
const LIFETIME: u64 = 157_000;
/// Start of the measurement, milliseconds.
const START: u64 = 600_000;
/// Length of a round, milliseconds.
const SECOND: u64 = 1_000;

/// A structure with the timers of a number of sessions, and its measurements.
pub(super) struct TimerCost {
    /// Time of the work in a second, round by round, microseconds.
    pub(super) timed: TimesBySize,
    timers: Box<dyn Timers>,
    now: u64,
    /// Numbers of received and of sent refreshes.
    came: u64,
    sent: u64,
    fired: Vec<u32>,
}

fn refresh_of(session: u32) -> u32 {
    2 * session
}

fn lifetime_of(session: u32) -> u32 {
    2 * session + 1
}

/// Returns every structure with the timers of `sessions` sessions, each of which has been refreshed once: by then a
/// list is no longer in the memory order of its creation.
///
/// # Errors
/// The errors of `go_on`.
pub(super) fn all(
    sessions: u32,
    check_interrupted: impl Fn() -> Result<()>,
) -> Result<Vec<TimerCost>> {
    let with_timers = |(name, timers): (&'static str, Box<dyn Timers>)| {
        let (timed, fired) = (TimesBySize::new(name, sessions), Vec::new());
        let mut cost = TimerCost { timed, timers, now: START, came: 0, sent: 0, fired };
        for session in 0..sessions {
            // The starts are spread over the period that has just passed.
            let place = u64::from(session) * STRIDE % u64::from(sessions);
            let began = START - REFRESH + 1 + place * REFRESH / u64::from(sessions);
            cost.timers.arm(refresh_of(session), began, REFRESH);
            cost.timers.arm(lifetime_of(session), began, LIFETIME);
        }
        for _ in 0..REFRESH / SECOND {
            check_interrupted()?;
            cost.round()?;
        }
        cost.timed.times.clear();
        Ok(cost)
    };
    timers::all(2 * sessions as usize, START).into_iter().map(with_timers).collect()
}

impl TimerCost {
    /// Advances time by a second.
    ///
    /// # Errors
    /// A session has expired although it was refreshed.
    pub(super) fn round(&mut self) -> Result<()> {
        let end = self.now + SECOND;
        let start = Instant::now();
        while let Some((at, session)) = self.next_refresh().filter(|&(at, _)| at < end) {
            self.advance_to(at)?;
            self.timers.restart(lifetime_of(session), at, LIFETIME);
            self.came += 1;
        }
        self.advance_to(end)?;
        self.timed.times.push(start.elapsed().as_secs_f64() * 1e6);
        Ok(())
    }

    /// Returns the time and session of the next received refresh; consecutive sessions are far from each other.
    fn next_refresh(&self) -> Option<(u64, u32)> {
        let sessions = u64::from(self.timed.sessions);
        let at = START + (self.came * REFRESH).checked_div(sessions)?;
        Some((at, (self.came % sessions * STRIDE % sessions) as u32))
    }

    /// Serves all timers up to `until`: sends refreshes, and restarts their timers.
    fn advance_to(&mut self, until: u64) -> Result<()> {
        loop {
            let next = self.timers.next();
            if next > until {
                self.now = until;
                return Ok(());
            }
            self.now = next;
            self.timers.expire(next, &mut self.fired);
            for timer in self.fired.drain(..) {
                ensure!(
                    timer.is_multiple_of(2),
                    "{}: session {} ended",
                    self.timed.name,
                    timer / 2
                );
                self.timers.arm(timer, next, REFRESH);
                self.sent += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In 210 s, longer than the lifetime of a session, each is refreshed every 30 s in both directions, and none
    /// expires.
    #[test]
    fn refreshes_go_out_as_often_as_they_come() {
        for mut cost in all(60, || Ok(())).unwrap() {
            for _ in 0..180 {
                cost.round().unwrap();
            }
            let TimesBySize { name, times, .. } = &cost.timed;
            assert_eq!((cost.came, times.len()), (420, 180), "{name}");
            // A structure with a resolution of seconds is up to one second late each time.
            assert!((405..=420).contains(&cost.sent), "{name}: {}", cost.sent);
        }
        assert!(all(1, || anyhow::bail!("interrupted")).is_err());
    }
}
