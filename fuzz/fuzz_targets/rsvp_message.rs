//! Any octets as an RSVP message: no panic, and what parses survives being written and read again.
#![no_main]

use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{Body, Message, Salvage, objects};
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

fn round_trip(octets: &[u8]) {
    let salvage = Salvage::scan(octets);
    let decoded = objects(octets).filter(Result::is_ok).count();
    match Message::parse(octets) {
        Err(error) => {
            let _ = (error.to_string(), error.report());
        }
        Ok(message) => {
            assert_eq!(salvage.session.as_ref(), Some(message.body.session()));
            assert!(decoded > 0);
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
