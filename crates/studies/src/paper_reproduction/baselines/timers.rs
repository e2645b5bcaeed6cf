//! Timers of soft state: four structures behind one trait. Timers are numbered from 0; time is in milliseconds.

pub(in crate::paper_reproduction) mod buckets;
pub(in crate::paper_reproduction) mod heap;
pub(in crate::paper_reproduction) mod list;
pub(in crate::paper_reproduction) mod wheel;

use std::fmt;

/// Index of no timer.
const NIL: u32 = u32::MAX;
/// Interval of a structure with periodic scans, milliseconds.
const TICK: u64 = 1_000;

/// A structure of timers.
pub(in crate::paper_reproduction) trait Timers: fmt::Debug {
    /// Arms a timer that is not armed, to fire `interval` after `now`.
    fn arm(&mut self, timer: u32, now: u64, interval: u64);
    /// Restarts an armed timer.
    fn restart(&mut self, timer: u32, now: u64, interval: u64);
    /// Time of the next call of [`Timers::expire`]; `u64::MAX` for never.
    fn next(&self) -> u64;
    /// Removes the timers that have expired by `now`, and adds them to `fired`.
    fn expire(&mut self, now: u64, fired: &mut Vec<u32>);
}

/// Returns all structures at the time `now`, with room for `timers` timers, each with its name.
pub(in crate::paper_reproduction) fn all(
    timers: usize,
    now: u64,
) -> [(&'static str, Box<dyn Timers>); 4] {
    [
        ("Earmark: timing wheel", Box::new(wheel::Wheel::new(timers, now))),
        ("ISI RSVP: list", Box::new(list::List::new(timers, now))),
        ("XORP: sorted heap", Box::new(heap::Heap::new(timers))),
        ("GIST 0.5.2: buckets", Box::new(buckets::Buckets::new(timers, now))),
    ]
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::*;

    /// Reference model with the standard library's heap: a restarted timer leaves a stale entry behind.
    #[derive(Default)]
    struct Model {
        heap: BinaryHeap<Reverse<(u64, u32)>>,
        deadlines: Vec<Option<u64>>,
    }

    impl Model {
        fn set(&mut self, timer: u32, deadline: u64) {
            self.deadlines[timer as usize] = Some(deadline);
            self.heap.push(Reverse((deadline, timer)));
        }

        fn expire(&mut self, now: u64) -> Vec<u32> {
            let mut fired = Vec::new();
            while let Some(&Reverse((deadline, timer))) = self.heap.peek() {
                if deadline > now {
                    break;
                }
                self.heap.pop();
                if self.deadlines[timer as usize] == Some(deadline) {
                    self.deadlines[timer as usize] = None;
                    fired.push(timer);
                }
            }
            fired.sort_unstable();
            fired
        }
    }

    proptest! {
        /// With deadlines in whole seconds every structure fires the same timers as a heap, second by second.
        #[test]
        fn each_structure_fires_what_a_heap_fires(
            seconds in prop::collection::vec(
                prop::collection::vec((0_u32..20, 1_u64..70), 0..6), 1..150,
            ),
        ) {
            const START: u64 = 7_000;
            for (name, mut timers) in all(20, START) {
                let mut model = Model { deadlines: vec![None; 20], ..Model::default() };
                for (second, inputs) in (0_u64..).zip(&seconds) {
                    let now = START + 1_000 * second;
                    let mut fired = Vec::new();
                    while timers.next() <= now {
                        let next = timers.next();
                        timers.expire(next, &mut fired);
                    }
                    fired.sort_unstable();
                    prop_assert_eq!(fired, model.expire(now), "{} at {}", name, now);
                    for &(timer, interval) in inputs {
                        let interval = 1_000 * interval;
                        match model.deadlines[timer as usize] {
                            Some(_) => timers.restart(timer, now, interval),
                            None => timers.arm(timer, now, interval),
                        }
                        model.set(timer, now + interval);
                    }
                }
            }
        }
    }
}
