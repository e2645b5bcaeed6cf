//! Cost of the queues: forwarding rate of a router with and without Earmark's traffic control.
//!
//! **How it is measured.** A [`router`] stands between a sender and a sink, in namespaces joined by veth pairs. Packets are of
//! [`PACKET`] octets of IP, [`FRAME`] with the Ethernet header, UDP, each of a flow drawn at random. An XDP program
//! that the kernel runs on live frames writes them. They leave by the sender's interface, are received by the
//! router's NAPI and GRO like those of a network card, forwarded, classified and queued, and dropped by an XDP
//! program at the sink. All of that happens in the time of one thread on one processor. So the cost of a packet is
//! that thread's processor time, divided by the packets that have left the router; the packet rate is the reciprocal
//! of that. Wall time includes every other program on the machine; processor time does not, and the two virtual
//! processors do not have to keep up with each other.
//!
//! Every figure includes the source and the veth interface in front of the router, as it would include the driver of
//! a network card; their cost is measured too (the part `source`). The same added cost is a smaller share at a router
//! that takes longer for each packet, such as one that hands packets to a host of the same machine ([`End::Host`]);
//! the comparable figure is the nanoseconds that a traffic control adds.
//!
//! **With and without.** All routers exist during the whole run. In each round they take turns, and the router
//! without a daemon is measured before and after each of the others; the figure of a router is its ratio to the mean
//! of these two. The result is the median over the rounds, with the interval of [`earmark_lab::statistics`]. Without a
//! daemon an interface has `pfifo_fast`, the kernel's default for Ethernet. Links are fast enough for no packet to
//! wait: the measurement is of work, not of shaping.
//!
//! **The parts** are routers with one step less ([`parts`]), and the kernel's own count of the classifier's time.
//!
//! **The promise** ([`promise`]): beside a flood that fills the link, a flow within its rate loses nothing, and waits
//! less than a millisecond beyond the wait in the device's own ring.

pub mod parts;
mod processor;
pub mod promise;
mod router;

use std::rc::Rc;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use earmark_core::Rate;
use earmark_linux::Queues;
use earmark_linux::packets::Mix;
use serde::Serialize;

use self::processor::Processor;
use self::router::{Line, Router, Sample, Treatment};
use super::Supervision;
use earmark_lab::statistics::Median;

/// Octets of a packet from the IP header on.
pub const PACKET: u16 = 78;
/// Octets of a frame: the packet with its Ethernet header.
pub const FRAME: u16 = PACKET + 14;
/// Largest number of reserved flows: the capacity of the classifier.
pub const MAX_FLOWS: u32 = 1 << 20;
/// First flow without a reservation.
const UNRESERVED: u32 = MAX_FLOWS;
/// Number of best-effort flows.
const OTHERS: u32 = 10_000;
/// Share of packets that a router may lose in a round without an error: one in a thousand. A packet that another
/// program sends at the same moment may take the room in the interface's ring.
const LOSS: f64 = 0.001;

/// An outgoing link that is faster than the router, so that nothing waits.
fn fast(end: End) -> Line {
    let bandwidth = Rate::from_mbps(40_000);
    Line { bandwidth, rate: None, device: None, watched: None, end }
}

/// A kind of traffic control, and its number of reserved flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservations {
    /// Queue mode.
    pub queues: Queues,
    /// Number of reserved flows.
    pub flows: u32,
}

/// Reservations that are measured by default.
pub const USUAL: [Reservations; 8] = [
    Reservations { queues: Queues::PerFlow, flows: 1 },
    Reservations { queues: Queues::PerFlow, flows: 1_000 },
    Reservations { queues: Queues::PerFlow, flows: 10_000 },
    Reservations { queues: Queues::Aggregate, flows: 1 },
    Reservations { queues: Queues::Aggregate, flows: 1_000 },
    Reservations { queues: Queues::Aggregate, flows: 10_000 },
    Reservations { queues: Queues::Priority, flows: 10_000 },
    Reservations { queues: Queues::Priority, flows: 1_000_000 },
];

/// Every kind of queues. A new kind also needs goals and an entry in the [defaults](USUAL).
pub const KINDS: [Queues; 3] = [Queues::PerFlow, Queues::Aggregate, Queues::Priority];

