//! Weighted fair queueing (packetized generalized processor sharing).
//!
//! # Description
//! Generalized processor sharing (GPS) serves all backlogged classes at once, each in proportion to its weight. Here the
//! packets are transmitted whole, in the order in which GPS would finish them (Demers, Keshav and Shenker, SIGCOMM 1989;
//! Parekh and Gallager, *A Generalized Processor Sharing Approach to Flow Control*, IEEE/ACM ToN 1(3), 1993). The
//! virtual time is that of GPS itself: it advances by the bandwidth over the weights of the classes that GPS still has
//! work for. A packet finishes last by one packet of the largest length later than in GPS.
//!
//! - A reserved class has the weight of its rate, increased by the framing of its shortest packet, since rates count IP
//!   octets.
//! - The rest of the bandwidth, but at least a thousandth of it, is the weight of signalling (a tenth of the rest) and
//!   best effort.
//!
//! So a class gets its rate whatever the others send, and more when they send less: unlike
//! [`StrictPriority`](super::StrictPriority), nothing limits it to its rate. A new weight counts from the next packet
//! of the class on.
//!
//! # Scope and limits
//! There is no fluid model: the share of a class would depend on the demand of all others at each link.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use earmark_core::admission::Demand;
use earmark_core::{Rate, Time};

use super::discipline::{
    FluidSharing, Next, PacketClass, RESERVED_QUEUE, SIGNALLING_QUEUE, Scheduler,
};
use crate::packet::{FRAMING, Packet};

/// Virtual time: nanoseconds of service at the rate of the weight, in parts of 2^-16.
type VirtualTime = u128;

/// One nanosecond of virtual time.
const NANOSECOND: u128 = 1 << 16;
/// Part of the bandwidth that signalling and best effort get at least.
const LEAST_REST: u64 = 1_000;

/// Weighted fair queueing of reserved classes, signalling and best effort.
#[derive(Debug)]
pub struct WeightedFairQueueing {
    bandwidth: Rate,
    classes: BTreeMap<PacketClass, Class>,
    /// Waiting classes by the finish times of their first packets.
    heads: BTreeSet<(VirtualTime, PacketClass)>,
    gps: Gps,
}

/// A queue with a weight.
#[derive(Debug)]
struct Class {
    /// Reserved rate; zero for signalling and best effort.
    rate: Rate,
    /// Weight, bits per second.
    weight: u64,
    /// Length of the shortest packet so far, octets.
    shortest: u32,
    limit: usize,
    /// Packets with their virtual finish times.
    queue: VecDeque<(VirtualTime, Packet)>,
}

impl Class {
    fn new(limit: usize) -> Class {
        Class { rate: Rate::ZERO, weight: 1, shortest: u32::MAX, limit, queue: VecDeque::new() }
    }
}

/// The fluid reference system.
#[derive(Debug, Default)]
struct Gps {
    /// Time up to which it is computed.
    now: Time,
    virtual_time: VirtualTime,
    /// Backlogged classes, by the finish time of their last packet.
    backlogged: BTreeSet<(VirtualTime, PacketClass)>,
    /// Finish time of the last packet and weight of each backlogged class.
    last: BTreeMap<PacketClass, (VirtualTime, u64)>,
    /// Sum of the weights of the backlogged classes.
    weights: u128,
}

impl Gps {
    /// Advances to a time. The virtual time does not matter while no class is backlogged.
    fn advance(&mut self, now: Time, bandwidth: Rate) {
        let bandwidth = u128::from(bandwidth.as_bps().max(1));
        let mut left = now.since(self.now).as_nanos() * NANOSECOND;
        self.now = now;
        while let Some(&(finish, class)) = self.backlogged.first() {
            let needed = (finish - self.virtual_time) * self.weights / bandwidth;
            if needed > left {
                self.virtual_time += left * bandwidth / self.weights;
                return;
            }
            left -= needed;
            self.virtual_time = finish;
            self.remove(class);
        }
    }

    /// Adds a packet, which needs this virtual time of service; returns its finish time.
    fn add(&mut self, class: PacketClass, weight: u64, service: VirtualTime) -> VirtualTime {
        let begins = self.remove(class).unwrap_or(self.virtual_time);
        let finish = begins + service;
        self.backlogged.insert((finish, class));
        self.last.insert(class, (finish, weight));
        self.weights += u128::from(weight);
        finish
    }

    /// Removes a class; returns the finish time of its last packet if it was backlogged.
    fn remove(&mut self, class: PacketClass) -> Option<VirtualTime> {
        let (finish, weight) = self.last.remove(&class)?;
        self.backlogged.remove(&(finish, class));
        self.weights -= u128::from(weight);
        Some(finish)
    }
}

