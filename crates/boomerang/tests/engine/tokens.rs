//! Verified names: which requests a token allows, how refusals are reported, and when a session ends with its token.

use std::time::Duration;

use earmark_boomerang::{Change, Command, Config, Event, SessionView};
use earmark_core::{Prefix, Rate, Role, Trust};
use earmark_token::{
    Claims, Destination, Issuer, Required, SecretKey, Settings, TOLERANCE, Token, User,
};
use earmark_wire::boomerang::{OptionItem, Rates};

use crate::common::*;

/// 2026-11-26T00:00:00Z, the time at which the bench starts.
const NOW: u64 = 1_795_651_200;
const ALICE: &str = "alice@example.org";

fn nanoseconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_random(&[seed; 32])
}

/// A token of Alice for the flow of all tests, 2 Mbit/s and one hour.
fn claims() -> Claims {
    Claims {
        issuer: "provider".into(),
        name: ALICE.into(),
        not_before: NOW,
        expires: NOW + 3_600,
        rate: Rate::from_mbps(2),
        destination: Some(Destination {
            range: Prefix::host(ip(FAR)),
            port: Some(5_000),
            protocol: Some(17),
        }),
        sources: Some("10.0.1.0/24".parse().expect("a range")),
        port: None,
    }
}

fn signed(claims: &Claims) -> Token {
    claims.sign(&key(1)).expect("valid claims")
}

fn settings(seed: u8) -> Settings {
    Settings {
        issuers: vec![Issuer { name: "provider".into(), key: key(seed).public() }],
        router: "r1".into(),
        wall_clock: nanoseconds(NOW - 1_000),
        ..Settings::default()
    }
}

/// A router that knows the provider, and grants what it has verified.
fn verifying() -> Bench {
    with_config(config())
}

fn config() -> Config {
    let required = Required { verified: true, ..Required::default() };
    Config { tokens: settings(1), required, ..Config::default() }
}

fn octets(token: &Token) -> OptionItem<'static> {
    OptionItem::Token(token.octets().to_vec().leak())
}

fn with_token(token: &Token, rates: Rates) -> Message {
    Message { options: vec![octets(token)], ..message(4_000, rates) }
}

fn counted(bench: &Bench, group: &str) -> Vec<(&'static str, u64)> {
    let counters = bench.engine.counters().iter();
    let of_group = counters.filter(|(found, _, n)| *found == group && *n > 0);
    of_group.map(|(_, name, n)| (name, n)).collect()
}

fn users(bench: &Bench) -> Vec<Option<User>> {
    bench.engine.sessions().map(|SessionView { user, .. }| user).collect()
}

fn user(name: &str, verified: bool) -> Option<User> {
    Some(User { name: name.into(), verified })
}

#[test]
fn verified_name_is_granted_on_both_passes_and_shown() {
    let mut bench = verifying();
    let token = signed(&claims());
    let out = one(&bench.passes(&with_token(&token, kbit(2_000, 500))));
    assert!(!out.is_nack());
    assert_eq!(out.options, [octets(&token)], "the next node verifies it as well");
    bench.passes(&out.back());
    assert_eq!((bench.held_both(), users(&bench)), ((2_000, 500), vec![user(ALICE, true)]));
    assert_eq!(counted(&bench, "tokens"), []);
}

/// Without issuers a name is only claimed.
#[test]
fn name_of_an_unread_token_is_shown_as_claimed() {
    let mut bench = router();
    bench.passes(&with_token(&signed(&claims()), kbit(2_000, 0)));
    bench.passes(&message(4_001, kbit(1_000, 0)));
    let mut shown = users(&bench);
    shown.sort_by_key(Option::is_none);
    assert_eq!((bench.held(ETH2), shown), (3_000, vec![user(ALICE, false), None]));
}

#[test]
fn request_without_token_is_refused_if_one_is_required() {
    let alice = Required { users: vec!["alice@*".parse().expect("a pattern")], verified: false };
    let bob = Required { users: vec!["bob@*".parse().expect("a pattern")], verified: true };
    let token = signed(&claims());
    for (required, has_token, granted) in [
        (Required::default(), false, true),
        (config().required, false, false),
        (config().required, true, true),
        (alice.clone(), true, true),
        (alice, false, false),
        (bob, true, false),
    ] {
        let mut bench = with_config(Config { required, ..config() });
        let mut request = with_token(&token, kbit(2_000, 0));
        request.options.truncate(usize::from(has_token));
        let out = one(&bench.passes(&request));
        assert_eq!((!out.is_nack(), bench.held(ETH2) == 2_000), (granted, granted));
        let refused = if granted { vec![] } else { vec![("not_verified", 1)] };
        assert_eq!(counted(&bench, "refused"), refused);
    }
}

