//! Both ends: the initiating node, which requests, repeats and evaluates, and the far end, which replies.

use std::net::IpAddr;
use std::time::Duration;

use earmark_boomerang::{
    Application, Change, Command, Config, Event, OnRefusal, Rejection, Request, RequestedRates,
    Selector,
};
use earmark_core::admission::{Displaced, Priority};
use earmark_core::outcome::Outcome as Reach;
use earmark_core::{Engine, HostEvent, InterfaceId, Rate};
use earmark_wire::boomerang::{OptionItem, Rates};
use earmark_wire::icmp::Kind;

use crate::common::*;

/// Address of the initiating host: the bench's router, seen from its own address on eth2.
const SELF: &str = "10.0.2.1";

fn back(bench: &mut Bench, message: &Message) -> Vec<Outcome> {
    bench.arrives(ETH2, ip(FAR), ip(SELF), &message.back())
}

fn established(rates: Rates) -> Event {
    Event::Established { application: APP, rates, interval: 30, confirmed: true }
}

fn rate_pair(rates: Rates) -> RequestedRates {
    let rate = |bits: u32| Rate::from_bps(bits.into());
    RequestedRates { forward: rate(rates.forward), reverse: rate(rates.reverse) }
}

#[test]
fn returned_loop_establishes_and_is_refreshed() {
    let mut host = router();
    let outcomes = host.reserve(request(&[kbit(2_000, 500)]));
    assert_eq!(installed(&outcomes), [(ETH2, 2_000)], "its own link is the first");
    let [(how, out)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!((how.source, how.destination, how.ttl), (ip(SELF), ip(FAR), 64));
    assert_eq!((how.router_alert, how.interface), (true, Some(ETH2)));
    assert_eq!((out.kind, out.key, out.interval), (Kind::Request, 1, 30));
    assert_eq!(out.classifier.source, ip(SELF), "it was left open");
    assert_eq!(events(&back(&mut host, out)), [established(kbit(2_000, 500))]);

    // The first refresh proves this node, each other one follows after 0.5 to 1.5 intervals, and each comes back.
    let mut last = host.now;
    for round in 0..20 {
        let refresh = one(&host.wait());
        let pause = host.now - last;
        let expected = if round == 0 { 2_500..=5_001 } else { 15_000..=45_001 };
        assert!(expected.contains(&pause.as_millis()), "{pause:?}");
        last = host.now;
        assert_eq!(refresh.rates, out.rates);
        assert_eq!(refresh.transaction_id, out.transaction_id);
        assert_eq!(back(&mut host, &refresh), []);
    }
    assert_eq!(host.held(ETH2), 2_000);
    let counters = host.engine.counters();
    assert_eq!((counters.sent, counters.returned, counters.repeated), (21, 21, 0));
}

/// The transaction identifiers of loops tell them apart, and nobody can guess the next one.
#[test]
fn loops_have_different_transaction_identifiers() {
    let mut host = router();
    let mut seen = std::collections::BTreeSet::new();
    for number in 1..=100 {
        let mut request = request(&[kbit(10, 0)]);
        request.selector.source_port = Some(number);
        let application = Application(number.into());
        let outcomes = host.command(Command::Reserve { application, request });
        seen.insert(one(&outcomes).transaction_id);
    }
    assert_eq!(seen.len(), 100);
    assert!(seen.last().is_some_and(|last| *last > u32::MAX / 2), "{seen:?}");
    assert!(seen.first().is_some_and(|first| *first < u32::MAX / 2), "{seen:?}");
}

/// 500 ms, doubled each time, up to the interval; after K intervals the application is notified, and the node
/// continues.
#[test]
fn lost_loop_is_repeated_and_reported() {
    let mut host = router();
    host.reserve(request(&[kbit(1_000, 0)]));
    let start = host.now;
    let mut times = Vec::new();
    let mut lost = Vec::new();
    while host.now < start + Duration::from_secs(200) {
        let outcomes = host.wait();
        if !sent(&outcomes).is_empty() {
            times.push((host.now - start).as_millis());
        }
        if !events(&outcomes).is_empty() {
            lost.push((events(&outcomes), (host.now - start).as_secs()));
        }
    }
    assert_eq!(times[..8], [500, 1_500, 3_500, 7_500, 15_500, 31_500, 61_500, 91_500]);
    assert_eq!(lost, [(vec![Event::Lost { application: APP }], 91)]);
    assert_eq!(host.held(ETH2), 1_000, "its own link is kept");
    let again = one(&host.wait());
    assert_eq!(events(&back(&mut host, &again)), [established(kbit(1_000, 0))]);
}

#[test]
fn lost_release_is_repeated_until_attempts_end() {
    let mut host = router();
    let out = one(&host.reserve(request(&[kbit(1_000, 1_000)])));
    back(&mut host, &out);
    let release = Command::Release { application: APP };
    let outcomes = host.command(release.clone());
    assert_eq!((removed(&outcomes), host.held(ETH2)), (1, 0));
    let message = one(&outcomes);
    assert_eq!(message.rates, [Rates::ZERO]);
    assert_eq!(one(&host.pass(Duration::from_millis(500))).rates, [Rates::ZERO]);
    let released = vec![Event::Released { application: APP }];
    assert_eq!(events(&back(&mut host, &message)), released);
    assert_eq!(host.engine.population(), (0, 0));
    assert_eq!(host.engine.next_deadline(), None);

    host.reserve(request(&[kbit(1_000, 1_000)]));
    host.command(release.clone());
    let outcomes = host.pass(Duration::from_secs(60));
    assert_eq!((sent(&outcomes).len(), events(&outcomes)), (3, released));
    let reason = Rejection::NoSession;
    assert_eq!(events(&host.command(release)), [Event::Rejected { application: APP, reason }]);
}

fn refused(message: &Message, offer: Rates) -> Message {
    Message { flags: 1, key: 0, rates: vec![offer], ..message.clone() }
}

fn ask(on_refusal: OnRefusal) -> (Bench, Message) {
    let mut host = router();
    let out = one(&host.reserve(Request { on_refusal, ..request(&[kbit(2_000, 500)]) }));
    (host, out)
}

#[test]
fn refused_request_is_retried_every_interval() {
    let (mut host, out) = ask(OnRefusal::Retry);
    let offer = kbit(700, 500);
    let reaction = OnRefusal::Retry;
    let outcomes = back(&mut host, &refused(&out, offer));
    assert_eq!(events(&outcomes), [Event::Refused { application: APP, offer, reaction }]);
    assert_eq!(sent(&outcomes), []);
    assert_eq!(host.held(ETH2), 2_000, "nodes before the refusal keep what they have");
    let again = one(&host.wait());
    assert_eq!((&again.rates, again.key, again.flags), (&out.rates, 1, 0));
    assert_eq!(events(&back(&mut host, &again)), [established(kbit(2_000, 500))]);
}

#[test]
fn offer_in_each_requested_direction_is_taken() {
    let (mut host, out) = ask(OnRefusal::TakeOffer);
    let outcomes = back(&mut host, &refused(&out, kbit(700, 500)));
    assert_eq!(one(&outcomes).rates, [kbit(700, 500)], "at once");
    assert_eq!(host.held(ETH2), 700);
    // A late reply to the first request tells nothing about the second.
    assert!(matches!(events(&back(&mut host, &out))[..], [Event::Dropped { .. }]));
    assert_eq!(events(&back(&mut host, &one(&outcomes))), [established(kbit(700, 500))]);

    let (mut host, out) = ask(OnRefusal::TakeOffer);
    let outcomes = back(&mut host, &refused(&out, kbit(2_000, 0)));
    let (offer, reaction) = (kbit(2_000, 0), OnRefusal::Release);
    assert_eq!(events(&outcomes), [Event::Refused { application: APP, offer, reaction }]);
    assert_eq!(one(&outcomes).rates, [Rates::ZERO]);
}

#[test]
fn refused_change_keeps_old_reservation() {
    let (mut host, out) = ask(OnRefusal::Release);
    back(&mut host, &out);
    let modify = |rates| Command::Modify { application: APP, rates: vec![rate_pair(rates)] };
    let more = one(&host.command(modify(kbit(5_000, 500))));
    assert_eq!(host.held(ETH2), 5_000);
    let outcomes = back(&mut host, &refused(&more, kbit(4_000, 500)));
    assert_eq!(one(&outcomes).rates, [kbit(2_000, 500)], "those who granted it give it back");
    assert_eq!(host.held(ETH2), 2_000);
    assert_eq!(events(&back(&mut host, &one(&outcomes))), []);
    let less = one(&host.command(modify(kbit(1_000, 500))));
    let changed = Event::Changed { application: APP, rates: kbit(1_000, 500) };
    assert_eq!(events(&back(&mut host, &less)), [changed]);
}

/// The node's own link refuses, too, and the message is forwarded to collect the available rates.
#[test]
fn own_link_without_room_refuses() {
    let mut host = router();
    let out = one(&host.reserve(request(&[kbit(8_000, 500)])));
    assert!(out.is_nack());
    assert_eq!(out.rates, [kbit(7_500, 500)]);
    let (offer, reaction) = (kbit(7_500, 500), OnRefusal::Retry);
    let reported = events(&back(&mut host, &out));
    assert_eq!(reported, [Event::Refused { application: APP, offer, reaction }]);
}

#[test]
fn granted_downgrade_is_requested_from_then_on() {
    let mut host = router();
    let rates = [kbit(4_000, 0), kbit(2_000, 0), kbit(1_000, 0)];
    let out = one(&host.reserve(request(&rates)));
    assert_eq!(out.rates, rates);
    let mut lowered = out.clone();
    lowered.rates[0] = Rates::ZERO;
    let outcomes = back(&mut host, &lowered);
    assert_eq!(events(&outcomes), [established(kbit(2_000, 0))]);
    let next = one(&outcomes);
    assert_eq!(next.rates, [kbit(2_000, 0), kbit(1_000, 0)]);
    assert_eq!(host.held(ETH2), 2_000);
    assert_eq!(events(&back(&mut host, &next)), []);
    let next = one(&host.wait());
    let nothing = Message { flags: 1, rates: vec![Rates::ZERO; 2], ..next };
    let (offer, reaction) = (Rates::ZERO, OnRefusal::Retry);
    let reported = events(&back(&mut host, &nothing));
    assert_eq!(reported, [Event::Refused { application: APP, offer, reaction }]);
}

#[test]
fn lowered_interval_is_adopted() {
    let mut host = router();
    let out = one(&host.reserve(request(&[kbit(1_000, 0)])));
    let lowered = Message { interval: 4, ..out };
    let reported = events(&back(&mut host, &lowered));
    let rates = kbit(1_000, 0);
    let expected = Event::Established { application: APP, rates, interval: 4, confirmed: true };
    assert_eq!(reported, [expected]);
    let before = host.now;
    let next = one(&host.wait());
    assert!(host.now - before <= Duration::from_millis(6_001));
    assert_eq!(next.interval, 4);
}

#[test]
fn query_reserves_nothing() {
    let mut host = router();
    let query = |rates| Command::Query { application: APP, request: request(&[rates]) };
    let out = one(&host.command(query(kbit(9_000, 3_000))));
    assert!(out.is_nack());
    assert_eq!((&out.rates[..], host.held(ETH2)), (&[kbit(7_500, 3_000)][..], 0));
    let lowered = Message { rates: vec![kbit(4_000, 100)], ..out };
    let (application, reach) = (APP, Box::new(Reach { offer: true, ..Reach::default() }));
    let offered = Event::Offered { application, offer: kbit(4_000, 100), reach };
    assert_eq!(events(&back(&mut host, &lowered)), [offered]);
    assert_eq!(host.engine.population(), (0, 0));

    host.command(query(kbit(1, 1)));
    let outcomes = host.pass(Duration::from_secs(60));
    assert_eq!(events(&outcomes), [Event::Lost { application: APP }]);
    assert_eq!(host.engine.next_deadline(), None);
}

#[test]
fn invalid_request_is_rejected() {
    let good = request(&[kbit(1_000, 0)]);
    let local = Request { destination: ip(SELF), ..good.clone() };
    let nowhere = Request { destination: ip("172.16.0.1"), ..good.clone() };
    let mixed = Request {
        selector: Selector { source: prefix("::/128"), ..good.selector },
        ..good.clone()
    };
    let portless =
        Request { selector: Selector { protocol: None, ..good.selector }, ..good.clone() };
    for (request, reason) in [
        (local, Rejection::NoRoute),
        (nowhere, Rejection::NoRoute),
        (mixed, Rejection::BadSelector),
        (portless, Rejection::BadSelector),
        (Request { interval: Some(0), ..good.clone() }, Rejection::BadInterval),
        (Request { rates: vec![], ..good.clone() }, Rejection::BadRateList),
        (Request { rates: vec![rate_pair(Rates::ZERO)], ..good.clone() }, Rejection::BadRate),
    ] {
        let mut host = router();
        let reported = events(&host.reserve(request));
        assert_eq!(reported, [Event::Rejected { application: APP, reason }]);
        assert_eq!(host.engine.population(), (0, 0));
    }
    let mut host = router();
    host.reserve(good.clone());
    let reason = Rejection::SessionOpen;
    assert_eq!(events(&host.reserve(good)), [Event::Rejected { application: APP, reason }]);
}

/// Replies that nobody waits for, or that do not match, are dropped.
#[test]
fn foreign_reply_is_dropped() {
    let mut host = router();
    let out = one(&host.reserve(request(&[kbit(1_000, 0)])));
    let other_transaction = Message { transaction_id: out.transaction_id ^ 1, ..out.clone() };
    let other_sequence = Message { sequence: out.sequence.wrapping_add(1), ..out.clone() };
    for wrong in [&other_transaction, &other_sequence] {
        assert!(matches!(events(&back(&mut host, wrong))[..], [Event::Dropped { .. }]));
    }
    let elsewhere = host.arrives(ETH2, ip("10.0.9.8"), ip(SELF), &out.back());
    assert!(matches!(events(&elsewhere)[..], [Event::Dropped { .. }]));
    assert_eq!(events(&back(&mut host, &out)), [established(kbit(1_000, 0))]);
}

/// The far end replies as any host does, and reserves the first link of the way back.
#[test]
fn far_end_replies_and_reserves_its_link() {
    let mut far = router();
    let here = "10.0.1.2";
    let out = message(4_000, kbit(2_000, 500));
    let outcomes = far.arrives(ETH1, ip("10.0.9.1"), ip(here), &out);
    assert_eq!(installed(&outcomes), [(ETH2, 500)], "the way back to 10.0.9.1");
    let [(how, reply)] = &sent(&outcomes)[..] else { panic!("{outcomes:?}") };
    assert_eq!((how.source, how.destination, how.ttl), (ip(here), ip("10.0.9.1"), 64));
    assert_eq!(*reply, out.back());
    assert_eq!(far.arrives(ETH1, ip("10.0.9.1"), ip(here), &out).len(), 1, "a refresh");
    let greedy = message(4_000, kbit(2_000, 9_000));
    let reply = one(&far.arrives(ETH1, ip("10.0.9.1"), ip(here), &greedy));
    assert_eq!((reply.is_nack(), &reply.rates[..]), (true, &[kbit(2_000, 7_500)][..]));
    let silent = Message { flags: 2, ..out };
    assert_eq!(far.arrives(ETH1, ip("10.0.9.1"), ip(here), &silent), []);
}

/// The engine receives all pings to the host, so it has to answer any of them.
#[test]
fn ordinary_ping_is_answered() {
    use earmark_wire::icmp::{Echo, PseudoHeader};
    let mut far = router();
    let ping = Echo { kind: Kind::Request, identifier: 5, sequence: 6, data: b"hello" };
    let mut octets = vec![0; ping.buffer_len()];
    ping.emit(PseudoHeader::V4, &mut octets).expect("it fits");
    let outcomes = far.octets_arrive(ETH1, ip(NEAR), ip("10.0.1.2"), &octets);
    let [Outcome::Sent(how, reply)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(how.destination, ip(NEAR));
    assert_eq!(Echo::parse(reply, PseudoHeader::V4), Ok(Echo { kind: Kind::Reply, ..ping }));
}

/// A loop by way of a router: each carries the messages of the other until none is left.
struct Pair {
    host: Bench,
    router: Bench,
}

impl Pair {
    fn run(&mut self, outcomes: Vec<Outcome>) -> Vec<Event> {
        let mut reported = events(&outcomes);
        let mut under_way: Vec<_> = outcomes;
        while !under_way.is_empty() {
            let mut next = Vec::new();
            for outcome in under_way {
                let Outcome::Sent(how, octets) = outcome else { continue };
                let hop = |bench: &mut Bench, interface, from: IpAddr, to| {
                    bench.octets_arrive(interface, from, to, &octets)
                };
                if how.destination == ip(FAR) && how.ttl == 64 {
                    next.extend(hop(&mut self.router, ETH1, how.source, how.destination));
                } else if how.destination == ip(FAR) {
                    // The far host answers pings, and nothing else.
                    let mut reply = octets.clone();
                    earmark_wire::icmp::make_reply(
                        &mut reply,
                        earmark_wire::icmp::PseudoHeader::V4,
                    );
                    let back = self.router.octets_arrive(ETH2, ip(FAR), how.source, &reply);
                    next.extend(back);
                } else {
                    let back = hop(&mut self.host, ETH2, how.source, how.destination);
                    reported.extend(events(&back));
                    next.extend(back);
                }
            }
            under_way = next;
        }
        reported
    }
}

/// Creates the host behind eth1 of the router.
fn pair(config: Config) -> Pair {
    let mut host = router();
    for id in [1, 3] {
        host.interfaces.remove(InterfaceId(id));
    }
    host.add_interface(ETH2, &[NEAR]);
    Pair { host, router: with_config(config) }
}

#[test]
fn stock_far_end_completes_the_loop() {
    let mut pair = pair(Config::default());
    let outcomes = pair.host.reserve(request(&[kbit(2_000, 500)]));
    assert_eq!(pair.run(outcomes), [established(kbit(2_000, 500))]);
    assert_eq!(pair.host.held(ETH2), 2_000);
    assert_eq!(pair.router.held_both(), (2_000, 500));
    let outcomes = pair.host.command(Command::Release { application: APP });
    assert_eq!(pair.run(outcomes), [Event::Released { application: APP }]);
    assert_eq!(pair.router.held_both(), (0, 0));
}

#[test]
fn taken_offer_is_granted() {
    let mut pair = pair(Config::default());
    pair.router.passes(&message(9, kbit(6_000, 0)));
    let on_refusal = OnRefusal::TakeOffer;
    let outcomes = pair.host.reserve(Request { on_refusal, ..request(&[kbit(2_000, 500)]) });
    let reported = pair.run(outcomes);
    assert_eq!(reported.last(), Some(&established(kbit(1_500, 500))));
    assert_eq!((pair.host.held(ETH2), pair.router.held_both()), (1_500, (7_500, 500)));
}

/// A locked session is reserved, but not in force before the initiating node returns the key; then nobody else can
/// change it.
#[test]
fn locked_session_needs_its_key() {
    let mut pair = pair(Config { lock: true, ..Config::default() });
    let first = pair.host.reserve(request(&[kbit(2_000, 500)]));
    let out = one(&first);
    let there = pair.router.arrives(ETH1, ip(NEAR), ip(FAR), &out);
    assert_eq!((installed(&there), pair.router.held(ETH2)), (vec![], 2_000));
    let locked = one(&there);
    assert!(locked.key > 1 && !locked.is_nack());
    let returned = pair.router.passes(&locked.back());
    assert_eq!((installed(&returned), pair.router.held(ETH1)), (vec![], 500));
    assert_eq!(one(&returned).key, locked.key, "one prime a session");
    assert!(pair.router.engine.sessions().all(|session| session.locked));

    let again = pair.host.arrives(ETH2, ip(FAR), ip(NEAR), &one(&returned));
    assert_eq!(one(&again).key, locked.key);
    assert_eq!(pair.run(again), [established(kbit(2_000, 500))]);
    assert!(pair.router.engine.sessions().all(|session| !session.locked));

    for (key, rates) in [(1, Rates::ZERO), (3, kbit(2_000, 500)), (0, kbit(1_000, 0))] {
        let intruder = Message { key, rates: vec![rates], ..out.clone() };
        let outcomes = pair.router.arrives(ETH1, ip(NEAR), ip(FAR), &intruder);
        assert!(one(&outcomes).is_nack());
        assert_eq!(pair.router.held_both(), (2_000, 500));
    }
    let outcomes = pair.host.wait();
    assert_eq!(pair.run(outcomes), []);
    let outcomes = pair.host.command(Command::Release { application: APP });
    assert_eq!(pair.run(outcomes), [Event::Released { application: APP }]);
    assert_eq!(pair.router.engine.population(), (0, 0));
}

/// If only the return pass comes by, the session is locked and unlocked on that pass.
#[test]
fn lock_on_return_pass_opens_on_return_pass() {
    let mut router = with_config(Config { lock: true, ..Config::default() });
    let loop_ = message(1, kbit(0, 500)).back();
    let locked = one(&router.passes(&loop_));
    assert!(locked.key > 1);
    assert_eq!(installed(&router.passes(&loop_)), [], "the key was lost");
    let opened = router.passes(&Message { key: locked.key, ..loop_ });
    assert_eq!(installed(&opened), [(ETH1, 500)]);
    assert!(
        opened.iter().any(|o| matches!(
            o,
            Outcome::Event(Event::Reservation { change: Change::Unlocked, .. })
        ))
    );
}

/// A node that reserves nothing on a pass, such as the far end of a one-way reservation, has nothing to lock.
#[test]
fn node_that_reserves_nothing_does_not_lock() {
    let mut router = with_config(Config { lock: true, ..Config::default() });
    let there = message(1, kbit(1_000, 0));
    for rates in [vec![kbit(1_000, 0)], vec![kbit(2_000, 0), kbit(1_000, 0)]] {
        let back = Message { rates, ..there.back() };
        assert_eq!(one(&router.passes(&back)).key, there.key);
        assert!(one(&router.passes(&there)).key > 1, "there it reserves");
        router.passes(&Message { rates: vec![Rates::ZERO], ..there.clone() });
    }
}

#[test]
fn key_overflow_is_refused() {
    let mut router = with_config(Config { lock: true, ..Config::default() });
    let full = Message { key: u64::MAX / 2, ..message(1, kbit(1_000, 0)) };
    let refused = one(&router.passes(&full));
    assert_eq!((refused.is_nack(), refused.key), (true, 0));
    assert_eq!(router.held(ETH2), 0);
}

#[test]
fn change_by_unknown_user_is_refused() {
    let credentials = required(&[("alice", "wonder")]);
    let config = Config { credentials, ..Config::default() };
    let as_user =
        |secret: &str| Request { user: user("alice", secret), ..request(&[kbit(2_000, 0)]) };
    for (request, granted) in
        [(as_user("wonder"), true), (as_user("guess"), false), (request(&[kbit(2_000, 0)]), false)]
    {
        let mut pair = pair(config.clone());
        let outcomes = pair.host.reserve(request);
        let reported = pair.run(outcomes);
        assert_eq!(reported == [established(kbit(2_000, 0))], granted, "{reported:?}");
        assert_eq!(pair.router.held(ETH2), if granted { 2_000 } else { 0 });
    }
    // A release without credential is refused, a refresh needs none.
    let mut pair = pair(config);
    let outcomes = pair.host.reserve(as_user("wonder"));
    let out = one(&outcomes);
    assert!(matches!(out.options[..], [OptionItem::UserId(_)]));
    pair.run(outcomes);
    let bare = Message { options: vec![], ..out.clone() };
    assert!(!one(&pair.router.passes(&bare)).is_nack());
    assert!(one(&pair.router.passes(&Message { rates: vec![Rates::ZERO], ..bare })).is_nack());
    assert_eq!(pair.router.held(ETH2), 2_000);
    let outcomes = pair.host.command(Command::Release { application: APP });
    pair.run(outcomes);
    assert_eq!(pair.router.held(ETH2), 0);
}

/// A locking router that loses its state multiplies another prime into the key. When the key has no room for more, the session
/// is set up without the old one, and the application is told that it is reserved again.
#[test]
fn locked_session_recovers_from_lost_state() {
    let config = Config { lock: true, ..Config::default() };
    let mut pair = pair(config.clone());
    let retry = Request { on_refusal: OnRefusal::Retry, ..request(&[kbit(2_000, 500)]) };
    let outcomes = pair.host.reserve(retry);
    assert_eq!(pair.run(outcomes), [established(kbit(2_000, 500))]);
    for restart in 1..=8 {
        pair.router = with_config(config.clone());
        let mut told = Vec::new();
        for _ in 0..3 {
            let outcomes = pair.host.wait();
            told.extend(pair.run(outcomes));
        }
        assert_eq!(pair.router.held_both(), (2_000, 500), "restart {restart}");
        let refused = told.iter().any(|event| matches!(event, Event::Refused { .. }));
        let last = told.last().cloned();
        assert_eq!(last, refused.then(|| established(kbit(2_000, 500))), "restart {restart}");
    }
}

/// The class that an earlier daemon made for a session stays while its initiating node is asked for the key, with no more than
/// its rate, and ends with the session. Without such a class nothing is in force.
#[test]
fn class_of_earlier_daemon_ends_with_locked_session() {
    for (adopted, wanted) in [(2_000, 2_000), (2_000, 3_000), (2_000, 1_000)] {
        let first = message(1, kbit(adopted, 0));
        let mut earlier = with_config(Config::default());
        let outcomes = earlier.passes(&first);
        let flow = earmark_testkit::bench::installed(&outcomes)[0].flow;

        let mut router = with_config(Config { lock: true, ..Config::default() });
        let rate = Rate::from_bps(u64::from(adopted) * 1_000);
        let protocol = Some(earmark_boomerang::ID);
        router.ledger.adopt(ETH2, flow, rate, protocol).expect("there is room");
        let locked = router.passes(&message(1, kbit(wanted, 0)));
        assert!(one(&locked).key > 1);
        assert_eq!(installed(&locked), [(ETH2, u64::from(adopted.min(wanted)))]);
        assert_eq!(router.held(ETH2), u64::from(wanted), "the claim has all of it");
        assert!(router.engine.sessions().all(|session| session.locked));
        let outcomes = router.pass(Duration::from_secs(600));
        let removed = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Removed(_)));
        assert!(removed, "{outcomes:?}");
        assert_eq!(router.held(ETH2), 0);
    }
}

