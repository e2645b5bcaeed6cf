//! Verified names: which requests a token allows, how refusals are reported, and when a reservation ends with its token.

use std::time::Duration;

use earmark_core::{ApplicationId, Input, Rate, Role, Trust};
use earmark_rsvp::policy::token::{self, Claims, Destination, Issuer, SecretKey, TOLERANCE, Token};
use earmark_rsvp::policy::{About, Action, Identity, Rule, Settings, User};
use earmark_rsvp::{Change, Command, Config, Event, ReserveRequest};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::iana::{IdentityError, PolicyControlError};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, FixedFilterFlow, FlowDescriptors, List, Message, Path, PathErr,
    PolicyData, PolicyElement, Resv, ResvErr, RsvpHop, Session,
};

use crate::common::*;

/// 2026-11-26T00:00:00Z, the time at which the bench starts.
const NOW: u64 = 1_795_651_200;
const ALICE: &str = "alice@example.org";

fn key() -> SecretKey {
    SecretKey::from_random(&[1; 32])
}

/// Settings that allow requests with names that the provider has verified, and refuse others.
fn verified_only() -> Settings {
    let verified = |about| Rule { verified: true, about, ..Rule::default() };
    Settings {
        rules: vec![verified(About::Reservations), verified(About::Senders)],
        otherwise: Action::Refuse,
        ..Settings::default()
    }
}

fn provider() -> Vec<Issuer> {
    vec![Issuer { name: "provider".into(), key: key().public() }]
}

fn bench_with(policy: Settings) -> Bench {
    bench_of(policy, provider())
}

fn bench_of(policy: Settings, issuers: Vec<Issuer>) -> Bench {
    let wall_clock = nanoseconds(NOW - 1_000);
    let tokens =
        token::Settings { issuers, wall_clock, router: "r1".into(), ..token::Settings::default() };
    with_config(Config { policy, tokens, ..Config::default() })
}

fn nanoseconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

/// A token of Alice for this session, 2 Mbit/s and one hour.
fn claims() -> Claims {
    let Session { destination, protocol, port, .. } = session();
    Claims {
        issuer: "provider".into(),
        name: ALICE.into(),
        not_before: NOW,
        expires: NOW + 3_600,
        rate: Rate::from_mbps(2),
        destination: Some(Destination {
            range: earmark_core::Prefix::host(destination),
            port: Some(port),
            protocol: Some(protocol),
        }),
        sources: Some("10.0.0.0/24".parse().expect("a range")),
        port: None,
    }
}

fn data_with(token: Token) -> Vec<u8> {
    let identity = Identity { token: Some(token), ..Identity::default() };
    identity.policy_data().expect("a token has no letters that fail")
}

fn data_of(claims: &Claims) -> Vec<u8> {
    data_with(claims.sign(&key()).expect("valid claims"))
}

fn claim(name: &str) -> Vec<u8> {
    Identity { user: Some(name.into()), ..Identity::default() }.policy_data().expect("a good name")
}

fn announce(bench: &mut Bench, carried: &[u8]) -> Vec<Outcome> {
    let mut path = path();
    path.sender.tspec = tspec(2);
    bench.receive(ETH1, Body::Path(Path { carried: Carried::Objects(carried), ..path }))
}

fn ask(bench: &mut Bench, mbps: u32, carried: &[u8]) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    bench.receive(ETH2, Body::Resv(Resv { carried: Carried::Objects(carried), ..resv(&flows) }))
}

/// A router with a Path of Alice.
fn announced(policy: Settings) -> Bench {
    let mut bench = bench_with(policy);
    let outcomes = announce(&mut bench, &data_of(&claims()));
    assert_eq!(error(&outcomes), None);
    bench
}

