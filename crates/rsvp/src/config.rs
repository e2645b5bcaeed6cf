//! Settings of the engine, with the defaults of RFC 2205.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::rsvp::{Dscp, Message};
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
    /// The code points with which senders behind an interface shall mark their packets, by its name (RFC 2996).
    pub dclass: BTreeMap<String, Vec<Dscp>>,
    /// For whom this node speaks (RFC 5945).
    pub proxies: proxy::Settings,
    /// How state is kept alive between neighbours that can do better than repeat it.
    pub reduction: Reduction,
    /// How neighbours are watched.
    pub hello: HelloTiming,
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
            dclass: BTreeMap::new(),
            proxies: proxy::Settings::default(),
            reduction: Reduction::default(),
            hello: HelloTiming::default(),
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

/// Refresh reduction (RFC 2961).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reduction {
    /// Whether this node takes part, with neighbours that say that they do.
    pub enabled: bool,
    /// Whether messages to such a neighbour that are there at the same time leave in one datagram.
    pub bundle: bool,
    /// Longest delay of an acknowledgement that no message of ours takes along; well below a neighbour's Rf.
    pub acknowledge_within: Duration,
    /// What happens to messages that nobody acknowledges.
    pub retransmission: Retransmission,
    /// Messages that are sent again in one go, at most.
    pub burst: u32,
    /// Time from one such go to the next.
    pub burst_interval: Duration,
    /// Most messages that wait for an acknowledgement; further ones are not repeated before they are refreshed.
    pub max_unacknowledged: u32,
    /// Most tears, errors and confirmations of which a copy is kept until they are acknowledged; further ones are sent
    /// once.
    pub max_copies: u32,
    /// Most neighbours that take part.
    pub max_partners: u32,
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
            max_partners: 1_024,
        }
    }
}

impl Reduction {
    /// Flags of the common header of all that this node sends.
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
    /// Rl: how often a message is sent in all before it is left to its refreshes. The RFC suggests 3, which ends after
    /// 3.5 s; losses that a flood of new sessions brings about itself last longer, and 5 end when refreshes begin.
    pub transmissions: u8,
    /// Delta: each interval is 1 + Delta times the one before.
    pub increment: f64,
}

impl Default for Retransmission {
    fn default() -> Self {
        Retransmission { interval: Duration::from_millis(500), transmissions: 5, increment: 1.0 }
    }
}

impl Retransmission {
    /// How long to wait after the transmission number `stage`, counted from 0: Rf * (1 + Delta) ^ stage.
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
    /// How often a neighbour is asked for a sign of life; `None`: never, but its own requests are answered.
    pub interval: Option<Duration>,
    /// A neighbour that was heard is lost after so many intervals of silence.
    pub lost_after: f64,
}

impl Default for HelloTiming {
    fn default() -> Self {
        HelloTiming { interval: None, lost_after: 3.5 }
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
