//! Settings of a protocol: its tables in the configuration, what they make of node and host, and their reload.

use std::io;
use std::time::Duration;

use earmark_linux::{InterfaceSignalling, Offload, PacketFilterSettings};
use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{KernelOffload, SigningKeys};
use crate::config::{Config, ConfigError, InterfaceConfig, Keys, Settings, Source, Table};
use crate::streams;

/// Settings of a protocol in tables of its own, and what they make of node and host. Every method has a default, for a
/// protocol without them.
pub trait ProtocolConfig {
    /// Returns whether the key `protocols` of an interface names the protocol; by default, if it has tables.
    fn is_chosen_by_interface(&self) -> bool {
        !self.tables().is_empty()
    }

    /// Returns the names of the protocol's tables.
    fn tables(&self) -> &'static [Keys] {
        &[]
    }

    /// Returns the protocol's keys in `[[interface]]`.
    fn interface_keys(&self) -> &'static [Keys] {
        &[]
    }

    /// Returns the function that reads the protocol's tables: [`read_as`] with their type.
    fn reader(&self) -> ReadTables {
        read_as::<NoTables>
    }

    /// Reads the protocol's keys of an interface, whose general settings are known.
    ///
    /// # Errors
    /// A value is invalid.
    fn read_interface(
        &self,
        _: Table<'_>,
        _: &Source<'_>,
        _: &mut InterfaceConfig,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Restores the settings of a reloaded configuration that cannot change while the daemon runs, and adds the names of
    /// those that differ to `waiting`.
    fn reload(&self, _started: &Config, _new: &mut Config, _waiting: &mut Vec<String>) {}

    /// Restores the settings of an interface that cannot change while the daemon runs, and returns the keys that differ.
    fn reload_interface(
        &self,
        _started: &InterfaceConfig,
        _new: &mut InterfaceConfig,
    ) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the key because of which an interface cannot take part before the daemon is started again.
    fn needs_restart(&self, _added: &InterfaceConfig) -> Option<&'static str> {
        None
    }

    /// Sets the protocol's settings of a node whose clock starts at `origin`.
    fn configure(&self, _: &Config, _origin: Timestamp, _: &mut NodeConfig) {}

    /// Returns the command by which the engine gets reloaded settings.
    fn reload_command(&self, _: &Config, _origin: Timestamp) -> Option<Command> {
        None
    }

    /// Returns the command by which the engine learns that the wall clock has jumped: by the new time, the engine's clock
    /// started at `origin`.
    fn wall_clock_command(&self, _origin: Timestamp) -> Option<Command> {
        None
    }

    /// Returns the keys with which the protocol signs and verifies messages; `None` if it has none in the key file.
    fn signing_keys(&self) -> Option<&dyn SigningKeys> {
        None
    }

    /// Returns whether this host signals inside UDP only.
    fn is_udp_only(&self, _: &Config) -> bool {
        false
    }

    /// Returns the lifetime of state that is not refreshed, by this node's own timing.
    fn lifetime(&self, _: &Config) -> Option<Duration> {
        None
    }

    /// Returns the settings of connections with neighbors, if the protocol has connections.
    fn streams(&self, _: &Config) -> Option<streams::Settings> {
        None
    }

    /// Returns the settings of the packet filter that the protocol opens, if this node has one.
    fn packet_filter(&self, _: &Config) -> Option<PacketFilterSettings> {
        None
    }

    /// Sets which of the protocol's messages are intercepted on an interface.
    fn intercept(&self, _: &InterfaceConfig, _: &mut InterfaceSignalling) {}

    /// Starts offload to the kernel, as far as the settings ask for it and the kernel can do it: `path` is `None` if it
    /// cannot. Returns `None` if there is nothing to offload.
    ///
    /// # Errors
    /// The kernel's error.
    fn start_offload(
        &self,
        _: &Config,
        _: &mut NodeConfig,
        _path: Option<&Offload>,
    ) -> io::Result<Option<Box<dyn KernelOffload>>> {
        Ok(None)
    }
}

/// Reads the tables of a protocol.
pub type ReadTables = fn(Table<'_>, &Source<'_>) -> Result<Box<dyn Tables>, ConfigError>;

/// Reads tables as a type.
///
/// # Errors
/// A value is not of its type, or missing, or unknown.
pub fn read_as<T: Tables + DeserializeOwned + 'static>(
    table: Table<'_>,
    source: &Source<'_>,
) -> Result<Box<dyn Tables>, ConfigError> {
    Ok(Box::new(table.read::<T>(source)?))
}

/// Restores settings of which none can change while the daemon runs. `name` is that of their table.
pub(crate) fn keep_all<T: Settings>(
    name: &str,
    started: &Config,
    new: &mut Config,
    waiting: &mut Vec<String>,
) {
    let started: T = started.settings.get();
    if started != new.settings.get() {
        waiting.push(name.to_owned());
    }
    new.settings.set(started);
}

/// The tables of a protocol as they are in the file.
pub trait Tables {
    /// Returns why no other protocol can be spoken on this host, with advice; `None` if all can.
    fn excludes_others(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Checks the values and sets the protocol's settings. The interfaces of the configuration are known.
    ///
    /// # Errors
    /// A value is invalid.
    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError>;
}

#[derive(Deserialize)]
struct NoTables {}

impl Tables for NoTables {
    fn set(self: Box<Self>, _: &Source<'_>, _: &mut Config) -> Result<(), ConfigError> {
        Ok(())
    }
}
