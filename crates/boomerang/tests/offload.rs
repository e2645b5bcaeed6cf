//! Sessions whose refreshes somebody else treats.

mod common;

use std::time::Duration;

use common::*;
use earmark_boomerang::{Account, Command, Config, Event, LinkRate, Offloaded, Seen, Selector};
use earmark_core::{InterfaceId, Rate, Time};
use earmark_wire::boomerang::{Rates, Shape};

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

/// Both directions of a session of 2 Mbit/s and 500 kbit/s.
fn session() -> (Bench, Message) {
    let (mut router, loop_) = (helped(), message(1, kbit(2_000, 500)));
    router.passes(&loop_);
    router.passes(&loop_.back());
    (router, loop_)
}

#[test]
fn a_plain_session_is_offloaded_with_all_that_it_has() {
    let (mut router, loop_) = (helped(), message(1, kbit(2_000, 500)));
    let out = offloaded(&router.passes(&loop_));
    let forward = share(ETH2, 2_000);
    let selector = selector(&router);
    let first = Offloaded { selector, initiator: ip(NEAR), interval: 30, forward, reverse: None };
    assert_eq!(out, [first]);
    let back = offloaded(&router.passes(&loop_.back()));
    assert_eq!(back, [Offloaded { reverse: share(ETH1, 500), ..first }]);
    assert_eq!(router.passes(&loop_).len(), 1, "a refresh that comes all the same");
    let (keys, shape) = selector.keys();
    assert_eq!((keys, shape), (loop_.classifier, loop_.mask), "as in the message");

    let more = offloaded(&router.passes(&message(1, kbit(3_000, 500))));
    assert_eq!(more.first().map(|offloaded| offloaded.forward), Some(share(ETH2, 3_000)));
    router.move_route();
    let outcomes = router.passes(&message(1, kbit(3_000, 500)));
    assert!(events(&outcomes).contains(&Event::Recall { selector }));
    assert_eq!(offloaded(&outcomes), [], "the reverse half may have moved, too");
    let moved = offloaded(&router.passes(&message(1, kbit(3_000, 500)).back()));
    assert_eq!(moved.first().map(|offloaded| offloaded.forward), Some(share(ETH3, 3_000)));
    let ended = router.passes(&message(1, Rates::ZERO));
    assert!(events(&ended).contains(&Event::Recall { selector }));
}

#[test]
fn what_needs_judgement_is_not_offloaded() {
    let account = Account { name: "alice".into(), secret: "wonder".to_owned().into() };
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
        (Config { users: vec![account], ..config.clone() }, plain.clone()),
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

/// The engine hears of no refresh, so it asks; with the answer the session lives on.
#[test]
fn it_is_asked_before_a_session_ends() {
    let (mut router, _) = session();
    let selector = selector(&router);
    for round in 1..5 {
        let asked = router.wait();
        assert_eq!(events(&asked), [Event::Expiring { selector }], "{round}");
        assert_eq!(router.held_both(), (2_000, 500));
        let last = Time::from_nanos(router.now.as_nanos() - 5_000_000_000);
        let (forward, reverse) = (Some(last), Some(last));
        let seen = Seen { selector, interval: 30, forward, reverse, refreshes: 6 };
        assert_eq!(router.command(Command::Seen(seen)), []);
        assert_eq!(router.engine.counters().refreshed, 6 * round);
        let end = router.engine.sessions().next().and_then(|s| s.forward).map(|h| h.expires_at);
        assert_eq!(end, Some(last + Duration::from_secs(90)));
    }
    router.wait();
    let ended = router.wait();
    assert_eq!(removed(&ended), 2, "nobody has answered");
    assert!(events(&ended).contains(&Event::Recall { selector }));
    assert_eq!(router.engine.population(), (0, 0));
}

/// An answer that knows of no refresh ends the session at once; one that knows of one direction keeps that one.
#[test]
fn an_answer_may_be_that_there_was_none() {
    let (mut router, _) = session();
    let selector = selector(&router);
    router.wait();
    let seen = Seen { selector, interval: 30, forward: None, reverse: None, refreshes: 0 };
    router.command(Command::Seen(seen));
    assert_eq!(removed(&router.pass(Duration::from_millis(1))), 2);

    let (mut router, loop_) = session();
    router.wait();
    let seen = Seen { forward: Some(router.now), refreshes: 1, ..seen };
    router.command(Command::Seen(seen));
    assert_eq!(removed(&router.pass(Duration::from_millis(1))), 1);
    assert_eq!(router.held_both(), (2_000, 0));
    let again = offloaded(&router.passes(&loop_.back()));
    assert_eq!(again.first().map(|offloaded| offloaded.reverse), Some(share(ETH1, 500)));
}
