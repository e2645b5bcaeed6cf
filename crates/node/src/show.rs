//! Rows of listings about a node. Daemons serialize them, clients deserialize them.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::ClaimId;
use earmark_core::{Rate, Time};
use earmark_nsis::Nsis;
use earmark_wire::rsvp::{FilterSpec, SenderTemplate, SourceSelector};
use serde::{Deserialize, Serialize};

pub(crate) use crate::edge::AggregateRow;
use crate::engine::{Counter, NodeView};
use crate::node::Node;
use crate::protocols::nsis::routing_state;
pub use crate::protocols::nsis::routing_state::{AssociationRow, RoutingStateRow};

/// A sender of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Protocol: `rsvp`, `boomerang`, `yessir` or `nsis`.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Source port; 0 if the sender is identified by its flow label.
    pub source_port: u16,
    /// IPv6 flow label, if the sender is identified by it instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
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
    /// RSVP hops so far, if the path advertises them.
    pub hops: Option<u32>,
    /// Seconds until the state expires without a refresh; `None` for a sender on this host.
    pub expires_in_s: Option<f64>,
    /// Whether a reservation is in place or has arrived for the sender.
    pub reserved: bool,
    /// Boomerang: rate that its loop has reserved in the reverse direction, bits per second, if the loop returned
    /// through this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<u64>,
    /// Boomerang: prefix lengths of source and destination address, if shorter than the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_lengths: Option<[u8; 2]>,
    /// YESSIR: whether the sender waits for released bandwidth.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waiting: bool,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationRow {
    /// Protocol: `rsvp`, `boomerang`, `yessir` or `nsis`.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Senders whose packets get the reservation: one for FF, several that share for SE, none for WF, which applies to
    /// all; one for Boomerang; for YESSIR one, or none if all senders of a session share.
    pub senders: Vec<SenderName>,
    /// Style: `FF`, `SE` or `WF`; for Boomerang the direction, `forward` or `reverse` as seen by the initiator; for
    /// YESSIR `individual` or `shared`; for NSIS the requester, `sender-initiated` or `receiver-initiated`.
    pub style: Cow<'static, str>,
    /// Service: `controlled-load` or `guaranteed`.
    pub service: Cow<'static, str>,
    /// Outgoing interface; `None` for a receiver on this host.
    pub interface: Option<String>,
    /// Next hop; `None` for a receiver on this host.
    pub next_hop: Option<IpAddr>,
    /// Reserved rate, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// Seconds until the state expires without a refresh; `None` for a receiver on this host.
    pub expires_in_s: Option<f64>,
    /// Counters of its queue; `None` without a queue: for a receiver on this host, and on links whose queues are not
    /// managed. Next hops that are merged into one reservation share a queue, and all show it.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement as last read from the kernel; `None` without a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<EnforcementRow>,
}

/// Enforcement of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Traffic control's view of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Counters of its queue.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement.
    pub enforcement: Option<EnforcementRow>,
}

/// Name of a sender in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

impl SenderName {
    /// Whether this name matches a sender. A name without port and flow label matches all senders at its address.
    pub fn matches(&self, template: &SenderTemplate) -> bool {
        let selector = match (self.flow_label, self.port) {
            (Some(label), _) => Some(SourceSelector::FlowLabel(label)),
            (None, 0) => None,
            (None, port) => Some(SourceSelector::Port(port)),
        };
        self.address == template.source && selector.is_none_or(|named| named == template.selector)
    }
}

impl From<&FilterSpec> for SenderName {
    fn from(filter: &FilterSpec) -> SenderName {
        let (port, flow_label) = match filter.selector {
            SourceSelector::Port(port) => (port, None),
            SourceSelector::FlowLabel(label) => (0, Some(label)),
        };
        SenderName { address: filter.source, port, flow_label }
    }
}

/// Counters of a reservation's queue since it was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// State of a link. Only links in the first two states take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// The interface takes part, and can send packets.
    Up,
    /// The interface takes part, and is down or without carrier.
    #[default]
    Down,
    /// The configuration names an interface that does not exist.
    Absent,
    /// The configuration relies on the driver's speed, and the driver reports none.
    NoSpeed,
    /// The interface has returned too often, and takes part again after a pause.
    Flapping,
    /// The system refused the required setup.
    Failed,
}

