//! EXTERNAL: what it means at this node (RFC 5973 section 3.7.2).

use core::net::{IpAddr, Ipv6Addr};

use earmark_core::Endpoint;
use earmark_wire::gist::{Direction, LooseEnd, Mri, PathCoupled};
use earmark_wire::natfw_nslp::iana::{
    PermanentFailure, ProtocolError, SignalingSessionFailure as Failure,
};
use earmark_wire::natfw_nslp::{DataTerminal, ExternalAddress, Outcome, RuleAction};

use super::candidate::Candidate;
use super::crossing::Crossing;
use super::flow::{asking_end, flow_of_terminal, receiver_port, with_destination};
use super::instance::NatfwNslp;
use super::outcome::{FULL, failure, permanent};
use super::received::Request;
use super::state::{Index, Kind, Role};
use crate::nslp::HandlerContext;
use crate::route;

/// Returns the data that an EXTERNAL is about, as the side of its initiator knows it. The data sender stands in the routing
/// information of the path-coupled method, and in NATFW_DTINFO otherwise.
pub(super) fn data_of(near: &Mri, terminal: &DataTerminal) -> PathCoupled {
    let receiver =
        Endpoint { address: asking_end(Kind::External, near), port: receiver_port(terminal) };
    let flow = flow_of_terminal(terminal, receiver);
    match near {
        Mri::PathCoupled(mri) if terminal.sender_prefix == 0 => {
            PathCoupled { source: mri.source, source_prefix: mri.source_prefix, ..flow }
        }
        // NATFW_DTINFO has addresses of IPv4 only, but any sender may be one of IPv6.
        _ if receiver.address.is_ipv6() && terminal.sender_prefix == 0 => {
            PathCoupled { source: Ipv6Addr::UNSPECIFIED.into(), ..flow }
        }
        _ => flow,
    }
}

impl NatfwNslp {
    /// Returns what an EXTERNAL makes of its session at this node.
    ///
    /// # Errors
    /// The outcome for the peer.
    pub(super) fn evaluate_external(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        own: Option<Index>,
    ) -> Result<Candidate, Outcome> {
        let near = *request.near();
        let (target, expected) = match near {
            Mri::PathCoupled(mri) => (mri.source, Direction::Upstream),
            Mri::LooseEnd(mri) => (mri.destination, Direction::Downstream),
        };
        let terminal = request.terminal.filter(|_| near.direction() == expected);
        let terminal = terminal.ok_or(Outcome::ProtocolError(ProtocolError::UnknownFieldValue))?;
        let arrival = request.message.interface;
        if self.config.is_external(cx.context, arrival) {
            return Err(Outcome::ProtocolError(ProtocolError::ExternalOnExternalSide));
        }
        let data = data_of(&near, &terminal);
        if data.source.is_ipv4() != data.destination.is_ipv4() {
            return Err(Outcome::ProtocolError(ProtocolError::UnknownFieldValue));
        }
        // A signalling destination may be the edge itself.
        let outgoing = match cx.context.interfaces.owner_of(target) {
            Some(own) if self.config.is_external(cx.context, own) => own,
            Some(_) => return Err(permanent(PermanentFailure::NoEdgeDevice)),
            None => {
                let hop = route::hop(cx.context, &near);
                hop.ok_or(permanent(PermanentFailure::ResponderNotReached))?.interface
            }
        };
        let leaves = self.config.crossing(cx, Some(arrival), outgoing) == Crossing::Outward;
        let is_edge = leaves && self.config.edge;
        let mut candidate = Candidate {
            passes: true,
            leaves: leaves.then_some(outgoing),
            role: if is_edge { Role::Responder } else { Role::Forwarder },
            ..Candidate::new(request, near)
        };
        if is_edge && request.proxy.is_proxy() {
            candidate = candidate.answered_by_edge(request.proxy);
        }
        self.authorize(cx, request, (&data, true), (own, &mut candidate))?;
        self.reserve_address(cx, (&near, &terminal, &data), &mut candidate)?;
        Ok(candidate)
    }

    /// Takes the external address and port of a data receiver that is translated.
    fn reserve_address(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        (near, terminal, data): (&Mri, &DataTerminal, &PathCoupled),
        candidate: &mut Candidate,
    ) -> Result<(), Outcome> {
        let (Some(external), Some(translator)) = (candidate.leaves, &self.config.translator) else {
            return Ok(());
        };
        if !translator.translates(data.destination) {
            return Ok(());
        }
        if candidate.extended_flow.action == RuleAction::Deny {
            return Err(failure(Failure::RuleActionNotApplicable));
        }
        let port = receiver_port(terminal);
        let (Some(protocol), true) = (terminal.transport.protocol(), port != 0) else {
            return Err(failure(Failure::PlainIpNotPermitted));
        };
        let addresses = translator.addresses_of(cx, external);
        let internal = Endpoint { address: data.destination, port };
        let next_port = candidate.extended_flow.next_port;
        let taken =
            self.bindings.take(cx.now, (protocol, internal), next_port, (translator, &addresses));
        let binding = taken.ok_or(FULL)?;
        candidate.binding = Some(binding);
        let outside = self.bindings.get(binding).external;
        candidate.far = match near {
            Mri::LooseEnd(mri) => Mri::LooseEnd(LooseEnd { source: outside.address, ..*mri }),
            Mri::PathCoupled(mri) => Mri::PathCoupled(with_destination(mri, outside)),
        };
        Ok(())
    }

    /// Returns the address and port under which the data receiver of an EXTERNAL is known outside. RFC 5973 has a form for
    /// IPv4 only.
    pub(super) fn external_address(&self, index: Index) -> Option<ExternalAddress> {
        let session = self.store.session(index);
        let extra = session.extra.as_deref()?;
        let outside = match session.binding {
            Some(binding) => self.bindings.get(binding).external,
            // "This information is obtained from the NATFW_DTINFO object's 'DR port number' and the source-address of the
            // LE-MRM", at an edge firewall.
            None if matches!(session.near, Mri::LooseEnd(_)) => {
                let (address, _) = session.near.addresses();
                Endpoint { address, port: extra.terminal.as_ref().map_or(0, receiver_port) }
            }
            None => return None,
        };
        match outside.address {
            IpAddr::V4(address) => Some(ExternalAddress { address, port: outside.port }),
            IpAddr::V6(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_testkit::messages::natfw_nslp::EXTERNAL;
    use earmark_wire::natfw_nslp::DataTerminal;

    use super::*;

    /// NATFW_DTINFO has addresses of IPv4 only; any sender to a receiver of IPv6 is one of IPv6.
    #[test]
    fn any_sender_is_of_the_family_of_the_receiver() {
        let receiver: IpAddr = Ipv6Addr::LOCALHOST.into();
        let direction = Direction::Downstream;
        let near = Mri::LooseEnd(LooseEnd { source: receiver, destination: receiver, direction });
        let data = data_of(&near, &EXTERNAL.data_terminal);
        assert_eq!((data.source, data.source_prefix), (Ipv6Addr::UNSPECIFIED.into(), 0));
        let known = DataTerminal { sender_prefix: 32, ..EXTERNAL.data_terminal };
        assert!(data_of(&near, &known).source.is_ipv4(), "a contradiction, which is refused");
    }
}
