//! Measurements of NSIS: real daemons that discover each other by GIST, reserve by QoS NSLP, and forward Ping NSLP.
//!
//! ```text
//!   h1 --- r1 --- r2 --- r3 --- h2        four hops: namespaces, veth pairs of 100 Gbit/s
//! ```
//!
//! Every node but h1 is a daemon of its own; h2 answers as the last node of the path. h1 is this very program
//! ([`sender`]), which embeds a node ([`earmarkd::embedded`]) and passes commands to it without a socket; so the only
//! cost of an application is the protocol's.
//!
//! - [`set_up`]: consecutive reservations, or pinholes of NATFW NSLP in the packet filters of all routers, as seen by a user
//!   who waits for each.
//! - [`resident`]: many refreshed sessions: cost for each daemon, and round-trip times meanwhile.
//! - [`ping`]: messages of Ping NSLP a second without a loss.
//! - [`steady_state`]: cost of sessions of Ping NSLP alone, as in the published measurement of GIST.
//! - [`transit`]: time that their messages stay in a router.
//! - [`profile`]: instructions of a router without I/O, by component.
//! - `messages`: messages of hosts without a node, encoded.

pub mod chain;
mod components;
mod engines;
pub(in crate::bench) mod messages;
pub mod ping;
pub mod profile;
pub mod resident;
pub mod sender;
pub mod set_up;
pub mod steady_state;
pub mod table;
pub mod transit;

use std::time::Duration;

use earmark_lab::statistics::percentile;
use serde::Serialize;

pub use chain::{Chain, Set};

earmark_core::named_enum! {
    /// By what messages of applications travel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum Transport {
        /// In datagrams (D-mode).
        Datagram = "datagrams",
        /// Over connections (C-mode).
        Tcp = "TCP",
        /// Over connections whose ends have proved who they are.
        Tls = "TLS",
    }
}

earmark_core::named_enum! {
    /// Application of NSIS whose sessions are set up.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Service {
        /// QoS NSLP: reservations.
        #[default]
        Qos = "QoS NSLP",
        /// NATFW NSLP: pinholes in the packet filter of each router.
        Natfw = "NATFW NSLP",
    }
}

impl Transport {
    /// Value of the daemons' setting `nsis.require`.
    fn need(self) -> &'static str {
        match self {
            Transport::Datagram => "nothing",
            Transport::Tcp => "reliable",
            Transport::Tls => "secure",
        }
    }
}

/// Percentiles of a number of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Number of times.
    pub count: usize,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, milliseconds.
    pub p95_ms: f64,
    /// Maximum, milliseconds.
    pub max_ms: f64,
}

impl Times {
    /// Summarizes these times; all figures are zero if there are none.
    pub fn of(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        let millis = |percent| {
            percentile(&times, percent).map_or(0.0, |time: Duration| time.as_secs_f64() * 1e3)
        };
        let (p50_ms, p95_ms, max_ms) = (millis(50), millis(95), millis(100));
        Times { count: times.len(), p50_ms, p95_ms, max_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranked() {
        let times = Times::of((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(times, Times { count: 100, p50_ms: 50.0, p95_ms: 95.0, max_ms: 100.0 });
        assert_eq!(Times::of(vec![Duration::from_millis(2)]).p50_ms, 2.0);
        assert_eq!(Times::of(Vec::new()), Times::default());
    }
}