impl WeightedFairQueueing {
    /// Divides what the reserved classes leave among signalling and best effort.
    fn set_rest(&mut self) {
        let reserved = self.classes.iter().filter(|(class, _)| is_reserved(**class));
        let reserved: u64 = reserved.map(|(_, class)| class.weight).sum();
        let bandwidth = self.bandwidth.as_bps();
        let rest = bandwidth.saturating_sub(reserved).max(bandwidth / LEAST_REST).max(10);
        for (class, weight) in
            [(PacketClass::Signalling, rest / 10), (PacketClass::BestEffort, rest - rest / 10)]
        {
            if let Some(class) = self.classes.get_mut(&class) {
                class.weight = weight;
            }
        }
    }
}

impl Scheduler for WeightedFairQueueing {
    fn new(bandwidth: Rate, queue_packets: usize) -> WeightedFairQueueing {
        let classes = BTreeMap::from([
            (PacketClass::Signalling, Class::new(SIGNALLING_QUEUE)),
            (PacketClass::BestEffort, Class::new(queue_packets)),
        ]);
        let (heads, gps) = (BTreeSet::new(), Gps::default());
        let mut scheduler = WeightedFairQueueing { bandwidth, classes, heads, gps };
        scheduler.set_rest();
        scheduler
    }

    fn set_bandwidth(&mut self, now: Time, bandwidth: Rate) {
        self.gps.advance(now, self.bandwidth);
        self.bandwidth = bandwidth;
        self.set_rest();
    }

    fn set_class(&mut self, _: Time, number: u32, demand: Demand) {
        let class = self.classes.entry(PacketClass::Reserved(number));
        let class = class.or_insert_with(|| Class::new(RESERVED_QUEUE));
        class.rate = demand.rate;
        class.weight = framed(demand.rate, class.shortest);
        self.set_rest();
    }

    fn remove_class(&mut self, now: Time, number: u32) {
        let number = PacketClass::Reserved(number);
        let Some(class) = self.classes.remove(&number) else { return };
        self.gps.advance(now, self.bandwidth);
        self.gps.remove(number);
        self.set_rest();
        if let Some((finish, _)) = class.queue.front() {
            self.heads.remove(&(*finish, number));
        }
        for (_, packet) in class.queue {
            self.enqueue(now, PacketClass::BestEffort, packet);
        }
    }

    fn has_room(&mut self, _: Time, number: u32, _: u32) -> bool {
        let class = self.classes.get(&PacketClass::Reserved(number));
        class.is_some_and(|class| class.queue.is_empty())
    }

    fn enqueue(&mut self, now: Time, class: PacketClass, packet: Packet) -> bool {
        self.gps.advance(now, self.bandwidth);
        let number = match self.classes.contains_key(&class) {
            true => class,
            false => PacketClass::BestEffort,
        };
        let Some(class) = self.classes.get_mut(&number) else { return false };
        if class.queue.len() >= class.limit {
            return false;
        }
        let gets_heavier = is_reserved(number) && packet.length < class.shortest;
        if gets_heavier {
            class.shortest = packet.length;
            class.weight = framed(class.rate, packet.length);
        }
        let bits = u128::from(packet.length + FRAMING) * 8;
        let service = bits * 1_000_000_000 * NANOSECOND / u128::from(class.weight);
        let finish = self.gps.add(number, class.weight, service);
        if class.queue.is_empty() {
            self.heads.insert((finish, number));
        }
        class.queue.push_back((finish, packet));
        if gets_heavier {
            self.set_rest();
        }
        true
    }

    fn has_packets(&self) -> bool {
        !self.heads.is_empty()
    }

    fn next(&mut self, _: Time) -> Next {
        let Some((_, number)) = self.heads.pop_first() else { return Next::Idle };
        let Some(class) = self.classes.get_mut(&number) else { return Next::Idle };
        let first = class.queue.pop_front();
        if let Some((finish, _)) = class.queue.front() {
            self.heads.insert((*finish, number));
        }
        first.map_or(Next::Idle, |(_, packet)| Next::Transmit(packet))
    }

    fn fluid_sharing(&self) -> Option<FluidSharing> {
        None
    }
}

fn is_reserved(class: PacketClass) -> bool {
    matches!(class, PacketClass::Reserved(_))
}

/// Returns the weight of a rate in packets of this many IP octets, with framing; at least 1.
fn framed(rate: Rate, octets: u32) -> u64 {
    let octets = u128::from(octets.max(1));
    let weight = u128::from(rate.as_bps()) * (octets + u128::from(FRAMING)) / octets;
    u64::try_from(weight).unwrap_or(u64::MAX).max(1)
}
