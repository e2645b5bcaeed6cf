//! Data traffic: streams of packets, and their fate.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::random::Stream;

use crate::ids::NodeId;
use crate::measurement::Trace;
use crate::pattern::{Departures, TrafficPattern};

/// A stream of UDP packets of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Sending node.
    pub node: NodeId,
    /// Source port.
    pub port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Distribution of the packets over time. Rates count IP packet octets.
    pub pattern: TrafficPattern,
    /// Octets of each IP packet.
    pub packet_octets: u32,
    /// Start time.
    pub from: Time,
    /// End time.
    pub until: Time,
    /// Records of the stream.
    pub keep: Keep,
}

/// Records of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Only the numbers of sent and received packets; 16 octets.
    Counts,
    /// The send and receive time of each packet, too: 24 octets a packet.
    #[default]
    Packets,
}

/// A running source.
pub(crate) struct StreamState {
    pub(crate) source: Source,
    pub(crate) address: Option<IpAddr>,
    pub(crate) random: Stream,
    pub(crate) departures: Departures,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Number of packets that were dropped on their way.
    pub(crate) dropped: u64,
    pub(crate) trace: Trace,
    /// Traces of a stream to a group at each member that it has reached.
    pub(crate) at_members: BTreeMap<NodeId, Trace>,
}
