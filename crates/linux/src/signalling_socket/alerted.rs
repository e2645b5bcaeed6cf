//! Boomerang, YESSIR and GIST by raw sockets, if BPF is unavailable.
//!
//! Raw sockets receive less: in transit only packets with router alert, and these are consumed whether they are
//! messages or not. So every other alerted ping and UDP packet is forwarded from here, as a router would have. A packet
//! for this host arrives as a copy: the kernel delivers a report to its application. The kernel answers pings itself,
//! as on any host, so that only replies are passed on here. Packets to the GIST port go to a socket that nobody reads.
//! Groups are not supported.
//!
//! ```text
//! socket             in transit                        for this host
//! ICMP               alerted IPv4 of protocol 1        echo replies
//! UDP                alerted IPv4 of protocol 17       alerted, GIST, and what could be RTCP
//! protocol 255       alerted IPv6, value 0             -
//! ICMPv6             -                                 echo replies
//! UDP over IPv6      -                                 GIST, and what could be RTCP
//! ```

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

use earmark_core::{Datagram, InterfaceId};

use super::settings::{Gist, Incoming, InterfaceSignalling, Yessir};
use super::sink::PORT as GIST_PORT;
use super::{OpenError, raw, raw_socket, set, size_receive_buffer};
use crate::sys::socket::{Received, attach_filter, set_structure};

/// Option numbers of ICMP filters (`include/uapi/linux/icmp.h`, `icmpv6.h`). Types with their bit set are dropped.
const ICMP_FILTER: i32 = 1;
const ICMP6_FILTER: i32 = 1;
const SOL_RAW: i32 = 255;
/// First octets of the data of Boomerang's messages.
const MAGIC: [u8; 4] = [0x47, 0x11, 0x47, 0x11];
const NAME: [u8; 4] = *b"YSSR";
const GIST_MAGIC: [u8; 4] = [0x4e, 0x04, 0xbd, 0xa5];
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const APPLICATION: u8 = 204;

/// Filter that accepts IPv4 packets with options, UDP to the GIST port, and UDP whose data begin as RTCP: version 2, a
/// report.
const UDP4: [libc::sock_filter; 13] = [
    step(0xb1, 0, 0, 0),                // index: octets of the IPv4 header
    step(0x87, 0, 0, 0),                // accumulator: the same
    step(0x25, 8, 0, 20),               // more than 20: accept
    step(0x48, 0, 0, 2),                // destination port
    step(0x15, 6, 0, GIST_PORT as u32), // port of GIST: accept
    step(0x50, 0, 0, 8),                // first octet of data
    step(0x54, 0, 0, 0xc0),
    step(0x15, 0, 4, 0x80), // not version 2: drop
    step(0x50, 0, 0, 9),    // second octet
    step(0x54, 0, 0, 0xfe), // packet type 200 or 201
    step(0x15, 0, 1, SENDER_REPORT as u32),
    step(0x06, 0, 0, u32::MAX),
    step(0x06, 0, 0, 0),
];
/// Filter for UDP over IPv6, where the kernel has removed the IP header; otherwise as [`UDP4`].
const UDP6: [libc::sock_filter; 10] = [
    step(0x28, 0, 0, 2),
    step(0x15, 6, 0, GIST_PORT as u32),
    step(0x30, 0, 0, 8),
    step(0x54, 0, 0, 0xc0),
    step(0x15, 0, 4, 0x80),
    step(0x30, 0, 0, 9),
    step(0x54, 0, 0, 0xfe),
    step(0x15, 0, 1, SENDER_REPORT as u32),
    step(0x06, 0, 0, u32::MAX),
    step(0x06, 0, 0, 0),
];

/// Returns an instruction of a socket filter: operation, instructions to skip if true and if false, operand.
pub(super) const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Purpose of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole IPv4 packets, in transit and for this host.
    Both4,
    /// Whole IPv6 packets in transit.
    Transit6,
    /// Payload of IPv6 packets for this host, of this protocol.
    Local6(u8),
}

/// Treatment of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// A message.
    Message(Incoming<'a>),
    /// No message; the router must forward it.
    PassOn,
    /// No message, and nothing to forward.
    Ignore,
}

/// The sockets, and the interfaces that need them.
#[derive(Debug, Default)]
pub(super) struct AlertedSockets {
    pub(super) sockets: Vec<(Kind, OwnedFd)>,
    has_boomerang: bool,
    has_udp: bool,
    boomerang: BTreeSet<InterfaceId>,
    yessir: BTreeSet<InterfaceId>,
    gist: BTreeSet<InterfaceId>,
}

