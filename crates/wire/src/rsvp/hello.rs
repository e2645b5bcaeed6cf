//! HELLO: detects whether a neighbor is reachable and has not restarted (RFC 3209 section 5; RFC 4558 sends the same
//! messages between node addresses instead of interface addresses).

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::frame::{OBJECT_HEADER, RawObject};
use super::iana::c_type;

/// HELLO (class 22): request or acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hello {
    /// Request or acknowledgement.
    pub kind: HelloKind,
    /// Src_Instance: a number that the sender changes after a restart or the loss of the neighbor. Zero is not allowed
    /// and means lost communication to the receiver; it is parsed all the same.
    pub source_instance: u32,
    /// Dst_Instance: the last number received from the neighbor, or zero.
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
