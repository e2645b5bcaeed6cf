//! Sessions whose refreshes the offload handles.

use std::time::Duration;

use earmark_boomerang::{
    Command, Config, Event, Limits, LinkRate, Offloaded, Passed, Seen, Selector, Settled,
    Settlement,
};
use earmark_core::{InterfaceId, Rate, Time};
use earmark_wire::boomerang::{Rates, Shape};
use earmark_wire::icmp::Kind;

use crate::common::*;

fn helped() -> Bench {
    with_config(Config { offload: true, ..Config::default() })
}

fn share(interface: InterfaceId, kbps: u64) -> Option<LinkRate> {
    Some(LinkRate { interface, rate: Rate::from_bps(kbps * 1_000) })
}

fn offloaded(outcomes: &[Outcome]) -> Vec<Offloaded> {
    let offloads = events(outcomes).into_iter().filter_map(|event| match event {
        Event::Offload(offloaded) => Some(offloaded),
        _ => None,
    });
    offloads.collect()
}

fn selector(router: &Bench) -> Selector {
    router.engine.sessions().next().expect("there is one").selector
}

/// Creates both directions of a session of 2 Mbit/s and 500 kbit/s.
fn session() -> (Bench, Message) {
    let (mut router, loop_) = (helped(), message(1, kbit(2_000, 500)));
    router.passes(&loop_);
    router.passes(&loop_.back());
    (router, loop_)
}

#[test]
fn plain_session_is_offloaded_with_both_halves() {
    let (mut router, loop_) = (helped(), message(1, kbit(2_000, 500)));
    let out = offloaded(&router.passes(&loop_));
    let forward = share(ETH2, 2_000);
    let selector = selector(&router);
    let first = Offloaded {
        selector,
        initiator: ip(NEAR),
        far_end: ip(FAR),
        arrivals: [ETH1, InterfaceId(0)],
        interval: 30,
        forward,
        reverse: None,
    };
    assert_eq!(out, [first]);
    let back = offloaded(&router.passes(&loop_.back()));
    assert_eq!(back, [Offloaded { reverse: share(ETH1, 500), arrivals: [ETH1, ETH2], ..first }]);
    assert_eq!(router.passes(&loop_).len(), 1, "a refresh that comes all the same");
    let (keys, shape) = selector.keys();
    assert_eq!((keys, shape), (loop_.classifier, loop_.mask), "as in the message");

    let more = offloaded(&router.passes(&message(1, kbit(3_000, 500))));
    assert_eq!(more.first().map(|offloaded| offloaded.forward), Some(share(ETH2, 3_000)));
    router.move_route();
    let outcomes = router.passes(&message(1, kbit(3_000, 500)));
    assert!(events(&outcomes).contains(&Event::Withhold { selector }));
    assert_eq!(offloaded(&outcomes), [], "the reverse half may have moved, too");
    let moved = offloaded(&router.passes(&message(1, kbit(3_000, 500)).back()));
    assert_eq!(moved.first().map(|offloaded| offloaded.forward), Some(share(ETH3, 3_000)));
    let ended = router.passes(&message(1, Rates::ZERO));
    assert!(events(&ended).contains(&Event::Recall { selector }));
}

#[test]
fn session_that_is_not_plain_is_not_offloaded() {
    let config = Config { offload: true, ..Config::default() };
    let plain = message(1, kbit(2_000, 500));
    let odd_tos = {
        let mut message = plain.clone();
        message.classifier.tos = 9;
        message
    };
    let list = Message { rates: vec![kbit(2_000, 0), kbit(1_000, 0)], ..plain.clone() };
    let six = {
        let mut message = plain.clone();
        message.classifier = classifier("2001:db8:1::1", "2001:db8:9::9", 1);
        message.mask = Shape { source: 128, destination: 128, ..message.mask };
        message
    };
    for (config, message) in [
        (Config { lock: true, ..config.clone() }, plain.clone()),
        (Config { credentials: required(&[("alice", "wonder")]), ..config.clone() }, plain.clone()),
        (Config { aggregate_only: true, ..config.clone() }, plain.clone()),
        (Config { max_refresh_interval: 10, ..config.clone() }, plain.clone()),
        (Config { offload: false, ..config.clone() }, plain.clone()),
        (config.clone(), odd_tos),
        (config.clone(), list),
        (config.clone(), six),
        (config.clone(), Message { key: 3, ..plain.clone() }),
        (config, message(1, kbit(9_000, 0))),
    ] {
        let mut router = with_config(config);
        assert_eq!(offloaded(&router.passes(&message)), [], "{message:?}");
    }
}

