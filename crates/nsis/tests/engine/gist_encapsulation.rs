//! Encapsulation of messages, rate limits, and forwarding (RFC 5971 sections 4.4.4, 5.3 and 5.8).

use std::time::Duration;

use earmark_core::Outgoing;
use earmark_nsis::gist::DropReason;
use earmark_nsis::gist::machine::State;
use earmark_nsis::nslp::SendFailure;
use earmark_nsis::{Command, Config, PORT};
use earmark_wire::gist::{Body, Direction, LooseEnd, MessageType, Mri};
use earmark_wire::udp;

use crate::common::application::Task;
use crate::common::{Network, Packet, address, alerted, line, session, states};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the RS-validity-time of each Query of a node, milliseconds.
fn validities(network: &Network, node: usize) -> Vec<u32> {
    let queries = network.sent(node, MessageType::Query);
    queries
        .iter()
        .map(|seen| match seen.packet.message().expect("a Query").body {
            Body::Query(query) => query.nli.routing_state_validity,
            body => panic!("{body:?}"),
        })
        .collect()
}

/// Section 5.3.2.1: if all nodes on the path intercept by port, Queries may be sent without router alert. IPv6 Queries
/// never are.
#[test]
fn queries_omit_router_alert_if_configured() {
    let (mut network, apps) = line(3, |config| {
        config.without_router_alert =
            ["10.0.0.0/8", "fd00::/16"].map(|p| p.parse().unwrap()).into();
    });
    network.nodes[1].by_port = true;
    accept_by_port(&mut network, 1);
    let (four, six) = (network.flow(), network.flow_six());
    apps[0].send(four, session(1), b"four");
    apps[0].send(six, session(2), b"six.");
    network.run(SECOND);
    let alerts: Vec<(bool, bool)> = network
        .sent(0, MessageType::Query)
        .iter()
        .map(|seen| (seen.packet.how.destination.is_ipv4(), seen.packet.how.router_alert))
        .collect();
    assert_eq!(alerts, [(true, false), (false, true)]);
    assert_eq!(apps[1].received(), [b"four", b"six."], "the next node takes both up");

    let (mut network, apps) = line(3, |config| {
        config.without_router_alert = vec!["192.0.2.0/24".parse().unwrap()];
    });
    apps[0].send(network.flow(), session(1), b"four");
    network.run(SECOND);
    assert!(network.seen[0].packet.how.router_alert, "not for this destination");
}

/// Makes a node accept Queries without router alert at its first interface.
fn accept_by_port(network: &mut Network, node: usize) {
    let mut config = Config::default();
    config.gist.by_port.insert("eth1".to_owned());
    network.command(node, Command::Renew(Box::new(config)));
}

/// Section 5.3.2.1: nodes on the path pass a Query without router alert on unseen. Its destination answers it only where
/// such Queries are expected.
#[test]
fn query_without_router_alert_is_ignored_unless_it_is_expected() {
    for (router_alert, is_expected) in [(false, false), (false, true), (true, false)] {
        for is_ipv4 in [true, false] {
            let what =
                format!("router alert {router_alert}, expected {is_expected}, IPv4 {is_ipv4}");
            let (mut network, apps) = line(2, |_| {});
            if is_expected {
                accept_by_port(&mut network, 1);
            }
            network.tamper = Some(Box::new(move |seen| {
                if seen.node == 0 && seen.message_type() == Some(MessageType::Query) {
                    seen.packet.how.router_alert = router_alert;
                }
            }));
            let mri = if is_ipv4 { network.flow() } else { network.flow_six() };
            apps[0].send(mri, session(1), b"data");
            network.run(SECOND);
            let is_taken = router_alert || is_expected;
            assert_eq!(!apps[1].received().is_empty(), is_taken, "{what}");
            let ignored = &network.engine(1).gist().counters().ignored;
            let queries = network.sent(0, MessageType::Query).len() as u64;
            let count = if is_taken { 0 } else { queries };
            assert_eq!(
                ignored.get(&DropReason::NoRouterAlert).copied().unwrap_or(0),
                count,
                "{what}"
            );
        }
    }
}

