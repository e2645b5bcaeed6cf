//! Previous hops that senders had before their present ones.
//!
//! A router on the path that the data has left does not know of that until its PathTear, and may refresh its Path once more
//! before. The node where both paths meet cannot tell this from a change of route, and the PathTear that follows would end a
//! sender whose data arrives on the new path until the next refresh from there. Instead the node returns to the previous hop on
//! the new path.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::RsvpHop;

use crate::state::Index;

/// Limit of records that end in one timer event.
const ENDS_PER_TURN: usize = 256;

/// Interface and hop object of a previous hop.
pub(crate) type PreviousHop = (InterfaceId, RsvpHop);

/// Previous hop before the present one.
#[derive(Clone, Copy, Debug)]
struct FormerHop {
    hop: PreviousHop,
    /// End of the lifetime that its last Path has set.
    expires_at: Time,
    /// Whether the present hop was the one before it, which it had replaced.
    was_replaced_by_its_former: bool,
    /// Time until which this is recorded.
    until: Time,
}

/// The former previous hops of senders whose previous hop has changed lately.
#[derive(Debug, Default)]
pub(crate) struct FormerHops {
    of_senders: BTreeMap<Index, FormerHop>,
    /// When records may end, the earliest first: one entry for each, and those of records that were forgotten.
    ends: VecDeque<(Time, Index)>,
}

impl FormerHops {
    /// Records that another previous hop has replaced one whose state would have expired at a time. Returns when
    /// [`Self::end`] is due, if that was not known before.
    pub(crate) fn note(
        &mut self,
        sender: Index,
        replaced: (PreviousHop, Time),
        by: PreviousHop,
        now: Time,
        duration: Duration,
    ) -> Option<Time> {
        let (hop, expires_at) = replaced;
        let until = now + duration;
        let was_replaced_by_its_former = self
            .of_senders
            .get(&sender)
            .is_some_and(|before| before.hop == by && now < before.until);
        let former = FormerHop { hop, expires_at, was_replaced_by_its_former, until };
        if self.of_senders.insert(sender, former).is_some() {
            return None;
        }
        self.ends.push_back((until, sender));
        (self.ends.len() == 1).then_some(until)
    }

    /// Returns the previous hop that a sender returns to when the present one sends a PathTear, and the end of its
    /// lifetime: the former one, if the present one had come back to replace it.
    pub(crate) fn take_alive(&mut self, sender: Index, now: Time) -> Option<(PreviousHop, Time)> {
        let former = self.of_senders.remove(&sender)?;
        let is_alive = now < former.until.min(former.expires_at);
        (former.was_replaced_by_its_former && is_alive).then_some((former.hop, former.expires_at))
    }

    /// Handles the PathTear of a hop that is not the present one.
    pub(crate) fn note_tear(&mut self, sender: Index, of: PreviousHop) {
        if self.of_senders.get(&sender).is_some_and(|former| former.hop == of) {
            self.of_senders.remove(&sender);
        }
    }

    /// Forgets the former previous hop of a sender.
    #[inline]
    pub(crate) fn forget(&mut self, sender: Index) {
        if !self.of_senders.is_empty() {
            self.of_senders.remove(&sender);
        }
    }

    /// Ends records, and returns when the next one ends.
    pub(crate) fn end(&mut self, now: Time) -> Option<Time> {
        for _ in 0..ENDS_PER_TURN {
            let due = self.ends.front().is_some_and(|&(until, _)| until <= now);
            let Some((_, sender)) = due.then(|| self.ends.pop_front()).flatten() else { break };
            match self.of_senders.get(&sender) {
                // The hop has changed again since.
                Some(former) if now < former.until => self.ends.push_back((former.until, sender)),
                _ => _ = self.of_senders.remove(&sender),
            }
        }
        let next = self.ends.front().map(|&(until, _)| until.max(now + Duration::from_millis(1)));
        if next.is_none() {
            *self = FormerHops::default();
        }
        next
    }
}
