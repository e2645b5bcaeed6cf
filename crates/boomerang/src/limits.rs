//! Limits per initiating node, or per access interface, because whoever is behind one chooses among its addresses.

use core::net::IpAddr;

use earmark_core::{Context, Effects, InterfaceId, Time};

use crate::api::Event;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::store::{Grant, InitiatorEntry};

impl Boomerang {
    /// Checks whether a message may change a session of its initiating node, or create one. Returns the entry of that
    /// node, so that it need not be looked up again.
    #[inline]
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
            let full = self.store.shares.room(entry.port, limits.sessions, interfaces) == 0;
            if full || self.store.sessions_of(entry) >= limits.sessions_per_source {
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
        sessions.min(self.throttle.remaining(now, entry.limited, limits.changes_per_second)) / 2
    }
}
