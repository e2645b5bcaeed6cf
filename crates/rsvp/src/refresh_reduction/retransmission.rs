//! Messages that wait for their acknowledgement, by when they are due again (RFC 2961 section 6).
//!
//! All messages of one stage wait equally long, so a queue a stage is in order by itself: entering one takes constant
//! time, and an acknowledgement takes nothing out. Whoever is taken out asks whether it still has to wait.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Time;

use crate::config::Retransmission;

/// Messages that a queue keeps room for while it is empty. What many set-ups at once have needed is given back.
const KEPT: usize = 1_024;

/// One message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unacknowledged {
    due: Time,
    /// Its Message_Identifier.
    pub(crate) id: u32,
    /// The receiver to be told when the reservation stands, which is asked for anew with each copy of a Resv.
    pub(crate) confirm: Option<IpAddr>,
}

/// How often a message was sent, less one; a message that is to be sent at once has none of it behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A neighbour asked for it.
    Urgent,
    /// Sent this often, less one.
    Sent(u8),
}

#[derive(Debug)]
pub(crate) struct RetransmissionQueue {
    urgent: VecDeque<Unacknowledged>,
    /// Queue of each stage, and how long it waits.
    stages: Vec<(Duration, VecDeque<Unacknowledged>)>,
    len: usize,
}

impl RetransmissionQueue {
    pub(crate) fn new(settings: &Retransmission) -> RetransmissionQueue {
        let stages =
            (0..settings.transmissions).map(|stage| (settings.wait(stage), VecDeque::new()));
        RetransmissionQueue { urgent: VecDeque::new(), stages: stages.collect(), len: 0 }
    }

    /// How many wait, or have not yet been found to wait no longer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A message was sent at `now`, for the first time at stage 0.
    pub(crate) fn wait(&mut self, now: Time, stage: u8, id: u32, confirm: Option<IpAddr>) {
        if let Some((wait, queue)) = self.stages.get_mut(usize::from(stage)) {
            queue.push_back(Unacknowledged { due: now + *wait, id, confirm });
            self.len += 1;
        }
    }

    /// A message must be sent, as soon as it is its turn.
    pub(crate) fn send_now(&mut self, now: Time, id: u32) {
        self.urgent.push_back(Unacknowledged { due: now, id, confirm: None });
        self.len += 1;
    }

    /// Whether a message that was sent at this stage is given up when it is due again.
    pub(crate) fn is_last(&self, stage: u8) -> bool {
        usize::from(stage) + 1 >= self.stages.len()
    }

    /// When the first is due.
    pub(crate) fn due(&self) -> Option<Time> {
        let fronts = self.stages.iter().map(|(_, queue)| queue);
        fronts.chain([&self.urgent]).filter_map(|queue| queue.front()).map(|item| item.due).min()
    }

    /// Takes out one that is due. What a neighbour asked for goes first.
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
                if queue.is_empty() && queue.capacity() > KEPT {
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

    /// RFC 2961 section 6.2: Rf 500 ms, Rl 3, Delta 1, so at 0, 500 and 1 500 ms, and given up at 3 500 ms.
    #[test]
    fn waits_double_from_one_transmission_to_the_next() {
        let mut retries = RetransmissionQueue::new(&Retransmission {
            transmissions: 3,
            ..Retransmission::default()
        });
        let (mut now, start) = (Time::from_secs(1), Time::from_secs(1));
        retries.wait(now, 0, 7, None);
        let mut seen = alloc::vec![];
        loop {
            now = retries.due().expect("it waits");
            let (stage, item) = retries.pop(now).expect("it is due");
            let Stage::Sent(stage) = stage else { panic!("nobody asked for it") };
            seen.push((stage, now.since(start).as_millis()));
            if retries.is_last(stage) {
                break;
            }
            retries.wait(now, stage + 1, item.id, None);
        }
        assert_eq!(seen, [(0, 500), (1, 1_500), (2, 3_500)]);
        assert_eq!((retries.len(), retries.due()), (0, None));
    }

    #[test]
    fn the_first_due_comes_first_but_for_what_is_urgent() {
        let mut retries = RetransmissionQueue::new(&Retransmission {
            transmissions: 3,
            ..Retransmission::default()
        });
        let at = Time::from_millis;
        retries.wait(at(0), 1, 1, None); // due at 1000
        retries.wait(at(100), 0, 2, None); // due at 600
        retries.wait(at(101), 0, 3, None); // due at 601
        assert_eq!(retries.pop(at(599)), None);
        retries.send_now(at(600), 4);
        let mut order = alloc::vec![];
        while let Some((_, item)) = retries.pop(at(1_000)) {
            order.push(item.id);
        }
        assert_eq!(order, [4, 2, 3, 1]);
    }
}
