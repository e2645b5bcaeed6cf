//! Verified names: which requests a token allows, how refusals are reported, and when a reservation ends with its token
//! (RFC 5981).

use std::time::Duration;
use std::vec;

use earmark_token::{
    Claims, Destination, Issuer, Required, SecretKey, Settings, TOLERANCE, Token, User,
};
use earmark_wire::qos_nslp::iana::{PermanentFailure, TransientFailure};
use earmark_wire::qos_nslp::{Extra as Objects, Outcome, Reserve, Rsn};

use super::*;
use crate::auth_object;
use crate::qos::Rule;

/// 2026-11-26T00:00:00Z, the time at which a net starts.
const NOW: u64 = 1_795_651_200;
const ALICE: &str = "alice@example.org";
const DENIED: Outcome = Outcome::PermanentFailure(PermanentFailure::Authorization);

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
        rate: mbps(2),
        destination: Some(Destination {
            range: "10.0.0.0/28".parse().expect("a range"),
            port: Some(5_000),
            protocol: Some(17),
        }),
        sources: Some(Prefix::host(of_node(0))),
        port: None,
    }
}

fn signed(claims: &Claims) -> Token {
    claims.sign(&key(1)).expect("valid claims")
}

fn with_token(token: Token) -> Request {
    Request { token: Some(token), ..request(0, of_node(2), mbps(2)) }
}

/// Settings of a router that knows the provider, and allows what it has verified.
fn verifying(number: usize) -> Config {
    let required = Required { verified: true, ..Required::default() };
    let rules = [Rule { required, ..Rule::default() }, Rule { refuse: true, ..Rule::default() }];
    Config { policy: rules.into(), tokens: tokens(number, 1), ..Config::default() }
}

fn tokens(number: usize, seed: u8) -> Settings {
    Settings {
        issuers: vec![Issuer { name: "provider".into(), key: key(seed).public() }],
        router: format!("r{number}"),
        wall_clock: nanoseconds(NOW - 100),
        ..Settings::default()
    }
}

/// A host, a router that verifies names, and a host.
fn net() -> Net {
    Net::with(3, &|number| if number == 1 { verifying(1) } else { Config::default() })
}

fn counted(net: &Net) -> Vec<(&'static str, u64)> {
    let counters = net.nodes[1].qos.counters().iter();
    counters.filter(|(group, ..)| *group == "tokens").map(|(_, name, n)| (name, n)).collect()
}

/// Outcome of the only event of the application at node 0, if it is a refusal.
fn refusal(net: &mut Net) -> Option<Outcome> {
    match net.events(0)[..] {
        [Event::Refused { outcome, .. } | Event::Lost { outcome, .. }, ..] => Some(outcome),
        _ => None,
    }
}

fn users(net: &Net, node: usize) -> Vec<Option<User>> {
    net.nodes[node].qos.sessions().map(|session| session.user).collect()
}

fn user(verified: bool) -> Option<User> {
    Some(User { name: ALICE.into(), verified })
}

fn explanations(net: &mut Net, node: usize) -> Vec<String> {
    let events = net.events(node).into_iter();
    let explained = events.filter_map(|event| match event {
        Event::Denied { explanation, .. } => explanation,
        _ => None,
    });
    explained.map(|text| *text).collect()
}

/// Without issuers a name is only claimed, and shown as such.
#[test]
fn verified_name_is_allowed_and_shown() {
    let mut net = net();
    net.reserve(0, with_token(signed(&claims())));
    assert_eq!(refusal(&mut net), None);
    assert_eq!(net.all_held(), [2, 2, 0]);
    let shown = [0, 1, 2].map(|node| users(&net, node));
    assert_eq!(shown, [vec![user(false)], vec![user(true)], vec![user(false)]]);
    let reported = net.nodes[1].events.iter().find_map(|event| match event {
        Event::Reservation { user, .. } => Some(user.as_deref().cloned()),
        _ => None,
    });
    assert_eq!(reported, Some(user(true)));
    assert_eq!(counted(&net), []);
}

