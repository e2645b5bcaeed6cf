//! Raw sockets of both families.
//!
//! **IPv4.** A socket for protocol 46 with `IP_ROUTER_ALERT` receives packets addressed to this host, and those that
//! are being *forwarded* and carry the option; the latter are consumed. Fragments are reassembled. Multicast in transit
//! arrives only while the host is an active multicast router.
//!
//! **IPv6.** A socket for protocol 46 receives what is addressed to this host, without the IP header. Packets in
//! transit arrive through another one, for protocol 255, that asks for a value of router alert: it consumes every
//! unicast packet with that value, whatever it carries. Packets that are not RSVP, and fragments, which arrive one by
//! one, are forwarded from here as a router would have.
//!
//! Both families send through a socket for protocol 255, for which we write the IP header: so that a Path can carry its
//! sender's address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::{ipv4, ipv6};

use super::frame::{Header, Place};
use super::{BATCH, OpenError, RSVP, SendError, checksum, raw_socket, set, size_receive_buffer};
use crate::sys::socket::{Packet, Received, Target, send_packet, send_packets};
use crate::traffic_control::SIGNALLING_CLASS;

/// IP protocol numbers.
pub(super) const ICMP: u8 = 1;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;
/// `IPV6_ROUTER_ALERT_ISOLATE` (Linux 5.1).
const ROUTER_ALERT_ISOLATE: i32 = 30;

/// The raw sockets of one namespace.
#[derive(Debug)]
pub(super) struct RawSockets {
    pub(super) receiver4: OwnedFd,
    sender4: OwnedFd,
    /// `None` if the kernel does not support IPv6.
    pub(super) six: Option<RawSockets6>,
    /// IP identification of the next message that must be fragmented; the kernel numbers the others.
    next_identification: u32,
}

#[derive(Debug)]
pub(super) struct RawSockets6 {
    pub(super) receiver: OwnedFd,
    /// Receives packets in transit, and sends.
    pub(super) transit: OwnedFd,
}

impl RawSockets {
    pub(super) fn open() -> Result<RawSockets, OpenError> {
        let receiver4 = raw_socket(socket2::Domain::IPV4, RSVP)?;
        let sender4 = raw_socket(socket2::Domain::IPV4, libc::IPPROTO_RAW)?;
        let ip = libc::IPPROTO_IP;
        set(&receiver4, "ask for router alerts", ip, libc::IP_ROUTER_ALERT, 1)?;
        set(&receiver4, "ask for packet information", ip, libc::IP_PKTINFO, 1)?;
        size_receive_buffer(&receiver4)?;
        // A Path to a multicast session must not arrive here as if a neighbour had sent it.
        set(&sender4, "turn multicast loops off", ip, libc::IP_MULTICAST_LOOP, 0)?;
        choose_class(&sender4)?;
        let six = match RawSockets6::open() {
            Err(error) if error.is_missing_family() => None,
            opened => Some(opened?),
        };
        let next_identification = std::process::id(); // any start value is valid
        Ok(RawSockets { receiver4, sender4, six, next_identification })
    }

    /// Sends `payload` as `out` specifies. If it is too long for the link, sends it in the widest fragments that the
    /// kernel accepts.
    pub(super) fn send(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let header = Header::new(out, payload.len())?;
        let target = target_of(out);
        let outcome = self.transmit([header.emit().octets(), payload], &target);
        let outcome = match outcome {
            Err(error) if is_too_wide(&error) => self.send_fragments(&header, payload, &target),
            outcome => outcome,
        };
        outcome.map_err(SendError::System)
    }

    /// Sends the first of these messages, at most a batch, in one call; returns their number. The next one must be sent
    /// by itself: it is of another family, has no header or is too wide, or the kernel refuses it.
    pub(super) fn send_together(&self, messages: &[(&Outgoing, &[u8])]) -> usize {
        let Some(is_ipv4) = messages.first().map(|(out, _)| out.destination.is_ipv4()) else {
            return 0;
        };
        let mut headers = [const { None }; BATCH];
        for ((out, payload), place) in messages.iter().zip(&mut headers) {
            match Header::new(out, payload.len()) {
                Ok(header) if out.destination.is_ipv4() == is_ipv4 => *place = Some(header.emit()),
                _ => break,
            }
        }
        let nowhere = target(IpAddr::V4(Ipv4Addr::UNSPECIFIED), None);
        let mut packets = [Packet { pieces: [&[]; 2], target: nowhere }; BATCH];
        let mut count = 0;
        for (((out, payload), header), packet) in
            messages.iter().zip(headers.iter().flatten()).zip(&mut packets)
        {
            let target = target_of(out);
            *packet = Packet { pieces: [header.octets(), payload], target };
            count += 1;
        }
        let Ok(socket) = self.sender(is_ipv4) else { return 0 };
        send_packets::<BATCH>(socket, &packets[..count]).unwrap_or(0)
    }

