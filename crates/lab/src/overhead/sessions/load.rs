//! Session load: one router that holds so many sessions, all refreshed every 30 s, and what each message costs it meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::messages::{far_apart, time};
use crate::bench::router::{Message, Protocol, Router, Step};
use crate::overhead::chapter::Estimate;
use crate::overhead::marks::{Clock, Marks, by_message, record};
use crate::overhead::steps::Times;

use super::table9;

/// New sessions that come and go on top of those that stand.
pub(super) const BATCH: u32 = 50;
/// How often they do in a visit; the median counts.
const TIMES: u32 = 3;
/// How often each session is refreshed.
const REFRESH_S: u32 = 30;
/// Routers refresh after half to one and a half times as long, each session at its own time: before this has passed they would have
/// less to do than later.
const WARM_UP_S: u32 = 15;
/// Messages that are written at once.
const CHUNK: u32 = 1_000;

/// What messages of a kind took.
pub(super) struct KindCosts {
    pub(super) message: Message,
    /// Microseconds of one, visit by visit.
    pub(super) times: Vec<f64>,
    /// Its steps, marked in visits of their own.
    pub(super) steps: Times,
}

/// What was measured of a router with so many sessions.
pub(super) struct Costs {
    pub(super) protocol: Protocol,
    pub(super) sessions: u32,
    pub(super) kinds: Vec<KindCosts>,
    /// Microseconds that the router is busy with its timers in a second, second by second.
    pub(super) upkeep: Vec<f64>,
}

/// A router, its sessions, and what was measured of it.
pub(super) struct Load {
    pub(super) costs: Costs,
    router: Router,
    /// Seconds that have passed, in the router's time.
    seconds: u32,
    /// How often new sessions have come and gone.
    rounds: u32,
}

impl Costs {
    fn new(protocol: Protocol, sessions: u32) -> Costs {
        let nothing = |message| KindCosts { message, times: Vec::new(), steps: Times::default() };
        let kinds = protocol.messages_of_both_ends().into_iter().map(nothing).collect();
        Costs { protocol, sessions, kinds, upkeep: Vec::new() }
    }

    /// Adds what was measured later of a router like this one.
    pub(super) fn add(&mut self, later: Costs) {
        for (all, later) in self.kinds.iter_mut().zip(later.kinds) {
            all.times.extend(later.times);
            all.steps.append(later.steps);
        }
        self.upkeep.extend(later.upkeep);
    }

    /// Sessions that messages of this kind are about in a round: others each time, so that no table has their places in a cache.
    fn batch(&self, kind: &Message, round: u32) -> Vec<u32> {
        match kind.step {
            Step::Refresh => far_apart(self.sessions, BATCH.min(self.sessions), round).collect(),
            Step::SetUp | Step::Release => {
                let first = self.sessions + round * BATCH;
                (first..first + BATCH).collect()
            }
        }
    }

    /// Sessions that stand while messages of this kind are timed, on average.
    pub(super) fn resident(&self, kind: &Message) -> f64 {
        let on_top = if kind.step == Step::Refresh { 0 } else { BATCH / 2 };
        f64::from(self.sessions + on_top)
    }
}

impl Load {
    /// A router with its sessions, which came one after the other within 30 s. `go_on` hears how many there are.
    pub(super) fn new(
        protocol: Protocol,
        sessions: u32,
        mut go_on: impl FnMut(u32) -> Result<()>,
    ) -> Result<Load> {
        let (costs, router) = (Costs::new(protocol, sessions), Router::new(protocol));
        let mut load = Load { costs, router, seconds: 0, rounds: 0 };
        for second in 0..REFRESH_S {
            go_on(load.share(second).0)?;
            load.deliver(Step::SetUp, second, 0);
            load.router.advance(Duration::from_secs(1));
        }
        for _ in 0..WARM_UP_S {
            load.refresh();
            go_on(sessions)?;
            load.router.advance(Duration::from_secs(1));
        }
        load.router.forget_effects();
        load.expect()?;
        Ok(load)
    }

    /// Sessions whose turn it is in this second: from the first, up to but without the second.
    fn share(&self, second: u32) -> (u32, u32) {
        let turn = u64::from(second % REFRESH_S);
        let end = |turn: u64| (turn * u64::from(self.costs.sessions) / u64::from(REFRESH_S)) as u32;
        (end(turn), end(turn + 1))
    }

    /// Messages to the sessions whose turn it is.
    fn deliver(&mut self, step: Step, second: u32, round: u32) {
        let (first, end) = self.share(second);
        for start in (first..end).step_by(CHUNK as usize) {
            for kind in self.costs.protocol.runs(step).flatten() {
                let chunk = start..end.min(start + CHUNK);
                let arrivals: Vec<_> =
                    chunk.map(|session| kind.of(&self.router, session, round)).collect();
                self.router.deliver_all(&arrivals);
            }
        }
    }

