//! Processors of daemons: turns take time, and messages wait, or find a full buffer. Waiting times and losses are compared
//! with queueing theory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Outgoing, Rate, Time};
use earmark_node::NodeConfig;
use earmark_sim::distributions::exponential;
use earmark_sim::{
    Cause, CostModel, LinkEnd, LinkSpec, LogEvent, Loss, Network, NodeId, ProcessorUse,
    ReceiveBuffer, Turn,
};
use earmark_testkit::replications::Measured;

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// Octets of the IP packet of a message.
const PACKET: u64 = 28;
/// Mean time of a turn.
const SERVICE: Duration = Duration::from_micros(500);

/// Law of the times of turns.
#[derive(Clone, Copy, Debug)]
enum Law {
    Constant,
    Exponential,
}

/// Costs of a law, and the times at which the messages' turns begin, by the numbers in them.
#[derive(Debug)]
struct Recorded {
    law: Law,
    dice: Stream,
    begun: Arc<Mutex<Vec<(u64, Time)>>>,
}

impl CostModel for Recorded {
    fn cost(&mut self, turn: &Turn<'_>) -> Duration {
        let Cause::Message { ip_protocol: RSVP, payload } = turn.cause else {
            return Duration::ZERO;
        };
        let number = u64::from_be_bytes(payload.try_into().expect("eight octets"));
        self.begun.lock().unwrap().push((number, turn.now));
        match self.law {
            Law::Constant => SERVICE,
            Law::Exponential => exponential(&mut self.dice, SERVICE),
        }
    }
}

/// Result of a run.
struct Run {
    /// Waiting times of the messages that were received, seconds.
    waits: Vec<f64>,
    /// Share of the messages that found a full buffer.
    lost: f64,
    usage: ProcessorUse,
}

impl Run {
    fn mean(&self) -> f64 {
        self.waits.iter().sum::<f64>() / self.waits.len() as f64
    }
}

fn two_nodes() -> (Network, NodeId, NodeId) {
    let mut network = Network::new(1);
    let sender = network.add_plain_node("sender", false);
    let router = network.add_node("router", true, NodeConfig::default());
    let end = |node, number: u8| LinkEnd {
        node,
        interface: "eth0".to_owned(),
        address: [10, 0, 0, number].into(),
    };
    network.add_link(LinkSpec {
        ends: [end(sender, 1), end(router, 2)],
        prefix: "10.0.0.0/24".parse().unwrap(),
        bandwidth: Rate::from_bps(1_000_000_000_000_000), // no message takes a nanosecond
        reservable: Rate::from_bps(0),
        delay: Duration::ZERO,
        queue_packets: 1,
    });
    (network, sender, router)
}

/// Sends messages by a Poisson process to a router with a processor.
fn run(load: f64, law: Law, places: Option<u64>, messages: u64, seed: u64) -> Run {
    let (mut network, sender, router) = two_nodes();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let dice = RandomStreams::new(seed).stream("service");
    let buffer = places.map_or(ReceiveBuffer::UNLIMITED, |places| ReceiveBuffer {
        octets: places * PACKET,
        overhead: 0,
    });
    let costs = Recorded { law, dice, begun: begun.clone() };
    network.set_processor(router, Box::new(costs), buffer);
    let mut dice = RandomStreams::new(seed).stream("arrivals");
    let mut sent = Vec::new();
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    for number in 0..messages {
        let next = network.now() + exponential(&mut dice, SERVICE.div_f64(load));
        network.run_until(next);
        sent.push(next);
        let how = Outgoing::new(RSVP, source, destination, 64);
        network.send_datagram(sender, &how, &number.to_be_bytes());
    }
    network.run_until(network.now() + Duration::from_secs(1));
    let lost = network.log().iter().filter(|entry| entry.what == LogEvent::Lost(Loss::BufferFull));
    let lost = lost.count() as f64 / messages as f64;
    let begun = begun.lock().unwrap();
    let wait = |(number, at): &(u64, Time)| at.since(sent[*number as usize]).as_secs_f64();
    let usage = network.processor_use(router).expect("it has a processor");
    Run { waits: begun.iter().map(wait).collect(), lost, usage }
}

fn agrees(Measured { mean, half }: Measured, theory: f64) -> bool {
    // Three times the half: of the few comparisons here, none should fail by chance.
    (mean - theory).abs() < 3.0 * half && half < 0.1 * theory
}

