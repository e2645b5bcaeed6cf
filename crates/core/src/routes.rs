//! Where packets go: a longest-prefix table that answers in nanoseconds.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{InterfaceId, Prefix};

/// The answer of a route look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Next router; `None` where the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Source address that the host itself would use, where the route names one.
    pub source: Option<IpAddr>,
}

/// One route of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// For these destinations.
    pub prefix: Prefix,
    /// Lower wins among routes for the same prefix.
    pub metric: u32,
    /// Where they go.
    pub hop: Hop,
}

/// Answers where packets go.
pub trait Routes {
    /// The hop towards `destination`; `None` where there is no route.
    fn lookup(&self, destination: IpAddr) -> Option<Hop>;
}

/// Stand-in; see the module text.
#[derive(Clone, Debug, Default)]
pub struct RouteTable;