impl AlertedSockets {
    /// Sets the messages to receive from an interface, and opens the sockets for them that are not open yet.
    ///
    /// # Errors
    /// The kernel's; a missing IPv6 stack is no error.
    pub(super) fn serve(
        &mut self,
        interface: InterfaceId,
        how: &InterfaceSignalling,
    ) -> Result<(), OpenError> {
        if how.boomerang && !self.has_boomerang {
            // The filters apply to packets for this host: only replies, types 0 and 129.
            let replies4 = [!1_u32];
            self.open4(raw::ICMP, |socket| filter_icmp(socket, SOL_RAW, ICMP_FILTER, &replies4))?;
            let mut replies6 = [u32::MAX; 8];
            replies6[4] = !(1 << 1);
            self.open6(raw::ICMPV6, |socket| {
                filter_icmp(socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &replies6)
            })?;
            self.has_boomerang = true;
        }
        let wants_yessir = how.yessir == Yessir::RouterAlert;
        let wants_gist = how.gist != Gist::Off;
        if (wants_yessir || wants_gist) && !self.has_udp {
            self.open4(raw::UDP, |socket| filter_udp(socket, &UDP4))?;
            self.open6(raw::UDP, |socket| filter_udp(socket, &UDP6))?;
            self.has_udp = true;
        }
        for (set, wanted) in [
            (&mut self.boomerang, how.boomerang),
            (&mut self.yessir, wants_yessir),
            (&mut self.gist, wants_gist),
        ] {
            match wanted {
                true => set.insert(interface),
                false => set.remove(&interface),
            };
        }
        Ok(())
    }

    /// Removes an interface.
    pub(super) fn forget(&mut self, interface: InterfaceId) {
        self.boomerang.remove(&interface);
        self.yessir.remove(&interface);
        self.gist.remove(&interface);
    }

    /// Returns the treatment of a packet that one of the sockets received.
    pub(super) fn judge<'a>(&self, kind: Kind, octets: &'a [u8], about: &Received) -> Verdict<'a> {
        let found = match kind {
            Kind::Local6(protocol) => raw::bare_datagram6(octets, about).map(|d| (protocol, d)),
            Kind::Both4 | Kind::Transit6 => about.interface.and_then(|on| raw::packet(octets, on)),
        };
        let Some((protocol, datagram)) = found else { return Verdict::Ignore };
        let is_group = datagram.destination.is_multicast();
        let is_copy = match kind {
            Kind::Local6(_) => true,
            Kind::Transit6 => false,
            // The address from which the kernel would answer, and the packet's destination.
            Kind::Both4 => about.own == about.destination,
        };
        let is_gist = protocol == raw::UDP
            && self.gist.contains(&datagram.interface)
            && is_gist(datagram.payload);
        if !is_group && is_gist {
            // The kernel's own copy goes to a port that nobody reads, so this one does not count as a copy.
            let message = Incoming { protocol, is_copy: false, settled: None, datagram };
            return Verdict::Message(message);
        }
        if !is_group && self.is_wanted(protocol, &datagram) {
            return Verdict::Message(Incoming { protocol, is_copy, settled: None, datagram });
        }
        // A packet to a group is a copy of one that is forwarded, except on a multicast router without BPF.
        if is_copy || is_group { Verdict::Ignore } else { Verdict::PassOn }
    }

    fn is_wanted(&self, protocol: u8, datagram: &Datagram<'_>) -> bool {
        match protocol {
            raw::ICMP | raw::ICMPV6 => {
                self.boomerang.contains(&datagram.interface)
                    && is_boomerang(protocol, datagram.payload)
            }
            raw::UDP => self.yessir.contains(&datagram.interface) && is_yessir(datagram.payload),
            _ => false,
        }
    }

    fn open4(
        &mut self,
        protocol: u8,
        filter: impl FnOnce(&OwnedFd) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let socket = raw_socket(socket2::Domain::IPV4, protocol.into())?;
        filter(&socket)?;
        let ip = libc::IPPROTO_IP;
        set(&socket, "ask for router alerts", ip, libc::IP_ROUTER_ALERT, 1)?;
        set(&socket, "ask for packet information", ip, libc::IP_PKTINFO, 1)?;
        size_receive_buffer(&socket)?;
        self.sockets.push((Kind::Both4, socket));
        Ok(())
    }

    /// Opens a socket for packets for this host, and, with the first such, one for packets in transit.
    fn open6(
        &mut self,
        protocol: u8,
        filter: impl FnOnce(&OwnedFd) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let socket = match raw_socket(socket2::Domain::IPV6, protocol.into()) {
            Err(error) if error.is_missing_family() => return Ok(()),
            opened => opened?,
        };
        filter(&socket)?;
        let ip = libc::IPPROTO_IPV6;
        for option in [libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVHOPOPTS, libc::IPV6_RECVPKTINFO] {
            set(&socket, "ask for hop limits, options and interfaces", ip, option, 1)?;
        }
        size_receive_buffer(&socket)?;
        self.sockets.push((Kind::Local6(protocol), socket));
        if !self.sockets.iter().any(|(kind, _)| *kind == Kind::Transit6) {
            self.sockets.push((Kind::Transit6, raw::transit6(0)?));
        }
        Ok(())
    }
}