/// Goals: share of the packet rate that is to be kept.
pub const GOALS: [(Reservations, f64); 4] = [
    (Reservations { queues: Queues::Priority, flows: 10_000 }, 0.90),
    (Reservations { queues: Queues::Priority, flows: 1_000_000 }, 0.85),
    (Reservations { queues: Queues::Aggregate, flows: 10_000 }, 0.80),
    (Reservations { queues: Queues::PerFlow, flows: 1_000 }, 0.75),
];

/// Name of the router without a daemon.
const NONE: &str = "none";

/// Returns the name of a queue mode, as in the configuration.
pub fn name(queues: Queues) -> &'static str {
    match queues {
        Queues::PerFlow => "per-flow",
        Queues::Aggregate => "aggregate",
        Queues::Priority => "priority",
    }
}

/// Who takes the packets behind the router, in the same processor's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// An XDP program that drops them at once.
    #[default]
    Drop,
    /// A host, whose IP layer receives them, finds that they are not for it, and drops them.
    Host,
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Receiver of the packets behind the router.
    pub end: End,
    /// The routers that are compared with the one without a daemon.
    pub reservations: Vec<Reservations>,
    /// Number of rounds; each router has one turn in each.
    pub rounds: u32,
    /// Packets of a turn.
    pub packets: u32,
}

/// Flows of the packets that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Reserved flows.
    Reserved,
    /// Flows without a reservation.
    BestEffort,
}

/// Forwarding cost of a router.
#[derive(Clone, Debug, Serialize)]
pub struct Forwarding {
    /// Queue mode; `none` without a daemon; the name of a part.
    pub queues: &'static str,
    /// Reserved flows.
    pub flows: u32,
    /// Flows whose packets were sent.
    pub traffic: Traffic,
    /// Processor time of a packet, nanoseconds.
    pub nanoseconds: Median,
    /// Packets a second of one processor.
    pub rate: Median,
    /// Additional nanoseconds over the router without a daemon; `None` for that router.
    pub added: Option<Median>,
    /// Packet rate relative to the router without a daemon; `None` for that router.
    pub kept: Option<Median>,
    /// Goal for `kept`.
    pub goal: Option<f64>,
    /// Whether the median meets the goal; `None` without a goal.
    pub met: Option<bool>,
    /// Share of the packets sent that did not leave the router.
    pub lost: f64,
    /// Time of the classifier by the kernel's count, counting included, nanoseconds; `None` without a classifier.
    pub program_ns: Option<f64>,
}

/// A router, its packets, and the results of its turns.
struct ComparedRouter {
    router: Rc<Router>,
    mix: Mix,
    queues: &'static str,
    flows: u32,
    traffic: Traffic,
    nanoseconds: Vec<f64>,
    /// Times of the router without a daemon, before and after each turn.
    without: Vec<f64>,
    sent: u64,
    passed: u64,
}

/// Measures all routers of a plan and the one without a daemon, which comes first.
///
/// # Errors
/// The process lacks root or the kernel lacks live frames; a router lost packets; the measurement was interrupted.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Vec<Forwarding>> {
    let count = plan.reservations.len() as u64;
    supervision.watcher.begin("routers are set up", count);
    let mut contenders = vec![ComparedRouter::without_daemon(plan.end)?];
    for (done, &reservations) in plan.reservations.iter().enumerate() {
        supervision.check_interrupted()?;
        supervision.watcher.reached(done as u64);
        let Reservations { queues, flows } = reservations;
        let router = Rc::new(Router::up(Treatment::Reserved(queues, flows), fast(plan.end))?);
        for traffic in [Traffic::Reserved, Traffic::BestEffort] {
            contenders.push(ComparedRouter::new(Rc::clone(&router), name(queues), flows, traffic)?);
        }
    }
    run_turns(contenders, plan, supervision)
}

