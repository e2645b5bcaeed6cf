//! Rows of GIST: routing state and messaging associations.

use alloc::borrow::Cow;
use alloc::format;

use earmark_core::RowFilter;
use earmark_core::listing::{AssociationRow, NeighborRow, RoutingStateRow};
use earmark_nsis::Nsis;
use earmark_nsis::gist::RoutingStateView;
use earmark_nsis::gist::machine::State;
use earmark_nsis::nslp::Validity;
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::ping_nslp;

use crate::engine::{NodeView, rows_of_slot};

/// Iterates over the messaging associations, in the order of their slab.
pub(super) fn association_rows(
    nsis: &Nsis,
    view: NodeView<'_>,
) -> impl Iterator<Item = AssociationRow> {
    nsis.gist().associations().map(move |association| AssociationRow {
        peer: association.peer.as_ref().map(|peer| peer.address),
        identity: association.peer.map(|peer| peer.identity),
        transport: association.transport,
        stage: association.stage.into(),
        is_ours: association.is_ours,
        local: association.local,
        remote: association.remote,
        uses: association.uses,
        heard_s: (view.now - association.heard).as_secs_f64(),
        said_s: (view.now - association.said).as_secs_f64(),
    })
}

/// Iterates over the peers, in the order of their slab.
pub(super) fn neighbor_rows<'a>(
    nsis: &'a Nsis,
    view: NodeView<'a>,
) -> impl Iterator<Item = NeighborRow> + 'a {
    nsis.gist().peers_by_handle().map(move |(handle, peer)| {
        let (senders, reservations) = nsis.qos().sessions_of(handle);
        NeighborRow {
            protocol: "nsis".into(),
            address: peer.address,
            interface: view.interface_name(peer.interface),
            senders,
            reservations,
            heard_s: (view.now - peer.heard).as_secs_f64(),
            reduction: None,
            hello: None,
            kept_s: None,
            tolerated: peer.tolerated.iter().map(|(kind, _)| kind.name().into()).collect(),
        }
    })
}

/// Iterates over the slots of the routing state, each with a row for each direction that the filter includes.
pub(super) fn routing_state_rows<'a>(
    nsis: &'a Nsis,
    from: u32,
    filter: &'a RowFilter,
    view: NodeView<'a>,
) -> impl Iterator<Item = (u32, Option<RoutingStateRow>)> + 'a {
    let row = move |state: RoutingStateView| {
        let (source, destination) = state.mri.addresses();
        let [source_port, destination_port] = ports_of(&state.mri);
        let is_included = filter.admits_to(destination, destination_port)
            && filter.admits_from(source, source_port)
            && view.admits_link(filter, state.peer.as_ref().map(|peer| peer.interface));
        is_included.then(|| routing_state_row(&state, view))
    };
    let slots = from..nsis.gist().routing_state_slots();
    slots.flat_map(move |slot| {
        rows_of_slot(slot, nsis.gist().routing_states_at(slot).filter_map(row))
    })
}

fn routing_state_row(state: &RoutingStateView, view: NodeView<'_>) -> RoutingStateRow {
    let (source, destination) = state.mri.addresses();
    let ports = ports_of(&state.mri);
    let ip_protocol = match state.mri {
        Mri::PathCoupled(flow) => flow.protocol.unwrap_or_default(),
        Mri::LooseEnd(_) => 0,
    };
    RoutingStateRow {
        application: application(state.nslpid),
        nslpid: state.nslpid,
        session: state.session,
        source,
        source_port: ports[0],
        destination,
        destination_port: ports[1],
        ip_protocol,
        direction: match state.mri.direction() {
            Direction::Downstream => "downstream".into(),
            Direction::Upstream => "upstream".into(),
        },
        state: state_name(state.state).into(),
        validity: validity_name(state.validity).into(),
        peer: state.peer.as_ref().map(|peer| peer.address),
        interface: state.peer.as_ref().map(|peer| view.interface_name(peer.interface)),
        ip_distance: state.ip_distance,
        waiting: state.waiting,
        refresh_in_s: state.next_at.and_then(|at| view.seconds_until(at)),
        expires_in_s: state.expires_at.and_then(|at| view.seconds_until(at)),
    }
}

/// Returns source and destination port; 0 without one.
fn ports_of(mri: &Mri) -> [u16; 2] {
    let Mri::PathCoupled(flow) = mri else { return [0, 0] };
    [flow.source_port, flow.destination_port].map(Option::unwrap_or_default)
}

/// Returns the name of an application (IANA: NSLP Identifiers).
fn application(nslpid: u16) -> Cow<'static, str> {
    match nslpid {
        1 => "QoS NSLP".into(),
        level @ 2..=32 => format!("QoS NSLP, level {}", level - 1).into(),
        33 => "NATFW NSLP".into(),
        ping_nslp::iana::NSLPID => "Ping NSLP".into(),
        other => format!("{other}").into(),
    }
}

/// Returns the name of a state of the state machine.
fn state_name(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::WaitResponse => "wait_response",
        State::WaitAssociation => "wait_association",
        State::EstablishedDownstream => "established_downstream",
        State::WaitConfirm => "wait_confirm",
        State::EstablishedUpstream => "established_upstream",
    }
}

/// Returns the name of a validity.
fn validity_name(validity: Validity) -> &'static str {
    match validity {
        Validity::Good => "good",
        Validity::Tentative => "tentative",
        Validity::Bad => "bad",
    }
}
