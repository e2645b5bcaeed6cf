//! NATFW NSLP (RFC 5973): the signalling application of NSIS that configures NATs and firewalls.
//!
//! GIST carries a message in its NSLP-Data object. A message is a header of one word and a list of
//! [objects](crate::nsis):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! | Message Type  |P|E| reserved  |           reserved            |
//! //                           Objects                           //
//! ```
//!
//! CREATE opens the path of a flow, from the data sender to the data receiver; EXTERNAL reserves an address at the edge
//! NAT, or blocks data at the edge firewall, from the data receiver outwards. Both also refresh, change and delete sessions.
//! RESPONSE answers one of them; NOTIFY reports an event without a request.
//!
//! - [`Message::parse`] and [`Message::emit`] are inverse to each other. Objects are accepted in any order and written in
//!   that of section 4.3. Nothing is copied: lists and unknown objects stay on the wire.
//! - [`PartialMessage::parse`] and [`ParseError::response`] return the RESPONSE to a malformed message, if it gets one.
//!
//! All addresses in objects are those of IPv4, because RFC 5973 defines no form for others; an object of another IP version
//! is an error of the kind [`ErrorKind::IpVersion`].
//!
//! Decisions where RFC 5973 is silent or ambiguous:
//!
//! - Reserved bits are ignored, as sections 3.3 and 4.1 demand; code 0x03 (bad flags value) therefore never occurs. The
//!   header has no length; code 0x02 (wrong message length) is for octets that are too few for a header.
//! - A and B of known objects are ignored unless both are set, which section 4.2 forbids for all objects.
//! - Section 3.5 demands a message sequence number in every message, and section 4.3.4 lists none for NOTIFY. It is optional
//!   there.
//! - An EXTERNAL without NATFW_DTINFO is answered by the code of missing objects (section 4.3), and not by that of a NAT that
//!   needs one (section 3.7.2), because the syntax is checked first (section 3.3).
//! - NOTIFY has the class Informational and RESPONSE does not (sections 3.2.7, 3.7.5). Unknown classes are kept in RESPONSE
//!   and count as failures.
//! - NATFW_EXTERNAL_BINDING of an EXTERNAL may have no address: this is how an initiator requests them.
//! - The nonce has 32 bits, and section 3.7.6.1 demands that it is the session identifier, which has 128:
//!   [`Nonce::of_session`] returns the first word.
//! - A RESPONSE to a message without a sequence number has the number 0, because section 4.3.3 requires one.

mod collect;
mod data_terminal;
mod emit;
mod error;
mod extra;
mod header;
pub mod iana;
mod info;
mod message;
mod objects;
mod partial_message;

pub use crate::nsis::SessionId;
pub use crate::nsis::extra::ExtraObject;
pub use data_terminal::{DataTerminal, TransportSelector};
pub use error::{ErrorKind, ParseError};
pub use extra::{Extra, Kept};
pub use header::{HEADER, ProxyMode};
pub use info::{Info, Outcome};
pub use message::{Create, External, Message, Notify, Response};
pub use objects::{ExtendedFlow, ExternalAddress, ExternalBinding, Nonce, RuleAction};
pub use partial_message::PartialMessage;
