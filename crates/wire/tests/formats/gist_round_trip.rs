//! GIST as properties: emitted messages parse to the same value, and arbitrary octets neither panic nor parse to a
//! value that cannot be emitted.

use earmark_testkit::messages::gist::{kit, with_message};
use earmark_wire::gist::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Parses `octets`; a parsed message is emitted, and then parses to the same value.
fn round_trips(octets: &[u8], mode: Mode) {
    match Message::parse(octets, mode) {
        Ok(message) => {
            let mut wire = vec![0xa5; message.buffer_len()];
            assert_eq!(message.emit(&mut wire), Ok(wire.len()));
            assert!(wire.len() <= octets.len());
            assert_eq!(Message::parse(&wire, mode), Ok(message));
        }
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            if let Some(answer) = error.error_data(octets, mode) {
                let body = Body::Error(Error { nat_traversal: None, nli: None, error: answer });
                let extensions = Extensions::NONE;
                let message =
                    Message { hops: 1, nslpid: 0, source_is_peer: true, body, extensions };
                let mut wire = vec![0; message.buffer_len()];
                assert_eq!(message.emit(&mut wire), Ok(wire.len()));
                assert_eq!(Message::parse(&wire, Mode::C), Ok(message));
            }
        }
    }
}

proptest! {
    #[test]
    fn emitted_messages_parse_to_the_same_value(kit in kit()) {
        with_message(&kit, |message, mode| {
            let mut wire = vec![0xa5; message.buffer_len()];
            assert_eq!(message.emit(&mut wire), Ok(wire.len()));
            assert_eq!(Message::parse(&wire, mode).as_ref(), Ok(message));
            assert_eq!(message_len(&wire), Ok(Some(wire.len())));
            // Canonical octets are emitted unchanged.
            let parsed = Message::parse(&wire, mode).expect("it was just read");
            let mut again = vec![0x5a; parsed.buffer_len()];
            assert_eq!(parsed.emit(&mut again), Ok(wire.len()));
            assert_eq!(again, wire);
        });
    }

    /// A message with some octets changed, or truncated.
    #[test]
    fn damaged_messages_are_refused_or_round_trip(
        kit in kit(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        lost in 0..9_usize,
    ) {
        with_message(&kit, |message, mode| {
            let mut wire = vec![0; message.buffer_len()];
            assert_eq!(message.emit(&mut wire), Ok(wire.len()));
            for (at, octet) in &damage {
                let at = at.index(wire.len());
                wire[at] = *octet;
            }
            round_trips(&wire, mode);
            round_trips(&wire[..wire.len().saturating_sub(lost)], mode);
            let mut buffer = vec![0; wire.len() + MAGIC_LEN];
            if let Ok(len) = forward(&wire, &mut buffer) {
                round_trips(&buffer[MAGIC_LEN..len], Mode::D);
            }
        });
    }

    #[test]
    fn arbitrary_octets_do_not_panic(octets in vec(any::<u8>(), 0..300), c_mode in any::<bool>()) {
        round_trips(&octets, if c_mode { Mode::C } else { Mode::D });
        let _ = (datagram(&octets), message_len(&octets));
    }
}
