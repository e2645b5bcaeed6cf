//! Parameters and traffic of the demo.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Rate;
use earmark_scenario::topology::Family;

use crate::protocols::PROTOCOLS;
use crate::traffic::Shape;

/// Width of a bin of the rate over time.
pub const BIN: Duration = Duration::from_millis(100);
/// The node whose daemon is killed, and whose signalling is captured: the router before the bottleneck.
pub const ROUTER: &str = "r1";
/// Number of streams that are sent: the measured one, the flood, and one for each protocol after the first.
pub(super) const SENT: usize = 1 + PROTOCOLS.len();

/// Parameters of the demo.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Length of each stage.
    pub stage: Duration,
    /// Uncounted time between stages.
    pub settle: Duration,
    /// Traffic of the measured stream.
    pub stream: Shape,
    /// Traffic of the flood.
    pub flood: Shape,
    /// Traffic of each further stream of the last stage.
    pub sharer: Shape,
    /// Rate that each protocol requests in the last stage and must be refused.
    pub too_much: Rate,
    /// Rate of the second reservation, which must be refused.
    pub second: Rate,
    /// Refresh period R of all nodes.
    pub refresh: Duration,
    /// Whether the daemon of r1 is killed while the reservation exists.
    pub kill: bool,
    /// Address family of all traffic.
    pub family: Family,
    /// Group that h2 joins, to which the measured stream and the second one are sent; `None` for h2 itself.
    pub group: Option<IpAddr>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            stage: Duration::from_secs(7),
            settle: Duration::from_millis(500),
            stream: Shape { rate: Rate::from_mbps(2), packet_octets: 1_000, bucket_octets: 32_000 },
            flood: Shape { rate: Rate::from_mbps(20), packet_octets: 1_400, bucket_octets: 64_000 },
            sharer: Shape { rate: Rate::from_mbps(1), packet_octets: 1_000, bucket_octets: 32_000 },
            too_much: Rate::from_mbps(5),
            second: Rate::from_mbps(8),
            refresh: Duration::from_secs(2),
            kill: false,
            family: Family::Ipv4,
            group: None,
        }
    }
}

impl Plan {
    /// Longest time between two refreshes, 1.5 R (RFC 2205 section 3.7).
    pub fn longest_refresh(&self) -> Duration {
        self.refresh * 3 / 2
    }
}

/// A traffic stream of the demo; each has a port of its own at h2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The stream that is measured.
    Measured,
    /// The flood.
    Flood,
    /// A stream that is not sent, but for which a reservation is requested.
    Second,
    /// The stream for which the protocol of this index reserves in the last stage; the first one reserves for the
    /// measured stream.
    Sharer(u16),
}

impl Stream {
    /// Streams that are sent, in the order of [`stop_traffic`](super::DemoNetwork::stop_traffic).
    pub const SENT: [Stream; SENT] =
        [Stream::Measured, Stream::Flood, Stream::Sharer(1), Stream::Sharer(2), Stream::Sharer(3)];

    /// Returns the group to which the stream is sent, if any.
    pub(super) fn group(self, plan: &Plan) -> Option<IpAddr> {
        plan.group.filter(|_| matches!(self, Stream::Measured | Stream::Second))
    }

    /// Returns the traffic of the stream.
    pub(super) fn shape(self, plan: &Plan) -> Shape {
        match self {
            Stream::Measured | Stream::Second => plan.stream,
            Stream::Flood => plan.flood,
            Stream::Sharer(_) => plan.sharer,
        }
    }

    /// Returns the port, destination and source alike.
    pub const fn port(self) -> u16 {
        match self {
            Stream::Measured => 5_001,
            Stream::Flood => 5_002,
            Stream::Second => 5_003,
            Stream::Sharer(protocol) => 5_003 + protocol,
        }
    }
}
