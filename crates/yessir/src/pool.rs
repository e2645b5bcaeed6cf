//! Shared style: the senders of an RTP session have one reservation on each link, the largest of their requests
//! instead of their sum. It serves any sender of the session.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::InterfaceId;
use earmark_core::admission::{Demand, Service};

use crate::api::{Change, Event, Stream};
use crate::instance::{HandlerContext, Yessir};
use crate::reserve::Failure;
use crate::state::{Holder, Index, Leg, NONE, Pool};

impl Pool {
    /// Returns the shared stream, with any source.
    pub(crate) fn stream(&self) -> Stream {
        let source = match self.destination {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let (destination, destination_port) = (self.destination, self.port);
        Stream { source, destination, source_port: 0, destination_port }
    }
}

impl Yessir {
    /// Adds a stream to the pool of its session; `false` if the pool is full.
    pub(crate) fn join_pool(&mut self, session: Index) -> bool {
        let stream = self.store.session(session).stream;
        let pool = self.store.find_or_insert_pool(stream.destination, stream.destination_port);
        let sharers = self.config.limits.sharers as usize;
        let members = &mut self.store.pool_mut(pool).members;
        if members.len() >= sharers {
            if members.is_empty() {
                self.store.remove_pool(pool);
            }
            return false;
        }
        if let Err(place) = members.binary_search(&session) {
            members.insert(place, session);
        }
        self.store.session_mut(session).pool = pool;
        self.mark_for_admission(session);
        true
    }

    /// Removes a stream from its pool; its legs must be gone. An empty pool is removed.
    pub(crate) fn leave_pool(&mut self, session: Index) {
        let pool = core::mem::replace(&mut self.store.session_mut(session).pool, NONE);
        if pool == NONE {
            return;
        }
        let block = self.store.pool_mut(pool);
        if let Ok(place) = block.members.binary_search(&session) {
            block.members.remove(place);
        }
        if block.members.is_empty() && block.legs == NONE {
            self.store.remove_pool(pool);
        }
    }

    /// Reserves the shared demand of a pool on a link. This is a failure for a sender only if less is held than its
    /// own request.
    pub(crate) fn reserve_shared<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        interface: InterfaceId,
        asked: Demand,
    ) -> Option<Failure> {
        let holder = Holder::Pool(pool);
        let leg = self.store.leg_on(holder, interface);
        let leg = leg.unwrap_or_else(|| self.store.insert_leg(holder, interface));
        let Leg { full, failed, .. } = *self.store.leg(leg);
        if full && !failed {
            return None;
        }
        let failure = self.adjust_shared(cx, pool, interface, leg);
        let claim = self.store.leg(leg).claim;
        let held = claim.and_then(|claim| cx.context.ledger.demand(claim));
        failure.filter(|_| held.is_none_or(|held| held.rate < asked.rate))
    }

    fn adjust_shared<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        interface: InterfaceId,
        leg: Index,
    ) -> Option<Failure> {
        let want = self.merged(pool, interface)?;
        self.adjust_claim(cx, leg, want, Change::Created)
    }

    /// Adjusts the reservation on a link after members have left it.
    pub(crate) fn adjust_pool<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        interface: InterfaceId,
        change: Change,
    ) {
        let Some(leg) = self.store.leg_on(Holder::Pool(pool), interface) else { return };
        if self.merged(pool, interface).is_some() {
            self.adjust_shared(cx, pool, interface, leg);
        } else {
            self.release_claim(cx, leg, change);
            self.store.remove_leg(leg);
        }
    }

    /// Returns the merged request of the members that leave by a link; `None` if there are none. Rate, burst and largest
    /// packet are each the maximum, and the smallest packet the minimum, so that any one of them is covered.
    pub(crate) fn merged(&self, pool: Index, interface: InterfaceId) -> Option<Demand> {
        let members = self
            .store
            .pool(pool)
            .members
            .iter()
            .filter(|&&member| self.store.leg_on(Holder::Session(member), interface).is_some());
        let asked = members.map(|&member| self.store.session(member).asked);
        asked.reduce(|a, b| Demand {
            service: match (a.service, b.service) {
                (Service::ControlledLoad, Service::ControlledLoad) => Service::ControlledLoad,
                _ => Service::Guaranteed,
            },
            rate: a.rate.max(b.rate),
            burst: a.burst.max(b.burst),
            max_packet: a.max_packet.max(b.max_packet),
            min_packet: Demand::smaller_unit(a.min_packet, b.min_packet),
        })
    }
}
