//! Malformed messages, messages out of order, and messages from the wrong side; and the responses to them.

use std::vec::Vec;

use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::iana::{ProtocolError, TransientFailure};
use earmark_wire::qos_nslp::{
    Answers, Extra, GenericFlags, InfoSpec, Outcome, Reserve, Response, Rsn, Summary,
};

use super::*;
use crate::qos::DropReason;
use crate::qos::qspec::{self, Purpose};

/// Creates a RESERVE of a peer with its own sequence numbers.
fn reserve(number: u32, qspec: Option<&[u8]>) -> Reserve<'_> {
    let rsn = Rsn { number, epoch: 1 };
    Reserve { replace: true, rsn, qspec, ..earmark_testkit::messages::qos_nslp::RESERVE }
}

fn qspec(rate: Rate) -> Vec<u8> {
    qspec::of_request(&RequestedQos::of(rate), Purpose::Reserve).expect("a QSPEC")
}

/// Returns the middle one of three nodes, whose neighbors receive nothing; messages come from node 0.
fn middle() -> (Net, Mri) {
    let mut net = Net::of(3);
    net.unreachable = [0, 2].into();
    (net, mri(0, of_node(2), Direction::Downstream))
}

/// Returns the messages of node 1, without the mark that they were lost.
fn sent(net: &mut Net) -> Vec<String> {
    net.lines().iter().map(|line| line.replace("lost ", "")).collect()
}

#[test]
fn older_messages_change_nothing_and_newer_ones_do() {
    let (mut net, mri) = middle();
    let (two, three) = (qspec(mbps(2)), qspec(mbps(3)));
    net.deliver_from(0, 1, mri, &octets(reserve(5, Some(&two))));
    net.deliver_from(0, 1, mri, &octets(reserve(4, Some(&three))));
    assert_eq!(net.held(1, RIGHT), mbps(2));
    assert_eq!(net.nodes[1].qos.counters().dropped[&DropReason::OldRsn], 1);
    net.deliver_from(0, 1, mri, &octets(reserve(5, None)));
    assert_eq!(net.nodes[1].qos.counters().refreshed, 1);
    net.deliver_from(0, 1, mri, &octets(reserve(6, Some(&three))));
    assert_eq!(net.held(1, RIGHT), mbps(3));
    // A restarted neighbor has new sequence numbers.
    let again = Reserve { rsn: Rsn { number: 0, epoch: 2 }, ..reserve(0, Some(&two)) };
    net.deliver_from(0, 1, mri, &octets(again));
    assert_eq!(net.held(1, RIGHT), mbps(2));
    let expected = ["1>2 RESERVE 0 qspec", "1>2 RESERVE 1 qspec", "1>2 RESERVE 2 qspec"];
    assert_eq!(sent(&mut net), expected);
}

/// Section 5.3.1, section 5.4.1.
#[test]
fn refresh_of_unknown_session_asks_for_the_qspec() {
    let (mut net, mri) = middle();
    net.deliver_from(0, 1, mri, &octets(reserve(5, None)));
    assert_eq!(sent(&mut net), ["1>0 RESPONSE full QSPEC required"]);
    let two = qspec(mbps(2));
    net.deliver_from(0, 1, mri, &octets(reserve(5, Some(&two))));
    net.deliver_from(0, 1, mri, &octets(reserve(6, None)));
    assert_eq!(sent(&mut net)[1..], ["1>0 RESPONSE full QSPEC required"]);
    assert_eq!(net.held(1, RIGHT), mbps(2));
    // A tear for an unknown session gets no response.
    let tear = Reserve { tear: true, ..reserve(0, None) };
    net.deliver((0, 1, NSLPID), SessionId([1; 16]), mri, &octets(tear), false);
    assert!(sent(&mut net).is_empty());
}

/// Section 5.1.2.1.
#[test]
fn reserve_from_wrong_direction_is_refused() {
    let (mut net, mri) = middle();
    let two = qspec(mbps(2));
    net.deliver_from(0, 1, mri, &octets(reserve(0, Some(&two))));
    net.lines();
    net.deliver_from(2, 1, mri.inverted(), &octets(reserve(0, Some(&two))));
    assert_eq!(sent(&mut net), ["1>2 RESPONSE RESERVE received from wrong direction"]);
    assert_eq!(net.held(1, RIGHT), mbps(2));
}

