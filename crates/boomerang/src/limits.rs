//! How much one initiating node may want of this one.

use core::net::IpAddr;

use earmark_core::Time;

use crate::admission::Grant;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Passing, Refused};
use crate::store::Asker;

impl Boomerang {
    /// Whether a message may change a session of its initiating node, or make a new one. Gives what was found out about
    /// that node, so that nobody has to look again.
    #[inline]
    pub(crate) fn may_change(
        &mut self,
        now: Time,
        passing: &Passing<'_>,
        grant: &Grant,
    ) -> Result<Asker, Refused> {
        let limits = &self.config.limits;
        let asker = match *grant {
            Grant::Known(index) => self.store.asker_of(index),
            Grant::New { .. } => self.store.asker(passing.initiator),
        };
        if passing.origin == Origin::Settled {
            self.throttle.charge(now, asker.hash, limits.changes_per_second);
            return Ok(asker);
        }
        if let Grant::New { .. } = grant {
            let full = self.store.sessions.len() >= limits.sessions as usize;
            if full || self.store.sessions_of(asker) >= limits.sessions_per_source {
                return Err(Refused::flatly(RefusalReason::Limit));
            }
        }
        let throttled = passing.origin == Origin::Others
            && !self.throttle.admits(now, asker.hash, limits.changes_per_second);
        if throttled {
            return Err(Refused::flatly(RefusalReason::Limit));
        }
        self.is_credible(passing)?;
        Ok(asker)
    }

    /// How many changes of an initiating node somebody else may treat without asking: half of what it may ask for here now,
    /// so that the other half keeps both together within the limits until this node hears of them.
    pub(crate) fn allowance(&mut self, now: Time, initiator: IpAddr) -> u32 {
        let limits = self.config.limits;
        let asker = self.store.asker(initiator);
        let all = u32::try_from(self.store.sessions.len()).unwrap_or(u32::MAX);
        let theirs = self.store.sessions_of(asker);
        let sessions = limits.sessions.saturating_sub(all);
        let sessions = sessions.min(limits.sessions_per_source.saturating_sub(theirs));
        sessions.min(self.throttle.left(now, asker.hash, limits.changes_per_second)) / 2
    }
}
