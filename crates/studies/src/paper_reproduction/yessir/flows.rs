//! Table 2: time of a new flow among a number of resident flows.

use anyhow::{Result, ensure};
use earmark_core::checkpoint::Checkpoint;
use earmark_linux::heap;

use super::clock::{Clock, Tally};
use crate::bench::router::{Arrival, Protocol, Router};
use crate::paper_reproduction::baselines::chained_hash::ChainedHashTable;
use crate::paper_reproduction::baselines::keyed_hash::KeyedHashTable;
use crate::paper_reproduction::baselines::{Index, Key};
use crate::paper_reproduction::checkpoint_trace::{self, CheckpointTracing, by_message, record};

/// Batches of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    pub(super) of_flows: u32,
    pub(super) of_steps: u32,
}

/// Number of new flows of a batch, which are removed before the next.
const BATCH: u32 = 25;
/// Number of flows that are inserted between two checks for an interrupt.
const CHUNK: u32 = 10_000;

/// A number of resident flows, and the measurements of new ones among them.
pub(super) struct Flows {
    pub(super) resident: u32,
    /// Heap of a flow, octets; `None` if the heap is not counted.
    pub(super) octets: Option<f64>,
    /// Time of a new flow in the router: the whole message.
    pub(super) build: Tally,
    /// Time of the steps of it that the paper timed: failed look-up of the flow, and its creation.
    pub(super) look_up: Tally,
    /// Time of a new flow in our index alone.
    pub(super) keyed: Tally,
    /// Time of a new flow in a table of 1 537 chains.
    pub(super) chains: Tally,
}

/// A router and two structures with their flows.
struct ResidentFlows {
    router: Router,
    keyed: Box<dyn Index>,
    chains: Box<dyn Index>,
    /// Heap of a flow in the router, octets.
    octets: Option<f64>,
}

impl Flows {
    /// Creates empty measurements.
    pub(super) fn new(resident: u32) -> Flows {
        let [build, look_up, keyed, chains] = std::array::from_fn(|_| Tally::default());
        Flows { resident, octets: None, build, look_up, keyed, chains }
    }

    /// Creates the resident flows anew, and adds and removes new ones in `rounds` rounds.
    ///
    /// # Errors
    /// A flow was not added or not removed; the errors of `go_on`.
    pub(super) fn rounds(
        &mut self,
        rounds: u32,
        batches: Batches,
        marks_clock: &checkpoint_trace::Clock,
        check_interrupted: &impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut flows_in_place = ResidentFlows::new(self.resident, check_interrupted)?;
        self.octets = flows_in_place.octets;
        for round in 0..rounds {
            check_interrupted()?;
            let clock = Clock::calibrated();
            for batch in 0..batches.of_flows {
                let first = self.resident + (round * batches.of_flows + batch) * 2 * BATCH;
                flows_in_place.build(first, self.resident, |router, new| {
                    let deliver = |arrival| router.deliver_all(std::slice::from_ref(arrival));
                    clock.each(&mut self.build, new, deliver);
                    Ok(())
                })?;
                flows_in_place.build(first + BATCH, self.resident, |router, new| {
                    time_look_ups(router, marks_clock, &mut self.look_up, new)
                })?;
                build(&mut *flows_in_place.keyed, &clock, &mut self.keyed, first, BATCH);
                build(&mut *flows_in_place.chains, &clock, &mut self.chains, first, BATCH);
            }
            [&mut self.build, &mut self.look_up, &mut self.keyed, &mut self.chains]
                .into_iter()
                .for_each(Tally::end_round);
        }
        Ok(())
    }
}

impl ResidentFlows {
    fn new(resident: u32, check_interrupted: &impl Fn() -> Result<()>) -> Result<ResidentFlows> {
        let before = heap::in_use();
        let mut router = Router::new(Protocol::Yessir);
        let [set_up, ..] = Protocol::Yessir.messages() else { unreachable!("it has messages") };
        for number in 0..resident {
            if number.is_multiple_of(CHUNK) {
                check_interrupted()?;
            }
            router.deliver_all(&[set_up.of(&router, number, 0)]);
        }
        router.forget_effects();
        let take = |(before, after): (usize, usize)| {
            after.saturating_sub(before) as f64 / f64::from(resident)
        };
        let octets = before.zip(heap::in_use()).map(take);
        let keyed = filled(Box::new(KeyedHashTable::new()), resident);
        let chains = filled(Box::new(ChainedHashTable::of_yessir()), resident);
        Ok(ResidentFlows { router, keyed, chains, octets })
    }

