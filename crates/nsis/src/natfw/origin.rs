//! Who may touch a session, and what a request may be about: the predicates for every message.

use earmark_core::Prefix;
use earmark_wire::gist::PathCoupled;
use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::PermanentFailure;

use super::counters::DropReason;
use super::flow::asking_end;
use super::instance::NatfwNslp;
use super::outcome::permanent;
use super::state::{Flags, Index, Kind, Session};
use crate::behind::may_replace;
use crate::nslp::{Channel, HandlerContext, PeerHandle, Received};

impl Session {
    /// Records the channel of a request that was accepted.
    pub(super) fn record_channel(&mut self, channel: Channel) {
        self.flags.set(Flags::OVER_ASSOCIATION, channel.is_association());
        if channel.is_secured() {
            self.flags.set(Flags::SECURED, true);
        }
    }

    /// Checks whether the channel of a message may touch the session.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_channel(&self, channel: Channel) -> Result<(), DropReason> {
        if self.flags.has(Flags::SECURED) && !channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        if self.flags.has(Flags::OVER_ASSOCIATION) && !channel.is_association() {
            return Err(DropReason::NotOverAssociation);
        }
        Ok(())
    }
}

impl NatfwNslp {
    /// Checks whether the sender of a request may touch a session: the previous peer over a channel no weaker than that of
    /// the session, or a node that may replace the previous peer.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_request(
        &self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        (index, peer, kind): (Index, PeerHandle, Kind),
    ) -> Result<(), DropReason> {
        let session = self.store.session(index);
        if session.kind != kind || session.is_initiator() {
            return Err(DropReason::OtherRole);
        }
        session.check_channel(message.origin.channel)?;
        if session.back == Some(peer) {
            return Ok(());
        }
        let end = asking_end(kind, &session.near);
        match may_replace(cx.context, message.interface, session.arrival, end) {
            true => Ok(()),
            false => Err(DropReason::WrongInterface),
        }
    }

    /// Checks whether a message comes from the side of the responder of a session.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_answer(
        &self,
        message: &Received<'_>,
        index: Index,
    ) -> Result<(), DropReason> {
        let session = self.store.session(index);
        session.check_channel(message.origin.channel)?;
        let own = message.mri == session.far.inverted();
        let from_other = session.on.is_some_and(|on| message.origin.peer != Some(on));
        match own && !(message.explicitly_routed && from_other) {
            true => Ok(()),
            false => Err(DropReason::WrongDirection),
        }
    }
}

/// Checks whether a request may be about these packets: the end that asks must be behind the interface that the request came
/// through.
///
/// # Errors
/// The outcome for the peer.
pub(super) fn check_origin(
    cx: &HandlerContext<'_, '_>,
    message: &Received<'_>,
    kind: Kind,
    data: &PathCoupled,
) -> Result<(), Outcome> {
    let range = match kind {
        Kind::Create => Prefix::new(data.source, data.source_prefix),
        Kind::External => Prefix::host(data.destination),
    };
    match cx.context.is_range_behind(range, message.interface) {
        true => Ok(()),
        false => Err(permanent(PermanentFailure::Authorization)),
    }
}
