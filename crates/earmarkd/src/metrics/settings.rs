//! Settings of the endpoint of metrics.

use std::net::SocketAddr;

/// Settings of the endpoint of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Address that the endpoint listens at.
    pub address: SocketAddr,
    /// Number of reservations that have series of their own, at most.
    pub reservations: usize,
}
