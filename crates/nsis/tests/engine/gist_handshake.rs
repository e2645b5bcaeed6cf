//! The handshake in datagrams (RFC 5971 sections 4.4.1, 5.3 and 6), from node to node in virtual time.

use std::time::Duration;

use earmark_nsis::Config;
use earmark_nsis::gist::{DropReason, Installation, machine::State};
use earmark_nsis::nslp::{Notification, SendFailure, SendMessage, Validity};
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{Body, ErrorCode, MessageType};

use crate::common::application::{Call, Handle, Task, message};
use crate::common::{Network, Place, address, forged, line_through, session, states};

const SECOND: Duration = Duration::from_secs(1);

fn aware(count: usize) -> (Network, Vec<Handle>) {
    line_through(&vec![Place::Aware(Config::default()); count])
}

fn config(change: impl FnOnce(&mut earmark_nsis::gist::Config)) -> Place {
    let mut config = Config::default();
    change(&mut config.gist);
    Place::Aware(config)
}

/// Query, Response, Confirm with the data; then Data go directly to the peer, in both directions.
#[test]
fn three_messages_set_up_routing_state_and_carry_data() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    assert_eq!(network.log(0), ["n0 Query", "n1 Response", "n0 Confirm"]);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream]);
    assert_eq!(states(&network, 1), [State::EstablishedUpstream]);
    let calls = apps[1].calls();
    assert!(matches!(&calls[0], Call::MayPeer { ip_distance: Some(1), hops: 63, .. }), "{calls:?}");
    assert!(
        matches!(
            &calls[1],
            Call::Notified {
                what: Notification::RoutingStatusChange { status: Validity::Good, peer: Some(_) },
                ..
            }
        ),
        "{calls:?}"
    );
    assert!(
        matches!(&calls[2], Call::Received { data, peer: Some(_), ip_distance: Some(1), hops: 63, .. } if data == b"one."),
        "{calls:?}"
    );
    apps[0].send(mri, session(1), b"two.");
    apps[1].send(mri.inverted(), session(1), b"back");
    network.run(SECOND);
    assert_eq!(network.log(3), ["n0 Data", "n1 Data"]);
    assert_eq!(apps[1].received(), [b"two."]);
    assert_eq!(apps[0].received(), [b"back"]);
}

/// A lost Query is retransmitted, and messages sent meanwhile wait.
#[test]
fn lost_messages_are_retransmitted_with_backoff() {
    for lost in [1, 3] {
        let (mut network, apps) = aware(2);
        let mri = network.flow();
        network.loss = Some(Box::new(move |_, count| count < lost));
        apps[0].send(mri, session(1), b"one.");
        network.run(100 * Duration::from_millis(1));
        apps[0].send(mri, session(1), b"two.");
        network.run(10 * SECOND);
        assert_eq!(apps[1].received(), [b"one.", b"two."]);
        let times: Vec<f64> =
            network.sent(0, MessageType::Query).iter().map(|seen| seen.at.as_secs_f64()).collect();
        let expected: &[f64] = if lost == 1 { &[1.0, 1.5] } else { &[1.0, 1.5, 2.5, 4.5] };
        assert_eq!(times, expected);
    }
}

#[test]
fn retransmitted_queries_have_new_cookies_and_alternating_sources() {
    let (mut network, apps) = aware(3);
    network.loss = Some(Box::new(|_, _| true));
    // From a router in the middle, so that the source of the flow is another node.
    let mri = network.flow();
    apps[1].send(mri, session(1), b"one.");
    network.run(20 * SECOND);
    let queries = network.sent(1, MessageType::Query);
    assert_eq!(queries.len(), 4);
    let mut cookies = Vec::new();
    for (number, seen) in queries.iter().enumerate() {
        let message = seen.packet.message().expect("a Query");
        let Body::Query(query) = message.body else { panic!("{message:?}") };
        cookies.push(query.query_cookie.to_vec());
        let own = number % 2 == 1;
        let source = if own { "10.0.1.1" } else { "10.0.0.1" };
        assert_eq!(seen.packet.how.source, address(source));
        assert_eq!(message.source_is_peer, own);
        assert!(seen.packet.how.router_alert);
        assert_eq!(seen.packet.how.destination, address("10.0.1.2"));
    }
    cookies.dedup();
    assert_eq!(cookies.len(), 4);
    assert_eq!(apps[1].failures(), [SendFailure::NoNextNode]);
    assert!(states(&network, 1).is_empty());
}

