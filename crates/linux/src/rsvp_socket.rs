//! RSVP's raw sockets: catching protocol 46 in transit, and sending it with somebody else's source address.
//!
//! A raw socket with `IP_ROUTER_ALERT` takes two kinds of packets: those addressed to this host, and those that are
//! being *forwarded* and carry the router-alert option; the latter are consumed, so that whoever reads them must send
//! them on (RFC 2205 section 3.11.3). Fragments arrive put together. The TTL of a packet in transit has not been
//! decremented yet. Multicast in transit comes only while the host is an active multicast router.
//!
//! A second raw socket with the option means one of the two daemons is deaf, without an error. So the namespace is
//! claimed first, by binding an abstract Unix socket name: these are per network namespace, and free themselves when
//! the process dies in any way.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::ipv4::{MIN_HEADER_LEN, Packet, Repr};

use crate::sys::socket::{Batch, receive_drops, send_packet, set_option};
use crate::traffic_control::SIGNALLING_CLASS;

/// IP protocol number of RSVP (RFC 2205 section 3.11.1).
const RSVP: i32 = 46;
/// Packets taken out of the kernel at once.
const BATCH: usize = 16;
/// The longest IP packet, octets.
const LONGEST_PACKET: usize = 65_535;
/// Receive buffer, octets, of which only what waits is used: some 80 000 messages of 200 octets, each charged about 800 by
/// the kernel. So many set-ups may come at once without a loss; a loss is made up for only by the next refresh.
const RECEIVE_BUFFER: i32 = 64 << 20;
/// Packet sizes to cut a message into when the link is too narrow for it, widest first: Ethernet, IPv6's least, what
/// every IPv4 host takes, and what every IPv4 link carries (RFC 791).
const FRAGMENT_SIZES: [usize; 4] = [1_500, 1_280, 576, 68];

/// Type of service of our packets: internetwork control (RFC 791), class selector 6 (RFC 2474).
const TYPE_OF_SERVICE: u8 = 0xc0;
/// The flag of all fragments but the last.
const MORE_FRAGMENTS: u16 = 1 << 13;

/// Why the sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another daemon serves this network namespace already.
    #[error("another RSVP daemon is running in this network namespace")]
    AlreadyRunning,
    /// The kernel refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Only IPv4 signalling can be sent here.
    #[error("the addresses of an RSVP message must both be IPv4")]
    NotIpv4,
    /// The message is longer than an IP packet can be.
    #[error("a message of {length} octets does not fit an IP packet")]
    TooLong {
        /// Octets of the message.
        length: usize,
    },
    /// The kernel's queues are full (`ENOBUFS` or `EAGAIN`): the message is lost, as on a congested link.
    #[error("the kernel has no room to send now")]
    NoRoom,
    /// The kernel refused: no route, interface down, ...
    #[error("cannot send: {0}")]
    System(#[source] io::Error),
}

/// What an [`RsvpSocket`] counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Messages handed out.
    pub received: u64,
    /// Packets not handed out because their IP header was broken.
    pub malformed: u64,
    /// Messages the kernel dropped because the receive buffer was full.
    pub overflowed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost because the kernel had no room ([`SendError::NoRoom`]).
    pub no_room: u64,
}

/// The signalling socket of one network namespace.
#[derive(Debug)]
pub struct RsvpSocket {
    receiver: OwnedFd,
    sender: OwnedFd,
    batch: Batch<BATCH>,
    /// IP identification of the next message that has to be cut; the kernel numbers the others.
    next_identification: u16,
    counters: SocketCounters,
    /// Holds the claim on the namespace.
    _claim: UnixDatagram,
}

impl RsvpSocket {
    /// Opens the sockets in the network namespace of the calling thread, and claims that namespace for this process.
    ///
    /// # Errors
    /// [`OpenError::AlreadyRunning`] where another process (or another value of this type) has claimed it.
    pub fn open() -> Result<RsvpSocket, OpenError> {
        let claim = claim_namespace()?;
        let receiver = raw_socket(RSVP)?;
        let sender = raw_socket(libc::IPPROTO_RAW)?; // implies that the IP header is ours to write
        let set = |socket: &OwnedFd, doing, level, option, value| {
            set_option(socket.as_fd(), level, option, value)
                .map_err(|source| OpenError::System { doing, source })
        };
        let ip = libc::IPPROTO_IP;
        set(&receiver, "ask for router alerts", ip, libc::IP_ROUTER_ALERT, 1)?;
        set(&receiver, "ask for packet information", ip, libc::IP_PKTINFO, 1)?;
        let buffer = libc::SO_RCVBUFFORCE;
        set(&receiver, "size the receive buffer", libc::SOL_SOCKET, buffer, RECEIVE_BUFFER)?;
        // A Path to a multicast session must not come back to us as if a neighbour had sent it.
        set(&sender, "turn multicast loops off", ip, libc::IP_MULTICAST_LOOP, 0)?;
        let class = SIGNALLING_CLASS as i32; // the kernel takes the bits
        set(&sender, "choose the class", libc::SOL_SOCKET, libc::SO_PRIORITY, class)?;
        Ok(RsvpSocket {
            receiver,
            sender,
            batch: Batch::new(LONGEST_PACKET),
            next_identification: std::process::id() as u16, // any start will do
            counters: SocketCounters::default(),
            _claim: claim,
        })
    }

