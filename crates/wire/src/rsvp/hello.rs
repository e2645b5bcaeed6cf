//! Whether a neighbour is there, and still the same (RFC 3209 section 5; RFC 4558 sends the same messages between
//! addresses of nodes instead of interfaces).

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::frame::OBJECT_HEADER;
use super::iana::c_type;
use super::message::RawObject;

/// HELLO (class 22): asks a neighbour for a sign of life, or gives one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// Which of the two.
    pub kind: HelloKind,
    /// Src_Instance: a number that the sender changes when it restarts or has lost the neighbour. Zero is not allowed, and
    /// means to the receiver that communication was lost, so it is handed out.
    pub source_instance: u32,
    /// Dst_Instance: the number that the neighbour gave last, or zero.
    pub destination_instance: u32,
}

/// The two C-Types of HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HelloKind {
    /// HELLO REQUEST (C-Type 1).
    Request,
    /// HELLO ACK (C-Type 2).
    Ack,
}

impl Hello {
    /// Length of the object, octets.
    pub(super) const OBJECT_LEN: usize = OBJECT_HEADER + 8;
}

pub(super) fn hello(object: &RawObject<'_>) -> Result<Hello, ParseError> {
    let kind = match object.c_type() {
        c_type::HELLO_REQUEST => HelloKind::Request,
        c_type::HELLO_ACK => HelloKind::Ack,
        _ => return Err(object.error(ErrorKind::UnknownCType)),
    };
    match object.body().as_chunks::<4>() {
        ([source, destination], []) => Ok(Hello {
            kind,
            source_instance: u32::from_be_bytes(*source),
            destination_instance: u32::from_be_bytes(*destination),
        }),
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}
