//! Timers of GIST.

use earmark_core::Time;

use super::Gist;
use super::event_data::EventData;
use super::machine::{Event, Fact, Facts, State};
use super::state::{HalfId, Index, TimerPurpose};
use crate::input_context::InputContext;

/// Limit of timers for one input; the rest is due again at once.
const MAX_TIMERS_PER_INPUT: usize = 256;

impl Gist {
    /// Returns when the next timer is due. O(1).
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let timer = self.store.timers.next_deadline();
        [timer, self.changed_ranges.deadline()].into_iter().flatten().min()
    }

    /// Handles the timers that are due.
    pub(crate) fn expire_timers(&mut self, cx: &mut InputContext<'_, '_>) {
        if self.changed_ranges.deadline().is_some() {
            self.check_changed_ranges(cx);
        }
        for _ in 0..MAX_TIMERS_PER_INPUT {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.purpose() {
                TimerPurpose::Half(half_id) => self.handle_half_timer(cx, half_id),
                TimerPurpose::Peer(peer) => self.handle_peer_timer(peer),
                TimerPurpose::Association(association) => {
                    self.handle_association_timer(cx, association);
                }
            }
        }
    }

    fn handle_half_timer(&mut self, cx: &mut InputContext<'_, '_>, half_id: HalfId) {
        if self.store.get(half_id).is_none() {
            debug_assert!(false, "a timer without its block");
            return;
        }
        self.store.half_mut(half_id).timer = None;
        let mut at = self.half_ref(half_id);
        self.fail_overdue(cx, &at);
        let half = self.store.half(half_id);
        let is_last = half.unanswered >= self.config.queries;
        let event = if half.expires_at <= cx.now {
            Some(Event::Expire)
        } else if half.next_at <= cx.now {
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
            self.step(cx, &mut at, event, facts, &EventData::Nothing);
        }
        let half = self.store.get(at.half_id()).filter(|half| half.state != State::Idle);
        if half.is_some_and(|half| half.timer.is_none()) {
            self.arm(at.half_id());
        }
    }

    /// Removes a peer that has had no routing state for its lifetime.
    fn handle_peer_timer(&mut self, index: Index) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.timer = None;
        if peer.uses == 0 {
            self.peers.remove(index);
        }
    }
}