    /// The neighbours refresh what is due in this second.
    fn refresh(&mut self) {
        self.seconds += 1;
        let period = 1 + self.seconds / REFRESH_S;
        self.deliver(Step::Refresh, self.seconds - 1, period);
    }

    /// A second passes, and the neighbours refresh what is due in it.
    pub(super) fn pass_a_second(&mut self) {
        self.refresh();
        let start = Instant::now();
        self.router.advance(Duration::from_secs(1));
        self.costs.upkeep.push(start.elapsed().as_secs_f64() * 1e6);
    }

    /// Each kind of message comes, and is timed.
    ///
    /// # Errors
    /// A session was lost, or one too many has stayed.
    pub(super) fn visit(&mut self) -> Result<()> {
        let mut times = vec![Vec::new(); self.costs.kinds.len()];
        for _ in 0..TIMES {
            self.rounds += 1;
            for (kind, times) in self.costs.kinds.iter().zip(&mut times) {
                let batch = self.costs.batch(&kind.message, self.rounds);
                let nanos = time(&mut self.router, &kind.message, batch.into_iter(), self.rounds);
                times.push(nanos / 1e3);
            }
        }
        for (kind, times) in self.costs.kinds.iter_mut().zip(times) {
            kind.times.extend(Estimate::of(&times).map(|of_visit| of_visit.median));
        }
        self.expect()
    }

    /// Each kind of message comes, and its steps are timed. A thread that loses its processor meanwhile does so in one message of a
    /// batch or two, which the mean of the middle leaves out.
    ///
    /// # Errors
    /// As of [`Load::visit`]; the kernel does not tell of context switches.
    pub(super) fn visit_steps(&mut self, clock: &Clock) -> Result<()> {
        let marks = Marks::begin();
        let mut stamps = Vec::new();
        self.rounds += 1;
        for place in 0..self.costs.kinds.len() {
            let message = &self.costs.kinds[place].message;
            let of = |session| message.of(&self.router, session, self.rounds);
            let arrivals: Vec<_> =
                self.costs.batch(message, self.rounds).into_iter().map(of).collect();
            record(&marks, &mut stamps, || self.router.deliver_all(&arrivals))?;
            let groups = table9::groups(self.costs.protocol, message.name);
            let messages: Vec<_> = by_message(&stamps).collect();
            self.costs.kinds[place].steps.note(&messages, clock, &groups);
        }
        self.expect()
    }

    fn expect(&self) -> Result<()> {
        let Costs { protocol, sessions, .. } = self.costs;
        let (there, name) = (self.router.sessions(protocol), protocol.name());
        ensure!(there == sessions as usize, "{name}: {there} sessions instead of {sessions}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::steps::Steps;

    #[test]
    fn sessions_stand_while_messages_of_all_kinds_are_timed() {
        for protocol in Protocol::ALL {
            let mut told = Vec::new();
            let go_on = |count| {
                told.push(count);
                Ok(())
            };
            let mut load = Load::new(protocol, 40, go_on).unwrap();
            assert!(told.is_sorted() && told.contains(&40), "{told:?}");
            // Longer than any soft state lives that nobody refreshes, but for the routing state of GIST.
            for _ in 0..100 {
                load.refresh();
                load.router.advance(Duration::from_secs(1));
            }
            load.pass_a_second();
            let remains = load.router.remains(protocol);
            load.visit().unwrap();
            load.visit().unwrap();
            let clock = Clock::calibrate(&Marks::begin()).unwrap();
            load.visit_steps(&clock).unwrap();
            assert_eq!(load.router.remains(protocol), remains, "{protocol:?}");
            let Costs { kinds, upkeep, .. } = &load.costs;
            assert_eq!(kinds.len(), protocol.messages_of_both_ends().len());
            assert!(kinds.iter().all(|kind| kind.times.len() == 2));
            assert!(kinds.iter().flat_map(|kind| &kind.times).all(|&time| time > 0.0));
            let steps = |kind: &KindCosts| kind.steps.of(Steps::ALL).map(<[f64]>::len);
            assert!(kinds.iter().all(|kind| steps(kind) == Some(1)));
            assert_eq!(upkeep.len(), 1);
            let mut all = Costs::new(protocol, 40);
            all.add(load.costs);
            assert!(all.kinds.iter().all(|kind| kind.times.len() == 2) && all.upkeep.len() == 1);
            assert!(all.kinds.iter().all(|kind| steps(kind) == Some(1)));
        }
    }

    #[test]
    fn every_session_has_its_turn_once_in_a_period() {
        for sessions in [1, 29, 30, 100] {
            let load = Load {
                costs: Costs::new(Protocol::Yessir, sessions),
                router: Router::new(Protocol::Yessir),
                seconds: 0,
                rounds: 0,
            };
            let shares: Vec<(u32, u32)> = (7..37).map(|second| load.share(second)).collect();
            let all: u32 = shares.iter().map(|(first, end)| end - first).sum();
            assert_eq!(all, sessions);
        }
    }
}
