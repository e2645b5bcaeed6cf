//! Seeded streams of random numbers, one per node and purpose.
//!
//! All randomness of a node comes from a seed: that of the scenario in the simulator, and two of the operating system in the
//! daemon, one of which stays secret. Each purpose takes a [`Stream`] of its own by name. A stream's numbers depend on the seed and the
//! name alone, so that adding a stream changes no other, and a recording replays alike.
//!
//! The generator (xoshiro256++) is good for jitter and for the keys of hash tables, not for secrets: an observer of
//! enough output can predict what follows *in that stream*. The others stay hidden behind the keyed hash that seeds
//! them, so a key must come from a stream that reveals nothing else to the network.

use core::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip::SipHasher24;

/// Source of the streams of a node.
#[derive(Clone, Copy, Debug)]
pub struct RandomStreams {
    /// Seed of the streams of jitter.
    seed: u64,
    /// Seed of all other streams.
    secret_seed: u64,
}

/// Last part of the names of streams that reveal nothing but times. Only their seed stands in recordings.
const JITTER: &str = "jitter";

impl RandomStreams {
    /// Creates the source of all streams of a seed.
    pub const fn new(seed: u64) -> RandomStreams {
        RandomStreams { seed, secret_seed: seed }
    }

    /// Creates the source of streams of two seeds: streams of jitter, whose names end with `jitter`, derive from
    /// `seed`, and all others from `secret_seed`, so that who knows `seed` can predict no cookie, key or identifier.
    pub const fn with_secret(seed: u64, secret_seed: u64) -> RandomStreams {
        RandomStreams { seed, secret_seed }
    }

    /// Returns the stream of this name, from its beginning. Call once and keep it.
    pub fn stream(&self, name: &str) -> Stream {
        let is_jitter = name.rsplit('/').next() == Some(JITTER);
        stream_of(if is_jitter { self.seed } else { self.secret_seed }, name)
    }

    /// Returns the streams of a part, such as a node of a simulation, separate from those of every other part.
    pub fn part(&self, name: &str) -> RandomStreams {
        let seed = |seed| stream_of(seed, name).next_u64();
        RandomStreams { seed: seed(self.seed), secret_seed: seed(self.secret_seed) }
    }
}

fn stream_of(seed: u64, name: &str) -> Stream {
    // The second half of the key distinguishes this use of the hash from others.
    let hasher = SipHasher24::new_with_keys(seed, u64::from_be_bytes(*b"earmark "));
    Stream { generator: Xoshiro256PlusPlus::seed_from_u64(hasher.hash(name.as_bytes())) }
}

/// Random numbers for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    generator: Xoshiro256PlusPlus,
}

impl Stream {
    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Draws a duration from `low` to `high`, both included, uniform to within 2^-20 for spans of hours. RFC 2205
    /// section 3.7 needs one from 0.5 R to 1.5 R between refreshes. Returns `low` if `high` is not above it.
    /// Durations above 584 years are cut.
    pub fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        let span = high.saturating_sub(low).as_nanos();
        let choices = u128::from(u64::try_from(span).unwrap_or(u64::MAX)) + 1;
        // The high half of a product of a 64-bit fraction: no division, and no loop of unbounded length.
        let offset = ((u128::from(self.next_u64()) * choices) >> 64) as u64;
        low + Duration::from_nanos(offset)
    }

    /// Returns a key for the keyed hash of a table whose keys a peer chooses.
    pub fn hash_key(&mut self) -> (u64, u64) {
        (self.next_u64(), self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seed_predicts_jitter_only() {
        let (one, other) = (RandomStreams::with_secret(1, 2), RandomStreams::with_secret(1, 3));
        let drawn = |streams: &RandomStreams, name| streams.stream(name).next_u64();
        for (name, is_public) in [
            ("engine/jitter", true),
            ("jitter", true),
            ("engine/cookie", false),
            ("gist/cookies", false),
            ("engine/jitter/key", false),
            ("gist/nojitter", false),
        ] {
            assert_eq!(drawn(&one, name) == drawn(&other, name), is_public, "{name}");
        }
        let part = |streams: &RandomStreams| streams.part("r1");
        assert_eq!(drawn(&part(&one), "a/jitter"), drawn(&part(&other), "a/jitter"));
        assert_ne!(drawn(&part(&one), "a/key"), drawn(&part(&other), "a/key"));
        let alone = RandomStreams::new(1);
        assert_eq!(drawn(&alone, "a/key"), drawn(&RandomStreams::with_secret(1, 1), "a/key"));
    }
}
