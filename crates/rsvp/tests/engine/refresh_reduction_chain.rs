//! Refresh reduction between engines, in virtual time: fewer messages, and no loss of state.

use std::time::Duration;

use earmark_core::Time;
use earmark_rsvp::{Config, Timing};
use earmark_wire::rsvp::MessageType;
use proptest::prelude::*;

use crate::chain::*;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn without_reduction() -> Config {
    let mut config = Config::default();
    config.reduction.enabled = false;
    config
}

/// A chain whose nodes know each other's capabilities, because one session is up.
fn warm() -> Chain {
    let mut chain = Chain::new(Config::default());
    chain.open(1);
    chain.pass(SECOND);
    assert_eq!(chain.population(), [(1, 1); 3]);
    chain
}

/// Loses the `n`th message of a type that a node sends from now on, for each `n` given.
fn lose(chain: &mut Chain, from: usize, kind: MessageType, which: &'static [usize]) {
    let mut count = 0;
    chain.fate = Box::new(move |sight| {
        if (sight.from, sight.kind) != (from, kind) {
            return Fate::Arrives;
        }
        count += 1;
        if which.contains(&(count - 1)) { Fate::IsLost } else { Fate::Arrives }
    });
}

/// 200 sessions for ten minutes: no Path and no Resv any more, and one summary refresh for each neighbour and interval
/// instead of two messages for each session.
#[test]
fn steady_state_needs_one_message_per_neighbor_and_interval() {
    let mut chain = warm();
    (2..=200).for_each(|number| chain.open(number));
    chain.pass(120 * SECOND);
    let since = chain.now;
    chain.pass(600 * SECOND);
    assert_eq!(chain.population(), [(200, 200); 3]);
    for kind in [MessageType::Path, MessageType::Resv, MessageType::PathTear, MessageType::Ack] {
        assert_eq!(chain.count(kind, since), 0, "{kind:?}");
    }
    // Four directions, and rounds of 26.25 to 30 s.
    let summaries = chain.count(MessageType::Srefresh, since);
    assert!((4 * 20..=4 * 23).contains(&summaries), "{summaries}");
    assert_eq!(chain.nodes[MIDDLE].engine.counters().reduction.unknown, 0);
}

/// Without refresh reduction the same population costs two messages for each session, link and interval.
#[test]
fn steady_state_without_reduction_needs_two_messages_per_session() {
    let mut chain = Chain::new(without_reduction());
    (1..=20).for_each(|number| chain.open(number));
    chain.pass(120 * SECOND);
    let since = chain.now;
    chain.pass(300 * SECOND);
    let refreshes = chain.count(MessageType::Path, since) + chain.count(MessageType::Resv, since);
    assert!((600..=1_000).contains(&refreshes), "{refreshes}");
    assert_eq!(chain.count(MessageType::Srefresh, since), 0);
}

/// More identifiers than fit into one packet are sent in several, spread over the interval.
#[test]
fn long_summary_is_split_and_spread() {
    let mut chain = warm();
    (2..=1_000).for_each(|number| chain.open(number));
    chain.pass(120 * SECOND);
    let since = chain.now;
    chain.pass(300 * SECOND);
    assert_eq!(chain.population(), [(1_000, 1_000); 3]);
    let mut times: Vec<Time> = chain
        .seen
        .iter()
        .filter(|s| s.at >= since && s.from == LEFT && s.kind == MessageType::Srefresh)
        .map(|s| s.at)
        .collect();
    times.dedup();
    // 311 identifiers in a packet: four of them each 26.25 to 30 s, never two at once.
    assert!((40..=48).contains(&times.len()), "{}", times.len());
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= SECOND));
}

#[test]
fn lost_path_is_repaired_within_one_second() {
    let mut chain = warm();
    lose(&mut chain, MIDDLE, MessageType::Path, &[0]);
    chain.open(2);
    chain.pass(400 * MS);
    assert!(!chain.confirmed.contains(&2));
    chain.pass(200 * MS);
    assert!(chain.confirmed.contains(&2), "Rf is 500 ms");
}

/// A retransmitted Resv still has RESV_CONFIRM, and a lost ResvConf is retransmitted.
#[test]
fn lost_resv_and_confirmation_are_repaired() {
    for (from, kind) in [
        (RIGHT, MessageType::Resv),
        (MIDDLE, MessageType::Resv),
        (LEFT, MessageType::ResvConf),
        (MIDDLE, MessageType::ResvConf),
    ] {
        let mut chain = warm();
        lose(&mut chain, from, kind, &[0, 1]);
        chain.open(2);
        chain.pass(1_600 * MS);
        assert!(chain.confirmed.contains(&2), "{kind:?} of {from}");
    }
}

#[test]
fn lost_tears_are_repaired() {
    for (node, kind) in [(LEFT, MessageType::PathTear), (RIGHT, MessageType::ResvTear)] {
        let mut chain = warm();
        lose(&mut chain, node, kind, &[0, 1]);
        chain.close(node, 1);
        chain.pass(SECOND);
        assert_ne!(chain.population()[MIDDLE], (1, 0));
        assert_eq!(chain.population()[MIDDLE].1, 1, "two are lost");
        chain.pass(SECOND);
        assert_eq!(chain.population()[MIDDLE].1, 0, "the third arrives");
    }
}

