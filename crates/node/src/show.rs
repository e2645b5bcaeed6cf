//! What a node shows of itself: rows for listings. Daemons write them, clients read them.

mod boomerang;
mod claim;
mod gist;
mod nsis;
mod yessir;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Demand};
use earmark_core::{Rate, Time};
use earmark_rsvp::{Liveness, NeighborView, ReservationView, SenderView};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{FilterSpec, SenderTemplate, SourceSelector};
use serde::{Deserialize, Serialize};

use crate::node::Node;

pub use gist::{AssociationRow, RoutingStateRow};

/// One sender of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// `rsvp`, `boomerang`, `yessir` or `nsis`.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Source port; 0 where the sender is known by its flow label.
    pub source_port: u16,
    /// IPv6 flow label, where the sender is known by that instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// Previous hop; `None` for a sender on this host, and where the protocol does not tell.
    pub previous_hop: Option<IpAddr>,
    /// Incoming interface.
    pub incoming: Option<String>,
    /// Outgoing interfaces; several of a multicast group, none where its data ends here alone.
    pub outgoing: Vec<String>,
    /// Whether its data ends on this host, be it nowhere else or here too.
    pub here: bool,
    /// Token rate the sender announces, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// RSVP hops so far, where the path advertises them.
    pub hops: Option<u32>,
    /// Seconds until it expires without a refresh; `None` for a sender on this host.
    pub expires_in_s: Option<f64>,
    /// Whether a reservation is in place or arrived for it.
    pub reserved: bool,
    /// Boomerang: what its loop has reserved the other way, bits per second, if it came back through here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<u64>,
    /// Boomerang: leading bits of the addresses that count, source and destination, where not all of them do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_lengths: Option<[u8; 2]>,
    /// YESSIR: whether it waits for others to give bandwidth back.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waiting: bool,
}

/// One reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationRow {
    /// `rsvp`, `boomerang`, `yessir` or `nsis`.
    pub protocol: Cow<'static, str>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the data.
    pub ip_protocol: u8,
    /// Whose packets: one sender for FF, several that share for SE, none named for WF, which is for all of them; one for
    /// Boomerang; of YESSIR one, or none where all senders of a session share.
    pub senders: Vec<SenderName>,
    /// `FF`, `SE`, `WF`; of Boomerang the direction, `forward` or `reverse` as its initiating node sees it; of YESSIR
    /// `individual` or `shared`; of NSIS who asked, `sender-initiated` or `receiver-initiated`.
    pub style: Cow<'static, str>,
    /// `controlled-load` or `guaranteed`.
    pub service: Cow<'static, str>,
    /// Outgoing interface, `None` for a receiver on this host.
    pub interface: Option<String>,
    /// Next hop, `None` for a receiver on this host.
    pub next_hop: Option<IpAddr>,
    /// Reserved rate, bits per second.
    pub rate_bps: u64,
    /// Bucket depth, octets.
    pub burst_octets: u32,
    /// Seconds until it expires without a refresh; `None` for a receiver on this host.
    pub expires_in_s: Option<f64>,
    /// What has gone through its queue; `None` where nothing is queued: for a receiver on this host, and on links whose
    /// queues are left alone. Next hops that are merged into one reservation share one queue, and all show it.
    pub traffic: Option<TrafficRow>,
    /// Whether its packets get it, as far as the kernel was seen last; `None` where nothing is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<EnforcementRow>,
}

/// Whether the packets of a reservation get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcementRow {
    /// `enforced`; `standby` where another claim on the same flow gives its packets more; `unenforced`.
    pub state: Cow<'static, str>,
    /// Why it is not enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many claims there are on the flow, of all protocols, this one among them. Each holds its own of the link; the
    /// packets get the best of them.
    pub claims: usize,
}

/// What traffic control says of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// What has gone through it.
    pub traffic: Option<TrafficRow>,
    /// Whether it is in place.
    pub enforcement: Option<EnforcementRow>,
}