/// M/D/1: the mean wait is load / (2 (1 - load)) of a service.
#[test]
fn constant_turns_wait_as_in_m_d_1() {
    for load in [0.3, 0.6, 0.8] {
        let measured =
            Measured::over_seeds(|seed| run(load, Law::Constant, None, 20_000, seed).mean());
        let theory = load / (2.0 * (1.0 - load)) * SERVICE.as_secs_f64();
        assert!(agrees(measured, theory), "{load}: {measured:?}, not {theory}");
    }
}

/// M/G/1 with exponential service (Pollaczek and Khinchine): the mean wait is load / (1 - load) of a service.
#[test]
fn exponential_turns_wait_as_in_m_g_1() {
    for load in [0.3, 0.6, 0.8] {
        let measured =
            Measured::over_seeds(|seed| run(load, Law::Exponential, None, 20_000, seed).mean());
        let theory = load / (1.0 - load) * SERVICE.as_secs_f64();
        assert!(agrees(measured, theory), "{load}: {measured:?}, not {theory}");
    }
}

/// M/D/1/K: the loss follows from the Markov chain of the number left behind by each turn.
#[test]
fn full_buffers_lose_as_in_m_d_1_k() {
    for (load, places) in [(0.8, 3), (1.2, 3), (0.9, 8)] {
        let measured =
            Measured::over_seeds(|seed| run(load, Law::Constant, Some(places), 20_000, seed).lost);
        let theory = loss_of_m_d_1_k(load, places as usize + 1);
        assert!(agrees(measured, theory), "{load} {places}: {measured:?}, not {theory}");
    }
}

/// Returns the loss of M/D/1 with room for `k` messages, the one in service included.
fn loss_of_m_d_1_k(load: f64, k: usize) -> f64 {
    // Probability of j arrivals in a service.
    let mut arrivals = vec![(-load).exp()];
    for j in 1..=k {
        arrivals.push(arrivals[j - 1] * load / j as f64);
    }
    // Numbers left behind, 0 to k - 1, up to a factor: q(j) = q(0) a(j) + the sum of q(i) a(j - i + 1) for i from 1.
    let mut left = vec![1.0];
    for j in 0..k - 1 {
        let known: f64 =
            left[0] * arrivals[j] + (1..=j).map(|i| left[i] * arrivals[j + 1 - i]).sum::<f64>();
        left.push((left[j] - known) / arrivals[0]);
    }
    let empty = left[0] / left.iter().sum::<f64>();
    1.0 - 1.0 / (empty + load)
}

#[test]
fn theory_of_m_d_1_k_is_right_for_one_place() {
    // With no waiting place the loss is load / (1 + load), whatever the service (Erlang).
    assert!((loss_of_m_d_1_k(0.5, 1) - 1.0 / 3.0).abs() < 1e-12);
    // With many places an overloaded server loses the excess.
    assert!((loss_of_m_d_1_k(2.0, 40) - 0.5).abs() < 1e-6);
}

#[test]
fn use_of_the_processor_is_counted() {
    let Run { waits, lost, usage } = run(0.5, Law::Constant, Some(1), 1_000, 7);
    assert_eq!(usage.busy, SERVICE * waits.len() as u32);
    // One turn more: the timers of the engines.
    assert!(usage.turns as usize >= waits.len());
    assert!(usage.lost > 0 && usage.longest_queue == 1);
    assert!((lost - usage.lost as f64 / 1_000.0).abs() < 1e-9);
    assert_eq!(waits.len() as u64 + usage.lost, 1_000);
}

/// A daemon that dies loses what waits and what it is about to do; the next one begins anew.
#[test]
fn dead_daemon_loses_what_waits() {
    let (mut network, sender, router) = two_nodes();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let dice = RandomStreams::new(1).stream("service");
    let costs = Recorded { law: Law::Constant, dice, begun: begun.clone() };
    network.set_processor(router, Box::new(costs), ReceiveBuffer::UNLIMITED);
    let how = Outgoing::new(RSVP, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 64);
    for number in 0..3_u64 {
        network.send_datagram(sender, &how, &number.to_be_bytes());
    }
    network.run_until(network.now() + SERVICE / 2);
    network.kill(router);
    network.restart(router, Duration::ZERO);
    network.send_datagram(sender, &how, &3_u64.to_be_bytes());
    network.run_until(network.now() + SERVICE * 10);
    let numbers: Vec<u64> = begun.lock().unwrap().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 3]);
}
