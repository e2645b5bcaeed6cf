//! Keys of Boomerang, which users share with nodes.

use earmark_boomerang as boomerang;
use earmark_boomerang::credential::{Key, user_id};
use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;

use super::Boomerang;
use crate::key_file::{FileKey, KeyFile};
use crate::protocol::{SigningKeys, check_digest, restore};

impl SigningKeys for Boomerang {
    fn has_users(&self) -> bool {
        true
    }

    fn check(&self, key: &FileKey) -> Result<(), (&'static str, &'static str)> {
        check_digest(key)?;
        let name = key.user.as_deref().unwrap_or_default();
        match name.is_empty() || user_id(name).is_none() {
            false => Ok(()),
            true => Err((
                "a key of Boomerang needs a user with a name of one to eight octets",
                "for example user = \"alice\"",
            )),
        }
    }

    fn configure(&self, file: &KeyFile, origin: Timestamp, node: &mut NodeConfig) {
        node.boomerang.credentials.keys = keys(file, origin);
    }

    fn command(&self, file: &KeyFile, origin: Timestamp) -> Command {
        Command::Boomerang(boomerang::Command::Keys { keys: keys(file, origin) })
    }

    fn restore(&self, file: &KeyFile, node: &mut NodeConfig) {
        restore(&mut node.boomerang.credentials.keys, file, keys);
    }

    fn restore_command(&self, file: &KeyFile, command: &mut Command) {
        if let Command::Boomerang(boomerang::Command::Keys { keys: recorded }) = command {
            restore(recorded, file, keys);
        }
    }
}

/// Returns the keys of the protocol by an engine's clock that starts at `origin`.
fn keys(file: &KeyFile, origin: Timestamp) -> Vec<Key> {
    let key = |key: &FileKey| {
        Some(Key {
            id: key.id,
            user: key.user.clone()?,
            secret: key.secret.clone(),
            purpose: key.purpose,
            start: key.start(origin),
            age: key.age(origin),
            end: key.end(origin),
            interfaces: key.interfaces.clone(),
        })
    };
    file.keys_of("boomerang").filter_map(key).collect()
}