/// A session that is locked still may hold less after a change: the class of an earlier daemon, which has more, ends. More is not
/// in force before the key is there.
#[test]
fn class_of_earlier_daemon_ends_when_the_locked_session_is_lowered() {
    let flow = earmark_testkit::bench::installed(
        &with_config(Config::default()).passes(&message(1, kbit(2_000, 0))),
    )[0]
    .flow;
    for (changed, ends) in [(1_000, true), (3_000, false)] {
        let mut router = with_config(Config { lock: true, ..Config::default() });
        let protocol = Some(earmark_boomerang::ID);
        router.ledger.adopt(ETH2, flow, Rate::from_mbps(2), protocol).expect("there is room");
        let locked = router.passes(&message(1, kbit(2_000, 0)));
        assert_eq!(installed(&locked), [(ETH2, 2_000)]);
        let outcomes = router.passes(&message(1, kbit(changed, 0)));
        assert!(router.engine.sessions().all(|session| session.locked));
        assert_eq!(router.held(ETH2), u64::from(changed));
        assert_eq!(installed(&outcomes), []);
        let removed = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Removed(_)));
        assert_eq!(removed, ends, "{changed}: {outcomes:?}");
    }
    // A part of the claim is displaced.
    let mut router = with_config(Config { lock: true, ..Config::default() });
    let protocol = Some(earmark_boomerang::ID);
    router.ledger.adopt(ETH2, flow, Rate::from_mbps(2), protocol).expect("there is room");
    let locked = router.passes(&message(1, kbit(2_000, 0)));
    let claim = earmark_testkit::bench::installed(&locked)[0].claim;
    let owner = router.ledger.owner(claim).expect("it is granted");
    let (kept, by) = (Rate::from_mbps(1), Priority::new(1, 1));
    let displaced = Displaced { claim, owner, kept, by };
    let outcomes = router.host(HostEvent::Displaced(displaced));
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Removed(_))));
    assert_eq!(installed(&outcomes), []);
}
