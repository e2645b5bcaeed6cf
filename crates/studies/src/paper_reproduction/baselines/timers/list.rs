//! Timers in one list, which is scanned once a second (ISI RSVP). The papers do not state the interval of the scan.

use super::{NIL, TICK, Timers};

/// The list. A timer is inserted at the head, and keeps its position when it restarts.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct List {
    timers: Vec<Timer>,
    head: u32,
    next_walk: u64,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    deadline: u64,
    next: u32,
}

impl List {
    /// Creates an empty list, scanned for the first time a second after `now`.
    pub(in crate::paper_reproduction) fn new(timers: usize, now: u64) -> List {
        let timers = vec![Timer { deadline: 0, next: NIL }; timers];
        List { timers, head: NIL, next_walk: now + TICK }
    }
}

impl Timers for List {
    fn arm(&mut self, timer: u32, now: u64, interval: u64) {
        self.timers[timer as usize] = Timer { deadline: now + interval, next: self.head };
        self.head = timer;
    }

    fn restart(&mut self, timer: u32, now: u64, interval: u64) {
        self.timers[timer as usize].deadline = now + interval;
    }

    fn next(&self) -> u64 {
        self.next_walk
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        if now < self.next_walk {
            return;
        }
        self.next_walk = now - now % TICK + TICK;
        let (mut before, mut here) = (NIL, self.head);
        while here != NIL {
            let Timer { deadline, next } = self.timers[here as usize];
            if deadline > now {
                before = here;
            } else {
                fired.push(here);
                match before {
                    NIL => self.head = next,
                    _ => self.timers[before as usize].next = next,
                }
            }
            here = next;
        }
    }
}
