//! QoS NSLP as properties: emitted messages parse to the same value, and arbitrary octets do not panic.

use earmark_testkit::damage::flip;
use earmark_testkit::messages::qos_nslp::{emit, owned};
use earmark_wire::qos_nslp::*;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn emitted_messages_parse_to_the_same_value(owned in owned()) {
        owned.with(|message| {
            let octets = emit(message);
            let read = Message::parse(&octets).expect("it was emitted");
            assert_eq!(&read, message);
            assert_eq!(emit(&read), octets);
        });
    }

    #[test]
    fn arbitrary_octets_do_not_panic(octets in vec(any::<u8>(), 0..200)) {
        round_trips(&octets);
    }

    #[test]
    fn damaged_messages_do_not_panic(owned in owned(), damage in vec(any::<(u16, u8)>(), 1..4)) {
        let mut octets = owned.with(emit);
        flip(&mut octets, &damage);
        round_trips(&octets);
    }
}

/// Parsed messages round-trip; malformed ones have an INFO-SPEC that parses.
fn round_trips(octets: &[u8]) {
    let request = RequestIds::find(octets);
    match Message::parse(octets) {
        Ok(message) => assert_eq!(Message::parse(&emit(&message)), Ok(message)),
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            let mut room = [0; 4];
            let answer = Message::Response(Response {
                flags: GenericFlags::default(),
                answers: request.rii.map(Answers::Rii),
                info: error.info_spec(&mut room),
                summary: None,
                qspec: None,
                extra: Extra::NONE,
            });
            assert_eq!(Message::parse(&emit(&answer)), Ok(answer));
        }
    }
}
