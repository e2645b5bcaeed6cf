//! Steps of the state machines: selects the row of [`super::machine`], and performs its actions.

use earmark_core::Time;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::gist::Direction;

use super::Gist;
use super::event_data::EventData;
use super::machine::{Action, Event, Facts, QUERYING, RESPONDING, State, Transition};
use super::responding::Proof;
use super::state::{Half, HalfId, HalfRef, Index, Key, NONE, Timer, TimerPurpose};
use crate::input_context::InputContext;
use crate::nslp::{Notification, SendFailure, Validity};

impl Gist {
    /// Looks up the half of a message, in the direction that it came from.
    #[inline]
    pub(super) fn at(&mut self, key: Key, direction: Direction) -> HalfRef {
        let index = self.store.find(&key).unwrap_or(NONE);
        mark(Checkpoint::FindSession);
        HalfRef { key, direction, index }
    }

    /// Looks up the half of a request, which is usually the last one that was looked up.
    pub(super) fn at_recent(&mut self, key: Key, direction: Direction) -> HalfRef {
        let index = self.store.find_recent(&key).unwrap_or(NONE);
        mark(Checkpoint::FindSession);
        HalfRef { key, direction, index }
    }

    pub(super) fn half_ref(&self, half_id: HalfId) -> HalfRef {
        HalfRef {
            key: self.store.state(half_id.index).key,
            direction: half_id.direction,
            index: half_id.index,
        }
    }

    /// Returns the state of a half.
    pub(super) fn state(&self, at: &HalfRef) -> State {
        self.store.get(at.half_id()).map_or(State::Idle, |half| half.state)
    }

