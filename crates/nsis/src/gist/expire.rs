//! Timers of GIST.

use earmark_core::Time;

use super::Gist;
use super::machine::{Event, Fact, Facts, State};
use super::state::{Due, Index, Place};
use super::step::Occasion;
use crate::instance::Work;

/// Limit of timers for one input; the rest is due again at once.
const TIMERS_PER_TURN: usize = 256;

impl Gist {
    /// Returns when the next timer is due. O(1).
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let timer = self.store.timers.next_deadline();
        [timer, self.changes.deadline()].into_iter().flatten().min()
    }

    /// Handles the timers that are due.
    pub(crate) fn timers_expire(&mut self, work: &mut Work<'_, '_>) {
        if self.changes.deadline().is_some() {
            self.look_at_changes(work);
        }
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(work.now) else { return };
            match timer.due() {
                Due::Half(place) => self.half_is_due(work, place),
                Due::Peer(peer) => self.peer_is_due(peer),
                Due::Association(association) => self.association_is_due(work, association),
            }
        }
    }

    fn half_is_due(&mut self, work: &mut Work<'_, '_>, place: Place) {
        if self.store.get(place).is_none() {
            debug_assert!(false, "a timer without its block");
            return;
        }
        self.store.half_mut(place).timer = None;
        let mut at = self.at_place(place);
        self.fail_overdue(work, &at);
        let half = self.store.half(place);
        let is_last = half.unanswered >= self.config.queries;
        let event = if half.expires_at <= work.now {
            Some(Event::Expire)
        } else if half.next_at <= work.now {
            match half.state {
                State::EstablishedDownstream if half.unanswered == 0 => Some(Event::Refresh),
                State::WaitResponse | State::WaitAssociation | State::EstablishedDownstream => {
                    Some(Event::NoResponse)
                }
                State::WaitConfirm => Some(Event::NoConfirm),
                State::EstablishedUpstream | State::Idle => None,
            }
        } else {
            None
        };
        if let Some(event) = event {
            let facts = Facts::default().with(Fact::MaxRetry, is_last);
            self.step(work, &mut at, event, facts, &Occasion::Nothing);
        }
        let half = self.store.get(at.place()).filter(|half| half.state != State::Idle);
        if half.is_some_and(|half| half.timer.is_none()) {
            self.arm(at.place());
        }
    }

    /// Removes a peer that has had no routing state for its lifetime.
    fn peer_is_due(&mut self, index: Index) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.timer = None;
        if peer.uses == 0 {
            self.peers.remove(index);
        }
    }
}
