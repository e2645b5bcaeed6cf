//! Verified names: which requests a token allows, how refusals are noted, and when a stream ends with its token.

use std::collections::BTreeMap;

use earmark_core::{InterfaceId, Prefix, Rate, Role, Trust};
use earmark_token::{
    Claims, Destination, Issuer, Required, SecretKey, Settings, TOLERANCE, Token, User,
};
use earmark_wire::yessir::{FailureReason, Flowspec, Style};
use earmark_yessir::{Application, Attachment, Command, Config, SessionView};

use crate::common::{Ask, DOWN, Node, UP, address, announcement, mbps};

/// 2026-11-26T00:00:00Z, the time at which a node starts.
const NOW: u64 = 1_795_651_200;
const ALICE: &str = "alice@example.org";

fn nanoseconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_random(&[seed; 32])
}

/// A token of Alice for the streams of all tests, 2 Mbit/s and one hour.
fn claims() -> Claims {
    Claims {
        issuer: "provider".into(),
        name: ALICE.into(),
        not_before: NOW,
        expires: NOW + 3_600,
        rate: Rate::from_mbps(2),
        destination: Some(Destination {
            range: "10.9.0.0/24".parse().expect("a range"),
            port: Some(5_000),
            protocol: Some(17),
        }),
        sources: Some("10.1.0.0/24".parse().expect("a range")),
        port: None,
    }
}

fn signed(claims: &Claims) -> Token {
    claims.sign(&key(1)).expect("valid claims")
}

fn settings(seed: u8) -> Settings {
    let issuers = vec![Issuer { name: "provider".into(), key: key(seed).public() }];
    Settings { issuers, router: "r1".into(), wall_clock: nanoseconds(NOW), ..Settings::default() }
}

/// Settings of a router that knows the provider, and grants what it has verified.
fn config() -> Config {
    let required = Required { verified: true, ..Required::default() };
    Config { tokens: settings(1), required, ..Config::default() }
}

fn with_token(token: &Token) -> Ask {
    Ask { token: Some(token.clone()), ..Ask::new(1) }
}

fn counted(node: &Node) -> Vec<(&'static str, u64)> {
    node.engine.counters().tokens.iter().map(|(&name, &n)| (name, n)).collect()
}

fn user(name: &str, verified: bool) -> Option<User> {
    Some(User { name: name.into(), verified })
}

/// Reasons of the notes in a forwarded request.
fn notes(node: &mut Node, ask: &Ask) -> Vec<FailureReason> {
    node.pass(&ask.arrival()).notes().iter().map(|note| note.reason).collect()
}

#[test]
fn verified_name_is_granted_and_shown() {
    let mut node = Node::with(config());
    let ask = with_token(&signed(&claims()));
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.message().token, ask.token.as_ref().map(Token::octets));
    assert_eq!((node.held(DOWN), sent.notes().len()), (1_000_000, 0));
    let shown = node.session(&ask).and_then(|SessionView { user, .. }| user);
    assert_eq!((shown, counted(&node)), (user(ALICE, true), vec![]));
}

/// Without issuers a name is only claimed.
#[test]
fn name_of_an_unread_token_is_shown_as_claimed() {
    let mut node = Node::new();
    let (named, nameless) = (with_token(&signed(&claims())), Ask::new(2));
    for (ask, shown) in [(named, user(ALICE, false)), (nameless, None)] {
        node.pass(&ask.arrival());
        assert_eq!(node.session(&ask).and_then(|session| session.user), shown);
    }
    assert_eq!(node.held(DOWN), 2_000_000);
}

#[test]
fn request_without_token_is_refused_if_one_is_required() {
    let alice = Required { users: vec!["alice@*".parse().expect("a pattern")], verified: false };
    let bob = Required { users: vec!["bob@*".parse().expect("a pattern")], verified: true };
    let token = signed(&claims());
    for (required, token, granted) in [
        (Required::default(), None, true),
        (config().required, None, false),
        (config().required, Some(&token), true),
        (alice.clone(), Some(&token), true),
        (alice, None, false),
        (bob, Some(&token), false),
    ] {
        let mut node = Node::with(Config { required, ..config() });
        let ask = Ask { token: token.cloned(), ..Ask::new(1) };
        let noted = notes(&mut node, &ask);
        let expected = if granted { vec![] } else { vec![FailureReason::Authorization] };
        assert_eq!((noted, node.held(DOWN) > 0), (expected, granted));
    }
}

