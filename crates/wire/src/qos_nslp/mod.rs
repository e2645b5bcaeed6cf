//! QoS NSLP (RFC 5974): the signalling application of NSIS that reserves bandwidth.
//!
//! GIST carries a message in its NSLP-Data object. A message is a common header of one word and a list of
//! [objects](crate::nsis):
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! | Message Type  | Message Flags |       Reserved        |B|A|P|S|
//! //                           Objects                           //
//! ```
//!
//! RESERVE creates, refreshes, modifies and removes a reservation; QUERY queries available resources, or requests a
//! RESERVE from the other end; RESPONSE answers one of them; NOTIFY notifies without a request. A QSPEC describes the
//! reservation. It is not parsed here: [`crate::qspec`] does that.
//!
//! - [`Message::parse`] and [`Message::emit`] are inverse to each other. Objects are accepted in any order and written
//!   in the recommended one. Nothing is copied: lists and unknown objects stay on the wire.
//! - [`RequestIds::find`] finds the identifiers that a response echoes, also in malformed messages.
//! - [`ParseError::info_spec`] returns the INFO-SPEC of the RESPONSE to a malformed message.
//!
//! Decisions where RFC 5974 is silent or ambiguous:
//!
//! - Flags that are not defined for a message are ignored, as section 5.1.1 demands; code 0x04 (bad message-specific
//!   flags) therefore never occurs, and code 0x03 only for ACK-REQ together with an RII.
//! - A message has at most one of MSG-ID and BOUND-MSG-ID, as in the grammar, and a RESPONSE one of RII and RSN.
//! - A QUERY that does not request a RESERVE queries resources and requires an RII (section 5.1.2.2).
//! - Unknown binding codes, error classes and error codes are kept: they are informative, and nothing depends on them.
//! - PACKET-CLASSIFIER is that of the path-coupled method, the only one defined.

mod collect;
mod emit;
mod error;
mod extra;
mod header;
pub mod iana;
mod info_spec;
mod message;
mod objects;

pub use crate::nsis::SessionId;
pub use crate::nsis::extra::ExtraObject;
pub use collect::RequestIds;
pub use error::{ErrorKind, ParseError};
pub use extra::{Extra, Kept};
pub use header::{GenericFlags, HEADER};
pub use info_spec::{ErrorSource, InfoSpec, ObjectValue, ObjectValues, Outcome};
pub use message::{Answers, Message, Notify, Query, Reserve, Response};
pub use objects::{
    BoundSessionId, BoundSessions, MessageBinding, MessageId, PacketClassifier, Rsn, RsnList,
    Summary,
};
