//! Who may touch routing state: the predicate for every message about a session.
//!
//! The channel is part of who speaks. A half of routing state is touched only by its peer, and only over its channel:
//! the association that it uses, or a datagram from the address of the peer through an interface that may concern the
//! half. Datagrams of a peer on a link of this node have the largest TTL, if it sends them so, and no router has
//! forwarded them (RFC 5082). A half that was secured once stays secured until it ends: nothing in the clear touches it.

use earmark_core::InterfaceId;
use earmark_wire::gist::{Direction, NetworkLayerInformation};

use super::Gist;
use super::counters::DropReason;
use super::peer::Peer;
use super::receipt::Receipt;
use super::state::{Half, HalfRef, Index, NONE, Needs};
use crate::behind::may_replace;
use crate::input_context::InputContext;
use crate::nslp::Origin;
use crate::route;

impl Gist {
    /// Returns the origin of a message about a half of routing state.
    ///
    /// # Errors
    /// Why the sender may not touch the half.
    #[inline]
    pub(super) fn origin_for(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: Option<&NetworkLayerInformation<'_>>,
        half: &Half,
    ) -> Result<Origin, DropReason> {
        if let Some(association) = self.associations.get(receipt.association) {
            // Both peers may have opened an association at the same time, but the half uses one of them (RFC 5971
            // section 4.3.2).
            if half.association != receipt.association || association.peer != half.peer {
                return Err(DropReason::WrongAssociation);
            }
            self.check_required_transport(receipt)?;
        } else {
            self.check_clear(receipt, half)?;
            self.check_datagram(cx, receipt, nli, half.peer)?;
        }
        Ok(Origin { peer: self.peers.handle(half.peer), channel: receipt.channel })
    }

    /// Returns the origin of an explicitly routed message, for which routing state may be missing: the peer of the
    /// association that carries it, or a known peer whose address is the source of the datagram.
    ///
    /// # Errors
    /// Why the sender may not send the message.
    pub(super) fn explicit_origin(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: Option<&NetworkLayerInformation<'_>>,
        at: &HalfRef,
    ) -> Result<Origin, DropReason> {
        let half = self.store.get(at.half_id());
        if half.is_some_and(|half| half.secured) && !receipt.channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        self.check_required_transport(receipt)?;
        let peer = match self.associations.get(receipt.association) {
            Some(association) => association.peer,
            None => {
                let of_half =
                    half.map(|half| (half, self.check_datagram(cx, receipt, nli, half.peer)));
                match of_half {
                    Some((_, Err(DropReason::FromFar))) => return Err(DropReason::FromFar),
                    Some((half, Ok(()))) => {
                        self.check_clear(receipt, half)?;
                        half.peer
                    }
                    _ => self.known_sender(receipt, nli)?,
                }
            }
        };
        Ok(Origin { peer: self.peers.handle(peer), channel: receipt.channel })
    }

    /// Checks that the Response to a Query of this node comes from its path: a datagram arrives through an interface that
    /// may concern the path, and over the link of the node that it names if that node is known to be there. Returns the
    /// known peer that it names, behind the interface through which it arrived.
    ///
    /// # Errors
    /// Why the Response does not count.
    pub(super) fn check_response(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
        at: &HalfRef,
    ) -> Result<Option<Index>, DropReason> {
        let named = self.peers.find(nli, receipt.interface);
        if receipt.association != NONE {
            return Ok(named);
        }
        let interface = check_arrival(cx, receipt, at)?;
        let known = match interface == receipt.interface {
            true => named,
            false => self.peers.find(nli, interface),
        };
        let peer = known.and_then(|index| self.peers.get(index));
        peer.map_or(Ok(()), |peer| check_distance(receipt, peer))?;
        Ok(named)
    }

