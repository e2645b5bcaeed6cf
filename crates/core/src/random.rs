//! Seeded streams of random numbers, one per node and purpose.
//!
//! All randomness of a node comes from one seed: that of the operating system in the daemon, that of the scenario in
//! the simulator. Each purpose takes a [`Stream`] of its own by name. A stream's numbers depend on the seed and the
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
    seed: u64,
}

impl RandomStreams {
    /// Creates the source of all streams of a seed.
    pub const fn new(seed: u64) -> RandomStreams {
        RandomStreams { seed }
    }

    /// Returns the stream of this name, from its beginning. Call once and keep it.
    pub fn stream(&self, name: &str) -> Stream {
        // The second half of the key distinguishes this use of the hash from others.
        let hasher = SipHasher24::new_with_keys(self.seed, u64::from_be_bytes(*b"earmark "));
        Stream { generator: Xoshiro256PlusPlus::seed_from_u64(hasher.hash(name.as_bytes())) }
    }

    /// Returns the streams of a part, such as a node of a simulation, separate from those of every other part.
    pub fn part(&self, name: &str) -> RandomStreams {
        RandomStreams { seed: self.stream(name).next_u64() }
    }
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

    /// Pinned, because recordings of one version must replay alike in the next.
    #[test]
    fn stream_numbers_are_pinned() {
        let mut stream = RandomStreams::new(1).stream("rsvp refresh");
        assert_eq!(stream.next_u64(), 0xb5e0_6ca2_c220_c337);
        assert_eq!(stream.next_u64(), 0x0900_5008_58aa_8aa3);
        let second = Duration::from_secs(1);
        assert_eq!(stream.uniform(15 * second, 45 * second), Duration::from_nanos(28_318_513_463));
        let part = RandomStreams::new(1).part("n3");
        assert_eq!(part.stream("a").next_u64(), 0x0c89_2af8_459f_aac0);
    }

    #[test]
    fn streams_depend_on_name_and_seed_only() {
        let streams = RandomStreams::new(7);
        let mut a = streams.stream("a");
        let first = a.next_u64();
        assert_ne!(first, streams.stream("b").next_u64());
        assert_ne!(first, RandomStreams::new(8).stream("a").next_u64());
        assert_ne!(first, streams.part("a").stream("a").next_u64());
        assert_eq!(first, streams.stream("a").next_u64());
        assert_ne!(a.hash_key(), a.hash_key());
    }

    #[test]
    fn uniform_stays_in_bounds_and_spreads() {
        let mut stream = RandomStreams::new(42).stream("jitter");
        let (low, high) = (Duration::from_secs(15), Duration::from_secs(45));
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let drawn = stream.uniform(low, high);
            assert!(low <= drawn && drawn <= high);
            tenths[((drawn - low).as_secs() / 3).min(9) as usize] += 1;
        }
        // 1000 expected, standard deviation 30.
        assert!(tenths.iter().all(|n| (850..1150).contains(n)), "{tenths:?}");
    }

    #[test]
    fn uniform_reaches_both_ends_and_accepts_odd_bounds() {
        let mut stream = RandomStreams::new(3).stream("ends");
        let nano = Duration::from_nanos(1);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[stream.uniform(Duration::ZERO, 2 * nano).as_nanos() as usize] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(stream.uniform(5 * nano, nano), 5 * nano);
        assert!(stream.uniform(Duration::ZERO, Duration::MAX) <= Duration::from_nanos(u64::MAX));
        assert_eq!(stream.uniform(Duration::MAX, Duration::MAX), Duration::MAX);
    }
}
