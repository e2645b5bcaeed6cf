//! The handshake in datagrams (RFC 5971 sections 4.4.1, 5.3 and 6), from node to node in virtual time.

mod common;

use std::time::Duration;

use common::application::{Do, Handle, Told, message};
use common::{Network, Place, address, line_through, session, states};
use earmark_nsis::Config;
use earmark_nsis::gist::{DropReason, Installation, machine::State};
use earmark_nsis::nslp::{Notification, SendFailure, SendMessage, Validity};
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{Body, ErrorCode, MessageType};

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
    let told = apps[1].told();
    assert!(matches!(&told[0], Told::Asked { ip_distance: Some(1), hops: 63, .. }), "{told:?}");
    assert!(
        matches!(
            &told[1],
            Told::Notified {
                what: Notification::RoutingStatusChange { status: Validity::Good, peer: Some(_) },
                ..
            }
        ),
        "{told:?}"
    );
    assert!(
        matches!(&told[2], Told::Received { data, peer: Some(_), ip_distance: Some(1), hops: 63, .. } if data == b"one."),
        "{told:?}"
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
fn lost_messages_are_repeated_with_backoff() {
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
fn repeated_queries_have_other_cookies_and_every_second_one_its_own_source() {
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
fn nobody_further_on_is_told_as_the_last_node() {
    let (mut network, apps) =
        line_through(&[Place::Aware(Config::default()), Place::Plain, Place::Plain]);
    let mri = network.flow();
    apps[0].task(Do::Send(
        SendMessage { timeout: 60 * SECOND, ..message(mri, session(1)) },
        b"one.".to_vec(),
    ));
    network.run(30 * SECOND);
    let told = apps[0].told();
    assert!(matches!(told[0], Told::Failed { failure: SendFailure::NoNextNode, .. }), "{told:?}");
    assert!(matches!(told[1], Told::Notified { what: Notification::LastNode, .. }), "{told:?}");
    assert_eq!(told.len(), 2);
    assert_eq!(network.engine(0).gist().counters().last_node, 1);
}

#[test]
fn the_end_of_the_flow_is_the_last_node_at_once() {
    let (mut network, apps) = aware(2);
    apps[1].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert!(network.seen.is_empty());
    let told = apps[1].told();
    assert!(matches!(told[0], Told::Notified { what: Notification::LastNode, .. }), "{told:?}");
    assert!(matches!(told[1], Told::Failed { failure: SendFailure::NoNextNode, .. }), "{told:?}");
}

#[test]
fn nodes_without_gist_are_passed_and_counted() {
    let (mut network, apps) = line_through(&[
        Place::Aware(Config::default()),
        Place::Plain,
        Place::Plain,
        Place::Aware(Config::default()),
    ]);
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    let told = apps[3].told();
    assert!(
        told.iter().any(|told| matches!(told, Told::Received { ip_distance: Some(3), .. })),
        "{told:?}"
    );
    let views: Vec<_> = network.engine(0).gist().routing_states(0).collect();
    assert_eq!(views[0].1.ip_distance, Some(3));
}

/// An application that is no peer has the Query forwarded, optionally with other data.
#[test]
fn a_query_is_passed_on_with_new_data() {
    let (mut network, apps) = aware(3);
    apps[1].0.borrow_mut().pass = true;
    apps[1].0.borrow_mut().answer = b"seen by 1...".to_vec();
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    let told = apps[2].told();
    assert!(
        matches!(&told[0], Told::Asked { data, hops: 62, .. } if data == b"seen by 1..."),
        "{told:?}"
    );
    assert!(states(&network, 1).is_empty());
    let views: Vec<_> = network.engine(0).gist().routing_states(0).collect();
    assert_eq!(views[0].1.peer.as_ref().map(|peer| peer.address), Some(address("10.0.1.2")));
    assert_eq!(apps[2].received().len(), 0, "it was told already");
}

/// A router without the application forwards the Query; the end of the flow reports that it has none.
#[test]
fn nodes_without_the_application() {
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
    let told = app.told();
    assert!(matches!(told[0], Told::Failed { failure: SendFailure::NoNextNode, .. }), "{told:?}");
    assert!(matches!(told[1], Told::Notified { what: Notification::LastNode, .. }), "{told:?}");
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

#[test]
fn routing_state_ends_where_nothing_uses_it() {
    let (mut network, apps) = aware(2);
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(200 * SECOND);
    assert!(states(&network, 0).is_empty() && states(&network, 1).is_empty());
    for app in &apps {
        let told = app.told();
        let last = told.last().expect("something");
        assert!(
            matches!(
                last,
                Told::Notified {
                    what: Notification::RoutingStatusChange { status: Validity::Bad, peer: None },
                    ..
                }
            ),
            "{told:?}"
        );
    }
    assert_eq!(network.engine(0).gist().counters().expired, 1);
    network.run(400 * SECOND);
    assert!(network.engine(0).gist().peers().is_empty());
}

#[test]
fn an_application_ends_routing_state_and_says_how_long_it_lives() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    apps[0].task(Do::Lifetime(mri, session(1), 600 * SECOND));
    network.run(500 * SECOND);
    assert_eq!(states(&network, 0), [State::EstablishedDownstream]);
    apps[0].task(Do::Lifetime(mri, session(1), Duration::ZERO));
    network.run(SECOND);
    assert!(states(&network, 0).is_empty());
    network.run(60 * SECOND);
    assert!(states(&network, 1).is_empty(), "nobody refreshes it");
}

/// The responding node loses its state: the next Data cause an error, and the handshake is repeated.
#[test]
fn a_peer_that_forgot_is_found_again() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    apps[1].task(Do::Lifetime(mri.inverted(), session(1), Duration::ZERO));
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
fn a_lost_confirm_is_found_out_by_data() {
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
fn other_policies_of_installation() {
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
fn a_confirm_that_is_replayed_or_stolen_installs_nothing() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    let confirm = network.sent(0, MessageType::Confirm)[0].packet.clone();
    apps[1].told();
    network.inject(1, 1, confirm.clone());
    assert!(apps[1].told().is_empty(), "again, and nothing happens");
    apps[0].task(Do::Lifetime(mri, session(1), Duration::ZERO));
    network.run(100 * SECOND);
    assert!(states(&network, 1).is_empty());
    network.inject(1, 1, confirm.clone());
    assert!(states(&network, 1).is_empty(), "expired");
    let ignored = &network.engine(1).gist().counters().ignored;
    assert_eq!(ignored.get(&DropReason::Cookie), Some(&1));
}

/// Section 8.5: a wrong cookie may come from any spoofed address.
#[test]
fn a_wrong_cookie_is_told_only_to_look_for_errors() {
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
        let told = (ErrorCode::ObjectValue, subcode::object_value::INVALID_COOKIE);
        assert_eq!(errors, if report_cookies { vec![told] } else { vec![] });
        let ignored = &network.engine(1).gist().counters().ignored;
        assert_eq!(ignored.get(&DropReason::Cookie), Some(&1));
    }
}

/// Upstream Queries are sent only if the source is a neighbor.
#[test]
fn upstream_queries_go_to_neighbours_only() {
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
fn explicit_routing_reaches_a_peer_whatever_the_state_says() {
    let (mut network, apps) = aware(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    let peer = apps[1].told().into_iter().find_map(|told| match told {
        Told::Received { peer, .. } => peer,
        _ => None,
    });
    apps[0].task(Do::Lifetime(mri, session(1), Duration::ZERO));
    network.run(60 * SECOND);
    let gone = SendMessage { to: peer, ..message(mri.inverted(), session(1)) };
    apps[1].task(Do::Send(gone, b"bye.".to_vec()));
    network.run(SECOND);
    let told = apps[0].told();
    assert!(
        matches!(told.last(), Some(Told::Received { explicitly_routed: true, data, .. }) if data == b"bye."),
        "{told:?}"
    );
    network.run(400 * SECOND);
    apps[1].task(Do::Send(gone, b"bye.".to_vec()));
    network.run(SECOND);
    assert_eq!(apps[1].failures(), [SendFailure::NoSuchPeer]);
}

#[test]
fn ipv6_works_alike() {
    let (mut network, apps) = aware(3);
    for app in &apps {
        app.0.borrow_mut().pass = false;
    }
    apps[0].send(network.flow_six(), session(1), b"six.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"six."]);
    assert_eq!(network.log(0), ["n0 Query", "n1 Response", "n0 Confirm"]);
}