#[test]
fn request_without_token_is_refused_by_the_rules() {
    let mut net = net();
    net.reserve(0, request(0, of_node(2), mbps(2)));
    assert_eq!(refusal(&mut net), Some(DENIED));
    assert_eq!((net.all_held(), counted(&net)), (vec![0, 0, 0], vec![]));
}

/// The error of RFC 5981 section 6.2.4, with a text for the operator and a counter. A rule that would allow the request
/// does not help.
#[test]
fn token_that_fails_refuses_its_request_with_the_reason() {
    let forged = claims().sign(&key(2)).expect("valid claims");
    let garbage: Token = "AAAA".parse().expect("octets");
    let to = Some("10.0.0.1/32".parse().expect("a destination"));
    let day = 86_400;
    for (token, counter, text) in [
        (garbage, "token_malformed", "malformed token"),
        (forged, "bad_signature", "token with an invalid signature"),
        (
            signed(&Claims { issuer: "stranger".into(), ..claims() }),
            "unknown_issuer",
            "token of an unknown issuer",
        ),
        (
            signed(&Claims { not_before: NOW + day, expires: NOW + 2 * day, ..claims() }),
            "not_yet_valid",
            "token not yet valid: it starts at 2026-11-27T00:00:00Z",
        ),
        (
            signed(&Claims { not_before: NOW - 2 * day, expires: NOW - day, ..claims() }),
            "expired",
            "token expired at 2026-11-25T00:00:00Z",
        ),
        (
            signed(&Claims { destination: to, ..claims() }),
            "other_destination",
            "token for another destination",
        ),
        (
            signed(&Claims { sources: Some("10.7.0.0/16".parse().expect("a range")), ..claims() }),
            "other_sources",
            "token for other senders",
        ),
        (
            signed(&Claims { rate: mbps(1), ..claims() }),
            "rate_too_large",
            "token for at most 1 Mbit/s",
        ),
        (
            signed(&Claims { port: Some("r1/right".parse().expect("a port")), ..claims() }),
            "other_interface",
            "token for another access interface",
        ),
    ] {
        let allow = |number| match number {
            1 => Config { policy: vec![], ..verifying(1) },
            _ => Config::default(),
        };
        let mut net = Net::with(3, &allow);
        net.reserve(0, with_token(token));
        assert_eq!(refusal(&mut net), Some(DENIED), "{counter}");
        assert_eq!(explanations(&mut net, 1), [text]);
        assert_eq!((net.all_held(), counted(&net)), (vec![0, 0, 0], vec![(counter, 1)]));
        assert_eq!(net.nodes[1].qos.session_count(), 0);
    }
}

/// Objects of other forms are no tokens; an object that nobody can read may be one.
#[test]
fn malformed_object_is_refused_and_foreign_form_ignored() {
    let foreign = [0, 8, 1, 1, 10, 0, 0, 9, 0, 8, 8, 0, 1, 2, 3, 4];
    for (value, denied) in [(&foreign[..], false), (&foreign[..4], true), (&[0; 4], true)] {
        let mut net = Net::with(3, &|number| match number {
            1 => Config { policy: vec![], ..verifying(1) },
            _ => Config::default(),
        });
        net.reserve(0, request(0, of_node(2), mbps(2)));
        let mut objects = Vec::new();
        let treatment = earmark_wire::nsis::Treatment::Forward;
        auth_object::keep(&mut objects, treatment, 0x016, value);
        change(&mut net, 1, &objects);
        assert_eq!(!counted(&net).is_empty(), denied, "{value:?}");
        let forwarded = net.nodes[2].qos.session(SESSION).map(|session| session.rsn.number);
        assert_eq!(forwarded, Some(u32::from(!denied)), "a changed object is news for the next");
    }
}

