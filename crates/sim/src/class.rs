//! A reserved class: a queue behind a token bucket.

use alloc::collections::VecDeque;
use core::time::Duration;

use earmark_core::Time;
use earmark_core::admission::Demand;

use crate::packet::Packet;

/// Largest packet of another class that a class may have to wait for, octets.
const MTU: u32 = 1_500;

/// A queue behind a token bucket.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) demand: Demand,
    /// Bucket depth, in 10^-9 bit.
    depth: u128,
    /// Tokens at `filled_at`, in 10^-9 bit.
    tokens: u128,
    filled_at: Time,
    pub(crate) queue: VecDeque<Packet>,
}

impl Class {
    /// Creates a class with an empty bucket of no depth, which the first [`set`](Class::set) fills.
    pub(crate) fn new(now: Time, demand: Demand) -> Class {
        Class { demand, depth: 0, tokens: 0, filled_at: now, queue: VecDeque::new() }
    }

    /// Sets rate and depth. A new bucket starts full; an existing one keeps its tokens.
    pub(crate) fn set(&mut self, now: Time, demand: Demand) {
        // A packet on the link is not interrupted, so a class with tokens may have to wait for one. Without room for
        // the tokens of that time they would be lost, and the class would get less than its rate.
        let depth = scaled(demand.burst.max(demand.max_packet).max(MTU).saturating_add(MTU));
        self.fill(now);
        self.tokens = if self.depth == 0 { depth } else { self.tokens.min(depth) };
        self.depth = depth;
        self.demand = demand;
    }

    fn fill(&mut self, now: Time) {
        let gained = u128::from(self.demand.rate.as_bps()) * now.since(self.filled_at).as_nanos();
        self.tokens = (self.tokens + gained).min(self.depth);
        self.filled_at = now;
    }

    /// Whether a packet that arrives now need not wait.
    pub(crate) fn has_room(&mut self, now: Time, length: u32) -> bool {
        self.fill(now);
        self.queue.is_empty() && scaled(length).min(self.depth) <= self.tokens
    }

    /// Removes the first packet if the bucket covers it, else returns the time when it will.
    pub(crate) fn take(&mut self, now: Time) -> Result<Packet, Time> {
        self.fill(now);
        let Some(first) = self.queue.front() else {
            return Err(Time::MAX);
        };
        // A packet longer than the bucket passes when the bucket is full.
        let price = scaled(first.length).min(self.depth);
        if price > self.tokens {
            let wait = (price - self.tokens).div_ceil(u128::from(self.demand.rate.as_bps().max(1)));
            return Err(now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
        }
        self.tokens -= price;
        self.queue.pop_front().ok_or(Time::MAX)
    }
}

/// Converts octets to 10^-9 bit.
fn scaled(octets: u32) -> u128 {
    u128::from(octets) * 8 * 1_000_000_000
}