#[test]
fn missing_next_node_is_reported_as_last_node() {
    let (mut network, apps) =
        line_through(&[Place::Aware(Config::default()), Place::Plain, Place::Plain]);
    let mri = network.flow();
    apps[0].task(Task::Send(
        SendMessage { timeout: 60 * SECOND, ..message(mri, session(1)) },
        b"one.".to_vec(),
    ));
    network.run(30 * SECOND);
    let calls = apps[0].calls();
    assert!(matches!(calls[0], Call::Failed { failure: SendFailure::NoNextNode, .. }), "{calls:?}");
    assert!(matches!(calls[1], Call::Notified { what: Notification::LastNode, .. }), "{calls:?}");
    assert_eq!(calls.len(), 2);
    assert_eq!(network.engine(0).gist().counters().last_node, 1);
}

#[test]
fn end_of_the_flow_is_the_last_node_at_once() {
    let (mut network, apps) = aware(2);
    apps[1].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert!(network.seen.is_empty());
    let calls = apps[1].calls();
    assert!(matches!(calls[0], Call::Notified { what: Notification::LastNode, .. }), "{calls:?}");
    assert!(matches!(calls[1], Call::Failed { failure: SendFailure::NoNextNode, .. }), "{calls:?}");
}

#[test]
fn nodes_without_gist_count_in_the_ip_distance() {
    let (mut network, apps) = line_through(&[
        Place::Aware(Config::default()),
        Place::Plain,
        Place::Plain,
        Place::Aware(Config::default()),
    ]);
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    let calls = apps[3].calls();
    assert!(
        calls.iter().any(|calls| matches!(calls, Call::Received { ip_distance: Some(3), .. })),
        "{calls:?}"
    );
    let views: Vec<_> = network.engine(0).gist().routing_states(0).collect();
    assert_eq!(views[0].1.ip_distance, Some(3));
}

/// An application that is no peer has the Query forwarded, optionally with other data.
#[test]
fn query_is_forwarded_with_new_data() {
    let (mut network, apps) = aware(3);
    apps[1].0.borrow_mut().pass = true;
    apps[1].0.borrow_mut().answer = b"seen by 1...".to_vec();
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    let calls = apps[2].calls();
    assert!(
        matches!(&calls[0], Call::MayPeer { data, hops: 62, .. } if data == b"seen by 1..."),
        "{calls:?}"
    );
    assert!(states(&network, 1).is_empty());
    let views: Vec<_> = network.engine(0).gist().routing_states(0).collect();
    assert_eq!(views[0].1.peer.as_ref().map(|peer| peer.address), Some(address("10.0.1.2")));
    assert_eq!(apps[2].received().len(), 0, "it was calls already");
}

/// A router without the application forwards the Query; the end of the flow reports that it has none.
#[test]
fn nodes_without_the_application_forward_or_refuse() {
    let mut network = Network::aware(3);
    let apps: Vec<Handle> = (0..3).map(|_| Handle::default()).collect();
    for node in [0, 2] {
        network.engine_mut(node).add(apps[node].application());
    }
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    assert_eq!(apps[2].received(), [b"one."]);

    let mut network = Network::aware(2);
    let app = Handle::default();
    network.engine_mut(0).add(app.application());
    app.send(network.flow(), session(1), b"one.");
    network.run(Duration::from_millis(100));
    assert_eq!(network.log(0), ["n0 Query", "n1 Error"]);
    let calls = app.calls();
    assert!(matches!(calls[0], Call::Failed { failure: SendFailure::NoNextNode, .. }), "{calls:?}");
    assert!(matches!(calls[1], Call::Notified { what: Notification::LastNode, .. }), "{calls:?}");
}

/// Refreshes are sent between half and three quarters of the validity, and keep the state of both sides.
#[test]
fn routing_state_is_refreshed_while_it_is_used() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    for _ in 0..10 {
        apps[0].send(mri, session(1), b"one.");
        network.run(30 * SECOND);
    }
    let queries = network.sent(0, MessageType::Query);
    let times: Vec<f64> = queries.iter().map(|seen| seen.at.as_secs_f64()).collect();
    for pair in times.windows(2) {
        assert!((15.0..22.6).contains(&(pair[1] - pair[0])), "{times:?}");
    }
    assert!(times.len() > 12);
    assert_eq!(network.sent(0, MessageType::Confirm).len(), 1, "a refresh needs no Confirm");
    assert_eq!(apps[1].received().len(), 10);
    assert_eq!(states(&network, 1), [State::EstablishedUpstream]);
}

/// A peer answers for as many sessions as the limit allows. Another one gets no next node, and those before it are refreshed.
#[test]
fn peer_at_its_limit_refreshes_what_it_has() {
    let limited = config(|config| config.limits.states_per_peer = 3);
    let (mut network, apps) = line_through(&[limited, Place::Aware(Config::default())]);
    let mri = network.flow();
    for number in 1..=4 {
        apps[0].send(mri, session(number), b"one.");
        network.run(SECOND);
    }
    network.run(9 * SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::NoNextNode]);
    network.run(60 * SECOND);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream; 3]);
    assert!(apps[0].failures().is_empty());
}

