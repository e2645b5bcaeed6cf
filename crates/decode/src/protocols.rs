//! The protocols whose messages are decoded: RSVP, Boomerang, YESSIR, and GIST with its applications.
//!
//! Messages of Boomerang are echoes of ICMP and ICMPv6 whose data begin with MAGIC. Messages of YESSIR are RTCP reports with
//! an APP packet of its name, on any port. Messages of GIST are datagrams of its port that begin with the magic number; their
//! QoS NSLP or Ping NSLP data are decoded too.

mod boomerang;
mod gist;
mod rsvp;
mod yessir;

use super::protocol::Protocol;

/// All protocols, in the order in which they are asked for a message: any UDP packet may carry one of YESSIR.
pub(super) static PROTOCOLS: [&Protocol; 4] =
    [&rsvp::PROTOCOL, &boomerang::PROTOCOL, &gist::PROTOCOL, &yessir::PROTOCOL];
