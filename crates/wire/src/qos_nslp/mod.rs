//! QoS NSLP (RFC 5974): the signalling application of NSIS that reserves bandwidth.
//!
//! A message rides in the NSLP-Data object of GIST. It is a common header of one word and a list of
//! [objects](crate::nsis):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! | Message Type  | Message Flags |       Reserved        |B|A|P|S|
//! //                           Objects                           //
//! ```
//!
//! RESERVE makes, refreshes, changes and removes a reservation; QUERY asks what there is, or asks the other end for a
//! RESERVE; RESPONSE answers one of them; NOTIFY says something unasked. What shall be reserved stands in a QSPEC, which
//! is not looked into here: it is handed out as it came, and [`crate::qspec`] reads it.
//!
//! - [`Message::parse`] and [`Message::emit`] are each other's inverse. Objects are accepted in any order and written in
//!   the recommended one. Nothing is copied: lists and what is unknown stay on the wire.
//! - [`Request::of`] finds what an answer has to echo, in messages that do not parse as well.
//! - [`ParseError::info_spec`] is what a RESPONSE would say of an error.
//!
//! What RFC 5974 leaves open is decided so:
//!
//! - Flags that are not defined for a message are ignored, as section 5.1.1 demands; code 0x04 (bad message-specific
//!   flags) is therefore never found here, and code 0x03 only where ACK-REQ stands beside an RII.
//! - Of MSG-ID and BOUND-MSG-ID a message has one, as the grammar says, and a RESPONSE one of RII and RSN.
//! - A QUERY that does not ask for a RESERVE is one for resources, and lacks an RII if it has none (section 5.1.2.2).
//! - Codes of binding, error classes and error codes that are unknown are kept: they inform, and nothing depends on them.
//! - PACKET-CLASSIFIER is that of the path-coupled method, the only one that there is.

mod collect;
mod error;
mod extra;
mod header;
pub mod iana;
mod info_spec;
mod message;
mod objects;
mod write;

pub use crate::nsis::SessionId;
pub use collect::Request;
pub use error::{ErrorKind, ParseError};
pub use extra::{Extra, ExtraObject};
pub use header::{GenericFlags, HEADER};
pub use info_spec::{ErrorSource, InfoSpec, ObjectValue, ObjectValues, Outcome};
pub use message::{Answers, Message, Notify, Query, Reserve, Response};
pub use objects::{
    BoundSessionId, BoundSessions, MessageBinding, MessageId, PacketClassifier, Rsn, RsnList,
    Summary,
};