#[test]
fn unused_routing_state_expires() {
    let (mut network, apps) = aware(2);
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(200 * SECOND);
    assert!(states(&network, 0).is_empty() && states(&network, 1).is_empty());
    for app in &apps {
        let calls = app.calls();
        let last = calls.last().expect("something");
        assert!(
            matches!(
                last,
                Call::Notified {
                    what: Notification::RoutingStatusChange { status: Validity::Bad, peer: None },
                    ..
                }
            ),
            "{calls:?}"
        );
    }
    assert_eq!(network.engine(0).gist().counters().expired, 1);
    network.run(400 * SECOND);
    assert!(network.engine(0).gist().peers().is_empty());
}

#[test]
fn application_sets_the_lifetime_of_routing_state() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    apps[0].task(Task::Lifetime(mri, session(1), 600 * SECOND));
    network.run(500 * SECOND);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream]);
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(SECOND);
    assert!(states(&network, 0).is_empty());
    network.run(60 * SECOND);
    assert!(states(&network, 1).is_empty(), "nobody refreshes it");
}

/// The responding node loses its state: the next Data cause an error, and the handshake is repeated.
#[test]
fn peer_without_state_is_discovered_again() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    apps[1].task(Task::Lifetime(mri.inverted(), session(1), Duration::ZERO));
    network.run(SECOND);
    assert!(states(&network, 1).is_empty());
    let before = network.seen.len();
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    assert_eq!(
        network.log(before),
        ["n0 Data", "n1 Error", "n0 Query", "n1 Response", "n0 Confirm"]
    );
    apps[0].send(mri, session(1), b"tri.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [&b"one."[..], b"tri."]);
}

/// A Confirm is lost with its data: the next Data reveal it.
#[test]
fn lost_confirm_is_detected_by_data() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    network.loss = Some(Box::new(|_, count| count == 2));
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    assert!(states(&network, 1).is_empty());
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    apps[0].send(mri, session(1), b"tri.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"tri."]);
}

#[test]
fn installation_policies_delay_the_state() {
    for (installation, log) in [
        (Installation::Immediate, &["n0 Query", "n1 Response", "n0 Data"][..]),
        (Installation::Confirmed, &["n0 Query", "n1 Response", "n0 Confirm"]),
    ] {
        let (mut network, apps) = line_through(&[
            Place::Aware(Config::default()),
            config(|c| c.installation = installation),
        ]);
        let mri = network.flow();
        apps[0].send(mri, session(1), b"one.");
        network.run(SECOND);
        assert_eq!(network.log(0), log);
        assert_eq!(apps[1].received(), [b"one."]);
        assert_eq!(states(&network, 1), [State::EstablishedUpstream]);
    }
    // With the Confirm lost, the state that waits for it ends.
    let place = config(|c| c.installation = Installation::Confirmed);
    let (mut network, apps) = line_through(&[Place::Aware(Config::default()), place]);
    network.loss = Some(Box::new(|_, count| count == 2));
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert_eq!(states(&network, 1), [State::WaitConfirm]);
    network.run(10 * SECOND);
    assert!(states(&network, 1).is_empty());
}

/// Cookies that are replayed after their lifetime, or from another node, install nothing.
#[test]
fn replayed_or_stolen_confirm_installs_nothing() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    let confirm = network.sent(0, MessageType::Confirm)[0].packet.clone();
    apps[1].calls();
    network.inject(1, 1, confirm.clone());
    assert!(apps[1].calls().is_empty(), "again, and nothing happens");
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(100 * SECOND);
    assert!(states(&network, 1).is_empty());
    network.inject(1, 1, confirm.clone());
    assert!(states(&network, 1).is_empty(), "expired");
    let ignored = &network.engine(1).gist().counters().ignored;
    assert_eq!(ignored.get(&DropReason::Cookie), Some(&1));
}

