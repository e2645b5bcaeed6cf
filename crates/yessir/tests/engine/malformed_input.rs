//! Malformed input: arbitrary octets, and damaged reports with a valid checksum. A router forwards them and holds no
//! more than its limits; a receiver reads its answers.

use earmark_wire::udp;
use earmark_wire::yessir::has_message;
use earmark_yessir::library::read_answer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{Arrival, Ask, DOWN, Node, UP, address};

/// Writes the UDP lengths and checksum again.
fn sealed(mut arrival: Arrival) -> Arrival {
    let Arrival { source, destination, .. } = arrival;
    let header = udp::Repr { source, destination, source_port: 4_001, destination_port: 5_001 };
    header.emit(&mut arrival.octets).expect("it has a header");
    arrival
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn malformed_input_does_no_harm(
        malformed in vec(any::<u8>(), 0..200),
        damage in vec((any::<Index>(), any::<u8>()), 0..5),
        end in proptest::option::of(any::<Index>()),
        known: bool,
        local: bool,
    ) {
        let mut node = Node::new();
        let ask = Ask::rate(1, 2.0);
        node.arrive(&ask.arrival());
        prop_assert_eq!(node.held(DOWN), 2_000_000);
        let mut damaged = if known { ask.arrival() } else { Ask::rate(2, 1.0).arrival() };
        let length = damaged.octets.len() - udp::HEADER;
        for (at, octet) in damage {
            damaged.octets[udp::HEADER + at.index(length)] = octet;
        }
        if let Some(end) = end {
            damaged.octets.truncate(udp::HEADER + end.index(length));
        }
        let random = Arrival { octets: [&[0; udp::HEADER][..], &malformed].concat(), ..damaged.clone() };
        let raw = Arrival { octets: malformed, ..damaged.clone() };
        for mut arrival in [sealed(damaged), sealed(random), raw] {
            if local {
                arrival.destination = address("10.0.9.1");
            }
            node.sent.clear();
            node.arrive(&arrival);
            // A packet without YESSIR is not for its engine.
            let carried = |packet: udp::Packet<'_>| has_message(packet.payload);
            let goes_on = !local && udp::Packet::parse(&arrival.octets).is_ok_and(carried);
            prop_assert!(node.sent.len() <= 1 && (!goes_on || node.sent.len() == 1));
            prop_assert!(node.sent.iter().all(|sent| sent.octets.len() <= arrival.octets.len() + 64));
            prop_assert!(node.held(DOWN) <= 5_000_000 && node.held(UP) <= 5_000_000);
            let payload = arrival.octets.get(udp::HEADER..).unwrap_or_default();
            if let Err(error) = read_answer(payload, 7) {
                prop_assert!(error.offset <= payload.len(), "{}", error);
            }
        }
        // An interval has a maximum, and a few of them end what is not refreshed.
        node.advance(10.0 * f64::from(u16::MAX));
        prop_assert_eq!((node.engine.session_count(), node.held(DOWN)), (0, 0));
    }
}
