//! RSVP version 1 (RFC 2205): the common header, the messages and their objects. Beyond the seven messages of RFC 2205
//! these are the messages of refresh reduction (RFC 2961), Hello (RFC 3209), the integrity handshake (RFC 2747, 3097),
//! diagnostics (RFC 2745) and Notify (RFC 3473).
//!
//! A message is a common header of eight octets and objects, each with a class, a C-Type and a length. Four layers:
//!
//! - [`objects()`] iterates over the objects behind any RSVP header and decodes each separately, regardless of the
//!   message type, for tools that display messages.
//! - [`Message`] is a message as a value. [`Message::parse`] checks all that RFC 2205 demands and copies nothing: lists
//!   stay on the wire ([`List::Wire`]) and are decoded during iteration. [`Message::emit`] is its inverse.
//! - [`PolicyData`] is a POLICY_DATA object as a value (RFC 2750, 3181, 3182, 6401); messages carry it unexamined.
//! - [`PartialMessage`] has the readable parts of a malformed message, which an error message needs.
//!
//! [`ParseError::report`] selects the failures that RFC 2205 answers; most of them are only logged and counted.

mod bundle;
mod common_form;
mod control;
mod dclass;
mod decode;
mod diagnostics;
mod emit;
pub mod encapsulation;
mod error;
mod flows;
mod frame;
mod generic_aggregate;
mod hello;
pub mod iana;
mod identity;
mod integrity;
mod leading_objects;
mod list;
mod message;
mod notify;
mod object_writer;
mod objects;
mod parse;
mod partial_message;
mod policy;
mod refresh_reduction;
mod rules;
mod view;

pub use bundle::Bundle;
pub use dclass::Dscp;
pub use diagnostics::{DiagResponse, Diagnosis, Diagnostic, Route, Selected};
pub use error::{ErrorKind, ParseError};
pub use frame::{Carried, RawObject};
pub use generic_aggregate::GenericAggregate;
pub use hello::{Capability, Hello, HelloKind, HelloMessage, RestartCap};
pub use iana::{ErrorCode, MessageType, ObjectClass};
pub use identity::Attribute;
pub use integrity::{Challenge, Integrity};
pub use list::{Item, List, ListIter};
pub use message::*;
pub use notify::{Notify, NotifySession, NotifySubject};
pub use objects::*;
pub use partial_message::{PartialMessage, UnknownObjects};
pub use policy::*;
pub use refresh_reduction::*;
pub use view::{DecodedObject, Object, objects, objects_in};
