//! A request that deletes several sessions of an initiator (RFC 5973 section 3.7.4), and which these are.

use core::net::IpAddr;

use earmark_core::Prefix;
use earmark_wire::gist::{Mri, PathCoupled};
use earmark_wire::natfw_nslp::{DataTerminal, TransportSelector};

use super::flow::asking_end;
use super::state::{Index, Kind, Session};
use crate::nslp::{Channel, PeerHandle};

/// A request that deletes several sessions, as far as it is not carried out yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    /// Peer that asks, and that the sessions came from.
    pub(super) peer: PeerHandle,
    pub(super) channel: Channel,
    /// Message that created the sessions.
    pub(super) kind: Kind,
    /// Routing of the sessions; fields may be wildcards, but not the end that asks.
    pub(super) pattern: Mri,
    /// Data sender and transport of the sessions, if they are those of EXTERNAL; fields may be wildcards.
    pub(super) terminal: Option<DataTerminal>,
    /// First slot that was not looked at yet.
    pub(super) from: Index,
}

impl Deletion {
    /// Returns the initiator, if the pattern names one node: "the MRI's source-address set to its used IP address". The MRI of
    /// an EXTERNAL upstream has its address as the destination.
    pub(super) fn initiator(kind: Kind, pattern: &Mri) -> Option<IpAddr> {
        let end = asking_end(kind, pattern);
        let length = match (kind, pattern) {
            (Kind::Create, Mri::PathCoupled(flow)) => flow.source_prefix,
            (Kind::External, Mri::PathCoupled(flow)) => flow.destination_prefix,
            (_, Mri::LooseEnd(_)) => Prefix::host(end).length(),
        };
        (length == Prefix::host(end).length() && !end.is_unspecified()).then_some(end)
    }

    /// Returns whether a session is among those that the request names.
    pub(super) fn covers(&self, session: &Session) -> bool {
        let terminal = session.extra.as_ref().and_then(|extra| extra.terminal);
        session.kind == self.kind
            && session.back == Some(self.peer)
            && covers_routing(&self.pattern, &session.near)
            && match (&self.terminal, &terminal) {
                (Some(pattern), Some(terminal)) => covers_terminal(pattern, terminal),
                _ => true,
            }
    }
}

/// Returns whether a field of a pattern is a wildcard or that of a session.
fn admits<T: Copy + PartialEq>(pattern: Option<T>, field: Option<T>) -> bool {
    pattern.is_none() || pattern == field
}

fn covers_routing(pattern: &Mri, near: &Mri) -> bool {
    match (pattern, near) {
        (Mri::PathCoupled(pattern), Mri::PathCoupled(flow)) => covers_flow(pattern, flow),
        (Mri::LooseEnd(pattern), Mri::LooseEnd(mri)) => {
            let to = pattern.destination;
            pattern.source == mri.source
                && (to == mri.destination || to.is_unspecified())
                && pattern.direction == mri.direction
        }
        _ => false,
    }
}

fn covers_flow(pattern: &PathCoupled, flow: &PathCoupled) -> bool {
    let source = Prefix::new(pattern.source, pattern.source_prefix);
    let destination = Prefix::new(pattern.destination, pattern.destination_prefix);
    source.covers(Prefix::new(flow.source, flow.source_prefix))
        && destination.covers(Prefix::new(flow.destination, flow.destination_prefix))
        && admits(pattern.protocol, flow.protocol)
        && admits(pattern.ds_field, flow.ds_field)
        && admits(pattern.flow_label, flow.flow_label)
        && admits(pattern.spi, flow.spi)
        && admits(pattern.source_port, flow.source_port)
        && admits(pattern.destination_port, flow.destination_port)
        && pattern.direction == flow.direction
}

/// Returns whether each field of a pattern is a wildcard (RFC 5973 section 4.2.8) or that of an EXTERNAL.
fn covers_terminal(pattern: &DataTerminal, terminal: &DataTerminal) -> bool {
    let sender = Prefix::new(pattern.sender.into(), pattern.sender_prefix);
    let port = |port: u16| (port != 0).then_some(port);
    let selector = match (pattern.transport, terminal.transport) {
        (
            TransportSelector::Ports { destination, source, .. },
            TransportSelector::Ports { destination: own_destination, source: own_source, .. },
        ) => {
            admits(port(destination), port(own_destination))
                && admits(port(source), port(own_source))
        }
        (TransportSelector::Any | TransportSelector::Protocol(_), _) => true,
        (pattern, own) => pattern == own,
    };
    sender.covers(Prefix::new(terminal.sender.into(), terminal.sender_prefix))
        && admits(pattern.transport.protocol(), terminal.transport.protocol())
        && selector
}
