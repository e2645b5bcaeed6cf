//! Trust in what is behind an interface.
//!
//! An interface is of one of two roles. Behind an *access* interface are hosts and customers: a message from there
//! concerns only flows that pass that interface. Behind a *core* interface are routers of the same administration: a
//! message from there may also concern another core interface, because routes between routers need not be symmetric.

mod checks;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::Prefix;

/// Role of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Hosts and customers are behind it.
    #[default]
    Access,
    /// Only routers of the same administration are behind it.
    Core,
}

/// Trust in what is behind an interface; the default is an access interface whose sources follow the routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// Role of the interface.
    pub role: Role,
    /// Sources whose data may arrive through an access interface; if empty, those to which a route leads through it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Prefix>,
}

impl Trust {
    /// A core interface.
    pub const CORE: Trust = Trust { role: Role::Core, sources: Vec::new() };

    /// An access interface whose sources follow the routes.
    pub const ACCESS: Trust = Trust { role: Role::Access, sources: Vec::new() };

    /// Returns the trust in an interface of a recording from before interfaces had roles.
    pub(crate) const fn unlimited() -> Trust {
        Trust::CORE
    }
}
