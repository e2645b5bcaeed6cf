//! Raw sockets that send, one for each address family.
//!
//! Each is for protocol 255: we write the IP header, so that a message can carry another node's source address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::Outgoing;

use super::frame::{FragmentPosition, Header};
use super::packet::{Parsed, packet};
use super::packet_filter::UDP;
use super::socket_options::{BATCH, raw_socket, set, set_send_buffer, set_signalling_class};
use super::{OpenError, SendError, checksum};
use crate::sys::socket::{Packet, Target, send_packet, send_packets};

/// The raw sockets of one namespace.
#[derive(Debug)]
pub(super) struct RawSender {
    ipv4: OwnedFd,
    /// `None` if the kernel does not support IPv6.
    ipv6: Option<OwnedFd>,
    /// IP identification of the next message that must be fragmented; the kernel numbers the others.
    next_identification: u32,
}

impl RawSender {
    pub(super) fn open() -> Result<RawSender, OpenError> {
        // A message to a multicast session must not arrive here as if a neighbour had sent it.
        let open = |family, level, option| {
            let socket = raw_socket(family, libc::IPPROTO_RAW)?;
            set(&socket, "disable multicast loops", level, option, 0)?;
            set_signalling_class(&socket)?;
            set_send_buffer(&socket)?;
            Ok(socket)
        };
        let ipv4 = open(socket2::Domain::IPV4, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP)?;
        let ipv6 = match open(socket2::Domain::IPV6, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP)
        {
            Err(error) if error.is_missing_family() => None,
            opened => Some(opened?),
        };
        let next_identification = std::process::id(); // any start value is valid
        Ok(RawSender { ipv4, ipv6, next_identification })
    }

    /// Whether there is a socket for this address family.
    pub(super) fn supports(&self, destination: IpAddr) -> bool {
        destination.is_ipv4() || self.ipv6.is_some()
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
        for ((out, payload), slot) in messages.iter().zip(&mut headers) {
            match Header::new(out, payload.len()) {
                Ok(header) if out.destination.is_ipv4() == is_ipv4 => *slot = Some(header.emit()),
                _ => break,
            }
        }
        let unspecified = target(IpAddr::V4(Ipv4Addr::UNSPECIFIED), None);
        let mut packets = [Packet { pieces: [&[]; 2], target: unspecified }; BATCH];
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
        for fragment_length in header.fragment_lengths() {
            outcome = payload.chunks(fragment_length).enumerate().try_for_each(|(n, part)| {
                let offset = n * fragment_length;
                let more = offset + part.len() < payload.len();
                let position = FragmentPosition { identification, offset, more };
                let emitted = header.emit_fragment(position, part.len());
                self.transmit([emitted.octets(), part], target)
            });
            // The first fragment is the widest, so nothing has been sent if this size is too wide.
            if !outcome.as_ref().is_err_and(is_too_wide) {
                break;
            }
        }
        outcome
    }

    /// Forwards a whole packet that is not a message, as a router does; returns whether it was sent.
    pub(super) fn forward(&self, octets: &[u8]) -> bool {
        let Some(Parsed { protocol, mut datagram }) = packet(octets, 0) else { return false };
        let Some(ttl) = datagram.ttl.checked_sub(1).filter(|&left| left > 0) else { return false };
        let mut header = octets[..octets.len() - datagram.payload.len()].to_vec();
        // The kernel writes IPv4's checksum.
        header[if datagram.destination.is_ipv4() { 8 } else { 7 }] = ttl;
        let mut buffer = Vec::new();
        if protocol == UDP {
            checksum::complete(&mut datagram, &mut buffer);
        }
        let target = target(datagram.destination, None);
        self.transmit([&header, datagram.payload], &target).is_ok()
    }

    fn transmit(&self, pieces: [&[u8]; 2], target: &Target) -> io::Result<()> {
        send_packet(self.sender(target.to.is_ipv4())?, pieces, target)
    }

    /// Returns the socket that sends packets of a family.
    fn sender(&self, is_ipv4: bool) -> io::Result<BorrowedFd<'_>> {
        match (is_ipv4, &self.ipv6) {
            (true, _) => Ok(self.ipv4.as_fd()),
            (false, Some(ipv6)) => Ok(ipv6.as_fd()),
            (false, None) => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }
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

fn is_too_wide(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}
