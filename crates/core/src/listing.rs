//! Rows of the listings of a node. A node fills them, a daemon serializes them, a client deserializes them.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use earmark_wire::gist::SessionId;
use serde::{Deserialize, Serialize};

use crate::{ApplicationId, Endpoint, FilterAction, Prefix, Rate, Transport};

/// A sender of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionRow {
    /// Name of the protocol.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data; 0 for an aggregate.
    pub ip_protocol: u8,
    /// DSCP of the data, if it is an aggregate, which is known by this alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Source address.
    pub source: IpAddr,
    /// Source port; 0 if the sender is identified by its flow label.
    pub source_port: u16,
    /// IPv6 flow label, if the sender is identified by it instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// SPI of ESP or AH, if the sender is identified by it instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// Previous hop; `None` for a sender on this host, and for protocols without this information.
    pub previous_hop: Option<IpAddr>,
    /// Incoming interface.
    pub incoming: Option<String>,
    /// Outgoing interfaces: several for a multicast group, none if the data end at this host only.
    pub outgoing: Vec<String>,
    /// Whether the data end at this host, here only or elsewhere too.
    pub here: bool,
    /// Token rate that the sender announces, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// Hops that take part so far, if the path advertises them.
    pub hops: Option<u32>,
    /// Seconds until the state expires without a refresh; `None` for a sender on this host.
    pub expires_in_s: Option<f64>,
    /// Whether a reservation is in place or has arrived for the sender.
    pub reserved: bool,
    /// Rate reserved in the reverse direction, bits per second, if the protocol reserves both directions and its
    /// message returned through this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<u64>,
    /// Prefix lengths of source and destination address, if shorter than the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_lengths: Option<[u8; 2]>,
    /// Whether the sender waits for released bandwidth.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waiting: bool,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReservationRow {
    /// Name of the protocol.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data; 0 for an aggregate.
    pub ip_protocol: u8,
    /// DSCP of the data, if it is an aggregate, which is known by this alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Senders whose packets get the reservation: one, or several that share; none if it applies to all senders.
    pub senders: Vec<SenderName>,
    /// Style, in the words of the protocol: how senders share the reservation (`FF`, `SE`, `WF`, `individual`, `shared`),
    /// its direction as seen by the initiator (`forward`, `reverse`), or who asked (`sender-initiated`,
    /// `receiver-initiated`).
    pub style: Cow<'static, str>,
    /// Service: `controlled-load` or `guaranteed`.
    pub service: Cow<'static, str>,
    /// Outgoing interface; `None` for a receiver on this host.
    pub interface: Option<String>,
    /// Next hop; `None` for a receiver on this host.
    pub next_hop: Option<IpAddr>,
    /// User who requested it, if the request names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserRow>,
    /// Reserved rate, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// Seconds since this daemon has installed it on its link; `None` if nothing is installed, as for a receiver on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// Seconds until the state expires without a refresh; `None` for a receiver on this host.
    pub expires_in_s: Option<f64>,
    /// Counters of its queue; `None` without a queue: for a receiver on this host, and on links whose queues are not
    /// managed. Next hops that are merged into one reservation share a queue, and all show it.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement as last read from the kernel; `None` without a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<EnforcementRow>,
}

/// User behind a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserRow {
    /// Name of the user.
    pub name: String,
    /// Proof of the name: `verified` by a token, or only `claimed`.
    pub proof: Cow<'static, str>,
}

/// Enforcement of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnforcementRow {
    /// State: `enforced`; `standby` if another claim on the same flow gives its packets more; `unenforced`.
    pub state: Cow<'static, str>,
    /// Reason why the reservation is unenforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of claims on the flow, of all protocols and including this one. Each claim reserves its own rate on the
    /// link; the packets get the best of them.
    pub claims: usize,
}

/// Name of a sender in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SenderName {
    /// Source address.
    pub address: IpAddr,
    /// Source port; 0 for protocols without ports, and with a flow label.
    #[serde(default)]
    pub port: u16,
    /// IPv6 flow label, if the filter has one instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// SPI of ESP or AH, if the filter has one instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
}

impl SenderName {
    /// Returns whether this name matches a sender. A name without port, flow label and SPI matches all senders at its
    /// address.
    pub fn matches(&self, sender: &SenderName) -> bool {
        let any = SenderName { address: self.address, port: 0, flow_label: None, spi: None };
        self == sender || *self == any && self.address == sender.address
    }
}