    /// Adds new flows, from number `first` on, to the router with its resident ones by `deliver`, and removes them.
    fn build(
        &mut self,
        first: u32,
        resident: u32,
        deliver: impl FnOnce(&mut Router, &[Arrival]) -> Result<()>,
    ) -> Result<()> {
        let kinds = Protocol::Yessir.messages();
        let messages = |router: &Router, kind: usize| -> Vec<Arrival> {
            (first..first + BATCH).map(|number| kinds[kind].of(router, number, 0)).collect()
        };
        let new = messages(&self.router, 0);
        deliver(&mut self.router, &new)?;
        self.expect(resident + BATCH)?;
        let gone = messages(&self.router, kinds.len() - 1);
        self.router.deliver_all(&gone);
        self.expect(resident)
    }

    fn expect(&self, flows: u32) -> Result<()> {
        let there = self.router.sessions(Protocol::Yessir);
        ensure!(there == flows as usize, "YESSIR: {there} flows instead of {flows}");
        Ok(())
    }
}

/// Delivers messages of new flows, and times the look-up and the creation of each by the engine's marks.
pub(super) fn time_look_ups(
    router: &mut Router,
    clock: &checkpoint_trace::Clock,
    into: &mut Tally,
    new: &[Arrival],
) -> Result<()> {
    let marks = CheckpointTracing::begin();
    let mut stamps = Vec::new();
    record(&marks, &mut stamps, || router.deliver_all(new))?;
    ensure!(by_message(&stamps).count() == new.len(), "YESSIR: messages without marks");
    let is_look_up = |step| matches!(step, Checkpoint::FindSession | Checkpoint::CreateSession);
    by_message(&stamps).for_each(|message| into.add(clock.steps_us(message, is_look_up)));
    Ok(())
}

/// Returns the structure with a number of flows.
pub(super) fn filled(mut index: Box<dyn Index>, flows: u32) -> Box<dyn Index> {
    for number in 0..flows {
        index.enter(Key::numbered(number));
    }
    index
}

/// Looks up new flows without success and inserts them, from number `first` on; then removes them.
pub(super) fn build(
    index: &mut dyn Index,
    clock: &Clock,
    into: &mut Tally,
    first: u32,
    count: u32,
) {
    let keys: Vec<Key> = (first..first + count).map(Key::numbered).collect();
    clock.each(into, &keys, |key| index.find(key).or(Some(index.enter(*key))));
    for key in &keys {
        index.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn flows_are_built_beside_resident_ones() {
        let looks = Cell::new(0);
        let check_interrupted = || {
            looks.set(looks.get() + 1);
            Ok(())
        };
        let mut flows = Flows::new(40);
        let batches = Batches { of_flows: 2, of_steps: 1 };
        let marks_clock = checkpoint_trace::Clock::calibrate(&CheckpointTracing::begin()).unwrap();
        flows.rounds(2, batches, &marks_clock, &check_interrupted).unwrap();
        flows.rounds(1, batches, &marks_clock, &check_interrupted).unwrap();
        assert_eq!(looks.get(), 5, "twice there was something to be made, and three rounds");
        for tally in [&flows.build, &flows.look_up, &flows.keyed, &flows.chains] {
            assert!(tally.means().count() == 3 && tally.means().all(|mean| mean > 0.0));
            let repetitions = tally.mean().map(|mean| mean.repetitions);
            assert_eq!(repetitions, Some(3 * 2 * u64::from(BATCH)));
        }
        let interrupted = || anyhow::bail!("interrupted");
        assert!(flows.rounds(1, batches, &marks_clock, &interrupted).is_err());
    }

    #[test]
    fn inserted_flows_are_removed_again() {
        let mut index = filled(Box::new(KeyedHashTable::new()), 40);
        let mut tally = Tally::default();
        build(&mut *index, &Clock::calibrated(), &mut tally, 40, 5);
        assert!(index.find(&Key::numbered(39)).is_some());
        assert!((40..45).all(|number| index.find(&Key::numbered(number)).is_none()));
        tally.end_round();
        assert_eq!(tally.mean().map(|mean| mean.repetitions), Some(5));
    }
}
