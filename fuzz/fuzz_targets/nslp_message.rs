//! Any octets as a message of QoS NSLP, NATFW NSLP or Ping NSLP, or as a QSPEC: no panic, what parses survives being
//! written and read again, what a node changes in it leaves a message, and what does not parse is answered by a RESPONSE
//! that does.
#![no_main]

use earmark_wire::natfw_nslp::{self, PartialMessage};
use earmark_wire::ping_nslp::{NodeRecord, Ping, Timestamp, append, count_hop};
use earmark_wire::qos_nslp::{Answers, Extra, Message, RequestIds, Response};
use earmark_wire::qspec::{Editor, Qspec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    read_qos(octets);
    read_qspec(octets);
    read_natfw(octets);
    read_ping(octets);
});

fn read_qos(octets: &[u8]) {
    let request = RequestIds::find(octets);
    match Message::parse(octets) {
        Ok(message) => survives(&message),
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            let mut room = [0; 4];
            survives(&Message::Response(Response {
                flags: Default::default(),
                answers: request.rii.map(Answers::Rii).or(request.rsn.map(Answers::Rsn)),
                info: error.info_spec(&mut room),
                summary: None,
                qspec: None,
                extra: Extra::NONE,
            }));
        }
    }
}

fn survives(message: &Message<'_>) {
    let mut wire = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut wire), Ok(wire.len()));
    assert_eq!(Message::parse(&wire).as_ref(), Ok(message));
}

fn read_qspec(octets: &[u8]) {
    let qspec = match Qspec::parse(octets) {
        Ok(qspec) => qspec,
        Err(error) => {
            return assert!(error.offset <= octets.len() && !error.to_string().is_empty());
        }
    };
    let mut wire = vec![0xa5; qspec.buffer_len()];
    assert_eq!(qspec.emit(&mut wire), Ok(wire.len()));
    assert_eq!(Qspec::parse(&wire), Ok(qspec));
    if let Err(error) = qspec.validate() {
        let object = error.object.expect("values are in objects");
        let mut editor = Editor::new(&mut wire).expect("it was emitted");
        assert!(editor.fail(object, error.parameter));
        Qspec::parse(&wire).expect("flags do not break it");
    }
}

fn read_natfw(octets: &[u8]) {
    let found = PartialMessage::parse(octets);
    match natfw_nslp::Message::parse(octets) {
        Ok(message) => natfw_survives(&message),
        Err(error) => {
            assert!(error.offset <= octets.len() && !error.to_string().is_empty());
            if let Some(response) = error.response(&found) {
                natfw_survives(&natfw_nslp::Message::Response(response));
            }
        }
    }
}

fn natfw_survives(message: &natfw_nslp::Message<'_>) {
    let mut wire = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut wire), Ok(wire.len()));
    assert_eq!(natfw_nslp::Message::parse(&wire).as_ref(), Ok(message));
}

fn read_ping(octets: &[u8]) {
    let Ok(ping) = Ping::parse(octets) else { return };
    let length = ping.buffer_len();
    let mut written = vec![0xa5; length];
    assert_eq!(ping.emit(&mut written), Ok(length));
    assert_eq!(Ping::parse(&written), Ok(ping));
    let mut buffer = vec![0; ping.appended_len()];
    buffer[..length].copy_from_slice(&written);
    count_hop(&mut buffer[..length]).expect("it is a message");
    let time = Timestamp { seconds: 1, microseconds: 2 };
    let visit = NodeRecord { address: [192, 0, 2, 1].into(), time, available: Some(3) };
    let longer = append(&mut buffer, length, &visit).expect("it is a message");
    assert_eq!(longer, ping.appended_len());
    let after = Ping::parse(&buffer[..longer]).expect("it still is");
    assert_eq!(after.hops, ping.hops.saturating_add(1));
    assert_eq!(after.data[..ping.data.len()], *ping.data);
    after.records().for_each(|record| {
        let _ = (record.address(), record.time(), record.available());
    });
}
