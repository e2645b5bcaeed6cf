//! Restart of a router between two hosts, with refresh reduction and Hello between all of them (RFC 3473 section 9, RFC
//! 5063).

use std::time::Duration;

use earmark_core::HostEvent;
use earmark_rsvp::{Config, HelloTiming, RestartTimes};
use earmark_wire::rsvp::MessageType;

use crate::chain::*;

const SECOND: Duration = Duration::from_secs(1);

fn config(restart_time: Option<Duration>) -> Config {
    let restart = RestartTimes { restart_time, ..RestartTimes::default() };
    let hello = HelloTiming { interval: Some(SECOND), restart, ..HelloTiming::default() };
    Config { hello, ..Config::default() }
}

/// A chain with Hello and sessions that are reserved and in summary refreshes.
fn reserved(config: Config, sessions: u16) -> Chain {
    let mut chain = Chain::new(config);
    chain.open(1);
    chain.pass(SECOND);
    chain.open_together(2..=sessions);
    chain.pass(90 * SECOND);
    assert_eq!(chain.population(), [(sessions.into(), sessions.into()); 3]);
    chain
}

/// Loses all messages of the router, which is down.
fn silence(chain: &mut Chain, down: Duration) {
    chain.fate = Box::new(|_| Fate::IsLost);
    chain.pass(down);
    chain.fate = Box::new(|_| Fate::Arrives);
}

/// A router is back after 20 s, knows nothing, and has preserved its reservations: its neighbours give it the state back in half
/// of its Recovery Time, and no application hears of it. Nobody is lost, and no refresh period has to pass.
#[test]
fn restarted_router_gets_all_state_back() {
    let mut chain = reserved(config(Some(30 * SECOND)), 50);
    let reserved_before = chain.reserved.clone();
    silence(&mut chain, 20 * SECOND);
    assert_eq!(chain.population()[0], (50, 50));
    chain.restart_middle(9);
    chain.host(MIDDLE, HostEvent::Adopted);
    let since = chain.now;
    chain.pass(35 * SECOND);
    assert_eq!(chain.population(), [(50, 50); 3]);
    assert_eq!(chain.reserved, reserved_before);
    assert!(chain.count(MessageType::RecoveryPath, since) >= 1);
    for kind in [MessageType::ResvErr, MessageType::ResvTear, MessageType::PathTear] {
        assert_eq!(chain.count(kind, since), 0, "{kind:?}");
    }
    // Afterwards summaries refresh everything again, and Hellos are quiet.
    chain.pass(120 * SECOND);
    let since = chain.now;
    chain.pass(120 * SECOND);
    assert_eq!(chain.population(), [(50, 50); 3]);
    for kind in [MessageType::Path, MessageType::Resv, MessageType::RecoveryPath] {
        assert_eq!(chain.count(kind, since), 0, "{kind:?}");
    }
}

/// A restart without preserved reservations, or without the setting, sends all state again at once.
#[test]
fn router_without_preserved_state_recovers_as_before() {
    for restart_time in [None, Some(30 * SECOND)] {
        let mut chain = reserved(config(restart_time), 20);
        silence(&mut chain, 2 * SECOND);
        chain.restart_middle(9);
        let since = chain.now;
        chain.pass(10 * SECOND);
        assert_eq!(chain.population(), [(20, 20); 3], "{restart_time:?}");
        assert_eq!(chain.count(MessageType::RecoveryPath, since), 0);
    }
}

/// Instances settle after a restart: each side sees the other alive.
#[test]
fn hellos_settle_after_restart() {
    for (restart_time, recovers) in
        [(None, false), (Some(30 * SECOND), false), (Some(30 * SECOND), true)]
    {
        let mut chain = reserved(config(restart_time), 2);
        chain.restart_middle(9);
        if recovers {
            chain.host(MIDDLE, HostEvent::Adopted);
        }
        chain.pass(90 * SECOND);
        let lost = chain.lost;
        chain.pass(60 * SECOND);
        assert_eq!(chain.lost, lost, "{restart_time:?} {recovers}");
    }
}

/// The link of a router is down for 60 s: no state ends, and no node has restarted.
#[test]
fn control_channel_fault_keeps_all_state() {
    let mut restart = config(Some(90 * SECOND));
    restart.timing.refresh = 2 * SECOND; // lifetime 10.5 s
    let mut chain = reserved(restart, 20);
    silence(&mut chain, 60 * SECOND);
    assert_eq!(chain.population(), [(20, 20); 3]);
    chain.pass(15 * SECOND);
    assert_eq!((chain.population(), chain.lost), ([(20, 20); 3], 0));
    chain.pass(60 * SECOND);
    assert_eq!(chain.population(), [(20, 20); 3]);
}

/// A sender ends while the router is down: what it left downstream ends with the Recovery Time of the router or its own
/// lifetime.
#[test]
fn sender_that_ends_during_restart_leaves_nothing() {
    let mut short = config(Some(30 * SECOND));
    short.timing.refresh = 2 * SECOND;
    let mut chain = reserved(short, 5);
    chain.fate = Box::new(|_| Fate::IsLost);
    chain.pass(10 * SECOND);
    chain.close(LEFT, 3);
    chain.pass(5 * SECOND);
    chain.fate = Box::new(|_| Fate::Arrives);
    chain.restart_middle(9);
    chain.host(MIDDLE, HostEvent::Adopted);
    chain.pass(100 * SECOND);
    assert_eq!(chain.population(), [(4, 4); 3]);
}

/// All three nodes see losses, duplicates and delays in the recovery.
#[test]
fn recovery_succeeds_over_lossy_links() {
    for seed in 0..10 {
        let mut chain = reserved(config(Some(30 * SECOND)), 20);
        silence(&mut chain, 10 * SECOND);
        chain.restart_middle(seed);
        chain.host(MIDDLE, HostEvent::Adopted);
        chain.set_random_faults(seed, 10);
        chain.pass(58 * SECOND);
        assert_eq!(chain.population(), [(20, 20); 3], "{seed}");
    }
}
