//! Rows of Boomerang: one for each session, and a reservation for each direction with bandwidth.

use alloc::vec::Vec;

use earmark_boomerang::{Direction, HalfView, Selector, SessionView};
use earmark_core::admission::ClaimId;
use earmark_core::{Rate, RowFilter, Time};

use crate::engine::{NodeView, user_row};
use earmark_core::listing::{ReservationRow, SenderName, SessionRow};

/// Returns the rows of a session's reservations on the link of the filter: one for each direction, and for each branch
/// to a group.
pub(super) fn reservation_rows(
    session: &SessionView,
    filter: &RowFilter,
    view: NodeView<'_>,
) -> impl Iterator<Item = (Option<ClaimId>, ReservationRow)> + use<> {
    let halves = session.halves().filter(|(_, half)| view.admits_link(filter, [half.interface]));
    let row = |(direction, half): (Direction, HalfView)| {
        (Some(half.claim), reservation_row(session, direction, half, view))
    };
    halves.map(row).collect::<Vec<_>>().into_iter()
}

/// Returns the row of a session.
pub(super) fn session_row(session: &SessionView, view: NodeView<'_>) -> SessionRow {
    let Selector { source, destination, protocol, source_port, destination_port } =
        session.selector;
    let rate = |half: HalfView| half.rate.as_bps();
    let expires_at = session.halves().map(|(_, half)| half.expires_at).max().unwrap_or(Time::MAX);
    let forward = || session.halves().filter(|(direction, _)| *direction == Direction::Forward);
    let whole = if source.address().is_ipv4() { 32 } else { 128 };
    let lengths = [source.length(), destination.length()];
    SessionRow {
        protocol: "boomerang".into(),
        destination: destination.address(),
        destination_port: destination_port.unwrap_or(0),
        ip_protocol: protocol.unwrap_or(0),
        dscp: None,
        source: source.address(),
        source_port: source_port.unwrap_or(0),
        flow_label: None,
        spi: None,
        previous_hop: None,
        incoming: None,
        outgoing: forward().map(|(_, half)| view.interface_name(half.interface)).collect(),
        here: view.is_local(destination.address()),
        rate_bps: forward().map(|(_, half)| rate(half)).max().unwrap_or(0),
        burst_octets: 0,
        hops: None,
        expires_in_s: view.seconds_until(expires_at),
        reserved: !session.locked,
        reverse_bps: session.reverse.map(rate),
        prefix_lengths: (lengths != [whole; 2]).then_some(lengths),
        waiting: false,
    }
}

/// Returns the row of one direction. Packets of the reverse direction have source and destination exchanged.
pub(super) fn reservation_row(
    session: &SessionView,
    direction: Direction,
    half: HalfView,
    view: NodeView<'_>,
) -> ReservationRow {
    let selector = &session.selector;
    let ends = [
        (selector.source, selector.source_port),
        (selector.destination, selector.destination_port),
    ];
    let [source, destination] = match direction {
        Direction::Forward => ends,
        Direction::Reverse => [ends[1], ends[0]],
    };
    let burst = view.demand(half.claim).map_or(0, |demand| demand.burst);
    ReservationRow {
        protocol: "boomerang".into(),
        destination: destination.0.address(),
        destination_port: destination.1.unwrap_or(0),
        ip_protocol: selector.protocol.unwrap_or(0),
        dscp: None,
        senders: [SenderName {
            address: source.0.address(),
            port: source.1.unwrap_or(0),
            flow_label: None,
            spi: None,
        }]
        .into(),
        style: match direction {
            Direction::Forward => "forward".into(),
            Direction::Reverse => "reverse".into(),
        },
        service: "controlled-load".into(),
        interface: Some(view.interface_name(half.interface)),
        next_hop: None,
        user: session.user.as_ref().map(user_row),
        rate_bps: Rate::as_bps(half.rate),
        burst_octets: burst,
        expires_in_s: view.seconds_until(half.expires_at),
        age_s: None,
        traffic: None,
        enforcement: None,
    }
}
