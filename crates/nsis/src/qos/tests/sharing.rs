//! Flows that share the reservation of a session (RFC 5974 sections 3.2.5, 5.4.1 and 5.2.5): RESERVEs without REPLACE, of
//! one peer or of two (two SII-Handles).

use std::time::Duration;
use std::vec;
use std::vec::Vec;

use earmark_wire::qos_nslp::iana::TransientFailure;
use earmark_wire::qos_nslp::{
    Answers, Extra, GenericFlags, InfoSpec, Outcome, Reserve, Response, Rsn, RsnList, Summary,
};

use super::*;
use crate::qos::qspec::Purpose;
use crate::qos::request::qspec_of;

const EPOCH: u32 = 9;

/// Returns the first or second flow of the session, which ends at node 2, in the direction of RESERVEs.
fn flow_mri(number: u16, direction: Direction) -> Mri {
    let flow = udp_flow((of_node(0), 6_000 + number), (of_node(2), 5_000));
    Mri::PathCoupled(PathCoupled { direction, ..flow })
}

fn rsn(number: u32) -> Rsn {
    Rsn { number, epoch: EPOCH }
}

/// Returns a RESERVE without REPLACE.
fn reserve(number: u32) -> Reserve<'static> {
    Reserve { rsn: rsn(number), ..earmark_testkit::messages::qos_nslp::RESERVE }
}

fn full(number: u32) -> Vec<u8> {
    let qspec = qspec_of(&RequestedQos::of(mbps(2)), Purpose::Reserve).expect("a QSPEC");
    octets(Reserve { qspec: Some(&qspec), ..reserve(number) })
}

/// The node that the messages of a test reach, and the peers from which they come: `near` and, for the second
/// SII-Handle, `other`.
struct Case {
    direction: Direction,
    near: usize,
    other: usize,
}

/// The sender or the receiver is the QNI.
const CASES: [Case; 2] = [
    Case { direction: Direction::Downstream, near: 0, other: 3 },
    Case { direction: Direction::Upstream, near: 2, other: 3 },
];

/// Creates the network; node 1 has the first flow from `near` and the second one from `second`.
fn shared(case: &Case, second: usize) -> Net {
    let mut net = Net::of(4);
    net.right[2] = None;
    net.deliver_from(case.near, 1, flow_mri(0, case.direction), &full(0));
    let number = if second == case.near { 1 } else { 0 };
    net.deliver_from(second, 1, flow_mri(1, case.direction), &full(number));
    let claims = net.nodes[1].ledger.link(link(case)).expect("a link").claims;
    assert_eq!((claims, net.held(1, link(case))), (1, mbps(2)));
    net.lines();
    net.nodes[1].control.clear();
    net
}

/// Packets always leave node 1 to the right.
fn link(_: &Case) -> InterfaceId {
    RIGHT
}

fn refreshed(net: &Net) -> u64 {
    net.nodes[1].qos.counters().refreshed
}

#[test]
fn reduced_refreshes_of_both_flows_of_a_peer_are_accepted() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        // The first flow under its own number, and under that of the peer.
        for (flow, number) in [(0, 0), (1, 1), (0, 1), (0, 0), (1, 1)] {
            let before = refreshed(&net);
            let data = octets(reserve(number));
            net.deliver_from(case.near, 1, flow_mri(flow, case.direction), &data);
            assert_eq!(refreshed(&net), before + 1, "{:?} flow {flow}", case.direction);
            assert_eq!(net.lines(), Vec::<String>::new(), "{:?} flow {flow}", case.direction);
        }
        assert_eq!(net.nodes[1].control, Vec::<String>::new());
    }
}

/// An older number, and a newer one without a QSPEC, are what they are for any flow.
#[test]
fn numbers_of_the_former_flow_are_checked() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        let mri = flow_mri(0, case.direction);
        let before = refreshed(&net);
        net.deliver_from(case.near, 1, mri, &octets(reserve(u32::MAX)));
        assert_eq!(net.nodes[1].qos.counters().dropped[&crate::qos::DropReason::OldRsn], 1);
        net.deliver_from(case.near, 1, mri, &octets(reserve(2)));
        let lines = net.lines();
        assert_eq!(lines, [format!("1>{} RESPONSE full QSPEC required", case.near)]);
        assert_eq!(refreshed(&net), before);
    }
}

