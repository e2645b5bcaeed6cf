//! Secrets in a file that only its owner may read.

use std::path::Path;

use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;

use super::ProtocolConfig;
use crate::config::ConfigError;
use crate::config::secret_file::unchanged;

/// Loads a file with keys of a protocol, again if it changes meanwhile; `None` if the protocol has no keys.
pub(crate) fn load_keys(
    protocol: &dyn ProtocolConfig,
    path: &Path,
) -> Option<Result<Box<dyn Secrets>, ConfigError>> {
    unchanged(path, || protocol.load_keys(path).transpose()).transpose()
}

/// The keys of a file. Recordings do not contain them.
pub trait Secrets {
    /// Returns the number of keys.
    fn count(&self) -> usize;

    /// Adds the keys to the settings of a node whose clock starts at `origin`.
    fn add_to(&self, node: &mut NodeConfig, origin: Timestamp);

    /// Returns the command by which the engine gets the keys.
    fn command(&self, origin: Timestamp) -> Command;

    /// Restores the secrets of settings that were recorded.
    fn restore(&self, node: &mut NodeConfig);

    /// Restores the secrets of a command that was recorded.
    fn restore_command(&self, command: &mut Command);
}
