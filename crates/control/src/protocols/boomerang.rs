//! Requests of Boomerang, and its rates as text.

use std::fmt;
use std::net::SocketAddr;

use earmark_core::Rate;
use earmark_wire::boomerang::Rates;
use serde::{Deserialize, Serialize};

use super::udp;

/// A request of Boomerang: reserve in both directions between this host and another one, which only has to answer pings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Destination of the data; port 0 stands for all ports.
    pub to: SocketAddr,
    /// Source of the data. An unspecified or absent address means this host's own; port 0 means all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Rates, `{"forward":bps,"reverse":bps}`, in order of preference: the network grants the first pair that it can.
    pub wishes: Vec<RatePair>,
    /// Refresh interval, seconds; by default that of the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u8>,
    /// What to do if not everything is granted: `"release"`, `"take_offer"`, or `"retry"`.
    #[serde(default = "release")]
    pub on_refusal: OnRefusal,
    /// Whether to query the available rates only.
    #[serde(default)]
    pub query: bool,
    /// User, for nodes that require one: `{"name":"...","secret":"..."}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Account>,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Loop {
    /// A request for UDP between this host and `to` at these rates, released if it is refused.
    pub fn new(to: SocketAddr, forward: Rate, reverse: Rate) -> Loop {
        Loop {
            to,
            from: None,
            ip_protocol: udp(),
            wishes: vec![RatePair { forward, reverse }],
            interval_s: None,
            on_refusal: release(),
            query: false,
            user: None,
            hold: false,
            follow: false,
        }
    }
}

/// A pair of rates that is requested together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatePair {
    /// Rate from this host to the far end.
    pub forward: Rate,
    /// Rate from the far end to this host.
    pub reverse: Rate,
}

/// Reaction to a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Requests the same rates again, once per interval. Nodes before the refusal keep what they have reserved.
    #[default]
    Retry,
    /// Requests the offered rates, if they are non-zero in each requested direction; otherwise releases.
    TakeOffer,
    /// Releases the session.
    Release,
}

/// A user who may reserve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// User id; at most eight octets.
    pub name: String,
    /// Secret shared by the user and the nodes.
    pub secret: Secret,
}

/// A secret, not shown in debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

fn release() -> OnRefusal {
    OnRefusal::Release
}

/// Formats a pair of rates: `3 Mbit/s there and 1 Mbit/s back`.
pub fn rates(rates: &Rates) -> String {
    let rate = |bps: u32| Rate::from_bps(bps.into());
    format!("{} there and {} back", rate(rates.forward), rate(rates.reverse))
}