#[test]
fn reduced_refreshes_of_two_peers_are_accepted() {
    for case in &CASES {
        let mut net = shared(case, case.other);
        for _ in 0..20 {
            net.now = net.now + Duration::from_secs(30);
            for (peer, flow) in [(case.near, 0), (case.other, 1)] {
                let before = refreshed(&net);
                let mri = flow_mri(flow, case.direction);
                net.deliver_from(peer, 1, mri, &octets(reserve(0)));
                assert_eq!(refreshed(&net), before + 1, "{:?} flow {flow}", case.direction);
            }
            assert_eq!(net.lines(), Vec::<String>::new());
            net.call(1, Nslp::expire);
            net.run();
            net.lines();
        }
        assert_eq!(net.nodes[1].control, Vec::<String>::new());
        assert_eq!(net.held(1, link(case)), mbps(2));
    }
}

/// A peer has stopped, whichever: its flow ends, and the other one stays.
#[test]
fn flow_without_refreshes_ends_alone() {
    for case in &CASES {
        for (peer, flow) in [(case.near, 0), (case.other, 1)] {
            let mut net = shared(case, case.other);
            for _ in 0..10 {
                let mri = flow_mri(flow, case.direction);
                net.deliver_from(peer, 1, mri, &octets(reserve(0)));
                net.advance(Duration::from_secs(30));
            }
            let session = net.nodes[1].qos.session(SESSION).expect("there");
            assert_eq!(session.back, Some(handle(peer)), "{:?} flow {flow}", case.direction);
            assert_eq!(session.mri.source_port, Some(6_000 + flow));
            assert_eq!(net.nodes[1].control, ["remove", "install 2 2 Mbit/s"]);
            assert_eq!(net.held(1, link(case)), mbps(2));
            net.advance(Duration::from_secs(400));
            net.assert_nothing_left();
        }
    }
}

/// A refresh of another session of the peer lists this one.
#[test]
fn summary_of_the_former_peer_refreshes_its_flow() {
    for case in &CASES {
        let mut net = shared(case, case.other);
        let other = SessionId([7; 16]);
        let id = net.nodes[1].qos.id();
        let mri = flow_mri(0, case.direction);
        net.deliver((case.near, 1, id), other, mri, &full(0), false);
        net.run();
        net.lines();
        let rsns = RsnList { epoch: EPOCH, wire: &[0_u32.to_be_bytes()] };
        let summary = Summary { sessions: &[SESSION.0], rsns: Some(rsns) };
        let data = octets(Reserve { summary: Some(summary), ..reserve(0) });
        let before = refreshed(&net);
        net.deliver((case.near, 1, id), other, mri, &data, false);
        net.run();
        assert_eq!(refreshed(&net), before + 2, "{:?}", case.direction);
        assert_eq!(net.lines(), Vec::<String>::new());
    }
}

/// This node refreshes the next one for both flows, and the next one accepts that.
#[test]
fn both_flows_are_refreshed_at_the_next_node() {
    for case in &CASES {
        for second in [case.near, case.other] {
            let mut net = shared(case, second);
            let next = if case.direction == Direction::Downstream { 2 } else { 0 };
            for _ in 0..30 {
                let number = u32::from(second == case.near);
                for (peer, flow, number) in [(case.near, 0, 0), (second, 1, number)] {
                    let mri = flow_mri(flow, case.direction);
                    net.deliver_from(peer, 1, mri, &octets(reserve(number)));
                }
                net.advance(Duration::from_secs(30));
            }
            let lines = net.lines();
            let is_reduced = |line: &&String| line.contains("RESERVE") && !line.contains("qspec");
            let reduced = lines.iter().filter(is_reduced).count();
            assert!((40..80).contains(&reduced), "{reduced}: {lines:?}");
            assert!(lines.iter().all(|line| !line.contains("RESPONSE")), "{lines:?}");
            let shown = net.nodes[next].qos.session(SESSION).expect("there");
            assert_eq!(shown.mri.source_port, Some(6_001));
            let found = net.nodes[next].qos.store.find(SESSION).expect("there");
            let block = net.nodes[next].qos.store.session(found);
            assert_eq!(block.sharing().len(), 1, "{:?}", case.direction);
            assert_eq!(net.nodes[1].qos.counters().expired, 0);
        }
    }
}

/// The next node has lost the former flow: it asks for the QSPEC, and gets it for that flow.
#[test]
fn next_node_without_the_former_flow_gets_it_again() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        let next = if case.direction == Direction::Downstream { 2 } else { 0 };
        let found = net.nodes[next].qos.store.find(SESSION).expect("there");
        net.nodes[next].qos.store.session_mut(found).extra().sharing.clear();
        for _ in 0..3 {
            net.deliver_from(case.near, 1, flow_mri(1, case.direction), &octets(reserve(1)));
            net.advance(Duration::from_secs(30));
        }
        let block = net.nodes[next].qos.store.session(found);
        let flows = [block.mri, block.sharing()[0].mri].map(|mri| mri.source_port);
        assert!(flows.contains(&Some(6_000)) && flows.contains(&Some(6_001)), "{flows:?}");
    }
}

