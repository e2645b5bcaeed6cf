//! Forwarding of a RESERVE: to the next node, or back to the peer as a response (RFC 5974 section 5.4.1).
//!
//! New and changed RESERVEs are forwarded; a refresh ends here unless it requests a response from the end. The last
//! node sends the requested response, and a node that refuses responds to the peer.

use alloc::boxed::Box;
use alloc::string::ToString;

use earmark_core::Time;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::{Answers, InfoSpec, MessageBinding, Outcome};

use super::QosNslp;
use super::admission::Refused;
use super::api::Event;
use super::qspec;
use super::received_reserve::ReceivedReserve;
use super::send::{ReserveOptions, info_here};
use super::state::{Flags, Index};
use crate::nslp::HandlerContext;

impl QosNslp {
    /// Forwards a RESERVE, or ends it if this is the last node.
    pub(super) fn forward_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
        success: Success,
    ) {
        let ReceivedReserve { message, reserve, .. } = *received;
        let session = self.store.session(index);
        if session.flags.has(Flags::ENDS_HERE) {
            if session.interface.is_some() {
                self.watch_own_route(cx.now, index);
            }
            let session = self.store.session(index);
            if let Some(rii) = reserve.rii {
                let qspec = qspec::success(&session.qspec);
                // The QNI reports the responding node to its user (RFC 5974 section 5.1.3.6).
                let outcome = Outcome::Success(success);
                let info = info_here(cx, Some(message.interface), &message.mri, outcome);
                self.respond(cx, message, Some(Answers::Rii(rii)), info, qspec.as_deref());
            } else if reserve.flags.ack_req {
                self.acknowledge(cx, received);
            }
            // The sender may have requested the session of a receiver that stands anew.
            if success == Success::Reservation || self.store.session(index).application().is_none()
            {
                self.report_incoming(cx, index);
            }
            return;
        }
        let options = ReserveOptions {
            full: true,
            rii: reserve.rii,
            // Nodes further along may still wait for the MSG-ID.
            binding: reserve.binding.filter(|binding| match binding {
                MessageBinding::Id(_) => true,
                MessageBinding::Bound(_) => !self.synchronizes(cx, received),
            }),
            info: reserve.info,
            objects: Some(reserve.extra).filter(|objects| !objects.is_empty()),
            hops: Some(message.hops),
            ..ReserveOptions::default()
        };
        self.send_reserve(cx, index, &options);
        mark(Checkpoint::Forward);
        let next = cx.now + self.refresh_wait();
        self.store.session_mut(index).refresh_at = next;
        self.rearm(index);
        if reserve.flags.ack_req {
            self.acknowledge(cx, received);
        }
    }

    /// Has the sender of a receiver-initiated session look up its route once a refresh period: it refreshes nobody, but its
    /// packets may take another route.
    #[cold]
    fn watch_own_route(&mut self, now: Time, index: Index) {
        self.store.session_mut(index).refresh_at = now + self.refresh_wait();
        self.rearm(index);
    }

    /// Acknowledges a message to the peer (ACK-REQ).
    pub(super) fn acknowledge(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
    ) {
        let info = InfoSpec::new(Outcome::Success(Success::Acknowledgement));
        let answers = Some(Answers::Rsn(received.reserve.rsn));
        self.respond(cx, received.message, answers, info, None);
    }

    /// Refuses a RESERVE. A refused tear has no response (section 5.3.5).
    pub(super) fn deny(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        refused: &Refused,
    ) {
        let ReceivedReserve { message, reserve, .. } = *received;
        self.counters.refused += 1;
        let Refused { fault, available, .. } = refused;
        let outcome = fault.outcome;
        self.report_denial(cx, message.session, refused);
        if let Some(MessageBinding::Id(id)) = reserve.binding {
            self.fail_bound(cx, id);
        }
        if reserve.tear {
            return;
        }
        let answers = reserve.rii.map_or(Answers::Rsn(reserve.rsn), Answers::Rii);
        let info = info_here(cx, Some(message.interface), &message.mri, outcome);
        let returned = reserve
            .qspec
            .map(|qspec| qspec::refusal(qspec, fault, *available))
            .filter(|returned| fault.object.is_some() || qspec::has_flags(returned));
        self.respond(cx, message, Some(answers), info, returned.as_deref());
    }

    /// Reports that this node refuses a request, or has ended its reservation.
    pub(super) fn report_denial(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        refused: &Refused,
    ) {
        let Refused { fault, token, .. } = *refused;
        let (outcome, available) = (fault.outcome, refused.available_rate());
        let explanation = token.map(|error| Box::new(error.to_string()));
        cx.report(Event::Denied { session, outcome, available, explanation });
    }
}