/// Section 4.3.4: a Query for an unknown application is forwarded. One that is shorter or longer than its header says is
/// malformed, whoever it is for.
#[test]
fn query_of_a_wrong_length_is_not_forwarded() {
    for (cut, is_forwarded) in [(0, true), (4, false), (20, false)] {
        let (mut network, apps) = line(3, |_| {});
        let mri = network.flow();
        apps[0].send(mri, session(1), b"data");
        network.run(Duration::from_micros(1));
        let sent = network.seen.first().expect("a Query").packet.clone();
        let mut octets = sent.octets;
        octets.truncate(octets.len() - cut);
        // NSLPID, behind the magic number.
        octets[udp::HEADER + 8..][..2].copy_from_slice(&0xa0c0_u16.to_be_bytes());
        let Outgoing { source, destination, .. } = sent.how;
        udp::Repr { source, destination, source_port: PORT, destination_port: PORT }
            .emit(&mut octets)
            .expect("room");
        let before = network.engine(1).gist().counters().forwarded;
        network.inject(1, 1, Packet { how: alerted(source, destination, 255), octets });
        let gist = network.engine(1).gist();
        assert_eq!(gist.counters().forwarded - before, u64::from(is_forwarded), "cut {cut}");
        let malformed = gist.counters().ignored.get(&DropReason::Malformed).copied();
        assert_eq!(malformed.is_some(), !is_forwarded, "cut {cut}");
    }
}

/// Packets that are forwarded unchanged keep a wrong or absent checksum, so that their destination sees damage. One that
/// the sender's kernel left to hardware is completed: the copy passes none.
#[test]
fn checksum_of_a_non_gist_packet_is_only_completed() {
    let (source, destination) = (address("10.0.0.1"), address("10.0.1.2"));
    let mut whole = [&[0; udp::HEADER][..], b"no magic number"].concat();
    let header = udp::Repr { source, destination, source_port: 4_000, destination_port: PORT };
    header.emit(&mut whole).expect("room");
    let partial = 0x0a00_u16 + 1 + 0x0a00 + 0x0102 + 17 + whole.len() as u16;
    let right = u16::from_be_bytes([whole[6], whole[7]]);
    for (received, forwarded) in [(right, right), (right ^ 1, right ^ 1), (0, 0), (partial, right)]
    {
        let (mut network, _) = line(3, |_| {});
        let mut octets = whole.clone();
        octets[6..udp::HEADER].copy_from_slice(&received.to_be_bytes());
        network.inject(1, 1, Packet { how: alerted(source, destination, 9), octets });
        let [passed] = &network.seen[..] else { panic!("{:?}", network.seen) };
        assert_eq!(passed.packet.octets[6..udp::HEADER], forwarded.to_be_bytes(), "{received:#x}");
        assert_eq!(passed.packet.octets[udp::HEADER..], whole[udp::HEADER..]);
    }
}

/// Section 5.3.2.3: packets that interception has taken by mistake are forwarded unchanged.
#[test]
fn non_gist_packets_are_forwarded_unchanged() {
    let (mut network, _) = line(3, |_| {});
    let (source, destination) = (address("10.0.0.1"), address("10.0.1.2"));
    let payload = b"no magic number";
    let mut octets = vec![0; udp::HEADER + payload.len()];
    octets[udp::HEADER..].copy_from_slice(payload);
    let header = udp::Repr { source, destination, source_port: 4_000, destination_port: PORT };
    header.emit(&mut octets).expect("room");
    let how = alerted(source, destination, 9);
    network.inject(1, 1, Packet { how, octets: octets.clone() });
    let [passed] = &network.seen[..] else { panic!("{:?}", network.seen) };
    assert_eq!((passed.node, passed.packet.octets.as_slice()), (1, &octets[..]));
    let how = passed.packet.how;
    assert_eq!((how.source, how.destination, how.ttl), (source, destination, 8));
    assert!(how.router_alert);
    // The TTL is exhausted.
    let how = Outgoing { ttl: 1, interface: None, ..how };
    network.inject(1, 1, Packet { how, octets });
    assert_eq!(network.seen.len(), 1);
}

/// Section 5.3.3: one limit for all datagrams of a node. Suppressed messages are retransmitted like lost ones.
#[test]
fn datagrams_per_second_are_limited() {
    let (mut network, apps) = line(2, |config| config.limits.datagrams_per_second = 5);
    let mri = network.flow();
    for number in 1..=8 {
        apps[0].send(mri, session(number), &[number; 4]);
    }
    network.run(Duration::from_millis(400));
    let sent = |network: &Network| network.seen.iter().filter(|seen| seen.node == 0).count();
    // A burst of five, and two more by then.
    assert!((5..=7).contains(&sent(&network)), "{}", sent(&network));
    assert!(network.engine(0).gist().counters().held_back > 0);
    network.run(9 * SECOND);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream; 8]);
    assert!(sent(&network) <= 5 * 11, "{}", sent(&network));
}