impl From<(IpAddr, u16, Option<u32>, Option<u32>)> for SenderName {
    /// Creates a name from address, port, flow label and SPI.
    fn from((address, port, flow_label, spi): (IpAddr, u16, Option<u32>, Option<u32>)) -> Self {
        SenderName { address, port, flow_label, spi }
    }
}

/// Counters of a reservation's queue since it was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrafficRow {
    /// Packets sent.
    pub packets: u64,
    /// Octets sent, from the IP header on.
    pub octets: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Packets in the backlog.
    pub backlog_packets: u32,
    /// Octets in the backlog.
    pub backlog_octets: u32,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkRow {
    /// Interface name.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Whether the interface is up.
    pub up: bool,
    /// State of the link.
    #[serde(default)]
    pub state: LinkState,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Bandwidth of the link.
    pub bandwidth_bps: Rate,
    /// Reservable bandwidth.
    pub reservable_bps: Rate,
    /// Reserved bandwidth, adopted flows included.
    pub held_bps: Rate,
    /// Number of reservations.
    pub claims: u32,
    /// Number of adopted flows: reserved by a terminated daemon and not claimed yet.
    pub adopted: u32,
    /// Admission control of the link; `None` for one that takes no part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionRow>,
    /// Octets that reservations have sent, as traffic control counts them; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_octets: Option<u64>,
}

/// Admission control of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdmissionRow {
    /// Method: `parameter` or `measured`.
    pub method: Cow<'static, str>,
    /// Measured load of the link's reservations; `None` if nothing is measured, or not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bps: Option<Rate>,
}

crate::named_enum! {
    /// State of a link. Only links in the first two states take part.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum LinkState {
        /// The interface takes part, and can send packets.
        Up = "up",
        /// The interface takes part, and is down or without carrier.
        #[default]
        Down = "down",
        /// The configuration names an interface that does not exist.
        Absent = "absent",
        /// The configuration relies on the driver's speed, and the driver reports none.
        NoSpeed = "no speed",
        /// The interface has returned too often, and takes part again after a pause.
        Flapping = "flapping",
        /// The system refused the required setup.
        Failed = "failed",
    }
}

/// A neighbor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeighborRow {
    /// Name of the protocol.
    pub protocol: Cow<'static, str>,
    /// Address of the neighbor.
    pub address: IpAddr,
    /// Interface to the neighbor.
    pub interface: String,
    /// Number of senders whose previous hop it is.
    pub senders: usize,
    /// Number of reservations whose next hop it is.
    pub reservations: usize,
    /// Seconds since its last message.
    pub heard_s: f64,
    /// Refresh reduction; `None` if the neighbor does not support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<ReductionRow>,
    /// Liveness by Hello: `alive`, `lost`, `restarting` (silent, and expected back) or `recovering` (back without its state);
    /// `None` if the neighbor has sent no Hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Cow<'static, str>>,
    /// Seconds for which state of a neighbor that restarts is still kept; `None` for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_s: Option<f64>,
    /// Deviations from the standards that were accepted, by name, such as `ADSPEC order`; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerated: Vec<Cow<'static, str>>,
}

/// Refresh reduction with a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReductionRow {
    /// Epoch of its message identifiers, if it has sent any.
    pub epoch: Option<u32>,
    /// Number of states that it has acknowledged and that summary refreshes cover.
    pub summarized: usize,
    /// Number of states that it acknowledged and lost, and that are still to be resent.
    pub to_repeat: usize,
    /// Summary refreshes sent to it.
    pub summaries_sent: u64,
    /// Summary refreshes received from it.
    pub summaries_received: u64,
}

/// An aggregate, as a row of a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AggregateRow {
    /// Name of the protocol of the aggregate.
    pub protocol: String,
    /// Name of the interface towards the core; `None` while the aggregate has no reservation.
    pub interface: Option<String>,
    /// Far edge, if known.
    pub to: Option<IpAddr>,
    /// Destinations behind the far edge.
    pub range: Prefix,
    /// Number of reservations in the aggregate.
    pub members: u32,
    /// Total demand of the reservations.
    pub need_bps: Rate,
    /// Rate that the core has granted.
    pub granted_bps: Rate,
    /// Number of requests that wait for the aggregate to grow.
    pub waiting: u32,
    /// Whether the core has withdrawn the reservation, or is silent.
    pub failing: bool,
}

