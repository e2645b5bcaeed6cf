//! Groups: one claim per branch, and copies that report each branch's own result.

use std::time::Duration;

use earmark_boomerang::{Command, Config, Direction, Event, Limits, OnRefusal, Request, Selector};
use earmark_core::{HostEvent, Input, InterfaceId, MulticastRoute, Prefix};
use earmark_wire::boomerang::Rates;

use crate::common::*;

const GROUP: &str = "239.1.1.1";
const NO_ECHO: u16 = 2;

/// Creates a router whose group `GROUP` comes in through eth1 and leaves through eth2 and eth3.
fn branching() -> Bench {
    let mut router = router();
    set_branches(&mut router, &[ETH2, ETH3]);
    router
}

fn set_branches(router: &mut Bench, outgoing: &[InterfaceId]) {
    router.routes.insert_multicast(MulticastRoute {
        source: None,
        group: ip(GROUP),
        incoming: Some(ETH1),
        outgoing: outgoing.to_vec(),
    });
    let event = HostEvent::MulticastRouteChanged { source: None, group: ip(GROUP) };
    assert_eq!(router.handle(Input::Host(event)), []);
}

fn to_group(forward: u32) -> Message {
    let mut message = message(4_000, kbit(forward, 0));
    message.classifier.destination = ip(GROUP);
    message.flags = NO_ECHO;
    message.interval = 5;
    message
}

fn arrives(router: &mut Bench, message: &Message) -> Vec<Outcome> {
    router.arrives(ETH1, ip(NEAR), ip(GROUP), message)
}

/// Returns branch, NACK and rates of the copies.
fn copies(outcomes: &[Outcome]) -> Vec<(InterfaceId, bool, Rates)> {
    let copy = |(how, message): &(earmark_core::Outgoing, Message)| {
        (how.interface.expect("a branch"), message.is_nack(), message.rates[0])
    };
    sent(outcomes).iter().map(copy).collect()
}

#[test]
fn each_branch_has_own_claim_and_copy() {
    let mut router = branching();
    let outcomes = arrives(&mut router, &to_group(2_000));
    assert_eq!(installed(&outcomes), [(ETH2, 2_000), (ETH3, 2_000)]);
    let rates = kbit(2_000, 0);
    assert_eq!(copies(&outcomes), [(ETH2, false, rates), (ETH3, false, rates)]);
    assert_eq!((router.held(ETH2), router.held(ETH3)), (2_000, 2_000));
    assert_eq!(router.engine.population(), (1, 0));
    let listed: Vec<_> =
        router.engine.sessions().flat_map(|it| it.halves().collect::<Vec<_>>()).collect();
    let listed: Vec<_> = listed.iter().map(|(way, half)| (*way, half.interface)).collect();
    assert_eq!(listed, [(Direction::Forward, ETH2), (Direction::Forward, ETH3)]);
    assert_eq!(arrives(&mut router, &to_group(2_000)).len(), 2, "a refresh");
    assert_eq!(installed(&arrives(&mut router, &to_group(1_000))).len(), 2, "a change");
    let outcomes = arrives(&mut router, &to_group(0));
    assert_eq!((removed(&outcomes), sent(&outcomes).len()), (2, 2));
    assert_eq!(router.engine.population(), (0, 0));
}

#[test]
fn refusal_on_one_branch_stays_on_that_branch() {
    let mut router = branching();
    router.passes(&message(1, kbit(6_000, 0)));
    let outcomes = arrives(&mut router, &to_group(2_000));
    let expected = [(ETH2, true, kbit(1_500, 0)), (ETH3, false, kbit(2_000, 0))];
    assert_eq!(copies(&outcomes), expected);
    assert_eq!((router.held(ETH2), router.held(ETH3)), (6_000, 2_000));
    router.passes(&message(1, Rates::ZERO));
    let outcomes = arrives(&mut router, &to_group(2_000));
    assert_eq!(installed(&outcomes), [(ETH2, 2_000)], "there is room now");
    assert_eq!(router.held(ETH3), 2_000);
}