/// Runs all turns, and returns the results.
fn run_turns(
    mut contenders: Vec<ComparedRouter>,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<Vec<Forwarding>> {
    let processor = Processor::last()?;
    take_turns(&mut contenders, processor, plan, supervision)?;
    contenders.into_iter().map(|contender| contender.finish(processor, plan.packets)).collect()
}

/// Gives each router its turns; the first router runs between all others.
fn take_turns(
    contenders: &mut [ComparedRouter],
    processor: Processor,
    plan: &Plan,
    supervision: &Supervision<'_>,
) -> Result<()> {
    let Some((base, others)) = contenders.split_first_mut() else { return Ok(()) };
    let turns = u64::from(plan.rounds) * others.len() as u64;
    supervision.watcher.begin("packets are forwarded", turns);
    let mut turn = 0;
    for _ in 0..plan.rounds {
        let mut before = base.turn(processor, plan.packets)?;
        for other in &mut *others {
            supervision.check_interrupted()?;
            other.turn(processor, plan.packets)?;
            let after = base.turn(processor, plan.packets)?;
            other.without.push((before + after) / 2.0);
            before = after;
            turn += 1;
            supervision.watcher.reached(turn);
        }
    }
    Ok(())
}

impl ComparedRouter {
    fn without_daemon(end: End) -> Result<ComparedRouter> {
        let router = Rc::new(Router::up(Treatment::Default, fast(end))?);
        ComparedRouter::new(router, NONE, 0, Traffic::BestEffort)
    }

    fn new(
        router: Rc<Router>,
        queues: &'static str,
        flows: u32,
        traffic: Traffic,
    ) -> Result<ComparedRouter> {
        let mix = match traffic {
            Traffic::Reserved => Mix { flows, first: 0, measured: None },
            Traffic::BestEffort => Mix { flows: OTHERS, first: UNRESERVED, measured: None },
        };
        router.warm_up(Processor::last()?, &mix)?;
        let (nanoseconds, without, sent, passed) = Default::default();
        Ok(ComparedRouter {
            router,
            mix,
            queues,
            flows,
            traffic,
            nanoseconds,
            without,
            sent,
            passed,
        })
    }

    /// Measures one turn; returns nanoseconds a packet.
    fn turn(&mut self, processor: Processor, packets: u32) -> Result<f64> {
        // The first packets refill the processor's caches after the turn of another router.
        self.router.sample(processor, packets / 10, &self.mix)?;
        let sample = self.router.sample(processor, packets, &self.mix)?;
        self.sent += sample.sent;
        self.passed += sample.passed;
        let nanoseconds = sample.nanoseconds();
        self.nanoseconds.push(nanoseconds);
        Ok(nanoseconds)
    }

    fn finish(self, processor: Processor, packets: u32) -> Result<Forwarding> {
        let ComparedRouter { queues, flows, traffic, .. } = self;
        let lost = (1.0 - self.passed as f64 / self.sent.max(1) as f64).max(0.0);
        ensure!(
            lost <= LOSS,
            "{queues} with {flows} flows lost {:.2} % of its packets",
            lost * 100.0
        );
        let pairs = || self.nanoseconds.iter().zip(&self.without);
        let kept = Median::of(pairs().map(|(with, without)| without / with));
        let goal = goal(queues, flows).filter(|_| traffic == Traffic::Reserved);
        Ok(Forwarding {
            queues,
            flows,
            traffic,
            nanoseconds: median(self.nanoseconds.iter().copied())?,
            rate: median(self.nanoseconds.iter().map(|ns| 1e9 / ns))?,
            added: Median::of(pairs().map(|(with, without)| with - without)),
            kept,
            goal,
            met: goal.zip(kept).map(|(goal, kept)| kept.median >= goal),
            lost,
            program_ns: self.router.program_time(processor, packets, &self.mix)?,
        })
    }
}

impl Sample {
    /// Processor time of a packet that passed, nanoseconds.
    fn nanoseconds(&self) -> f64 {
        self.spent.as_nanos() as f64 / self.passed.max(1) as f64
    }
}

fn goal(queues: &str, flows: u32) -> Option<f64> {
    let is_it = |of: &Reservations| name(of.queues) == queues && of.flows == flows;
    GOALS.iter().find(|(of, _)| is_it(of)).map(|&(_, goal)| goal)
}

fn median(values: impl Iterator<Item = f64>) -> Result<Median> {
    Median::of(values).ok_or_else(|| anyhow::anyhow!("there were no rounds"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn goals_are_of_what_is_usually_measured() {
        for (reservations, goal) in GOALS {
            assert!(USUAL.contains(&reservations) && goal < 1.0, "{reservations:?}");
        }
        assert_eq!(goal("aggregate", 10_000), Some(0.80));
        assert_eq!(goal("per-flow", 10_000), None);
    }

    #[test]
    fn cost_counts_packets_that_passed() {
        let spent = Duration::from_micros(300);
        let sample = Sample { sent: 400, passed: 200, spent };
        assert_eq!(sample.nanoseconds(), 1_500.0);
        assert_eq!(Sample { passed: 0, ..sample }.nanoseconds(), 300_000.0);
    }
}