/// Routing state towards one peer for one session: half of a message routing state (RFC 5971 section 4.2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoutingStateRow {
    /// Application by name, or by number without a name.
    pub application: Cow<'static, str>,
    /// NSLPID of the application.
    pub nslpid: u16,
    /// Session identifier.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// Source address of the flow.
    pub source: IpAddr,
    /// Source port; 0 if it does not count.
    pub source_port: u16,
    /// Destination address of the flow.
    pub destination: IpAddr,
    /// Destination port; 0 if it does not count.
    pub destination_port: u16,
    /// IP protocol of the data; 0 if it does not count.
    pub ip_protocol: u8,
    /// Direction of the peer along the flow: `downstream` or `upstream`.
    pub direction: Cow<'static, str>,
    /// State of the state machine: `idle`, `wait_response`, `wait_association`, `established_downstream`,
    /// `wait_confirm` or `established_upstream`.
    pub state: Cow<'static, str>,
    /// Validity of the state (RFC 5971 section 7.1.3): `good`, `tentative` or `bad`.
    pub validity: Cow<'static, str>,
    /// Address of the peer, if known.
    pub peer: Option<IpAddr>,
    /// Interface towards the peer.
    pub interface: Option<String>,
    /// IP hops to the peer, if known. More than 1 means routers between that take no part.
    pub ip_distance: Option<u8>,
    /// Number of messages that wait for the discovery of the peer.
    pub waiting: usize,
    /// Seconds until the next Query; `None` at the responder.
    pub refresh_in_s: Option<f64>,
    /// Seconds until the state expires without use or refresh.
    pub expires_in_s: Option<f64>,
}

/// A messaging association (RFC 5971): a connection to a peer, shared by all sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssociationRow {
    /// Address of the peer, if known: not before its Confirm.
    pub peer: Option<IpAddr>,
    /// Peer-Identity, in hexadecimal.
    pub identity: Option<String>,
    /// Transport protocols of the association.
    pub transport: Transport,
    /// State of the association: `opening`, `half_open`, `open` or `closed`.
    pub stage: Cow<'static, str>,
    /// Whether this node opened the association.
    pub is_ours: bool,
    /// Local address of the connection.
    pub local: SocketAddr,
    /// Remote address of the connection.
    pub remote: SocketAddr,
    /// Number of routing states that use it, each direction counted.
    pub uses: u32,
    /// Seconds since the last received data.
    pub heard_s: f64,
    /// Seconds since the last sent data.
    pub said_s: f64,
}

/// A rule for the packet filter: packets that a session has let through this node, or blocked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinholeRow {
    /// Session of the rule.
    #[serde(flatten)]
    pub session: FilterSessionRow,
    /// Whether the packets are forwarded or dropped.
    pub action: FilterAction,
    /// IP protocol of the packets; 0 for any.
    pub ip_protocol: u8,
    /// Source address; `None` for any.
    pub source: Option<IpAddr>,
    /// Source port; 0 for any.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; 0 for any.
    pub destination_port: u16,
    /// SPI of ESP or AH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// ICMP type; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// Source that the packets get, if it is translated. Port 0 leaves the port as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_source: Option<Endpoint>,
    /// Destination that the packets get, if it is translated. Port 0 leaves the port as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_destination: Option<Endpoint>,
    /// Whether the packet filter has the rule.
    pub installed: bool,
    /// Reason why the packet filter does not have the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
}

/// An address and port of a host that a session has reserved for data from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TranslationRow {
    /// Session of the reservation.
    #[serde(flatten)]
    pub session: FilterSessionRow,
    /// Whether data may come in, or is blocked.
    pub action: FilterAction,
    /// IP protocol of the data; 0 for any.
    pub ip_protocol: u8,
    /// Address and port of the host.
    pub internal: Endpoint,
    /// Address and port by which the host is known outside. Those of the host if this node translates none.
    pub external: Endpoint,
    /// Data sender; `None` for any.
    pub from: Option<IpAddr>,
}

/// Session of a row about the packet filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilterSessionRow {
    /// Session identifier.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session: SessionId,
    /// Message that creates and refreshes the session: `CREATE` or `EXTERNAL`.
    pub message: Cow<'static, str>,
    /// Role of this node: `initiator`, `proxy` (initiator for a host without signalling), `forwarder` or `responder`.
    pub role: Cow<'static, str>,
    /// State of the session: `pending`, `established`, or `transitory` after a change of the route.
    pub stage: Cow<'static, str>,
    /// Application of this host that has asked for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationId>,
    /// User that the session counts for, if a token proves the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds until the session ends without a refresh; `None` for a session of this host.
    pub expires_in_s: Option<f64>,
}
