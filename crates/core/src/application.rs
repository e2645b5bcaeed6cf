//! Identifier of an application.

use serde::{Deserialize, Serialize};

/// Identifier of an application on this host: a program's request of any protocol. The driver chooses it, and does not
/// reuse it while it is open.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ApplicationId(pub u64);

impl core::fmt::Display for ApplicationId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}