/// How a filter names a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenderName {
    /// Source address.
    pub address: IpAddr,
    /// Source port; 0 for protocols without ports, and where there is a flow label.
    #[serde(default)]
    pub port: u16,
    /// IPv6 flow label, where the filter names that instead of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
}

impl SenderName {
    /// Whether this is a sender's name. One without port and flow label names all that send from its address.
    pub fn is_of(&self, template: &SenderTemplate) -> bool {
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

/// What has gone through the queue of a reservation since it was put in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficRow {
    /// Packets sent.
    pub packets: u64,
    /// Octets sent, from the IP header on.
    pub octets: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Packets that wait now.
    pub backlog_packets: u32,
    /// Octets that wait now.
    pub backlog_octets: u32,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Interface name.
    pub interface: String,
    /// Interface index.
    pub index: u32,
    /// Whether it is up.
    pub up: bool,
    /// How it stands.
    #[serde(default)]
    pub state: LinkState,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Bandwidth.
    pub bandwidth_bps: Rate,
    /// What may be reserved.
    pub reservable_bps: Rate,
    /// What is held, adopted flows included.
    pub held_bps: Rate,
    /// How many reservations.
    pub claims: u32,
    /// How many flows that a dead daemon left reserved and nobody has claimed yet.
    pub adopted: u32,
}

/// How a link stands. In all states but the first two it takes no part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// The interface takes part, and packets can leave through it.
    Up,
    /// The interface takes part, and is down, or without a carrier.
    #[default]
    Down,
    /// The configuration names it, and there is no such interface.
    Absent,
    /// The configuration leaves its bandwidth to its driver, and the driver tells no speed.
    NoSpeed,
    /// The interface has come back too often, and is taken over again after a pause.
    Flapping,
    /// The system refused what it needs.
    Failed,
}

impl LinkState {
    /// The state in words.
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

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighborRow {
    /// `rsvp`.
    pub protocol: Cow<'static, str>,
    /// Its address.
    pub address: IpAddr,
    /// Through which interface.
    pub interface: String,
    /// Senders whose previous hop it is.
    pub senders: usize,
    /// Reservations whose next hop it is.
    pub reservations: usize,
    /// Seconds since it was heard last.
    pub heard_s: f64,
    /// Refresh reduction; not there where the neighbour takes no part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<ReductionRow>,
    /// `alive` or `lost`; not there where the neighbour has said no Hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Cow<'static, str>>,
}

/// Refresh reduction with one neighbour, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionRow {
    /// Epoch of its numbers, if it has given any.
    pub epoch: Option<u32>,
    /// States that it has acknowledged, and that are refreshed in summaries.
    pub summarized: usize,
    /// States that it acknowledged and then forgot, still to be told again.
    pub to_repeat: usize,
    /// Summary refreshes sent to it.
    pub summaries_sent: u64,
    /// Summary refreshes received from it.
    pub summaries_received: u64,
}

impl Node {
    /// The senders of all sessions, protocol by protocol.
    pub fn session_rows(&self, now: Time) -> impl Iterator<Item = SessionRow> {
        let rsvp = self.rsvp.senders().map(move |sender| self.session_row(&sender, now));
        rsvp.chain(self.boomerang_sessions(now))
            .chain(self.yessir_sessions(now))
            .chain(self.nsis_sessions(now))
    }

    /// The reservations, those of receivers on this host too, protocol by protocol. Queues are the driver's: `queue`
    /// says how one is, and is asked for the rows that are taken only.
    pub fn reservation_rows(
        &self,
        now: Time,
        mut queue: impl FnMut(ClaimId) -> QueueView,
    ) -> impl Iterator<Item = ReservationRow> {
        let rsvp = self
            .rsvp
            .reservations()
            .map(move |reservation| (reservation.claim, self.reservation_row(&reservation, now)));
        let others = self
            .boomerang_reservations(now)
            .chain(self.yessir_reservations(now))
            .chain(self.nsis_reservations(now));
        rsvp.chain(others).map(move |(claim, row)| {
            let QueueView { traffic, enforcement } = claim.map(&mut queue).unwrap_or_default();
            ReservationRow { traffic, enforcement, ..row }
        })
    }

