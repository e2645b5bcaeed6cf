//! The token bucket of a reserved class.

use core::time::Duration;

use earmark_core::admission::Demand;
use earmark_core::{Rate, Time};

use crate::packet::MTU;

/// A token bucket that counts IP octets.
#[derive(Debug)]
pub(super) struct TokenBucket {
    rate: Rate,
    /// Bucket depth, in 10^-9 bit.
    depth: u128,
    /// Tokens at `filled_at`, in 10^-9 bit.
    tokens: u128,
    filled_at: Time,
}

impl TokenBucket {
    /// Creates an empty bucket of no depth, which the first [`set`](TokenBucket::set) fills.
    pub(super) fn new(now: Time) -> TokenBucket {
        TokenBucket { rate: Rate::ZERO, depth: 0, tokens: 0, filled_at: now }
    }

    /// Sets rate and depth. A new bucket starts full; an existing one keeps its tokens.
    pub(super) fn set(&mut self, now: Time, demand: &Demand) {
        // A packet on the link is not interrupted, so a class with tokens may have to wait for one. Without room for
        // the tokens of that time they would be lost, and the class would get less than its rate.
        let depth = scaled(demand.burst.max(demand.max_packet).max(MTU).saturating_add(MTU));
        self.fill(now);
        self.tokens = if self.depth == 0 { depth } else { self.tokens.min(depth) };
        self.depth = depth;
        self.rate = demand.rate;
    }

    fn fill(&mut self, now: Time) {
        let gained = u128::from(self.rate.as_bps()) * now.since(self.filled_at).as_nanos();
        self.tokens = (self.tokens + gained).min(self.depth);
        self.filled_at = now;
    }

    /// Returns the tokens that a packet needs. A packet longer than the bucket passes when the bucket is full.
    fn price(&self, octets: u32) -> u128 {
        scaled(octets).min(self.depth)
    }

    /// Whether the bucket covers a packet now.
    pub(super) fn holds(&mut self, now: Time, octets: u32) -> bool {
        self.fill(now);
        self.price(octets) <= self.tokens
    }

    /// Takes the tokens of a packet.
    ///
    /// # Errors
    /// The time when the bucket will cover the packet.
    pub(super) fn take(&mut self, now: Time, octets: u32) -> Result<(), Time> {
        self.fill(now);
        let price = self.price(octets);
        if price > self.tokens {
            let wait = (price - self.tokens).div_ceil(u128::from(self.rate.as_bps().max(1)));
            return Err(now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)));
        }
        self.tokens -= price;
        Ok(())
    }
}

/// Converts octets to 10^-9 bit.
fn scaled(octets: u32) -> u128 {
    u128::from(octets) * 8 * 1_000_000_000
}
