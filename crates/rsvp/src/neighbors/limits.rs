//! Configured limits: accepted neighbours, and the state and request rate of each neighbour.
//!
//! At a limit new work is refused: a Path by a PathErr, a Resv by a ResvErr, both "RSVP system error" (code 23), or
//! "admission control failure" for bandwidth. Existing state stays and is refreshed as before, because refreshes
//! without changes are not checked.

mod settings;
mod throttles;

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Context, Datagram, InterfaceId, shares};
use earmark_wire::rsvp::Body;

use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::{Block, Origin};

pub use self::settings::{Access, Interface, Settings};
pub(crate) use self::throttles::Throttles;

impl Rsvp {
    /// Returns the limits of an interface, if any.
    #[inline]
    pub(crate) fn limits_of(&self, context: &Context<'_>, id: InterfaceId) -> Option<&Interface> {
        if self.config.limits.interfaces.is_empty() {
            return None;
        }
        self.config.limits.interfaces.get(&context.interfaces.by_id(id)?.name)
    }

    /// Returns whether a message is from an accepted neighbour. A ResvConf may come from any node, and changes nothing.
    #[cold]
    pub(crate) fn accepts_neighbor(
        &self,
        context: &Context<'_>,
        datagram: &Datagram<'_>,
        body: &Body<'_>,
    ) -> bool {
        let neighbor = match body {
            Body::Path(path) | Body::RecoveryPath(path) => path.hop.address,
            Body::PathTear(tear) => tear.hop.address,
            Body::Resv(resv) => resv.hop.address,
            Body::ResvTear(tear) => tear.hop.address,
            Body::ResvErr(error) => error.hop.address,
            Body::ResvConf(_) => return true,
            _ => datagram.source,
        };
        self.accepts_at(context, datagram.interface, neighbor)
    }

    /// Returns whether an interface accepts a neighbour: one that it names, or any if it names none.
    pub(crate) fn accepts_at(
        &self,
        context: &Context<'_>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> bool {
        let limits = self.limits_of(context, interface);
        limits.is_none_or(|limits| limits.neighbors.is_empty() || limits.names(neighbor))
    }

    /// Returns whether the configuration of an interface names a neighbour.
    pub(crate) fn is_named_at(
        &self,
        context: &Context<'_>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> bool {
        let limits = self.limits_of(context, interface);
        limits.is_some_and(|limits| limits.names(neighbor))
    }

    /// Returns whether a peer, behind a core interface or not, may have one more block, or (`new` is `None`) a change of
    /// one.
    #[inline]
    pub(crate) fn admits_change<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        origin: Origin,
        is_core: bool,
        new: Option<Block>,
    ) -> bool {
        let Origin::Neighbor(interface, hop) = origin else { return true };
        let limits = &self.config.limits;
        let is_limited = limits.per_neighbor.is_some()
            || limits.changes_per_second.is_some()
            || !limits.interfaces.is_empty();
        (is_core || self.is_within_access_limits(cx, interface, hop.address, new))
            && (!is_limited || self.is_within_limits(cx, interface, hop.address, new))
    }

    /// Returns whether the table of a kind of blocks has room for another one of a peer.
    pub(crate) fn has_room<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        origin: Origin,
        block: Block,
    ) -> bool {
        let port = match origin {
            Origin::Neighbor(interface, _) => interface,
            Origin::Local(_) => shares::OWN,
        };
        let interfaces = cx.context.interfaces.count();
        self.store.shares[block as usize].has_room(port, self.config.max_sessions, interfaces)
    }

    /// Returns whether a neighbour is within the limits of its interface, and of the node where that has none.
    #[cold]
    fn is_within_limits<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
        new: Option<Block>,
    ) -> bool {
        let (of_all, own) = (&self.config.limits, self.limits_of(cx.context, interface));
        let most = own.and_then(|own| own.per_neighbor).or(of_all.per_neighbor);
        let rate = own.and_then(|own| own.changes_per_second).or(of_all.changes_per_second);
        if let (Some(most), Some(block)) = (most, new)
            && self.store.blocks_of_neighbor(interface, neighbor, block) >= most
        {
            return false;
        }
        rate.is_none_or(|rate| {
            let hash = self.throttles.hash(interface, Some(neighbor));
            self.throttles.changes.admits(cx.now, hash, rate)
        })
    }

    #[cold]
    fn is_within_access_limits<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
        new: Option<Block>,
    ) -> bool {
        let Access { max_blocks, changes_per_second, .. } = self.config.limits.access;
        let is_signed = cx.verified.is_some();
        let blocks = |block| match is_signed {
            true => self.store.blocks_of_neighbor(interface, neighbor, block),
            false => self.store.shares[block as usize].of(interface),
        };
        if new.is_some_and(|block| blocks(block) >= max_blocks) {
            return false;
        }
        let hash = self.throttles.hash(interface, is_signed.then_some(neighbor));
        self.throttles.changes.admits(cx.now, hash, changes_per_second)
    }

    /// Returns whether another new or changed sender from behind an access interface may be forwarded through these
    /// interfaces at once: each access interface may use half of the signalling share of a link.
    #[cold]
    pub(crate) fn may_forward<E>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        arrival: InterfaceId,
        neighbor: IpAddr,
        outgoing: &[InterfaceId],
    ) -> bool {
        let port = match cx.verified {
            Some(_) => self.throttles.hash(arrival, Some(neighbor)),
            None => arrival.0.into(),
        };
        outgoing
            .iter()
            .filter_map(|&id| cx.context.interfaces.by_id(id))
            .all(|link| cx.context.ledger.admits_request(cx.now, port, link, 1))
    }

    /// Returns whether this node may send an error of its own through an interface. Above the limit of an access
    /// interface errors are counted instead.
    pub(crate) fn may_send_error<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> bool {
        if cx.context.is_core(interface) {
            return true;
        }
        let hash = self.throttles.hash(interface, cx.verified.map(|_| neighbor));
        let rate = self.config.limits.access.errors_per_second;
        let is_allowed = self.throttles.errors.admits(cx.now, hash, rate);
        self.counters.suppressed_errors += u64::from(!is_allowed);
        is_allowed
    }

    /// Returns the lifetime of state that a message of this refresh period sets up or refreshes.
    #[inline]
    pub(crate) fn lifetime<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        refresh_ms: u32,
    ) -> Duration {
        let lifetime = self.config.lifetime(interface, refresh_ms);
        let longest = self.config.limits.access.max_lifetime;
        let is_long = lifetime > longest;
        if is_long && !cx.context.is_core(interface) {
            return longest;
        }
        lifetime
    }
}
