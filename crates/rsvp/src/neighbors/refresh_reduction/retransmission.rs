//! Queues of messages that wait for acknowledgement, ordered by due time (RFC 2961 section 6).
//!
//! All messages of one stage wait equally long, so one queue for each stage is always in order: insertion takes
//! constant time, and an acknowledgement removes nothing. The caller checks each removed message for whether it still
//! waits.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Time;

use crate::config::Retransmission;

/// Capacity that an empty queue keeps, messages. Memory used during bursts of set-ups is released.
const KEPT_CAPACITY: usize = 1_024;

/// A message that waits for acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    due: Time,
    /// Message_Identifier of the message.
    pub(crate) id: u32,
    /// Receiver address of RESV_CONFIRM; each retransmission of a Resv contains it again.
    pub(crate) confirm: Option<IpAddr>,
}

/// Position of a message in its retransmission schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// To be sent at once because a neighbour sent a NACK.
    Urgent,
    /// Number of transmissions, less one.
    Sent(u8),
}

#[derive(Debug)]
pub(crate) struct RetransmissionQueue {
    urgent: VecDeque<Unacknowledged>,
    /// Queue and waiting time of each stage.
    stages: Vec<(Duration, VecDeque<Unacknowledged>)>,
    len: usize,
}

impl RetransmissionQueue {
    pub(crate) fn new(settings: &Retransmission) -> RetransmissionQueue {
        let stages =
            (0..settings.transmissions).map(|stage| (settings.wait(stage), VecDeque::new()));
        RetransmissionQueue { urgent: VecDeque::new(), stages: stages.collect(), len: 0 }
    }

    /// Returns the number of queued messages, including those acknowledged but not yet removed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Queues a message that was sent at `now`; the first transmission is stage 0.
    pub(crate) fn push(&mut self, now: Time, stage: u8, id: u32, confirm: Option<IpAddr>) {
        if let Some((wait, queue)) = self.stages.get_mut(usize::from(stage)) {
            queue.push_back(Unacknowledged { due: now + *wait, id, confirm });
            self.len += 1;
        }
    }

    /// Queues a message for immediate transmission.
    pub(crate) fn push_urgent(&mut self, now: Time, id: u32) {
        self.urgent.push_back(Unacknowledged { due: now, id, confirm: None });
        self.len += 1;
    }

    /// Returns whether a message sent at this stage is given up when it is due again.
    pub(crate) fn is_last(&self, stage: u8) -> bool {
        usize::from(stage) + 1 >= self.stages.len()
    }

    /// Returns the earliest due time.
    pub(crate) fn due(&self) -> Option<Time> {
        let fronts = self.stages.iter().map(|(_, queue)| queue);
        fronts.chain([&self.urgent]).filter_map(|queue| queue.front()).map(|item| item.due).min()
    }

    /// Removes a message that is due, urgent ones first.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Stage, Unacknowledged)> {
        let taken = match self.urgent.pop_front() {
            Some(item) => (Stage::Urgent, item),
            None => {
                let (stage, _) = self
                    .stages
                    .iter()
                    .enumerate()
                    .filter_map(|(stage, (_, queue))| Some((stage, queue.front()?.due)))
                    .filter(|&(_, due)| due <= now)
                    .min_by_key(|&(_, due)| due)?;
                let queue = &mut self.stages[stage].1;
                let item = queue.pop_front()?;
                if queue.is_empty() && queue.capacity() > KEPT_CAPACITY {
                    *queue = VecDeque::new();
                }
                (Stage::Sent(stage as u8), item)
            }
        };
        self.len -= 1;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2961 section 6.2: with Rf 500 ms, Rl 3, Delta 1 transmissions are at 0, 500 and 1 500 ms; given up at 3 500
    /// ms.
    #[test]
    fn waits_double_from_one_transmission_to_the_next() {
        let mut queue = RetransmissionQueue::new(&Retransmission {
            transmissions: 3,
            ..Retransmission::default()
        });
        let (mut now, start) = (Time::from_secs(1), Time::from_secs(1));
        queue.push(now, 0, 7, None);
        let mut seen = alloc::vec![];
        loop {
            now = queue.due().expect("it waits");
            let (stage, item) = queue.pop(now).expect("it is due");
            let Stage::Sent(stage) = stage else { panic!("nobody asked for it") };
            seen.push((stage, now.since(start).as_millis()));
            if queue.is_last(stage) {
                break;
            }
            queue.push(now, stage + 1, item.id, None);
        }
        assert_eq!(seen, [(0, 500), (1, 1_500), (2, 3_500)]);
        assert_eq!((queue.len(), queue.due()), (0, None));
    }

    #[test]
    fn urgent_message_precedes_due_ones() {
        let mut queue = RetransmissionQueue::new(&Retransmission {
            transmissions: 3,
            ..Retransmission::default()
        });
        let at = Time::from_millis;
        queue.push(at(0), 1, 1, None); // due at 1000
        queue.push(at(100), 0, 2, None); // due at 600
        queue.push(at(101), 0, 3, None); // due at 601
        assert_eq!(queue.pop(at(599)), None);
        queue.push_urgent(at(600), 4);
        let mut order = alloc::vec![];
        while let Some((_, item)) = queue.pop(at(1_000)) {
            order.push(item.id);
        }
        assert_eq!(order, [4, 2, 3, 1]);
    }
}
