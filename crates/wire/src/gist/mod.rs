//! GIST, the transport of NSIS signalling (RFC 5971): messages between neighbours who know of signalling, with or
//! without a connection between them.
//!
//! A message is a common header of eight octets and [objects](crate::nsis) in a fixed order. Without a connection
//! (D-mode) it is one UDP datagram behind a magic number; over a connection (C-mode) messages follow each other without
//! anything between them:
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
//! - [`datagram`] and [`message_len`] find messages in datagrams and streams; [`Header`] reads the common header.
//! - A grammar says which objects a message of a type has, and in which order.
//! - [`Message::parse`] says what a message means, [`Message::emit`] is its inverse, [`forward`] passes a message on
//!   with everything in it that is not understood here.
//! - [`ParseError`] says what is wrong and where, and [`ParseError::answer`] what to say to the sender.
//!
//! # What the standard leaves open
//!
//! Decided here: an object out of order is answered as one that is not valid in this message (Object Type Error 3); SPI
//! and ports exclude each other in an MRI, as the grammar of section 5.8.1.1 has it; a prefix longer than the address and
//! an N-flag that is set are invalid combinations; extensibility flags of known objects only matter where they are AB=11;
//! data that are longer than one object go on in others of ours ([`Continuation`]);
//! objects that are passed on though unknown go behind those that are known. A flag S that is clear in C-mode, and an
//! NSLPID that is not zero in messages of no application, are not errors that one could name: they are read as they are.

mod bodies;
mod continuation;
mod emit;
mod error;
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
mod report;
mod stack;

pub use crate::nsis::SessionId;
pub use continuation::Continuation;
pub use error::{ErrorKind, Origin, ParseError, find_object, find_sender};
pub use forward::{ForwardError, forward, forward_with};
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
pub use report::{ErrorObject, Info, Infos, SHOWN, WireInfos};
pub use stack::{
    Profile, Profiles, ProtocolOptions, ProtocolOptionsList, Stack, StackConfiguration,
};