/// The engine receives no refresh, so it asks; the answer keeps the session.
#[test]
fn offload_is_asked_before_session_expires() {
    let (mut router, _) = session();
    let selector = selector(&router);
    for round in 1..5 {
        let asked = router.wait();
        assert_eq!(events(&asked), [Event::Expiring { selector }], "{round}");
        assert_eq!(router.held_both(), (2_000, 500));
        let last = Time::from_nanos(router.now.as_nanos() - 5_000_000_000);
        let (forward, reverse) = (Some(last), Some(last));
        let seen = Seen { selector, interval: 30, forward, reverse };
        assert_eq!(router.command(Command::Seen(seen)), []);
        let passed = Passed { requests: 4, replies: 3, refreshed: 6 };
        assert_eq!(router.command(Command::Passed(passed)), []);
        let counters = router.engine.counters();
        assert_eq!(counters.refreshed, 6 * round);
        assert_eq!((counters.requests, counters.replies), (1 + 4 * round, 1 + 3 * round));
        let end = router.engine.sessions().next().and_then(|s| s.forward).map(|h| h.expires_at);
        assert_eq!(end, Some(last + Duration::from_secs(90)));
    }
    router.wait();
    let ended = router.wait();
    assert_eq!(removed(&ended), 2, "no answer");
    assert!(events(&ended).contains(&Event::Recall { selector }));
    assert_eq!(router.engine.population(), (0, 0));
}

/// A report about a session that this node does not have keeps no other one.
#[test]
fn report_about_unknown_session_changes_nothing() {
    let (mut router, _) = session();
    let known = selector(&router);
    router.wait();
    let unknown = Selector { source_port: known.source_port.map(|port| port + 1), ..known };
    let seen = Some(router.now);
    let seen = Seen { selector: unknown, interval: 30, forward: seen, reverse: seen };
    assert_eq!(router.command(Command::Seen(seen)), []);
    assert_eq!(removed(&router.wait()), 2, "nobody has refreshed it");
}

/// An answer without a refresh ends the session at once; an answer with one direction keeps that one.
#[test]
fn answer_without_refresh_ends_session() {
    let (mut router, _) = session();
    let selector = selector(&router);
    router.wait();
    let seen = Seen { selector, interval: 30, forward: None, reverse: None };
    router.command(Command::Seen(seen));
    assert_eq!(removed(&router.pass(Duration::from_millis(1))), 2);

    let (mut router, loop_) = session();
    router.wait();
    let seen = Seen { forward: Some(router.now), ..seen };
    router.command(Command::Seen(seen));
    assert_eq!(removed(&router.pass(Duration::from_millis(1))), 1);
    assert_eq!(router.held_both(), (2_000, 0));
    let again = offloaded(&router.passes(&loop_.back()));
    assert_eq!(again.first().map(|offloaded| offloaded.reverse), Some(share(ETH1, 500)));
}

/// Returns the report of a message that the offload has processed.
fn settled(message: &Message, outcome: Settlement) -> Command {
    let (mut source, mut destination) = (ip(NEAR), ip(FAR));
    if message.kind == Kind::Reply {
        std::mem::swap(&mut source, &mut destination);
    }
    let message = message.octets(source, destination);
    let interface = if source == ip(NEAR) { ETH1 } else { ETH2 };
    Command::Settled(Settled { interface, source, destination, message, outcome })
}

fn reserved(interface: InterfaceId, kbps: u64) -> Settlement {
    Settlement::Reserved(share(interface, kbps).expect("something"))
}

/// A report has the effect of the message itself, except that nothing is sent; from the first report on the offload
/// may handle the refreshes.
#[test]
fn settled_message_changes_engine_state() {
    let loop_ = message(1, kbit(2_000, 500));
    let (mut with, mut without) = (helped(), helped());
    let outcomes = with.command(settled(&loop_, reserved(ETH2, 2_000)));
    assert_eq!(sent(&outcomes), []);
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Installed(_))));
    let allowance = Event::Allowance { initiator: ip(NEAR), interface: ETH1, changes: 4_999 };
    assert!(events(&outcomes).contains(&allowance), "{outcomes:?}");
    with.command(settled(&loop_.back(), reserved(ETH1, 500)));
    without.passes(&loop_);
    without.passes(&loop_.back());
    let views = |bench: &Bench| bench.engine.sessions().collect::<Vec<_>>();
    assert_eq!(views(&with), views(&without));
    assert!(views(&with)[0].offloaded);
    assert_eq!(with.engine.counters(), without.engine.counters());
    assert_eq!(with.held_both(), without.held_both());

    let release = message(1, Rates::ZERO);
    let [forward, reverse] = [share(ETH2, 2_000), share(ETH1, 500)];
    let outcomes = with.command(settled(&release, Settlement::Released([forward, reverse])));
    assert_eq!((removed(&outcomes), with.engine.population()), (2, (0, 0)));
    let recalled = |event: &&Event| matches!(event, Event::Recall { .. });
    assert_eq!(events(&outcomes).iter().filter(recalled).count(), 1);
}