/// Value of "policy control failure", identity error and text of the only error among the outcomes.
fn error(outcomes: &[Outcome]) -> Option<(u16, u16, String)> {
    let sent = sent(outcomes);
    let mut errors = sent.iter().filter_map(|(_, message)| match &message.body {
        Body::ResvErr(ResvErr { error, carried, .. })
        | Body::PathErr(PathErr { error, carried, .. }) => Some((*error, *carried)),
        _ => None,
    });
    let (error, carried) = errors.next()?;
    assert_eq!(error.code, ErrorCode::PolicyControlFailure);
    assert!(errors.next().is_none());
    let object = carried.iter().next().expect("an explanation");
    let data = PolicyData::parse(&object).expect("a valid one");
    let Some(PolicyElement::User(attributes)) = data.elements.iter().next() else {
        panic!("{data:?}")
    };
    let first = attributes.iter().next().expect("an attribute");
    let (identity, text) = first.policy_error().expect("POLICY_ERROR_OBJECT");
    Some((error.value, identity, String::from_utf8_lossy(text).into_owned()))
}

fn counted(bench: &Bench) -> Vec<(&'static str, u64)> {
    let counters = bench.engine.counters().iter();
    counters.filter(|(group, ..)| *group == "tokens").map(|(_, name, n)| (name, n)).collect()
}

fn users(bench: &Bench) -> Vec<Option<User>> {
    bench.engine.reservations().map(|reservation| reservation.user).collect()
}

fn user(name: &str, verified: bool) -> Option<User> {
    Some(User { name: name.into(), verified })
}

#[test]
fn verified_name_is_allowed_and_claimed_name_refused() {
    for (carried, allowed) in [(data_of(&claims()), true), (claim(ALICE), false), (vec![], false)] {
        let mut bench = announced(verified_only());
        let refusal = error(&ask(&mut bench, 2, &carried));
        assert_eq!(refusal.is_none(), allowed, "{refusal:?}");
        assert_eq!(users(&bench), if allowed { vec![user(ALICE, true)] } else { vec![] });
    }
}

/// Without a rule that needs verified names, and without issuers, a claim is enough, and shown as one.
#[test]
fn claimed_name_is_shown_as_claimed() {
    let token = claims().sign(&key()).expect("valid claims");
    let both = Identity { user: Some("Bob".into()), token: Some(token), ..Identity::default() };
    let both = both.policy_data().expect("good names");
    let no_rule = Settings { rules: vec![], otherwise: Action::Allow, ..verified_only() };
    for (issuers, settings, carried, shown) in [
        (vec![], Settings::default(), &both, user("Bob", false)),
        (vec![], Settings::default(), &claim(ALICE), user(ALICE, false)),
        (provider(), no_rule.clone(), &both, user(ALICE, true)),
        (provider(), no_rule, &claim(ALICE), user(ALICE, false)),
    ] {
        let mut bench = bench_of(settings, issuers);
        announce(&mut bench, &[]);
        let outcomes = ask(&mut bench, 2, carried);
        assert_eq!(users(&bench), std::slice::from_ref(&shown));
        let reported = events(&outcomes).into_iter().find_map(|event| match event {
            Event::Reservation { user, .. } => Some(user.map(|user| *user)),
            _ => None,
        });
        assert_eq!(reported, Some(shown));
    }
}

