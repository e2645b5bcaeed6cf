//! Any octets as an RSVP message: no panic, what parses survives being written and read again, and it says the same with an
//! ignored object in it, and signed.
#![no_main]

use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{
    Body, ErrorCode, ErrorSpec, Integrity, Message, Object, PartialMessage, PolicyData, RsvpHop,
    UnknownObjects, objects, objects_in,
};
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
    if let Object::PolicyData(policy) = object {
        assert_eq!(again.object, *object);
        assert!(walk(policy) <= length);
    }
}

/// Decodes all of POLICY_DATA; returns the number of its parts.
fn walk(policy: &PolicyData<'_>) -> usize {
    let elements = policy.elements.iter().inspect(|element| {
        let _ = element.element_type();
    });
    policy.options.iter().count() + elements.count()
}

/// Whatever can be read of a message, its error can be answered.
fn answer(salvage: &PartialMessage<'_>) {
    let node = [10, 0, 0, 1].into();
    let hop = RsvpHop { address: node, lih: 1 };
    let error = ErrorSpec { node, flags: 0, code: ErrorCode::from_code(14), value: 0 };
    let mut room = [0; PartialMessage::MAX_ANSWER];
    if let Some(length) = salvage.emit_resv_err(&hop, &error, 9, &mut room).expect("there is room")
    {
        // An unknown style or form is answered as it was received.
        let read = objects(&room[..length]).all(|object| object.is_ok());
        let is_known = salvage.unknown == UnknownObjects::default();
        assert!(read || salvage.style().is_none() || !is_known);
    }
    if let Some(length) = salvage.emit_path_err(&error, 9, &mut room).expect("there is room") {
        let read = objects(&room[..length]).all(|object| object.is_ok());
        assert!(read || salvage.unknown != UnknownObjects::default());
    }
}

/// A NULL object at the end, which readers ignore, leads past the fast readers; and a signature is one more object.
fn read_otherwise(octets: &[u8], message: &Message<'_>) {
    if octets.len() > 60_000 || matches!(message.body, Body::Bundle(_)) {
        return;
    }
    let mut longer = [octets, &[0, 4, 0, 0]].concat();
    longer[2..4].fill(0);
    let length = longer.len() as u16;
    longer[6..8].copy_from_slice(&length.to_be_bytes());
    assert_eq!(Message::parse(&longer).as_ref(), Ok(message));
    // A challenge is never signed (RFC 2747 section 4.3).
    if message.integrity.is_some() || matches!(message.body, Body::IntegrityChallenge(_)) {
        return;
    }
    let digest = [7; 16];
    let integrity = Integrity { digest: &digest, ..Integrity::blank(0, 5, 6, digest.len()) };
    let mut signed = vec![0xa5; octets.len() + integrity.object_len()];
    assert_eq!(integrity.insert(octets, &mut signed), Ok(signed.len()));
    Integrity::seal(&mut signed, &digest).expect("it begins with an INTEGRITY");
    assert_eq!(Message::parse(&signed), Ok(Message { integrity: Some(integrity), ..*message }));
}

fn round_trip(octets: &[u8]) {
    let salvage = PartialMessage::scan(octets);
    answer(&salvage);
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
            read_otherwise(octets, &message);
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
