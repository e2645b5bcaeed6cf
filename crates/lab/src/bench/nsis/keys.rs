//! Keys for the daemons of a measurement with TLS: one pair for each node, and a list of all, bare as of RFC 7250.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rcgen::KeyPair;

/// A directory of keys that are good for one measurement; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct Keys {
    directory: PathBuf,
}

impl Keys {
    /// Makes a pair for each of these nodes.
    pub(super) fn make<'n>(network: &str, nodes: impl Iterator<Item = &'n str>) -> Result<Keys> {
        let directory = std::env::temp_dir().join(format!("{network}-keys"));
        let failed = || format!("cannot make keys in {}", directory.display());
        DirBuilder::new().mode(0o700).create(&directory).with_context(failed)?;
        let keys = Keys { directory };
        let mut all = String::new();
        for node in nodes {
            let pair = KeyPair::generate().context("cannot make a key")?;
            all.push_str(&pair.public_key_pem());
            fs::write(keys.directory.join(format!("{node}.key")), pair.serialize_pem())?;
        }
        fs::write(keys.directory.join("all.pem"), all)?;
        Ok(keys)
    }

    /// The table `[nsis.tls]` of a node.
    pub(super) fn settings(&self, node: &str) -> String {
        let directory = self.directory.display();
        format!(
            "[nsis.tls]\nby = \"keys\"\nkey = \"{directory}/{node}.key\"\n\
             public_keys = \"{directory}/all.pem\"\n"
        )
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}
