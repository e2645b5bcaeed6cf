//! Discovery of RSVP behind a receiver proxy (RFC 5946 section 4.1): from the first Resv of a node behind it on, this node
//! is an ordinary router for that flow, as if it had never been a proxy, until the path state ends.

use alloc::vec::Vec;

use earmark_core::InterfaceId;
use earmark_wire::rsvp::Carried;

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::rules::request::Request;
use crate::state::applications::PROXY;
use crate::state::store::ExistingRequest;
use crate::state::{Block, Holder, Index, Origin, Peer, Timer, TimerKind};

impl Rsvp {
    /// Returns whether RSVP was discovered behind an outgoing interface of a sender. A request of a next hop that is older
    /// than the settings of the proxy counts as well.
    pub(super) fn is_discovered(&mut self, index: Index, outgoing: InterfaceId) -> bool {
        if self.discovered.contains(&(index, outgoing)) {
            return true;
        }
        let tcsb = self.store.find_tcsb(Holder::Sender(index), Some(outgoing));
        let mut requests = tcsb.into_iter().flat_map(|tcsb| self.store.rsbs_of(tcsb));
        let is_known = requests.any(|rsb| matches!(self.store.rsb(rsb).hop, Peer::Neighbor { .. }));
        if is_known {
            self.discovered.insert((index, outgoing));
        }
        is_known
    }

    /// Creates or changes the reservation of a next hop for a sender. If a receiver proxy of this node has requested one there,
    /// the request of the next hop replaces it.
    #[cold]
    pub(crate) fn reserve_in_place_of_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        known: ExistingRequest,
        request: Request,
    ) -> Result<Index, ResvFault> {
        let (holder, origin) = (Holder::Sender(index), request.origin);
        let proxied = match request.outgoing {
            Some(outgoing) => self.proxied_request(cx, index, outgoing, origin)?,
            None => None,
        };
        let known = ExistingRequest { rsb: known.rsb.or(proxied), ..known };
        let done = self.reserve(cx, holder, known, request);
        if let Some(proxied) = proxied {
            self.hand_over(cx, proxied, origin, done.is_ok());
        }
        done
    }

    /// Returns the request of a proxy that one of a next hop replaces, and notes that there is RSVP behind the interface.
    fn proxied_request<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
        origin: Origin,
    ) -> Result<Option<Index>, ResvFault> {
        let (holder, proxy) = (Holder::Sender(index), Origin::Local(PROXY));
        let Some(rsb) = self.store.find_request(holder, Some(outgoing), proxy).rsb else {
            return Ok(None);
        };
        // The request of the proxy counts against no neighbour, so the one in its place is a new one.
        let is_core = cx.context.is_core(outgoing);
        let block = Block::Reservation;
        if !self.has_room(cx, origin, block)
            || !self.admits_change(cx, origin, is_core, Some(block))
        {
            return Err(ResvFault::limit_reached());
        }
        self.discovered.insert((index, outgoing));
        Ok(Some(rsb))
    }

    /// Ends the role of the proxy for a flow: the request that has replaced its own belongs to the next hop, or, if that was
    /// refused, nothing is requested.
    fn hand_over<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        proxied: Index,
        origin: Origin,
        is_granted: bool,
    ) {
        if !is_granted {
            return self.drop_reservation(cx, proxied, Change::Orphaned, Carried::NONE);
        }
        let hop = self.store.find_or_insert_hop(origin, Block::Reservation, cx.now);
        let expires_at = self.store.rsb(proxied).expires_at;
        let timer = Timer { kind: TimerKind::Reservation, block: proxied };
        let timer = Some(self.store.timers.arm(expires_at, timer));
        let rsb = self.store.rsb_mut(proxied);
        let old = core::mem::replace(&mut rsb.hop, hop);
        rsb.timer = timer;
        self.store.release_neighbor(old, Block::Reservation);
    }

    /// Removes the requests of proxies in a session before a next hop requests a shared reservation there, whose style is
    /// another one.
    #[inline]
    pub(crate) fn discover_shared_receiver<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        session: Index,
        outgoing: InterfaceId,
    ) {
        if !self.config.proxies.receivers.is_empty() && self.store.session(session).distinct > 0 {
            self.leave_session(cx, session, outgoing);
        }
    }

    #[cold]
    fn leave_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        session: Index,
        outgoing: InterfaceId,
    ) {
        let senders: Vec<Index> = self.store.senders_of(session).collect();
        for index in senders {
            if self.store.psb(index).leaves_through(Some(outgoing)) {
                self.discovered.insert((index, outgoing));
            }
            let tcsbs: Vec<Index> = self.store.tcsbs_of(Holder::Sender(index)).collect();
            for tcsb in tcsbs {
                if let Some(rsb) = self.store.find_rsb(tcsb, Origin::Local(PROXY)) {
                    self.drop_reservation(cx, rsb, Change::Orphaned, Carried::NONE);
                }
            }
        }
    }

    /// Forgets what was discovered about a sender, on one interface or on all.
    #[inline]
    pub(crate) fn forget_discovered(&mut self, index: Index, outgoing: Option<InterfaceId>) {
        if !self.discovered.is_empty() {
            self.forget_any_discovered(index, outgoing);
        }
    }

    #[cold]
    fn forget_any_discovered(&mut self, index: Index, outgoing: Option<InterfaceId>) {
        let (first, last) = match outgoing {
            Some(outgoing) => (outgoing, outgoing),
            None => (InterfaceId(0), InterfaceId(u32::MAX)),
        };
        let known = self.discovered.range((index, first)..=(index, last));
        let known: Vec<_> = known.copied().collect();
        for entry in known {
            self.discovered.remove(&entry);
        }
    }
}