    /// Returns the known peer that a datagram names, and whose address is its source.
    pub(super) fn known_sender(
        &self,
        receipt: &Receipt<'_>,
        nli: Option<&NetworkLayerInformation<'_>>,
    ) -> Result<Index, DropReason> {
        let nli = nli.filter(|nli| nli.interface_address == receipt.source);
        let index = nli.and_then(|nli| self.peers.find(nli, receipt.interface));
        let index = index.ok_or(DropReason::WrongPeer)?;
        self.peers.get(index).map_or(Ok(()), |peer| check_distance(receipt, peer))?;
        Ok(index)
    }

    /// Checks whether a handshake may install its peer in a half: only over a secured channel if the half was secured,
    /// and only through an interface that may concern the present peer, or that leads to the end of the flow. The present
    /// peer itself is not spoken for from another link.
    ///
    /// # Errors
    /// Why the half stays as it is.
    pub(super) fn check_handshake(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: &NetworkLayerInformation<'_>,
        at: &HalfRef,
    ) -> Result<(), DropReason> {
        self.check_required_transport(receipt)?;
        let Some(half) = self.store.get(at.half_id()) else { return Ok(()) };
        if half.secured && !receipt.channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        let Some(peer) = self.peers.get(half.peer) else { return Ok(()) };
        if receipt.association == NONE && peer.is(nli) {
            check_distance(receipt, peer)?;
        }
        let end = super::transmit::target(&receipt.peer_form(at.mri()));
        match may_replace(cx.context, receipt.interface, peer.interface, end) {
            true => Ok(()),
            false => Err(DropReason::WrongInterface),
        }
    }

    /// Checks a message in the clear against the channel of a half.
    #[inline]
    fn check_clear(&self, receipt: &Receipt<'_>, half: &Half) -> Result<(), DropReason> {
        if half.secured {
            return Err(DropReason::NotSecured);
        }
        if self.associations.get(half.association).is_some() {
            return Err(DropReason::NotOverAssociation);
        }
        self.check_required_transport(receipt)
    }

    /// Checks the channel of a message against the transport that the settings require.
    #[inline]
    pub(super) fn check_required_transport(&self, receipt: &Receipt<'_>) -> Result<(), DropReason> {
        let is_enough = self.least_needs() < Needs::Secure || receipt.channel.is_secured();
        if is_enough { Ok(()) } else { Err(DropReason::NotSecured) }
    }

    /// Checks that a datagram comes from a peer: from its address, through an interface that may concern it.
    #[inline]
    pub(super) fn check_datagram(
        &self,
        cx: &InputContext<'_, '_>,
        receipt: &Receipt<'_>,
        nli: Option<&NetworkLayerInformation<'_>>,
        peer: Index,
    ) -> Result<(), DropReason> {
        let (Some(peer), Some(nli)) = (self.peers.get(peer), nli) else {
            return Err(DropReason::WrongPeer);
        };
        if !peer.is(nli) || receipt.source != nli.interface_address {
            return Err(DropReason::WrongPeer);
        }
        if !cx.context.may_concern(receipt.interface, peer.interface) {
            return Err(DropReason::WrongInterface);
        }
        check_distance(receipt, peer)
    }
}

/// Checks that an answer to a Query of this node arrives through an interface that may concern the path of the Query.
/// Returns the interface of the path.
pub(super) fn check_arrival(
    cx: &InputContext<'_, '_>,
    receipt: &Receipt<'_>,
    at: &HalfRef,
) -> Result<InterfaceId, DropReason> {
    let hop = match at.direction {
        Direction::Downstream => route::hop(cx.context, &at.key.mri),
        Direction::Upstream => route::hop(cx.context, &receipt.peer_form(at.mri())),
    };
    let hop = hop.filter(|hop| cx.context.may_concern(receipt.interface, hop.interface));
    hop.map(|hop| hop.interface).ok_or(DropReason::WrongInterface)
}

/// Checks that a datagram in the name of a peer on a link of this node was not forwarded by a router.
#[inline]
fn check_distance(receipt: &Receipt<'_>, peer: &Peer) -> Result<(), DropReason> {
    match peer.is_near && !receipt.is_from_this_link() {
        true => Err(DropReason::FromFar),
        false => Ok(()),
    }
}
