//! Timers in a binary heap, the earliest on top (XORP). The position of each timer is known, so that it can be moved
//! without a search.

use super::{NIL, Timers};

/// The heap.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct Heap {
    /// Deadline and timer.
    heap: Vec<(u64, u32)>,
    /// Position of each timer.
    places: Vec<u32>,
}

impl Heap {
    /// Creates an empty heap.
    pub(in crate::paper_reproduction) fn new(timers: usize) -> Heap {
        Heap { heap: Vec::with_capacity(timers), places: vec![NIL; timers] }
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    /// Moves an entry up to its position.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above].0 <= entry.0 {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    /// Moves an entry down to its position.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let below = [left, left + 1].into_iter().filter(|&below| below < self.heap.len());
            let Some(least) = below.min_by_key(|&below| self.heap[below].0) else { break };
            if entry.0 <= self.heap[least].0 {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }
}

impl Timers for Heap {
    fn arm(&mut self, timer: u32, now: u64, interval: u64) {
        self.heap.push((now + interval, timer));
        self.rise(self.heap.len() - 1);
    }

    fn restart(&mut self, timer: u32, now: u64, interval: u64) {
        let place = self.places[timer as usize] as usize;
        self.heap[place].0 = now + interval;
        self.rise(place);
        self.sink(self.places[timer as usize] as usize);
    }

    fn next(&self) -> u64 {
        self.heap.first().map_or(u64::MAX, |&(deadline, _)| deadline)
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(&(deadline, timer)) = self.heap.first() {
            if deadline > now {
                return;
            }
            fired.push(timer);
            let last = self.heap.swap_remove(0);
            debug_assert_eq!(last.1, timer);
            if !self.heap.is_empty() {
                self.sink(0);
            }
        }
    }
}
