//! Credentials: a user id, and a digest that requires the user's secret.
//!
//! The credential is the first eight octets of HMAC-SHA-256 over the user id and the fields that no node may edit:
//! transaction_id, version, classifier and mask. It does not cover the rates, which nodes lower; so it proves that
//! the user wants a reservation for this flow, not how much. Only messages that change something need it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_wire::boomerang::{OptionItem, View};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::{Account, Secret};
use crate::counters::RefusalReason;
use crate::message::{MessagePass, Origin, Refused};

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
    pub(crate) fn check(&self, pass: &MessagePass<'_>) -> Result<(), Refused> {
        if self.secrets.is_empty() || pass.origin == Origin::Own {
            return Ok(());
        }
        let view = &pass.view;
        let signed = view.options().iter().any(|option| match option {
            OptionItem::UserId(id) => self
                .secrets
                .get(&id.user)
                .is_some_and(|secret| proves(secret, &id.user, view, &id.credential)),
            _ => false,
        });
        if signed { Ok(()) } else { Err(Refused::without_offer(RefusalReason::Credential)) }
    }
}

/// Returns the digest over what a credential covers.
fn digest(secret: &Secret, user: &[u8; 8], view: &View<'_>) -> Hmac<Sha256> {
    // HMAC accepts keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.octets()).unwrap_or_else(|_| {
        let no_key: &[u8; 64] = &[0; 64];
        Hmac::<Sha256>::new(no_key.into())
    });
    mac.update(user);
    view.covered().iter().for_each(|part| mac.update(part));
    mac
}

/// Verifies a credential in constant time.
fn proves(secret: &Secret, user: &[u8; 8], view: &View<'_>, credential: &[u8; 8]) -> bool {
    digest(secret, user, view).verify_truncated_left(credential).is_ok()
}

/// Returns the credential of a user for a message. The credential field itself is not covered.
pub(crate) fn credential(secret: &Secret, user: &[u8; 8], view: &View<'_>) -> [u8; 8] {
    let whole: Vec<u8> = digest(secret, user, view).finalize().into_bytes().to_vec();
    whole.first_chunk().copied().unwrap_or_default()
}
