//! The order in which waiting messages are handled: by their arrival, and in overload by ports in turn.
//!
//! Messages wait in the ring, which frees its memory in the order of arrival. This queue knows where each of them is. Up to
//! [`IN_ORDER`] messages are handled as they arrived. If more wait, ports take turns of one message (round robin; messages
//! of one port stay in order): a message of a port that has sent little does not wait for those of one that floods. The
//! kernel's reports about what it has done by itself are then first, because messages after them may depend on them.

use std::collections::VecDeque;

/// Number of waiting messages that are handled in the order of arrival.
const IN_ORDER: usize = 256;
/// No record.
const NONE: u64 = u64::MAX;

/// Messages that wait in the ring.
#[derive(Debug)]
pub(super) struct FairQueue {
    /// Records in the order of arrival; the first one is not done.
    records: VecDeque<Record>,
    /// Number of the first record.
    first: u64,
    /// Number of records that are not done.
    waiting: usize,
    /// Lists of records that are not done: reports of the kernel, then one for each port.
    lists: Vec<List>,
    /// Lists of ports in the order of their turns, without reports. May contain empty ones.
    turns: VecDeque<u16>,
}

#[derive(Debug)]
struct Record {
    /// Position in the ring.
    at: u64,
    /// Position after it.
    end: u64,
    list: u16,
    is_done: bool,
    /// Number of the next record of its list.
    next: u64,
}

#[derive(Clone, Debug)]
struct List {
    /// Numbers of the first and the last record.
    head: u64,
    tail: u64,
    /// Whether it is in `turns`.
    has_turn: bool,
}

/// The next message to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    number: u64,
    /// Position in the ring.
    pub(super) at: u64,
    /// Whether it is a report of the kernel.
    pub(super) is_report: bool,
    end: u64,
}

impl Next {
    /// Returns the octets that it uses in the ring.
    pub(super) fn octets(&self) -> u64 {
        self.end - self.at
    }
}

impl FairQueue {
    /// Creates an empty queue for this many ports.
    pub(super) fn new(ports: u16) -> FairQueue {
        let empty = List { head: NONE, tail: NONE, has_turn: false };
        let lists = vec![empty; usize::from(ports) + 1];
        FairQueue { records: VecDeque::new(), first: 0, waiting: 0, lists, turns: VecDeque::new() }
    }

    /// Adds a message, which is at `at` in the ring and ends before `end`. `port`: modulo the number of ports; `None` for a
    /// report of the kernel.
    pub(super) fn push(&mut self, port: Option<u32>, at: u64, end: u64) {
        let ports = self.lists.len() as u32 - 1;
        let number = port.map_or(0, |port| port % ports + 1) as u16;
        let record = self.first + self.records.len() as u64;
        self.records.push_back(Record { at, end, list: number, is_done: false, next: NONE });
        self.waiting += 1;
        let list = &mut self.lists[usize::from(number)];
        if list.head == NONE {
            list.head = record;
            if number > 0 && !list.has_turn {
                list.has_turn = true;
                self.turns.push_back(number);
            }
        } else {
            let last = (list.tail - self.first) as usize;
            self.records[last].next = record;
        }
        self.lists[usize::from(number)].tail = record;
    }

    /// Returns the message to handle next, until [`FairQueue::finish`] is called for it or another one is added.
    pub(super) fn next(&mut self) -> Option<Next> {
        let number = if self.waiting <= IN_ORDER {
            self.records.front().map(|_| self.first)?
        } else if self.lists[0].head != NONE {
            self.lists[0].head
        } else {
            loop {
                let list = &mut self.lists[usize::from(*self.turns.front()?)];
                if list.head != NONE {
                    break list.head;
                }
                list.has_turn = false;
                self.turns.pop_front();
            }
        };
        let record = self.records.get((number - self.first) as usize)?;
        Some(Next { number, at: record.at, is_report: record.list == 0, end: record.end })
    }

