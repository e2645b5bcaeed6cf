//! The reference model: what applications want and were told, and what must stand in the network for it.
//!
//! The model knows no message. It follows the rules of RFC 5974 for the user of QoS NSLP:
//!
//! - The QNI decides about a session. It is the sender of the flow, or the receiver after a QUERY with RESERVE-INIT
//!   (section 4.2, 4.3). What the QNI was told last is what stands on the path.
//! - Each request has an answer (section 5.2.4: the response, or the end of the retransmissions). A failed request leaves
//!   the reservation before it (section 4.1), or none.
//! - Reservations are soft state (section 3.2.1): what nobody wants is gone when its lifetime is over.
//! - Without lost messages and with enough bandwidth nothing is refused, lost or unanswered.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::Time;
use earmark_nsis::qos::{Event, Rejection};
use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use super::case::SLOTS;

/// Reservable rate of each link, Mbit/s.
pub(crate) const CAPACITY: u32 = 8;

/// The refusal of a node that the path has left while a RESERVE of the receiver was on its way: the sender asks again.
const NO_REVERSE_PATH: Outcome = Outcome::TransientFailure(TransientFailure::NoReversePath);

/// What the QNI has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    #[default]
    Nothing,
    /// A request without an answer.
    Requested,
    /// A reservation of this rate, Mbit/s.
    Held(u32),
    /// A refusal: either the reservation before or the end follows.
    Refused,
    /// A session that ends, without confirmation so far.
    Ending,
}

/// What the sender of a receiver-initiated session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Invited {
    /// Nothing.
    #[default]
    Nothing,
    /// A request without an answer.
    Requested,
    /// A reservation of this rate, Mbit/s.
    Answered(u32),
    /// A reservation that is gone; the receiver is asked again for some time.
    Gone,
}

/// An application at the sender, and one at the receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Identifier of the last session.
    pub(crate) id: Option<SessionId>,
    /// Sender-initiated session: the sender is the QNI.
    pub(crate) initiated: Standing,
    /// Receiver-initiated session at the sender.
    pub(crate) invited: Invited,
    /// Receiver-initiated session at the receiver, which is the QNI, and its identifier.
    pub(crate) answered: Standing,
    pub(crate) answered_id: Option<SessionId>,
    /// Until when the receiver may hear of an ended request of the sender.
    pub(crate) ended_until: Time,
    /// Whether the reservation on a branch that the path has left is kept (REPLACE not set).
    pub(crate) keeps_old_branch: bool,
    /// The rate of the last request, unless it was refused.
    pub(crate) wanted: Option<u32>,
}

impl Slot {
    /// Returns whether the slot may request a session of this identifier.
    pub(crate) fn is_free_for(&self, now: Time, id: SessionId) -> bool {
        let has_ended = self.answered == Standing::Nothing && now > self.ended_until;
        let receiver_is_free = has_ended || self.answered_id == Some(id);
        self.initiated == Standing::Nothing && self.invited == Invited::Nothing && receiver_is_free
    }
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) slots: [Slot; SLOTS],
    /// Rates that were requested, by session.
    requested: BTreeMap<SessionId, BTreeSet<u32>>,
    /// Sessions whose rate has changed while messages were lost. A node that has lost such a session and creates it again
    /// starts with sequence number 0, as RFC 5974 section 5.3.1 says, which the next node may take for the one that it
    /// knows: then it keeps the rate that it has.
    doubtful: BTreeSet<SessionId>,
    /// Until when a route change excuses the report of a silent node, which may be one that the path has left.
    pub(crate) rerouted_until: Time,
    /// Until when lost messages excuse bad news.
    pub(crate) excused_until: Time,
}

impl Model {
    pub(crate) fn request(&mut self, now: Time, id: SessionId, mbps: u32) {
        let rates = self.requested.entry(id).or_default();
        rates.insert(mbps);
        if rates.len() > 1 && now <= self.excused_until {
            self.doubtful.insert(id);
        }
    }

    /// Excuses bad news for some time.
    pub(crate) fn excuse(&mut self, until: Time) {
        self.excused_until = self.excused_until.max(until);
        for slot in &self.slots {
            let pending = slot.id.filter(|_| slot.initiated == Standing::Requested);
            self.doubtful.extend(pending);
        }
    }

