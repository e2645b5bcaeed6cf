//! The protocols of this daemon: one module for each protocol of this project, and the list that the rest of the daemon
//! works on.
//!
//! A program adds protocols of its own with [`crate::cli::main_with`].

pub mod boomerang;
pub mod nsis;
pub mod rsvp;
pub mod yessir;

use std::sync::OnceLock;
use std::time::Duration;

use earmark_linux::PacketFilterSettings;
use earmark_node::{AddEngineError, Engines};

use crate::config::Config;
use crate::protocol::{Protocol, SigningKeys};
use crate::streams;

/// The protocols of this project.
const PROTOCOLS: [&dyn Protocol; 6] = [
    &rsvp::Rsvp,
    &boomerang::Boomerang,
    &yessir::Yessir,
    &nsis::Nsis,
    &nsis::natfw::Natfw,
    &nsis::ping::Ping,
];

/// The protocols that the program has added.
static ADDED: OnceLock<Added> = OnceLock::new();

struct Added {
    protocols: Vec<&'static dyn Protocol>,
    /// The engines of all protocols.
    engines: Engines,
}

/// Adds protocols to those of this project, once and before a daemon starts. Later calls have no effect.
///
/// # Errors
/// Two engines have one name or one number.
pub fn add(protocols: &[&'static dyn Protocol]) -> Result<(), AddEngineError> {
    let mut engines = protocols.iter().filter_map(|protocol| protocol.engine());
    let engines = engines.try_fold(Engines::default(), Engines::with)?;
    ADDED.get_or_init(|| Added { protocols: protocols.to_vec(), engines });
    Ok(())
}

/// Iterates over all protocols.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Protocol> {
    let added = ADDED.get().into_iter().flat_map(|added| &added.protocols);
    PROTOCOLS.into_iter().chain(added.copied())
}

/// Returns the engines of all protocols.
pub(crate) fn engines() -> Engines {
    ADDED.get().map_or_else(Engines::default, |added| added.engines.clone())
}

/// Returns the settings of connections with the name of their protocol; only one has connections.
pub(crate) fn streams(config: &Config) -> (&'static str, streams::Settings) {
    let mut found = all().filter_map(|p| Some((p.name(), p.streams(config)?)));
    found.next().unwrap_or_default()
}

/// Returns the settings of the packet filter, if a protocol opens one.
pub(crate) fn packet_filter(config: &Config) -> Option<PacketFilterSettings> {
    all().find_map(|protocol| protocol.packet_filter(config))
}

/// Returns the lifetime of state that is not refreshed, by this node's own timing. Adopted reservations of an earlier daemon
/// are kept as long.
pub(crate) fn lifetime(config: &Config) -> Duration {
    all().filter_map(|protocol| protocol.lifetime(config)).max().unwrap_or_default()
}

/// Iterates over the keys of the protocols that sign messages.
pub(crate) fn signing_keys() -> impl Iterator<Item = &'static dyn SigningKeys> {
    all().filter_map(|protocol| protocol.signing_keys())
}

/// Returns a protocol by its name.
pub(crate) fn find(name: &str) -> Option<&'static dyn Protocol> {
    all().find(|protocol| protocol.name() == name)
}
