//! Wire formats of all protocols that Earmark supports: parsers and emitters. No state, no I/O, no allocation in
//! parsers.
//!
//! | module | contents |
//! |---|---|
//! | [`rsvp`] | RSVP version 1 (RFC 2205), with refresh reduction, Hello, INTEGRITY, diagnostics and policy |
//! | [`boomerang`] | Boomerang: reservation messages in the data of a ping |
//! | [`icmp`] | ICMP echo, which carries Boomerang (RFC 792, RFC 4443) |
//! | [`intserv`] | the traffic and service specifications of RFC 2210, which RSVP and YESSIR carry |
//! | [`ipv4`], [`ipv6`] | IP headers, with router alert |
//! | [`rtcp`] | the control packets of RTP (RFC 3550), which carry [`yessir`] |
//! | [`udp`] | the header of UDP |
//! | [`gist`] | GIST, the transport of NSIS signalling (RFC 5971) |
//! | [`qos_nslp`] | QoS NSLP, the NSIS application for reservations (RFC 5974); [`qspec`] is its payload (RFC 5975) |
//! | [`natfw_nslp`] | NATFW NSLP, the NSIS application for NATs and firewalls (RFC 5973) |
//! | [`ping_nslp`] | the NSIS application that discovers the nodes of a path |
//! | [`nsis`] | the object format of the NSIS protocols (RFC 5971 A.2) |
//! | [`checksum`] | the Internet checksum (RFC 1071) and its incremental update (RFC 1624) |
//!
//! Two properties hold for every format and are tested: `parse(emit(m)) == m` for every value `m`, and `emit(parse(b))
//! == b` for every canonical `b`: reserved bits zero, objects in the recommended order, nothing omitted that may be
//! omitted. For arbitrary octets, parsing neither panics nor does more work than their number allows.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
mod code_points;
#[macro_use]
mod error_kinds;
#[macro_use]
mod serialize;

pub mod boomerang;
pub mod checksum;
pub mod gist;
pub mod icmp;
pub mod intserv;
pub mod ipsec;
pub mod ipv4;
pub mod ipv6;
pub mod natfw_nslp;
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
