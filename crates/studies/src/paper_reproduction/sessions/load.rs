//! Session load: one router that holds a number of sessions, all refreshed every 30 s, and the cost of each message
//! meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::messages::{far_apart, time};
use crate::bench::router::{Message, Protocol, Router, Step};
use crate::paper_reproduction::checkpoint_trace::{CheckpointTracing, Clock, by_message, record};
use crate::paper_reproduction::section::Estimate;
use crate::paper_reproduction::steps::Times;

use super::counterparts;

/// Number of new sessions that are set up and released besides the resident ones.
pub(super) const BATCH: u32 = 50;
/// Number of such batches in a visit; the median counts.
const TIMES: u32 = 3;
/// Refresh interval of each session, seconds.
const REFRESH_S: u32 = 30;
/// Warm-up, seconds. Routers refresh each session at a random time after half to one and a half intervals, so they
/// have less work before this time than later.
const WARM_UP_S: u32 = 15;
/// Number of messages that are written at once.
const CHUNK: u32 = 1_000;

/// Cost of messages of a kind.
pub(super) struct KindCosts {
    pub(super) message: Message,
    /// Time of one message, visit by visit, microseconds.
    pub(super) times: Vec<f64>,
    /// Steps of the message, marked in visits of their own.
    pub(super) steps: Times,
}

/// Measurements of a router with a number of sessions.
pub(super) struct Costs {
    pub(super) protocol: Protocol,
    pub(super) sessions: u32,
    pub(super) kinds: Vec<KindCosts>,
    /// Time that the router spends on timers in a second of virtual time, second by second, microseconds.
    pub(super) maintenance: Vec<f64>,
}

/// A router, its sessions, and its measurements.
pub(super) struct Load {
    pub(super) costs: Costs,
    router: Router,
    /// Virtual time that has passed, seconds.
    seconds: u32,
    /// Number of batches of new sessions so far.
    rounds: u32,
}

impl Costs {
    fn new(protocol: Protocol, sessions: u32) -> Costs {
        let nothing = |message| KindCosts { message, times: Vec::new(), steps: Times::default() };
        let kinds = protocol.messages_of_both_ends().into_iter().map(nothing).collect();
        Costs { protocol, sessions, kinds, maintenance: Vec::new() }
    }

    /// Adds later measurements of an equal router.
    pub(super) fn add(&mut self, later: Costs) {
        for (all, later) in self.kinds.iter_mut().zip(later.kinds) {
            all.times.extend(later.times);
            all.steps.append(later.steps);
        }
        self.maintenance.extend(later.maintenance);
    }

    /// Returns the sessions for messages of this kind in a round: different ones each time, so that their table
    /// entries are not cached.
    fn batch(&self, kind: &Message, round: u32) -> Vec<u32> {
        match kind.step {
            Step::Refresh => far_apart(self.sessions, BATCH.min(self.sessions), round).collect(),
            Step::SetUp | Step::Release => {
                let first = self.sessions + round * BATCH;
                (first..first + BATCH).collect()
            }
        }
    }

    /// Returns the mean number of resident sessions while messages of this kind are timed.
    pub(super) fn resident(&self, kind: &Message) -> f64 {
        let on_top = if kind.step == Step::Refresh { 0 } else { BATCH / 2 };
        f64::from(self.sessions + on_top)
    }
}

impl Load {
    /// Creates a router with its sessions, whose set-ups are spread over 30 s. `go_on` receives their number so far.
    pub(super) fn new(
        protocol: Protocol,
        sessions: u32,
        mut check_interrupted: impl FnMut(u32) -> Result<()>,
    ) -> Result<Load> {
        let (costs, router) = (Costs::new(protocol, sessions), Router::new(protocol));
        let mut load = Load { costs, router, seconds: 0, rounds: 0 };
        for second in 0..REFRESH_S {
            check_interrupted(load.share(second).0)?;
            load.deliver(Step::SetUp, second, 0);
            load.router.advance(Duration::from_secs(1));
        }
        for _ in 0..WARM_UP_S {
            load.refresh();
            check_interrupted(sessions)?;
            load.router.advance(Duration::from_secs(1));
        }
        load.router.forget_effects();
        load.expect()?;
        Ok(load)
    }

