//! How much one initiating node may want of this one.

use earmark_core::Time;

use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::passing::{Passing, Refused};
use crate::store::Asker;

impl Boomerang {
    /// Whether a message may change something here, or make a new session. Gives what was found out about its initiating
    /// node, so that nobody has to look again.
    pub(crate) fn may_change(
        &mut self,
        now: Time,
        passing: &Passing<'_>,
        new: bool,
    ) -> Result<Asker, Refused> {
        let limits = &self.config.limits;
        let asker = self.store.asker(passing.initiator);
        if new {
            let full = self.store.sessions.len() >= limits.sessions as usize;
            if full || self.store.sessions_of(asker) >= limits.sessions_per_source {
                return Err(Refused::flatly(RefusalReason::Limit));
            }
        }
        if !passing.own && !self.throttle.admits(now, asker.hash, limits.changes_per_second) {
            return Err(Refused::flatly(RefusalReason::Limit));
        }
        self.is_credible(passing)?;
        Ok(asker)
    }
}