    fn send_fragments(
        &mut self,
        header: &Header,
        payload: &[u8],
        target: &Target,
    ) -> io::Result<()> {
        // IPv4 has 16 bits.
        let identification = (self.next_identification & 0xffff).max(1);
        self.next_identification = identification + 1;
        let mut outcome = Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        for step in header.steps() {
            outcome = payload.chunks(step).enumerate().try_for_each(|(n, part)| {
                let offset = n * step;
                let more = offset + part.len() < payload.len();
                let place = Place { identification, offset, more };
                let emitted = header.emit_fragment(place, part.len());
                self.transmit([emitted.octets(), part], target)
            });
            // The first fragment is the widest, so nothing has been sent if this size is too wide.
            if !outcome.as_ref().is_err_and(is_too_wide) {
                break;
            }
        }
        outcome
    }

    /// Forwards a whole packet that is no message for us, as a router does; returns whether it was sent.
    pub(super) fn pass_on(&self, octets: &[u8]) -> bool {
        let Some((protocol, mut datagram)) = packet(octets, 0) else { return false };
        let Some(ttl) = datagram.ttl.checked_sub(1).filter(|&left| left > 0) else { return false };
        let mut header = octets[..octets.len() - datagram.payload.len()].to_vec();
        // The kernel writes IPv4's checksum.
        header[if datagram.destination.is_ipv4() { 8 } else { 7 }] = ttl;
        let mut spare = Vec::new();
        if protocol == UDP {
            checksum::finish(&mut datagram, &mut spare);
        }
        let target = target(datagram.destination, None);
        self.transmit([&header, datagram.payload], &target).is_ok()
    }

    fn transmit(&self, pieces: [&[u8]; 2], target: &Target) -> io::Result<()> {
        send_packet(self.sender(target.to.is_ipv4())?, pieces, target)
    }

    /// Returns the socket that sends packets of a family.
    fn sender(&self, is_ipv4: bool) -> io::Result<BorrowedFd<'_>> {
        match (is_ipv4, &self.six) {
            (true, _) => Ok(self.sender4.as_fd()),
            (false, Some(six)) => Ok(six.transit.as_fd()),
            (false, None) => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }
}

impl RawSockets6 {
    fn open() -> Result<RawSockets6, OpenError> {
        let receiver = raw_socket(socket2::Domain::IPV6, RSVP)?;
        let transit = transit6(ipv6::ALERT_RSVP)?;
        set(
            &transit,
            "turn IPv6 multicast loops off",
            libc::IPPROTO_IPV6,
            libc::IPV6_MULTICAST_LOOP,
            0,
        )?;
        choose_class(&transit)?;
        let ip = libc::IPPROTO_IPV6;
        for option in [libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVHOPOPTS] {
            set(&receiver, "ask for hop limits and options", ip, option, 1)?;
        }
        set(&receiver, "ask for packet information", ip, libc::IPV6_RECVPKTINFO, 1)?;
        size_receive_buffer(&receiver)?;
        Ok(RawSockets6 { receiver, transit })
    }
}

/// Opens a socket for IPv6 packets in transit with this value of router alert, whatever they carry.
pub(super) fn transit6(alert: u16) -> Result<OwnedFd, OpenError> {
    let socket = raw_socket(socket2::Domain::IPV6, libc::IPPROTO_RAW)?;
    let ip = libc::IPPROTO_IPV6;
    set(&socket, "ask for IPv6 router alerts", ip, libc::IPV6_ROUTER_ALERT, alert.into())?;
    // Without it the socket receives the packets of every namespace of the machine.
    set(&socket, "keep to this namespace", ip, ROUTER_ALERT_ISOLATE, 1)?;
    set(&socket, "ask for packet information", ip, libc::IPV6_RECVPKTINFO, 1)?;
    size_receive_buffer(&socket)?;
    Ok(socket)
}

