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
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::keys::{Directions, KeyChain, KeyUse, SharedKey};
use earmark_core::{Context, Effects, InterfaceId, KeyedDigest, Secret, Time};
use earmark_wire::boomerang::{OptionItem, UserId, View};
use serde::{Deserialize, Serialize};

use crate::api::Event;
use crate::counters::RefusalReason;
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Origin, Refused, TransitMessage};
use crate::selector::Direction;
use crate::state::Index;

/// Settings of credentials. By default nobody needs one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// All keys of this node.
    pub keys: Vec<Key>,
    /// Interfaces by name where requests need a credential, or this host adds one to its own. Refreshes that change nothing
    /// need none.
    pub interfaces: BTreeMap<String, Directions>,
}

/// A secret that a user shares with the nodes. Several may be valid at a time, so that a new one can replace an old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Number of the key; messages contain the user's name instead.
    pub id: u64,
    /// User id; at most eight octets, padded with zeros in messages.
    pub user: String,
    /// The shared secret.
    pub secret: Secret,
    /// Direction of use.
    #[serde(default)]
    pub purpose: Directions,
    /// Start of validity.
    #[serde(default)]
    pub start: Time,
    /// Time by which the validity began before [`Time::ZERO`], where `start` is then.
    #[serde(default)]
    pub age: Duration,
    /// End of validity; [`Time::MAX`] for none.
    #[serde(default = "never")]
    pub end: Time,
    /// Names of the interfaces where the key is used; all if empty.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

fn never() -> Time {
    Time::MAX
}

impl Key {
    /// Creates a key that is used for both directions, always and everywhere.
    pub fn new(id: u64, user: &str, secret: Secret) -> Key {
        let (user, start, age, end) = (user.into(), Time::ZERO, Duration::ZERO, Time::MAX);
        Key { id, user, secret, purpose: Directions::Both, start, age, end, interfaces: Vec::new() }
    }

    /// Returns the user id as in messages; `None` if the name is too long.
    pub fn user_id(&self) -> Option<[u8; 8]> {
        user_id(&self.user)
    }
}

/// Returns a user id as in messages; `None` if the name is too long.
pub fn user_id(name: &str) -> Option<[u8; 8]> {
    let mut id = [0; 8];
    id.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(id)
}

impl SharedKey for Key {
    fn key_use(&self) -> KeyUse<'_> {
        let Key { id, ref secret, purpose, start, age, end, ref interfaces, .. } = *self;
        KeyUse { id, secret, purpose, start, age, end, interfaces, neighbors: &[] }
    }

    fn secret_mut(&mut self) -> &mut Secret {
        &mut self.secret
    }
}

/// State of credentials.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    interfaces: BTreeMap<String, Directions>,
    /// Whether some interface requires credentials.
    pub(crate) are_required: bool,
    /// Keys by user id. The operator chooses the users, so an ordered map is safe.
    users: BTreeMap<[u8; 8], KeyChain<Key>>,
    /// Keys with which this host signs.
    own: KeyChain<Key>,
}

impl Credentials {
    pub(crate) fn new(settings: &mut Settings) -> Credentials {
        let interfaces = core::mem::take(&mut settings.interfaces);
        let mut credentials = Credentials {
            are_required: interfaces.values().any(|directions| directions.accepts()),
            interfaces,
            ..Credentials::default()
        };
        credentials.replace_keys(core::mem::take(&mut settings.keys));
        credentials
    }

    /// Replaces the keys.
    pub(crate) fn replace_keys(&mut self, keys: Vec<Key>) {
        let own = keys.iter().filter(|key| key.purpose.sends()).cloned().collect();
        let mut users: BTreeMap<_, Vec<Key>> = BTreeMap::new();
        for key in keys {
            if let Some(id) = key.user_id() {
                users.entry(id).or_default().push(key);
            }
        }
        self.own = KeyChain::new(own);
        self.users = users.into_iter().map(|(id, keys)| (id, KeyChain::new(keys))).collect();
    }

    /// Returns the name of an interface that is secured in one of these directions.
    fn secured<'c>(
        &self,
        context: &Context<'c>,
        interface: InterfaceId,
        directions: fn(Directions) -> bool,
    ) -> Option<&'c str> {
        let name = context.interfaces.by_id(interface)?.name.as_str();
        self.interfaces.get(name).is_some_and(|&found| directions(found)).then_some(name)
    }

    /// Returns the user id option of a message if its credential is right, and the number of the key if it is used for the
    /// first time after its end.
    fn verified(
        &mut self,
        now: Time,
        interface: &str,
        view: &View<'_>,
    ) -> Option<(UserId, Option<u64>)> {
        let id = view.options().iter().find_map(|option| match option {
            OptionItem::UserId(id) => Some(id),
            _ => None,
        })?;
        let keys = self.users.get_mut(&id.user)?;
        let serves = |key: &Key| key.key_use().serves_on(interface);
        let is_right = |key: &Key| {
            key.purpose.accepts()
                && !key.secret.is_empty()
                && serves(key)
                && digest(&key.secret, &id, view).begins_with(&id.credential)
        };
        let mut right = (0..keys.keys().len()).filter(|&index| is_right(&keys.keys()[index]));
        let index = right.find(|&index| keys.is_usable(now, index, serves))?;
        Some((id, keys.report_overdue(now, index)))
    }

    /// Returns the key for a request of this host that leaves by an interface.
    ///
    /// # Errors
    /// The interface requires one, and none serves there.
    pub(crate) fn signer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: Option<InterfaceId>,
    ) -> Result<Option<usize>, Unsigned> {
        let name = interface.and_then(|id| self.secured(cx.context, id, Directions::sends));
        let Some(name) = name else { return Ok(None) };
        let index = self.own.to_sign(cx.now, |key| key.key_use().serves_on(name));
        let index = index.ok_or(Unsigned)?;
        if let Some(key) = self.own.report_overdue(cx.now, index) {
            cx.out.notify(Event::LastKeyExpired { key });
        }
        Ok(Some(index))
    }

    /// Returns a key that [`Credentials::signer`] has chosen.
    pub(crate) fn own_key(&self, index: usize) -> &Key {
        &self.own.keys()[index]
    }

    /// Returns whether this host signs anywhere.
    pub(crate) fn sign(&self) -> bool {
        !self.interfaces.is_empty()
    }
}

/// A message that must not leave, because no key signs it.
pub(crate) struct Unsigned;

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

/// Returns the digest over what a credential covers.
fn digest(secret: &Secret, id: &UserId, view: &View<'_>) -> KeyedDigest {
    let mut digest = secret.keyed_digest();
    digest.update(&id.user);
    digest.update(&id.flags.0.to_be_bytes());
    view.covered().iter().for_each(|part| digest.update(part));
    digest
}

/// Returns the credential of a user for a message. The credential field itself is not covered.
pub fn credential(secret: &Secret, id: &UserId, view: &View<'_>) -> [u8; 8] {
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