/// Otherwise anybody could fill the table of an interface with requests that are refused.
#[test]
fn refused_token_takes_no_place_of_a_stream() {
    let mut config = config();
    config.limits.sessions = 2;
    let mut node = Node::with(config);
    for number in 2..8 {
        assert_eq!(notes(&mut node, &Ask::new(number)), [FailureReason::Authorization]);
    }
    assert_eq!(notes(&mut node, &with_token(&signed(&claims()))), []);
    assert_eq!(node.held(DOWN), 1_000_000);
}

/// A token that fails refuses its request, even if none is required. Each reason has a counter.
#[test]
fn token_that_fails_refuses_its_request_with_the_reason() {
    let forged = claims().sign(&key(2)).expect("valid claims");
    let day = 86_400;
    for (token, reason) in [
        ("AAAA".parse().expect("octets"), "token_malformed"),
        (forged, "bad_signature"),
        (signed(&Claims { issuer: "stranger".into(), ..claims() }), "unknown_issuer"),
        (
            signed(&Claims { not_before: NOW + day, expires: NOW + 2 * day, ..claims() }),
            "not_yet_valid",
        ),
        (signed(&Claims { not_before: NOW - 2 * day, expires: NOW - day, ..claims() }), "expired"),
        (
            signed(&Claims { destination: Some("10.9.0.9".parse().expect("one")), ..claims() }),
            "other_destination",
        ),
        (
            signed(&Claims { sources: Some("10.7.0.0/16".parse().expect("a range")), ..claims() }),
            "other_sources",
        ),
        (signed(&Claims { rate: Rate::from_bps(999_999), ..claims() }), "rate_too_large"),
        (
            signed(&Claims { port: Some("r1/eth7".parse().expect("a port")), ..claims() }),
            "other_interface",
        ),
    ] {
        let mut node = Node::with(Config { required: Required::default(), ..config() });
        let noted = notes(&mut node, &with_token(&token));
        assert_eq!(noted, [FailureReason::Authorization], "{reason}");
        assert_eq!((node.held(DOWN), counted(&node)), (0, vec![(reason, 1)]));
        assert_eq!(node.engine.session_count(), 0);
    }
}

/// With keys that would refuse the token, refreshes keep the stream: they verify nothing.
#[test]
fn refreshes_are_not_verified_again() {
    let mut node = Node::with(config());
    let ask = with_token(&signed(&claims()));
    node.pass(&ask.arrival());
    node.command(Command::Tokens { settings: settings(9) });
    for _ in 0..60 {
        node.advance(30.0);
        assert_eq!(notes(&mut node, &ask), []);
    }
    assert_eq!((node.held(DOWN), counted(&node)), (1_000_000, vec![]));
    // A change is verified; the old reservation stays.
    let more = Ask { flowspec: Some(mbps(2.0)), ..ask };
    assert_eq!(notes(&mut node, &more), [FailureReason::Authorization]);
    assert_eq!((node.held(DOWN), counted(&node)), (1_000_000, vec![("bad_signature", 1)]));
}

#[test]
fn stream_ends_with_its_token() {
    let mut node = Node::with(config());
    let ask = with_token(&signed(&claims()));
    node.pass(&ask.arrival());
    for _ in 0..(3_600 + TOLERANCE) / 30 - 1 {
        node.advance(30.0);
        node.pass(&ask.arrival());
    }
    assert_eq!(node.held(DOWN), 1_000_000);
    node.advance(31.0);
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
    assert_eq!(counted(&node), [("expired", 1)]);
    assert_eq!(notes(&mut node, &ask), [FailureReason::Authorization]);
}

/// A newer token, at the same or another rate, replaces the older one.
#[test]
fn newer_token_replaces_the_older_one() {
    let longer = signed(&Claims { expires: NOW + 7_200, ..claims() });
    for rate in [1.0, 2.0] {
        let mut node = Node::with(config());
        node.pass(&with_token(&signed(&claims())).arrival());
        let ask = Ask { flowspec: Some(mbps(rate)), ..with_token(&longer) };
        for _ in 0..(3_600 + 2 * TOLERANCE) / 30 {
            node.pass(&ask.arrival());
            node.advance(30.0);
        }
        assert_eq!((node.held(DOWN) > 0, counted(&node)), (true, vec![]));
    }
}

