//! Messages that wait for each other (RFC 5974 section 4.6, figure 13): node 1 is the aggregator, node 2 the
//! deaggregator, nodes 0 and 3 are the ends of the flow.

use std::time::Duration;
use std::vec::Vec;

use earmark_wire::qos_nslp::iana::BindingCode;
use earmark_wire::qos_nslp::{
    BoundSessionId, BoundSessions, Extra, GenericFlags, MessageBinding, MessageId, Reserve, Rsn,
};

use super::*;
use crate::qos::qspec::{self, Purpose};

const AGGREGATE: SessionId = SessionId(*b"aggregate sessio");

/// Creates a RESERVE of node 1.
fn reserve(binding: MessageBinding, rate: Rate) -> Vec<u8> {
    let qspec = qspec::of_request(&RequestedQos::of(rate), Purpose::Reserve).expect("a QSPEC");
    let bound = [BoundSessionId { binding: BindingCode::Aggregate, session: AGGREGATE }];
    let message = Message::Reserve(Reserve {
        flags: GenericFlags::default(),
        tear: false,
        replace: true,
        rsn: Rsn { number: 0, epoch: 1 },
        rii: Some(4),
        refresh_period: None,
        bound: match binding {
            MessageBinding::Bound(_) => BoundSessions::Items(&bound),
            MessageBinding::Id(_) => BoundSessions::NONE,
        },
        summary: None,
        binding: Some(binding),
        info: None,
        classifier: None,
        qspec: Some(&qspec),
        extra: Extra::NONE,
    });
    emit(&message)
}

const fn name(bidirectional: bool) -> MessageId {
    MessageId { bidirectional, id: [3; 16] }
}

/// Delivers the RESERVE of the flow to node 2, where it waits for that of the aggregate.
fn deliver_bound(net: &mut Net, bidirectional: bool) {
    let path = mri(0, of_node(3), Direction::Downstream);
    let octets = reserve(MessageBinding::Bound(name(bidirectional)), mbps(1));
    net.deliver((1, 2, NSLPID), SESSION, path, &octets, false);
    net.run();
}

/// Delivers the RESERVE of the aggregate to node 2, where it ends.
fn deliver_aggregate(net: &mut Net, bidirectional: bool, rate: Rate) {
    let path = mri(1, of_node(2), Direction::Downstream);
    let octets = reserve(MessageBinding::Id(name(bidirectional)), rate);
    net.deliver((1, 2, NSLPID), AGGREGATE, path, &octets, false);
    net.run();
}

fn net() -> Net {
    let mut net = Net::of(4);
    net.unreachable = [0, 1].into();
    net
}

const GOES_ON: &str = "2>3 RESERVE 0 qspec rii bound";

#[test]
fn waiting_message_is_not_replaced_by_another_peer() {
    let mut net = net();
    deliver_bound(&mut net, false);
    let path = mri(3, of_node(0), Direction::Downstream);
    let octets = reserve(MessageBinding::Bound(name(false)), mbps(1));
    net.deliver((3, 2, NSLPID), SessionId([9; 16]), path, &octets, false);
    assert_eq!(net.nodes[2].qos.counters().dropped[&crate::qos::DropReason::OtherPeer], 1);
    deliver_aggregate(&mut net, false, mbps(1));
    assert!(net.lines().contains(&GOES_ON.into()));
}

#[test]
fn bound_message_waits_for_the_other() {
    let mut net = net();
    deliver_bound(&mut net, false);
    assert!(net.lines().is_empty());
    deliver_aggregate(&mut net, false, mbps(1));
    let lines = net.lines();
    assert_eq!(lines[..2], ["2>1 lost RESPONSE reservation successful", GOES_ON]);
    assert_eq!(net.held(2, RIGHT), mbps(1));
}

#[test]
fn bound_message_continues_if_the_other_has_arrived() {
    let mut net = net();
    deliver_aggregate(&mut net, false, mbps(1));
    net.lines();
    deliver_bound(&mut net, false);
    assert_eq!(net.lines()[0], GOES_ON);
}

#[test]
fn bound_message_times_out_with_a_response() {
    let mut net = net();
    deliver_bound(&mut net, false);
    net.advance(Duration::from_secs(1));
    // A retransmission restarts the wait.
    deliver_bound(&mut net, false);
    net.advance(Duration::from_millis(1_500));
    assert!(net.lines().is_empty());
    net.advance(Duration::from_secs(1));
    let answer = "2>1 lost RESPONSE mismatch between end-to-end and intra-domain RESERVE";
    assert_eq!(net.lines(), [answer]);
    assert_eq!(net.nodes[2].qos.session_count(), 0);
}

#[test]
fn bound_message_fails_with_the_other() {
    let mut net = net();
    deliver_bound(&mut net, false);
    let refusal = reserve(MessageBinding::Id(name(false)), mbps(1));
    // The QSPEC is truncated.
    let mut octets = refusal.clone();
    let qspec = octets.len() - 36;
    octets[qspec + 4] = 0x10;
    let path = mri(1, of_node(2), Direction::Downstream);
    net.deliver((1, 2, NSLPID), AGGREGATE, path, &octets, false);
    net.run();
    let lines = net.lines();
    assert!(lines.iter().any(|line| line.contains("mismatch between")), "{lines:?}");
    assert_eq!(net.held(2, RIGHT), Rate::ZERO);
}

/// The flag is set: each message waits for the other one.
#[test]
fn bidirectional_binding_waits_on_both_sides() {
    let mut net = net();
    deliver_aggregate(&mut net, true, mbps(1));
    assert!(net.lines().is_empty());
    deliver_bound(&mut net, true);
    let lines = net.lines();
    assert_eq!(lines[..2], [GOES_ON, "2>1 lost RESPONSE reservation successful"]);
    assert_eq!(net.nodes[2].qos.session_count(), 2);
    // The opposite order.
    let mut net = self::net();
    deliver_bound(&mut net, true);
    assert!(net.lines().is_empty());
    deliver_aggregate(&mut net, true, mbps(1));
    assert_eq!(net.nodes[2].qos.session_count(), 2);
}
