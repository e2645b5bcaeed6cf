//! CREATE: what it means at this node (RFC 5973 section 3.7.1).

use earmark_core::Endpoint;
use earmark_wire::gist::{Direction, Mri, PathCoupled};
use earmark_wire::natfw_nslp::iana::{
    PermanentFailure, ProtocolError, SignalingSessionFailure as Failure,
};
use earmark_wire::natfw_nslp::{Nonce, Outcome, RuleAction};

use super::candidate::Candidate;
use super::config::Responder;
use super::crossing::Crossing;
use super::flow::{admits_sender, endpoints, with_destination, with_source};
use super::instance::NatfwNslp;
use super::outcome::{FULL, failure, permanent};
use super::received::Request;
use super::state::{Index, Role, Stage};
use super::store::Reserved;
use crate::nslp::HandlerContext;
use crate::route;

/// Limit of the reservations of one address and port that are looked at.
const SAME_ADDRESS: usize = 16;

impl NatfwNslp {
    /// Returns what a CREATE makes of its session at this node.
    ///
    /// # Errors
    /// The outcome for the peer.
    pub(super) fn evaluate_create(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        own: Option<Index>,
    ) -> Result<Candidate, Outcome> {
        let Mri::PathCoupled(near) = request.message.mri else {
            return Err(Outcome::ProtocolError(ProtocolError::UnknownFieldValue));
        };
        if near.direction != Direction::Downstream {
            return Err(Outcome::ProtocolError(ProtocolError::UnknownFieldValue));
        }
        if request.extended_flow.action == RuleAction::Deny {
            // Data is blocked by its receiver (section 3.2.4).
            return Err(failure(Failure::RuleActionNotApplicable));
        }
        let arrival = request.message.interface;
        let from_outside = self.config.is_external(cx.context, arrival);
        let reservation = self.reservation_for(&near, request.nonce);
        let blocked =
            |index: Index| self.store.session(index).extended_flow.action == RuleAction::Deny;
        if reservation.is_some_and(blocked) {
            return Err(failure(Failure::PolicyConflict));
        }
        // The address of a translator stands for the one that was reserved (section 3.8).
        let translator = self.config.translator.as_ref();
        let translates_here = translator.is_some_and(|translator| {
            from_outside && translator.has_address(cx, arrival, near.destination)
        });
        let binding = translates_here.then(|| self.binding_for(reservation, own, &near)).flatten();
        let is_local = cx.context.interfaces.is_local(near.destination);
        let mut candidate = match binding {
            Some(binding) => {
                let inside = self.bindings.get(binding).inside_of(endpoints(&near).1);
                let far = with_destination(&near, inside);
                let hop = route::hop_of_flow(cx.context, &far);
                hop.ok_or(permanent(PermanentFailure::ResponderNotReached))?;
                Candidate { passes: true, ..Candidate::new(request, Mri::PathCoupled(far)) }
            }
            None if is_local => {
                // "An NI+ uses the presence of the NATFW_NONCE object to correlate it to the particular EXTERNAL-PROXY"
                // (section 3.7.6.1), so that a CREATE with a nonce is for an exposed port, except in proxy mode.
                let is_of_edge = request.nonce.is_some() && !request.proxy.is_proxy();
                let accepts_all = !translates_here && self.config.responder == Responder::Any;
                if (is_of_edge || !accepts_all) && !self.is_exposed(reservation) {
                    return Err(match translates_here {
                        true => failure(Failure::NoReservation),
                        false => permanent(PermanentFailure::Authorization),
                    });
                }
                let candidate = Candidate::new(request, request.message.mri);
                // The edge itself ends its CREATE.
                let admits = reservation.filter(|_| !is_of_edge && !accepts_all);
                let reservation = admits.map(|index| self.store.session(index).id);
                Candidate { role: Role::Responder, reservation, ..candidate }
            }
            None if translates_here => return Err(failure(Failure::NoReservation)),
            None => self.evaluate_transit(cx, request, &near)?,
        };
        // This node has no rules for its own data; its applications decide, by what they expose.
        if candidate.passes || candidate.role != Role::Responder {
            let reserved = reservation.is_some() || binding.is_some();
            self.authorize(cx, request, (&near, reserved), (own, &mut candidate))?;
        } else {
            candidate.limit_lifetime(&self.config, None)?;
        }
        match binding {
            // The address stays that of this host while the session stands: "an NI+ may decide to tear down a reservation
            // immediately after receiving a CREATE message" (section 3.7.2).
            Some(binding) => {
                self.bindings.hold(binding);
                candidate.binding = Some(binding);
            }
            None => self.bind(cx, &near, &mut candidate)?,
        }
        Ok(candidate)
    }