    /// Performs a transition; `None` if the event has no row. If the row needs a routing state, it is inserted: the
    /// caller has checked the limit.
    pub(super) fn step(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &mut HalfRef,
        event: Event,
        facts: Facts,
        event_data: &EventData<'_>,
    ) -> Option<&'static Transition> {
        let state = self.state(at);
        let asks = state.is_querying() || state == State::Idle && event == Event::SendMessage;
        let table = if asks { &QUERYING } else { &RESPONDING };
        let row = table.transition(state, event, facts)?;
        if at.index == NONE && row.to != State::Idle {
            at.index = self.store.insert(at.key);
        }
        if at.index != NONE && row.to != State::Idle {
            self.store.half_mut(at.half_id()).state = row.to;
        }
        for action in row.actions {
            self.perform(cx, at, *action, row, event_data);
        }
        if row.to == State::EstablishedUpstream
            && (row.from != row.to || row.event == Event::Confirm)
        {
            self.forget_refusals(cx.now, at);
        }
        Some(row)
    }

    #[inline(never)] // one action needs fewer registers than all of them
    fn perform(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &mut HalfRef,
        action: Action,
        row: &Transition,
        event_data: &EventData<'_>,
    ) {
        match action {
            Action::SendQuery => self.send_query(cx, at, row.event, event_data),
            Action::DelayQuery => self.delay_query(cx.now, at),
            Action::SendResponse => self.send_response(cx, at, event_data),
            Action::SendConfirm => self.send_confirm(cx, at, event_data),
            Action::SendData => self.send_data(cx, at, event_data),
            Action::SendQueued => self.send_queued(cx, at),
            Action::RefuseData => self.refuse_data(cx, event_data),
            Action::Queue => self.queue(cx, at, event_data),
            Action::Deliver => self.deliver(cx, at, event_data),
            Action::FailQueued => {
                let failure = match (row.from, row.event) {
                    (State::WaitAssociation, Event::NoResponse)
                    | (_, Event::AssociationError | Event::NoCommonStack) => {
                        SendFailure::NoAssociation
                    }
                    (_, Event::NoResponse | Event::EndpointFound) => SendFailure::NoNextNode,
                    (_, Event::Expire) => SendFailure::TimedOut,
                    _ => SendFailure::Refused,
                };
                self.fail_queued(cx, at, failure);
            }
            Action::Install => self.install(cx, at, event_data),
            Action::Refresh => self.refresh(cx, at, event_data),
            Action::RestartExpire => self.restart_expire(cx.now, at),
            Action::StartNoConfirm => {
                let next_at = cx.now + self.config.confirm_timeout;
                let half = self.store.half_mut(at.half_id());
                half.next_at = next_at;
                self.arm(at.half_id());
            }
            Action::Connect => self.connect(cx, at, event_data),
            Action::ForgetPeer => self.clear_peer(cx.now, at),
            Action::Release => self.release(at),
            Action::TellLastNode => {
                self.counters.last_node += 1;
                self.notify_application(cx, at, Notification::LastNode);
            }
            Action::TellGone => self.notify_removed(cx, at, row.event),
            Action::TellFailure => {
                let peer = self.store.get(at.half_id()).map_or(NONE, |half| half.peer);
                if let Some(peer) = self.peers.handle(peer) {
                    self.notify_application(cx, at, Notification::CommunicationFailure(peer));
                }
            }
            Action::Delete => self.delete(cx, at),
        }
    }

    /// Makes a half idle, and removes the routing state if the other half is idle too.
    fn delete(&mut self, cx: &mut InputContext<'_, '_>, at: &mut HalfRef) {
        if at.index == NONE {
            return;
        }
        let half = self.store.half(at.half_id());
        let (has_queue, is_joined) = (half.queue != NONE, half.association != NONE);
        if has_queue {
            self.fail_queued(cx, at, SendFailure::Refused);
        }
        if is_joined {
            self.release(at);
        }
        self.clear_peer(cx.now, at);
        if let Some(timer) = self.store.half(at.half_id()).timer {
            self.store.timers.cancel(timer);
        }
        if self.store.half(at.other_id()).state == State::Idle {
            self.changed_ranges.skip(at.index, &self.store);
            self.store.remove(at.index);
            at.index = NONE;
        } else {
            *self.store.half_mut(at.half_id()) = Half::default();
        }
    }

    /// Sets the peer of a half.
    pub(super) fn set_peer(&mut self, now: Time, at: &HalfRef, peer: Index) {
        if self.store.half(at.half_id()).peer == peer {
            return;
        }
        self.clear_peer(now, at);
        self.store.half_mut(at.half_id()).peer = peer;
        let Some(block) = self.peers.get_mut(peer) else { return };
        block.uses += 1;
        if let Some(timer) = block.timer.take() {
            self.store.timers.cancel(timer);
        }
    }

    /// Clears the peer of a half.
    pub(super) fn clear_peer(&mut self, now: Time, at: &HalfRef) {
        let half = self.store.half_mut(at.half_id());
        let has_querier = half.has_querier();
        let peer = core::mem::replace(&mut half.peer, NONE);
        half.validity = Validity::Bad;
        if let Some(block) = self.peers.get_mut(peer) {
            block.uses -= 1;
            let (is_unused, interface) = (block.uses == 0, block.interface);
            if has_querier {
                self.peers.queried.remove(interface);
            }
            if is_unused {
                self.start_peer_lifetime(now, peer);
            }
        }
    }

    /// Starts the lifetime of a peer that nothing uses.
    pub(super) fn start_peer_lifetime(&mut self, now: Time, peer: Index) {
        let Some(block) = self.peers.get_mut(peer) else { return };
        if block.uses == 0 && block.timer.is_none() {
            let until = now + self.config.peer_lifetime;
            block.timer = Some(self.store.timers.arm(until, Timer::new(TimerPurpose::Peer(peer))));
        }
    }

    /// Restarts T_Inactive_QNode or T_Expire_RNode. The timer itself is armed again when it fires too early.
    #[inline]
    pub(super) fn restart_expire(&mut self, now: Time, at: &HalfRef) {
        let half = self.store.half_mut(at.half_id());
        half.expires_at = now.after_millis(half.lifetime_ms.into());
    }

    /// Arms the timer of a half for its earliest deadline, or before.
    pub(super) fn arm(&mut self, half_id: HalfId) {
        let half = self.store.half(half_id);
        let waiting = self.store.queues.get(half.queue as usize);
        let due = half.due().min(waiting.map_or(Time::MAX, |queue| queue.deadline));
        let armed = half.timer;
        let timers = &mut self.store.timers;
        match armed {
            Some(timer) if timers.deadline(timer).is_some_and(|at| at <= due) => {}
            Some(timer) if timers.rearm(timer, due) => {}
            _ => {
                let timer = timers.arm(due, Timer::new(TimerPurpose::Half(half_id)));
                self.store.half_mut(half_id).timer = Some(timer);
            }
        }
    }

    /// Arms the timer if the earliest deadline of a half is now earlier than `before`. Usually it is later, and nothing
    /// is done: the timer fires too early, and is armed again.
    #[inline]
    pub(super) fn arm_if_earlier(&mut self, half_id: HalfId, before: Time) {
        if self.store.half(half_id).due() < before {
            self.arm(half_id);
        }
    }

    /// Installs the sender of a Query, Response or Confirm as the peer.
    fn install(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef, event_data: &EventData<'_>) {
        match event_data {
            EventData::Response { receipt, response, peer } => {
                self.install_response(cx, at, receipt, response, *peer);
            }
            EventData::Query { receipt, query, peer, .. } => {
                self.install_querier(cx, at, receipt, &query.nli, *peer, Proof::None);
            }
            EventData::Confirm { receipt, confirm, peer } => {
                self.install_querier(cx, at, receipt, &confirm.nli, *peer, Proof::Cookie);
            }
            EventData::Established { handshake } => self.install_handshake(cx, at, handshake),
            _ => {}
        }
    }

    fn refresh(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef, event_data: &EventData<'_>) {
        let EventData::Response { receipt, response, .. } = event_data else { return };
        let was_good = self.store.half(at.half_id()).validity == Validity::Good;
        self.refresh_response(cx, at, receipt, response);
        if !was_good {
            self.notify_good(cx, at);
        }
    }
}
