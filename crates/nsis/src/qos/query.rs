//! QUERY: available resources along a path, or a request to the receiver to reserve (RFC 5974 section 5.4.2).
//!
//! Nodes on the path write their available resources into the QSPEC, and keep no state. The last one responds.

use alloc::boxed::Box;

use earmark_core::Rate;
use earmark_token::Verified;
use earmark_wire::gist::{Direction, Mri, PathCoupled};
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError, Success, TransientFailure};
use earmark_wire::qos_nslp::{
    Answers, Extra as Objects, GenericFlags, InfoSpec, Message, Notify, Outcome, Query, Response,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::admission::{Refused, link_resources};
use super::flow::{flow_of, outgoing_interface};
use super::limits::may_forward;
use super::path_extent::ends_near;
use super::policy::Requester;
use super::qspec;
use super::receive::back;
use super::rmf::{self, Fault};
use super::send::info_here;
use super::session_auth::Authorization;
use crate::nslp::{HandlerContext, Received, SendMessage};

impl QosNslp {
    /// Handles a QUERY.
    pub(super) fn receive_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        query: &Query<'_>,
    ) {
        let Mri::PathCoupled(mri) = message.mri else {
            let outcome = Outcome::ProtocolError(ProtocolError::UnknownMri);
            return self.refuse_query(cx, message, query, &fault_of(outcome));
        };
        if let Err(fault) = rmf::evaluate(query.qspec, MessageType::Query) {
            return self.refuse_query(cx, message, query, &fault);
        }
        if query.reserve_init && self.joins_reservation(cx, message) {
            return;
        }
        if !may_forward(cx, message) {
            let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
            return self.refuse_query(cx, message, query, &fault_of(outcome));
        }
        let verified = match self.authorize_query(cx, message, &mri, query) {
            Ok(verified) => verified,
            Err(refused) => {
                self.report_denial(cx, message.session, &refused);
                return self.refuse_query(cx, message, query, &refused.fault);
            }
        };
        let breaks = query.flags.breaks || message.ip_distance.is_some_and(|hops| hops > 1);
        let mut qspec = core::mem::take(&mut self.scratch);
        qspec.clear();
        qspec.extend_from_slice(query.qspec);
        self.write_offer(cx, message, &mri, query, verified.as_deref(), &mut qspec);
        let acknowledge = query.flags.ack_req;
        let flags = GenericFlags { breaks, ack_req: false, ..query.flags };
        let query = Query { flags, qspec: &qspec, ..*query };
        if acknowledge {
            let info = InfoSpec::new(Outcome::Success(Success::Acknowledgement));
            self.respond(cx, message, None, info, None);
        }
        let ends = self.is_own_end(cx, message)
            || query.flags.scoping
            || query.flags.proxy && self.config.proxy;
        if !ends {
            self.send_query(cx, Addressing::forwarding(message), query);
        } else if query.reserve_init {
            self.receive_invitation(cx, message, &mri, &query);
        } else {
            self.answer_query(cx, self.back(message), &query);
        }
        self.scratch = qspec;
    }

    /// Verifies the token of a QUERY (RFC 5981 section 6.2).
    fn authorize_query(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        mri: &PathCoupled,
        query: &Query<'_>,
    ) -> Result<Option<Box<Verified>>, Refused> {
        let Some(flow) = flow_of(mri, query.classifier) else { return Ok(None) };
        let (objects, qspec, arrival) = (query.extra, query.qspec, Some(message.interface));
        let message = MessageType::Query;
        self.authorize(cx, &Authorization { objects, flow: &flow, qspec, message, arrival })
    }

    /// Writes the available resources of this node into a QSPEC.
    fn write_offer(
        &self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        mri: &PathCoupled,
        query: &Query<'_>,
        verified: Option<&Verified>,
        qspec: &mut [u8],
    ) {
        let outgoing = outgoing_interface(cx, mri);
        let mut resources = link_resources(cx, outgoing.unwrap_or_default());
        match outgoing {
            Ok(None) => {}
            Ok(Some(_)) => {
                // Resources that the session already holds are available to it.
                let held = self
                    .store
                    .find(message.session)
                    .and_then(|index| self.store.session(index).claim)
                    .and_then(|claim| cx.context.ledger.demand(claim));
                let held = held.map_or(Rate::ZERO, |held| held.rate);
                resources.available = resources.available.saturating_add(held);
            }
            Err(_) => resources.available = Rate::ZERO,
        }
        let verified = verified.map(|verified| verified.name.as_str());
        let requester = Requester { secure: message.attributes().secure, verified };
        let verdict = flow_of(mri, query.classifier)
            .and_then(|flow| self.policy.evaluate(&flow, requester, (None, Rate::ZERO)));
        let most = verdict.map_or(Rate::ZERO, |verdict| verdict.most);
        resources.available = resources.available.min(most);
        qspec::compose(qspec, MessageType::Query, resources);
    }

    /// Responds to a QUERY for resources, with the QSPEC as collected.
    pub(super) fn answer_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        addressing: Addressing,
        query: &Query<'_>,
    ) {
        let Some(rii) = query.rii else { return };
        let outcome = Outcome::Success(Success::Reservation);
        let response = Response {
            flags: GenericFlags { scoping: false, ack_req: false, ..query.flags },
            answers: Some(Answers::Rii(rii)),
            info: info_here(cx, None, &addressing.mri, outcome),
            summary: None,
            qspec: Some(query.qspec),
            extra: Objects::NONE,
        };
        self.send(cx, addressing, &Message::Response(response));
    }

    fn refuse_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        query: &Query<'_>,
        fault: &Fault,
    ) {
        self.counters.refused += 1;
        let info = info_here(cx, Some(message.interface), &message.mri, fault.outcome);
        let qspec = qspec::refusal(query.qspec, fault, None);
        self.send_refusal(cx, self.back(message), query.rii, info, Some(&qspec));
    }

    /// Refuses a QUERY: by a RESPONSE if it has an RII, otherwise by a NOTIFY, because a RESPONSE without RII only
    /// reaches the next node (section 5.4.3).
    pub(super) fn send_refusal(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        addressing: Addressing,
        rii: Option<u32>,
        info: InfoSpec<'_>,
        qspec: Option<&[u8]>,
    ) {
        let (flags, extra) = (self.flags_of(addressing.session), Objects::NONE);
        let message = match rii {
            Some(rii) => {
                let answers = Some(Answers::Rii(rii));
                Message::Response(Response { flags, answers, info, summary: None, qspec, extra })
            }
            None => Message::Notify(Notify { flags, info, qspec, extra }),
        };
        self.send(cx, addressing, &message);
    }

    /// Handles a QUERY of this node for which there is no next node.
    pub(super) fn handle_query_end(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        query: &Query<'_>,
    ) {
        if let Some(rii) = query.rii
            && self.answer_own_query(cx, sent.session, rii, query)
        {
            return;
        }
        let addressing = back(sent);
        if !query.reserve_init {
            let breaks = query.flags.breaks || !ends_near(cx, &sent.mri);
            let flags = GenericFlags { breaks, ..query.flags };
            return self.answer_query(cx, addressing, &Query { flags, ..*query });
        }
        if self.fail_own_invitation(cx, sent.session) {
            return;
        }
        // No listener of this node accepts the request (section 5.4.2).
        let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
        let info = info_here(cx, None, &addressing.mri, outcome);
        self.send_refusal(cx, addressing, query.rii, info, None);
    }

    /// Handles a QUERY with RESERVE-INIT at the receiver.
    fn receive_invitation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        mri: &PathCoupled,
        query: &Query<'_>,
    ) {
        let listener = self.listener_for(mri);
        let answered = mri.direction == Direction::Downstream
            && listener.is_some_and(|(application, most)| {
                self.answer_invitation(cx, message, mri, query, application, most)
            });
        if !answered {
            let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
            let info = info_here(cx, Some(message.interface), &message.mri, outcome);
            self.counters.refused += 1;
            self.send_refusal(cx, self.back(message), query.rii, info, None);
        }
    }
}

fn fault_of(outcome: Outcome) -> Fault {
    Fault { outcome, object: None, parameter: None }
}