#[test]
fn branches_follow_multicast_routes() {
    let mut router = branching();
    arrives(&mut router, &to_group(2_000));
    set_branches(&mut router, &[ETH3]);
    let outcomes = arrives(&mut router, &to_group(2_000));
    assert_eq!((removed(&outcomes), copies(&outcomes).len()), (1, 1));
    assert_eq!((router.held(ETH2), router.held(ETH3)), (0, 2_000));
    set_branches(&mut router, &[ETH2, ETH3]);
    assert_eq!(installed(&arrives(&mut router, &to_group(2_000))), [(ETH2, 2_000)]);
    assert_eq!(removed(&router.pass(Duration::from_secs(15))), 2, "both live three intervals");
    assert_eq!(router.engine.population(), (0, 0));
}

#[test]
fn message_on_wrong_interface_is_dropped() {
    let mut router = branching();
    let outcomes = router.arrives(ETH2, ip(NEAR), ip(GROUP), &to_group(2_000));
    assert!(matches!(events(&outcomes)[..], [Event::Dropped { .. }]));
    let outcomes = router.arrives(ETH1, ip(NEAR), ip("239.9.9.9"), &to_group(2_000));
    assert!(matches!(events(&outcomes)[..], [Event::Dropped { .. }]));
    assert_eq!(router.engine.population(), (0, 0));
}

/// A malformed message to a group goes on unchanged on each branch.
#[test]
fn malformed_message_is_forwarded_on_each_branch() {
    let mut router = branching();
    let mut octets = to_group(2_000).octets(ip(NEAR), ip(GROUP));
    octets[2] ^= 1;
    let outcomes = router.octets_arrive(ETH1, ip(NEAR), ip(GROUP), &octets);
    let copies: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Sent(how, same) if *same == octets => how.interface,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(copies, [Some(ETH2), Some(ETH3)]);
    assert_eq!(router.engine.counters().relayed, 2);
    assert_eq!(router.engine.population(), (0, 0));
}

#[test]
fn branch_over_limit_is_refused() {
    let limits = Limits { branches: 0, ..Limits::default() };
    let mut router = with_config(Config { limits, ..Config::default() });
    set_branches(&mut router, &[ETH2, ETH3]);
    let outcomes = arrives(&mut router, &to_group(2_000));
    let expected = [(ETH2, false, kbit(2_000, 0)), (ETH3, true, kbit(0, 0))];
    assert_eq!(copies(&outcomes), expected);
}

/// A host sends to a group, and receives only its own result.
#[test]
fn host_reserves_for_group_without_reply() {
    let mut host = router();
    host.add_route("239.0.0.0/8", ETH2, None);
    let mut request = Request { destination: ip(GROUP), ..request(&[kbit(2_000, 0)]) };
    request.selector = Selector { destination: Prefix::host(ip(GROUP)), ..request.selector };
    request.interval = Some(4);
    let outcomes = host.reserve(request.clone());
    let [(how, message)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!((how.destination, message.flags, message.interval), (ip(GROUP), NO_ECHO, 4));
    let (rates, interval, confirmed) = (kbit(2_000, 0), 4, false);
    let established = Event::Established { application: APP, rates, interval, confirmed };
    assert_eq!(events(&outcomes), [established]);
    assert_eq!(host.held(ETH2), 2_000);
    for _ in 0..5 {
        let before = host.now;
        assert_eq!(one(&host.wait()).rates, [rates]);
        assert!((2_000..=6_001).contains(&(host.now - before).as_millis()));
    }
    let outcomes = host.command(Command::Release { application: APP });
    assert_eq!(events(&outcomes), [Event::Released { application: APP }]);
    assert_eq!((one(&outcomes).rates, host.held(ETH2)), (vec![Rates::ZERO], 0));

    host.passes(&crate::common::message(1, kbit(7_000, 0)));
    let outcomes = host.reserve(request);
    let (offer, reaction) = (kbit(500, 0), OnRefusal::Retry);
    assert_eq!(events(&outcomes), [Event::Refused { application: APP, offer, reaction }]);
}
