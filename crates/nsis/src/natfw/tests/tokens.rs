//! Verified names (RFC 5981, RFC 5973 section 5.2.2): which requests a token allows, whom a quota counts for, and when a session
//! ends with its token.

use earmark_core::Prefix;
use earmark_token::{Claims, Destination, Issuer, Required, SecretKey, Settings, Token};

use super::*;

/// 2026-11-26T00:00:00Z, the time at which a net starts.
const NOW: u64 = 1_795_651_200;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_random(&[seed; 32])
}

/// A token of a user for data from the client to a port of the server, for one hour.
fn token(name: &str, port: u16, seed: u8) -> Option<Token> {
    let claims = Claims {
        issuer: "provider".into(),
        name: name.into(),
        not_before: NOW,
        expires: NOW + 3_600,
        rate: Rate::ZERO,
        destination: Some(Destination {
            range: "198.51.100.0/24".parse().expect("a range"),
            port: Some(port),
            protocol: Some(UDP),
        }),
        sources: Some(Prefix::host(address(CLIENT))),
        port: None,
    };
    Some(claims.sign(&key(seed)).expect("valid claims"))
}

/// A firewall that knows the provider, and grants one session to each verified name.
fn net() -> Net {
    Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, config| {
        let required = Required { verified: true, ..Required::default() };
        let rule = Rule { required, per_user: Some(1), ..Rule::default() };
        let tokens = Settings {
            issuers: vec![Issuer { name: "provider".into(), key: key(1).public() }],
            router: "r1".into(),
            wall_clock: (NOW - 100) * 1_000_000_000,
            ..Settings::default()
        };
        match number {
            1 => Config { rules: vec![rule], tokens, ..config },
            _ => config,
        }
    })
}

/// "NATFW NSLP nodes requiring more information than provided MUST generate an error RESPONSE of class 'Permanent failure' with
/// response code 'Authentication failed' (0x01) or with response code 'Authorization failed' (0x02)" (section 3.6).
#[test]
fn token_proves_the_name_that_a_rule_asks_for() {
    for (token, expected) in [
        (None, "1>0 RESPONSE 5/0x02 msn=0"),
        (token("alice", 5_000, 2), "1>0 RESPONSE 5/0x01 msn=0"),
        (token("alice", 5_001, 1), "1>0 RESPONSE 5/0x01 msn=0"),
        (token("alice", 5_000, 1), "1>2 CREATE lt=60 msn=0"),
    ] {
        let mut net = net();
        net.open(0, OpenRequest { token, ..to_server(5_000) });
        assert_eq!(net.log()[1], expected);
    }
}

#[test]
fn quota_is_that_of_the_proven_name() {
    let mut net = net();
    net.open(0, OpenRequest { token: token("alice", 5_000, 1), ..to_server(5_000) });
    net.log();
    for (name, expected) in
        [("alice", "1>0 RESPONSE 4/0x01 msn=0"), ("bob", "1>2 CREATE lt=60 msn=0")]
    {
        let request = OpenRequest { token: token(name, 5_001, 1), ..to_server(5_001) };
        net.command(0, Command::Open { application: OTHER_APP, request });
        assert_eq!(net.log()[1], expected, "{name}");
    }
    let users: Vec<_> = net.nodes[1].natfw.sessions().map(|session| session.user).collect();
    assert_eq!(users, [Some("alice".into()), Some("bob".into())]);
}

/// Refreshes verify nothing; the session ends with its token.
#[test]
fn session_ends_with_its_token() {
    let mut net = net();
    net.open(0, OpenRequest { token: token("alice", 5_000, 1), ..to_server(5_000) });
    net.advance(Duration::from_secs(3_500));
    assert_eq!(net.rules(1).len(), 1);
    net.advance(Duration::from_secs(200));
    assert_eq!(net.rules(1), [""; 0]);
    let ended = Event::Ended { application: APP, info: Some(info_of(Informational::Terminated)) };
    assert_eq!(net.nodes[0].events.last(), Some(&ended));
    net.assert_nothing_is_left();
}
