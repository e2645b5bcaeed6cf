//! Rows of RSVP: senders, reservations and neighbours.

use earmark_core::Rate;
use earmark_core::admission::Demand;
use earmark_rsvp::{Liveness, NeighborView, ReservationView, RestartView, SenderView};
use earmark_wire::intserv::FlowSpec;

use crate::engine::{NodeView, user_row};
use earmark_core::listing::{NeighborRow, ReductionRow, ReservationRow, SenderName, SessionRow};

/// Returns the row of a sender.
pub(super) fn session_row(sender: &SenderView<'_>, view: NodeView<'_>) -> SessionRow {
    let name = SenderName::from(sender.template.parts());
    SessionRow {
        protocol: "rsvp".into(),
        destination: sender.session.destination,
        destination_port: if sender.session.is_aggregate() { 0 } else { sender.session.port },
        ip_protocol: sender.session.protocol,
        dscp: sender.session.dscp().map(|dscp| dscp.0),
        source: name.address,
        source_port: name.port,
        flow_label: name.flow_label,
        spi: name.spi,
        previous_hop: sender.previous_hop,
        incoming: sender.incoming.map(|id| view.interface_name(id)),
        outgoing: sender.outgoing.iter().map(|&id| view.interface_name(id)).collect(),
        here: sender.here,
        rate_bps: Rate::from_octets_per_second(sender.tspec.rate).as_bps(),
        burst_octets: sender.tspec.depth as u32,
        hops: sender.hops,
        expires_in_s: view.seconds_until(sender.expires_at),
        reserved: sender.reserved,
        reverse_bps: None,
        prefix_lengths: None,
        waiting: false,
    }
}

/// Returns the row of a reservation.
pub(super) fn reservation_row(reservation: &ReservationView, view: NodeView<'_>) -> ReservationRow {
    let demand = Demand::from_flowspec(&reservation.flowspec);
    ReservationRow {
        protocol: "rsvp".into(),
        destination: reservation.session.destination,
        destination_port: if reservation.session.is_aggregate() {
            0
        } else {
            reservation.session.port
        },
        ip_protocol: reservation.session.protocol,
        dscp: reservation.session.dscp().map(|dscp| dscp.0),
        senders: reservation
            .filters
            .as_slice()
            .iter()
            .map(|filter| filter.parts().into())
            .collect(),
        style: reservation.style.name().into(),
        service: match reservation.flowspec {
            FlowSpec::ControlledLoad(_) => "controlled-load".into(),
            FlowSpec::Guaranteed(..) => "guaranteed".into(),
        },
        interface: reservation.outgoing.map(|id| view.interface_name(id)),
        next_hop: reservation.next_hop,
        user: reservation.user.as_ref().map(user_row),
        rate_bps: demand.rate.as_bps(),
        burst_octets: demand.burst,
        expires_in_s: view.seconds_until(reservation.expires_at),
        age_s: None,
        traffic: None,
        enforcement: None,
    }
}

/// Returns the row of a neighbor.
pub(super) fn neighbor_row(neighbor: &NeighborView, view: NodeView<'_>) -> NeighborRow {
    NeighborRow {
        protocol: "rsvp".into(),
        address: neighbor.address,
        interface: view.interface_name(neighbor.interface),
        senders: neighbor.senders as usize,
        reservations: neighbor.reservations as usize,
        heard_s: (view.now - neighbor.heard).as_secs_f64(),
        reduction: neighbor.reduction.map(|reduction| ReductionRow {
            epoch: reduction.epoch,
            summarized: reduction.summarized,
            to_repeat: reduction.to_repeat,
            summaries_sent: reduction.summaries_sent,
            summaries_received: reduction.summaries_received,
        }),
        hello: match (neighbor.restart, neighbor.hello) {
            (Some(RestartView::Restarting { .. }), _) => Some("restarting".into()),
            (Some(RestartView::Recovering { .. }), _) => Some("recovering".into()),
            (None, Liveness::Unknown) => None,
            (None, Liveness::Alive) => Some("alive".into()),
            (None, Liveness::Lost) => Some("lost".into()),
        },
        kept_s: neighbor.restart.map(|restart| {
            let (RestartView::Restarting { until } | RestartView::Recovering { until }) = restart;
            until.since(view.now).as_secs_f64()
        }),
        tolerated: neighbor.tolerated.iter().map(|deviation| deviation.name().into()).collect(),
    }
}
