//! RTCP, the control protocol of RTP (RFC 3550): compound packets of sender reports, receiver reports, source
//! descriptions, goodbyes and application-defined packets.
//!
//! Two layers. [`frames`] iterates over the packets of a compound and parses their headers only, for routers that read
//! one of them. [`Packet::parse`] parses a frame; [`Packet::emit`] is its inverse. [`Compound::parse`] checks a whole
//! compound. Nothing is copied: lists stay on the wire.

mod error;
mod frame;
pub mod iana;
mod packet;

pub use error::{ErrorKind, ParseError};
pub use frame::{Frame, Frames, HEADER, frames};
pub use iana::{ItemType, PacketType};
pub use packet::*;

/// Length of an RTP header without contributing sources and extension, octets (RFC 3550 section 5.1).
pub const RTP_HEADER: usize = 12;