/// A token that fails refuses its request, even if none is required. Each reason has a counter.
#[test]
fn token_that_fails_refuses_its_request_with_the_reason() {
    let forged = claims().sign(&key(2)).expect("valid claims");
    let day = 86_400;
    let to = Some("10.0.9.10/32".parse().expect("a destination"));
    for (token, reason) in [
        ("AAAA".parse().expect("octets"), "token_malformed"),
        (forged, "bad_signature"),
        (signed(&Claims { issuer: "stranger".into(), ..claims() }), "unknown_issuer"),
        (
            signed(&Claims { not_before: NOW + day, expires: NOW + 2 * day, ..claims() }),
            "not_yet_valid",
        ),
        (signed(&Claims { not_before: NOW - 2 * day, expires: NOW - day, ..claims() }), "expired"),
        (signed(&Claims { destination: to, ..claims() }), "other_destination"),
        (
            signed(&Claims { sources: Some("10.7.0.0/16".parse().expect("a range")), ..claims() }),
            "other_sources",
        ),
        (signed(&Claims { rate: Rate::from_bps(1_999_999), ..claims() }), "rate_too_large"),
        (
            signed(&Claims { port: Some("r1/eth7".parse().expect("a port")), ..claims() }),
            "other_interface",
        ),
    ] {
        let mut bench = with_config(Config { required: Required::default(), ..config() });
        let out = one(&bench.passes(&with_token(&token, kbit(2_000, 0))));
        assert_eq!((out.is_nack(), out.rates), (true, vec![kbit(0, 0)]), "{reason}");
        assert_eq!(counted(&bench, "tokens"), [(reason, 1)]);
        assert_eq!(counted(&bench, "refused"), [("token", 1)]);
        assert_eq!(bench.engine.population(), (0, 0));
    }
}

/// Octets that end within the option are no token, and nothing panics.
#[test]
fn truncated_token_is_refused() {
    let whole = with_token(&signed(&claims()), kbit(2_000, 0)).octets(ip(NEAR), ip(FAR));
    let plain = message(4_000, kbit(2_000, 0)).octets(ip(NEAR), ip(FAR)).len();
    for length in (plain + 2..whole.len()).step_by(2) {
        let mut bench = with_config(Config { required: Required::default(), ..config() });
        let mut octets = whole[..length].to_vec();
        let ends = earmark_wire::icmp::PseudoHeader::of(ip(NEAR), ip(FAR)).expect("one family");
        let (kind, id) = (earmark_wire::icmp::Kind::Request, 77);
        earmark_wire::icmp::seal(&mut octets, ends, kind, id, 0).expect("it fits");
        bench.octets_arrive(ETH1, ip(NEAR), ip(FAR), &octets);
        assert_eq!(
            (bench.held(ETH2), counted(&bench, "tokens")),
            (0, vec![("token_malformed", 1)])
        );
    }
}

/// With keys that would refuse the token, refreshes keep the session: they verify nothing.
#[test]
fn refreshes_are_not_verified_again() {
    let mut bench = verifying();
    let request = with_token(&signed(&claims()), kbit(2_000, 500));
    let out = one(&bench.passes(&request));
    bench.passes(&out.back());
    bench.command(Command::Tokens(settings(9)));
    for _ in 0..60 {
        bench.pass(Duration::from_secs(30));
        let out = one(&bench.passes(&request));
        assert!(!out.is_nack());
        bench.passes(&out.back());
    }
    assert_eq!((bench.held_both(), counted(&bench, "tokens")), ((2_000, 500), vec![]));
    // A change is verified.
    let more = with_token(&signed(&claims()), kbit(1_000, 500));
    assert!(one(&bench.passes(&more)).is_nack());
    assert_eq!(counted(&bench, "tokens"), [("bad_signature", 1)]);
}

#[test]
fn session_ends_with_its_token() {
    let mut bench = verifying();
    let request = with_token(&signed(&claims()), kbit(2_000, 500));
    let out = one(&bench.passes(&request));
    bench.passes(&out.back());
    for _ in 0..(3_600 + TOLERANCE) / 30 - 1 {
        bench.pass(Duration::from_secs(30));
        let out = one(&bench.passes(&request));
        bench.passes(&out.back());
    }
    assert_eq!(bench.held_both(), (2_000, 500));
    let outcomes = bench.pass(Duration::from_secs(30));
    let ends = earmark_testkit::bench::events(&outcomes)
        .into_iter()
        .filter(|event| matches!(event, Event::Reservation { change: Change::Expired, .. }));
    assert_eq!((ends.count(), removed(&outcomes)), (2, 2));
    assert_eq!((bench.held_both(), counted(&bench, "tokens")), ((0, 0), vec![("expired", 1)]));
    // The next request is a new one.
    assert!(one(&bench.passes(&request)).is_nack());
    assert_eq!(
        (bench.engine.population(), counted(&bench, "tokens")),
        ((0, 0), vec![("expired", 2)])
    );
}

/// A newer token, at the same or another rate, replaces the older one. A change without a token does not end by it.
#[test]
fn newer_token_replaces_the_older_one() {
    let longer = signed(&Claims { expires: NOW + 7_200, ..claims() });
    for (options, held) in
        [(vec![octets(&longer)], 1_000), (vec![octets(&longer)], 2_000), (vec![], 1_000)]
    {
        let mut bench = with_config(Config { required: Required::default(), ..config() });
        bench.passes(&with_token(&signed(&claims()), kbit(2_000, 0)));
        let changed = Message { options, ..message(4_000, kbit(held, 0)) };
        for _ in 0..(3_600 + 2 * TOLERANCE) / 30 {
            bench.passes(&changed);
            bench.pass(Duration::from_secs(30));
        }
        assert_eq!((bench.held(ETH2), counted(&bench, "tokens")), (held.into(), vec![]));
    }
}