/// Node 0 sends node 1 a RESERVE with the next sequence number and these SESSION_AUTH objects.
fn change(net: &mut Net, number: u32, objects: &[u8]) {
    let session = net.nodes[0].qos.session(SESSION).expect("a session");
    let reserve = Reserve {
        rsn: Rsn { number, epoch: net.nodes[0].qos.epoch },
        qspec: Some(&session.qspec),
        extra: Objects::wire(objects),
        ..earmark_testkit::messages::qos_nslp::RESERVE
    };
    net.deliver_from(0, 1, mri(0, of_node(2), Direction::Downstream), &octets(reserve));
}

#[test]
fn newer_token_replaces_the_older_one() {
    let mut net = net();
    net.reserve(0, with_token(signed(&claims())));
    let longer = signed(&Claims { expires: NOW + 7_200, ..claims() });
    change(&mut net, 1, &auth_object::object_of(&longer));
    // The host 0 goes on to refresh with its own number, so it stays silent.
    net.unreachable = [1].into();
    let lifetime = net.nodes[1].qos.session(SESSION).and_then(|session| session.expires_at);
    for (until, held) in [(3_600 + 2 * TOLERANCE, 2), (7_200 + 2 * TOLERANCE, 0)] {
        while net.now < Time::from_secs(100 + until) {
            let message = refresh_of(&net);
            net.unreachable.clear();
            net.deliver_from(0, 1, mri(0, of_node(2), Direction::Downstream), &message);
            net.unreachable = [1].into();
            net.advance(Duration::from_secs(30));
        }
        assert_eq!(net.held(1, RIGHT), mbps(held), "after {until} s of {lifetime:?}");
    }
}

/// A reduced refresh of the changed session.
fn refresh_of(net: &Net) -> Vec<u8> {
    let rsn = Rsn { number: 1, epoch: net.nodes[0].qos.epoch };
    octets(Reserve { rsn, ..earmark_testkit::messages::qos_nslp::RESERVE })
}

/// With keys that would refuse the token, refreshes with all objects keep the reservation: they verify nothing.
#[test]
fn refreshes_are_not_verified_again() {
    for (reduced_refresh, summary) in [(true, 0), (false, 0), (true, 50)] {
        let host = Config { reduced_refresh, summary, ..Config::default() };
        let router = Config { reduced_refresh, summary, ..verifying(1) };
        let mut net =
            Net::with(3, &|number| if number == 1 { router.clone() } else { host.clone() });
        net.reserve(0, with_token(signed(&claims())));
        assert_eq!(net.all_held(), [2, 2, 0]);
        let other = Config { tokens: tokens(1, 9), ..router.clone() };
        let now = net.now;
        let Node { qos, ledger, .. } = &mut net.nodes[1];
        qos.reload(now, ledger, other);
        net.lines();
        net.advance(Duration::from_secs(1_800));
        assert_eq!((net.all_held(), counted(&net)), (vec![2, 2, 0], vec![]));
        assert!(net.lines().len() > 50);
        assert!(net.nodes[1].qos.counters().refreshed > 40);
    }
}

#[test]
fn reservation_ends_with_its_token() {
    let mut net = net();
    net.reserve(0, with_token(signed(&claims())));
    net.events(0);
    net.advance(Duration::from_secs(3_600 + TOLERANCE - 1));
    assert_eq!(net.all_held(), [2, 2, 0]);
    net.advance(Duration::from_secs(2));
    assert_eq!(explanations(&mut net, 1), ["token expired at 2026-11-26T01:00:00Z"]);
    assert_eq!(refusal(&mut net), Some(DENIED));
    assert_eq!((net.all_held(), counted(&net)), (vec![0, 0, 0], vec![("expired", 1)]));
    net.advance(Duration::from_secs(60));
    net.assert_nothing_left();
}

