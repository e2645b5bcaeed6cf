//! Verified names from end to end: a provider signs a token, a receiver's application presents it, and the router of the
//! provider allows, ends and refuses reservations by it.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Hop, Prefix, Rate, Route, Time};
use earmark_node::{Command, Event, Listen, NodeConfig};
use earmark_rsvp::policy::token::{self, Claims, Issuer, SecretKey, Token};
use earmark_rsvp::policy::{Action, Identity, Rule, Settings};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{LinkEnd, LinkSpec, Network, NodeId};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);

/// 2026-11-26T00:00:00Z, at time zero of the network.
const START: u64 = 1_795_651_200;

/// h1 (10.0.0.1) ---- (10.0.0.2) r1 (10.0.1.1) ---- (10.0.1.2) h2
struct Net {
    network: Network,
    h1: NodeId,
    r1: NodeId,
    h2: NodeId,
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn key() -> SecretKey {
    SecretKey::from_random(&[1; 32])
}

fn token(name: &str, starts_in: u64, valid: u64) -> Token {
    let claims = Claims {
        issuer: "provider".into(),
        name: name.into(),
        not_before: START + starts_in,
        expires: START + starts_in + valid,
        rate: Rate::from_mbps(2),
        destination: Some("10.0.1.2:5001/udp".parse().expect("a destination")),
        sources: Some("10.0.0.0/24".parse().expect("a range")),
        port: None,
    };
    claims.sign(&key()).expect("valid claims")
}

/// A network whose router allows what Alice, verified, requests.
fn net() -> Net {
    let policy = Settings {
        rules: vec![Rule {
            users: vec!["alice@*".parse().expect("a pattern")],
            verified: true,
            ..Rule::default()
        }],
        otherwise: Action::Refuse,
        ..Settings::default()
    };
    let mut network = Network::new(1);
    let timing =
        rsvp::Timing { refresh: Duration::from_secs(2), lifetime_factor: 3, ..Default::default() };
    let wall_clock = START * 1_000_000_000;
    let host = rsvp::Config { timing, ..rsvp::Config::default() };
    let tokens = token::Settings {
        issuers: vec![Issuer { name: "provider".into(), key: key().public() }],
        wall_clock,
        router: "r1".into(),
        ..token::Settings::default()
    };
    let router = rsvp::Config { policy, tokens, ..host.clone() };
    let node = |rsvp| NodeConfig { rsvp, ..NodeConfig::default() };
    let h1 = network.add_node("h1", false, node(host.clone()));
    let r1 = network.add_node("r1", true, node(router));
    let h2 = network.add_node("h2", false, node(host));
    let end = |node, interface: &str, at| LinkEnd {
        node,
        interface: interface.into(),
        address: address(at),
    };
    let link = |ends, prefix: &str| LinkSpec {
        ends,
        prefix: prefix.parse().expect("a range"),
        bandwidth: Rate::from_mbps(10),
        reservable: Rate::from_mbps(8),
        delay: Duration::from_millis(1),
        queue_packets: 50,
    };
    let [h1_out, _] = network
        .add_link(link([end(h1, "eth0", "10.0.0.1"), end(r1, "eth0", "10.0.0.2")], "10.0.0.0/30"));
    let [_, h2_out] = network
        .add_link(link([end(r1, "eth1", "10.0.1.1"), end(h2, "eth0", "10.0.1.2")], "10.0.1.0/30"));
    for (node, interface, gateway) in [(h1, h1_out, "10.0.0.2"), (h2, h2_out, "10.0.1.1")] {
        let prefix = Prefix::new(address("0.0.0.0"), 0);
        let hop = Hop { interface, gateway: Some(address(gateway)), source: None };
        network.add_route(node, Route { prefix, metric: 0, hop });
    }
    Net { network, h1, r1, h2 }
}

impl Net {
    fn command(&mut self, node: NodeId, command: rsvp::Command) {
        self.network.command(node, Command::Rsvp(command));
    }

    /// Announces 2 Mbit/s from h1, for which h2 asks with this identity.
    fn reserve(&mut self, identity: Identity) {
        let session =
            Session { destination: address("10.0.1.2"), protocol: 17, flags: 0, port: 5_001 };
        let template =
            FilterSpec { source: address("10.0.0.1"), selector: SourceSelector::Port(4_000) };
        let tspec = TokenBucket {
            rate: 250_000.0,
            depth: 10_000.0,
            peak: f32::INFINITY,
            min_policed_unit: 64,
            max_packet_size: 1_500,
        };
        let (h1, h2) = (self.h1, self.h2);
        self.command(h2, rsvp::Command::Identity { application: RECEIVER, identity });
        self.network.command(h2, Command::Listen(Listen::new(RECEIVER, session)));
        self.command(h1, rsvp::Command::Session { application: SENDER, session });
        let sender = rsvp::Command::Sender { application: SENDER, template, tspec, ttl: 64 };
        self.command(h1, sender);
    }

    /// Explanation of the refusal that reaches the application of h2 by `end`.
    fn refusal(&mut self, end: Time) -> Option<String> {
        let h2 = self.h2;
        let entry = self.network.run_until_event(end, |node, event| {
            node == h2 && matches!(event, Event::Rsvp(rsvp::Event::ResvError { .. }))
        })?;
        let text = format!("{:?}", entry.what);
        let (_, explanation) = text.split_once("explanation: ").expect("a ResvErr");
        Some(explanation.trim_start_matches("Some(\"").split('"').next().unwrap_or("").to_owned())
    }

    /// Users behind the reservations of r1, with their proofs.
    fn users(&self) -> Vec<(String, String)> {
        let r1 = self.network.node(self.r1).expect("a node");
        let rows = r1.reservation_rows(self.network.now(), |_| Default::default());
        let users = rows.filter_map(|row| row.user);
        users.map(|user| (user.name, user.proof.into_owned())).collect()
    }
}

fn with_token(token: Token) -> Identity {
    Identity { token: Some(token), ..Identity::default() }
}

#[test]
fn token_of_the_application_proves_its_name_to_the_router() {
    let mut net = net();
    net.reserve(with_token(token("alice@example.org", 0, 3_600)));
    net.network.run_until(Time::from_secs(30));
    assert_eq!(net.users(), [("alice@example.org".to_owned(), "verified".to_owned())]);
}

#[test]
fn refusal_tells_the_application_why() {
    let claimed = Identity { user: Some("alice@example.org".into()), ..Identity::default() };
    for (identity, reason) in [
        (claimed, "None"),
        (with_token(token("bob@example.org", 0, 3_600)), "None"),
        (
            with_token(token("alice@example.org", 86_400, 3_600)),
            "token not yet valid: it starts at 2026-11-27T00:00:00Z",
        ),
    ] {
        let mut net = net();
        net.reserve(identity);
        let found = net.refusal(Time::from_secs(10)).expect("a refusal");
        assert!(found.starts_with(reason), "{found}");
        assert!(net.users().is_empty());
    }
}

/// The token ends after two minutes and the tolerated minute, while everything is refreshed every two seconds.
#[test]
fn reservation_ends_with_the_token() {
    let mut net = net();
    net.reserve(with_token(token("alice@example.org", 0, 120)));
    assert_eq!(net.refusal(Time::from_secs(179)), None);
    assert_eq!(net.users().len(), 1);
    let reason = net.refusal(Time::from_secs(181)).expect("the end");
    assert_eq!(reason, "token expired at 2026-11-26T00:02:00Z");
    assert!(net.users().is_empty());
}
