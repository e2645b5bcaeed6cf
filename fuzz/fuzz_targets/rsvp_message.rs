//! Any octets as an RSVP message: no panic, and what parses survives being written and read again.
#![no_main]

use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{Body, Integrity, Message, Object, PartialMessage, objects, objects_in};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    round_trip(octets);
    // Length and checksum hold a fuzzer up for long; with them mended it gets to what is behind.
    if let (8.., Ok(length)) = (octets.len(), u16::try_from(octets.len())) {
        let mut mended = octets.to_vec();
        mended[0] = 0x10;
        mended[2..4].fill(0);
        mended[6..8].copy_from_slice(&length.to_be_bytes());
        round_trip(&mended);
    }
});

/// An object by itself: what was read can be written, and POLICY_DATA is read again as the same.
fn emit_object(object: &Object<'_>) {
    let mut buffer = vec![0xa5; 1 << 16];
    let Ok(length) = object.emit(&mut buffer) else { return };
    let row = &buffer[..length];
    let again = objects_in(row).next().expect("one object").expect("what was written decodes");
    // ADSPECs differ in form, lists without addresses in family.
    if let Object::PolicyData(_) = object {
        assert_eq!(again.object, *object);
    }
}

fn round_trip(octets: &[u8]) {
    let salvage = PartialMessage::scan(octets);
    let decoded = objects(octets).flatten().map(|object| emit_object(&object.object)).count();
    match Message::parse(octets) {
        Err(error) => {
            let _ = (error.to_string(), error.report());
        }
        Ok(message) => {
            if let Some(session) = message.body.session() {
                assert_eq!(salvage.session.as_ref(), Some(session));
                assert!(decoded > 0);
            }
            if let Body::Bundle(bundle) = message.body {
                bundle.iter().for_each(round_trip);
            }
            assert!(message.integrity.is_none() || Integrity::covered(octets).is_some());
            // A flowspec left out is written again, so a message may grow; only past its length field is that refused.
            let mut wire = vec![0xa5; message.buffer_len()];
            let Ok(length) = message.emit(&mut wire) else {
                assert!(wire.len() > usize::from(u16::MAX));
                return;
            };
            assert_eq!(length, wire.len());
            assert_eq!(Message::parse(&wire).as_ref(), Ok(&message));
            if let Body::Path(path) = &message.body
                && let Some(body) = path.sender.adspec
            {
                let adspec = Adspec::parse(body).expect("it was checked with the message");
                let mut again = vec![0xa5; adspec.buffer_len()];
                assert_eq!(adspec.emit(&mut again), Ok(again.len()));
                assert!(Adspec::parse(&again).is_ok());
            }
        }
    }
}
