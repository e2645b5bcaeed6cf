//! RTCP, the control protocol of RTP (RFC 3550): compound packets of sender reports, receiver reports, source
//! descriptions, goodbyes and what applications add.
//!
//! Two layers. [`frames`] walks the packets of a compound and looks at their headers only; that is what a router needs
//! that reads one of them. [`Packet::parse`] says what a frame means, and [`Packet::emit`] is its inverse.
//! [`Compound::parse`] checks all of a compound at once. Nothing is copied: lists stay on the wire.

mod error;
mod frame;
pub mod iana;
mod packet;

pub use error::{ErrorKind, ParseError};
pub use frame::{Frame, Frames, HEADER, frames};
pub use iana::{ItemType, PacketType};
pub use packet::*;

/// Length of an RTP header without contributing sources or extension, octets (RFC 3550 section 5.1).
pub const RTP_HEADER: usize = 12;
