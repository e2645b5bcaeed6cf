//! Credentials: a user id, a sequence number, and a digest that requires the user's secret.
//!
//! The credential is the first eight octets of HMAC-SHA-256 over the user id, the sequence number and
//! [`View::covered`]: the transaction, the session, and the rates. So it proves that the user wants this much for this
//! flow, or a release if the rates are zero. A node that lowers the rates refuses the message, and a refused message
//! changes nothing and needs no credential. In a list of downgrades only the last pair is covered, because nodes zero
//! the others.
//!
//! Only messages that change something need a credential. Each pass of each message is accepted once: sequence numbers
//! grow within a transaction, and an earlier transaction does not return while the session exists. A captured message
//! can bring back a session that has ended.

mod accepted;
mod digest;
mod key;
mod state;

use earmark_core::keys::Directions;
use earmark_core::{Context, Effects, Time};
use earmark_wire::boomerang::{OptionItem, UserId};

use crate::api::Event;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::state::Index;

pub(crate) use self::accepted::Accepted;
pub use self::digest::credential;
pub use self::key::{Key, Settings, user_id};
pub(crate) use self::state::{Credentials, Unsigned};

impl Boomerang {
    /// Checks the credential of a message that changes something, and records that it was used.
    #[inline(always)]
    pub(crate) fn check_credential<E: From<Event>>(
        &mut self,
        now: Time,
        context: &Context<'_>,
        out: &mut Effects<E>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Result<(), Refused> {
        if !self.credentials.are_required {
            return Ok(());
        }
        self.verify_credential(now, context, out, transit, known)
    }

    #[inline(never)]
    fn verify_credential<E: From<Event>>(
        &mut self,
        now: Time,
        context: &Context<'_>,
        out: &mut Effects<E>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Result<(), Refused> {
        match self.credential_interface(context, transit, known) {
            None => Ok(()),
            Some(interface) => {
                let verified = self.credentials.verified(now, interface, &transit.view);
                let verified = verified.ok_or(Refused::without_offer(RefusalReason::Credential));
                let (id, expired) = verified?;
                if let Some(key) = expired {
                    out.notify(Event::LastKeyExpired { key });
                }
                self.accept_sequence(&id, transit, known)
            }
        }
    }

    /// Returns the name of the interface because of which a message needs a credential: that of its arrival, or of the
    /// arrival of the request that it answers.
    #[inline]
    fn credential_interface<'c>(
        &self,
        context: &Context<'c>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Option<&'c str> {
        if !self.credentials.are_required || transit.origin == Origin::Own {
            return None;
        }
        let at = |id| self.credentials.secured(context, id, Directions::accepts);
        let request = known.filter(|_| transit.is_reply);
        let of_request = || at(self.store.request_arrival(request?));
        at(transit.arrival).or_else(of_request)
    }

    #[inline(never)]
    fn accept_sequence(
        &mut self,
        id: &UserId,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Result<(), Refused> {
        let Some(index) = known else { return Ok(()) };
        let extra = self.store.session_mut(index).extra.get_or_insert_default();
        let transaction_id = transit.view.transaction_id();
        let accepted =
            Accepted::accept(extra.accepted, transaction_id, transit.direction, id.flags.0);
        if accepted.is_none() {
            return Err(Refused::without_offer(RefusalReason::Replayed));
        }
        extra.accepted = accepted;
        Ok(())
    }

    /// Records the credential of the message that has created a session, which was verified.
    #[inline]
    pub(crate) fn record_credential(
        &mut self,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        index: Index,
    ) {
        if self.credential_interface(context, transit, Some(index)).is_some() {
            self.record_first_credential(transit, index);
        }
    }

    #[inline(never)]
    fn record_first_credential(&mut self, transit: &TransitMessage<'_>, index: Index) {
        let id = transit.view.options().iter().find_map(|option| match option {
            OptionItem::UserId(id) => Some(id),
            _ => None,
        });
        let Some(id) = id else { return };
        let transaction_id = transit.view.transaction_id();
        let extra = self.store.session_mut(index).extra.get_or_insert_default();
        extra.accepted = Accepted::accept(None, transaction_id, transit.direction, id.flags.0);
    }
}
