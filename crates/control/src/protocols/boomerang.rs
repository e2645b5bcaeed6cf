//! Options of Boomerang, and its rates as text.

use std::fmt;
use std::net::SocketAddr;

use earmark_core::Rate;
use earmark_wire::boomerang::Rates;
use serde::{Deserialize, Serialize};

use crate::ReservationRequest;

/// Options of Boomerang in a [`ReservationRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReserveOptions {
    /// Rates in order of preference: the network grants the first pair that it can. If there are none, the rate of the
    /// request is reserved in the forward direction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RatePair>,
    /// Refresh interval, seconds; by default that of the daemon's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u8>,
    /// What to do if not everything is granted.
    pub on_refusal: OnRefusal,
    /// User, for nodes that require one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Account>,
}

impl Default for ReserveOptions {
    fn default() -> ReserveOptions {
        ReserveOptions {
            rates: Vec::new(),
            interval_s: None,
            on_refusal: OnRefusal::Release,
            user: None,
        }
    }
}

/// Creates a request for UDP between this host and `to` at these rates, released if it is refused.
pub fn request(to: SocketAddr, forward: Rate, reverse: Rate) -> ReservationRequest {
    let rates = vec![RatePair { forward, reverse }];
    let options = ReserveOptions { rates, ..ReserveOptions::default() };
    ReservationRequest::of("boomerang", to).with(&options)
}

/// A pair of rates that is requested together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatePair {
    /// Rate from this host to the far end.
    pub forward: Rate,
    /// Rate from the far end to this host.
    pub reverse: Rate,
}

/// Reaction to a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// User id; at most eight octets.
    pub name: String,
    /// Secret shared by the user and the nodes.
    pub secret: Secret,
}

/// A secret, not shown in debug output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Formats a pair of rates: `3 Mbit/s there and 1 Mbit/s back`.
pub fn rates(rates: &Rates) -> String {
    let rate = |bps: u32| Rate::from_bps(bps.into());
    format!("{} there and {} back", rate(rates.forward), rate(rates.reverse))
}
