//! Settings of the engine, with the defaults of RFC 2205.

use alloc::collections::BTreeMap;
use core::time::Duration;

use earmark_core::InterfaceId;
use serde::{Deserialize, Serialize};

use crate::{diagnostics, integrity, limits, policy, proxy};

/// Settings of one RSVP engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Timing on interfaces that have no settings of their own.
    pub timing: Timing,
    /// Timing by interface.
    pub interfaces: BTreeMap<InterfaceId, Timing>,
    /// Blockade state lives `blockade_factor * R` (Kb of RFC 2205 section 3.5).
    pub blockade_factor: u32,
    /// Most sessions, and most senders of all sessions, that a node keeps; more are refused, those that are there stay.
    pub max_sessions: u32,
    /// Most senders of one session.
    pub max_senders: u32,
    /// Most next hops of one sender on one interface whose requests are merged; a unicast session has one, or two for
    /// a while after its route has changed further on.
    pub max_next_hops: u32,
    /// Longest life that a neighbour can give state by the refresh period it announces.
    pub max_lifetime: Duration,
    /// W of RFC 2205 section 3.6: how long after a change of routes senders are announced on their new ways.
    pub repair_delay: Duration,
    /// How long after that they are taken back on their old ways, with what is reserved there. By then whoever is on both
    /// ways has heard of the new one, and does not take the end of the old one for the end of the sender.
    pub departure_delay: Duration,
    /// Most octets of a message's ADSPEC, and of what it carries for others (POLICY_DATA, unknown objects), that are
    /// kept; a message with more is refused.
    pub max_kept_octets: u32,
    /// How questions about the state of sessions are treated (RFC 2745).
    pub diagnostics: diagnostics::Settings,
    /// To whom this node listens, and how much one neighbour or one reservation may have.
    pub limits: limits::Settings,
    /// Which messages are signed and verified (RFC 2747).
    pub integrity: integrity::Settings,
    /// Who may reserve how much and where, and who gives way to whom (RFC 2750, RFC 3181).
    pub policy: policy::Settings,
    /// For whom this node speaks (RFC 5945).
    pub proxies: proxy::Settings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            timing: Timing::default(),
            interfaces: BTreeMap::new(),
            blockade_factor: 2,
            max_sessions: 2_000_000,
            max_senders: 4_096,
            max_next_hops: 64,
            max_lifetime: Duration::from_secs(86_400),
            repair_delay: Duration::from_secs(2),
            departure_delay: Duration::from_secs(3),
            max_kept_octets: 4_096,
            diagnostics: diagnostics::Settings::default(),
            limits: limits::Settings::default(),
            integrity: integrity::Settings::default(),
            policy: policy::Settings::default(),
            proxies: proxy::Settings::default(),
        }
    }
}

impl Config {
    /// How long state from `interface` lives that is refreshed every `refresh_ms`.
    #[inline]
    pub fn lifetime(&self, interface: InterfaceId, refresh_ms: u32) -> Duration {
        self.timing(interface).lifetime(refresh_ms).min(self.max_lifetime)
    }

    /// The timing that holds on `interface`.
    pub fn timing(&self, interface: InterfaceId) -> Timing {
        if self.interfaces.is_empty() {
            return self.timing;
        }
        self.interfaces.get(&interface).copied().unwrap_or(self.timing)
    }
}

/// Refresh period and life time (RFC 2205 section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// Refresh period R.
    pub refresh: Duration,
    /// K: one less than K messages in a row may be lost without losing state.
    pub lifetime_factor: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { refresh: Duration::from_secs(30), lifetime_factor: 3 }
    }
}

impl Timing {
    /// The refresh period as TIME_VALUES carries it, milliseconds, at least 1.
    pub fn refresh_ms(&self) -> u32 {
        u32::try_from(self.refresh.as_millis()).unwrap_or(u32::MAX).max(1)
    }

    /// How long state lives that a neighbour refreshes every `refresh_ms`: L = (K + 0.5) * 1.5 * R, in nanoseconds.
    pub fn lifetime(&self, refresh_ms: u32) -> Duration {
        let halves = u64::from(self.lifetime_factor) * 2 + 1;
        // (K + 0.5) * 1.5 * R = (2K + 1) * 3 * R / 4; R in milliseconds is 250 000 ns a quarter.
        let quarters = halves.saturating_mul(3).saturating_mul(u64::from(refresh_ms));
        Duration::from_nanos(quarters.saturating_mul(250_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2205 section 3.7: L = (K + 0.5) * 1.5 * R.
    #[test]
    fn state_lives_as_long_as_the_rfc_says() {
        let timing = Timing::default();
        assert_eq!(timing.refresh_ms(), 30_000);
        assert_eq!(timing.lifetime(30_000), Duration::from_millis(157_500));
        let cautious = Timing { lifetime_factor: 5, ..timing };
        assert_eq!(cautious.lifetime(1_000), Duration::from_millis(8_250));
        assert_eq!(timing.lifetime(u32::MAX), Duration::from_micros(22_548_578_298_750));
    }
}