/// A QNI that ignores the notification has no reservation, whatever it repeats.
#[test]
fn refreshes_after_the_end_change_nothing() {
    let mut net = net();
    net.reserve(0, with_token(signed(&claims())));
    net.advance(Duration::from_secs(3_600));
    net.unreachable = [0].into();
    net.advance(Duration::from_secs(TOLERANCE + 600));
    assert_eq!(net.held(1, RIGHT), Rate::ZERO);
    change(&mut net, 5, &auth_object::object_of(&signed(&claims())));
    assert_eq!(net.held(1, RIGHT), Rate::ZERO);
    assert_eq!(counted(&net), [("expired", 2)]);
}

/// Released sessions leave nothing that the end of a token could touch.
#[test]
fn released_session_leaves_no_token() {
    let mut net = net();
    net.reserve(0, with_token(signed(&claims())));
    net.command(0, Command::Release { application: APP });
    net.advance(Duration::from_secs(60));
    net.assert_nothing_left();
    net.reserve(0, with_token(signed(&Claims { expires: NOW + 9_000, ..claims() })));
    net.advance(Duration::from_secs(4_000));
    assert_eq!((net.all_held(), counted(&net)), (vec![2, 2, 0], vec![]));
}

#[test]
fn clock_that_jumps_is_followed() {
    for (clock, held) in [
        (nanoseconds(NOW - 100), 2),
        (nanoseconds(NOW - 100_000), 2),
        (0, 2),
        (nanoseconds(NOW + 3_600 + TOLERANCE - 100), 0),
        (u64::MAX, 0),
    ] {
        let mut net = net();
        net.reserve(0, with_token(signed(&claims())));
        net.nodes[1].qos.set_wall_clock(clock);
        net.advance(Duration::from_millis(1));
        assert_eq!(net.held(1, RIGHT), mbps(held), "{clock}");
    }
}

/// Node 4 replaces 1, and verifies the token that 0 presents again.
#[test]
fn new_branch_verifies_the_token_of_the_session() {
    for (seed, held) in [(1, 2), (9, 0)] {
        let config = |number| match number {
            4 => Config { tokens: tokens(4, seed), ..verifying(4) },
            _ => Config::default(),
        };
        let mut net = Net::with(5, &config);
        net.right[3] = None;
        let request = Request { token: Some(signed(&claims())), ..request(0, of_node(3), mbps(2)) };
        net.reserve(0, request);
        assert_eq!(net.all_held(), [2, 2, 2, 0, 0]);
        (net.right[0], net.right[4], net.left[4], net.left[2]) =
            (Some(4), Some(2), Some(0), Some(4));
        net.notify(0, mri(0, of_node(3), Direction::Downstream), Net::good(4));
        assert_eq!(net.held(4, LEFT), mbps(held), "{seed}");
    }
}

/// Routers without issuers forward the token unread, and those behind them verify it.
#[test]
fn router_without_issuers_forwards_the_token() {
    let config = |number| if number == 2 { verifying(2) } else { Config::default() };
    for (token, held) in
        [(signed(&claims()), [2, 2, 2, 0]), ("AAAA".parse().expect("octets"), [0; 4])]
    {
        let mut net = Net::with(4, &config);
        net.reserve(0, Request { token: Some(token), ..request(0, of_node(3), mbps(2)) });
        assert_eq!(net.all_held(), held);
    }
}

#[test]
fn access_interface_of_a_token_is_checked() {
    for (role, port, allowed) in [
        (Role::Access, "r1/left", true),
        (Role::Access, "r1/right", false),
        (Role::Access, "r7/left", false),
        (Role::Core, "r7/left", true),
        (Role::Core, "r1/right", false),
    ] {
        let mut net = net();
        set_role(&mut net, role);
        let port = Some(port.parse().expect("a port"));
        net.reserve(0, with_token(signed(&Claims { port, ..claims() })));
        assert_eq!(
            net.held(1, RIGHT) == mbps(2),
            allowed,
            "{role:?} {:?}",
            explanations(&mut net, 1)
        );
    }
}

