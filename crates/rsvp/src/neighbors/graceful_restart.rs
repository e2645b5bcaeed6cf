//! Neighbours whose state is kept while they restart, and the Recovery Period of this node (RFC 3473 section 9, RFC 5063).
//!
//! Nothing is marked in state blocks. State of such a neighbour that would expire is kept until the end of the period
//! instead, and senders whose Path it has sent again are in a set of their own. Both cost nothing while no neighbour
//! restarts.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::timer::{TimerId, TimingWheel};
use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::RestartCap;

use crate::config::RestartTimes;
use crate::state::{Index, NONE, Timer, TimerKind};

/// Interface and address of a neighbour.
pub(crate) type NeighborKey = (InterfaceId, IpAddr);

/// Pause after the latest end of a period in which state was kept, until state of the same neighbour may be kept again, and
/// between two walks for one neighbour. What has expired in the period ends in the pause, so that a neighbour that announces
/// restarts without end keeps no state longer than one period.
const PAUSE: Duration = Duration::from_secs(1);

/// Restarts in progress.
#[derive(Debug, Default)]
pub(crate) struct GracefulRestart {
    /// End of the Recovery Period of this node; in the past if there is none.
    recovers_until: Time,
    neighbors: BTreeMap<NeighborKey, NeighborRestart>,
    timer: Option<(TimerId, Time)>,
}

/// Restart of one neighbour.
#[derive(Debug)]
pub(crate) struct NeighborRestart {
    pub(crate) phase: Phase,
    pub(crate) held: Held,
    /// Senders whose Path the neighbour has sent since its return.
    pub(crate) synchronized: BTreeSet<Index>,
    /// Walk over the senders of this node.
    pub(crate) sweep: Option<Sweep>,
}

/// Time for which state of a neighbour is kept, although it expires.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// End of the current phase of its restart.
    pub(crate) until: Time,
    /// Latest end of all phases and restarts that follow each other.
    limit: Time,
}

impl Held {
    /// Returns the time after another phase of this length, or `None` if state may not be kept any longer.
    fn extend(self, now: Time, length_ms: u32, times: &RestartTimes) -> Option<Held> {
        times.restart_time?;
        let limit = match self.limit {
            limit if now < limit => limit,
            limit if limit > Time::ZERO && now < limit + PAUSE => return None,
            _ => now + times.max_restart_time,
        };
        let length = match length_ms {
            RestartCap::INDETERMINATE => Duration::MAX,
            milliseconds => Duration::from_millis(milliseconds.into()),
        };
        let until = now + length.min(limit.since(now));
        (now < until).then_some(Held { until, limit })
    }
}

/// Phases of a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The neighbour is silent. It had this Src_Instance before.
    Restarting { instance: u32 },
    /// The neighbour has returned with another Src_Instance, and gets its state back.
    Recovering,
    /// The neighbour has returned with the same Src_Instance: messages were lost, but no state.
    Restored,
}

/// Restart of a neighbour whose state is kept (RFC 3473 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartView {
    /// The neighbour is silent, and expected back until then.
    Restarting {
        /// End of its Restart Time.
        until: Time,
    },
    /// The neighbour has restarted, and gets its state back until then.
    Recovering {
        /// End of its Recovery Time.
        until: Time,
    },
}

/// Walk over all senders, some at a time, during a phase. The first pass sends Path messages; RecoveryPath messages are sent
/// in each pass, until the neighbour sends the Path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) pass: u8,
    /// Next index in the slab of senders.
    pub(crate) next: usize,
    /// Time of the next step.
    pub(crate) due: Time,
    started: Time,
    /// Recovery Time of the neighbour.
    length: Duration,
    /// Number of passes.
    passes: u8,
}

impl Sweep {
    /// Returns a walk that begins now, of one pass, or of three if RecoveryPath messages are sent.
    fn new(now: Time, length: Duration, has_recovery_paths: bool) -> Sweep {
        let passes = if has_recovery_paths { 3 } else { 1 };
        Sweep { pass: 0, next: 0, due: now, started: now, length, passes }
    }

