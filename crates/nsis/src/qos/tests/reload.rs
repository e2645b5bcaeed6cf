//! Replacement of settings while reservations exist.

use std::time::Duration;
use std::vec;

use super::*;
use crate::qos::Rule;

/// Replaces the settings of node `number`.
fn renew(net: &mut Net, number: usize, config: &Config) {
    let now = net.now;
    let Node { qos, ledger, .. } = &mut net.nodes[number];
    qos.reload(now, ledger, config.clone());
}

/// Existing reservations stay, and count under the new rules; new requests must match them.
#[test]
fn rules_are_replaced_and_reservations_stay() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, of_node(2), mbps(2)));
    let from = Some(Prefix::host(of_node(0)));
    let rule = Rule { from, total: Some(mbps(3)), ..Rule::default() };
    let config = Config { policy: [rule].into(), ..Config::default() };
    renew(&mut net, 1, &config);
    assert_eq!(net.all_held(), [2, 2, 0]);
    let again = |net: &mut Net, number: u8, rate| {
        let session = Some(SessionId([number; 16]));
        let request = Request { session, ..request(0, of_node(2), rate) };
        net.events(0);
        let application = Application(number.into());
        net.command(0, Command::Reserve { application, request });
        net.events(0)
    };
    let events = again(&mut net, 21, mbps(2));
    let is_refused = matches!(events[..], [Event::Refused { .. }, Event::Released { .. }]);
    assert!(is_refused, "1 Mbit/s is left: {events:?}");
    let events = again(&mut net, 22, mbps(1));
    assert!(matches!(events[..], [Event::Reserved { .. }]), "{events:?}");
    assert_eq!(net.all_held(), [3, 3, 0]);

    // Released rates are available again, whatever rule granted them.
    net.command(0, Command::Release { application: APP });
    net.advance(Duration::from_secs(1));
    assert_eq!(net.all_held(), [1, 1, 0]);
    net.command(0, Command::Release { application: Application(22) });
    net.advance(Duration::from_secs(1));
    let events = again(&mut net, 23, mbps(3));
    assert!(matches!(events[..], [Event::Reserved { .. }]), "{events:?}");

    // A rule that refuses everything removes no reservation.
    let rule = Rule { refuse: true, ..Rule::default() };
    renew(&mut net, 1, &Config { policy: [rule].into(), ..Config::default() });
    net.advance(Duration::from_secs(600));
    assert_eq!(net.all_held(), [3, 3, 0]);
}

/// With a longer refresh period, the next node learns it before the old lifetime ends, with and without summaries.
#[test]
fn longer_refresh_period_loses_no_reservation() {
    for summary in [0, 50] {
        let quick = Config { refresh: Duration::from_secs(2), summary, ..Config::default() };
        let mut net = Net::with(3, &|_| quick.clone());
        for number in 0..10_u8 {
            let session = Some(SessionId([number; 16]));
            let rate = Rate::from_bps(64_000);
            let request = Request { session, ..request(0, of_node(2), rate) };
            let application = Application(number.into());
            net.command(0, Command::Reserve { application, request });
        }
        net.advance(Duration::from_secs(60));
        let slow = Config { refresh: Duration::from_secs(600), ..quick };
        (0..3).for_each(|number| renew(&mut net, number, &slow));
        net.advance(Duration::from_secs(6_000));
        net.lines();
        net.advance(Duration::from_secs(1_800));
        assert!(net.lines().len() < 200, "600 s between two");
        assert_eq!(net.nodes[1].qos.counters().expired, 0, "summary of {summary}");
        assert_eq!(net.held(1, RIGHT), Rate::from_bps(640_000));
    }
}

/// RFC 2205 section 3.7, for QoS NSLP by RFC 5974 section 6: the period rises by 30 % from one refresh to the next at most, so
/// that no lost message ends a reservation.
#[test]
fn lost_message_after_longer_refresh_period_loses_no_reservation() {
    for (summary, lost) in (0..20).flat_map(|lost| [(0, lost), (50, lost)]) {
        let quick = Config { refresh: Duration::from_secs(2), summary, ..Config::default() };
        let mut net = Net::with(2, &|_| quick.clone());
        net.reserve(0, request(0, of_node(1), mbps(1)));
        net.advance(Duration::from_secs(60));
        let slow = Config { refresh: Duration::from_secs(600), ..quick };
        renew(&mut net, 0, &slow);
        net.lines();
        let mut sent = 0;
        for _ in 0..30_000 {
            if sent == lost {
                net.unreachable = vec![1];
            }
            net.advance(Duration::from_millis(100));
            sent += net.lines().iter().filter(|line| line.starts_with("0>1")).count();
            if sent > lost {
                net.unreachable = vec![];
            }
        }
        assert!((15..60).contains(&sent), "{sent}: not at once, and slowly in the end");
        assert_eq!(net.nodes[1].qos.counters().expired, 0, "summary of {summary}, {lost} lost");
    }
}

/// Neighbors rely on the level.
#[test]
fn aggregation_level_is_not_replaced() {
    let mut net = Net::of(1);
    let id = net.nodes[0].qos.id();
    renew(&mut net, 0, &Config { level: 3, proxy: true, ..Config::default() });
    assert_eq!(net.nodes[0].qos.id(), id);
    assert!(net.nodes[0].qos.config.proxy);
}
