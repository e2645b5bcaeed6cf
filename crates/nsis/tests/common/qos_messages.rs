//! Messages of QoS NSLP about numbered sessions, for the measured routers.

use earmark_testkit::messages::qos_nslp::RESERVE;
use earmark_wire::gist::SessionId;
use earmark_wire::intserv::TokenBucket;
use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::{
    Answers, Extra, GenericFlags, InfoSpec, Message, Outcome, Reserve, Response, Rsn,
};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, Procedure, QosObject, Qspec, Value};

pub fn session(number: u32) -> SessionId {
    // As random as session identifiers.
    let mixed = u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    SessionId(mixed.to_be_bytes())
}

/// Returns the QSPEC of a sender with this token bucket.
pub fn qspec(bucket: TokenBucket) -> Vec<u8> {
    let desired = [Parameter::mandatory(Value::Tmod1(bucket))];
    let procedure = Procedure { sequence: MessageSequence::TwoWay, combination: 0 };
    let qspec = Qspec { desired: Some(QosObject::new(&desired)), ..Qspec::new(procedure) };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("a QSPEC");
    octets
}

/// Returns a RESERVE: with a QSPEC and an RII, or one that only refreshes or tears down its session.
pub fn reserve(number: u32, qspec: Option<&[u8]>, tear: bool) -> Vec<u8> {
    let rsn = Rsn { number: 0, epoch: 4_711 };
    let rii = qspec.map(|_| number);
    written(&Message::Reserve(Reserve { tear, replace: true, rsn, rii, qspec, ..RESERVE }))
}

/// Returns the RESPONSE of the receiver after a successful reservation.
pub fn response(number: u32) -> Vec<u8> {
    written(&Message::Response(Response {
        flags: GenericFlags::default(),
        answers: Some(Answers::Rii(number)),
        info: InfoSpec::new(Outcome::Success(Success::Reservation)),
        summary: None,
        qspec: None,
        extra: Extra::NONE,
    }))
}

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("a message");
    octets
}
