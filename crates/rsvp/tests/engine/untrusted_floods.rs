//! Floods: who sends more than its part uses up the limits of its own interface only, and state from an access interface ends.

use std::time::Duration;

use earmark_core::{Datagram, Input, InterfaceId};
use earmark_rsvp::integrity::Algorithm;
use earmark_rsvp::{Config, limits};
use earmark_wire::rsvp::{Body, Path, Session};

use crate::common::*;
use crate::origins::*;
use crate::signing::*;

/// State from an access interface lives for a bounded time whatever period is announced; from a core interface it lives
/// as announced. Summary refreshes do not extend the bound.
#[test]
fn lifetime_of_access_state_is_bounded() {
    for (role, survives) in [(Access, false), (Core, true)] {
        let mut bench = reserved(Config::default(), [role; 3]);
        bench.receive(ETH1, Body::Path(Path { refresh_ms: u32::MAX, ..path() }));
        bench.pass(Duration::from_secs(700));
        assert_eq!(bench.engine.population().1 == 1, survives, "{role:?}");
    }
}

fn announce(bench: &mut Bench, interface: InterfaceId, port: u16) -> Vec<Outcome> {
    // The source is behind eth3, and the hop a new neighbour each time.
    let source = if interface == ETH3 { ip(ATTACKER) } else { template().source };
    let mut path = Path { session: Session { port, ..session() }, ..path() };
    path.sender.template.source = source;
    path.hop.address = match interface {
        ETH3 => std::net::Ipv4Addr::from_bits(0x0a00_0300 + u32::from(port) % 250 + 2).into(),
        _ => path.hop.address,
    };
    bench.receive(interface, Body::Path(path))
}

/// Who floods uses up the limits of its own port only, whatever addresses it writes; errors are limited, too.
#[test]
fn flood_of_one_port_leaves_other_ports_their_limits() {
    let access = limits::Access {
        max_blocks: 50,
        changes_per_second: 100,
        errors_per_second: 10,
        ..limits::Access::default()
    };
    let limits = limits::Settings { access, ..limits::Settings::default() };
    let mut bench = reserved(Config { limits, ..Config::default() }, [Access; 3]);
    let errors: usize = (1..=1_000)
        .map(|port| announce(&mut bench, ETH3, port))
        .map(|outcomes| {
            let is_error = |body: &Body<'_>| matches!(body, Body::PathErr(_));
            sent(&outcomes).iter().filter(|(_, message)| is_error(&message.body)).count()
        })
        .sum();
    assert_eq!((bench.engine.population().1, errors), (1 + 50, 10));
    assert_eq!(bench.engine.counters().suppressed_errors, 1_000 - 50 - 10);
    for port in 2_001..=2_040 {
        assert_eq!(dropped(&announce(&mut bench, ETH1, port)), [], "an honest sender");
    }
    assert_eq!(bench.engine.population().1, 1 + 50 + 40);
    // Existing state of the flooding port is refreshed as before.
    assert_eq!(dropped(&announce(&mut bench, ETH3, 1)), []);
}

/// A port that takes whatever it gets leaves another one its part of the table.
#[test]
fn port_that_floods_leaves_another_its_part() {
    let mut bench = reserved(Config { max_sessions: 100, ..Config::default() }, [Access; 3]);
    (1..=1_000).for_each(|port| drop(announce(&mut bench, ETH3, port)));
    // A quarter of the table in equal parts for three interfaces and the node itself; one sender of this one is there.
    for port in 2_001..=2_005 {
        assert_eq!(dropped(&announce(&mut bench, ETH1, port)), [], "{port}");
    }
    assert!(!dropped(&announce(&mut bench, ETH1, 2_006)).is_empty(), "its part is used");
    assert_eq!(bench.engine.population().1, 100 - 2 * 6, "the other parts are left");
}

/// New and changed senders of one port take at most half of the signalling share of a link, and leave the other half to
/// the senders of others. Links between routers of one administration have no such limit.
#[test]
fn flood_of_one_port_leaves_others_their_share_of_signalling() {
    let count_sent = |bench: &mut Bench, from: InterfaceId, port: u16| {
        let outcomes = announce(bench, from, port);
        sent(&outcomes).iter().filter(|(_, message)| matches!(message.body, Body::Path(_))).count()
    };
    for (flooding, most) in [([Access; 3], true), ([Access, Access, Core], false)] {
        let mut bench = reserved(Config::default(), flooding);
        let share = bench.interfaces.by_id(ETH2).expect("the link").requests_per_second() as usize;
        let forwarded: usize = (1..=1_000).map(|port| count_sent(&mut bench, ETH3, port)).sum();
        assert_eq!(forwarded, if most { share } else { 1_000 });
        let others: usize = (2_001..=2_100).map(|port| count_sent(&mut bench, ETH1, port)).sum();
        assert_eq!(others, 100, "honest senders");
    }
    // One sender that changes all the time counts as well.
    let mut bench = reserved(Config::default(), [Access; 3]);
    let share = bench.interfaces.by_id(ETH2).expect("the link").requests_per_second() as usize;
    let forwarded = (1..=1_000).filter(|number| {
        let mut changed = path();
        changed.sender.tspec.rate += *number as f32;
        let outcomes = bench.receive(ETH1, Body::Path(changed));
        sent(&outcomes).iter().any(|(_, message)| matches!(message.body, Body::Path(_)))
    });
    assert_eq!(forwarded.count(), share - 1, "and the sender itself");
}

/// Challenges of strangers do not use up the answers that a neighbour gets.
#[test]
fn challenges_of_others_leave_neighbor_its_answers() {
    let mut integrity = settings(vec![key(KEY, Algorithm::HmacSha256)]);
    integrity.answers_per_second = 5;
    let mut bench = with_config(Config { integrity, ..Config::default() });
    let challenge = |cookie| {
        let challenge = earmark_wire::rsvp::Challenge { key_id: KEY, cookie };
        octets(Body::IntegrityChallenge(challenge), 64)
    };
    let answers = |bench: &mut Bench, interface, source: &str, number: u64| {
        let payload = challenge(number);
        let datagram = Datagram {
            interface,
            source: ip(source),
            destination: ip("10.0.1.2"),
            ttl: 64,
            router_alert: false,
            encapsulated: false,
            payload: &payload,
        };
        let outcomes = bench.handle(Input::Datagram(datagram));
        sent(&outcomes)
            .iter()
            .filter(|(_, message)| matches!(message.body, Body::IntegrityResponse(_)))
            .count()
    };
    // With an address of its own on the neighbour's port, and with the neighbour's address on another port.
    for (interface, source) in [(ETH1, "10.0.1.77"), (ETH2, UPSTREAM)] {
        let flood = (0..3_400).map(|number| answers(&mut bench, interface, source, number));
        assert_eq!(flood.sum::<usize>(), 5, "{source}");
    }
    assert_eq!(answers(&mut bench, ETH1, UPSTREAM, 1), 1);
}
