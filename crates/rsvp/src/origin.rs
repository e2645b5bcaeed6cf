//! Origin of a message: which state it may change.
//!
//! A message acts where it points: a Resv at the interface of its LIH, an error at the interfaces of its session. So each
//! change, removal, error and answer needs the consent of the interface that it acts on ([`Rsvp::may_act_at`]), not only of
//! the interface that the message came through:
//!
//! - the message came through that interface, or both are core interfaces, whose routes need not be symmetric;
//! - if that interface accepts only signed messages, the message is signed with a key of that interface (RFC 2747);
//! - if that interface accepts only certain neighbours, the sender is one of them.

use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId};

use crate::counters::DropReason;
use crate::instance::{HandlerContext, Rsvp};
use crate::state::Index;

impl Rsvp {
    /// Checks that a message from `neighbor` may act on state at an interface.
    #[inline]
    pub(crate) fn may_act_at<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        at: InterfaceId,
        neighbor: IpAddr,
    ) -> Result<(), DropReason> {
        if datagram.interface == at {
            return Ok(()); // checked on arrival
        }
        self.may_act_elsewhere(cx, datagram, at, neighbor)
    }

    #[cold]
    fn may_act_elsewhere<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        at: InterfaceId,
        neighbor: IpAddr,
    ) -> Result<(), DropReason> {
        if !cx.context.may_concern(datagram.interface, at) {
            return Err(DropReason::OtherInterface);
        }
        if let (Some(integrity), Some(link)) = (&self.integrity, cx.context.interfaces.by_id(at))
            && integrity.requires_signature(link)
            && !cx.verified.is_some_and(|verified| integrity.is_signed_for(verified, link))
        {
            return Err(DropReason::Unsigned);
        }
        match self.accepts_at(cx.context, at, neighbor) {
            true => Ok(()),
            false => Err(DropReason::UnknownNeighbor),
        }
    }

    /// Checks that an error about the Path of a sender comes from where its data go: through one of the outgoing
    /// interfaces, or one that may act there.
    pub(crate) fn comes_from_downstream<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
    ) -> Result<(), DropReason> {
        let outgoing = self.store.psb(sender).outgoing.as_slice();
        let mut verdict = Err(DropReason::OtherInterface);
        for &interface in outgoing {
            verdict = self.may_act_at(cx, datagram, interface, datagram.source);
            if verdict.is_ok() {
                break;
            }
        }
        verdict
    }

    /// Checks that a message comes from the previous hop of a sender: its address in the hop object, through the incoming
    /// interface of the data or one that may act there. Returns the incoming interface.
    pub(crate) fn comes_from_previous_hop<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
        hop: IpAddr,
    ) -> Result<InterfaceId, DropReason> {
        let previous = self.store.neighbor_of(self.store.psb(sender).hop);
        let Some((incoming, previous)) = previous else { return Err(DropReason::OtherHop) };
        if previous.address != hop {
            return Err(DropReason::OtherHop);
        }
        self.may_act_at(cx, datagram, incoming, hop).map(|()| incoming)
    }
}