#[test]
fn malformed_messages_get_error_responses() {
    let (mut net, mri) = middle();
    let two = qspec(mbps(2));
    let sound = octets(reserve(0, Some(&two)));
    let mut no_rsn = sound.clone();
    no_rsn.drain(4..16);
    let mut unknown = sound.clone();
    unknown.extend_from_slice(&[0x07, 0x77, 0, 0]);
    let mut cut = sound.clone();
    cut.truncate(cut.len() - 4);
    let mut version = sound.clone();
    version[20] = 0x10;
    let mut nonsense = sound.clone();
    nonsense[32..36].copy_from_slice(&f32::NAN.to_be_bytes());
    for (message, answer) in [
        (&no_rsn, "mandatory object missing"),
        (&unknown, "unknown object present"),
        (&cut, "wrong object length"),
        (&version, "incompatible QSPEC"),
        (&nonsense, "malformed QSPEC"),
    ] {
        net.deliver_from(0, 1, mri, message);
        assert_eq!(sent(&mut net), [format!("1>0 RESPONSE {answer}")]);
    }
    net.deliver_from(0, 1, mri, &[9, 0, 0, 0]);
    assert_eq!(sent(&mut net), ["1>0 RESPONSE illegal message type"]);
    // Responses to responses would never end.
    net.deliver_from(0, 1, mri, &[3, 0, 0, 0]);
    assert!(sent(&mut net).is_empty());
    assert_eq!(net.nodes[1].qos.session_count(), 0);
    assert_eq!(net.nodes[1].qos.counters().malformed.values().sum::<u64>(), 5);
}

#[test]
fn only_path_coupled_mri_can_be_reserved() {
    let (mut net, mri) = middle();
    let (source, destination) = mri.addresses();
    let direction = Direction::Downstream;
    let loose = Mri::LooseEnd(earmark_wire::gist::LooseEnd { source, destination, direction });
    net.deliver_from(0, 1, loose, &octets(reserve(0, Some(&qspec(mbps(2))))));
    assert_eq!(sent(&mut net), ["1>0 RESPONSE unknown MRI"]);
}

/// Section 5.4.1: only the peer of the session can tear it down.
#[test]
fn tear_by_another_peer_is_ignored() {
    let (mut net, mri) = middle();
    net.deliver_from(0, 1, mri, &octets(reserve(0, Some(&qspec(mbps(2))))));
    let tear = Reserve { tear: true, ..reserve(7, None) };
    net.deliver_from(2, 1, mri, &octets(tear));
    assert_eq!(net.held(1, RIGHT), mbps(2));
    assert_eq!(net.nodes[1].qos.counters().dropped[&DropReason::OtherPeer], 1);
    net.deliver_from(0, 1, mri, &octets(tear));
    assert_eq!(net.held(1, RIGHT), Rate::ZERO);
}

/// A list of sessions in a RESPONSE is about a list of the neighbour that gets it (section 5.3.6). A forwarded RESPONSE has none.
#[test]
fn forwarded_response_has_no_list_of_sessions() {
    let (mut net, mri) = middle();
    let two = qspec(mbps(2));
    let asks = Reserve { rii: Some(9), ..reserve(5, Some(&two)) };
    net.deliver_from(0, 1, mri, &octets(asks));
    let answers = Some(Answers::Rii(9));
    let response = Response {
        flags: GenericFlags::default(),
        answers,
        info: InfoSpec::new(Outcome::Success(Success::Reservation)),
        summary: Some(Summary { sessions: &[[3; 16]], rsns: None }),
        qspec: None,
        extra: Extra::NONE,
    };
    let data = earmark_testkit::messages::qos_nslp::emit(&Message::Response(response));
    net.deliver((2, 1, NSLPID), SESSION, mri.inverted(), &data, false);
    let forwarded = net.wire.pop_back().expect("a message to node 0").data;
    let Ok(Message::Response(forwarded)) = Message::parse(&forwarded) else {
        panic!("{forwarded:?}");
    };
    assert_eq!((forwarded.answers, forwarded.summary), (answers, None));
}

/// A QSPEC as long as the limit is reserved, and a longer one is refused.
#[test]
fn qspec_is_limited_in_length() {
    let two = qspec(mbps(2));
    for (limit, held) in [(two.len(), mbps(2)), (two.len() - 1, Rate::ZERO)] {
        let mut config = Config::default();
        config.limits.qspec = limit as u16;
        let mut net = Net::with(3, &|_| config.clone());
        net.unreachable = [0, 2].into();
        let path = mri(0, of_node(2), Direction::Downstream);
        net.deliver_from(0, 1, path, &octets(reserve(5, Some(&two))));
        assert_eq!(net.held(1, RIGHT), held, "{limit}");
    }
}

