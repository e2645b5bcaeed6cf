//! QSPECs without the maximum packet size, as other implementations send them (RFC 5975 section 5.2.1).

use std::vec;
use std::vec::Vec;

use earmark_wire::qos_nslp::{Query, Reserve, Rsn};
use earmark_wire::qspec::iana::ParameterId;
use earmark_wire::qspec::{Qspec, Value};

use super::*;
use crate::Tolerated;
use crate::qos::qspec::Purpose;
use crate::qos::request::qspec_of;

/// Returns the QSPEC of a request without the last word of its only parameter, TMOD-1.
fn short_qspec() -> Vec<u8> {
    let mut qspec = qspec_of(&RequestedQos::of(mbps(2)), Purpose::Reserve).expect("a QSPEC");
    assert_eq!(qspec.len(), 32);
    qspec.truncate(28);
    (qspec[3], qspec[7], qspec[11]) = (6, 5, 4);
    qspec
}

fn reserve(direction: Direction, is_strict: bool) -> Net {
    let mut net = Net::with(3, &|_| Config { strict: is_strict, ..Config::default() });
    let qspec = short_qspec();
    let rsn = Rsn { number: 0, epoch: 1 };
    let data = emit(&Message::Reserve(Reserve {
        rsn,
        rii: Some(1),
        replace: true,
        qspec: Some(&qspec),
        ..earmark_testkit::messages::qos_nslp::RESERVE
    }));
    let from = if direction == Direction::Downstream { 0 } else { 2 };
    net.deliver_from(from, 1, mri(0, of_node(2), direction), &data);
    net
}

#[test]
fn tmod_of_four_words_is_completed_and_counted() {
    for (direction, from, next) in [(Direction::Downstream, 0, 2), (Direction::Upstream, 2, 0)] {
        let net = reserve(direction, false);
        assert_eq!(net.held(1, RIGHT), mbps(2), "{direction:?}");
        // The next node gets a complete one, which it accepts as such; packets are as large as the link permits.
        assert_eq!(net.tolerated, [(1, handle(from), Tolerated::TmodLength)], "{direction:?}");
        let session = net.nodes[next].qos.session(SESSION).expect("there");
        let qspec = Qspec::parse(&session.qspec).expect("a QSPEC");
        let tmod = qspec.desired.and_then(|desired| desired.parameters.find(ParameterId::Tmod1));
        let Some(Value::Tmod1(bucket)) = tmod.map(|tmod| tmod.value) else { panic!("{tmod:?}") };
        assert_eq!(bucket.max_packet_size, 1_500, "{direction:?}");
    }
}

/// The minimum policed unit of a request is signalled, and never exceeds its largest packet.
#[test]
fn requested_minimum_policed_unit_is_signalled() {
    for (min_packet, max_packet, expected) in [(200, 1_000, 200), (200, 100, 100)] {
        let qos = RequestedQos { min_packet, max_packet, ..RequestedQos::of(mbps(2)) };
        let qspec = crate::qos::qspec::of_request(&qos, crate::qos::qspec::Purpose::Reserve);
        let qspec = qspec.expect("it is possible");
        let desired = Qspec::parse(&qspec).expect("a QSPEC").desired.expect("it is requested");
        let tmod = desired.parameters.find(ParameterId::Tmod1).map(|tmod| tmod.value);
        let Some(Value::Tmod1(bucket)) = tmod else { panic!("{tmod:?}") };
        assert_eq!((bucket.min_policed_unit, bucket.max_packet_size), (expected, max_packet));
    }
}

#[test]
fn strict_node_refuses_a_tmod_of_four_words() {
    for (direction, from) in [(Direction::Downstream, 0), (Direction::Upstream, 2)] {
        let mut net = reserve(direction, true);
        assert_eq!(net.nodes[1].qos.session_count(), 0);
        assert_eq!(net.lines(), [format!("1>{from} RESPONSE malformed QSPEC")]);
        assert!(net.tolerated.is_empty());
    }
}

/// A QUERY is passed on complete, and answered.
#[test]
fn query_with_a_tmod_of_four_words_is_answered() {
    let mut net = Net::of(3);
    let qspec = short_qspec();
    // QoS Available alone, of a resource query.
    let mut qspec = qspec;
    (qspec[1], qspec[2]) = (0x02, 0x00);
    qspec[5] = 1;
    let query = Message::Query(Query {
        flags: earmark_wire::qos_nslp::GenericFlags::default(),
        reserve_init: false,
        rii: Some(1),
        bound: earmark_wire::qos_nslp::BoundSessions::NONE,
        classifier: None,
        info: None,
        qspec: &qspec,
        second_qspec: None,
        extra: earmark_wire::qos_nslp::Extra::NONE,
    });
    let data = emit(&query);
    net.deliver_from(0, 1, mri(0, of_node(2), Direction::Downstream), &data);
    let expected = [
        "1>2 QUERY rii",
        "2>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.tolerated, vec![(1, handle(0), Tolerated::TmodLength)]);
}
