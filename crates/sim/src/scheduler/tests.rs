//! Schedulers alone on a link of 1 Mbit/s, against theory.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::admission::{Demand, Service};
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Rate, Time};

use super::PacketClass::{BestEffort, Reserved, Signalling};
use super::*;
use crate::distributions::{below, exponential};
use crate::packet::{Body, FRAMING, Packet, UDP};

const BANDWIDTH: Rate = Rate::from_mbps(1);
/// IP octets of a packet that takes 1 000 octets of the link: 8 ms.
const OCTETS: u32 = 986;
const SERVICE: Duration = Duration::from_millis(8);

/// A packet that arrives at a time in a class: IP octets.
type Arrival = (Time, PacketClass, u32);

fn packet(octets: u32, sequence: u64) -> Packet {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Packet {
        source: address,
        destination: address,
        protocol: UDP,
        dscp: 0,
        ttl: 64,
        router_alert: false,
        from_daemon: false,
        length: octets,
        damaged: false,
        body: Body::Data { source_port: 1, destination_port: 1, stream: 0, sequence },
    }
}

/// Creates a scheduler with these reserved rates, bits per second: classes 0, 1, ...
fn scheduler<S: Scheduler>(queue_packets: usize, rates: &[u64]) -> S {
    let mut scheduler = S::new(BANDWIDTH, queue_packets);
    for (number, rate) in (0..).zip(rates) {
        let rate = Rate::from_bps(*rate);
        let demand = Demand {
            service: Service::ControlledLoad,
            rate,
            burst: 0,
            max_packet: 0,
            min_packet: 0,
        };
        scheduler.set_class(Time::ZERO, number, demand);
    }
    scheduler
}

fn time_on_link(octets: u32) -> Duration {
    Duration::from_micros(u64::from(octets + FRAMING) * 8)
}

/// Plays arrivals, which are in the order of time; returns the end of each transmission, `None` for a lost packet.
fn play(scheduler: &mut impl Scheduler, arrivals: &[Arrival]) -> Vec<Option<Time>> {
    let mut ends = alloc::vec![None; arrivals.len()];
    let (mut next, mut now) = (0, Time::ZERO);
    loop {
        while let Some((at, class, octets)) = arrivals.get(next).filter(|(at, ..)| *at <= now) {
            scheduler.enqueue(*at, *class, packet(*octets, next as u64));
            next += 1;
        }
        let arrival = arrivals.get(next).map(|(at, ..)| *at);
        now = match (scheduler.next(now), arrival) {
            (Next::Transmit(packet), _) => {
                let Body::Data { sequence, .. } = packet.body else { unreachable!() };
                let end = now + time_on_link(packet.length);
                ends[sequence as usize] = Some(end);
                end
            }
            (Next::Wait(until), arrival) => arrival.map_or(until, |arrival| until.min(arrival)),
            (Next::Idle, Some(arrival)) => arrival,
            (Next::Idle, None) => return ends,
        };
    }
}

/// Arrivals at a class every `gap` for 20 s.
fn regular(class: PacketClass, gap: Duration) -> Vec<Arrival> {
    let at = |n: u32| Time::ZERO + gap * n;
    (0..).map(at).take_while(|at| *at < Time::from_secs(20)).map(|at| (at, class, OCTETS)).collect()
}

fn merged(lists: impl IntoIterator<Item = Vec<Arrival>>) -> Vec<Arrival> {
    let mut arrivals: Vec<Arrival> = lists.into_iter().flatten().collect();
    arrivals.sort_by_key(|(at, ..)| *at);
    arrivals
}

/// Returns the packets of a class that were transmitted before 10 s, when all are backlogged.
fn served(arrivals: &[Arrival], ends: &[Option<Time>], class: PacketClass) -> usize {
    let of_class = arrivals.iter().zip(ends).filter(|((_, other, _), _)| *other == class);
    of_class.filter(|(_, end)| end.is_some_and(|end| end <= Time::from_secs(10))).count()
}

