//! QoS NSLP messages that exceed a datagram on a session in D-mode (RFC 5971 sections 4.3.3 and 4.4.1): they go over
//! associations, or the application gets the reason.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Rate, Transport};
use earmark_nsis::qos::{Command, Event, Request};
use earmark_nsis::{Config, gist};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use crate::common::qos::{
    APP, ENDS, LISTENER, all_held, command, events_of, listener, reservable_line_of,
};
use crate::common::{Network, address};

const SECOND: Duration = Duration::from_secs(1);

/// Creates a line of four nodes for a flow to `end`; `small` are those whose messages with a QSPEC exceed a datagram, while
/// a short error does not: 64 octets of the MTU are for IP and the layers below.
fn line(end: &str, small: &[usize], listens: bool) -> Network {
    let small_mtu = 64 + if end.contains(':') { 165 } else { 120 };
    let mut network = reservable_line_of(4, &Config::default());
    for (number, node) in network.nodes.iter_mut().enumerate() {
        let links: Vec<_> = node.interfaces.iter().cloned().collect();
        for mut link in links {
            if small.contains(&number) {
                link.mtu = small_mtu;
                node.interfaces.set(link);
            }
        }
        let port = gist::Config::default().associations.tcp_port.filter(|_| listens);
        node.listens.extend(port.map(|port| (port, Transport::Tcp)));
    }
    network
}

fn request(to: IpAddr) -> Request {
    crate::common::qos::request(to, Rate::from_mbps(2))
}

/// The RESPONSE of the responder, of a node on the path, or of both exceeds a datagram.
#[test]
fn large_response_arrives_over_associations() {
    for end in ENDS {
        for small in [&[3][..], &[1], &[1, 2, 3]] {
            let mut network = line(end, small, true);
            command(
                &mut network,
                0,
                Command::Reserve { application: APP, request: request(address(end)) },
            );
            network.run(5 * SECOND);
            let events = events_of(&network, 0);
            assert!(matches!(events[..], [Event::Reserved { .. }]), "{end} {small:?}: {events:?}");
            assert_eq!(all_held(&network), [2, 2, 2, 0], "{end} {small:?}");
            network.run(600 * SECOND);
            assert_eq!(all_held(&network), [2, 2, 2, 0], "{end} {small:?}");
            command(&mut network, 0, Command::Release { application: APP });
            network.run(2 * SECOND);
            assert_eq!(all_held(&network), [0; 4], "{end} {small:?}");
        }
    }
}

#[test]
fn large_response_to_a_query_arrives_over_associations() {
    for end in ENDS {
        let mut network = line(end, &[3], true);
        let request = request(address(end));
        command(&mut network, 0, Command::Query { application: APP, request });
        network.run(5 * SECOND);
        let events = events_of(&network, 0);
        assert!(matches!(events[..], [Event::Offered { .. }]), "{end}: {events:?}");
    }
}

/// The receiver reserves: its RESERVE, or that of a node on the path, exceeds a datagram.
#[test]
fn large_reserve_of_the_receiver_arrives_over_associations() {
    for end in ENDS {
        for small in [&[3][..], &[1], &[1, 2, 3]] {
            let mut network = line(end, small, true);
            let listen = Command::Listen { application: LISTENER, listen: listener() };
            command(&mut network, 3, listen);
            let request = request(address(end));
            command(&mut network, 0, Command::Invite { application: APP, request });
            network.run(10 * SECOND);
            let events = events_of(&network, 0);
            let is_incoming = |event: &Event| matches!(event, Event::Incoming { .. });
            assert!(events.iter().any(is_incoming), "{end} {small:?}: {events:?}");
            assert_eq!(all_held(&network), [2, 2, 2, 0], "{end} {small:?}");
        }
    }
}

/// No node accepts connections: the application learns the reason at once, and nothing stays reserved.
#[test]
fn large_message_without_associations_is_reported() {
    for end in ENDS {
        for small in [3, 1] {
            // Node 1 may be unable to send the request on.
            let reasons = [TransientFailure::NoReversePath, TransientFailure::PathTruncated]
                .map(Outcome::TransientFailure);
            let reasons = if small == 3 { &reasons[..1] } else { &reasons[..] };
            let is_told = |event: &Event| matches!(event, Event::Refused { outcome, .. } if reasons.contains(outcome));
            let request = request(address(end));
            for command_of in [
                Command::Reserve { application: APP, request: request.clone() },
                Command::Query { application: APP, request: request.clone() },
                Command::Invite { application: APP, request: request.clone() },
            ] {
                let what = format!("{end} {small:?} {command_of:?}");
                let mut network = line(end, &[small], false);
                let listen = Command::Listen { application: LISTENER, listen: listener() };
                command(&mut network, 3, listen);
                command(&mut network, 0, command_of);
                network.run(15 * SECOND);
                let events = events_of(&network, 0);
                assert!(events.iter().any(is_told), "{what}: {events:?}");
                network.run(300 * SECOND);
                assert_eq!(all_held(&network), [0; 4], "{what}");
            }
        }
    }
}