/// Responses without a request are dropped.
#[test]
fn responses_without_request_are_dropped() {
    let mut net = Net::of(2);
    net.reserve(0, request(0, of_node(1), mbps(2)));
    net.lines();
    let info = earmark_wire::qos_nslp::InfoSpec::new(Outcome::TransientFailure(
        TransientFailure::ReservationFailure,
    ));
    for answers in [None, Some(Answers::Rii(1)), Some(Answers::Rsn(Rsn { number: 0, epoch: 99 }))] {
        let octets = emit(&Message::Response(Response {
            flags: GenericFlags::default(),
            answers,
            info,
            summary: None,
            qspec: None,
            extra: Extra::NONE,
        }));
        net.deliver_from(1, 0, mri(0, of_node(1), Direction::Upstream), &octets);
    }
    assert_eq!(net.nodes[0].qos.counters().dropped[&DropReason::Unasked], 3);
    assert_eq!((net.held(0, RIGHT), net.lines().len()), (mbps(2), 0));
}

#[test]
fn limits_refuse_new_sessions_and_keep_old_ones() {
    let config = |number| {
        let mut config = Config::default();
        if number == 1 {
            config.limits.sessions = 1;
        }
        config
    };
    let mut net = Net::with(3, &config);
    net.reserve(0, request(0, of_node(2), mbps(1)));
    let other = Request { session: None, ..request(0, of_node(2), mbps(1)) };
    net.command(0, Command::Reserve { application: PEER_APP, request: other });
    let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
    let events = net.events(0);
    assert!(
        events.iter().any(|e| matches!(e, Event::Refused { outcome, .. } if *outcome == failure)),
        "{events:?}"
    );
    assert_eq!(net.all_held(), [1, 1, 0]);
}

/// A classifier must not use fields that the MRI lacks, or that traffic control cannot match.
#[test]
fn invalid_classifiers_are_refused() {
    let (mut net, mri) = middle();
    let two = qspec(mbps(2));
    let classifier = earmark_wire::qos_nslp::PacketClassifier(0xc0 | 0x08);
    let message = Reserve { classifier: Some(classifier), ..reserve(0, Some(&two)) };
    net.deliver_from(0, 1, mri, &octets(message));
    let code = ProtocolError::ErroneousValue.name();
    assert_eq!(sent(&mut net), [format!("1>0 RESPONSE {code}")]);
    let Mri::PathCoupled(path) = mri else { panic!("no path") };
    let by_dscp = Mri::PathCoupled(PathCoupled { ds_field: Some(46), ..path });
    net.deliver_from(0, 1, by_dscp, &octets(reserve(0, Some(&two))));
    assert_eq!(sent(&mut net), ["1>0 RESPONSE reservation failure"]);
}

/// A request that is retried reaches all nodes again: those before the one that has refused have released, too.
#[test]
fn retried_request_reserves_on_the_whole_path() {
    let mut net = Net::of(5);
    let capacity = LinkCapacity { bandwidth: mbps(10), reservable: mbps(1), mtu: 1_500 };
    net.nodes[3].ledger.set_link(RIGHT, capacity);
    let on_refusal = crate::qos::OnRefusal::Retry;
    net.reserve(0, Request { on_refusal, ..request(0, of_node(4), mbps(2)) });
    assert_eq!(net.all_held()[1..], [0; 4]);
    net.nodes[3].ledger.set_link(RIGHT, LinkCapacity { reservable: mbps(8), ..capacity });
    net.advance(Duration::from_secs(120));
    assert_eq!(net.all_held(), [2, 2, 2, 2, 0]);
}

/// The route changes and the next node vanishes while a tear is repeated. What the session held stays released, and the node
/// without a next one answers the tear.
#[test]
fn torn_session_reserves_nothing_when_its_next_node_vanishes() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.unreachable.push(2);
    net.command(0, Command::Release { application: APP });
    assert_eq!(net.all_held(), [0, 0, 2, 0], "the tear is lost");
    let hop = Hop { interface: LEFT, gateway: Some(of_node(2)), source: None };
    let prefix = Prefix::host(of_node(3));
    let old = Hop { interface: RIGHT, ..hop };
    assert!(net.nodes[1].routes.remove(&Route { prefix, metric: 0, hop: old }));
    net.nodes[1].routes.insert(Route { prefix, metric: 0, hop });
    net.right[1] = None;
    net.advance(Duration::from_secs(10));
    assert_eq!(net.all_held(), [0, 0, 2, 0]);
    assert!(matches!(net.events(0).last(), Some(Event::Released { application: APP })));
    net.advance(Duration::from_secs(600));
    net.assert_nothing_left();
}
