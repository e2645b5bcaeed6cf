//! Table 2: how long a new flow takes among so many that stand.

use anyhow::{Result, ensure};
use earmark_linux::heap;

use super::clock::{Clock, Tally};
use crate::bench::router::{Arrival, Protocol, Router};
use crate::overhead::baselines::chains::Chains;
use crate::overhead::baselines::keyed::Keyed;
use crate::overhead::baselines::{Index, Key};

/// New flows of a round. They are gone before the next.
const BATCH: u32 = 25;
/// Flows that are entered between two looks at whether to go on.
const CHUNK: u32 = 10_000;

/// A router and two structures with so many flows, and what was measured of them.
pub(super) struct Flows {
    pub(super) resident: u32,
    router: Router,
    /// Octets of heap that a flow takes; `None` where nobody counts.
    pub(super) octets: Option<f64>,
    /// A new flow in the router: the whole message.
    pub(super) build: Tally,
    /// A new flow in our index alone,
    pub(super) keyed: Structure,
    /// and in a table of 1 537 chains.
    pub(super) chains: Structure,
}

/// A structure in which flows are looked up and entered.
pub(super) struct Structure {
    index: Box<dyn Index>,
    pub(super) build: Tally,
}

impl Flows {
    /// So many flows stand. `go_on` hears how many there are.
    pub(super) fn new(resident: u32, mut go_on: impl FnMut(u32) -> Result<()>) -> Result<Flows> {
        let before = heap::in_use();
        let mut router = Router::new(Protocol::Yessir);
        let [set_up, ..] = Protocol::Yessir.messages() else { unreachable!("it has messages") };
        for number in 0..resident {
            if number.is_multiple_of(CHUNK) {
                go_on(number)?;
            }
            router.deliver_all(&[set_up.of(&router, number, 0)]);
        }
        router.forget_effects();
        let take = |(before, after): (usize, usize)| {
            after.saturating_sub(before) as f64 / f64::from(resident)
        };
        let octets = before.zip(heap::in_use()).map(take);
        let keyed = Structure::filled(Box::new(Keyed::new()), resident);
        let chains = Structure::filled(Box::new(Chains::of_yessir()), resident);
        Ok(Flows { resident, router, octets, build: Tally::default(), keyed, chains })
    }

    /// Some flows come, and go again.
    ///
    /// # Errors
    /// One did not come, or has stayed.
    pub(super) fn round(&mut self, clock: &Clock, round: u32) -> Result<()> {
        let first = self.resident + round * BATCH;
        let kinds = Protocol::Yessir.messages();
        let messages = |router: &Router, kind: usize| -> Vec<Arrival> {
            (first..first + BATCH).map(|number| kinds[kind].of(router, number, 0)).collect()
        };
        let new = messages(&self.router, 0);
        let router = &mut self.router;
        self.build
            .add(clock.each(&new, |arrival| router.deliver_all(std::slice::from_ref(arrival))));
        self.expect(self.resident + BATCH)?;
        let gone = messages(&self.router, kinds.len() - 1);
        self.router.deliver_all(&gone);
        self.expect(self.resident)?;
        self.keyed.round(clock, first);
        self.chains.round(clock, first);
        Ok(())
    }

    fn expect(&self, flows: u32) -> Result<()> {
        let there = self.router.sessions(Protocol::Yessir);
        ensure!(there == flows as usize, "YESSIR: {there} flows instead of {flows}");
        Ok(())
    }
}

impl Structure {
    /// A structure with so many flows.
    pub(super) fn filled(mut index: Box<dyn Index>, flows: u32) -> Structure {
        for number in 0..flows {
            index.enter(Key::numbered(number));
        }
        Structure { index, build: Tally::default() }
    }

    /// Flows from this one on are looked for in vain, and entered; then they go.
    pub(super) fn round(&mut self, clock: &Clock, first: u32) {
        let keys: Vec<Key> = (first..first + BATCH).map(Key::numbered).collect();
        let index = &mut self.index;
        self.build.add(clock.each(&keys, |key| index.find(key).or(Some(index.enter(*key)))));
        for key in &keys {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_built_among_those_that_stand() {
        let clock = Clock::calibrated();
        let mut told = Vec::new();
        let go_on = |count| {
            told.push(count);
            Ok(())
        };
        let mut flows = Flows::new(40, go_on).unwrap();
        assert_eq!(told, [0]);
        for round in 0..3 {
            flows.round(&clock, round).unwrap();
        }
        assert_eq!(flows.build.means().count(), 3);
        assert!(flows.build.means().all(|mean| mean > 0.0));
        for structure in [&flows.keyed, &flows.chains] {
            assert_eq!(structure.build.means().count(), 3);
            assert!(structure.index.find(&Key::numbered(39)).is_some());
            assert!(structure.index.find(&Key::numbered(40)).is_none(), "it went");
        }
    }
}