/// A release needs no token, and leaves none that could end.
#[test]
fn released_session_leaves_no_token() {
    let mut bench = verifying();
    bench.passes(&with_token(&signed(&claims()), kbit(2_000, 0)));
    bench.passes(&message(4_000, kbit(0, 0)));
    assert_eq!((bench.held(ETH2), bench.engine.population()), (0, (0, 0)));
    bench.command(Command::WallClock { wall_clock: nanoseconds(NOW + 100_000) });
    bench.pass(Duration::from_secs(1));
    assert_eq!(counted(&bench, "tokens"), []);
}

#[test]
fn clock_that_jumps_is_followed() {
    for (clock, held) in [
        (nanoseconds(NOW - 1_000), 2_000),
        (nanoseconds(NOW - 100_000), 2_000),
        (0, 2_000),
        (nanoseconds(NOW + 3_600 + TOLERANCE - 1_000), 0),
        (u64::MAX, 0),
    ] {
        let mut bench = verifying();
        bench.passes(&with_token(&signed(&claims()), kbit(2_000, 0)));
        bench.command(Command::WallClock { wall_clock: clock });
        bench.pass(Duration::from_millis(1));
        assert_eq!(bench.held(ETH2), held, "{clock}");
    }
}

/// The access interface is that of the request, on both passes.
#[test]
fn access_interface_of_a_token_is_checked() {
    for (role, port, granted) in [
        (Role::Access, "r1/eth1", true),
        (Role::Access, "r1/eth2", false),
        (Role::Access, "r7/eth1", false),
        (Role::Core, "r7/eth1", true),
        (Role::Core, "r1/eth2", false),
    ] {
        let mut bench = verifying();
        set_role(&mut bench, role);
        let port = Some(port.parse().expect("a port"));
        let request = with_token(&signed(&Claims { port, ..claims() }), kbit(2_000, 500));
        let out = one(&bench.passes(&request));
        bench.passes(&out.back());
        let held = if granted { (2_000, 500) } else { (0, 0) };
        assert_eq!(bench.held_both(), held, "{role:?} {:?}", counted(&bench, "tokens"));
    }
}

fn set_role(bench: &mut Bench, role: Role) {
    let mut interface = bench.interfaces.by_id(ETH1).expect("an interface").clone();
    interface.trust = Trust { role, sources: vec![] };
    bench.interfaces.set(interface);
}

#[test]
fn verifications_through_an_access_interface_are_limited() {
    for (role, most) in [(Role::Access, 10), (Role::Core, 15)] {
        let tokens = Settings { verifications_per_second: 10, ..settings(1) };
        let mut bench = with_config(Config { tokens, ..config() });
        set_role(&mut bench, role);
        let token = signed(&claims());
        let mut granted = 0;
        for port in 1..=15 {
            let request = Message { options: vec![octets(&token)], ..message(port, kbit(10, 0)) };
            granted += u64::from(!one(&bench.passes(&request)).is_nack());
        }
        assert_eq!((granted, bench.held(ETH2)), (most, most * 10));
        let refused = if most == 15 { vec![] } else { vec![("too_many", 5)] };
        assert_eq!(counted(&bench, "tokens"), refused);
    }
}

/// An initiating node presents its token with each request, so that nodes on a new route find it.
#[test]
fn host_presents_its_token_with_each_request() {
    let mut host = router();
    let token = signed(&Claims { sources: None, ..claims() });
    let request = earmark_boomerang::Request {
        token: Some(token.clone()),
        count_nodes: true,
        user: Some(earmark_boomerang::User {
            id: *b"alice\0\0\0",
            secret: earmark_core::Secret::new("secret"),
        }),
        ..request(&[kbit(2_000, 500)])
    };
    let first = one(&host.reserve(request));
    assert_eq!(first.options.last(), Some(&octets(&token)), "a node reads nothing behind it");
    let outcomes = host.arrives(ETH2, ip(FAR), ip("10.0.2.1"), &first.back());
    let second = one(&outcomes);
    assert_eq!((second.options.len(), second.options.last()), (3, Some(&octets(&token))));
    host.arrives(ETH2, ip(FAR), ip("10.0.2.1"), &second.back());
    let refresh = one(&host.wait());
    assert_eq!(refresh.options.last(), Some(&octets(&token)));
    // The credential covers the message, wherever it stands.
    let credentials = required(&[("alice", "secret")]);
    let mut router = with_config(Config { credentials, ..config() });
    let moved = Message { classifier: first.classifier, ..first };
    let outcomes = router.arrives(ETH1, ip("10.0.2.1"), ip(FAR), &moved);
    assert_eq!(counted(&router, "refused"), [], "{outcomes:?}");
    assert_eq!(router.held(ETH2), 2_000);
}
