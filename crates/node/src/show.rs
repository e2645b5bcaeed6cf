//! Rows of listings about a node, from the state of its engines.

mod boomerang;
mod claim;
mod gist;
mod nsis;
mod yessir;

use earmark_core::admission::{ClaimId, Demand};
use earmark_core::listing::{
    EnforcementRow, LinkRow, LinkState, NeighborRow, ReductionRow, ReservationRow, SenderName,
    SessionRow, TrafficRow,
};
use earmark_core::{Rate, Time};
use earmark_rsvp::{Liveness, NeighborView, ReservationView, SenderView};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{FilterSpec, SenderTemplate, SourceSelector};

use crate::node::Node;

/// Traffic control's view of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Counters of its queue.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement.
    pub enforcement: Option<EnforcementRow>,
}

/// Returns the name of an RSVP sender.
pub fn sender_name(filter: &FilterSpec) -> SenderName {
    let (port, flow_label) = match filter.selector {
        SourceSelector::Port(port) => (port, None),
        SourceSelector::FlowLabel(label) => (0, Some(label)),
    };
    SenderName { address: filter.source, port, flow_label }
}

/// Returns whether a name matches an RSVP sender. A name without port and flow label matches all senders at its
/// address.
pub fn names(name: &SenderName, template: &SenderTemplate) -> bool {
    let selector = match (name.flow_label, name.port) {
        (Some(label), _) => Some(SourceSelector::FlowLabel(label)),
        (None, 0) => None,
        (None, port) => Some(SourceSelector::Port(port)),
    };
    name.address == template.source && selector.is_none_or(|named| named == template.selector)
}

impl Node {
    /// Iterates over the senders of all sessions, protocol by protocol.
    pub fn session_rows(&self, now: Time) -> impl Iterator<Item = SessionRow> {
        let rsvp = self.rsvp.senders().map(move |sender| self.session_row(&sender, now));
        rsvp.chain(self.boomerang_sessions(now))
            .chain(self.yessir_sessions(now))
            .chain(self.nsis_sessions(now))
    }

    /// Iterates over the reservations, including those of receivers on this host, protocol by protocol. `queue` returns
    /// the driver's view of a queue, and is called only for rows that are used.
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
        self.rsvp.neighbors().map(move |neighbor| self.neighbor_row(&neighbor, now))
    }

    /// Iterates over all counters: protocol, group, name, count.
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
        let name = sender_name(&sender.template);
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
            senders: reservation.filters.as_slice().iter().map(sender_name).collect(),
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
