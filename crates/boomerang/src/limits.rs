//! Limits per initiating node, or per access interface, because whoever is behind one chooses among its addresses.

use core::net::IpAddr;

use earmark_core::{Context, Effects, Interface, InterfaceId, Time};
use earmark_wire::boomerang::{QosView, Rates};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::{DropReason, RefusalReason};
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::route::route;
use crate::state::Index;
use crate::store::{Grant, InitiatorEntry};

impl Boomerang {
    /// Checks whether a message may change a session of its initiating node, or create one. Returns the entry of that
    /// node, so that it need not be looked up again.
    #[inline(always)]
    pub(crate) fn check_change<E: From<Event>>(
        &mut self,
        (now, context, out): (Time, &Context<'_>, &mut Effects<E>),
        transit: &TransitMessage<'_>,
        (grant, wanted): (&Grant, u32),
    ) -> Result<InitiatorEntry, Refused> {
        self.pending_token = None;
        let limits = &self.config.limits;
        let entry = match *grant {
            Grant::Known(index) => self.store.initiator_entry_of(index, !transit.from_core),
            Grant::New { .. } => self.store.initiator_entry(
                transit.initiator,
                transit.request_arrival(),
                !transit.from_core,
            ),
        };
        if transit.origin == Origin::Settled {
            self.throttle.charge(now, entry.limited, limits.changes_per_second);
            return Ok(entry);
        }
        if let Grant::New { .. } = grant {
            let interfaces = context.interfaces.count();
            let has_room = self.store.shares.has_room(entry.port, limits.sessions, interfaces);
            if !has_room || self.store.sessions_of(entry) >= limits.sessions_per_source {
                return Err(Refused::without_offer(RefusalReason::Limit));
            }
        }
        let throttled = transit.origin == Origin::Others
            && !self.throttle.admits(now, entry.limited, limits.changes_per_second);
        if throttled {
            return Err(Refused::without_offer(RefusalReason::Limit));
        }
        Self::check_flow(context, transit)?;
        let known = match *grant {
            Grant::Known(index) => Some(index),
            Grant::New { .. } => None,
        };
        self.check_credential(now, context, out, transit, known)?;
        self.check_token(now, context, transit, known, wanted)?;
        Ok(entry)
    }

    /// Checks whether a message that requests something new may be forwarded: all of one access interface share half of the
    /// signalling class of a link. A refusal would take as much of the link as the request, so the message is dropped.
    #[inline]
    pub(crate) fn check_share<E>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        found: Option<Index>,
    ) -> Result<(), DropReason> {
        if transit.from_core || found.is_some_and(|index| self.asks_for_the_same(transit, index)) {
            return Ok(());
        }
        let Some(hop) = route(cx, transit) else { return Ok(()) };
        let way = (transit.arrival, hop.interface);
        match cx.context.may_forward_request(cx.now, way, 1) {
            true => Ok(()),
            false => Err(DropReason::Limit),
        }
    }

    /// Returns whether a message of the initiating node asks for what its session has, or releases the session.
    fn asks_for_the_same(&self, transit: &TransitMessage<'_>, index: Index) -> bool {
        if self.store.initiator(index) != transit.initiator {
            return false;
        }
        let half = self.store.session(index).half(transit.direction);
        let is_same = |rates| transit.part_of(rates) == half.rate;
        transit.is_release()
            || match transit.view.qos() {
                QosView::Bitrate(rates) => is_same(rates),
                QosView::Downgrade(vector) => {
                    vector.iter().any(|octets| is_same(Rates::from_octets(*octets)))
                }
            }
    }

    /// Returns how many changes of an initiating node the offload may process without the engine: half of what the
    /// limits allow now, so that both together stay within the limits until the engine receives the offload's
    /// reports.
    pub(crate) fn allowance(
        &mut self,
        now: Time,
        context: &Context<'_>,
        (initiator, interface): (IpAddr, InterfaceId),
    ) -> u32 {
        let limits = self.config.limits;
        let entry = self.store.initiator_entry(initiator, interface, !context.is_core(interface));
        let interfaces = context.interfaces.count();
        let sessions = self.store.shares.room(entry.port, limits.sessions, interfaces);
        let theirs = self.store.sessions_of(entry);
        let sessions = sessions.min(limits.sessions_per_source.saturating_sub(theirs));
        let sessions = sessions.min(share_of_links(now, context, interface));
        sessions.min(self.throttle.remaining(now, entry.limited, limits.changes_per_second)) / 2
    }
}

/// Returns how many requests that arrive through an interface may be forwarded now, through whichever link.
fn share_of_links(now: Time, context: &Context<'_>, arrival: InterfaceId) -> u32 {
    if context.is_core(arrival) {
        return u32::MAX;
    }
    let is_outgoing = |link: &&Interface| link.takes_part() && link.id != arrival;
    let links = context.interfaces.iter().filter(is_outgoing);
    let left = links.map(|link| context.ledger.remaining_requests(now, arrival.0.into(), link));
    left.min().unwrap_or(u32::MAX)
}
