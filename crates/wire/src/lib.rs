//! Bytes to messages and back, for every protocol that Earmark speaks. No state, no I/O, no allocation while parsing.
//!
//! | module | what it reads and writes |
//! |---|---|
//! | [`rsvp`] | RSVP version 1 (RFC 2205), with refresh reduction, Hello, INTEGRITY, diagnostics and policy |
//! | [`boomerang`] | Boomerang: reservation messages in the data of a ping |
//! | [`icmp`] | the ping around them (RFC 792, RFC 4443) |
//! | [`intserv`] | the traffic and service specifications of RFC 2210, which RSVP and YESSIR carry |
//! | [`ipv4`], [`ipv6`] | the IP header in front of them, router alert included |
//! | [`rtcp`] | the control packets of RTP (RFC 3550), and [`yessir`] that rides in them |
//! | [`udp`] | the header of UDP |
//! | [`gist`] | GIST, the transport of NSIS signalling (RFC 5971) |
//! | [`qos_nslp`] | the NSIS application that reserves bandwidth (RFC 5974), and [`qspec`] that it carries (RFC 5975) |
//! | [`ping_nslp`] | the NSIS application that finds the nodes of a path |
//! | [`nsis`] | the objects that the protocols of NSIS are made of (RFC 5971 A.2) |
//! | [`checksum`] | the sum that IP, UDP and RSVP share (RFC 1071), and how it follows changes (RFC 1624) |
//!
//! Two promises hold for every format, and are tested as properties: `parse(emit(m)) == m` for every value `m`, and
//! `emit(parse(b)) == b` for every canonical `b`: reserved bits zero, objects in the recommended order, nothing omitted
//! that may be omitted. Whatever the octets are, parsing neither panics nor does more work than their number allows.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod code_points;

pub mod boomerang;
pub mod checksum;
pub mod gist;
pub mod icmp;
pub mod intserv;
pub mod ipv4;
pub mod ipv6;
pub mod nsis;
pub mod ping_nslp;
pub mod qos_nslp;
pub mod qspec;
pub mod rsvp;
pub mod rtcp;
pub mod udp;
mod writer;
pub mod yessir;

pub use writer::EmitError;
