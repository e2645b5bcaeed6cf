//! Every written message parses.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_wire::boomerang::{Qos, Reservation};
use earmark_wire::icmp::HEADER;
use earmark_wire::rsvp::{Body, Message};
use earmark_wire::rtcp;

use super::*;

pub(in super::super) fn writer(protocol: Protocol) -> MessageWriter {
    let sessions = Sessions {
        count: SESSIONS,
        sender: [10, 0, 0, 1].into(),
        refresh: Duration::from_secs(30),
        reduction: false,
    };
    let (to, router) = ([10, 0, 1, 2].into(), [10, 0, 0, 2].into());
    MessageWriter { protocol, sessions, to, router }
}

#[test]
fn every_message_parses() {
    let mut octets = Vec::new();
    for number in [0, 24_999, 25_000, SESSIONS - 1] {
        let rsvp = writer(Protocol::Rsvp);
        assert!(rsvp.write(number, Step::SetUp, &mut octets).router_alert);
        let path = Message::parse(&octets).unwrap();
        assert_eq!(path.body.session().and_then(|it| rsvp.sessions.number(it)), Some(number));
        rsvp.write(number, Step::Release, &mut octets);
        assert!(matches!(Message::parse(&octets).unwrap().body, Body::PathTear(_)));
        let boomerang = writer(Protocol::Boomerang);
        for (step, rates) in [(Step::SetUp, RATE), (Step::Release, 0)] {
            boomerang.write(number, step, &mut octets);
            let reservation = Reservation::parse(&octets[HEADER..]).unwrap();
            assert_eq!(reservation.transaction_id, number);
            assert_eq!(reservation.qos, Qos::Bitrate(Rates { forward: rates, reverse: rates }));
        }
        let yessir = writer(Protocol::Yessir);
        let count = |step, octets: &mut Vec<u8>| {
            yessir.write(number, step, octets);
            let compound = rtcp::Compound::parse(&octets[udp::HEADER..]).unwrap();
            compound.packets().count()
        };
        assert_eq!(count(Step::SetUp, &mut octets), 3);
        assert_eq!(count(Step::Release, &mut octets), 4);
    }
}

/// The destination opens a socket for each RTCP port to which reports of some session go, and for no other.
#[test]
fn ports_of_the_destination_are_those_of_all_sessions() {
    let used: BTreeSet<u16> =
        (0..SESSIONS).map(|number| MessageWriter::ports_of(number)[1] + 1).collect();
    assert!(MessageWriter::ports().eq(used));
}
