//! Settings of the engine, with the defaults of RFC 2205.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{InterfaceId, slew};
use earmark_wire::rsvp::{Dscp, Message, RestartCap};
use serde::{Deserialize, Serialize};

use crate::host::proxy;
use crate::neighbors::{integrity, limits};
use crate::rules::{diagnostics, notify, policy};

/// Settings of one RSVP engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Timing on interfaces without settings of their own.
    pub timing: Timing,
    /// Timing by interface.
    pub interfaces: BTreeMap<InterfaceId, Timing>,
    /// Timing by name of an interface, for interfaces that appear later, or again with another index.
    pub interface_timing: BTreeMap<String, Timing>,
    /// Kb of RFC 2205 section 3.5: blockade state lasts `blockade_factor * R`.
    pub blockade_factor: u32,
    /// Limit of sessions, of senders of all sessions together, and of reservations. At the limit new ones are refused and
    /// existing ones stay. A part of it is kept for interfaces that use little ([`earmark_core::shares`]).
    pub max_sessions: u32,
    /// Limit of senders of one session.
    pub max_senders: u32,
    /// Limit of next hops of one sender on one interface whose requests are merged. A unicast session has one, or two
    /// for a while after a route change further downstream.
    pub max_next_hops: u32,
    /// Limit of the lifetime of state, whatever refresh period a neighbour announces.
    pub max_lifetime: Duration,
    /// Further delay until the PathTear on the old path, when reservations there end as well. By then a node on both
    /// paths has the new previous hop and does not take the PathTear for the end of the sender.
    pub departure_delay: Duration,
    /// Limit of octets that are stored of a message's ADSPEC and forwarded objects (POLICY_DATA, unknown classes); a
    /// message with more is refused.
    pub max_kept_octets: u32,
    /// Diagnostics (RFC 2745).
    pub diagnostics: diagnostics::Settings,
    /// Accepted neighbours, and limits of each neighbour and reservation.
    pub limits: limits::Settings,
    /// Names of core interfaces whose neighbours are beyond routers without RSVP, so that their messages have any TTL.
    pub distant_neighbors: BTreeSet<String>,
    /// Names of interfaces that accept Path, PathTear and ResvConf messages without router alert, because the network behind
    /// them removes IP options.
    pub without_router_alert: BTreeSet<String>,
    /// Whether deviations of neighbours from the standards are refused even if their meaning is unambiguous, see
    /// [`crate::Tolerated`].
    pub strict: bool,
    /// Whether the path state of a sender is removed with that of its only next hop, if a PathErr says so by the flag
    /// Path_State_Removed (RFC 3473 section 4.4).
    pub remove_path_state: bool,
    /// Message integrity (RFC 2747).
    pub integrity: integrity::Settings,
    /// Tokens that prove the names of users.
    pub tokens: earmark_token::Settings,
    /// Policy and preemption (RFC 2750, RFC 3181).
    pub policy: policy::Settings,
    /// Code points for packets of senders behind an interface, by interface name (RFC 2996).
    pub dclass: BTreeMap<String, Vec<Dscp>>,
    /// RSVP proxies (RFC 5945).
    pub proxies: proxy::Settings,
    /// Notify messages (RFC 3473 section 4.3).
    pub notify: notify::Settings,
    /// Refresh reduction with neighbours that support it.
    pub reduction: Reduction,
    /// Detection of lost neighbours.
    pub hello: HelloTiming,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            timing: Timing::default(),
            interfaces: BTreeMap::new(),
            interface_timing: BTreeMap::new(),
            blockade_factor: 2,
            max_sessions: 2_000_000,
            max_senders: 4_096,
            max_next_hops: 64,
            max_lifetime: Duration::from_secs(86_400),
            departure_delay: Duration::from_secs(3),
            max_kept_octets: 4_096,
            diagnostics: diagnostics::Settings::default(),
            limits: limits::Settings::default(),
            distant_neighbors: BTreeSet::new(),
            without_router_alert: BTreeSet::new(),
            strict: false,
            remove_path_state: false,
            integrity: integrity::Settings::default(),
            tokens: earmark_token::Settings::default(),
            policy: policy::Settings::default(),
            dclass: BTreeMap::new(),
            proxies: proxy::Settings::default(),
            notify: notify::Settings::default(),
            reduction: Reduction::default(),
            hello: HelloTiming::default(),
        }
    }
}

impl Config {
    /// Returns the lifetime of state from `interface` that is refreshed every `refresh_ms`.
    #[inline]
    pub fn lifetime(&self, interface: InterfaceId, refresh_ms: u32) -> Duration {
        self.timing(interface).lifetime(refresh_ms).min(self.max_lifetime)
    }

    /// Returns the timing of `interface`.
    pub fn timing(&self, interface: InterfaceId) -> Timing {
        if self.interfaces.is_empty() {
            return self.timing;
        }
        self.interfaces.get(&interface).copied().unwrap_or(self.timing)
    }
}

/// Time parameters of an interface (RFC 2205 sections 3.6 and 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// Refresh period R.
    pub refresh: Duration,
    /// K: state survives the loss of K - 1 successive refreshes.
    pub lifetime_factor: u32,
    /// Slew.Max: how much longer than the one before a refresh period may be while R rises, percent.
    pub slew_percent: u32,
    /// W: delay between a route change and the Path on the new path.
    pub repair_delay: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            refresh: Duration::from_secs(30),
            lifetime_factor: 3,
            slew_percent: slew::DEFAULT_PERCENT,
            repair_delay: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Returns the refresh period for TIME_VALUES, milliseconds, at least 1.
    pub fn refresh_ms(&self) -> u32 {
        u32::try_from(self.refresh.as_millis()).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the lifetime of state that a neighbour refreshes every `refresh_ms`: L = (K + 0.5) * 1.5 * R.
    pub fn lifetime(&self, refresh_ms: u32) -> Duration {
        let halves = u64::from(self.lifetime_factor) * 2 + 1;
        // (K + 0.5) * 1.5 * R = (2K + 1) * 3 * R / 4; a quarter of R in milliseconds is 250 000 ns.
        let quarters = halves.saturating_mul(3).saturating_mul(u64::from(refresh_ms));
        Duration::from_nanos(quarters.saturating_mul(250_000))
    }
}

