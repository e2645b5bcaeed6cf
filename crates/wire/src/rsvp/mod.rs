//! RSVP version 1 (RFC 2205): the common header, the seven messages and their objects.

pub mod iana;
mod message;
mod objects;

pub use iana::{ErrorCode, MessageType};
pub use message::*;
pub use objects::*;