    /// Returns when a walk may begin that replaces this one: one that follows at once waits, so that forged restarts cause no
    /// more messages than a few restarts do.
    fn next_start(&self, now: Time) -> Time {
        let is_waiting = now < self.started;
        if is_waiting { self.started } else { now.max(self.started + PAUSE) }
    }

    /// Returns the end of a pass: the first takes half of the Recovery Time (RFC 3473 section 9.5.3, RFC 5063 section 4.5.1), and
    /// the third ends at three quarters, so that three attempts are completed by then.
    fn end_of(&self, pass: u8) -> Time {
        self.started + self.length * (4 + u32::from(pass)) / 8
    }

    /// Returns the number of senders that the next step examines, out of those that are left.
    pub(crate) fn step(&self, now: Time, left: usize) -> usize {
        let milliseconds = self.end_of(self.pass).since(now).as_millis().max(1) as usize;
        left.div_ceil(milliseconds).clamp(SENDERS_PER_STEP, MAX_SENDERS_PER_STEP)
    }

    /// Returns the walk after a step, or `None` at the end of the last pass.
    pub(crate) fn after(self, now: Time, next: usize, senders: usize) -> Option<Sweep> {
        if next >= senders {
            let pass = self.pass + 1;
            let due = self.end_of(self.pass).max(now);
            return (pass < self.passes).then_some(Sweep { pass, next: 0, due, ..self });
        }
        let steps = (senders - next).div_ceil(self.step(now, senders - next)) as u32;
        let interval = self.end_of(self.pass).since(now) / (steps + 1);
        Some(Sweep { next, due: now + interval.max(Duration::from_millis(1)), ..self })
    }
}

/// Number of senders examined in one step if there is time enough.
const SENDERS_PER_STEP: usize = 16;
/// Limit of senders examined in one timer event, for all neighbours together.
pub(crate) const MAX_SENDERS_PER_STEP: usize = 256;

impl NeighborRestart {
    /// Returns whether the neighbour gets RecoveryPath messages.
    pub(crate) fn sends_recovery_paths(&self) -> bool {
        self.sweep.is_some_and(|sweep| sweep.passes > 1)
    }

    fn due(&self) -> Time {
        match (self.sweep, self.phase) {
            (Some(sweep), Phase::Restored) => sweep.due,
            (Some(sweep), _) => sweep.due.min(self.held.until),
            (None, _) => self.held.until,
        }
    }
}

