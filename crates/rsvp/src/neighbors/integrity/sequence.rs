//! Sequence numbers of received messages (RFC 2747 section 4.2).

use alloc::vec::Vec;

use earmark_core::keys::is_newer;

/// Window of the last N accepted sequence numbers, oldest first. A number older than all of them, or among them, is a
/// replay. N = 1 allows no reordering.
#[derive(Clone, Debug)]
pub(super) struct Window {
    seen: Vec<u64>,
}

impl Window {
    /// Creates a window for a sender that has last used `sequence`.
    pub(super) fn starting_at(sequence: u64) -> Window {
        Window { seen: alloc::vec![sequence] }
    }

    /// Returns whether `sequence` is new, and records it. `size` is N, at least 1.
    pub(super) fn accept(&mut self, sequence: u64, size: usize) -> bool {
        // Distances to the newest number keep the order across 2^64.
        let newest = self.seen.last().copied().unwrap_or(sequence.wrapping_sub(1));
        if is_newer(sequence, newest) {
            self.seen.push(sequence);
        } else {
            let age = newest.wrapping_sub(sequence);
            let place = self.seen.partition_point(|&other| newest.wrapping_sub(other) > age);
            if place == 0 || self.seen.get(place) == Some(&sequence) {
                return false;
            }
            self.seen.insert(place, sequence);
        }
        if self.seen.len() > size {
            self.seen.remove(0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    /// Sequence numbers and whether they are accepted, for windows of 1 and of 3.
    #[test]
    fn old_or_seen_number_is_replay() {
        let scripts: [(usize, &[(u64, bool)]); 2] = [
            (1, &[(10, false), (9, false), (11, true), (11, false), (13, true), (12, false)]),
            (
                3,
                &[
                    (9, false),  // older than the window
                    (20, true),  // 10 20
                    (15, true),  // 10 15 20
                    (15, false), // duplicate
                    (18, true),  // 15 18 20
                    (12, false), // below the lower end now
                    (19, true),  // 18 19 20
                    (20, false),
                    (21, true),
                ],
            ),
        ];
        for (size, script) in scripts {
            let mut window = Window::starting_at(10);
            for &(sequence, fresh) in script {
                assert_eq!(window.accept(sequence, size), fresh, "{sequence} in {size}");
            }
        }
        let mut across = Window::starting_at(u64::MAX);
        assert!(across.accept(2, 3) && across.accept(0, 3) && !across.accept(0, 3));
        assert!(!across.accept(u64::MAX - 1, 3));
    }

    proptest! {
        /// No number is accepted twice in any order, and in ascending order all are accepted.
        #[test]
        fn no_number_passes_twice(
            numbers in proptest::collection::vec(0_u64..64, 1..200),
            size in 1_usize..40,
            base in any::<u64>(),
        ) {
            let mut window = Window::starting_at(base);
            let mut passed = std::collections::BTreeSet::new();
            for number in &numbers {
                if window.accept(base.wrapping_add(*number), size) {
                    prop_assert!(passed.insert(*number));
                }
                prop_assert!(window.seen.len() <= size.max(1));
            }
            let mut window = Window::starting_at(base);
            for number in 1..100 {
                prop_assert!(window.accept(base.wrapping_add(number), size));
            }
        }
    }
}
