//! Messages that wait for a peer, or for an association with it, with limits in number, octets and time.

use alloc::collections::VecDeque;
use core::mem;

use earmark_core::Time;

use super::Gist;
use super::event_data::EventData;
use super::state::{HalfRef, Index, NONE, Needs, Queue, Waiting};
use crate::input_context::InputContext;
use crate::nslp::SendFailure;

impl Gist {
    /// Queues a message until the peer is known.
    pub(super) fn queue(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event_data: &EventData<'_>,
    ) {
        let EventData::Send { message, data, needs, .. } = event_data else { return };
        let limits = self.config.limits;
        let index = self.find_or_insert_queue(at);
        let half = self.store.half_mut(at.half_id());
        half.needs = half.needs.max(*needs);
        let octets = data.len() as u32; // bounded by limits
        let Some(queue) = self.store.queues.get_mut(index as usize) else { return };
        let fits = queue.messages.len() < limits.waiting_messages as usize
            && queue.octets + octets <= limits.waiting_octets
            && self.waiting_octets + u64::from(octets) <= limits.waiting_octets_in_all.into();
        if !fits {
            let nslpid = at.key.nslpid;
            return self.undelivered(cx, nslpid, message, data, SendFailure::Limit);
        }
        let deadline = cx.now + message.timeout;
        let earliest = queue.messages.iter().map(|waiting| waiting.deadline).min();
        queue.deadline = earliest.unwrap_or(Time::MAX).min(deadline);
        queue.octets += octets;
        self.waiting_octets += u64::from(octets);
        let data = (*data).into();
        queue.messages.push_back(Waiting { message: **message, data, deadline });
        self.arm(at.half_id());
    }

    /// Returns the queue of a half; creates it if there is none.
    pub(super) fn find_or_insert_queue(&mut self, at: &HalfRef) -> Index {
        let half = self.store.half(at.half_id()).queue;
        if half != NONE {
            return half;
        }
        let queue = Queue { deadline: Time::MAX, ..Queue::default() };
        let queue = self.store.queues.insert(queue) as Index;
        self.store.half_mut(at.half_id()).queue = queue;
        queue
    }

    /// Removes the oldest message, if it is no longer than `room` and needs no more than `served`.
    pub(super) fn take_first(
        &mut self,
        queue: Index,
        room: usize,
        served: Needs,
    ) -> Option<Waiting> {
        let least = self.least_needs();
        let block = self.store.queues.get_mut(queue as usize)?;
        let first = block.messages.front()?;
        if first.data.len() + 4 > room || Needs::from(first.message.attributes).max(least) > served
        {
            return None;
        }
        self.take(queue)
    }

    fn take(&mut self, queue: Index) -> Option<Waiting> {
        let block = self.store.queues.get_mut(queue as usize)?;
        let waiting = block.messages.pop_front()?;
        block.octets -= waiting.data.len() as u32;
        self.waiting_octets -= waiting.data.len() as u64;
        Some(waiting)
    }

    /// Sends all waiting messages. A message that needs a better transport starts a new search, and waits again.
    pub(super) fn send_queued(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef) {
        let queue = self.store.half(at.half_id()).queue;
        let Some(block) = self.store.queues.get_mut(queue as usize) else { return };
        let messages = mem::take(&mut block.messages);
        self.waiting_octets -= u64::from(mem::take(&mut block.octets));
        self.drop_queue(at);
        for Waiting { message, data, .. } in messages {
            if let Err(failure) = self.send(cx, at.key.nslpid, &message, &data) {
                self.undelivered(cx, at.key.nslpid, &message, &data, failure);
            }
        }
    }

    /// Returns all waiting messages to their application.
    pub(super) fn fail_queued(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        failure: SendFailure,
    ) {
        let Some(half) = self.store.get(at.half_id()).filter(|half| half.queue != NONE) else {
            return;
        };
        let queue = half.queue;
        while let Some(waiting) = self.take(queue) {
            self.undelivered(cx, at.key.nslpid, &waiting.message, &waiting.data, failure);
        }
        self.drop_queue(at);
    }

    fn drop_queue(&mut self, at: &HalfRef) {
        let queue = mem::replace(&mut self.store.half_mut(at.half_id()).queue, NONE);
        self.store.queues.try_remove(queue as usize);
    }

    /// Returns messages past their timeout to their application.
    pub(super) fn fail_overdue(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef) {
        let queue = self.store.half(at.half_id()).queue;
        let Some(block) = self.store.queues.get_mut(queue as usize) else { return };
        if block.deadline > cx.now {
            return;
        }
        let waiting = mem::take(&mut block.messages);
        let (overdue, left) =
            waiting.into_iter().partition(|waiting: &Waiting| waiting.deadline <= cx.now);
        block.messages = left;
        let left = block.messages.iter();
        block.deadline = left.map(|waiting| waiting.deadline).min().unwrap_or(Time::MAX);
        let overdue: VecDeque<Waiting> = overdue;
        let octets: usize = overdue.iter().map(|waiting| waiting.data.len()).sum();
        block.octets -= octets as u32;
        self.waiting_octets -= octets as u64;
        for Waiting { message, data, .. } in overdue {
            self.undelivered(cx, at.key.nslpid, &message, &data, SendFailure::TimedOut);
        }
    }
}