impl LinkState {
    /// Returns the state as text.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Absent => "absent",
            LinkState::NoSpeed => "no speed",
            LinkState::Flapping => "flapping",
            LinkState::Failed => "failed",
        }
    }
}

/// A neighbor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighborRow {
    /// Protocol: `rsvp`.
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
    /// Liveness by Hello: `alive` or `lost`; `None` if the neighbor has sent no Hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Cow<'static, str>>,
}

/// Refresh reduction with a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Node {
    /// Returns the node as its engines see it for listings.
    pub fn view(&self, now: Time) -> NodeView<'_> {
        NodeView {
            now,
            interfaces: &self.interfaces,
            removed: &self.removed_interfaces,
            ledger: &self.ledger,
        }
    }

    /// Iterates over the senders of all sessions, protocol by protocol.
    pub fn session_rows(&self, now: Time) -> impl Iterator<Item = SessionRow> {
        self.engines().flat_map(move |engine| engine.sessions(self.view(now)))
    }

    /// Iterates over the reservations, including those of receivers on this host, protocol by protocol. `queue` returns
    /// the driver's view of a queue, and is called only for rows that are used.
    pub fn reservation_rows(
        &self,
        now: Time,
        mut queue: impl FnMut(ClaimId) -> QueueView,
    ) -> impl Iterator<Item = ReservationRow> {
        let rows = self.engines().flat_map(move |engine| engine.reservations(self.view(now)));
        rows.map(move |(claim, row)| {
            let QueueView { traffic, enforcement } = claim.map(&mut queue).unwrap_or_default();
            ReservationRow { traffic, enforcement, ..row }
        })
    }

    /// Returns the reservation that a claim belongs to, as [`Node::reservation_rows`] shows it but without its queue,
    /// without a walk over all. `None` if the claim has ended.
    pub fn reservation_of(&self, claim: ClaimId, now: Time) -> Option<ReservationRow> {
        let owner = self.ledger.owner(claim)?;
        let mut engines = self.engines();
        let engine = engines.find(|engine| engine.protocol() == owner.protocol)?;
        engine.reservation_of(claim, owner, self.view(now))
    }

    /// Iterates over the links that take part.
    pub fn link_rows(&self) -> impl Iterator<Item = LinkRow> {
        self.interfaces.iter().filter(|interface| interface.takes_part()).map(|interface| {
            let status = self.ledger.link(interface.id);
            LinkRow {
                interface: interface.name.clone(),
                index: interface.id.0,
                up: interface.up,
                state: if interface.up { LinkState::Up } else { LinkState::Down },
                addresses: interface.addresses.clone(),
                bandwidth_bps: interface.bandwidth,
                reservable_bps: interface.reservable,
                held_bps: status.map_or(Rate::ZERO, |status| status.held),
                claims: status.map_or(0, |status| status.claims),
                adopted: status.map_or(0, |status| status.adopted),
            }
        })
    }

    /// Iterates over the neighbors with state.
    pub fn neighbor_rows(&self, now: Time) -> impl Iterator<Item = NeighborRow> {
        self.engines().flat_map(move |engine| engine.neighbors(self.view(now)))
    }

    /// Iterates over the aggregates across cores.
    pub fn aggregate_rows(&self) -> impl Iterator<Item = AggregateRow> {
        let engines = self.engines();
        let of_engines = engines.flat_map(move |engine| engine.aggregates(self.view(Time::ZERO)));
        self.edge.aggregate_rows(&self.ledger).chain(of_engines)
    }

    /// Iterates over the messaging associations of GIST.
    pub fn association_rows(&self, now: Time) -> impl Iterator<Item = AssociationRow> {
        let nsis = self.engine::<Nsis>().into_iter();
        nsis.flat_map(move |nsis| routing_state::association_rows(nsis, self.view(now)))
    }

    /// Iterates over the routing state of GIST.
    pub fn routing_state_rows(&self, now: Time) -> impl Iterator<Item = RoutingStateRow> {
        let nsis = self.engine::<Nsis>().into_iter();
        nsis.flat_map(move |nsis| routing_state::routing_state_rows(nsis, self.view(now)))
    }

    /// Iterates over all counters: part of the node, group, name, count.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        self.engines().flat_map(|engine| engine.counters())
    }
}
