//! Settings of Notify messages.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Prefix;
use serde::{Deserialize, Serialize};

/// Settings of Notify messages. By default none are sent, requested or believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Whether Notify messages are sent to nodes that request them, and those of [`Settings::nodes`] are believed.
    pub enabled: bool,
    /// Whether senders of this host, and sender proxies, request Notify messages.
    pub request: bool,
    /// Addresses of nodes whose Notify messages are believed, and that get them although they are no party of the flow.
    pub nodes: Vec<Prefix>,
    /// Limit of Notify messages to one address in one second.
    pub per_second: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { enabled: false, request: false, nodes: Vec::new(), per_second: 100 }
    }
}

impl Settings {
    /// Returns whether a node is one of those configured.
    pub(super) fn names(&self, node: IpAddr) -> bool {
        self.nodes.iter().any(|range| range.contains(node))
    }
}
