//! Any octets as a GIST message: no panic, what parses survives being written and read again, what does not is answered by
//! an Error that can be sent, and what is passed on stays well formed.
#![no_main]

use earmark_wire::gist::{
    Body, Error, Extensions, HEADER, MAGIC_LEN, Message, Mode, ObjectType, datagram, find_object,
    find_sender, forward, forward_with_data, message_len,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let _ = (datagram(octets), message_len(octets));
    for mode in [Mode::D, Mode::C] {
        round_trip(octets, mode);
    }
    // Version, length and flags hold a fuzzer up for long; with them mended it gets to the objects.
    if octets.len() >= HEADER && octets.len() < 0x4_0000 {
        let mut mended = octets.to_vec();
        mended.truncate(octets.len() & !3);
        mended[0] = 1;
        let words = ((mended.len() - HEADER) / 4) as u16;
        mended[2..4].copy_from_slice(&words.to_be_bytes());
        (mended[6], mended[7]) = match mended[6] % 6 {
            0 => (0x80, 0x40),
            5 => (5, mended[7] & 0x40),
            1 => (1, 0x40),
            other => (other, 0),
        };
        for mode in [Mode::D, Mode::C] {
            round_trip(&mended, mode);
        }
    }
});

fn round_trip(octets: &[u8], mode: Mode) {
    match Message::parse(octets, mode) {
        Ok(message) => {
            let wire = emit(&message);
            assert!(wire.len() <= octets.len());
            assert_eq!(Message::parse(&wire, mode), Ok(message));
        }
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            if let Some(error) = error.error_data(octets, mode) {
                let body = Body::Error(Error { nat_traversal: None, nli: None, error });
                let answer = Message {
                    hops: 1,
                    nslpid: 0,
                    source_is_peer: true,
                    body,
                    extensions: Extensions::NONE,
                };
                assert_eq!(Message::parse(&emit(&answer), Mode::C), Ok(answer));
            }
        }
    }
    let _ = (find_sender(octets), find_object(octets, ObjectType::NslpData));
    let mut passed = vec![0; octets.len() + MAGIC_LEN];
    if let Ok(len) = forward(octets, &mut passed) {
        let message = datagram(&passed[..len]).expect("behind the magic number");
        assert!(Message::parse(message, Mode::D).is_ok());
    }
    let is_query = |message: &Message<'_>| matches!(message.body, Body::Query(_));
    let mut passed = vec![0; octets.len() + MAGIC_LEN + 64];
    if Message::parse(octets, Mode::D).is_ok_and(|message| is_query(&message))
        && let Ok(len) = forward_with_data(octets, b"data", &mut passed)
    {
        let message = datagram(&passed[..len]).expect("behind the magic number");
        assert!(Message::parse(message, Mode::D).is_ok());
    }
}

fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut wire = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut wire), Ok(wire.len()));
    wire
}
