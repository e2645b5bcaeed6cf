//! The key `integrity` of an interface: the protocols whose messages are signed there, and in which directions.

use std::collections::BTreeMap;

use earmark_core::keys::Directions;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::ConfigError;
use super::source::Source;
use crate::protocol::Protocol;
use crate::protocols;

/// The value of the key.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "\"both\", \"send\", \"accept\", or a table with one of them for each protocol"
)]
pub(super) enum IntegrityKey {
    /// Directions for all protocols that the interface speaks.
    All(Directions),
    /// Directions by protocol; others are not secured.
    Each(BTreeMap<String, Directions>),
}

impl Source<'_> {
    /// Returns the directions in which an interface is secured, by protocol. `speaks` tells which protocols it speaks.
    pub(super) fn interface_integrity(
        &self,
        key: Option<&Spanned<IntegrityKey>>,
        speaks: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<&'static str, Directions>, ConfigError> {
        let signing = || {
            let signing = protocols::all().filter(|protocol| protocol.signing_keys().is_some());
            signing.map(Protocol::name).filter(|name| speaks(name))
        };
        let Some(key) = key else { return Ok(BTreeMap::new()) };
        let each = match key.get_ref() {
            IntegrityKey::All(directions) => {
                return Ok(signing().map(|name| (name, *directions)).collect());
            }
            IntegrityKey::Each(each) => each,
        };
        let named = |(name, directions): (&String, &Directions)| {
            let known = signing().find(|known| known == name);
            let known = known.ok_or_else(|| {
                let known: Vec<&str> = signing().collect();
                let message = format!("the interface signs no messages of {name:?}");
                let hint = format!("{}; docs/integrity.md has the others", known.join(", "));
                self.error(key.span(), message, hint)
            })?;
            Ok((known, *directions))
        };
        each.iter().map(named).collect()
    }
}

/// A key of an earlier version, whose values are in the key file now.
pub(crate) struct InKeyFile;

impl<'de> Deserialize<'de> for InKeyFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InKeyFile, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        Err(D::Error::custom(
            "keys and users of all protocols are [[key]] tables in the file of `integrity.keys`, and the key `integrity` of \
             an interface requires them; see docs/integrity.md",
        ))
    }
}