fn filter_icmp(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    unwanted: &[u32],
) -> Result<(), OpenError> {
    let octets: Vec<u8> = unwanted.iter().flat_map(|word| word.to_ne_bytes()).collect();
    set_structure(socket.as_fd(), level, option, &octets)
        .map_err(|source| OpenError::System { doing: "filter pings", source })
}

fn filter_udp(socket: &OwnedFd, filter: &[libc::sock_filter]) -> Result<(), OpenError> {
    attach_filter(socket.as_fd(), filter)
        .map_err(|source| OpenError::System { doing: "filter reports", source })
}

/// Whether an ICMP message is one of Boomerang: an echo or a reply whose data begin with MAGIC.
fn is_boomerang(protocol: u8, message: &[u8]) -> bool {
    let kinds = if protocol == raw::ICMP { [8, 0] } else { [128, 129] };
    let [kind, 0, ..] = message else { return false };
    kinds.contains(kind) && message.get(8..12) == Some(&MAGIC)
}

/// Whether a UDP packet goes to the port of GIST and begins with its magic number (RFC 5971 section 5.3.1).
fn is_gist(packet: &[u8]) -> bool {
    packet.get(2..4) == Some(&GIST_PORT.to_be_bytes()) && packet.get(8..12) == Some(&GIST_MAGIC)
}

/// Whether a UDP packet holds an RTCP compound that begins with a report and has YSSR in it (RFC 3550 section 6.1).
fn is_yessir(packet: &[u8]) -> bool {
    let Some(mut rest) = packet.get(8..) else { return false };
    let mut is_first = true;
    while let Some(&[first, kind, high, low]) = rest.first_chunk::<4>() {
        let length = (usize::from(u16::from_be_bytes([high, low])) + 1) * 4;
        if first >> 6 != 2 || is_first && ![SENDER_REPORT, RECEIVER_REPORT].contains(&kind) {
            return false;
        }
        if kind == APPLICATION && rest.get(8..12) == Some(&NAME) {
            return true;
        }
        let Some(behind) = rest.get(length..) else { return false };
        (rest, is_first) = (behind, false);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a UDP header, a sender report without blocks, and an APP packet of that name.
    fn compound(name: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 8];
        packet.extend([0x80, SENDER_REPORT, 0, 6]);
        packet.extend([0; 24]);
        packet.extend([0x81, APPLICATION, 0, 2, 0, 0, 0, 1]);
        packet.extend(name);
        packet
    }

    #[test]
    fn rtcp_compound_with_yssr_is_a_yessir_message() {
        let packet = compound(NAME);
        assert!(is_yessir(&packet));
        assert!(!is_yessir(&compound(*b"RSSY")));
        for length in 0..packet.len() {
            assert!(!is_yessir(&packet[..length]), "{length}");
        }
        for (at, octet) in [(8, 0), (9, 204), (10, 1), (11, 5), (11, 7), (36, 0)] {
            let mut other = packet.clone();
            other[at] = octet;
            assert!(!is_yessir(&other), "{at}");
        }
    }

    #[test]
    fn packet_to_gist_port_with_magic_is_a_gist_message() {
        let message = |port: u16, magic: [u8; 4]| {
            let mut packet = vec![0, 9];
            packet.extend(port.to_be_bytes());
            packet.extend([0, 12, 0, 0]);
            packet.extend(magic);
            packet
        };
        assert!(is_gist(&message(270, GIST_MAGIC)));
        assert!(!is_gist(&message(271, GIST_MAGIC)));
        assert!(!is_gist(&message(270, [0x4e, 0x04, 0xbd, 0xa6])));
        assert!(!is_gist(&message(270, GIST_MAGIC)[..11]));
    }

    #[test]
    fn ping_with_magic_is_a_boomerang_message() {
        let message = |kind, code, magic: [u8; 4]| {
            let mut message = vec![kind, code, 0, 0, 0, 1, 0, 1];
            message.extend(magic);
            message
        };
        for (protocol, kind, is_one) in [
            (raw::ICMP, 8, true),
            (raw::ICMP, 0, true),
            (raw::ICMP, 128, false),
            (raw::ICMPV6, 128, true),
            (raw::ICMPV6, 129, true),
            (raw::ICMPV6, 0, false),
        ] {
            assert_eq!(is_boomerang(protocol, &message(kind, 0, MAGIC)), is_one);
            assert!(!is_boomerang(protocol, &message(kind, 1, MAGIC)));
            assert!(!is_boomerang(protocol, &message(kind, 0, [0x47, 0x11, 0x47, 0x12])));
            assert!(!is_boomerang(protocol, &message(kind, 0, MAGIC)[..11]));
        }
    }
}