    /// Returns whether a rate is right, if another one is expected.
    pub(crate) fn may_have(&self, id: SessionId, mbps: u32) -> bool {
        self.doubtful.contains(&id) && self.check_rate(id, mbps).is_ok()
    }

    /// Returns whether the links are too narrow for all sessions that may stand, at their largest rates.
    fn is_contended(&self) -> bool {
        let largest = self.requested.values().filter_map(|rates| rates.last());
        largest.sum::<u32>() > CAPACITY
    }

    /// Checks that a refusal, a loss or a timeout has a reason.
    fn check_bad_news(&self, now: Time, slot: usize, event: &Event) -> Result<(), String> {
        let is_advice = match event {
            Event::Lost { outcome, .. } if is_truncation(outcome) => true,
            Event::Refused { outcome, .. } => *outcome == NO_REVERSE_PATH,
            _ => false,
        };
        let is_excused = is_advice && now <= self.rerouted_until;
        match is_excused || self.is_contended() || now <= self.excused_until {
            true => Ok(()),
            false => Err(format!("without reason in slot {slot}: {event:?}")),
        }
    }

    fn check_rate(&self, id: SessionId, mbps: u32) -> Result<(), String> {
        match self.requested.get(&id).is_some_and(|rates| rates.contains(&mbps)) {
            true => Ok(()),
            false => Err(format!("{mbps} Mbit/s were never requested for {id:?}")),
        }
    }

    /// Handles an event for the application of a slot at the sender. `is_local` says that it was reported while the
    /// command was executed.
    pub(crate) fn hear_sender(
        &mut self,
        now: Time,
        slot: usize,
        event: &Event,
        is_local: bool,
    ) -> Result<(), String> {
        if self.slots[slot].initiated != Standing::Nothing {
            return self.hear_initiator(now, slot, event, is_local);
        }
        let unasked = Err(format!("unasked at the sender, slot {slot}: {event:?}"));
        let invited = self.slots[slot].invited;
        let next = match (event, invited) {
            (Event::Rejected { reason: Rejection::NoSession, .. }, Invited::Gone) => {
                Invited::Nothing
            }
            (Event::Rejected { .. }, Invited::Requested) if is_local => {
                self.check_bad_news(now, slot, event)?;
                Invited::Nothing
            }
            (_, Invited::Nothing) => return unasked,
            (Event::Released { .. }, _) if is_local => Invited::Nothing,
            (Event::Incoming { session, rate, .. }, _) => {
                let mbps = (rate.as_bps() / 1_000_000) as u32;
                self.check_rate(*session, mbps)?;
                Invited::Answered(mbps)
            }
            (Event::Gone { .. }, Invited::Answered(_)) => Invited::Gone,
            (
                Event::Refused { .. } | Event::TimedOut { .. },
                Invited::Requested | Invited::Gone,
            ) => {
                self.check_bad_news(now, slot, event)?;
                Invited::Nothing
            }
            _ => return unasked,
        };
        self.slots[slot].invited = next;
        Ok(())
    }

    fn hear_initiator(
        &mut self,
        now: Time,
        slot: usize,
        event: &Event,
        is_local: bool,
    ) -> Result<(), String> {
        let standing = self.slots[slot].initiated;
        let next = match (event, standing) {
            (Event::Reserved { session, rate, .. }, before) if before != Standing::Ending => {
                let mbps = (rate.as_bps() / 1_000_000) as u32;
                self.check_rate(*session, mbps)?;
                if self.slots[slot].wanted.is_some_and(|wanted| wanted != mbps)
                    && before == Standing::Requested
                    && !self.may_have(*session, mbps)
                {
                    return Err(format!("slot {slot}: another rate was requested: {event:?}"));
                }
                Standing::Held(mbps)
            }
            (Event::Rejected { .. } | Event::Refused { .. }, Standing::Requested) if is_local => {
                self.check_bad_news(now, slot, event)?;
                Standing::Nothing
            }
            // The reservation before may be refused, too.
            (
                Event::Refused { .. },
                Standing::Requested | Standing::Held(_) | Standing::Refused,
            ) => {
                self.check_bad_news(now, slot, event)?;
                self.slots[slot].wanted = None;
                Standing::Refused
            }
            (Event::Lost { outcome, .. }, _) if is_truncation(outcome) => {
                self.check_bad_news(now, slot, event)?;
                standing
            }
            (Event::Lost { .. } | Event::TimedOut { .. }, before) if before != Standing::Ending => {
                self.check_bad_news(now, slot, event)?;
                Standing::Ending
            }
            (Event::Released { .. }, Standing::Ending | Standing::Refused) => Standing::Nothing,
            _ => return Err(format!("unasked in slot {slot}, {standing:?}: {event:?}")),
        };
        self.slots[slot].initiated = next;
        Ok(())
    }

