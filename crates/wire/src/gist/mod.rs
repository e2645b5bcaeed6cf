//! GIST, the transport of NSIS signalling (RFC 5971): messages between adjacent GIST nodes, with or without a
//! connection between them.
//!
//! A message is a common header of eight octets and [objects](crate::nsis) in a fixed order. Without a connection
//! (D-mode) it is one UDP datagram behind a magic number; over a connection (C-mode) messages follow each other without
//! separators:
//!
//! ```text
//! D-mode: UDP, 4e 04 bd a5, common header, objects        C-mode: common header, objects, common header, objects, ...
//!
//!  Version, GIST hops, Message Length: words behind this header
//!  NSLPID, C and Type, S R E and reserved bits
//! ```
//!
//! Four layers, from the outside in:
//!
//! - [`datagram`] and [`message_len`] find messages in datagrams and streams; [`Header`] parses the common header.
//! - The grammar lists the objects of each message type and their order.
//! - [`Message::parse`] and [`Message::emit`] are inverse to each other; [`forward()`] passes a message on with all
//!   objects that are unknown here.
//! - [`ParseError`] names the fault and its offset; [`ParseError::error_data`] returns the contents of the Error message for the
//!   sender.
//!
//! # What the standard leaves open
//!
//! Earmark's decisions:
//!
//! - An object out of order is answered as an object that is not valid in this message (Object Type Error 3).
//! - SPI and ports exclude each other in an MRI, as in the grammar of section 5.8.1.1.
//! - A prefix longer than the address and an N-flag that is set are invalid combinations.
//! - The extensibility flags of known objects count only if they are AB=11.
//! - Data longer than one object continue in objects of our own ([`Continuation`]).
//! - Unknown objects to be forwarded follow the known ones.
//! - No error code exists for a clear S-flag in C-mode and for a nonzero NSLPID in messages of no application: they are
//!   accepted.

mod bodies;
mod continuation;
mod emit;
mod error;
mod error_answer;
mod error_data;
mod forward;
mod frame;
mod grammar;
mod header;
pub mod iana;
mod message;
mod mri;
mod nat;
mod nli;
mod reader;
mod stack;

pub use crate::nsis::SessionId;
pub use continuation::Continuation;
pub use error::{ErrorKind, LengthMismatch, Origin, ParseError};
pub use error_answer::{find_nat_traversal, find_object, find_sender};
pub use error_data::{ErrorData, Info, Infos, MAX_OBJECT_SHOWN, WireInfos};
pub use forward::{ForwardError, forward, forward_with_data};
pub use frame::{MAGIC_LEN, datagram, emit_magic, message_len};
pub use grammar::Mode;
pub use header::{Flags, HEADER, Header};
pub use iana::{
    ErrorClass, ErrorCode, InfoType, MessageType, ObjectType, ProtocolId, RoutingMethod,
};
pub use message::{
    Body, Confirm, Data, Error, Extension, Extensions, Hello, Message, Query, ResponderPart,
    Response, Returned,
};
pub use mri::{Direction, LooseEnd, Mri, PathCoupled};
pub use nat::{NatTraversal, Opaque, Translated};
pub use nli::NetworkLayerInformation;
pub use stack::{
    Profile, Profiles, ProtocolOptions, ProtocolOptionsList, Stack, StackConfiguration,
};
