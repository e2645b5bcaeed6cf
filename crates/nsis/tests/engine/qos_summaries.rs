//! Summaries on GIST (RFC 5974 section 3.2.6): sessions of one peer whose messages take different transports, and the
//! routing state of sessions that have no refresh of their own.

use std::time::Duration;

use earmark_core::{Rate, Transport};
use earmark_nsis::Config;
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{Application, Command, Request};
use earmark_wire::gist::{MessageType, SessionId};

use crate::common::qos::{
    ENDS, all_held, command, listener, request, reservable_line_of, session_counts,
};
use crate::common::{Network, address};

const SECOND: Duration = Duration::from_secs(1);
const TLS_PORT: u16 = 4_270;
const CLEAR: Attributes = Attributes { reliable: false, secure: false };
const SECURE: Attributes = Attributes { reliable: true, secure: true };

/// Creates a line of four nodes with summaries.
fn line() -> Network {
    let mut config = Config::default();
    config.gist.upstream_queries = UpstreamQueries::Never;
    config.qos.summary = 8;
    config.gist.associations.tls_port = Some(TLS_PORT);
    let mut network = reservable_line_of(4, &config);
    for node in &mut network.nodes {
        node.listens.extend([(270, Transport::Tcp), (TLS_PORT, Transport::Tls)]);
    }
    network
}

fn numbered(number: u8, end: &str, attributes: Attributes) -> Request {
    let mut request = request(address(end), Rate::from_mbps(1));
    request.flow.source_port += u16::from(number);
    Request { session: Some(SessionId([number; 16])), attributes: Some(attributes), ..request }
}

/// Reserves two sessions, which differ in their transport, in this order.
fn reserve_both(network: &mut Network, end: &str, transports: [Attributes; 2]) {
    for (number, attributes) in transports.into_iter().enumerate() {
        let request = numbered(number as u8 + 1, end, attributes);
        let application = Application(number as u64 + 1);
        command(network, 0, Command::Reserve { application, request });
    }
    network.run(SECOND);
    assert_eq!(all_held(network), [2, 2, 2, 0]);
}

#[test]
fn summary_in_the_clear_leaves_out_secured_sessions() {
    for end in ENDS {
        for transports in [[CLEAR, SECURE], [SECURE, CLEAR]] {
            let mut network = line();
            reserve_both(&mut network, end, transports);
            network.run(1_000 * SECOND);
            assert_eq!(all_held(&network), [2, 2, 2, 0], "{end} {transports:?}");
            let counters = (0..4).map(|node| network.engine(node).qos().counters());
            assert!(counters.into_iter().all(|counters| counters.dropped.is_empty()), "{end}");
        }
    }
}

/// The node towards the sender has sent the Queries, and gets no message of the sessions but those in summaries.
#[test]
fn summary_of_a_receiver_keeps_the_routing_state_of_its_sessions() {
    for end in ENDS {
        let mut network = line();
        let listen = listener();
        command(&mut network, 3, Command::Listen { application: Application(9), listen });
        for number in 1..4 {
            let request = numbered(number, end, CLEAR);
            let application = Application(number.into());
            command(&mut network, 0, Command::Invite { application, request });
        }
        network.run(SECOND);
        assert_eq!(all_held(&network), [3, 3, 3, 0]);
        network.run(1_000 * SECOND);
        assert_eq!(session_counts(&network), [3; 4], "{end}");
        for node in 0..4 {
            let halves = network.engine(node).gist().routing_states(0).count();
            assert_eq!(halves, if node == 0 || node == 3 { 3 } else { 6 }, "{end}, n{node}");
        }
    }
}

/// GIST at the sender finds no next node for some time, and gives up its routing state. The sessions are not refreshed without
/// it: the sender asks for them again.
#[test]
fn session_of_a_receiver_without_routing_state_is_in_no_summary() {
    for end in ENDS {
        let mut network = line();
        let listen = listener();
        command(&mut network, 3, Command::Listen { application: Application(9), listen });
        for number in 1..4 {
            let request = numbered(number, end, CLEAR);
            let application = Application(number.into());
            command(&mut network, 0, Command::Invite { application, request });
        }
        network.run(200 * SECOND);
        let mut left = 12;
        network.loss = Some(Box::new(move |seen, _| {
            let is_query = seen.node == 0 && seen.message_type() == Some(MessageType::Query);
            left -= u32::from(is_query && left > 0);
            is_query && left > 0
        }));
        network.run(1_000 * SECOND);
        assert_eq!(all_held(&network), [3, 3, 3, 0], "{end}");
        for node in 0..4 {
            let halves = network.engine(node).gist().routing_states(0).count();
            assert_eq!(halves, if node == 0 || node == 3 { 3 } else { 6 }, "{end}, n{node}");
        }
    }
}
