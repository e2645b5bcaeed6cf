//! Messages of the sender in each protocol: set-up, refresh and release of a session.

use std::net::{Ipv4Addr, SocketAddr};

use earmark_core::Outgoing;
use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::{self, Kind};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::udp;

use super::super::router::{Protocol, Step, boomerang, yessir};
use super::super::session::{Sessions, envelope};
use super::nsis;

/// Number of different sessions; released ones are used again.
pub(in crate::bench) const SESSIONS: u32 = 1_048_576;
/// Sessions to one destination port, which differ in the source port: a port of RTP and one of RTCP each.
const OF_ONE_PORT: u32 = 25_000;
/// First source port.
const FIRST_SOURCE_PORT: u16 = 10_000;
/// First destination port.
const FIRST_PORT: u16 = 5_000;
/// Rate of a session, bit/s; in each direction with Boomerang.
pub(super) const RATE: u32 = 8_000;
/// Traffic of a stream.
const BUCKET: TokenBucket = TokenBucket {
    rate: (RATE / 8) as f32,
    depth: 1_500.0,
    peak: f32::INFINITY,
    min_policed_unit: 100,
    max_packet_size: 1_500,
};

impl Protocol {
    /// Returns the number of reservations of a session on the links of a router.
    pub fn claims_of_a_session(self) -> u32 {
        match self {
            Protocol::Rsvp | Protocol::Yessir | Protocol::Nsis => 1,
            Protocol::Natfw => 0,
            // One in each direction.
            Protocol::Boomerang => 2,
        }
    }

    /// Returns the number of messages that a router forwards, or receives and answers, for a set-up and its release.
    pub fn messages_of_a_pair(self) -> u32 {
        match self {
            // Path, Resv, PathTear.
            Protocol::Rsvp => 3,
            // Two loops, out and back.
            Protocol::Boomerang => 4,
            // A report, a BYE.
            Protocol::Yessir => 2,
            // Query, Confirm with RESERVE, Response, RESPONSE, RESERVE; or CREATE.
            Protocol::Nsis | Protocol::Natfw => 5,
        }
    }

    /// Returns the name of the protocol in settings and scenarios.
    pub fn name_in_settings(self) -> &'static str {
        match self {
            Protocol::Rsvp => "rsvp",
            Protocol::Boomerang => "boomerang",
            Protocol::Yessir => "yessir",
            Protocol::Nsis | Protocol::Natfw => "nsis",
        }
    }

    /// Returns the message that refreshes a session: that of the set-up, unless the protocol has a shorter one.
    pub(super) fn refresh(self) -> Step {
        match self {
            Protocol::Rsvp | Protocol::Boomerang | Protocol::Yessir => Step::SetUp,
            Protocol::Nsis | Protocol::Natfw => Step::Refresh,
        }
    }
}

/// Sender of the messages, with its addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageWriter {
    pub(super) protocol: Protocol,
    pub(super) sessions: Sessions,
    /// Destination's own address.
    pub(super) to: Ipv4Addr,
    /// Address of the router on the link to the sender.
    pub(super) router: Ipv4Addr,
}

impl MessageWriter {
    /// Writes a message about a session into `octets`; returns its envelope.
    pub(super) fn write(&self, number: u32, step: Step, octets: &mut Vec<u8>) -> Outgoing {
        match self.protocol {
            Protocol::Rsvp => self.rsvp(number, step, octets),
            Protocol::Boomerang => self.boomerang(number, step, octets),
            Protocol::Yessir => self.yessir(number, step, octets),
            // Rates are measured of protocols that reserve.
            Protocol::Nsis | Protocol::Natfw => nsis::write(self, number, step, octets),
        }
    }

    /// Returns the destination ports of YESSIR sessions: those of RTCP.
    pub(super) fn ports() -> impl Iterator<Item = u16> {
        (0..SESSIONS.div_ceil(OF_ONE_PORT)).map(|place| port(FIRST_PORT, place) + 1)
    }

    /// Returns source and destination port of a session, which shares its destination with others.
    pub(super) fn ports_of(number: u32) -> [u16; 2] {
        [port(FIRST_SOURCE_PORT, number % OF_ONE_PORT), port(FIRST_PORT, number / OF_ONE_PORT)]
    }

    fn out(&self, protocol: u8, destination: Ipv4Addr, router_alert: bool) -> Outgoing {
        let source = self.sessions.sender.into();
        Outgoing { router_alert, ..envelope(protocol, source, destination.into()) }
    }

    /// Refresh period in whole seconds, for protocol fields: at most the largest that a daemon accepts.
    fn seconds(&self) -> u8 {
        const MAX: u64 = 30;
        self.sessions.refresh.as_secs().clamp(1, MAX) as u8
    }

    fn rsvp(&self, number: u32, step: Step, octets: &mut Vec<u8>) -> Outgoing {
        match step {
            Step::SetUp | Step::Refresh => self.sessions.path(number, octets),
            Step::Release => self.sessions.path_tear(number, octets),
        }
        let (session, _) = self.sessions.names(number);
        let out = self.out(earmark_rsvp::PROTOCOL, self.to, true);
        Outgoing { destination: session.destination, ..out }
    }

    fn boomerang(&self, number: u32, step: Step, octets: &mut Vec<u8>) -> Outgoing {
        let rates = match step {
            Step::SetUp | Step::Refresh => Rates { forward: RATE, reverse: RATE },
            Step::Release => Rates::ZERO,
        };
        let [source_port, destination_port] = MessageWriter::ports_of(number);
        let ends = [
            SocketAddr::new(self.sessions.sender.into(), source_port),
            SocketAddr::new(self.to.into(), destination_port),
        ];
        // A ping's identifier and sequence number have 16 bits.
        let echo = (Kind::Request, [number as u16, (number >> 16) as u16]);
        boomerang::write_loop(number, ends, rates, self.seconds(), echo, octets);
        self.out(icmp::PROTOCOL_V4, self.to, false)
    }

    fn yessir(&self, number: u32, step: Step, octets: &mut Vec<u8>) -> Outgoing {
        let ssrc = 0x5000_0000 + number;
        let app = yessir::request(ssrc, number, self.seconds(), BUCKET, None, None);
        let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 0, packets: 0, octets: 0 };
        // RTCP uses the next ports.
        let [source_port, destination_port] = MessageWriter::ports_of(number).map(|port| port + 1);
        let (source, destination) = (self.sessions.sender.into(), self.to.into());
        let ends = udp::Repr { source, destination, source_port, destination_port };
        yessir::write_report(&ends, ssrc, sender, &app, step == Step::Release, octets);
        self.out(udp::PROTOCOL, self.to, true)
    }
}

/// Returns an even port, followed by that of RTCP.
fn port(first: u16, place: u32) -> u16 {
    u16::try_from(u32::from(first) + 2 * place).expect("there are so many")
}

#[cfg(test)]
pub(super) mod tests;
