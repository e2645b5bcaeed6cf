//! Rows of NSIS: one for each session of QoS NSLP, and a reservation for its bandwidth on each link.

use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Service};
use earmark_core::{InterfaceId, RowFilter};
use earmark_nsis::Nsis;
use earmark_nsis::nslp::PeerHandle;
use earmark_nsis::qos::SessionView;
use earmark_wire::gist::Direction;

use crate::engine::{NodeView, user_row};
use earmark_core::listing::{AggregateRow, ReservationRow, SenderName, SessionRow};

/// Iterates over the aggregates that begin at this node.
pub(super) fn aggregate_rows<'a>(
    nsis: &'a Nsis,
    view: NodeView<'a>,
) -> impl Iterator<Item = AggregateRow> + 'a {
    let qos = nsis.qos();
    qos.aggregates(view.ledger).map(move |aggregate| {
        let session = aggregate.session.and_then(|session| qos.session(session));
        let interface = session.and_then(|session| session.interface);
        AggregateRow {
            protocol: "nsis".into(),
            interface: interface.map(|id| view.interface_name(id)),
            to: None,
            range: aggregate.to,
            members: aggregate.members,
            need_bps: aggregate.held,
            granted_bps: aggregate.granted,
            waiting: u32::try_from(aggregate.waiting).unwrap_or(u32::MAX),
            failing: false,
        }
    })
}

/// Returns the row of a session, if it is on the link of the filter.
pub(super) fn session_row(
    nsis: &Nsis,
    session: &SessionView,
    filter: &RowFilter,
    view: NodeView<'_>,
) -> Option<SessionRow> {
    let flow = &session.mri;
    let (previous, incoming) = peer(nsis, peers_of(session).0);
    if !view.admits_link(filter, incoming.into_iter().chain(session.interface)) {
        return None;
    }
    let lengths = [flow.source_prefix, flow.destination_prefix];
    let whole = if flow.destination.is_ipv4() { 32 } else { 128 };
    let is_range = lengths != [whole; 2];
    Some(SessionRow {
        protocol: "nsis".into(),
        destination: flow.destination,
        destination_port: flow.destination_port.unwrap_or(0),
        ip_protocol: flow.protocol.unwrap_or(0),
        dscp: None,
        source: flow.source,
        source_port: flow.source_port.unwrap_or(0),
        flow_label: flow.flow_label,
        spi: flow.spi,
        previous_hop: previous,
        incoming: incoming.map(|id| view.interface_name(id)),
        outgoing: session.interface.iter().map(|&id| view.interface_name(id)).collect(),
        here: view.is_local(flow.destination),
        rate_bps: session.asked.map_or(0, |demand| demand.rate.as_bps()),
        burst_octets: session.asked.map_or(0, |demand| demand.burst),
        hops: None,
        expires_in_s: session.expires_at.and_then(|at| view.seconds_until(at)),
        reserved: session.claim.is_some(),
        reverse_bps: None,
        prefix_lengths: is_range.then_some(lengths),
        waiting: false,
    })
}

/// Returns the row of a session's reservation.
pub(super) fn reservation_row(
    nsis: &Nsis,
    session: &SessionView,
    claim: ClaimId,
    view: NodeView<'_>,
) -> Option<ReservationRow> {
    let flow = &session.mri;
    let demand = view.demand(claim).or(session.asked)?;
    let (next_hop, _) = peer(nsis, peers_of(session).1);
    Some(ReservationRow {
        protocol: "nsis".into(),
        destination: flow.destination,
        destination_port: flow.destination_port.unwrap_or(0),
        ip_protocol: flow.protocol.unwrap_or(0),
        dscp: None,
        senders: [SenderName {
            address: flow.source,
            port: flow.source_port.unwrap_or(0),
            flow_label: flow.flow_label,
            spi: flow.spi,
        }]
        .into(),
        style: match flow.direction {
            _ if session.is_aggregate => "aggregate".into(),
            _ if session.in_aggregate => "in an aggregate".into(),
            Direction::Downstream => "sender-initiated".into(),
            Direction::Upstream => "receiver-initiated".into(),
        },
        service: match demand.service {
            Service::Guaranteed => "guaranteed".into(),
            Service::ControlledLoad => "controlled-load".into(),
        },
        interface: session.interface.map(|id| view.interface_name(id)),
        next_hop,
        user: session.user.as_ref().map(user_row),
        rate_bps: demand.rate.as_bps(),
        burst_octets: demand.burst,
        expires_in_s: session.expires_at.and_then(|at| view.seconds_until(at)),
        age_s: None,
        traffic: None,
        enforcement: None,
    })
}

/// Returns address and interface of a peer, if GIST still has them.
fn peer(nsis: &Nsis, peer: Option<PeerHandle>) -> (Option<IpAddr>, Option<InterfaceId>) {
    let found = peer.and_then(|peer| nsis.gist().peer(peer));
    found.map_or((None, None), |peer| (Some(peer.address), Some(peer.interface)))
}

/// Returns the upstream and downstream peers of a session.
fn peers_of(session: &SessionView) -> (Option<PeerHandle>, Option<PeerHandle>) {
    match session.mri.direction {
        Direction::Downstream => (session.back, session.on),
        Direction::Upstream => (session.on, session.back),
    }
}

/// Iterates over all counters: part of NSIS, group, name, count.
pub(super) fn counters(
    nsis: &Nsis,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str, u64)> {
    let gist = nsis.gist().counters().iter().map(|(group, name, n)| ("gist", group, name, n));
    let qos = nsis.qos().counters().iter().map(|(group, name, n)| ("qos_nslp", group, name, n));
    let ping = nsis.ping().counters().iter().map(|(name, n)| ("ping_nslp", "messages", name, n));
    let natfw = nsis.natfw().counters();
    let natfw = natfw.iter().map(|(group, name, n)| ("natfw_nslp", group, name, n));
    gist.chain(qos).chain(natfw).chain(ping)
}
