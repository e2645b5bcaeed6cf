//! Rows of YESSIR: one for each stream, and a reservation for each link on which it has bandwidth.

use alloc::vec::Vec;

use earmark_core::RowFilter;
use earmark_core::admission::{ClaimId, Service};
use earmark_wire::udp;
use earmark_wire::yessir::Style;
use earmark_yessir::{Counters, DropReason, LegView, SessionView};

use crate::engine::{NodeView, user_row};
use earmark_core::listing::{ReservationRow, SenderName, SessionRow};

/// Returns the rows of a stream's reservations on the link of the filter. Each sender of a shared reservation has a row.
pub(super) fn reservation_rows(
    session: &SessionView,
    filter: &RowFilter,
    view: NodeView<'_>,
) -> Vec<(Option<ClaimId>, ReservationRow)> {
    let legs = session.legs.iter().filter(|leg| view.admits_link(filter, [leg.interface]));
    let legs = legs.filter_map(|leg| Some((leg.claim?, leg)));
    legs.map(|(claim, leg)| (Some(claim), reservation_row(session, leg, claim, view))).collect()
}

/// Returns the row of a stream.
pub(super) fn session_row(session: &SessionView, view: NodeView<'_>) -> SessionRow {
    let stream = session.stream;
    SessionRow {
        protocol: "yessir".into(),
        destination: stream.destination,
        destination_port: stream.destination_port,
        ip_protocol: udp::PROTOCOL,
        dscp: None,
        source: stream.source,
        source_port: stream.source_port,
        flow_label: None,
        spi: None,
        previous_hop: None,
        incoming: None,
        outgoing: session.legs.iter().map(|leg| view.interface_name(leg.interface)).collect(),
        here: view.is_local(stream.destination),
        rate_bps: session.asked.rate.as_bps(),
        burst_octets: session.asked.burst,
        hops: None,
        expires_in_s: view.seconds_until(session.expires_at),
        reserved: session.legs.iter().any(|leg| leg.claim.is_some()),
        reverse_bps: None,
        prefix_lengths: None,
        waiting: session.legs.iter().any(|leg| leg.waiting),
    }
}

/// Returns the row of a stream's reservation on one link.
pub(super) fn reservation_row(
    session: &SessionView,
    leg: &LegView,
    claim: ClaimId,
    view: NodeView<'_>,
) -> ReservationRow {
    let stream = session.stream;
    let demand = view.demand(claim).unwrap_or(session.asked);
    let sender = SenderName {
        address: stream.source,
        port: stream.source_port,
        flow_label: None,
        spi: None,
    };
    ReservationRow {
        protocol: "yessir".into(),
        destination: stream.destination,
        destination_port: stream.destination_port,
        ip_protocol: udp::PROTOCOL,
        dscp: None,
        senders: [sender].into(),
        style: match session.style {
            Style::Shared => "shared".into(),
            _ => "individual".into(),
        },
        service: match demand.service {
            Service::Guaranteed => "guaranteed".into(),
            _ => "controlled-load".into(),
        },
        interface: Some(view.interface_name(leg.interface)),
        next_hop: None,
        user: session.user.as_ref().map(user_row),
        rate_bps: demand.rate.as_bps(),
        burst_octets: demand.burst,
        expires_in_s: view.seconds_until(session.expires_at),
        age_s: None,
        traffic: None,
        enforcement: None,
    }
}

/// Iterates over all counters with group and name, including zeros.
pub(super) fn counters(
    counters: &Counters,
) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let messages = [
        ("messages", "active", counters.active),
        ("messages", "passive", counters.passive),
        ("messages", "release", counters.release),
        ("messages", "answers", counters.answers),
        ("messages", "measured", counters.measured),
        ("messages", "forwarded", counters.forwarded),
        ("messages", "sent", counters.sent),
        ("messages", "notes_left_out", counters.notes_left_out),
        ("reservations", "created", counters.created),
        ("reservations", "refreshed", counters.refreshed),
        ("reservations", "released", counters.released),
        ("reservations", "expired", counters.expired),
        ("reservations", "refused", counters.refused),
        ("reservations", "retried", counters.retried),
        ("reservations", "grabbed", counters.grabbed),
    ];
    let ignored = DropReason::ALL.into_iter().map(|reason| {
        ("ignored", reason.name(), counters.ignored.get(&reason).copied().unwrap_or_default())
    });
    let malformed = counters.malformed.iter().map(|(&name, &count)| ("malformed", name, count));
    let tokens = counters.tokens.iter().map(|(&name, &count)| ("tokens", name, count));
    messages.into_iter().chain(ignored).chain(tokens).chain(malformed)
}
