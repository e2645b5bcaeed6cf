//! A router whose packet filter guards the interface towards a sender, and datagrams through it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use earmark_core::{FilterAction, FilterChange, FilterRule, FilteredPackets, Flow, Prefix, Time};
use earmark_linux::clock::Clock;
use earmark_linux::netns::Namespace;
use earmark_linux::nftables::Adoption;
use earmark_linux::{PacketFilter, PacketFilterSettings};

use crate::packets;
use crate::support::{Line, RECEIVER, SENDER};

/// How long a test waits for a packet that must not come.
pub(crate) const SILENCE: Duration = Duration::from_millis(60);
/// How long a test waits for a packet that must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// A port of the receiver.
pub(crate) const PORT: u16 = 7_000;

/// A line whose router guards its interface towards the sender.
pub(crate) struct Guarded {
    pub(crate) line: Line,
    pub(crate) filter: PacketFilter,
    pub(crate) clock: Clock,
}

impl Guarded {
    pub(crate) fn new() -> Guarded {
        let line = packets::line();
        let clock = Clock::start();
        let (filter, adoption) = open(&line, clock);
        assert_eq!(adoption, Adoption::default(), "nothing was left");
        Guarded { line, filter, clock }
    }

    /// Installs a rule for an hour.
    pub(crate) fn install(&mut self, rule: FilterRule) {
        self.install_for(rule, Duration::from_secs(3_600));
    }

    pub(crate) fn install_for(&mut self, rule: FilterRule, time: Duration) {
        let until = self.clock.now() + time;
        self.change(&[FilterChange::Install(rule, until)]);
    }

    pub(crate) fn remove(&mut self, rule: FilterRule) {
        self.change(&[FilterChange::Remove(rule.packets)]);
    }

    pub(crate) fn change(&mut self, changes: &[FilterChange]) {
        let refused = self.filter.change(changes);
        assert!(refused.is_empty(), "{refused:?}");
    }

    pub(crate) fn hour(&self) -> Time {
        self.clock.now() + Duration::from_secs(3_600)
    }
}

/// Opens the packet filter of a router.
pub(crate) fn open(line: &Line, clock: Clock) -> (PacketFilter, Adoption) {
    let settings = PacketFilterSettings::new(["left"]);
    line.router.run_in(|| PacketFilter::open(settings, clock)).expect("inside").expect("opened")
}

/// Returns packets of a protocol from one address, or any, to another.
pub(crate) fn packets_to(
    source: Option<IpAddr>,
    destination: impl Into<IpAddr>,
    protocol: u8,
) -> FilteredPackets {
    let destination = destination.into();
    let length = if destination.is_ipv4() { 32 } else { 128 };
    let any = Flow::to_range(Prefix::new(destination, length));
    FilteredPackets { flow: Flow { source, protocol, ..any }, icmp_type: None }
}

pub(crate) fn rule(packets: FilteredPackets, action: FilterAction) -> FilterRule {
    FilterRule { packets, action, source: None, destination: None }
}

pub(crate) fn allow(packets: FilteredPackets) -> FilterRule {
    rule(packets, FilterAction::Allow)
}

/// Returns a pinhole for UDP of the sender from a port to one of the receiver.
pub(crate) fn udp_pinhole(source_port: u16, port: u16) -> FilterRule {
    let mut packets = packets_to(Some(SENDER.into()), RECEIVER, 17);
    (packets.flow.source_port, packets.flow.destination_port) = (source_port, port);
    allow(packets)
}

pub(crate) fn socket(namespace: &Namespace, address: impl Into<SocketAddr>) -> UdpSocket {
    let address = address.into();
    namespace.run_in(|| UdpSocket::bind(address)).expect("inside").expect("a socket")
}

/// Whether a datagram from one socket reaches another.
pub(crate) fn passes(
    from: &UdpSocket,
    to: &UdpSocket,
    address: SocketAddr,
    expected: bool,
) -> bool {
    let token = format!("{:?}", Instant::now());
    from.send_to(token.as_bytes(), address).expect("sent");
    arrives(to, &token, expected).is_some()
}

/// Waits for a datagram with this text, and returns its sender; skips others.
pub(crate) fn arrives(at: &UdpSocket, token: &str, expected: bool) -> Option<SocketAddr> {
    at.set_read_timeout(Some(if expected { PATIENCE } else { SILENCE })).expect("a timeout");
    let mut buffer = [0; 2_048];
    loop {
        match at.recv_from(&mut buffer) {
            Ok((length, source)) if buffer[..length] == *token.as_bytes() => return Some(source),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Asserts that datagrams pass from one socket to another, or that they do not.
#[track_caller]
pub(crate) fn assert_passes(from: &UdpSocket, to: &UdpSocket, expected: bool, why: &str) {
    let address = to.local_addr().expect("bound");
    assert_eq!(passes(from, to, address, expected), expected, "{why}");
}
