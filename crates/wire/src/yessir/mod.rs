//! YESSIR: reservations in RTCP sender reports, in our own encoding.
//!
//! Pan and Schulzrinne describe the protocol (*Lightweight Resource Reservation Signaling*), but no public document has
//! its packet format. This format is therefore our own and does not interoperate with the implementation of 1998.
//!
//! A compound RTCP packet begins with a report. A source description and one APP packet with the name `YSSR` and
//! subtype 1 follow it. The data of the APP packet are *fragments*: type 8 bits, flags 8, length 16 (octets with this
//! header, a multiple of 4), body.
//!
//! | type | fragment | body |
//! |---|---|---|
//! | 1 | GENERIC | command 8, style 8, interval 16 (s), reservation 32; flag bit 0: rtcp-mux |
//! | 2 | FLOWSPEC_INTSERV | r, b, p single, m 32, M 32, service 32, R single, S 32 (us) |
//! | 3 | FLOWSPEC_CODEC | RTP payload type 8, frames per packet 8, reserved 16 |
//! | 4 | FLOWSPEC_CLASS | DSCP 8, reserved 24, rate single |
//! | 5 | FLOWSPEC_MEASURED | window 16 (s), headroom 16 (percent) |
//! | 6 | LINK_INFO | hops 8, flags 8 (bit 0: other hops), MTU 16, available single, latency 32 (us); flags of the header: the TTL that the report was sent with |
//! | 7 | FAILURE | count 8, reserved 24, then notes: address family 8, reason 8, hop 16, available single, address |
//! | 8 | AUTH | key 32, sequence 64, digest 16 octets |
//!
//! Rates are octets per second as IEEE 754 singles. GENERIC is required; at most one flowspec is allowed. Senders write
//! fragments in this order, receivers accept any order. Fragments of other types stay unchanged.
//!
//! - [`Report::parse`] parses a compound as far as it concerns routers; [`Message::emit`] writes the APP packet.
//! - [`CommonForm`] recognizes a report that repeats an earlier request.
//! - [`Edit`] is a router's change of a message in transit: LINK_INFO and FAILURE, lengths and checksum; [`update_link_info`]
//!   changes LINK_INFO only.
//! - [`codec`] has the bandwidth of the fixed payload formats of RFC 3551.

pub mod codec;
mod common_form;
mod edit;
mod error;
mod fragment;
pub mod iana;
mod message;

pub use common_form::CommonForm;
pub use edit::{Edit, fill_partial_checksum, update_link_info};
pub use error::{ErrorKind, ParseError};
pub use fragment::{Auth, FailureNote, Flowspec, Generic, HEADER, LinkInfo, OctetRate};
pub use iana::{Command, FailureReason, FragmentType, Style};
pub use message::{EditOffsets, Failures, Message, NAME, Report, VERSION, covered, has_message};