/// The engine decides: if it cannot follow, the offload has to withdraw the session.
#[test]
fn settled_message_that_cannot_be_applied_is_withdrawn() {
    let loop_ = message(1, kbit(2_000, 500));
    let (known, _) = session();
    let selector = selector(&known);
    let (withhold, recall) = (Event::Withhold { selector }, Event::Recall { selector });
    for (what, message, outcome, void) in [
        ("another link", &loop_, reserved(ETH1, 2_000), &withhold),
        ("too much", &message(1, kbit(9_000, 0)), reserved(ETH2, 9_000), &recall),
        ("nothing is there", &message(1, Rates::ZERO), Settlement::Released([None; 2]), &recall),
    ] {
        let mut router = helped();
        let outcomes = router.command(settled(message, outcome));
        assert!(events(&outcomes).contains(void), "{what}: {outcomes:?}");
        assert!(!router.engine.sessions().any(|session| session.offloaded), "{what}");
    }
    let (mut router, loop_) = session();
    let Command::Settled(word) = settled(&loop_, reserved(ETH2, 2_000)) else { unreachable!() };
    let stranger = Settled { source: ip("10.0.1.77"), ..word };
    let outcomes = router.command(Command::Settled(stranger));
    assert!(events(&outcomes).contains(&withhold), "somebody else's: {outcomes:?}");
    assert_eq!(router.held_both(), (2_000, 500));
    let mut router = helped();
    let broken = Settled {
        interface: ETH1,
        source: ip(NEAR),
        destination: ip(FAR),
        message: vec![8; 30],
        outcome: reserved(ETH2, 1),
    };
    assert_eq!(router.command(Command::Settled(broken)), []);
}

/// Messages processed by the offload count towards the limits, and its allowance is at most half of what is left.
#[test]
fn offloaded_set_ups_count_towards_limits() {
    let limits = Limits { changes_per_second: 10, sessions_per_source: 7, ..Limits::default() };
    let mut router = with_config(Config { offload: true, limits, ..Config::default() });
    let allowed = |outcomes: &[Outcome]| {
        let last = events(outcomes).into_iter().rev().find_map(|event| match event {
            Event::Allowance { changes, .. } => Some(changes),
            _ => None,
        });
        last.expect("something is said of it")
    };
    let mut found = Vec::new();
    for port in 1..8 {
        let loop_ = message(port, kbit(10, 0));
        found.push(allowed(&match port {
            1 => router.passes(&loop_),
            _ => router.command(settled(&loop_, reserved(ETH2, 10))),
        }));
    }
    assert_eq!(found, [3, 2, 2, 1, 1, 0, 0]);
    let eighth = router.passes(&message(8, kbit(10, 0)));
    assert!(one(&eighth).is_nack(), "so many sessions");
    for port in 1..8 {
        router.command(settled(&message(port, kbit(10, 10)).back(), reserved(ETH1, 10)));
    }
    router.passes(&message(1, Rates::ZERO));
    let debt = router.passes(&message(8, kbit(10, 0)));
    assert!(one(&debt).is_nack(), "fourteen changes are more than ten");
    router.pass(Duration::from_secs(1));
    assert!(!one(&router.passes(&message(8, kbit(10, 0)))).is_nack());
}

/// A change by a message that is not plain differs from the offload's state; the next plain message updates it.
#[test]
fn change_that_is_not_plain_ends_offload() {
    let (mut router, loop_) = session();
    let selector = selector(&router);
    let list = Message { rates: vec![kbit(9_000, 0), kbit(1_000, 500)], ..loop_.clone() };
    let outcomes = router.passes(&list);
    assert_eq!(router.held_both(), (1_000, 500));
    assert!(events(&outcomes).contains(&Event::Withhold { selector }), "{outcomes:?}");
    let refused = router.passes(&message(1, kbit(9_000, 500)));
    assert!(one(&refused).is_nack());
    assert_eq!(events(&refused), [], "it keeps what it has, and nobody knows of it");
    let again = offloaded(&router.passes(&message(1, kbit(1_000, 500))));
    assert_eq!(again.first().map(|offloaded| offloaded.forward), Some(share(ETH2, 1_000)));
    // A refused change keeps the offload's state.
    assert_eq!(events(&router.passes(&message(1, kbit(9_000, 500)))), []);
}
