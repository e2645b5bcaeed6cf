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

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_core::{KeyedDigest, Secret};
use earmark_wire::boomerang::{OptionItem, UserId, View};

use crate::config::Account;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::selector::Direction;
use crate::state::Index;

/// Known users by user id, with all secrets that are valid now. The operator chooses them, so an ordered map is safe.
#[derive(Debug, Default)]
pub(crate) struct Users {
    secrets: BTreeMap<[u8; 8], Vec<Secret>>,
}

impl Users {
    pub(crate) fn new(accounts: &[Account]) -> Users {
        let mut users = Users::default();
        for account in accounts {
            if let Some(id) = account.id() {
                users.secrets.entry(id).or_default().push(account.secret.clone());
            }
        }
        users
    }

    /// Returns the user id option of a message if its credential is right.
    fn verified(&self, view: &View<'_>) -> Option<UserId> {
        view.options().iter().find_map(|option| match option {
            OptionItem::UserId(id) => {
                let mut secrets = self.secrets.get(&id.user)?.iter();
                let is_right =
                    |secret: &Secret| digest(secret, &id, view).begins_with(&id.credential);
                secrets.any(is_right).then_some(id)
            }
            _ => None,
        })
    }
}

/// Sequence numbers of the accepted messages of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    transaction_id: u32,
    /// Transaction before that one, whose messages are replays now.
    earlier: Option<u32>,
    /// Last sequence number of each pass.
    last: [Option<u16>; 2],
}

impl Accepted {
    /// Accepts a message after those before; `None` if it is a replay.
    fn accept(
        before: Option<Accepted>,
        transaction_id: u32,
        direction: Direction,
        sequence: u16,
    ) -> Option<Accepted> {
        let mut accepted = match before {
            Some(known) if known.transaction_id == transaction_id => known,
            Some(known) if known.earlier == Some(transaction_id) => return None,
            _ => Accepted {
                transaction_id,
                earlier: before.map(|known| known.transaction_id),
                last: [None; 2],
            },
        };
        let last = &mut accepted.last[direction as usize];
        // Serial numbers (RFC 1982): half of all numbers are later ones.
        let is_later = last.is_none_or(|last| (sequence.wrapping_sub(last) as i16) > 0);
        *last = Some(sequence);
        is_later.then_some(accepted)
    }
}

impl Boomerang {
    /// Checks the credential of a message that changes something, and records that it was used.
    #[inline]
    pub(crate) fn check_credential(
        &mut self,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Result<(), Refused> {
        match self.users.secrets.is_empty() || transit.origin == Origin::Own {
            true => Ok(()),
            false => self.accept_credential(transit, known),
        }
    }

    #[inline(never)]
    fn accept_credential(
        &mut self,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
    ) -> Result<(), Refused> {
        let id = self.users.verified(&transit.view);
        let id = id.ok_or(Refused::without_offer(RefusalReason::Credential))?;
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

    /// Records the credential of the message that has created a session.
    #[inline]
    pub(crate) fn record_credential(&mut self, transit: &TransitMessage<'_>, index: Index) {
        if !self.users.secrets.is_empty() && transit.origin != Origin::Own {
            self.record_first_credential(transit, index);
        }
    }

    #[inline(never)]
    fn record_first_credential(&mut self, transit: &TransitMessage<'_>, index: Index) {
        let Some(id) = self.users.verified(&transit.view) else { return };
        let transaction_id = transit.view.transaction_id();
        let extra = self.store.session_mut(index).extra.get_or_insert_default();
        extra.accepted = Accepted::accept(None, transaction_id, transit.direction, id.flags.0);
    }
}

/// Returns the digest over what a credential covers.
fn digest(secret: &Secret, id: &UserId, view: &View<'_>) -> KeyedDigest {
    let mut digest = secret.keyed_digest();
    digest.update(&id.user);
    digest.update(&id.flags.0.to_be_bytes());
    view.covered().iter().for_each(|part| digest.update(part));
    digest
}

/// Returns the credential of a user for a message. The credential field itself is not covered.
pub(crate) fn credential(secret: &Secret, id: &UserId, view: &View<'_>) -> [u8; 8] {
    digest(secret, id, view).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_a_pass_grow() {
        let forward = |before, transaction, sequence| {
            Accepted::accept(before, transaction, Direction::Forward, sequence)
        };
        let first = forward(None, 7, 65_530);
        assert!(forward(first, 7, 65_530).is_none() && forward(first, 7, 65_529).is_none());
        let wrapped = forward(first, 7, 5);
        assert!(wrapped.is_some() && forward(wrapped, 7, 65_535).is_none());
        let back = Accepted::accept(wrapped, 7, Direction::Reverse, 5);
        assert!(back.is_some(), "each pass counts by itself");
        let restarted = forward(back, 8, 1);
        assert!(restarted.is_some(), "another transaction");
        assert!(forward(restarted, 7, 100).is_none(), "the one before has ended");
    }
}
