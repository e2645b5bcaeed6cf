//! The part of the path that a reservation covers: what the last node of its path has answered, and what this node knows of its own links.
//!
//! BREAK says that routers on the path provide no QoS (RFC 5974 section 4.6.1). Nodes that see a gap between themselves set
//! it; the last node sets it as well where more routers follow behind it, which nobody else can know.

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::Outcome as QosOutcome;
use earmark_wire::qos_nslp::iana::{MessageType, TransientFailure};

use super::QosNslp;
use super::api::{Event, Source};
use super::application::tell;
use super::rmf;
use super::state::{Flags, Index};
use crate::nslp::HandlerContext;

/// Whether the path ends at this node or on a link of it, so that no router follows.
pub(super) fn ends_near(cx: &HandlerContext<'_, '_>, mri: &Mri) -> bool {
    let (source, destination) = mri.addresses();
    cx.context.is_adjacent(match mri.direction() {
        Direction::Downstream => destination,
        Direction::Upstream => source,
    })
}

/// What the last node of a path has answered. The data goes the other way where the receiver has asked.
pub(super) fn answered(mri: &PathCoupled, breaks: bool, source: Option<Source>) -> Outcome {
    let last = match &source {
        Some(Source::Address(address)) => Some(*address),
        _ => None,
    };
    let node = source.map(|source| match source {
        Source::Address(address) => NodeName::Address(address),
        Source::Name(name) => NodeName::Name(name),
    });
    let by = Some(OutcomeSource { node, message: Message::Response });
    let outcome = Outcome { by, ..Outcome::of(Kind::Whole) }.with_extent(!breaks);
    between(outcome, mri, last)
}

/// What a RESERVE says that has come to this node, the last of its path.
pub(super) fn arrived(mri: &PathCoupled, breaks: bool) -> Outcome {
    let outcome = Outcome::reported(Kind::Whole, None, Message::Reserve).with_extent(!breaks);
    Outcome { from: Some(mri.source), to: Some(mri.destination), ..outcome }
}

/// What this node knows where nobody else takes part.
pub(super) fn alone(cx: &HandlerContext<'_, '_>, mri: &PathCoupled) -> Outcome {
    let kind = if ends_near(cx, &Mri::PathCoupled(*mri)) { Kind::Whole } else { Kind::OnlyHere };
    let outcome = Outcome { nodes: Some(0), ..Outcome::known_locally(kind) };
    let own = match mri.direction {
        Direction::Downstream => mri.source,
        Direction::Upstream => mri.destination,
    };
    Outcome { from: Some(own), ..outcome }
}

/// Between which nodes it stands, in the direction of the data: the QNI is at one end of the flow, and `last` is the node
/// that has answered.
fn between(outcome: Outcome, mri: &PathCoupled, last: Option<IpAddr>) -> Outcome {
    match mri.direction {
        Direction::Downstream => Outcome { from: Some(mri.source), to: last, ..outcome },
        Direction::Upstream => Outcome { from: last, to: Some(mri.destination), ..outcome },
    }
}

impl QosNslp {
    /// Addresses are translated on the way of a session. Behind the translator that is told to who listens for the flow
    /// that the message names, although another one would arrive.
    pub(super) fn tell_of_translation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        (session, mri): (SessionId, Mri),
        translation: Translation,
    ) {
        let own = self.store.find(session);
        let own = own.and_then(|index| self.store.session(index).application());
        let asker = || self.asker_of(session).map(|(application, _)| application);
        let listener = || match mri {
            Mri::PathCoupled(mri) => self.listener_for(&mri).map(|(application, _)| application),
            Mri::LooseEnd(_) => None,
        };
        let application = own.or_else(asker).or_else(listener);
        tell(cx, Event::Translated { application, session, translation });
    }

    /// Nobody comes any more after this node, where somebody did: the QNI hears how little is left of the path
    /// (RFC 5974 section 3.2.12.1), and so does its application.
    pub(super) fn tell_of_truncation(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
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
        // Who asks at this moment hears what comes of that.
        if asks || block.flags.has(Flags::TORN) || block.flags.has(Flags::REMOVED) {
            return;
        }
        let (session, mri) = (block.id, block.mri);
        let wanted = rmf::judge(&block.qspec, MessageType::Reserve);
        let rate = wanted.map_or(Rate::ZERO, |wanted| wanted.demand.rate);
        let (breaks, reach) = (block.flags.has(Flags::BREAK), Box::new(alone(cx, &mri)));
        tell(cx, Event::Reserved { application, session, rate, breaks, reach });
    }
}
