//! Secrets in a file that only its owner may read.

use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;

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
