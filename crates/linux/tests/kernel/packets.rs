//! Pings and RTCP packets, and programs without Earmark that send and receive them.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_core::{InterfaceId, Outgoing};
use earmark_linux::netns::Namespace;
use earmark_linux::{Incoming, SignallingSocket, link};
use earmark_wire::{checksum, udp};

use crate::support::{Line, eventually};

pub(crate) const MAGIC: [u8; 4] = [0x47, 0x11, 0x47, 0x11];

/// Addresses of a line in both families: its sender, its receiver, and the router on the sender's side.
pub(crate) const FAMILIES: [[&str; 3]; 2] =
    [["10.77.1.1", "10.77.2.1", "10.77.1.2"], ["2001:db8:1::1", "2001:db8:2::1", "2001:db8:1::2"]];

pub(crate) fn addresses(family: [&str; 3]) -> [IpAddr; 3] {
    family.map(|address| address.parse().expect("an address"))
}

/// Returns a line with both families.
pub(crate) fn line() -> Line {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    line
}

/// Returns the sender's interface, and the receiver's.
pub(crate) fn ends(line: &Line) -> [InterfaceId; 2] {
    [(&line.sender, "right"), (&line.receiver, "left")]
        .map(|(namespace, name)| link::index(namespace, name).expect("an answer").expect("there"))
}

/// Returns a packet of a protocol with TTL 64, by the routes.
pub(crate) fn outgoing(protocol: u8, source: IpAddr, destination: IpAddr) -> Outgoing {
    Outgoing {
        protocol,
        interface: None,
        source,
        destination,
        ttl: 64,
        router_alert: true,
        encapsulated: false,
        neighbor: None,
        next_hop: None,
    }
}

/// Returns ICMP's protocol number for a family.
pub(crate) fn icmp(address: IpAddr) -> u8 {
    if address.is_ipv4() { 1 } else { 58 }
}

/// Returns the pseudo-header: addresses, length and protocol (RFC 8200 section 8.1).
fn pseudo_sum(protocol: u8, source: IpAddr, destination: IpAddr, length: usize) -> Vec<u8> {
    let mut octets = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(a) => octets.extend(a.octets()),
            IpAddr::V6(a) => octets.extend(a.octets()),
        }
    }
    octets.extend((length as u32).to_be_bytes());
    octets.extend([0, 0, 0, protocol]);
    octets
}

/// Returns the correct checksum of an ICMP message.
pub(crate) fn icmp_checksum(message: &[u8], source: IpAddr, destination: IpAddr) -> [u8; 2] {
    let mut octets = match source {
        IpAddr::V4(_) => Vec::new(),
        IpAddr::V6(_) => pseudo_sum(58, source, destination, message.len()),
    };
    let at = octets.len() + 2;
    octets.extend(message);
    octets[at..at + 2].fill(0);
    checksum::checksum(&octets).to_be_bytes()
}

/// Returns an echo request.
pub(crate) fn echo(data: &[u8], source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let kind = if source.is_ipv4() { 8 } else { 128 };
    let mut message = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend(data);
    let sum = icmp_checksum(&message, source, destination);
    message[2..4].copy_from_slice(&sum);
    message
}

/// Whether a UDP packet has the correct checksum.
pub(crate) fn has_right_checksum(packet: &[u8], source: IpAddr, destination: IpAddr) -> bool {
    let mut octets = pseudo_sum(17, source, destination, packet.len());
    octets.extend(packet);
    checksum::sum(&octets) == 0xffff
}

/// Returns a UDP packet with its header.
pub(crate) fn udp(source: SocketAddr, destination: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; udp::HEADER];
    packet.extend(data);
    let header = udp::Repr {
        source: source.ip(),
        destination: destination.ip(),
        source_port: source.port(),
        destination_port: destination.port(),
    };
    header.emit(&mut packet).expect("fits");
    packet
}

/// Returns an RTCP packet of a type, with a count or subtype, and `body` after its first word.
pub(crate) fn rtcp(kind: u8, count: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80 | count, kind];
    packet.extend((body.len() as u16 / 4).to_be_bytes());
    packet.extend(body);
    packet
}