    /// Returns the range of sessions that are refreshed in this second; the end is exclusive.
    fn share(&self, second: u32) -> (u32, u32) {
        let turn = u64::from(second % REFRESH_S);
        let end = |turn: u64| (turn * u64::from(self.costs.sessions) / u64::from(REFRESH_S)) as u32;
        (end(turn), end(turn + 1))
    }

    /// Delivers messages to the sessions that are due in this second.
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

    /// Delivers the refreshes of the neighbors that are due in this second.
    fn refresh(&mut self) {
        self.seconds += 1;
        let period = 1 + self.seconds / REFRESH_S;
        self.deliver(Step::Refresh, self.seconds - 1, period);
    }

    /// Advances time by a second, with the neighbors' refreshes that are due in it.
    pub(super) fn advance_second(&mut self) {
        self.refresh();
        let start = Instant::now();
        self.router.advance(Duration::from_secs(1));
        self.costs.maintenance.push(start.elapsed().as_secs_f64() * 1e6);
    }

    /// Delivers and times each kind of message.
    ///
    /// # Errors
    /// A session was lost, or was not removed.
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

    /// Delivers each kind of message and times its steps. A thread that loses its processor meanwhile does so in one
    /// message of a batch or two, which the trimmed mean leaves out.
    ///
    /// # Errors
    /// The errors of [`Load::visit`]; the kernel does not report context switches.
    pub(super) fn visit_steps(&mut self, clock: &Clock) -> Result<()> {
        let marks = CheckpointTracing::begin();
        let mut stamps = Vec::new();
        self.rounds += 1;
        for place in 0..self.costs.kinds.len() {
            let message = &self.costs.kinds[place].message;
            let of = |session| message.of(&self.router, session, self.rounds);
            let arrivals: Vec<_> =
                self.costs.batch(message, self.rounds).into_iter().map(of).collect();
            record(&marks, &mut stamps, || self.router.deliver_all(&arrivals))?;
            let groups = counterparts::groups(self.costs.protocol, message.name);
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
    use crate::paper_reproduction::steps::Steps;

    #[test]
    fn sessions_remain_while_messages_of_all_kinds_are_timed() {
        for protocol in Protocol::RESERVING {
            let mut counts = Vec::new();
            let check_interrupted = |count| {
                counts.push(count);
                Ok(())
            };
            let mut load = Load::new(protocol, 40, check_interrupted).unwrap();
            assert!(counts.is_sorted() && counts.contains(&40), "{counts:?}");
            // This is longer than the lifetime of all unrefreshed soft state, except the routing state of GIST.
            for _ in 0..100 {
                load.refresh();
                load.router.advance(Duration::from_secs(1));
            }
            load.advance_second();
            let remains = load.router.remains(protocol);
            load.visit().unwrap();
            load.visit().unwrap();
            let clock = Clock::calibrate(&CheckpointTracing::begin()).unwrap();
            load.visit_steps(&clock).unwrap();
            assert_eq!(load.router.remains(protocol), remains, "{protocol:?}");
            let Costs { kinds, maintenance, .. } = &load.costs;
            assert_eq!(kinds.len(), protocol.messages_of_both_ends().len());
            assert!(kinds.iter().all(|kind| kind.times.len() == 2));
            assert!(kinds.iter().flat_map(|kind| &kind.times).all(|&time| time > 0.0));
            let steps = |kind: &KindCosts| kind.steps.of(Steps::ALL).map(<[f64]>::len);
            assert!(kinds.iter().all(|kind| steps(kind) == Some(1)));
            assert_eq!(maintenance.len(), 1);
            let mut all = Costs::new(protocol, 40);
            all.add(load.costs);
            assert!(
                all.kinds.iter().all(|kind| kind.times.len() == 2) && all.maintenance.len() == 1
            );
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