    /// Takes one batch of messages out of the kernel and hands each well-formed one to `each`. Returns how many
    /// were taken, 0 when nothing is waiting; call again until then. Messages of our own that were looped back come too.
    pub fn receive(&mut self, mut each: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        let count = self.batch.receive(self.receiver.as_fd())?;
        for (octets, interface) in self.batch.packets() {
            let (Some(interface), Ok(packet)) = (interface, Packet::parse(octets)) else {
                self.counters.malformed += 1;
                continue;
            };
            self.counters.received += 1;
            each(Datagram {
                interface: InterfaceId(interface),
                source: IpAddr::V4(packet.source()),
                destination: IpAddr::V4(packet.destination()),
                ttl: packet.ttl(),
                router_alert: packet.router_alert().is_some(),
                encapsulated: false,
                payload: packet.payload(),
            });
        }
        Ok(count)
    }

    /// Sends `payload` as `out` says, with the precedence of network control (RFC 791) and in the signalling class of
    /// [`crate::TrafficControl`]. Never blocks.
    ///
    /// The kernel does not cut packets whose header it did not write; a message that is too long for the link is cut
    /// here, into the widest fragments that the kernel takes.
    pub fn send(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (out.source, out.destination) else {
            return Err(SendError::NotIpv4);
        };
        let header = Repr {
            tos: TYPE_OF_SERVICE,
            identification: 0, // the kernel's to choose
            dont_fragment: false,
            ttl: out.ttl,
            protocol: out.protocol,
            source,
            destination,
            router_alert: out.router_alert.then_some(0),
            payload_len: payload.len(),
        };
        if header.header_len() + payload.len() > LONGEST_PACKET {
            return Err(SendError::TooLong { length: payload.len() });
        }
        let interface = out.interface.map(|i| i.0);
        let mut outcome = self.send_whole(&header, payload, interface);
        if is_too_wide(&outcome) {
            outcome = self.send_fragments(&header, payload, interface);
        }
        match outcome {
            Ok(()) => {
                self.counters.sent += 1;
                Ok(())
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => {
                self.counters.no_room += 1;
                Err(SendError::NoRoom)
            }
            Err(e) => Err(SendError::System(e)),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> SocketCounters {
        let overflowed = receive_drops(self.receiver.as_fd()).unwrap_or_default();
        SocketCounters { overflowed, ..self.counters }
    }

    fn send_whole(&self, header: &Repr, payload: &[u8], via: Option<u32>) -> io::Result<()> {
        let (octets, length) = emit(header, 0);
        self.transmit(&[&octets[..length], payload], header.destination, via)
    }

    fn send_fragments(
        &mut self,
        header: &Repr,
        payload: &[u8],
        via: Option<u32>,
    ) -> io::Result<()> {
        // 0 would ask the kernel to number each fragment differently.
        let identification = self.next_identification.max(1);
        self.next_identification = identification.wrapping_add(1);
        let mut outcome = Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        for size in FRAGMENT_SIZES {
            // All but the last fragment carry a multiple of eight octets (RFC 791).
            let step = (size - header.header_len()) & !7;
            outcome = payload.chunks(step).enumerate().try_for_each(|(n, part)| {
                let more = n * step + part.len() < payload.len();
                let offset = (n * step / 8) as u16; // of at most 65 535 octets
                let place = offset | if more { MORE_FRAGMENTS } else { 0 };
                let header = Repr { identification, payload_len: part.len(), ..*header };
                let (octets, length) = emit(&header, place);
                self.transmit(&[&octets[..length], part], header.destination, via)
            });
            // The first fragment is as wide as any, so that nothing has been sent when this size is too wide.
            if !is_too_wide(&outcome) {
                break;
            }
        }
        outcome
    }

    fn transmit(&self, pieces: &[&[u8]; 2], to: Ipv4Addr, via: Option<u32>) -> io::Result<()> {
        send_packet(self.sender.as_fd(), *pieces, to, via)
    }
}

impl AsFd for RsvpSocket {
    /// The descriptor that becomes readable when messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

fn claim_namespace() -> Result<UnixDatagram, OpenError> {
    let name = SocketAddr::from_abstract_name(b"earmark-rsvp");
    name.and_then(|name| UnixDatagram::bind_addr(&name)).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => OpenError::AlreadyRunning,
        _ => OpenError::System { doing: "claim the network namespace", source },
    })
}

fn raw_socket(protocol: i32) -> Result<OwnedFd, OpenError> {
    let socket = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW.nonblocking().cloexec(),
        Some(protocol.into()),
    );
    socket
        .map(OwnedFd::from)
        .map_err(|source| OpenError::System { doing: "open a raw socket", source })
}

/// A header in octets, and how many they are; `place` among fragments is the field of flags and offset. The kernel writes
/// the checksum.
fn emit(header: &Repr, place: u16) -> ([u8; MIN_HEADER_LEN + 4], usize) {
    let mut octets = [0; MIN_HEADER_LEN + 4];
    let length = header
        .emit(&mut octets)
        .expect("room for the longest header we write, and a length that was checked");
    octets[6..8].copy_from_slice(&place.to_be_bytes());
    (octets, length)
}

fn is_too_wide(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EMSGSIZE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a fragment looks like, octet by octet (RFC 791); the checksum is not ours to write.
    #[test]
    fn a_fragment_is_laid_out_as_rfc_791_draws_it() {
        let header = Repr {
            tos: TYPE_OF_SERVICE,
            identification: 0x1234,
            dont_fragment: false,
            ttl: 63,
            protocol: 46,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 9, 9),
            router_alert: Some(0),
            payload_len: 8,
        };
        let (mut octets, length) = emit(&header, 185 | MORE_FRAGMENTS);
        octets[10..12].fill(0);
        let expected = [
            0x46, 0xc0, 0x00, 0x20, 0x12, 0x34, 0x20, 0xb9, 63, 46, 0, 0, // no checksum
            10, 0, 0, 1, 10, 0, 9, 9, 0x94, 4, 0, 0,
        ];
        assert_eq!(octets[..length], expected);
    }
}