    /// Returns what a CREATE makes of a session whose data passes without a reservation.
    fn evaluate_transit(
        &self,
        cx: &HandlerContext<'_, '_>,
        request: &Request<'_>,
        near: &PathCoupled,
    ) -> Result<Candidate, Outcome> {
        let hop = route::hop_of_flow(cx.context, near);
        let hop = hop.ok_or(permanent(PermanentFailure::ResponderNotReached))?;
        let crossing = self.config.crossing(cx, Some(request.message.interface), hop.interface);
        let candidate = Candidate {
            passes: true,
            leaves: (crossing == Crossing::Outward).then_some(hop.interface),
            ..Candidate::new(request, request.message.mri)
        };
        // The edge answers in proxy mode (section 3.7.6.2).
        let is_edge = self.config.edge && crossing == Crossing::Outward;
        Ok(match is_edge && request.proxy.is_proxy() {
            true => candidate.answered_by_edge(request.proxy),
            false => candidate,
        })
    }

    /// Takes the binding of a source that is translated on its way out.
    fn bind(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        near: &PathCoupled,
        candidate: &mut Candidate,
    ) -> Result<(), Outcome> {
        let (Some(external), Some(translator)) = (candidate.leaves, &self.config.translator) else {
            return Ok(());
        };
        if !translator.translates(near.source) {
            return Ok(());
        }
        if near.source_prefix < 32 {
            return Err(failure(Failure::SourceRangeTooLarge));
        }
        let addresses = translator.addresses_of(cx, external);
        let (source, _) = endpoints(near);
        let outside = match (near.protocol, source.port) {
            // The kernel chooses the port, or the identifier of ICMP, for each connection.
            (_, 0) | (None, _) => {
                let address = *addresses.first().ok_or(FULL)?;
                Endpoint { address: address.into(), port: 0 }
            }
            (Some(protocol), _) => {
                let next_port = candidate.extended_flow.next_port;
                let key = (protocol, source);
                let taken = self.bindings.take(cx.now, key, next_port, (translator, &addresses));
                let binding = taken.ok_or(FULL)?;
                candidate.binding = Some(binding);
                self.bindings.get(binding).external
            }
        };
        candidate.far = Mri::PathCoupled(with_source(near, outside));
        Ok(())
    }

    /// Returns the session that has reserved the destination of a CREATE, or that blocks its source.
    pub(super) fn reservation_for(
        &self,
        flow: &PathCoupled,
        nonce: Option<Nonce>,
    ) -> Option<Index> {
        let (_, destination) = endpoints(flow);
        let protocol = flow.protocol.unwrap_or(0);
        let any = Endpoint { port: 0, ..destination };
        let keys: [Reserved; 3] = [(protocol, destination), (protocol, any), (0, any)];
        keys.into_iter().find_map(|key| {
            let range = (key, Index::MIN)..=(key, Index::MAX);
            let mut found = self.store.reservations.range(range).take(SAME_ADDRESS);
            found.find_map(|(_, index)| self.reserves(*index, flow, nonce).then_some(*index))
        })
    }

    /// Returns whether an EXTERNAL session is for the data of a CREATE.
    fn reserves(&self, index: Index, flow: &PathCoupled, nonce: Option<Nonce>) -> bool {
        let session = self.store.session(index);
        let Some(extra) = &session.extra else { return false };
        // The CREATE of an edge may arrive before the RESPONSE (section 3.7.6.1).
        let is_ours = nonce.is_some() && nonce == extra.nonce;
        let stands = session.stage != Stage::Pending || is_ours;
        stands && extra.terminal.is_some_and(|terminal| admits_sender(&terminal, flow))
    }

    /// Returns the binding that the destination of a CREATE stands for: that of its reservation, or the one that the session
    /// holds already.
    fn binding_for(
        &self,
        reservation: Option<Index>,
        own: Option<Index>,
        near: &PathCoupled,
    ) -> Option<Index> {
        let of_reservation = reservation.and_then(|index| self.store.session(index).binding);
        let (_, destination) = endpoints(near);
        let stands_for = |binding: &Index| {
            let binding = self.bindings.get(*binding);
            near.protocol == Some(binding.protocol) && binding.has_external(destination)
        };
        let held = || self.store.session(own?).binding.filter(stands_for);
        of_reservation.or_else(held)
    }

    /// Returns whether a reservation is that of an application of this node.
    fn is_exposed(&self, reservation: Option<Index>) -> bool {
        reservation.is_some_and(|index| self.store.session(index).is_initiator())
    }
}