/// A tear ends its flow alone, here and further along; that of the last flow ends the session.
#[test]
fn tear_ends_one_flow() {
    for case in &CASES {
        for second in [case.near, case.other] {
            for first_torn in [0, 1] {
                let mut net = shared(case, second);
                let torn = |flow: u16| {
                    let peer = if flow == 0 { case.near } else { second };
                    let number = if flow == 1 && second == case.near { 1 } else { 0 };
                    (peer, flow_mri(flow, case.direction), number)
                };
                let (peer, mri, number) = torn(first_torn);
                let tear = |number| octets(Reserve { tear: true, ..reserve(number) });
                net.deliver_from(peer, 1, mri, &tear(number));
                let left = Some(6_000 + (1 - first_torn));
                let next = if case.direction == Direction::Downstream { 2 } else { 0 };
                for node in [1, next] {
                    let shown = net.nodes[node].qos.session(SESSION).expect("there");
                    assert_eq!(shown.mri.source_port, left, "node {node}");
                    let found = net.nodes[node].qos.store.find(SESSION).expect("there");
                    assert!(net.nodes[node].qos.store.session(found).sharing().is_empty());
                }
                assert_eq!(net.nodes[1].control, ["remove", "install 2 2 Mbit/s"]);
                assert_eq!(net.held(1, link(case)), mbps(2));
                let (peer, mri, number) = torn(1 - first_torn);
                net.deliver_from(peer, 1, mri, &tear(number));
                net.assert_nothing_left();
            }
        }
    }
}

/// The end of the session by a tear of its node ends all flows at the next node.
#[test]
fn end_of_the_session_ends_all_flows() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        // No refresh comes any more.
        net.unreachable = vec![case.near];
        net.advance(Duration::from_secs(170));
        net.assert_nothing_left();
    }
}

/// A RESERVE with REPLACE leaves its own flow only.
#[test]
fn replace_ends_the_other_flows() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        let qspec = qspec_of(&RequestedQos::of(mbps(2)), Purpose::Reserve).expect("a QSPEC");
        let data = octets(Reserve { qspec: Some(&qspec), replace: true, ..reserve(2) });
        net.deliver_from(case.near, 1, flow_mri(2, case.direction), &data);
        let found = net.nodes[1].qos.store.find(SESSION).expect("there");
        assert!(net.nodes[1].qos.store.session(found).sharing().is_empty());
        let before = refreshed(&net);
        net.deliver_from(case.near, 1, flow_mri(0, case.direction), &octets(reserve(1)));
        assert_eq!(refreshed(&net), before);
    }
}

/// The next node has lost the state of a further flow: that flow is sent in full, and no other one (section 5.4.1).
#[test]
fn full_qspec_is_sent_for_the_flow_that_requires_it() {
    for case in &CASES {
        let mut net = shared(case, case.near);
        let node = &net.nodes[1].qos;
        let session = node.store.session(node.store.find(SESSION).expect("there"));
        let further = Mri::PathCoupled(session.sharing()[0].mri);
        let known = Rsn { number: session.own_rsn, epoch: node.epoch };
        let failure = Outcome::TransientFailure(TransientFailure::FullQspecRequired);
        let response = Response {
            flags: GenericFlags::default(),
            answers: Some(Answers::Rsn(known)),
            info: InfoSpec::new(failure),
            summary: None,
            qspec: None,
            extra: Extra::NONE,
        };
        let data = earmark_testkit::messages::qos_nslp::emit(&Message::Response(response));
        net.deliver((2 - case.near, 1, NSLPID), SESSION, further.inverted(), &data, false);
        let sent: Vec<_> = net.wire.iter().map(|sent| sent.message.mri).collect();
        assert_eq!(sent, [further], "{:?}", case.direction);
        net.run();
        let lines = net.lines();
        assert_eq!(lines, [format!("1>{} RESERVE {} qspec", 2 - case.near, known.number)]);
    }
}

/// The number of flows is limited: the oldest gives way.
#[test]
fn flows_of_a_session_are_limited() {
    let mut net = Net::of(3);
    for flow in 0..20 {
        let mri = flow_mri(flow, Direction::Downstream);
        net.deliver_from(0, 1, mri, &full(flow.into()));
    }
    let found = net.nodes[1].qos.store.find(SESSION).expect("there");
    let sharing = net.nodes[1].qos.store.session(found).sharing();
    let ports: Vec<_> = sharing.iter().filter_map(|flow| flow.mri.source_port).collect();
    assert_eq!(ports, (6_011..6_019).collect::<Vec<_>>());
}
