//! Steps of messages: times from batches of marked messages, step by step.

use std::collections::BTreeMap;

use earmark_core::checkpoint::Checkpoint;
use earmark_lab::statistics::trimmed_mean;

use super::checkpoint_trace::{Clock, TracePoint};
use super::section::Estimate;

/// Steps of reservation management in the Budapest paper (Tables 4 and 9).
pub(super) const RESERVATION_MANAGEMENT: &[Checkpoint] =
    &[Checkpoint::FindRsb, Checkpoint::Admission, Checkpoint::ReservationManagement];

/// A set of steps: bit `n` is the checkpoint with number `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Steps(u32);

impl Steps {
    /// All steps, from the first mark to the last.
    pub(super) const ALL: Steps = Steps(u32::MAX);

    pub(super) fn of(checkpoints: &[Checkpoint]) -> Steps {
        Steps(checkpoints.iter().fold(0, |set, checkpoint| set | 1 << *checkpoint as u32))
    }

    fn has(self, checkpoint: Checkpoint) -> bool {
        self.0 & 1 << checkpoint as u32 != 0
    }
}

/// Returns the name of the step that ends with this mark; the time up to the last mark is the remainder of the
/// message.
pub(super) fn step_name(checkpoint: Checkpoint) -> String {
    if checkpoint == Checkpoint::End {
        return "the rest".to_owned();
    }
    checkpoint.name().replace('_', " ")
}

/// Times of a message's steps, one value a batch, microseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    order: Vec<Checkpoint>,
    batches: BTreeMap<Steps, Vec<f64>>,
    /// Number of messages in all batches.
    messages: u64,
}

impl Times {
    /// Returns the steps in their order.
    pub(super) fn order(&self) -> &[Checkpoint] {
        &self.order
    }

    /// Returns the time of each batch over these steps; `None` if none of them occurred.
    pub(super) fn of(&self, steps: Steps) -> Option<&[f64]> {
        self.batches.get(&steps).map(Vec::as_slice)
    }

    /// Returns the time over these steps, with its interval.
    pub(super) fn estimate(&self, steps: Steps) -> Option<Estimate> {
        Estimate::of_batches(self.of(steps)?, self.messages)
    }

    /// Records the means of a batch, without the lowest and the highest tenth: of each step, of each of these groups
    /// of steps, and of all of them. The counter may be coarser than a step, so that a median would be a multiple of
    /// its resolution.
    pub(super) fn note(&mut self, messages: &[&[TracePoint]], clock: &Clock, groups: &[Steps]) {
        for stamp in messages.iter().flat_map(|message| &message[1..]) {
            if !self.order.contains(&stamp.checkpoint) {
                self.order.push(stamp.checkpoint);
            }
        }
        let single = self.order.iter().map(|&checkpoint| Steps::of(&[checkpoint]));
        let mut sets: Vec<Steps> =
            single.chain(groups.iter().copied()).chain([Steps::ALL]).collect();
        sets.sort_unstable();
        sets.dedup();
        for steps in sets {
            let all =
                messages.iter().map(|message| clock.steps_us(message, |step| steps.has(step)));
            self.batches.entry(steps).or_default().push(trimmed_mean(all));
        }
        self.messages += messages.len() as u64;
    }

    /// Adds the times of later batches of the same kind of message.
    pub(super) fn append(&mut self, later: Times) {
        for checkpoint in later.order {
            if !self.order.contains(&checkpoint) {
                self.order.push(checkpoint);
            }
        }
        for (steps, batches) in later.batches {
            self.batches.entry(steps).or_default().extend(batches);
        }
        self.messages += later.messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_steps_are_sums() {
        let clock = Clock { tick: 1.0, mark: 0.0 };
        let at = |checkpoint, ticks| TracePoint { checkpoint, ticks };
        let message = [
            at(Checkpoint::Begin, 0),
            at(Checkpoint::Parse, 1_000),
            at(Checkpoint::Admission, 3_000),
            at(Checkpoint::Parse, 7_000),
            at(Checkpoint::End, 15_000),
        ];
        let group = Steps::of(&[Checkpoint::Admission, Checkpoint::End]);
        let mut times = Times::default();
        times.note(&[&message], &clock, &[group]);
        assert_eq!(times.order(), [Checkpoint::Parse, Checkpoint::Admission, Checkpoint::End]);
        let of = |times: &Times, steps| times.of(steps).map(<[f64]>::to_vec);
        assert_eq!(of(&times, Steps::of(&[Checkpoint::Parse])), Some(vec![5.0]), "1 and 4");
        assert_eq!(of(&times, group), Some(vec![10.0]));
        assert_eq!(of(&times, Steps::ALL), Some(vec![15.0]));
        assert_eq!(of(&times, Steps::of(&[Checkpoint::Route])), None);
        times.append(times.clone());
        assert_eq!(of(&times, group), Some(vec![10.0, 10.0]));
        assert_eq!(times.estimate(group).map(|estimate| estimate.repetitions), Some(2));
        assert_eq!(times.order().len(), 3);
    }
}