/// A Poisson process at this load of the link.
fn poisson(class: PacketClass, load: f64, count: usize, random: &mut Stream) -> Vec<Arrival> {
    let mean = SERVICE.div_f64(load);
    let mut at = Time::ZERO;
    let mut next = || {
        at = at + exponential(random, mean);
        (at, class, OCTETS)
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the mean wait before transmission, in transmission times.
fn mean_wait(arrivals: &[Arrival], ends: &[Option<Time>]) -> f64 {
    let wait = |((at, ..), end): (&Arrival, &Option<Time>)| {
        end.expect("none is lost").since(*at + SERVICE).as_secs_f64()
    };
    let sum: f64 = arrivals.iter().zip(ends).map(wait).sum();
    sum / arrivals.len() as f64 / SERVICE.as_secs_f64()
}

/// Pollaczek and Khinchine: at load u a packet of M/D/1 waits u / (2 (1 - u)) transmission times on average.
#[test]
fn fifo_waits_as_m_d_1_whatever_is_reserved() {
    for (load, expected) in [(0.5, 0.5), (0.8, 2.0)] {
        let mut random = RandomStreams::new(3).stream("arrivals");
        let mut arrivals = poisson(BestEffort, load, 200_000, &mut random);
        for (_, class, _) in &mut arrivals {
            *class = [BestEffort, Signalling, Reserved(0)][below(&mut random, 3) as usize];
        }
        let mut fifo: Fifo = scheduler(usize::MAX, &[500_000]);
        let ends = play(&mut fifo, &arrivals);
        let wait = mean_wait(&arrivals, &ends);
        assert!((expected * 0.95..expected * 1.05).contains(&wait), "load {load}: {wait}");
        assert!(ends.is_sorted(), "first in, first out");
    }
}

/// The reserved flow sends half of what its rate allows, best effort ten times the link: with FIFO all lose alike.
#[test]
fn fifo_shares_losses_in_proportion_to_arrivals() {
    let mut random = RandomStreams::new(5).stream("arrivals");
    let reserved = poisson(Reserved(0), 0.25, 600, &mut random);
    let flood = poisson(BestEffort, 10.0, 25_000, &mut random);
    let arrivals = merged([reserved, flood]);
    let mut fifo: Fifo = scheduler(50, &[500_000]);
    let ends = play(&mut fifo, &arrivals);
    // 1 of 41 packets is of the reserved flow, of 1 250 that are sent: 30, with a standard deviation of 5.5.
    let reserved = served(&arrivals, &ends, Reserved(0));
    assert!((14..=47).contains(&reserved), "{reserved}");
    let mut priority: StrictPriority = scheduler(50, &[500_000]);
    let ends = play(&mut priority, &arrivals);
    let lost = arrivals
        .iter()
        .zip(&ends)
        .filter(|((_, class, _), end)| *class == Reserved(0) && end.is_none());
    assert_eq!(lost.count(), 0);
}

/// A packet within the reserved rate waits at most for the one that is being transmitted.
#[test]
fn priority_isolates_conforming_class_from_flood() {
    let arrivals = merged([
        regular(Reserved(0), SERVICE * 2),
        regular(BestEffort, SERVICE / 3),
        regular(Signalling, SERVICE / 2),
    ]);
    let mut priority: StrictPriority = scheduler(50, &[500_000]);
    let ends = play(&mut priority, &arrivals);
    for ((at, class, _), end) in arrivals.iter().zip(ends) {
        if *class == Reserved(0) {
            assert!(end.expect("none is lost").since(*at) <= SERVICE * 2);
        }
    }
}

/// 200 and 300 kbit/s of IP octets are 25.35 and 38.03 packets a second, of 125.
#[test]
fn wfq_gives_backlogged_classes_at_least_their_rates() {
    let classes = [Reserved(0), Reserved(1), BestEffort];
    let arrivals = merged(classes.map(|class| regular(class, SERVICE / 2)));
    let mut wfq: WeightedFairQueueing = scheduler(usize::MAX, &[200_000, 300_000]);
    let ends = play(&mut wfq, &arrivals);
    let [first, second, rest] = classes.map(|class| served(&arrivals, &ends, class));
    assert_eq!(first + second + rest, 1_250, "no time of the link is lost");
    // Signalling sends nothing, so that all have a little more than their rates: weights are 203, 304 and 444 of 951.
    assert!((265..=269).contains(&first), "{first}");
    assert!((398..=402).contains(&second), "{second}");
}

/// Best effort sends nothing: the classes share the link as two to three.
#[test]
fn wfq_shares_what_others_leave_by_weight() {
    let classes = [Reserved(0), Reserved(1)];
    let arrivals = merged(classes.map(|class| regular(class, SERVICE / 2)));
    let mut wfq: WeightedFairQueueing = scheduler(50, &[200_000, 300_000]);
    let ends = play(&mut wfq, &arrivals);
    let [first, second] = classes.map(|class| served(&arrivals, &ends, class));
    assert_eq!(first + second, 1_250);
    assert!((499..=501).contains(&first), "{first}");
}

/// A class that was alone owes nothing: once others come, it has its share again at once.
#[test]
fn wfq_does_not_punish_use_of_idle_time() {
    let alone = regular(Reserved(0), SERVICE);
    let late =
        regular(BestEffort, SERVICE / 4).into_iter().filter(|(at, ..)| *at > Time::from_secs(5));
    let arrivals = merged([alone, late.collect()]);
    let mut wfq: WeightedFairQueueing = scheduler(50, &[500_000]);
    let ends = play(&mut wfq, &arrivals);
    // 625 in the first half; at least 63.4 a second, of 125, in the second.
    let first = served(&arrivals, &ends, Reserved(0));
    assert!((625 + 317..625 + 345).contains(&first), "{first}");
}

/// Parekh and Gallager, theorem 1 and its corollary for one node: a class within a token bucket of depth s and its
/// weight's rate g is delayed by at most s / g and one packet of the largest length, whatever the others send.
#[test]
fn wfq_keeps_the_delay_bound_of_parekh_and_gallager() {
    let mut random = RandomStreams::new(7).stream("arrivals");
    let others = merged([
        poisson(Reserved(1), 0.9, 4_000, &mut random),
        poisson(BestEffort, 1.5, 6_000, &mut random),
        poisson(Signalling, 0.2, 800, &mut random),
    ]);
    let (rate, depth, octets) = (100_000_u64, 4_000_u64, 200);
    // Bursts of the whole bucket and what has filled since, of the link's octets.
    let weight = rate * u64::from(octets + FRAMING) / u64::from(octets);
    let (mut bursts, mut at) = (Vec::new(), Time::ZERO);
    let packets = depth / u64::from(octets + FRAMING);
    while at < Time::from_secs(30) {
        bursts.extend((0..packets).map(|_| (at, Reserved(0), octets)));
        let refill = packets * u64::from(octets + FRAMING) * 8 * 1_000_000_000 / weight + 1;
        at =
            at + Duration::from_nanos(refill) + exponential(&mut random, Duration::from_millis(20));
    }
    let arrivals = merged([others, bursts]);
    let mut wfq: WeightedFairQueueing = scheduler(100, &[rate, 500_000]);
    let ends = play(&mut wfq, &arrivals);
    let bound = Duration::from_nanos(depth * 8 * 1_000_000_000 / weight) + time_on_link(OCTETS);
    let delays = arrivals.iter().zip(ends).filter(|((_, class, _), _)| *class == Reserved(0));
    let delays: Vec<Duration> =
        delays.map(|((at, ..), end)| end.expect("none is lost").since(*at)).collect();
    let longest = delays.iter().max().expect("some");
    assert!(*longest <= bound, "{longest:?} of {bound:?}");
    assert!(*longest > bound.mul_f64(0.7), "the bound is nearly reached: {longest:?} of {bound:?}");
    // Strict priority would have been as good; without a reservation the class would wait with all others.
    let mut fifo: Fifo = scheduler(100, &[rate, 500_000]);
    assert!(play(&mut fifo, &arrivals).iter().any(Option::is_none));
}

#[test]
fn removed_class_moves_its_packets_to_best_effort() {
    fn check<S: Scheduler>() {
        let mut scheduler: S = scheduler(2, &[500_000]);
        for sequence in 0..2 {
            assert!(scheduler.enqueue(Time::ZERO, Reserved(0), packet(OCTETS, sequence)));
        }
        scheduler.remove_class(Time::ZERO, 0);
        assert!(!scheduler.enqueue(Time::ZERO, Reserved(0), packet(OCTETS, 2)), "it is full");
        for _ in 0..2 {
            assert!(matches!(scheduler.next(Time::ZERO), Next::Transmit(_)));
        }
        assert!(!scheduler.has_packets());
        assert!(matches!(scheduler.next(Time::ZERO), Next::Idle));
    }
    check::<StrictPriority>();
    check::<WeightedFairQueueing>();
    check::<Fifo>();
}
