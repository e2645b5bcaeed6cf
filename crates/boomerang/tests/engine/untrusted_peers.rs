//! Untrusted peers: too many requests, invalid ones, and messages for others.

use std::time::Duration;

use earmark_boomerang::{Config, Event, Limits};
use earmark_core::Input;
use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::HEADER;

use crate::common::*;

#[test]
fn limits_refuse_new_and_keep_existing_sessions() {
    let limits = Limits { sessions: 3, sessions_per_source: 2, ..Limits::default() };
    let mut router = with_config(Config { limits, ..Config::default() });
    assert!(!one(&router.passes(&message(1, kbit(100, 0)))).is_nack());
    assert!(!one(&router.passes(&message(2, kbit(100, 0)))).is_nack());
    let refused = one(&router.passes(&message(3, kbit(100, 0))));
    assert!(refused.is_nack());
    assert_eq!(refused.rates, [kbit(0, 0)], "nothing is offered");
    let from = |router: &mut Bench, host: &str, port| {
        let mut loop_ = message(port, kbit(100, 0));
        loop_.classifier.source = ip(host);
        one(&router.arrives(ETH1, ip(host), ip(FAR), &loop_)).is_nack()
    };
    assert!(!from(&mut router, "10.0.1.3", 1), "others keep working");
    assert!(from(&mut router, "10.0.1.4", 1), "three in all");
    assert!(!one(&router.passes(&message(1, kbit(200, 0)))).is_nack());
    router.passes(&message(1, Rates::ZERO));
    assert!(!from(&mut router, "10.0.1.4", 1));
}

#[test]
fn set_up_flood_throttles_only_its_source() {
    let limits = Limits { changes_per_second: 10, ..Limits::default() };
    let mut router = with_config(Config { limits, ..Config::default() });
    let granted = |router: &mut Bench, range: std::ops::Range<u16>| {
        range.filter(|&port| !one(&router.passes(&message(port, kbit(1, 0)))).is_nack()).count()
    };
    assert_eq!(granted(&mut router, 1..101), 10);
    assert_eq!(granted(&mut router, 1..11), 10, "refreshes are not counted");
    let mut other = message(1, kbit(1, 0));
    other.classifier.source = ip("10.0.1.5");
    assert!(!one(&router.arrives(ETH1, ip("10.0.1.5"), ip(FAR), &other)).is_nack());
    router.pass(Duration::from_secs(1));
    assert_eq!(granted(&mut router, 200..300), 10);
}

#[test]
fn invalid_mask_is_refused_in_message() {
    let mut router = router();
    let mut by_tos = message(1, kbit(100, 0));
    by_tos.mask.tos = true;
    let mut port_zero = message(1, kbit(100, 0));
    port_zero.classifier.source_port = 0;
    for loop_ in [by_tos, port_zero] {
        let refused = one(&router.passes(&loop_));
        assert!(refused.is_nack());
        assert_eq!(refused.rates, [kbit(0, 0)]);
    }
    // A mask with a hole, also in a message with a valid checksum.
    let mut holed = message(1, kbit(100, 0)).octets(ip(NEAR), ip(FAR));
    let mask = HEADER + 40;
    let old = [holed[mask], holed[mask + 1]];
    holed[mask..mask + 2].copy_from_slice(&[0xff, 0x7f]);
    earmark_wire::icmp::update_checksum(&mut holed, &old, &[0xff, 0x7f]);
    let outcomes = router.octets_arrive(ETH1, ip(NEAR), ip(FAR), &holed);
    let [Outcome::Sent(_, octets)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(octets[HEADER + 11] & 1, 1, "NACK");
    assert_eq!(octets[HEADER + 56..HEADER + 64], [0; 8]);
    assert_eq!(router.engine.counters().malformed.get("source_mask"), Some(&1));
    assert_eq!(router.engine.population(), (0, 0));
}

/// Pings of others, and messages that look like Boomerang but are malformed, are forwarded unchanged.
#[test]
fn message_of_others_is_forwarded_unchanged() {
    let mut router = router();
    let good = message(1, kbit(100, 0)).octets(ip(NEAR), ip(FAR));
    let mut wrong_sum = good.clone();
    wrong_sum[2] ^= 1;
    let mut other_type = good.clone();
    other_type[HEADER + 8] = 0x20;
    earmark_wire::icmp::update_checksum(&mut other_type, &[0x10, 0x12], &[0x20, 0x12]);
    let short = &good[..50];
    for octets in [&wrong_sum[..], &other_type, short, &[8, 0, 0, 0], &[]] {
        let outcomes = router.octets_arrive(ETH1, ip(NEAR), ip(FAR), octets);
        let [Outcome::Sent(how, same)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((how.ttl, &same[..]), (62, octets));
    }
    assert_eq!(router.engine.population(), (0, 0));
    assert_eq!(router.engine.counters().relayed, 5);
}

#[test]
fn message_with_expired_ttl_is_dropped() {
    let mut router = router();
    let payload = message(1, kbit(100, 0)).octets(ip(NEAR), ip(FAR));
    let datagram = earmark_core::Datagram {
        interface: ETH1,
        source: ip(NEAR),
        destination: ip(FAR),
        ttl: 1,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    };
    let outcomes = router.handle(Input::Datagram(datagram));
    assert!(matches!(outcomes[..], [Outcome::Event(Event::Dropped { .. })]), "{outcomes:?}");
    assert_eq!(router.held(ETH2), 0);
}
