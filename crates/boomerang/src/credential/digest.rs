//! The digest that a credential consists of.

use earmark_core::{KeyedDigest, Secret};
use earmark_wire::boomerang::{UserId, View};

/// Returns the digest over what a credential covers.
pub(super) fn digest(secret: &Secret, id: &UserId, view: &View<'_>) -> KeyedDigest {
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
