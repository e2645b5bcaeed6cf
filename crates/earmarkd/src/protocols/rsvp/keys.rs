//! Keys of RSVP, which neighbors share (RFC 2747 section 5).

use earmark_node::{Command, NodeConfig};
use earmark_rsvp as rsvp;
use earmark_rsvp::integrity::Key;
use jiff::Timestamp;

use super::Rsvp;
use crate::key_file::{FileKey, KeyFile};
use crate::protocol::{SigningKeys, restore};

impl SigningKeys for Rsvp {
    fn serve_by_default(&self) -> bool {
        true
    }

    fn check(&self, _: &FileKey) -> Result<(), (&'static str, &'static str)> {
        Ok(())
    }

    fn configure(&self, file: &KeyFile, origin: Timestamp, node: &mut NodeConfig) {
        node.rsvp.integrity.keys = keys(file, origin);
    }

    fn command(&self, file: &KeyFile, origin: Timestamp) -> Command {
        Command::Rsvp(rsvp::Command::Keys { keys: keys(file, origin) })
    }

    fn restore(&self, file: &KeyFile, node: &mut NodeConfig) {
        restore(&mut node.rsvp.integrity.keys, file, keys);
    }

    fn restore_command(&self, file: &KeyFile, command: &mut Command) {
        if let Command::Rsvp(rsvp::Command::Keys { keys: recorded }) = command {
            restore(recorded, file, keys);
        }
    }
}

/// Returns the keys of the protocol by an engine's clock that starts at `origin`.
fn keys(file: &KeyFile, origin: Timestamp) -> Vec<Key> {
    let key = |key: &FileKey| Key {
        id: key.id,
        algorithm: key.algorithm,
        secret: key.secret.clone(),
        purpose: key.purpose,
        start: key.start(origin),
        age: key.age(origin),
        end: key.end(origin),
        interfaces: key.interfaces.clone(),
        neighbors: key.neighbors.clone(),
    };
    file.keys_of("rsvp").map(key).collect()
}