/// Parses a whole IP packet: returns the protocol of its payload, and the payload; `None` if the header is malformed.
pub(super) fn packet(octets: &[u8], interface: u32) -> Option<(u8, Datagram<'_>)> {
    match octets.first()? >> 4 {
        4 => packet4(octets, interface),
        _ => packet6(octets, interface),
    }
}

fn packet4(octets: &[u8], interface: u32) -> Option<(u8, Datagram<'_>)> {
    let packet = ipv4::Packet::parse(octets).ok()?;
    let datagram = Datagram {
        interface: InterfaceId(interface),
        source: IpAddr::V4(packet.source()),
        destination: IpAddr::V4(packet.destination()),
        ttl: packet.ttl(),
        router_alert: packet.router_alert().is_some(),
        encapsulated: false,
        payload: packet.payload(),
    };
    Some((packet.protocol(), datagram))
}

/// Parses an IPv6 packet. A fragment has the protocol number of the fragment header.
fn packet6(octets: &[u8], interface: u32) -> Option<(u8, Datagram<'_>)> {
    let packet = ipv6::Packet::parse(octets).ok()?;
    let datagram = Datagram {
        interface: InterfaceId(interface),
        source: IpAddr::V6(packet.source),
        destination: IpAddr::V6(packet.destination),
        ttl: packet.hop_limit,
        router_alert: packet.router_alert.is_some(),
        encapsulated: false,
        payload: packet.payload,
    };
    Some((packet.next_header, datagram))
}

/// Returns a message whose IPv6 header the kernel has removed.
pub(super) fn bare_datagram6<'a>(octets: &'a [u8], about: &Received) -> Option<Datagram<'a>> {
    Some(Datagram {
        interface: InterfaceId(about.interface?),
        source: about.source?,
        destination: about.destination?,
        ttl: about.hop_limit?,
        router_alert: about.router_alert.is_some(),
        encapsulated: false,
        payload: octets,
    })
}

/// Returns the target of a message. The kernel sends a packet with our header towards the given address, whatever the
/// header says: that of the next hop, if there is one. A next hop of another family cannot be given; its interface is.
fn target_of(out: &Outgoing) -> Target {
    let next_hop = out.next_hop.filter(|next_hop| next_hop.is_ipv4() == out.destination.is_ipv4());
    target(next_hop.unwrap_or(out.destination), out.interface.map(|i| i.0))
}

/// Returns the target of a packet with our header. A link-local address needs its interface.
fn target(destination: IpAddr, interface: Option<u32>) -> Target {
    let to = match destination {
        IpAddr::V4(to) => SocketAddr::from((to, 0)),
        IpAddr::V6(to) => SocketAddrV6::new(to, 0, 0, interface.unwrap_or(0)).into(),
    };
    Target { to, interface, source: None, hop_limit: None }
}

/// Sets the signalling class for everything that a socket sends.
fn choose_class(socket: &OwnedFd) -> Result<(), OpenError> {
    let class = SIGNALLING_CLASS as i32; // the kernel interprets it as unsigned
    set(socket, "choose the class", libc::SOL_SOCKET, libc::SO_PRIORITY, class)
}

fn is_too_wide(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Joins a group on an interface, or leaves it; once for all sockets of the namespace.
pub(super) fn membership(
    socket: BorrowedFd<'_>,
    group: IpAddr,
    interface: InterfaceId,
    joined: bool,
) -> io::Result<()> {
    let socket = socket2::SockRef::from(&socket);
    let index = socket2::InterfaceIndexOrAddress::Index(interface.0);
    match (group, joined) {
        (IpAddr::V4(group), true) => socket.join_multicast_v4_n(&group, &index),
        (IpAddr::V4(group), false) => socket.leave_multicast_v4_n(&group, &index),
        (IpAddr::V6(group), true) => socket.join_multicast_v6(&group, interface.0),
        (IpAddr::V6(group), false) => socket.leave_multicast_v6(&group, interface.0),
    }
}
