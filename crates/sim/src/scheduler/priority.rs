//! Strict priority: reserved classes, then signalling, then best effort.
//!
//! A model of the HTB classes of `earmark-linux`. A reserved class is a queue behind a token bucket; its packets precede
//! all others as long as the bucket holds their length, and wait otherwise, so that a class never gets more than its
//! rate. Classes that may send take turns. Buckets count IP octets; the time on the link includes the framing.

use alloc::collections::{BTreeMap, VecDeque};

use earmark_core::admission::Demand;
use earmark_core::{Rate, Time};

use super::discipline::{
    FluidSharing, Next, PacketClass, RESERVED_QUEUE, SIGNALLING_QUEUE, Scheduler, append, push,
};
use super::token_bucket::TokenBucket;
use crate::packet::Packet;

/// Reserved classes behind token buckets, then signalling, then best effort.
#[derive(Debug)]
pub struct StrictPriority {
    best_effort_limit: usize,
    best_effort: VecDeque<Packet>,
    signalling: VecDeque<Packet>,
    classes: BTreeMap<u32, Class>,
    /// Classes with packets waiting, in the order of their turns.
    waiting: VecDeque<u32>,
}

/// A queue behind a token bucket.
#[derive(Debug)]
struct Class {
    bucket: TokenBucket,
    queue: VecDeque<Packet>,
}

impl Scheduler for StrictPriority {
    fn new(_: Rate, queue_packets: usize) -> StrictPriority {
        StrictPriority {
            best_effort_limit: queue_packets,
            best_effort: VecDeque::new(),
            signalling: VecDeque::new(),
            classes: BTreeMap::new(),
            waiting: VecDeque::new(),
        }
    }

    fn set_bandwidth(&mut self, _: Time, _: Rate) {}

    fn set_class(&mut self, now: Time, number: u32, demand: Demand) {
        let new = || Class { bucket: TokenBucket::new(now), queue: VecDeque::new() };
        self.classes.entry(number).or_insert_with(new).bucket.set(now, &demand);
    }

    fn remove_class(&mut self, _: Time, number: u32) {
        self.waiting.retain(|&waiting| waiting != number);
        if let Some(class) = self.classes.remove(&number) {
            append(&mut self.best_effort, self.best_effort_limit, class.queue);
        }
    }

    fn has_room(&mut self, now: Time, number: u32, octets: u32) -> bool {
        let class = self.classes.get_mut(&number);
        class.is_some_and(|class| class.queue.is_empty() && class.bucket.holds(now, octets))
    }

    fn enqueue(&mut self, _: Time, class: PacketClass, packet: Packet) -> bool {
        let reserved = match class {
            PacketClass::Reserved(number) => self.classes.get_mut(&number).map(|c| (number, c)),
            _ => None,
        };
        if let Some((number, Class { queue, .. })) = reserved {
            if queue.is_empty() {
                self.waiting.push_back(number);
            }
            return push(queue, RESERVED_QUEUE, packet);
        }
        match class {
            PacketClass::Signalling => push(&mut self.signalling, SIGNALLING_QUEUE, packet),
            _ => push(&mut self.best_effort, self.best_effort_limit, packet),
        }
    }

    fn has_packets(&self) -> bool {
        !(self.waiting.is_empty() && self.signalling.is_empty() && self.best_effort.is_empty())
    }

    fn next(&mut self, now: Time) -> Next {
        let mut earliest = Time::MAX;
        for turn in 0..self.waiting.len() {
            let number = self.waiting[turn];
            let Some(Class { bucket, queue }) = self.classes.get_mut(&number) else { continue };
            let Some(first) = queue.front() else { continue };
            if let Err(ready) = bucket.take(now, first.length) {
                earliest = earliest.min(ready);
                continue;
            }
            let packet = queue.pop_front();
            // Classes that were skipped have waited for tokens, and are the first of the next turn.
            self.waiting.remove(turn);
            if !queue.is_empty() {
                self.waiting.push_back(number);
            }
            return packet.map_or(Next::Idle, Next::Transmit);
        }
        match self.signalling.pop_front().or_else(|| self.best_effort.pop_front()) {
            Some(packet) => Next::Transmit(packet),
            None if earliest < Time::MAX => Next::Wait(earliest),
            None => Next::Idle,
        }
    }

    fn fluid_sharing(&self) -> Option<FluidSharing> {
        Some(FluidSharing::ReservedFirst)
    }
}
