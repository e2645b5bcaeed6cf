//! The protocols that the demo shows, one module for each, and the filter that captures their messages.
//!
//! RSVP comes first: only its stage has a second request, which is refused, and a daemon that is killed. A Boomerang
//! loop needs no daemon at the destination, whose kernel answers the ping; reports of YESSIR reserve for the stream that
//! they are about; with NSIS the sender discovers the nodes on the path by GIST, and reserves at each by QoS NSLP.

mod boomerang;
pub mod nsis;
mod rsvp;
mod yessir;

use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::gist::iana::MAGIC as GIST_MAGIC;
use socket2::SockFilter;

use crate::demo::protocol::Protocol;

/// The protocol of the first stage with a reservation.
pub(crate) const FIRST: rsvp::Rsvp = rsvp::Rsvp;

/// All protocols, in the order of their stages.
pub const PROTOCOLS: [Protocol; 4] = [&FIRST, &boomerang::Boomerang, &yessir::Yessir, &nsis::Nsis];

/// Filter for signalling over IP in Ethernet, as classic BPF: RSVP (protocol 46, all fragments, and UDP ports 1698 and
/// 1699); echoes of ICMP (1)
/// and ICMPv6 (58) whose data begin with Boomerang's MAGIC; UDP packets (17) that begin with the magic number of GIST; and
/// those that begin like an RTCP report,
/// version 2 and type 200 or 201, which may carry YESSIR. The register X holds the length of the IP header, IPv6
/// hop-by-hop options included, so that the packet's payload begins at octet 14 + X of the frame.
pub(crate) const SIGNALLING: [SockFilter; 33] = [
    SockFilter::new(0x28, 0, 0, 12), //  0 load the half-word at 12, the EtherType
    SockFilter::new(0x15, 0, 3, 0x0800), //  1 not IPv4: to 5
    SockFilter::new(0xb1, 0, 0, 14), //  2 X = length of the IPv4 header
    SockFilter::new(0x30, 0, 0, 23), //  3 load the protocol
    SockFilter::new(0x05, 0, 0, 9),  //  4 to 14
    SockFilter::new(0x15, 0, 26, 0x86dd), //  5 not IPv6: to 32
    SockFilter::new(0x01, 0, 0, 40), //  6 X = 40
    SockFilter::new(0x30, 0, 0, 20), //  7 load the next header
    SockFilter::new(0x15, 0, 5, 0),  //  8 no hop-by-hop options: to 14
    SockFilter::new(0x30, 0, 0, 55), //  9 load their length, in units of 8 octets after the first 8
    SockFilter::new(0x64, 0, 0, 3),  // 10 times eight
    SockFilter::new(0x04, 0, 0, 48), // 11 plus the first 8 octets, and the IPv6 header
    SockFilter::new(0x07, 0, 0, 0),  // 12 X = that
    SockFilter::new(0x30, 0, 0, 54), // 13 load the next header after them
    SockFilter::new(0x15, 16, 0, 46), // 14 RSVP: to 31
    SockFilter::new(0x15, 2, 0, 1),  // 15 ICMP: to 18
    SockFilter::new(0x15, 1, 0, 58), // 16 ICMPv6: to 18
    SockFilter::new(0x15, 2, 14, 17), // 17 UDP: to 20; else to 32
    SockFilter::new(0x40, 0, 0, 14 + 8), // 18 load the first word of the echo's data
    SockFilter::new(0x15, 11, 12, MAGIC), // 19 MAGIC: to 31; else to 32
    SockFilter::new(0x48, 0, 0, 14 + 2), // 20 load the UDP destination port
    SockFilter::new(0x15, 9, 0, 1_698), // 21 RSVP inside UDP: to 31
    SockFilter::new(0x15, 8, 0, 1_699), // 22 RSVP inside UDP: to 31
    SockFilter::new(0x40, 0, 0, 14 + 8), // 23 load the first word of the UDP payload
    SockFilter::new(0x15, 6, 0, GIST_MAGIC), // 24 GIST: to 31
    SockFilter::new(0x50, 0, 0, 14 + 8), // 25 load the first octet of the UDP payload
    SockFilter::new(0x54, 0, 0, 0xc0), // 26 its version
    SockFilter::new(0x15, 0, 4, 0x80), // 27 not 2: to 32
    SockFilter::new(0x50, 0, 0, 14 + 9), // 28 load the second octet
    SockFilter::new(0x15, 1, 0, 200), // 29 a sender report: to 31
    SockFilter::new(0x15, 0, 1, 201), // 30 not a receiver report: to 32
    SockFilter::new(0x06, 0, 0, 0xffff_ffff), // 31 accept all of it
    SockFilter::new(0x06, 0, 0, 0),  // 32 drop
];