/// Errors in the words of RFC 2750 and RFC 3182, each with a text and a counter, for Path and Resv alike. A rule that
/// would allow the request does not help.
#[test]
fn token_that_fails_refuses_its_request_with_the_reason() {
    use IdentityError::{ExpiredCredential, InsufficientPrivileges, UnsupportedCredentialType};
    use PolicyControlError::{
        BadPolicyElement, Expired, FlowSpecRejected, PolicyDataIntegrity, Rejected,
    };
    let forged = claims().sign(&SecretKey::from_random(&[2; 32])).expect("valid claims");
    let garbage: Token = "AAAA".parse().expect("octets");
    let signed = |claims: Claims| claims.sign(&key()).expect("valid claims");
    let to = Some("10.0.9.10/32".parse().expect("a destination"));
    let from = Some("10.0.7.0/24".parse().expect("a range"));
    let port = Some("r1/eth7".parse().expect("a port"));
    let day = 86_400;
    for (token, value, identity, text, counter) in [
        (garbage, BadPolicyElement, InsufficientPrivileges, "malformed token", "token_malformed"),
        (
            forged,
            PolicyDataIntegrity,
            InsufficientPrivileges,
            "token with an invalid signature",
            "bad_signature",
        ),
        (
            signed(Claims { issuer: "stranger".into(), ..claims() }),
            Rejected,
            UnsupportedCredentialType,
            "token of an unknown issuer",
            "unknown_issuer",
        ),
        (
            signed(Claims { not_before: NOW + day, expires: NOW + 2 * day, ..claims() }),
            Rejected,
            InsufficientPrivileges,
            "token not yet valid: it starts at 2026-11-27T00:00:00Z",
            "not_yet_valid",
        ),
        (
            signed(Claims { not_before: NOW - 2 * day, expires: NOW - day, ..claims() }),
            Expired,
            ExpiredCredential,
            "token expired at 2026-11-25T00:00:00Z",
            "expired",
        ),
        (
            signed(Claims { destination: to, ..claims() }),
            Rejected,
            InsufficientPrivileges,
            "token for another destination",
            "other_destination",
        ),
        (
            signed(Claims { sources: from, ..claims() }),
            Rejected,
            InsufficientPrivileges,
            "token for other senders",
            "other_sources",
        ),
        (
            signed(Claims { rate: Rate::from_bps(1_999_999), ..claims() }),
            FlowSpecRejected,
            InsufficientPrivileges,
            "token for at most 1.999 Mbit/s",
            "rate_too_large",
        ),
        (
            signed(Claims { port, ..claims() }),
            Rejected,
            InsufficientPrivileges,
            "token for another access interface",
            "other_interface",
        ),
    ] {
        let expected = Some((value.code(), identity.code(), text.to_owned()));
        let carried = data_with(token);
        let mut bench = bench_with(verified_only());
        assert_eq!(error(&announce(&mut bench, &carried)), expected);
        assert_eq!(counted(&bench), [(counter, 1)]);
        assert_eq!(bench.engine.population(), (0, 0, 0));

        let mut settings = verified_only();
        settings.rules.insert(0, Rule::default());
        let mut bench = announced(settings);
        let outcomes = ask(&mut bench, 2, &carried);
        assert_eq!(error(&outcomes), expected);
        assert_eq!((counted(&bench), bench.held()), (vec![(counter, 1)], Rate::ZERO));
        let explained = events(&outcomes).into_iter().find_map(|event| match event {
            Event::Refused { explanation, .. } => explanation,
            _ => None,
        });
        assert_eq!(explained.map(|text| *text).as_deref(), Some(text));
    }
}

/// The receiver's application gets the text of the node that refuses; text that is long or not printable is dropped.
#[test]
fn reason_reaches_the_application() {
    let mut router = announced(verified_only());
    let early = Claims { not_before: NOW + 3_600, expires: NOW + 7_200, ..claims() };
    let outcomes = ask(&mut router, 2, &data_of(&early));
    let sent = sent(&outcomes);
    let (_, message) = sent.first().expect("a ResvErr");
    let Body::ResvErr(error) = &message.body else { panic!("{message:?}") };
    let octets: Vec<u8> = error.carried.iter().flat_map(|object| object.bytes.to_vec()).collect();
    let text = "token not yet valid: it starts at 2026-11-26T01:00:00Z";
    let start = octets.windows(text.len()).position(|at| at == text.as_bytes()).expect("a text");
    let unprintable = [&octets[..start], b"\x1b", &octets[start + 1..]].concat();
    for (octets, expected) in [(&octets, Some(text)), (&unprintable, None), (&vec![], None)] {
        let mut host = receiver();
        let application = ApplicationId(1);
        host.command(Command::Session { application, session: session() });
        host.receive(ETH1, Body::Path(path()));
        let request = ReserveRequest::FixedFilter { filter: template(), flowspec: flowspec(2) };
        host.command(Command::Reserve { application, request, confirm: false });
        let flows = [flow(2)];
        let message = ResvErr {
            hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
            carried: Carried::Objects(octets),
            flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
            ..*error
        };
        let reported = events(&host.receive(ETH1, Body::ResvErr(message)));
        let [Event::ResvError { explanation, .. }] = &reported[..] else { panic!("{reported:?}") };
        assert_eq!(explanation.as_ref().map(|text| text.as_str()), expected);
    }
}