/// Section 8.5: a wrong cookie may come from any spoofed address.
#[test]
fn wrong_cookie_is_reported_only_if_configured() {
    for report_cookies in [false, true] {
        let place = config(|config| config.report_cookies = report_cookies);
        let (mut network, apps) = line_through(&[Place::Aware(Config::default()), place]);
        apps[0].send(network.flow(), session(1), b"one.");
        network.run(SECOND);
        let confirm = network.sent(0, MessageType::Confirm)[0].packet.clone();
        network.run(90 * SECOND);
        let before = network.seen.len();
        network.inject(1, 1, confirm);
        let errors: Vec<(ErrorCode, u8)> = network.seen[before..]
            .iter()
            .filter_map(|seen| match seen.packet.message()?.body {
                Body::Error(body) => Some((body.error.code, body.error.subcode)),
                _ => None,
            })
            .collect();
        let calls = (ErrorCode::ObjectValue, subcode::object_value::INVALID_COOKIE);
        assert_eq!(errors, if report_cookies { vec![calls] } else { vec![] });
        let ignored = &network.engine(1).gist().counters().ignored;
        assert_eq!(ignored.get(&DropReason::Cookie), Some(&1));
    }
}

/// Upstream Queries are sent only if the source is a neighbor.
#[test]
fn upstream_queries_go_to_neighbors_only() {
    let (mut network, apps) = aware(3);
    let mri = network.flow().inverted();
    apps[2].send(mri, session(1), b"far.");
    network.run(SECOND);
    assert_eq!(apps[2].failures(), [SendFailure::NoUpstreamState]);
    apps[1].send(mri, session(2), b"near");
    network.run(SECOND);
    assert_eq!(network.log(0), ["n1 Query", "n0 Response", "n1 Confirm"]);
    assert_eq!(network.seen[0].packet.how.ttl, 255);
    assert_eq!(apps[0].received(), [b"near"]);
    apps[0].send(network.flow(), session(2), b"down");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"down"]);
}

#[test]
fn explicit_routing_reaches_a_peer_without_routing_state() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    let peer = apps[1].calls().into_iter().find_map(|calls| match calls {
        Call::Received { peer, .. } => peer,
        _ => None,
    });
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(60 * SECOND);
    let gone = SendMessage { to: peer, ..message(mri.inverted(), session(1)) };
    apps[1].task(Task::Send(gone, b"bye.".to_vec()));
    network.run(SECOND);
    let calls = apps[0].calls();
    assert!(
        matches!(calls.last(), Some(Call::Received { explicitly_routed: true, data, .. }) if data == b"bye."),
        "{calls:?}"
    );
    network.run(400 * SECOND);
    apps[1].task(Task::Send(gone, b"bye.".to_vec()));
    network.run(SECOND);
    assert_eq!(apps[1].failures(), [SendFailure::NoSuchPeer]);
}

#[test]
fn ipv6_handshake_works() {
    let (mut network, apps) = aware(3);
    for app in &apps {
        app.0.borrow_mut().pass = false;
    }
    apps[0].send(network.flow_six(), session(1), b"six.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"six."]);
    assert_eq!(network.log(0), ["n0 Query", "n1 Response", "n0 Confirm"]);
}

/// A Query-Cookie is live for one handshake (RFC 5971 section 8.5). The Response to an earlier one, with another node in it,
/// is a replay: it changes no peer, neither before the next Query nor while that waits for its Response. The peer
/// itself gets its Confirm again.
#[test]
fn response_counts_for_its_own_handshake_only() {
    let (mut network, apps) = aware(2);
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    let first = network.sent(1, MessageType::Response)[0].packet.clone();
    let mut replay = first.message().expect("a message");
    let Body::Response(response) = &mut replay.body else { panic!("a Response") };
    response.nli.peer_identity = b"evil";
    let (from, to, ttl) = (first.how.source, first.how.destination, first.how.ttl);
    let forged = forged::packet(from, to, ttl, &replay);
    let peers = |network: &Network| network.engine(0).gist().peers();
    let before = peers(&network);

    network.inject(0, 1, forged.clone());
    let ignored = |network: &Network, reason| {
        network.engine(0).gist().counters().ignored.get(&reason).copied().unwrap_or(0)
    };
    assert_eq!(ignored(&network, DropReason::Unexpected), 1);
    network.inject(0, 1, first.clone());
    assert_eq!(network.sent(0, MessageType::Confirm).len(), 2, "the first may have been lost");

    network.loss = Some(Box::new(|seen, _| seen.message_type() == Some(MessageType::Query)));
    while network.sent(0, MessageType::Query).len() == 1 {
        apps[0].send(network.flow(), session(1), b"used");
        network.run(SECOND);
    }
    for replayed in [forged, first] {
        network.inject(0, 1, replayed);
    }
    assert_eq!(ignored(&network, DropReason::Cookie), 2);
    assert_eq!(peers(&network).len(), before.len());
    network.loss = None;
    apps[0].send(network.flow(), session(1), b"last");
    network.run(SECOND);
    assert_eq!(apps[1].received().last().map(Vec::as_slice), Some(&b"last"[..]));
    assert_eq!(states(&network, 0), [State::EstablishedDownstream]);
}
