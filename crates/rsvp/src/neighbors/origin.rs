//! Origin of a message: which state it may change.
//!
//! A message acts where it points: a Resv at the interface of its LIH, an error at the interfaces of its session. So each
//! change, removal, error and answer needs the consent of the interface that it acts on ([`Rsvp::may_act_at`]), not only of
//! the interface that the message came through:
//!
//! - the message came through that interface, or both are core interfaces, whose routes need not be symmetric;
//! - if that interface accepts only signed messages, the message is signed with a key of that interface (RFC 2747);
//! - if that interface accepts only certain neighbours, the sender is one of them;
//! - if the neighbour that it names is on the link of either interface, it does not come from another one: its TTL is
//!   still the largest (RFC 5082). Neighbours behind a core interface are on its link, unless its configuration names
//!   them, or they sign. Any other neighbour is known to be there after its first message with that TTL.
//!
//! A message that names its previous hop itself (Path, PathTear) or comes from the far end (ResvConf) needs router alert, so
//! that no router that supports RSVP has passed it on unseen ([`Rsvp::needs_router_alert`]).

use core::net::IpAddr;

use earmark_core::{Context, Datagram, Interface, InterfaceId};
use earmark_wire::rsvp::{RsvpHop, Session};

use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::address::is_neighbor;
use crate::state::Index;

impl Rsvp {
    /// Returns the outgoing interface that a Resv or ResvTear of a next hop is about: that of its LIH, if the message may act
    /// there.
    #[inline]
    pub(crate) fn comes_from_next_hop<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        hop: RsvpHop,
    ) -> Result<InterfaceId, DropReason> {
        if !is_neighbor(cx.context, hop.address) {
            return Err(DropReason::BadHop);
        }
        let outgoing = self.interface_of_lih(cx, hop.lih).ok_or(DropReason::BadLih)?;
        self.may_act_at(cx, datagram, outgoing, hop.address)?;
        match cx.context.may_be_neighbor(hop.address, outgoing) {
            true => Ok(outgoing),
            false => Err(DropReason::BadHop),
        }
    }

    /// Returns the interface for one of our logical interface handles, if it takes part in RSVP.
    pub(crate) fn interface_of_lih<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        lih: u32,
    ) -> Option<InterfaceId> {
        let id = InterfaceId(lih.wrapping_sub(self.lih_offset));
        cx.context.interfaces.by_id(id).filter(|link| link.takes_part()).map(|link| link.id)
    }

    /// Checks that a message between neighbours, from `neighbor`, may act on state at an interface.
    #[inline]
    pub(crate) fn may_act_at<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        at: InterfaceId,
        neighbor: IpAddr,
    ) -> Result<(), DropReason> {
        self.is_of_this_link(cx, datagram.interface, neighbor)?;
        self.is_trusted_at(cx, datagram, at, neighbor)
    }

    /// Checks that a message in the name of a neighbour that is on the link of an interface does not come from another
    /// link.
    #[inline]
    pub(crate) fn is_of_this_link<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> Result<(), DropReason> {
        match cx.is_from_this_link || self.may_be_elsewhere(cx, interface, neighbor) {
            true => Ok(()),
            false => Err(DropReason::FromFar),
        }
    }

    /// Returns whether messages of a neighbour behind an interface may come from another link.
    fn may_be_elsewhere<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> bool {
        let is_near = self.store.is_near(interface, neighbor)
            || self.refresh_reduction.is_near(interface, neighbor);
        let link = cx.context.interfaces.by_id(interface);
        let has_distant_neighbors = |link: &Interface| {
            !link.is_core() || self.config.distant_neighbors.contains(&link.name)
        };
        !is_near
            && (link.is_none_or(has_distant_neighbors)
                || cx.verified.is_some()
                || self.is_named_at(cx.context, interface, neighbor))
    }

    /// Returns whether a message that every router on the path must see needs router alert (RFC 2205 section 3.3): routers
    /// pass it on unseen otherwise, and it can name any previous hop. A message inside UDP has none.
    #[cold]
    pub(crate) fn needs_router_alert(
        &self,
        context: &Context<'_>,
        datagram: &Datagram<'_>,
    ) -> bool {
        let link = context.interfaces.by_id(datagram.interface);
        !datagram.encapsulated
            && !link.is_some_and(|link| self.config.without_router_alert.contains(&link.name))
    }

    /// Checks that a message that passes several nodes, last `neighbor`, may act on state at an interface.
    #[inline]
    pub(crate) fn is_trusted_at<E>(
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
        // A neighbour on the link of that interface would have sent the message over the link.
        self.is_of_this_link(cx, at, neighbor)?;
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

    /// Checks that a message that passes several nodes may act at one of these interfaces; `otherwise` if there are none.
    fn is_trusted_at_any<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        interfaces: impl IntoIterator<Item = InterfaceId>,
        otherwise: DropReason,
    ) -> Result<(), DropReason> {
        let mut verdict = Err(otherwise);
        for interface in interfaces {
            verdict = self.is_trusted_at(cx, datagram, interface, datagram.source);
            if verdict.is_ok() {
                break;
            }
        }
        verdict
    }

    /// Checks that an error about the Path of a sender comes from where its data go: through one of the outgoing
    /// interfaces, or one that may act there.
    pub(crate) fn comes_from_downstream<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
    ) -> Result<(), DropReason> {
        self.is_of_this_link(cx, datagram.interface, datagram.source)?;
        let outgoing = self.store.psb(sender).outgoing.as_slice().iter().copied();
        self.is_trusted_at_any(cx, datagram, outgoing, DropReason::OtherInterface)
    }

    /// Checks that a message about a session comes from where the data of one of its senders come from.
    pub(crate) fn comes_from_upstream<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        session: &Session,
    ) -> Result<(), DropReason> {
        let session = self.store.find_session(session);
        let senders = session.into_iter().flat_map(|session| self.store.senders_of(session));
        let previous = senders.filter_map(|psb| self.store.neighbor_of(self.store.psb(psb).hop));
        let incoming = previous.map(|(incoming, _)| incoming);
        self.is_trusted_at_any(cx, datagram, incoming, DropReason::NotForUs)
    }

    /// Checks that a message comes from the previous hop of a sender: its address in the hop object, through the incoming
    /// interface of the data or one that may act there. Returns the incoming interface. A previous hop that has sent the
    /// message over its link is known to be there from now on.
    pub(crate) fn comes_from_previous_hop<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
        hop: IpAddr,
    ) -> Result<InterfaceId, DropReason> {
        let peer = self.store.psb(sender).hop;
        let previous = self.store.neighbor_of(peer);
        let Some((incoming, previous)) = previous else { return Err(DropReason::OtherHop) };
        if previous.address != hop {
            return Err(DropReason::OtherHop);
        }
        self.may_act_at(cx, datagram, incoming, hop)?;
        if cx.is_from_this_link && datagram.interface == incoming {
            self.store.note_near(peer);
        }
        Ok(incoming)
    }
}

/// Checks that a Path through an interface may name this previous hop, for a sender with this source address.
#[inline]
pub(crate) fn may_be_previous_hop(
    context: &Context<'_>,
    interface: InterfaceId,
    hop: IpAddr,
    source: IpAddr,
) -> Result<(), DropReason> {
    if !is_neighbor(context, hop) {
        return Err(DropReason::BadHop);
    }
    // A new session behind a core interface costs as little as possible.
    match context.is_core(interface) {
        false if !context.may_be_neighbor(hop, interface) => Err(DropReason::BadHop),
        false if !context.is_behind(source, interface) => Err(DropReason::SourceElsewhere),
        _ => Ok(()),
    }
}