/// Refresh reduction (RFC 2961).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reduction {
    /// Whether refresh reduction is used with neighbours that support it.
    pub enabled: bool,
    /// Whether several messages to such a neighbour at the same time are sent in one Bundle.
    pub bundle: bool,
    /// Maximum delay of an acknowledgement until a message includes it; must be well below a neighbour's Rf.
    pub acknowledge_within: Duration,
    /// Retransmission of messages that are not acknowledged.
    pub retransmission: Retransmission,
    /// Limit of retransmissions in one burst.
    pub burst: u32,
    /// Interval between bursts.
    pub burst_interval: Duration,
    /// Limit of messages waiting for acknowledgement; further ones are not retransmitted before their next refresh.
    pub max_unacknowledged: u32,
    /// Limit of tears, errors and confirmations stored until they are acknowledged; further ones are sent once.
    pub max_copies: u32,
    /// Limit of neighbours with refresh reduction. A part of it is kept for interfaces with few of them
    /// ([`earmark_core::shares`]).
    #[serde(alias = "max_partners")]
    pub max_peers: u32,
}

impl Default for Reduction {
    fn default() -> Self {
        Reduction {
            enabled: true,
            bundle: true,
            acknowledge_within: Duration::from_millis(10),
            retransmission: Retransmission::default(),
            burst: 16,
            burst_interval: Duration::from_millis(1),
            max_unacknowledged: 1 << 20,
            max_copies: 1 << 16,
            max_peers: 1_024,
        }
    }
}

impl Reduction {
    /// Returns the flags of the common header in sent messages.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        if self.enabled { Message::REFRESH_REDUCTION } else { 0 }
    }
}

/// Exponential back-off (RFC 2961 section 6.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retransmission {
    /// Rf: the time from the first transmission to the second.
    pub interval: Duration,
    /// Rl: number of transmissions before a message is left to its refreshes. The RFC suggests 3, which ends after 3.5
    /// s; losses that a burst of new sessions causes itself last longer, and 5 transmissions end when refreshes begin.
    pub transmissions: u8,
    /// Delta: each interval is 1 + Delta times the previous one.
    pub increment: f64,
}

impl Default for Retransmission {
    fn default() -> Self {
        Retransmission { interval: Duration::from_millis(500), transmissions: 5, increment: 1.0 }
    }
}

impl Retransmission {
    /// Returns the wait after transmission number `stage`, counted from 0: Rf * (1 + Delta) ^ stage.
    pub(crate) fn wait(&self, stage: u8) -> Duration {
        let mut seconds = self.interval.as_secs_f64();
        for _ in 0..stage {
            seconds *= 1.0 + self.increment;
        }
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// Hello (RFC 3209 section 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HelloTiming {
    /// Interval of Hello requests; `None` sends none, but requests of neighbours are answered.
    pub interval: Option<Duration>,
    /// Number of intervals without an answer after which a neighbour is lost.
    pub lost_after: f64,
    /// Graceful restart.
    pub restart: RestartTimes,
}

impl Default for HelloTiming {
    fn default() -> Self {
        HelloTiming { interval: None, lost_after: 3.5, restart: RestartTimes::default() }
    }
}

/// Graceful restart (RFC 3473 section 9, RFC 5063).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RestartTimes {
    /// Restart Time that Hellos announce; `None` for neither a RESTART_CAP nor any regard for that of neighbours.
    pub restart_time: Option<Duration>,
    /// Length of the Recovery Period after a start with reservations of an earlier run, which Hellos announce as Recovery
    /// Time.
    pub recovery_time: Duration,
    /// Limit of the time for which state of a neighbour that restarts is kept, whatever Restart Time and Recovery Time it
    /// announces.
    pub max_restart_time: Duration,
}

impl Default for RestartTimes {
    fn default() -> Self {
        RestartTimes {
            restart_time: None,
            recovery_time: Duration::from_secs(60),
            max_restart_time: Duration::from_secs(300),
        }
    }
}

impl RestartTimes {
    /// Returns the RESTART_CAP of Hellos; Recovery Time is zero outside the Recovery Period.
    pub(crate) fn restart_cap(&self, is_recovering: bool) -> Option<RestartCap> {
        // Never the value of an interval without a limit.
        let ms = |time: Duration| {
            u32::try_from(time.as_millis()).unwrap_or(u32::MAX).min(RestartCap::INDETERMINATE - 1)
        };
        let recovery_ms = if is_recovering { ms(self.recovery_time) } else { 0 };
        Some(RestartCap { restart_ms: ms(self.restart_time?), recovery_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2205 section 3.7: L = (K + 0.5) * 1.5 * R.
    #[test]
    fn lifetime_follows_rfc_2205() {
        let timing = Timing::default();
        assert_eq!(timing.refresh_ms(), 30_000);
        assert_eq!(timing.lifetime(30_000), Duration::from_millis(157_500));
        let cautious = Timing { lifetime_factor: 5, ..timing };
        assert_eq!(cautious.lifetime(1_000), Duration::from_millis(8_250));
        assert_eq!(timing.lifetime(u32::MAX), Duration::from_micros(22_548_578_298_750));
    }
}
