//! Any octets as a QoS NSLP message: no panic, what parses survives being written and read again, and what does not is
//! answered by a RESPONSE that parses.
#![no_main]

use earmark_wire::qos_nslp::{Answers, Extra, Message, RequestIds, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let request = RequestIds::find(octets);
    let message = match Message::parse(octets) {
        Ok(message) => message,
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            let mut room = [0; 4];
            return survives(&Message::Response(Response {
                flags: Default::default(),
                answers: request.rii.map(Answers::Rii).or(request.rsn.map(Answers::Rsn)),
                info: error.info_spec(&mut room),
                summary: None,
                qspec: None,
                extra: Extra::NONE,
            }));
        }
    };
    survives(&message);
});

fn survives(message: &Message<'_>) {
    let mut wire = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut wire), Ok(wire.len()));
    assert_eq!(Message::parse(&wire).as_ref(), Ok(message));
}
