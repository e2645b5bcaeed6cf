//! RSVP version 1 (RFC 2205): the common header, the messages and their objects. Beside the seven messages of RFC 2205
//! there are those of refresh reduction (RFC 2961), Hello (RFC 3209), the integrity handshake (RFC 2747, 3097) and
//! diagnostics (RFC 2745).
//!
//! A message is eight octets of common header and then objects, each with a class, a C-Type and a length. Four layers:
//!
//! - [`objects`] walks the objects of anything that has an RSVP header and decodes each by itself. It knows nothing of
//!   messages; tools that show what is on the wire use it.
//! - [`Message`] is what a message means. [`Message::parse`] checks all that RFC 2205 asks for and copies nothing:
//!   lists stay on the wire ([`List::Wire`]) and decode while they are iterated. [`Message::emit`] is its inverse.
//! - [`PolicyData`] is what a POLICY_DATA object means (RFC 2750, 3181, 3182, 6401), which messages only carry on.
//! - [`Salvage`] picks what it can out of a message that did not parse, so that an error can be sent to the right place.
//!
//! [`ParseError::report`] says which failures RFC 2205 wants answered; most of them are for the log and its counters.

mod bundle;
mod control;
mod dclass;
mod decode;
mod diagnostics;
mod emit;
mod error;
mod flows;
mod frame;
mod front;
mod hello;
pub mod iana;
mod identity;
mod integrity;
mod list;
mod message;
mod objects;
mod parse;
mod policy;
mod reduction;
mod rules;
mod salvage;
mod usual;
mod view;

pub use bundle::Bundle;
pub use dclass::Dscp;
pub use diagnostics::{DiagResponse, Diagnosis, Diagnostic, Route, Selected};
pub use error::{ErrorKind, ParseError};
pub use hello::{Hello, HelloKind};
pub use iana::{ErrorCode, MessageType, ObjectClass};
pub use identity::{Attribute, name_parts};
pub use integrity::{Challenge, Integrity};
pub use list::{Item, ListIter};
pub use message::*;
pub use objects::*;
pub use policy::*;
pub use reduction::*;
pub use salvage::Salvage;
pub use view::{DecodedObject, Object, objects, objects_of};