    /// Removes the message that [`FairQueue::next`] returned. Returns the position up to which the ring is not needed any
    /// more, if that has changed.
    pub(super) fn finish(&mut self, next: Next) -> Option<u64> {
        let record = self.records.get_mut((next.number - self.first) as usize)?;
        record.is_done = true;
        let (number, following) = (record.list, record.next);
        self.lists[usize::from(number)].head = following;
        if self.turns.front() == Some(&number) {
            self.turns.rotate_left(1);
        }
        self.waiting -= 1;
        let mut free = None;
        while let Some(done) = self.records.pop_front_if(|record| record.is_done) {
            self.first += 1;
            free = Some(done.end);
        }
        free
    }

    /// Whether no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PORTS: u16 = 8;

    /// Handles one message; returns its position.
    fn handle(queue: &mut FairQueue) -> Option<u64> {
        let next = queue.next()?;
        queue.finish(next);
        Some(next.at)
    }

    #[test]
    fn message_of_a_quiet_port_does_not_wait_for_a_flood() {
        let mut queue = FairQueue::new(PORTS);
        (0..10_000).for_each(|at| queue.push(Some(1), at, at + 1));
        queue.push(Some(2), 10_000, 10_001);
        queue.push(None, 10_001, 10_002);
        assert_eq!(handle(&mut queue), Some(10_001), "the kernel's report");
        assert_eq!(handle(&mut queue), Some(0));
        assert_eq!(handle(&mut queue), Some(10_000), "the quiet port");
        assert_eq!(handle(&mut queue), Some(1));
        let rest: Vec<u64> = std::iter::from_fn(|| handle(&mut queue)).collect();
        assert!(rest.iter().copied().eq(2..10_000) && queue.is_empty());
    }

    #[test]
    fn few_messages_are_handled_as_they_arrived() {
        let mut queue = FairQueue::new(PORTS);
        for at in 0..IN_ORDER as u64 {
            queue.push((at % 3 > 0).then_some(at as u32 % 3), at, at + 1);
        }
        let all: Vec<u64> = std::iter::from_fn(|| handle(&mut queue)).collect();
        assert!(all.into_iter().eq(0..IN_ORDER as u64));
    }

    /// What the queue is to do, in quadratic time: messages in the order of arrival, and the ports in the order of turns.
    #[derive(Default)]
    struct Model {
        waiting: Vec<(Option<u32>, u64)>,
        turns: Vec<u32>,
    }

    impl Model {
        fn push(&mut self, port: Option<u32>, at: u64) {
            self.waiting.push((port, at));
            if let Some(port) = port.filter(|port| !self.turns.contains(port)) {
                self.turns.push(port);
            }
        }

        fn handle(&mut self) -> Option<u64> {
            let of = |port: Option<u32>| self.waiting.iter().position(|(of, _)| *of == port);
            let chosen = match self.waiting.len() <= IN_ORDER {
                true => (!self.waiting.is_empty()).then_some(0)?,
                false => of(None).or_else(|| self.turns.iter().find_map(|port| of(Some(*port))))?,
            };
            let is_fair = self.waiting.len() > IN_ORDER;
            let (port, at) = self.waiting.remove(chosen);
            if let Some(port) = port {
                if is_fair {
                    // Ports without messages lose their turns when these come.
                    let mut first = 0;
                    while self.turns[first] != port {
                        first += 1;
                    }
                    self.turns.drain(..first);
                }
                if self.turns[0] == port {
                    self.turns.rotate_left(1);
                }
            }
            Some(at)
        }
    }

    proptest! {
        /// Every message is handled once, in the order of the model, and the ring is freed up to the oldest one that waits.
        #[test]
        fn queue_equals_the_model(
            steps in prop::collection::vec((0_u32..6, 1_u32..80, 0_u32..60), 1..120),
        ) {
            let (mut queue, mut model) = (FairQueue::new(PORTS), Model::default());
            let (mut at, mut free) = (0, 0);
            for (port, pushed, handled) in steps {
                let port = port.checked_sub(1);
                for _ in 0..pushed {
                    queue.push(port, at, at + 3);
                    model.push(port, at);
                    at += 3;
                }
                for _ in 0..handled {
                    let next = queue.next();
                    prop_assert_eq!(next.map(|next| next.at), model.handle());
                    free = next.and_then(|next| queue.finish(next)).unwrap_or(free);
                    let oldest = model.waiting.iter().map(|(_, at)| *at).min();
                    prop_assert_eq!(free, oldest.unwrap_or(at));
                }
            }
        }
    }
}
