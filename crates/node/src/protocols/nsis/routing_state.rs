//! Rows of GIST: routing state and messaging associations.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};

use earmark_core::Transport;
use earmark_nsis::Nsis;
use earmark_nsis::gist::RoutingStateView;
use earmark_nsis::gist::machine::State;
use earmark_nsis::nslp::Validity;
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::ping_nslp;
use serde::{Deserialize, Serialize};

use crate::engine::NodeView;

/// Routing state towards one peer for one session: half of a routing state of GIST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoutingStateRow {
    /// Application by name, or by number without a name.
    pub application: Cow<'static, str>,
    /// NSLPID of the application.
    pub nslpid: u16,
    /// Session identifier.
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
    /// State of the state machine.
    pub state: State,
    /// Validity of the state.
    pub validity: Validity,
    /// Address of the peer, if known.
    pub peer: Option<IpAddr>,
    /// Interface towards the peer.
    pub interface: Option<String>,
    /// IP hops to the peer, if known. More than 1 means routers without GIST between.
    pub ip_distance: Option<u8>,
    /// Number of messages that wait for the discovery of the peer.
    pub waiting: usize,
    /// Seconds until the next Query; `None` at the responder.
    pub refresh_in_s: Option<f64>,
    /// Seconds until the state expires without use or refresh.
    pub expires_in_s: Option<f64>,
}

/// A messaging association of GIST: a connection to a peer, shared by all sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Iterates over the messaging associations, in the order of their slab.
pub(crate) fn association_rows(
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

/// Iterates over the routing state, in the order of its slab.
pub(crate) fn routing_state_rows<'a>(
    nsis: &'a Nsis,
    view: NodeView<'a>,
) -> impl Iterator<Item = RoutingStateRow> + 'a {
    nsis.gist().routing_states(0).map(move |(_, state)| routing_state_row(&state, view))
}

fn routing_state_row(state: &RoutingStateView, view: NodeView<'_>) -> RoutingStateRow {
    let (source, destination) = state.mri.addresses();
    let (ports, ip_protocol) = match state.mri {
        Mri::PathCoupled(flow) => (ports(&flow), flow.protocol.unwrap_or_default()),
        Mri::LooseEnd(_) => ([0, 0], 0),
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
        state: state.state,
        validity: state.validity,
        peer: state.peer.as_ref().map(|peer| peer.address),
        interface: state.peer.as_ref().map(|peer| view.interface_name(peer.interface)),
        ip_distance: state.ip_distance,
        waiting: state.waiting,
        refresh_in_s: state.next_at.and_then(|at| view.seconds_until(at)),
        expires_in_s: state.expires_at.and_then(|at| view.seconds_until(at)),
    }
}

fn ports(flow: &PathCoupled) -> [u16; 2] {
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