    /// The links that take part.
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

    /// The neighbours that state hangs on.
    pub fn neighbor_rows(&self, now: Time) -> impl Iterator<Item = NeighborRow> {
        self.rsvp.neighbors().map(move |neighbor| self.neighbor_row(&neighbor, now))
    }

    /// Every counter: protocol, group, name, count.
    pub fn counters(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str, u64)> {
        let rsvp = self.rsvp.counters().iter().map(|(group, name, n)| ("rsvp", group, name, n));
        let boomerang = self.boomerang.counters().iter();
        let yessir = yessir::counters(self.yessir.counters());
        rsvp.chain(boomerang.map(|(group, name, n)| ("boomerang", group, name, n)))
            .chain(yessir.map(|(group, name, n)| ("yessir", group, name, n)))
            .chain(nsis::counters(&self.nsis))
    }

    fn session_row(&self, sender: &SenderView<'_>, now: Time) -> SessionRow {
        let name = SenderName::from(&sender.template);
        SessionRow {
            protocol: "rsvp".into(),
            destination: sender.session.destination,
            destination_port: sender.session.port,
            ip_protocol: sender.session.protocol,
            source: name.address,
            source_port: name.port,
            flow_label: name.flow_label,
            previous_hop: sender.previous_hop,
            incoming: sender.incoming.map(|id| self.interface_name(id)),
            outgoing: sender.outgoing.iter().map(|&id| self.interface_name(id)).collect(),
            here: sender.here,
            rate_bps: Rate::from_octets_per_second(sender.tspec.rate).as_bps(),
            burst_octets: sender.tspec.depth as u32,
            hops: sender.hops,
            expires_in_s: seconds_until(sender.expires_at, now),
            reserved: sender.reserved,
            reverse_bps: None,
            prefix_lengths: None,
            waiting: false,
        }
    }

    fn reservation_row(&self, reservation: &ReservationView, now: Time) -> ReservationRow {
        let demand = Demand::from_flowspec(&reservation.flowspec);
        ReservationRow {
            protocol: "rsvp".into(),
            destination: reservation.session.destination,
            destination_port: reservation.session.port,
            ip_protocol: reservation.session.protocol,
            senders: reservation.filters.as_slice().iter().map(SenderName::from).collect(),
            style: reservation.style.name().into(),
            service: match reservation.flowspec {
                FlowSpec::ControlledLoad(_) => "controlled-load".into(),
                FlowSpec::Guaranteed(..) => "guaranteed".into(),
            },
            interface: reservation.outgoing.map(|id| self.interface_name(id)),
            next_hop: reservation.next_hop,
            rate_bps: demand.rate.as_bps(),
            burst_octets: demand.burst,
            expires_in_s: seconds_until(reservation.expires_at, now),
            traffic: None,
            enforcement: None,
        }
    }

    fn neighbor_row(&self, neighbor: &NeighborView, now: Time) -> NeighborRow {
        NeighborRow {
            protocol: "rsvp".into(),
            address: neighbor.address,
            interface: self.interface_name(neighbor.interface),
            senders: neighbor.senders as usize,
            reservations: neighbor.reservations as usize,
            heard_s: (now - neighbor.heard).as_secs_f64(),
            reduction: neighbor.reduction.map(|reduction| ReductionRow {
                epoch: reduction.epoch,
                summarized: reduction.summarized,
                to_repeat: reduction.to_repeat,
                summaries_sent: reduction.summaries_sent,
                summaries_received: reduction.summaries_received,
            }),
            hello: match neighbor.hello {
                Liveness::Unknown => None,
                Liveness::Alive => Some("alive".into()),
                Liveness::Lost => Some("lost".into()),
            },
        }
    }
}

fn seconds_until(at: Time, now: Time) -> Option<f64> {
    (at < Time::MAX).then(|| (at - now).as_secs_f64())
}