/// Section 4.4.4: if the refreshes of all routing states would exceed the rate limit, the node proposes a longer
/// validity.
#[test]
fn validity_is_longer_if_refreshes_exceed_the_limit() {
    let (mut network, apps) = line(2, |config| {
        config.limits.datagrams_per_second = 2;
        config.inactivity = 1_000 * SECOND;
    });
    let mri = network.flow();
    for number in 1..=40 {
        apps[0].send(mri, session(number), b"one.");
        network.run(3 * SECOND);
    }
    let proposed = validities(&network, 0);
    assert_eq!(proposed.first(), Some(&30_000));
    let states = states(&network, 0).len() as u32;
    assert!(states > 30, "{states}");
    let longest = proposed.iter().copied().max();
    assert_eq!(longest, Some(1_000 * states), "a refresh of each takes as long as half of it");
}

/// Settings that are replaced while GIST runs apply from the next message on.
#[test]
fn changed_validity_is_proposed_and_granted() {
    let (mut network, apps) = line(2, |_| {});
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    for node in [0, 1] {
        let mut config = Config::default();
        config.gist.validity = Duration::from_secs(if node == 0 { 60 } else { 50 });
        network.command(node, Command::Renew(Box::new(config)));
    }
    apps[0].send(mri, session(2), b"two.");
    network.run(SECOND);
    assert_eq!(validities(&network, 0), [30_000, 60_000]);
    let response = network.sent(1, MessageType::Response)[1].packet.clone();
    let Some(Body::Response(response)) = response.message().map(|message| message.body) else {
        panic!("{response:?}")
    };
    assert_eq!(response.nli.routing_state_validity, 50_000);
}

/// Section 5.8.1.3: the result of a downstream Query takes precedence over that of an upstream one.
#[test]
fn downstream_query_takes_precedence() {
    let (mut network, apps) = line(2, |_| {});
    let mri = network.flow();
    apps[0].send(mri, session(1), b"down");
    network.run(SECOND);
    // The responder loses its state, and sends an upstream Query: it gets a Response, and nothing else changes.
    apps[1].task(Task::Lifetime(mri.inverted(), session(1), Duration::ZERO));
    network.run(SECOND);
    let before = network.seen.len();
    apps[1].send(mri.inverted(), session(1), b"up..");
    network.run(SECOND);
    assert_eq!(network.log(before), ["n1 Query", "n0 Response", "n1 Confirm"]);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream]);

    // A node with upstream state receives a downstream Query: the latter wins.
    let (mut network, apps) = line(2, |_| {});
    apps[1].send(mri.inverted(), session(1), b"up..");
    network.run(SECOND);
    assert_eq!(states(&network, 1), [State::EstablishedDownstream]);
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(SECOND);
    apps[0].send(mri, session(1), b"down");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"down"]);
    assert_eq!(states(&network, 1), [State::EstablishedUpstream]);
}

/// Section 5.8.2: a loose end is discovered towards its destination only.
#[test]
fn loose_end_is_discovered_downstream_only() {
    let (mut network, apps) = line(3, |_| {});
    let mri = Mri::LooseEnd(LooseEnd {
        source: address("10.0.0.1"),
        destination: address("10.0.1.2"),
        direction: Direction::Downstream,
    });
    apps[0].send(mri, session(1), b"out.");
    network.run(SECOND);
    assert_eq!(network.log(0), ["n0 Query", "n1 Response", "n0 Confirm"]);
    let how = network.seen[0].packet.how;
    assert_eq!((how.source, how.destination), (address("10.0.0.1"), address("10.0.1.2")));
    assert_eq!(apps[1].received(), [b"out."]);
    apps[1].send(mri.inverted(), session(1), b"back");
    network.run(SECOND);
    assert_eq!(apps[0].received(), [b"back"], "to who has asked");
    apps[1].send(mri.inverted(), session(2), b"back");
    network.run(SECOND);
    assert_eq!(apps[1].failures(), [SendFailure::NoUpstreamState], "nobody is asked for");
}