/// A release needs no token, and leaves none that could end.
#[test]
fn released_stream_leaves_no_token() {
    let mut node = Node::with(config());
    let ask = with_token(&signed(&claims()));
    node.pass(&ask.arrival());
    node.pass(&Ask { token: None, ..ask.release() }.arrival());
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
    node.command(Command::WallClock { wall_clock: nanoseconds(NOW + 100_000) });
    node.advance(1.0);
    assert_eq!(counted(&node), []);
}

#[test]
fn clock_that_jumps_is_followed() {
    for (clock, held) in [
        (nanoseconds(NOW), 1_000_000),
        (nanoseconds(NOW - 100_000), 1_000_000),
        (0, 1_000_000),
        (nanoseconds(NOW + 3_600 + TOLERANCE), 0),
        (u64::MAX, 0),
    ] {
        let mut node = Node::with(config());
        node.pass(&with_token(&signed(&claims())).arrival());
        node.command(Command::WallClock { wall_clock: clock });
        node.advance(0.001);
        assert_eq!(node.held(DOWN), held, "{clock}");
    }
}

#[test]
fn access_interface_of_a_token_is_checked() {
    for (role, port, granted) in [
        (Role::Access, "r1/eth1", true),
        (Role::Access, "r1/eth2", false),
        (Role::Access, "r7/eth1", false),
        (Role::Core, "r7/eth1", true),
        (Role::Core, "r1/eth2", false),
    ] {
        let mut node = Node::with(config());
        set_role(&mut node, UP, role);
        let port = Some(port.parse().expect("a port"));
        node.pass(&with_token(&signed(&Claims { port, ..claims() })).arrival());
        assert_eq!(node.held(DOWN) > 0, granted, "{role:?} {:?}", counted(&node));
    }
}

fn set_role(node: &mut Node, id: InterfaceId, role: Role) {
    let mut interface = node.interfaces.by_id(id).expect("an interface").clone();
    interface.trust = Trust { role, sources: vec![Prefix::everything(false)] };
    node.interfaces.set(interface);
}

#[test]
fn verifications_through_an_access_interface_are_limited() {
    for (role, most) in [(Role::Access, 10), (Role::Core, 15)] {
        let tokens = Settings { verifications_per_second: 10, ..settings(1) };
        let mut node = Node::with(Config { tokens, ..config() });
        set_role(&mut node, UP, role);
        let token = signed(&claims());
        let mut granted = 0;
        for number in 1..=15 {
            let ask = Ask { token: Some(token.clone()), ..Ask::rate(number, 0.1) };
            granted += u64::from(notes(&mut node, &ask).is_empty());
        }
        let refused = if most == 15 { vec![] } else { vec![("too_many", 5)] };
        assert_eq!((granted, counted(&node)), (most, refused));
    }
}

/// Reports without YESSIR, which a router would measure, name nobody.
#[test]
fn foreign_stream_is_refused_if_a_name_is_required() {
    let measured: BTreeMap<_, _> = [("eth1".to_owned(), Default::default())].into();
    for (required, sessions) in [(Required::default(), 1), (config().required, 0)] {
        let mut node = Node::with(Config { required, measured: measured.clone(), ..config() });
        node.arrive(&Ask::new(1).plain());
        assert_eq!(node.engine.session_count(), sessions);
    }
}

/// A sender of this host presents its token with each report, however long it is.
#[test]
fn host_presents_its_token_with_each_report() {
    let long = Claims { name: "n".repeat(128), issuer: "i".repeat(64), sources: None, ..claims() };
    let token = signed(&long);
    let mut node = Node::new();
    let attachment = Attachment {
        token: Some(token.clone()),
        flowspec: Flowspec::Codec { payload_type: 0, frames: 1 },
        style: Style::Individual,
        ..announcement(address("10.9.0.1"))
    };
    node.command(Command::Attach { application: Application(1), attachment });
    node.advance(100.0);
    let sent = &node.sent;
    assert!(sent.len() >= 3);
    for report in sent {
        assert_eq!(report.message().token, Some(token.octets()));
    }
}
