//! Credentials: a user id, and a digest that requires the user's secret.
//!
//! The credential is the first eight octets of HMAC-SHA-256 over the user id and the fields that no node may edit:
//! transaction_id, version, classifier and mask. It does not cover the rates, which nodes lower; so it proves that
//! the user wants a reservation for this flow, not how much. Only messages that change something need it.

use alloc::collections::BTreeMap;

use earmark_core::{KeyedDigest, Secret};
use earmark_wire::boomerang::{OptionItem, View};

use crate::config::Account;
use crate::counters::RefusalReason;
use crate::message::{Origin, Refused, TransitMessage};

/// Known users by user id. The operator chooses them, so an ordered map is safe.
#[derive(Debug, Default)]
pub(crate) struct Users {
    secrets: BTreeMap<[u8; 8], Secret>,
}

impl Users {
    pub(crate) fn new(accounts: &[Account]) -> Users {
        let known = accounts.iter().filter_map(|a| Some((a.id()?, a.secret.clone())));
        Users { secrets: known.collect() }
    }

    /// Checks the credential of a message that changes something.
    pub(crate) fn check(&self, transit: &TransitMessage<'_>) -> Result<(), Refused> {
        if self.secrets.is_empty() || transit.origin == Origin::Own {
            return Ok(());
        }
        let view = &transit.view;
        let signed = view.options().iter().any(|option| match option {
            OptionItem::UserId(id) => self
                .secrets
                .get(&id.user)
                .is_some_and(|secret| digest(secret, &id.user, view).begins_with(&id.credential)),
            _ => false,
        });
        if signed { Ok(()) } else { Err(Refused::without_offer(RefusalReason::Credential)) }
    }
}

/// Returns the digest over what a credential covers.
fn digest(secret: &Secret, user: &[u8; 8], view: &View<'_>) -> KeyedDigest {
    let mut digest = secret.keyed_digest();
    digest.update(user);
    view.covered().iter().for_each(|part| digest.update(part));
    digest
}

/// Returns the credential of a user for a message. The credential field itself is not covered.
pub(crate) fn credential(secret: &Secret, user: &[u8; 8], view: &View<'_>) -> [u8; 8] {
    digest(secret, user, view).finish()
}
