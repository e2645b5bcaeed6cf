//! The timing wheel compared with a sorted map: whatever is armed, moved and cancelled, both fire the same.

use std::collections::BTreeMap;

use earmark_core::Time;
use earmark_core::timer::{TimerId, TimingWheel};
use proptest::prelude::*;

const TICK: u64 = 1_000_000;

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    /// Nanoseconds from now, or, if `past`, before now.
    Arm {
        after: u64,
        past: bool,
    },
    /// Any id ever returned, stale ones too, and its new time from now.
    Rearm {
        which: prop::sample::Index,
        after: u64,
    },
    Cancel {
        which: prop::sample::Index,
    },
    /// Waits this long and takes what is due, but no more than so many.
    Advance {
        by: u64,
        at_most: usize,
    },
    /// Waits for the next deadline and takes all that is due.
    Sleep,
}

/// Spans of every magnitude, so that every level of the wheel and its edges are reached.
fn span() -> impl Strategy<Value = u64> {
    (0_u32..58, any::<u64>(), 0_u64..3).prop_map(|(bits, random, ticks)| {
        let random = random & ((1 << bits) - 1);
        if ticks == 0 { random / TICK * TICK } else { random }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => (span(), prop::bool::weighted(0.1)).prop_map(|(after, past)| Step::Arm { after, past }),
        1 => (which(), span()).prop_map(|(which, after)| Step::Rearm { which, after }),
        1 => which().prop_map(|which| Step::Cancel { which }),
        2 => (span(), 0_usize..20).prop_map(|(by, at_most)| Step::Advance { by, at_most }),
        1 => Just(Step::Sleep),
    ]
}

/// Reference model: sorted by the tick at which a timer fires, then by the order of arming.
#[derive(Default)]
struct Model {
    now: Time,
    /// Ticks that `now` has passed, as the wheel knows them.
    reached: u64,
    armings: u64,
    queue: BTreeMap<(u64, u64), (Time, usize)>,
    keys: BTreeMap<usize, (u64, u64)>,
}

impl Model {
    fn arm(&mut self, at: Time, timer: usize) {
        let tick = at.as_nanos().div_ceil(TICK).max(self.reached);
        self.armings += 1;
        self.queue.insert((tick, self.armings), (at, timer));
        self.keys.insert(timer, (tick, self.armings));
    }

    fn disarm(&mut self, timer: usize) -> bool {
        self.keys.remove(&timer).is_some_and(|key| self.queue.remove(&key).is_some())
    }

    fn pop_due(&mut self) -> Option<(Time, usize)> {
        let target = self.now.as_nanos() / TICK;
        match self.queue.first_entry() {
            Some(first) if first.key().0 <= target => {
                self.reached = self.reached.max(first.key().0);
                let (at, timer) = first.remove();
                self.keys.remove(&timer);
                Some((at, timer))
            }
            _ => {
                self.reached = self.reached.max(target);
                None
            }
        }
    }
}

/// Both, and every id that was returned: the payload is its index here.
#[derive(Default)]
struct Pair {
    model: Model,
    wheel: TimingWheel<usize>,
    ids: Vec<TimerId>,
}

impl Pair {
    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let now = self.model.now.as_nanos();
        match *step {
            Step::Arm { after, past } => {
                let at = if past { now.saturating_sub(after) } else { now.saturating_add(after) };
                let timer = self.ids.len();
                self.ids.push(self.wheel.arm(Time::from_nanos(at), timer));
                self.model.arm(Time::from_nanos(at), timer);
            }
            Step::Rearm { which, after } if !self.ids.is_empty() => {
                let timer = which.index(self.ids.len());
                let at = Time::from_nanos(now.saturating_add(after));
                let armed = self.model.disarm(timer);
                prop_assert_eq!(self.wheel.rearm(self.ids[timer], at), armed);
                if armed {
                    self.model.arm(at, timer);
                    prop_assert_eq!(self.wheel.deadline(self.ids[timer]), Some(at));
                }
            }
            Step::Cancel { which } if !self.ids.is_empty() => {
                let timer = which.index(self.ids.len());
                let armed = self.model.disarm(timer).then_some(timer);
                prop_assert_eq!(self.wheel.cancel(self.ids[timer]), armed);
            }
            Step::Rearm { .. } | Step::Cancel { .. } => {}
            Step::Advance { by, at_most } => {
                self.model.now = Time::from_nanos(now.saturating_add(by));
                for _ in 0..at_most {
                    self.pop()?;
                }
            }
            Step::Sleep => {
                if let Some(next) = self.wheel.next_deadline() {
                    self.model.now = self.model.now.max(next);
                }
                while self.pop()? {}
            }
        }
        self.check()
    }

    fn pop(&mut self) -> Result<bool, TestCaseError> {
        let fired = self.wheel.pop_due(self.model.now);
        prop_assert_eq!(fired, self.model.pop_due());
        prop_assert!(fired.is_none_or(|(at, _)| at <= self.model.now), "fired early");
        Ok(fired.is_some())
    }

    /// Checks that the wheel's next deadline is never late, and exact if the nearest timer is near.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.wheel.len(), self.model.queue.len());
        let next = self.wheel.next_deadline();
        let Some((&(tick, _), _)) = self.model.queue.first_key_value() else {
            prop_assert_eq!(next, None);
            return Ok(());
        };
        let exact = Time::from_nanos(tick.saturating_mul(TICK));
        prop_assert!(next <= Some(exact), "{next:?} is after {exact}");
        if tick / 64 == self.model.reached / 64 {
            prop_assert_eq!(next, Some(exact));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn timing_wheel_agrees_with_map(steps in prop::collection::vec(step(), 0..120)) {
        let mut pair = Pair::default();
        for step in steps {
            pair.apply(&step)?;
        }
        // In the end everything fires.
        pair.model.now = Time::MAX;
        while pair.pop()? {}
    }
}
