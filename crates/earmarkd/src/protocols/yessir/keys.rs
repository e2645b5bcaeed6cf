//! Keys of YESSIR, which senders share with routers.

use earmark_node::{Command, NodeConfig};
use earmark_yessir as yessir;
use earmark_yessir::auth::Key;
use jiff::Timestamp;

use super::Yessir;
use crate::key_file::{FileKey, KeyFile};
use crate::protocol::{SigningKeys, check_digest, restore};

impl SigningKeys for Yessir {
    fn check(&self, key: &FileKey) -> Result<(), (&'static str, &'static str)> {
        check_digest(key)?;
        match u32::try_from(key.id) {
            Ok(_) => Ok(()),
            Err(_) => Err(("the number of a key of YESSIR has 32 bits", "from 0 to 4294967295")),
        }
    }

    fn configure(&self, file: &KeyFile, origin: Timestamp, node: &mut NodeConfig) {
        node.yessir.auth.keys = keys(file, origin);
    }

    fn command(&self, file: &KeyFile, origin: Timestamp) -> Command {
        Command::Yessir(yessir::Command::Keys { keys: keys(file, origin) })
    }

    fn restore(&self, file: &KeyFile, node: &mut NodeConfig) {
        restore(&mut node.yessir.auth.keys, file, keys);
    }

    fn restore_command(&self, file: &KeyFile, command: &mut Command) {
        if let Command::Yessir(yessir::Command::Keys { keys: recorded }) = command {
            restore(recorded, file, keys);
        }
    }
}

/// Returns the keys of the protocol by an engine's clock that starts at `origin`.
fn keys(file: &KeyFile, origin: Timestamp) -> Vec<Key> {
    let key = |key: &FileKey| {
        Some(Key {
            id: key.id.try_into().ok()?,
            secret: key.secret.clone(),
            purpose: key.purpose,
            start: key.start(origin),
            age: key.age(origin),
            end: key.end(origin),
            interfaces: key.interfaces.clone(),
        })
    };
    file.keys_of("yessir").filter_map(key).collect()
}