/// A verification takes much work, so requests through an access interface are refused beyond a rate; through a core
/// interface they are not.
#[test]
fn verifications_through_an_access_interface_are_limited() {
    for (role, most) in [(Role::Access, 10), (Role::Core, 15)] {
        let limited = Settings { verifications_per_second: 10, ..tokens(1, 1) };
        let router = Config { tokens: limited, ..verifying(1) };
        let mut net = Net::with(3, &|n| if n == 1 { router.clone() } else { Config::default() });
        set_role(&mut net, role);
        let token = signed(&Claims { rate: mbps(9), ..claims() });
        let mut granted = 0;
        for number in 0..15_u8 {
            let application = Application(number.into());
            let session = Some(SessionId([number; 16]));
            let rate = Rate::from_bps(64_000);
            let request =
                Request { session, token: Some(token.clone()), ..request(0, of_node(2), rate) };
            net.command(0, Command::Reserve { application, request });
            let events = net.events(0);
            granted += u32::from(matches!(events[..], [Event::Reserved { .. }]));
            if let [Event::Refused { outcome, .. }, ..] = events[..] {
                assert_eq!(
                    outcome,
                    Outcome::TransientFailure(TransientFailure::ReservationFailure)
                );
            }
        }
        assert_eq!(granted, most);
        let refused = u64::from(15 - most);
        assert_eq!(counted(&net), if refused == 0 { vec![] } else { vec![("too_many", refused)] });
    }
}

/// Tokens that end together end in turns of a bounded number.
#[test]
fn tokens_that_end_together_end_in_bounded_turns() {
    let mut net = net();
    let token = signed(&Claims { rate: mbps(9), ..claims() });
    for number in 0..100_u8 {
        let application = Application(number.into());
        let session = Some(SessionId([number; 16]));
        let request = Request {
            session,
            token: Some(token.clone()),
            ..request(0, of_node(2), Rate::from_bps(8_000))
        };
        net.command(0, Command::Reserve { application, request });
    }
    assert_eq!(net.held(1, RIGHT), Rate::from_bps(800_000));
    net.nodes[1].qos.set_wall_clock(nanoseconds(NOW + 10_000));
    net.now = net.now + Duration::from_millis(1);
    net.call(1, Nslp::expire);
    let left = net.held(1, RIGHT);
    assert!(left > Rate::ZERO && left < Rate::from_bps(800_000), "{left}");
    net.advance(Duration::from_millis(1));
    assert_eq!(net.held(1, RIGHT), Rate::ZERO);
}

/// A QUERY is authorized as a RESERVE is (RFC 5981 section 6.2).
#[test]
fn query_is_answered_by_the_rules_for_its_token() {
    let early = Claims { not_before: NOW + 9_000, expires: NOW + 9_999, ..claims() };
    for (token, offered, refused) in [
        (Some(signed(&claims())), Some(mbps(2)), None),
        (None, Some(Rate::ZERO), None),
        (Some(signed(&early)), None, Some(DENIED)),
    ] {
        let mut net = net();
        let request = Request { token, ..request(0, of_node(2), mbps(2)) };
        net.command(0, Command::Query { application: APP, request });
        let events = net.events(0);
        let found = match events[..] {
            [Event::Offered { rate, .. }] => (Some(rate), None),
            [Event::Refused { outcome, .. }] => (None, Some(outcome)),
            _ => panic!("{events:?}"),
        };
        assert_eq!(found, (offered, refused));
    }
}

/// A receiver that reserves at the request of the sender presents its own token, or that of the sender.
#[test]
fn receiver_presents_its_own_token_or_that_of_the_sender() {
    let bob = || signed(&Claims { name: "bob@example.org".into(), ..claims() });
    for (own, shown) in [(None, ALICE), (Some(bob()), "bob@example.org")] {
        let mut net = net();
        let listen = Listen { token: own, ..listen() };
        net.command(2, Command::Listen { application: PEER_APP, listen });
        let request = with_token(signed(&claims()));
        net.command(0, Command::Invite { application: APP, request });
        assert_eq!(net.held(1, RIGHT), mbps(2));
        assert_eq!(users(&net, 1), [Some(User { name: shown.into(), verified: true })]);
    }
}
