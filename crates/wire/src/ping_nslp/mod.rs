//! Ping NSLP: a signalling application that finds out which nodes of a path take part in signalling, and how far away
//! they are.
//!
//! The initiator lists what it wants to know, appends its own record and sends the message downstream; each node appends
//! a record, the last one sends the message back, each node appends another, and the initiator the last. There is no
//! state but the initiator's. A message rides in the NSLP-Data object of GIST:
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
//! more than five nodes; a node that would exceed it appends nothing and still counts as a hop. Version 2 is the same
//! with sixteen bits, and ours; its header is padded to whole words, as all data of GIST are.
//!
//! One object is ours: 0xff01 asks what a node could still reserve for packets that go the way the message has come. It has
//! 64 bits, of which the first is set, since nodes that do not know an object append zeros; the others are bits per second.
//!
//! [`Ping::parse`] and [`Ping::emit`] are each other's inverse, [`count_hop`] and [`append`] are what a node does with a
//! message where it stands. The facts are those of the draft of July 2005, which has no number for the application;
//! ours is from the private range.

mod edit;
mod error;
pub mod iana;
mod message;

pub use edit::{append, count_hop};
pub use error::{ErrorKind, ParseError};
pub use message::{Ping, Record, STANDARD, Timestamp, Version, Visit, WITH_BANDWIDTH};
