//! Streams of random numbers: pinned, and independent of each other.

use std::time::Duration;

use earmark_core::random::RandomStreams;

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