/// Returns a sender report without blocks, a source description, and an APP packet of this name with 16 octets of data.
pub(crate) fn compound(name: [u8; 4]) -> Vec<u8> {
    let mut application = vec![0, 0, 0, 7];
    application.extend(name);
    application.extend([0xab; 16]);
    [
        report(),
        rtcp(202, 1, &[0, 0, 0, 7, 1, 2, b'e', b'm', 0, 0, 0, 0]),
        rtcp(204, 1, &application),
    ]
    .concat()
}

/// Returns a sender report without blocks.
pub(crate) fn report() -> Vec<u8> {
    rtcp(200, 0, &[7; 24])
}

/// Opens a program's UDP socket.
pub(crate) fn program(namespace: &Namespace, address: SocketAddr) -> UdpSocket {
    let bind = || UdpSocket::bind(address);
    let socket = namespace.run_in(bind).expect("inside").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    socket
}

/// The equivalent of `ping`: receives every ICMP message for its host.
pub(crate) struct Pinger {
    socket: socket2::Socket,
    is_ipv4: bool,
}

impl Pinger {
    pub(crate) fn open(namespace: &Namespace, is_ipv4: bool) -> Pinger {
        let (domain, protocol) = match is_ipv4 {
            true => (socket2::Domain::IPV4, socket2::Protocol::ICMPV4),
            false => (socket2::Domain::IPV6, socket2::Protocol::ICMPV6),
        };
        let open = || socket2::Socket::new(domain, socket2::Type::RAW, Some(protocol));
        let socket = namespace.run_in(open).expect("inside").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
        Pinger { socket, is_ipv4 }
    }

    /// Waits for answers at most this long.
    pub(crate) fn waiting(self, time: Duration) -> Pinger {
        self.socket.set_read_timeout(Some(time)).expect("a timeout");
        self
    }

    /// Sends a ping and waits for the answer; returns whether it arrived.
    pub(crate) fn ping(&mut self, source: IpAddr, destination: IpAddr, data: &[u8]) -> bool {
        let message = echo(data, source, destination);
        let to = SocketAddr::new(destination, 0);
        self.socket.send_to(&message, &to.into()).expect("sent");
        self.receives_answer(data)
    }

    /// Whether an answer with this data arrives.
    pub(crate) fn receives_answer(&mut self, data: &[u8]) -> bool {
        let mut room = [0; 2_048];
        let header = if self.is_ipv4 { 20 } else { 0 };
        let kind = if self.is_ipv4 { 0 } else { 129 };
        while let Ok(length) = self.socket.read(&mut room) {
            let message = room[..length].get(header..).unwrap_or_default();
            if message.first() == Some(&kind) && message.get(8..) == Some(data) {
                return true;
            }
        }
        false
    }
}

/// Asserts that a packet of the sender reaches a program through the router, with router alert and without.
pub(crate) fn assert_forwarded(
    sender: &mut SignallingSocket,
    [source, destination]: [SocketAddr; 2],
    program: &UdpSocket,
    data: &[u8],
) {
    for router_alert in [true, false] {
        let out = Outgoing { router_alert, ..outgoing(17, source.ip(), destination.ip()) };
        sender.send(&out, &udp(source, destination, data)).expect("sent");
        let mut room = [0; 2_048];
        let length = program.recv(&mut room).expect("forwarded");
        assert_eq!(&room[..length], data);
    }
}

/// Asserts that exactly one message arrives.
pub(crate) fn receive_one(
    what: &str,
    socket: &mut SignallingSocket,
    mut check: impl FnMut(Incoming<'_>),
) {
    let mut count = 0;
    eventually(what, || {
        let each = |message: Incoming<'_>| {
            count += 1;
            check(message);
        };
        socket.receive(each).expect("received");
        count > 0
    });
    crate::interception::assert_nothing(socket);
    assert_eq!(count, 1, "{what}");
}
