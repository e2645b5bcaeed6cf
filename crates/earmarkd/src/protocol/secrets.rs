//! Keys with which a protocol signs and verifies messages.

use earmark_core::keys::{Algorithm, SharedKey, restore_secrets};
use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;

use crate::key_file::{FileKey, KeyFile};

/// The keys of a protocol, from the key file of all protocols. Recordings do not contain their secrets.
pub trait SigningKeys: Sync {
    /// Returns whether a key of the file serves the protocol that names no protocols.
    fn serve_by_default(&self) -> bool {
        false
    }

    /// Returns whether keys belong to users.
    fn has_users(&self) -> bool {
        false
    }

    /// Checks a key of the file for this protocol.
    ///
    /// # Errors
    /// Why the protocol cannot use it, with advice.
    fn check(&self, key: &FileKey) -> Result<(), (&'static str, &'static str)>;

    /// Sets the keys of a node whose clock starts at `origin`.
    fn configure(&self, file: &KeyFile, origin: Timestamp, node: &mut NodeConfig);

    /// Returns the command by which the engine gets the keys.
    fn command(&self, file: &KeyFile, origin: Timestamp) -> Command;

    /// Restores the secrets of settings that were recorded.
    fn restore(&self, file: &KeyFile, node: &mut NodeConfig);

    /// Restores the secrets of a command that was recorded.
    fn restore_command(&self, file: &KeyFile, command: &mut Command);
}

/// Restores the secrets of recorded keys. Their lifetimes were recorded.
pub(crate) fn restore<K: SharedKey>(
    recorded: &mut [K],
    file: &KeyFile,
    keys: fn(&KeyFile, Timestamp) -> Vec<K>,
) {
    restore_secrets(recorded, &keys(file, Timestamp::UNIX_EPOCH));
}

/// Checks a key for a protocol whose digest is HMAC-SHA-256 and whose keys are not those of neighbors.
///
/// # Errors
/// Why the protocol cannot use it, with advice.
pub fn check_digest(key: &FileKey) -> Result<(), (&'static str, &'static str)> {
    if key.algorithm != Algorithm::HmacSha256 {
        let hint = "algorithm = \"hmac-sha-256\", or other `protocols`";
        return Err(("a protocol of the key has another digest", hint));
    }
    if !key.neighbors.is_empty() {
        let hint = "remove `neighbors`, or give each protocol a key of its own";
        return Err(("a protocol of the key knows no neighbors", hint));
    }
    Ok(())
}

/// Describes the use of an expired key.
pub(crate) fn last_key_expired(key: u64) -> String {
    format!("key {key} is used after its end because no other key is valid; add a valid key")
}
