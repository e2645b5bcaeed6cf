//! Keys for daemons that use TLS: one key pair for each node, and a list of all public keys, raw as in RFC 7250.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use earmarkd::private_file;
use rcgen::KeyPair;

/// A temporary directory with the keys of one network; dropping the value removes it.
#[derive(Debug)]
pub struct Keys {
    directory: PathBuf,
}

impl Keys {
    /// Generates a key pair for each of these nodes.
    ///
    /// # Errors
    /// The temporary directory cannot be written; no key can be generated.
    pub fn make<'n>(network: &str, nodes: impl Iterator<Item = &'n str>) -> Result<Keys> {
        let directory = std::env::temp_dir().join(format!("{network}-keys"));
        let failed = || format!("cannot make keys in {}", directory.display());
        DirBuilder::new().mode(0o700).create(&directory).with_context(failed)?;
        let keys = Keys { directory };
        let mut all = String::new();
        for node in nodes {
            let pair = KeyPair::generate().context("cannot make a key")?;
            all.push_str(&pair.public_key_pem());
            let path = keys.directory.join(format!("{node}.key"));
            private_file::create(&path)?.write_all(pair.serialize_pem().as_bytes())?;
        }
        fs::write(keys.directory.join("all.pem"), all)?;
        Ok(keys)
    }

    /// Returns the table `[nsis.tls]` of a node.
    pub fn settings(&self, node: &str) -> String {
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
