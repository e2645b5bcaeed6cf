//! Ping NSLP: a signalling application that discovers the signalling nodes of a path and their distance.
//!
//! The initiator lists the requested objects, appends its own record and sends the message downstream. Each node
//! appends a record; the last one returns the message, each node appends another record, and the initiator appends the
//! last one. Only the initiator keeps state. GIST carries a message in its NSLP-Data object:
//!
//! ```text
//! version 1                                      version 2
//! |  version  |  hops  |  length  |  objects  |  |  version  |  hops  |       length         |
//! |              sequence number              |  |  objects  |           reserved            |
//!                                                |              sequence number              |
//! then, for each object
//! |         type         |       length       |  as many octets of it are in each record
//! then the records: of each object its octets, in the order of the list
//! ```
//!
//! Length counts the octets of the whole message. In version 1 it has eight bits, which are too few for the records of
//! more than five nodes; a node that would exceed it appends nothing and still counts as a hop. Version 2 is that of
//! Earmark and has a length of sixteen bits; its header is padded to whole words, like all data of GIST.
//!
//! One object is an extension of Earmark: 0xff01 requests the bandwidth that a node could still reserve for packets in
//! the direction of the message. Its value has 64 bits. The first one is set, because nodes that do not know an object
//! append zeros; the others are bits per second.
//!
//! [`Ping::parse`] and [`Ping::emit`] are inverse to each other; [`count_hop`] and [`append`] are the in-place edits
//! of a node. The format is that of the draft of July 2005, which has no NSLPID; that of Earmark is from the private
//! range.

mod edit;
mod error;
pub mod iana;
mod message;

pub use edit::{append, count_hop};
pub use error::{ErrorKind, ParseError};
pub use message::{NodeRecord, Ping, Record, STANDARD, Timestamp, Version, WITH_BANDWIDTH};