/// After Rl transmissions the refreshes of RFC 2205 follow, which arrive in the end and are acknowledged.
#[test]
fn unacknowledged_message_is_left_to_refreshes() {
    let mut chain = warm();
    lose(&mut chain, MIDDLE, MessageType::Path, &[0, 1, 2, 3, 4]);
    let since = chain.now;
    chain.open(2);
    chain.pass(14 * SECOND);
    let sent = |chain: &Chain| {
        let mine =
            |s: &&SentRecord| s.from == MIDDLE && s.kind == MessageType::Path && s.at >= since;
        chain.seen.iter().filter(mine).count()
    };
    assert_eq!(sent(&chain), 5);
    chain.pass(45 * SECOND);
    assert_eq!(chain.nodes[MIDDLE].engine.counters().reduction.given_up, 1);
    assert!(chain.reserved.contains(&2), "a plain refresh came through");
    let settled = sent(&chain);
    chain.pass(300 * SECOND);
    assert_eq!(sent(&chain), settled, "and was acknowledged");
    assert_eq!(chain.population(), [(2, 2); 3]);
}

/// A router that restarts sends NACKs for unknown state, and gets it at once.
#[test]
fn restarted_router_recovers_within_one_interval() {
    let mut chain = warm();
    (2..=100).for_each(|number| chain.open(number));
    chain.pass(60 * SECOND);
    chain.restart_middle(77);
    chain.pass(31 * SECOND);
    assert_eq!(chain.population(), [(100, 100); 3]);
    let since = chain.now;
    chain.pass(300 * SECOND);
    assert_eq!(chain.population(), [(100, 100); 3]);
    assert_eq!(chain.count(MessageType::Path, since), 0);
}

/// The first unknown summary refresh at a restarted router restores all other state, too: its NACKs have a new epoch.
#[test]
fn new_epoch_restores_all_state() {
    let mut chain = warm();
    (2..=1_000).for_each(|number| chain.open(number));
    chain.pass(60 * SECOND);
    chain.restart_middle(77);
    // One packet of identifiers in four is enough.
    chain.pass(16 * SECOND);
    assert_eq!(chain.population(), [(1_000, 1_000); 3]);
}

/// Links that carry 40 messages a millisecond and lose all others: every session is up within seconds.
#[test]
fn overload_losses_are_recovered() {
    let mut chain = warm();
    let (mut tick, mut used) = (0, [0_u32; 3]);
    chain.fate = Box::new(move |sight| {
        let now = sight.at.as_nanos() / 1_000_000;
        if now != tick {
            (tick, used) = (now, [0; 3]);
        }
        used[sight.from] += 1;
        if used[sight.from] <= 40 { Fate::Arrives } else { Fate::IsLost }
    });
    (2..=3_000).for_each(|number| chain.open(number));
    let lost = 2_999 - 40;
    chain.pass(20 * MS);
    assert!(chain.confirmed.len() < 3_000 - lost + 100, "{}", chain.confirmed.len());
    chain.pass(10 * SECOND);
    assert_eq!(chain.confirmed.len(), 3_000);
    assert_eq!(chain.population(), [(3_000, 3_000); 3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With any losses, duplicates and delays the final state is that of plain RSVP without them.
    #[test]
    fn states_with_and_without_losses_are_equal(
        seed: u64,
        percent in 0..25_u64,
        steps in proptest::collection::vec((0..4_u8, 1..8_u16, 1..2_000_u32), 1..25),
    ) {
        let timing = Timing { refresh: 5 * SECOND, ..Timing::default() };
        let mut disturbed = Chain::new(Config { timing, ..Config::default() });
        disturbed.set_random_faults(seed, percent);
        let mut plain = Chain::new(Config { timing, ..without_reduction() });
        for chain in [&mut disturbed, &mut plain] {
            let mut open = std::collections::BTreeSet::new();
            for &(step, number, wait) in &steps {
                match step {
                    0 if open.remove(&number) => chain.close(LEFT, number),
                    1 if open.remove(&number) => chain.close(RIGHT, number),
                    2 | 3 if open.insert(number) => {
                        // The end that still has the session open must close it first.
                        chain.close(LEFT, number);
                        chain.close(RIGHT, number);
                        chain.pass(60 * SECOND);
                        chain.open(number);
                    }
                    _ => {}
                }
                chain.pass(wait * MS);
            }
            chain.pass(120 * SECOND);
        }
        // Five successive summary refreshes may have been lost, and with them all state that they list; it is restored.
        for _ in 0..60 {
            if disturbed.population() != plain.population() {
                disturbed.pass(SECOND);
            }
        }
        for node in &disturbed.nodes {
            prop_assert_eq!(node.engine.counters().foreign_acknowledgements, 0);
        }
        prop_assert_eq!(disturbed.population(), plain.population());
        prop_assert_eq!(&disturbed.reserved, &plain.reserved);
    }
}