    /// Handles an event for the application of a slot at the receiver.
    pub(crate) fn hear_receiver(
        &mut self,
        now: Time,
        slot: usize,
        event: &Event,
    ) -> Result<(), String> {
        let is_unwanted =
            self.slots[slot].invited == Invited::Nothing || now <= self.slots[slot].ended_until;
        let next = match event {
            // Sessions of the sender.
            Event::Incoming { .. } | Event::Gone { .. } => return Ok(()),
            Event::Released { .. } => Standing::Nothing,
            Event::Reserved { session, rate, .. } => {
                let mbps = (rate.as_bps() / 1_000_000) as u32;
                self.check_rate(*session, mbps)?;
                self.slots[slot].answered_id = Some(*session);
                Standing::Held(mbps)
            }
            Event::Lost { outcome, .. } if is_truncation(outcome) => {
                return if is_unwanted { Ok(()) } else { self.check_bad_news(now, slot, event) };
            }
            Event::Refused { .. } | Event::Lost { .. } | Event::TimedOut { .. } => {
                if !is_unwanted {
                    self.check_bad_news(now, slot, event)?;
                }
                Standing::Nothing
            }
            _ => return Err(format!("unasked at the receiver, slot {slot}: {event:?}")),
        };
        self.slots[slot].answered = next;
        Ok(())
    }

    /// Forgets what the applications of the sender have, because its process has ended.
    pub(crate) fn sender_stops(&mut self) {
        for slot in &mut self.slots {
            (slot.initiated, slot.invited) = (Standing::Nothing, Invited::Nothing);
        }
    }

    /// Forgets what the applications of the receiver have.
    pub(crate) fn receiver_stops(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.answered = Standing::Nothing);
    }

    /// Returns the sessions that stand on the whole path after quiet time, with their rates in Mbit/s and whether the
    /// receiver is the QNI.
    ///
    /// # Errors
    /// A request without an answer, or contradictory answers.
    pub(crate) fn standing(&self) -> Result<BTreeMap<SessionId, (u32, bool)>, String> {
        let mut all = BTreeMap::new();
        for (number, slot) in self.slots.iter().enumerate() {
            match (slot.initiated, slot.id) {
                (Standing::Nothing, _) => {}
                (Standing::Held(mbps), Some(id)) => {
                    if slot.wanted.is_some_and(|wanted| wanted != mbps) && !self.may_have(id, mbps)
                    {
                        return Err(format!("slot {number} has {mbps} Mbit/s: {slot:?}"));
                    }
                    all.insert(id, (mbps, false));
                }
                _ => return Err(format!("slot {number} has no answer: {slot:?}")),
            }
            if let (Standing::Held(mbps), Some(id)) = (slot.answered, slot.answered_id) {
                all.insert(id, (mbps, true));
            }
            let told = match slot.invited {
                Invited::Nothing => continue,
                Invited::Requested => return Err(format!("slot {number} has no answer: {slot:?}")),
                Invited::Answered(mbps) => Some(mbps),
                Invited::Gone => None,
            };
            let stands = slot.id.and_then(|id| all.get(&id)).map(|(mbps, _)| *mbps);
            let is_doubtful = slot.id.is_some_and(|id| self.doubtful.contains(&id));
            if told != stands && !(is_doubtful && told.is_some() == stands.is_some()) {
                return Err(format!("slot {number}: the ends differ: {slot:?}"));
            }
        }
        Ok(all)
    }
}

/// Returns whether a node reports that its next node is silent: the session stays.
fn is_truncation(outcome: &Outcome) -> bool {
    *outcome == Outcome::TransientFailure(TransientFailure::PathTruncated)
}
