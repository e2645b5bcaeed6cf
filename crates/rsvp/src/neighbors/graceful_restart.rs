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
use crate::records::RestartView;
use crate::state::{Index, NONE, Timer, TimerKind};

/// Interface and address of a neighbour.
pub(crate) type NeighborKey = (InterfaceId, IpAddr);

/// Pause after a period in which state was kept, until it may be kept for the same neighbour again. What has expired in the
/// period ends in the pause, so that a neighbour that announces restarts without end keeps no state longer than one period.
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
    /// End of the phase, until which state of the neighbour is kept.
    pub(crate) ends_at: Time,
    /// Latest end of all phases together.
    limit: Time,
    /// Senders whose Path the neighbour has sent since its return.
    pub(crate) synchronized: BTreeSet<Index>,
    /// Walk over the senders of this node.
    pub(crate) sweep: Option<Sweep>,
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

/// Number of senders examined in one step if there is time enough, and at most.
const SENDERS_PER_STEP: usize = 16;
const MAX_SENDERS_PER_STEP: usize = 256;

impl NeighborRestart {
    /// Returns whether the neighbour gets RecoveryPath messages.
    pub(crate) fn sends_recovery_paths(&self) -> bool {
        self.sweep.is_some_and(|sweep| sweep.passes > 1)
    }

    fn due(&self) -> Time {
        self.sweep.map_or(self.ends_at, |sweep| sweep.due.min(self.ends_at))
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
        self.neighbors.get(&key).map(|restart| restart.ends_at).filter(|&ends_at| now < ends_at)
    }

    /// Returns the end of a further phase of this length and the latest end of all phases, if state of the neighbour may be
    /// kept. `held_until` is the end of the last period in which it was.
    fn phase(
        &self,
        now: Time,
        key: NeighborKey,
        length_ms: u32,
        times: &RestartTimes,
        held_until: Time,
    ) -> Option<(Time, Time)> {
        times.restart_time?;
        let limit = match self.neighbors.get(&key) {
            Some(restart) if now < restart.limit => restart.limit,
            _ if now < held_until + PAUSE && held_until > Time::ZERO => return None,
            _ => now + times.max_restart_time,
        };
        let length = match length_ms {
            RestartCap::INDETERMINATE => Duration::MAX,
            milliseconds => Duration::from_millis(milliseconds.into()),
        };
        let ends_at = now + length.min(limit.since(now));
        (now < ends_at).then_some((ends_at, limit))
    }

    /// Begins to wait for a silent neighbour. Returns the end of the wait, or `None` if its state is not kept.
    pub(crate) fn await_return(
        &mut self,
        now: Time,
        key: NeighborKey,
        restart_cap: RestartCap,
        times: &RestartTimes,
        (instance, held_until): (u32, Time),
    ) -> Option<Time> {
        let (ends_at, limit) = self.phase(now, key, restart_cap.restart_ms, times, held_until)?;
        let phase = Phase::Restarting { instance };
        let synchronized = BTreeSet::new();
        let restart = NeighborRestart { phase, ends_at, limit, synchronized, sweep: None };
        self.neighbors.insert(key, restart);
        Some(ends_at)
    }

    /// Begins the recovery of a neighbour that has restarted. Returns its end, or `None` if its state is not kept.
    pub(crate) fn begin_recovery(
        &mut self,
        now: Time,
        key: NeighborKey,
        restart_cap: RestartCap,
        times: &RestartTimes,
        (has_recovery_paths, held_until): (bool, Time),
    ) -> Option<Time> {
        let (ends_at, limit) = self.phase(now, key, restart_cap.recovery_ms, times, held_until)?;
        let (phase, synchronized) = (Phase::Recovering, BTreeSet::new());
        let sweep = Some(Sweep::new(now, ends_at.since(now), has_recovery_paths));
        self.neighbors.insert(key, NeighborRestart { phase, ends_at, limit, synchronized, sweep });
        Some(ends_at)
    }

    /// Begins to refresh all state that is shared with a neighbour after a control channel fault.
    pub(crate) fn restore(&mut self, now: Time, key: NeighborKey, recovery_ms: u32) {
        let Some(restart) = self.neighbors.get_mut(&key) else { return };
        let length = Duration::from_millis(recovery_ms.into()).min(restart.limit.since(now));
        restart.phase = Phase::Restored;
        restart.sweep = Some(Sweep::new(now, length, false));
    }

    /// Returns the neighbours with work that is due.
    pub(crate) fn due(&self, now: Time) -> Vec<NeighborKey> {
        let due = self.neighbors.iter().filter(|(_, restart)| restart.due() <= now);
        due.map(|(&key, _)| key).collect()
    }

    /// Forgets the timer, which has fired.
    pub(crate) fn timer_fired(&mut self) {
        self.timer = None;
    }

    /// Arms the timer for the first work that is due.
    pub(crate) fn arm(&mut self, timers: &mut TimingWheel<Timer>) {
        let Some(due) = self.neighbors.values().map(NeighborRestart::due).min() else { return };
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
            Phase::Restarting { .. } => Some(RestartView::Restarting { until: restart.ends_at }),
            Phase::Recovering => Some(RestartView::Recovering { until: restart.ends_at }),
            Phase::Restored => None,
        }
    }
}