impl GracefulRestart {
    /// Returns whether no neighbour restarts, in which case nothing else is looked up.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.neighbors.is_empty()
    }

    /// Starts the Recovery Period of this node.
    pub(crate) fn recover_until(&mut self, until: Time) {
        self.recovers_until = until;
    }

    /// Returns whether this node is in its Recovery Period.
    pub(crate) fn is_recovering(&self, now: Time) -> bool {
        now < self.recovers_until
    }

    pub(crate) fn get(&self, key: NeighborKey) -> Option<&NeighborRestart> {
        self.neighbors.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: NeighborKey) -> Option<&mut NeighborRestart> {
        self.neighbors.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: NeighborKey) {
        self.neighbors.remove(&key);
    }

    /// Ends all restarts of neighbours.
    pub(crate) fn clear(&mut self) {
        self.neighbors.clear();
    }

    /// Returns whether a neighbour is silent and expected back.
    pub(crate) fn is_restarting(&self, key: NeighborKey) -> bool {
        self.waits_for(key).is_some()
    }

    /// Returns the Src_Instance that a silent neighbour had before, if it is expected back.
    pub(crate) fn waits_for(&self, key: NeighborKey) -> Option<u32> {
        match self.neighbors.get(&key)?.phase {
            Phase::Restarting { instance } => Some(instance),
            Phase::Recovering | Phase::Restored => None,
        }
    }

    /// Returns the end of the time for which state of a neighbour is kept, if it is.
    pub(crate) fn held_until(&self, now: Time, key: NeighborKey) -> Option<Time> {
        self.neighbors.get(&key).map(|restart| restart.held.until).filter(|&until| now < until)
    }

    /// Begins to wait for a silent neighbour, which had this Src_Instance. Returns the time for which its state is kept, or
    /// `None` if it is not kept.
    pub(crate) fn await_return(
        &mut self,
        now: Time,
        key: NeighborKey,
        restart_cap: RestartCap,
        times: &RestartTimes,
        (instance, held): (u32, Held),
    ) -> Option<Held> {
        let held = held.extend(now, restart_cap.restart_ms, times)?;
        let phase = Phase::Restarting { instance };
        let synchronized = BTreeSet::new();
        self.neighbors.insert(key, NeighborRestart { phase, held, synchronized, sweep: None });
        Some(held)
    }

    /// Begins the recovery of a neighbour that has restarted. Returns the time for which its state is kept, or `None` if it is not
    /// kept.
    pub(crate) fn begin_recovery(
        &mut self,
        now: Time,
        key: NeighborKey,
        restart_cap: RestartCap,
        times: &RestartTimes,
        (has_recovery_paths, held): (bool, Held),
    ) -> Option<Held> {
        let held = held.extend(now, restart_cap.recovery_ms, times)?;
        let (phase, synchronized) = (Phase::Recovering, BTreeSet::new());
        let last = self.neighbors.get(&key).and_then(|restart| restart.sweep);
        let start = last.map_or(now, |last| last.next_start(now));
        let sweep = Some(Sweep::new(start, held.until.since(now), has_recovery_paths));
        self.neighbors.insert(key, NeighborRestart { phase, held, synchronized, sweep });
        Some(held)
    }

    /// Begins to refresh all state that is shared with a neighbour after a control channel fault.
    pub(crate) fn restore(&mut self, now: Time, key: NeighborKey, recovery_ms: u32) {
        let Some(restart) = self.neighbors.get_mut(&key) else { return };
        let length = Duration::from_millis(recovery_ms.into()).min(restart.held.limit.since(now));
        restart.phase = Phase::Restored;
        restart.sweep = Some(Sweep::new(now, length, false));
    }

    /// Returns the neighbours with work that is due, those that wait longest first.
    pub(crate) fn due(&self, now: Time) -> Vec<NeighborKey> {
        let due = self.neighbors.iter().map(|(&key, restart)| (restart.due(), key));
        let mut due: Vec<_> = due.filter(|&(at, _)| at <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets the timer, which has fired.
    pub(crate) fn timer_fired(&mut self) {
        self.timer = None;
    }

    /// Arms the timer for the first work that is due, at `earliest` or later.
    pub(crate) fn arm(&mut self, timers: &mut TimingWheel<Timer>, earliest: Time) {
        let Some(due) = self.neighbors.values().map(NeighborRestart::due).min() else { return };
        let due = due.max(earliest);
        match self.timer {
            Some((_, armed)) if armed <= due => {}
            Some((timer, _)) => {
                timers.rearm(timer, due);
                self.timer = Some((timer, due));
            }
            None => {
                let timer = Timer { kind: TimerKind::Restart, block: NONE };
                self.timer = Some((timers.arm(due, timer), due));
            }
        }
    }

    /// Returns what is shown of the restart of a neighbour.
    pub(crate) fn view(&self, key: NeighborKey) -> Option<RestartView> {
        let restart = self.neighbors.get(&key)?;
        match restart.phase {
            Phase::Restarting { .. } => Some(RestartView::Restarting { until: restart.held.until }),
            Phase::Recovering => Some(RestartView::Recovering { until: restart.held.until }),
            Phase::Restored => None,
        }
    }
}
