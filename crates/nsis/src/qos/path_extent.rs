//! The part of the path that a reservation covers, by the response of its last node and by the links of this node.
//!
//! BREAK means that routers on the path provide no QoS (RFC 5974 section 4.6.1). Nodes that detect a gap between each
//! other set it. The last node also sets it if more routers follow, which only that node can know.

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::Outcome as QosOutcome;
use earmark_wire::qos_nslp::iana::{MessageType, TransientFailure};

use super::QosNslp;
use super::api::{Event, Source};
use super::rmf;
use super::state::{Flags, Index};
use crate::nslp::HandlerContext;

/// Returns whether the path ends at this node or on a link of it, so that no router follows.
pub(super) fn ends_near(cx: &HandlerContext<'_, '_>, mri: &Mri) -> bool {
    let (source, destination) = mri.addresses();
    cx.context.is_adjacent(match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    })
}

/// Returns the extent by the response of the last node. In receiver-initiated sessions the data travel the other way.
pub(super) fn by_response(mri: &PathCoupled, breaks: bool, source: Option<Source>) -> Outcome {
    let last = match &source {
        Some(Source::Address(address)) => Some(*address),
        _ => None,
    };
    let node = source.map(|source| match source {
        Source::Address(address) => NodeName::Address(address),
        Source::Name(name) => NodeName::Name(name),
    });
    let by = Some(OutcomeSource { node, message: Message::new("RESPONSE") });
    let outcome = Outcome { by, ..Outcome::of(Kind::Whole) }.with_extent(!breaks);
    with_ends(outcome, mri, last)
}

/// Returns the extent by a RESERVE that this node, the last one, has received.
pub(super) fn by_reserve(mri: &PathCoupled, breaks: bool) -> Outcome {
    let outcome =
        Outcome::reported(Kind::Whole, None, Message::new("RESERVE")).with_extent(!breaks);
    Outcome { from: Some(mri.source), to: Some(mri.destination), ..outcome }
}

/// Returns the extent if no other node takes part.
pub(super) fn only_here(cx: &HandlerContext<'_, '_>, mri: &PathCoupled) -> Outcome {
    let kind = if ends_near(cx, &Mri::PathCoupled(*mri)) { Kind::Whole } else { Kind::OnlyHere };
    let outcome = Outcome { nodes: Some(0), ..Outcome::known_locally(kind) };
    let own = match mri.direction {
        Direction::Downstream => mri.source,
        Direction::Upstream => mri.destination,
    };
    Outcome { from: Some(own), ..outcome }
}

/// Adds the ends in the direction of the data: the QNI is at one end of the flow, and `last` is the responding node.
fn with_ends(outcome: Outcome, mri: &PathCoupled, last: Option<IpAddr>) -> Outcome {
    match mri.direction {
        Direction::Downstream => Outcome { from: Some(mri.source), to: last, ..outcome },
        Direction::Upstream => Outcome { from: last, to: Some(mri.destination), ..outcome },
    }
}

impl QosNslp {
    /// Reports address translation on the path of a session. Behind the translator the report goes to the listener for
    /// the flow in the message, although the packets have other addresses.
    pub(super) fn report_translation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        (session, mri): (SessionId, Mri),
        translation: Translation,
    ) {
        let own = self.store.find(session);
        let own = own.and_then(|index| self.store.session(index).application());
        let querier = || self.querier_of(session).map(|(application, _)| application);
        let listener = || match mri {
            Mri::PathCoupled(mri) => self.listener_for(&mri).map(|(application, _)| application),
            Mri::LooseEnd(_) => None,
        };
        let application = own.or_else(querier).or_else(listener);
        cx.report(Event::Translated { application, session, translation });
    }

    /// Reports that this node has become the last one: to the QNI (RFC 5974 section 3.2.12.1), or at the QNI to the
    /// application.
    pub(super) fn report_truncation(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let block = self.store.session(index);
        if !block.is_initiator() {
            if !ends_near(cx, &block.towards_qnr()) {
                let truncated = QosOutcome::TransientFailure(TransientFailure::PathTruncated);
                self.notify_qni(cx, index, truncated);
            }
            return;
        }
        let asks = block.extra.as_ref().is_some_and(|extra| extra.request.is_some());
        let Some(application) = block.application() else { return };
        // A pending request will report its own result.
        if asks || block.flags.has(Flags::TORN) || block.flags.has(Flags::REMOVED) {
            return;
        }
        let (session, mri) = (block.id, block.mri);
        let wanted = rmf::evaluate(&block.qspec, MessageType::Reserve);
        let rate = wanted.map_or(Rate::ZERO, |wanted| wanted.demand.rate);
        let (breaks, reach) = (block.flags.has(Flags::BREAK), Box::new(only_here(cx, &mri)));
        cx.report(Event::Reserved { application, session, rate, breaks, reach });
    }
}
