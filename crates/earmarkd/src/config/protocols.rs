//! The key `protocols` of an interface.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{EnumAccess, Error, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::ConfigError;
use super::source::Source;
use crate::protocol::Protocol;
use crate::protocols;

/// Names of the protocols that an interface can speak.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let chosen = protocols::all().filter(|protocol| protocol.is_chosen_by_interface());
    chosen.map(Protocol::name).collect()
});

/// A protocol that an interface can speak.
#[derive(Clone, Copy)]
pub(super) struct ProtocolName(&'static str);

impl<'de> Deserialize<'de> for ProtocolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProtocolName, D::Error> {
        deserializer.deserialize_enum("ProtocolName", &NAMES, NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = ProtocolName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum ProtocolName")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<ProtocolName, A::Error> {
        let (name, variant) = data.variant::<String>()?;
        let known = NAMES.iter().find(|known| **known == name);
        let known = known.ok_or_else(|| Error::unknown_variant(&name, &NAMES))?;
        variant.unit_variant()?;
        Ok(ProtocolName(known))
    }
}

/// The only protocol of a host, and the error of an interface that names others: message and advice.
pub(super) type OnlyProtocol = (&'static str, (&'static str, &'static str));

impl Source<'_> {
    /// Returns the protocols that an interface does not speak; by default it speaks all that are possible.
    pub(super) fn excluded_protocols(
        &self,
        names: Option<&Spanned<Vec<ProtocolName>>>,
        only: Option<OnlyProtocol>,
    ) -> Result<BTreeSet<&'static str>, ConfigError> {
        let is_excluded = |name: &str| match names {
            Some(names) => names.get_ref().iter().all(|spoken| spoken.0 != name),
            None => only.is_some_and(|(only, _)| only != name),
        };
        if let (Some(names), Some((only, (message, hint)))) = (names, only)
            && names.get_ref().iter().any(|spoken| spoken.0 != only)
        {
            return Err(self.error(names.span(), message, hint));
        }
        Ok(NAMES.iter().copied().filter(|name| is_excluded(name)).collect())
    }
}
