//! HELLO: detects whether a neighbor is reachable and has not restarted (RFC 3209 section 5; RFC 4558 sends the same
//! messages between node addresses instead of interface addresses). RESTART_CAP and CAPABILITY beside it tell what the
//! sender does about a restart (RFC 3473 section 9.1, RFC 5063 section 4.2).

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::frame::{OBJECT_HEADER, RawObject};
use super::iana::{ObjectClass, c_type};
use super::object_writer::put_header;
use crate::writer::{EmitError, Writer};

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

/// The objects of a Hello message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloMessage {
    /// HELLO.
    pub hello: Hello,
    /// RESTART_CAP, if the sender supports state recovery.
    pub restart_cap: Option<RestartCap>,
    /// CAPABILITY, if the sender supports RecoveryPath messages.
    pub capability: Option<Capability>,
}

/// RESTART_CAP (class 131): how long a restart of the sender lasts, and its recovery after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartCap {
    /// Restart Time, milliseconds: until the sender can exchange Hellos again; [`RestartCap::INDETERMINATE`] for an
    /// interval without a limit.
    pub restart_ms: u32,
    /// Recovery Time, milliseconds: during which the sender gets its state again; zero if it has preserved nothing.
    pub recovery_ms: u32,
}

/// CAPABILITY (class 134): what the sender does with RecoveryPath messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Flags, 32 bits, kept as received.
    pub flags: u32,
}

impl From<Hello> for HelloMessage {
    fn from(hello: Hello) -> HelloMessage {
        HelloMessage { hello, restart_cap: None, capability: None }
    }
}

impl RestartCap {
    /// Restart Time of a restart that may last for any time.
    pub const INDETERMINATE: u32 = u32::MAX;
    /// Length of the object, octets.
    const OBJECT_LEN: usize = OBJECT_HEADER + 8;

    pub(super) fn parse(object: &RawObject<'_>) -> Result<RestartCap, ParseError> {
        if object.c_type() != c_type::RESTART_CAP {
            return Err(object.error(ErrorKind::UnknownCType));
        }
        let (restart_ms, recovery_ms) = two_words(object)?;
        Ok(RestartCap { restart_ms, recovery_ms })
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_header(w, ObjectClass::RestartCap, c_type::RESTART_CAP, 8)?;
        w.put(self.restart_ms.to_be_bytes())?;
        w.put(self.recovery_ms.to_be_bytes())
    }
}

impl Capability {
    /// RecoveryPath Transmit Enabled (T): the sender sends RecoveryPath messages.
    pub const RECOVERY_PATH_TRANSMIT: u32 = 4;
    /// RecoveryPath Desired (R): the sender wants to receive RecoveryPath messages.
    pub const RECOVERY_PATH_DESIRED: u32 = 2;
    /// RecoveryPath Srefresh Capable (S): the sender processes summary refreshes with the RecoveryPath flag.
    pub const RECOVERY_PATH_SREFRESH: u32 = 1;
    /// Length of the object, octets.
    const OBJECT_LEN: usize = OBJECT_HEADER + 4;

    pub(super) fn parse(object: &RawObject<'_>) -> Result<Capability, ParseError> {
        if object.c_type() != c_type::CAPABILITY {
            return Err(object.error(ErrorKind::UnknownCType));
        }
        let flags = object.body().try_into().map_err(|_| object.error(ErrorKind::ObjectSize))?;
        Ok(Capability { flags: u32::from_be_bytes(flags) })
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_header(w, ObjectClass::Capability, c_type::CAPABILITY, 4)?;
        w.put(self.flags.to_be_bytes())
    }
}

impl HelloMessage {
    /// Length of the objects, octets.
    pub(super) fn objects_len(&self) -> usize {
        OBJECT_HEADER
            + 8
            + self.restart_cap.map_or(0, |_| RestartCap::OBJECT_LEN)
            + self.capability.map_or(0, |_| Capability::OBJECT_LEN)
    }

    pub(super) fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_hello(w, &self.hello)?;
        if let Some(restart_cap) = &self.restart_cap {
            restart_cap.put(w)?;
        }
        self.capability.as_ref().map_or(Ok(()), |capability| capability.put(w))
    }
}

pub(super) fn hello(object: &RawObject<'_>) -> Result<Hello, ParseError> {
    let kind = match object.c_type() {
        c_type::HELLO_REQUEST => HelloKind::Request,
        c_type::HELLO_ACK => HelloKind::Ack,
        _ => return Err(object.error(ErrorKind::UnknownCType)),
    };
    let (source_instance, destination_instance) = two_words(object)?;
    Ok(Hello { kind, source_instance, destination_instance })
}

pub(super) fn put_hello(w: &mut Writer<'_>, hello: &Hello) -> Result<(), EmitError> {
    let c_type = match hello.kind {
        HelloKind::Request => c_type::HELLO_REQUEST,
        HelloKind::Ack => c_type::HELLO_ACK,
    };
    put_header(w, ObjectClass::Hello, c_type, 8)?;
    w.put(hello.source_instance.to_be_bytes())?;
    w.put(hello.destination_instance.to_be_bytes())
}

/// Returns the two numbers that are the body of an object.
fn two_words(object: &RawObject<'_>) -> Result<(u32, u32), ParseError> {
    match object.body().as_chunks::<4>() {
        ([first, second], []) => Ok((u32::from_be_bytes(*first), u32::from_be_bytes(*second))),
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}