/// A refresh is not verified again, but the reservation ends with its token although it is refreshed.
#[test]
fn reservation_ends_with_its_token() {
    let mut bench = announced(verified_only());
    let carried = data_of(&claims());
    assert_eq!(error(&ask(&mut bench, 2, &carried)), None);
    let end = 3_600 + TOLERANCE;
    for _ in 0..end / 30 - 1 {
        assert_eq!(error(&bench.pass(Duration::from_secs(30))), None);
        announce(&mut bench, &data_of(&claims()));
        assert_eq!(error(&ask(&mut bench, 2, &carried)), None);
    }
    assert_eq!(bench.held(), Rate::from_mbps(2));
    let outcomes = bench.pass(Duration::from_secs(30));
    let text = "token expired at 2026-11-26T01:00:00Z".to_owned();
    let expected =
        (PolicyControlError::Expired.code(), IdentityError::ExpiredCredential.code(), text);
    assert_eq!(error(&outcomes), Some(expected.clone()));
    let is_tear = |(_, message): &(_, Message<'_>)| matches!(message.body, Body::ResvTear(_));
    assert!(sent(&outcomes).iter().any(is_tear));
    let is_end =
        |event: &Event| matches!(event, Event::Reservation { change: Change::Expired, .. });
    assert!(events(&outcomes).iter().any(is_end));
    assert_eq!((bench.held(), counted(&bench)), (Rate::ZERO, vec![("expired", 1)]));
    // The sender stays announced; a refresh of the reservation is a new request.
    assert_eq!(error(&ask(&mut bench, 2, &carried)), Some(expected));
    assert_eq!(bench.engine.population(), (1, 1, 0));
}

#[test]
fn newer_token_replaces_the_older_one() {
    let mut bench = announced(verified_only());
    ask(&mut bench, 2, &data_of(&claims()));
    let longer = data_of(&Claims { expires: NOW + 7_200, ..claims() });
    for (until, held) in [(3_600 + 2 * TOLERANCE, 2), (7_200 + TOLERANCE + 30, 0)] {
        let mut passed = bench.now.as_nanos() / 1_000_000_000 - 1_000;
        while passed < until {
            passed += 30;
            bench.pass(Duration::from_secs(30));
            announce(&mut bench, &data_of(&claims()));
            ask(&mut bench, 2, &longer);
        }
        assert_eq!(bench.held(), Rate::from_mbps(held), "after {until} s");
    }
}

/// Without the reservation nothing is left that the end of a token could touch.
#[test]
fn replaced_or_torn_reservation_leaves_no_token() {
    let no_rule = Settings { rules: vec![], otherwise: Action::Allow, ..verified_only() };
    for is_torn in [false, true] {
        let mut bench = announced(no_rule.clone());
        ask(&mut bench, 2, &data_of(&claims()));
        if is_torn {
            bench.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
            assert_eq!(bench.held(), Rate::ZERO);
        }
        // The new request is in the block of the old one.
        ask(&mut bench, 2, &claim(ALICE));
        bench.command(Command::WallClock { wall_clock: nanoseconds(NOW + 100_000) });
        bench.pass(Duration::from_secs(1));
        assert_eq!((bench.held(), counted(&bench)), (Rate::from_mbps(2), vec![]));
    }
}

/// A jump of the clock ends or keeps reservations as the new time says, whatever it is.
#[test]
fn clock_that_jumps_is_followed() {
    for (clock, held, fresh) in [
        // The same time, and a jump within the tolerance.
        (nanoseconds(NOW - 1_000), 2, true),
        (nanoseconds(NOW - 1_000 - TOLERANCE), 2, true),
        // Back before the token, which is of the future now: what was granted stays.
        (nanoseconds(NOW - 100_000), 2, false),
        (0, 2, false),
        // Beyond its end.
        (nanoseconds(NOW + 3_600 + TOLERANCE - 1_000), 0, false),
        (u64::MAX, 0, false),
    ] {
        let mut bench = announced(verified_only());
        ask(&mut bench, 2, &data_of(&claims()));
        bench.command(Command::WallClock { wall_clock: clock });
        bench.pass(Duration::from_millis(1));
        assert_eq!(bench.held(), Rate::from_mbps(held), "{clock}");
        let again = data_of(&Claims { rate: Rate::from_mbps(3), ..claims() });
        assert_eq!(error(&ask(&mut bench, 1, &again)).is_none(), fresh, "{clock}");
        bench.command(Command::WallClock { wall_clock: nanoseconds(NOW - 1_000) });
        assert_eq!(error(&ask(&mut bench, 2, &again)), None, "{clock}");
    }
}

/// Thousands of tokens that end together end in turns of a bounded number.
#[test]
fn tokens_that_end_together_end_in_bounded_turns() {
    let mut bench = announced(verified_only());
    let any = data_of(&Claims { destination: None, ..claims() });
    for port in 1..=300 {
        let session = Session { port, ..session() };
        let carried = Carried::Objects(&any);
        let mut path = Path { session, carried, ..path() };
        path.sender.tspec = tspec(2);
        bench.receive(ETH1, Body::Path(path));
        let small = FlowSpec::ControlledLoad(TokenBucket { rate: 125.0, ..tspec(1) });
        let flows = [FixedFilterFlow { flowspec: Some(small), ..flow(1) }];
        bench.receive(ETH2, Body::Resv(Resv { session, carried, ..resv(&flows) }));
    }
    assert_eq!(bench.engine.population().2, 300);
    bench.command(Command::WallClock { wall_clock: nanoseconds(NOW + 10_000) });
    let mut left = vec![];
    while bench.engine.population().2 > 0 {
        bench.handle(Input::Expire);
        left.push(bench.engine.population().2);
    }
    assert_eq!(left, [44, 0]);
}

/// The router that a token names checks the interface; others trust their core interfaces only.
#[test]
fn token_of_an_access_interface_is_used_there_only() {
    let at = |port: &str| Claims { port: Some(port.parse().expect("a port")), ..claims() };
    for (role, port, allowed) in [
        (Role::Access, "r1/eth2", true),
        (Role::Access, "r1/eth1", false),
        (Role::Access, "r2/eth2", false),
        (Role::Core, "r1/eth2", true),
        (Role::Core, "r1/eth1", false),
        (Role::Core, "r2/eth9", true),
    ] {
        let mut bench = announced(verified_only());
        let mut interface = bench.interfaces.by_id(ETH2).expect("an interface").clone();
        interface.trust = Trust { role, sources: vec![] };
        bench.interfaces.set(interface);
        let refusal = error(&ask(&mut bench, 2, &data_of(&at(port))));
        assert_eq!(refusal.is_none(), allowed, "{role:?} {port}");
    }
}

/// A signature takes much work, so changes of a known sender are limited if they need one.
#[test]
fn verifications_of_one_port_are_limited() {
    let mut bench = announced(verified_only());
    let mut interface = bench.interfaces.by_id(ETH1).expect("an interface").clone();
    interface.trust = Trust { role: Role::Access, sources: vec![] };
    bench.interfaces.set(interface);
    // A link with room for more changes than are verified.
    let mut outgoing = bench.interfaces.by_id(ETH2).expect("an interface").clone();
    outgoing.bandwidth = Rate::from_mbps(1_000);
    bench.interfaces.set(outgoing);
    let most = token::Settings::default().verifications_per_second;
    let mut verified = 0;
    for rate in 1..=u64::from(most) + 50 {
        let claims = Claims { rate: Rate::from_mbps(2 + rate), ..claims() };
        let outcomes = announce(&mut bench, &data_of(&claims));
        let is_path = |(_, message): &(_, Message<'_>)| matches!(message.body, Body::Path(_));
        verified += u32::from(sent(&outcomes).iter().any(is_path));
    }
    assert_eq!(verified, most);
}
