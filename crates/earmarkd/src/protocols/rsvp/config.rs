//! `[rsvp]`, `[integrity]`, `[policy]`, `[[sender_proxy]]` and `[[receiver_proxy]]`, and the keys of an interface.

use std::path::PathBuf;

use earmark_linux::Intercept;
use earmark_rsvp::integrity::{self, HandshakeMode};
use earmark_rsvp::{HelloTiming, Reduction, Timing, limits, notify, policy, proxy};
use earmark_wire::rsvp::Dscp;
use serde::Deserialize;
use toml::Spanned;

use super::access::AccessTable;
use super::notify::NotifyTable;
use super::policy::PolicyTable;
use super::proxy::{ReceiverTable, SenderTable};
use super::refresh_reduction::{HelloTable, ReductionTable};
use super::timing::{InterfaceTiming, TimingTable};
use crate::config::{Config, ConfigError, InterfaceConfig, Source};
use crate::protocol::Tables;

/// Settings of RSVP.
#[derive(Clone, Debug, PartialEq)]
pub struct RsvpConfig {
    /// Timing of interfaces without their own.
    pub timing: Timing,
    /// Limits on the state of this node.
    pub limits: Limits,
    /// Refresh reduction (RFC 2961).
    pub reduction: Reduction,
    /// Timing of Hello messages.
    pub hello: HelloTiming,
    /// Signing and verification of messages; `None` if no interface is secured.
    pub integrity: IntegrityConfig,
    /// Policy: who may reserve how much and where, and which reservations may be preempted.
    pub policy: policy::Settings,
    /// Hosts without RSVP for which this node signals.
    pub proxies: proxy::Settings,
    /// Notify messages (RFC 3473).
    pub notify: notify::Settings,
    /// Whether path state is removed with that of the next hop (Path_State_Removed, RFC 3473 section 4.4).
    pub remove_path_state: bool,
    /// Whether this host signals inside UDP only (RFC 2205 appendix C).
    pub udp_only: bool,
    /// Whether diagnostic requests about sessions are answered (RFC 2745, `earmark trace`).
    pub diagnostics: bool,
    /// Whether deviations of neighbors from the standards are refused even if their meaning is unambiguous.
    pub strict: bool,
}

impl Default for RsvpConfig {
    fn default() -> RsvpConfig {
        RsvpConfig {
            timing: Timing::default(),
            limits: Limits::default(),
            reduction: Reduction::default(),
            hello: HelloTiming::default(),
            integrity: IntegrityConfig::default(),
            policy: policy::Settings::default(),
            proxies: proxy::Settings::default(),
            notify: notify::Settings::default(),
            remove_path_state: false,
            udp_only: false,
            diagnostics: true,
            strict: false,
        }
    }
}

/// Limits on the state of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions, most senders, and most reservations.
    pub max_sessions: u32,
    /// Most senders of one session.
    pub max_senders: u32,
    /// Most next hops on one interface that reserve for the same senders.
    pub max_next_hops: u32,
    /// Most senders, and most reservations, of one neighbor.
    pub per_neighbor: Option<u32>,
    /// Most new senders, new reservations and changes of reservations a second that one neighbor may request.
    pub changes_per_second: Option<u32>,
    /// Limits of each access interface.
    pub access: limits::Access,
}

impl Default for Limits {
    fn default() -> Self {
        let defaults = earmark_rsvp::Config::default();
        Limits {
            max_sessions: defaults.max_sessions,
            max_senders: defaults.max_senders,
            max_next_hops: defaults.max_next_hops,
            per_neighbor: None,
            changes_per_second: None,
            access: defaults.limits.access,
        }
    }
}

/// Signing and verification of messages (RFC 2747).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegrityConfig {
    /// Window for messages out of order, in sequence numbers.
    pub window: u16,
    /// Whether new neighbors are challenged.
    pub handshake: HandshakeMode,
}

impl Default for IntegrityConfig {
    fn default() -> IntegrityConfig {
        let integrity::Settings { window, handshake, .. } = integrity::Settings::default();
        IntegrityConfig { window, handshake }
    }
}

/// Settings of RSVP for an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct RsvpInterface {
    /// Which messages are intercepted.
    pub intercept: Intercept,
    /// Whether hosts behind the interface signal inside UDP (RFC 2205 appendix C).
    pub udp_encapsulation: bool,
    /// Accepted neighbors, and limits of one neighbor of the interface.
    pub limits: limits::Interface,
    /// DSCPs that senders behind the interface are told to set (RFC 2996).
    pub dscp: Vec<Dscp>,
    /// Time parameters of the interface; those of all interfaces where it has none.
    pub timing: InterfaceTiming,
}

impl Default for RsvpInterface {
    fn default() -> RsvpInterface {
        RsvpInterface {
            intercept: Intercept::RouterAlert,
            udp_encapsulation: false,
            limits: limits::Interface::default(),
            dscp: Vec::new(),
            timing: InterfaceTiming::default(),
        }
    }
}

/// The tables of RSVP.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RsvpTables {
    #[serde(default)]
    rsvp: RsvpTable,
    #[serde(default)]
    integrity: IntegrityTable,
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    sender_proxy: Vec<SenderTable>,
    #[serde(default)]
    receiver_proxy: Vec<ReceiverTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RsvpTable {
    refresh: Option<Spanned<String>>,
    lifetime_factor: Option<Spanned<u32>>,
    slew_percent: Option<Spanned<u32>>,
    repair_delay: Option<Spanned<String>>,
    udp_only: Option<bool>,
    diagnostics: Option<bool>,
    strict: Option<bool>,
    remove_path_state: Option<bool>,
    max_sessions: Option<Spanned<u32>>,
    max_senders: Option<Spanned<u32>>,
    max_next_hops: Option<Spanned<u32>>,
    max_per_neighbor: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    access: AccessTable,
    #[serde(default)]
    reduction: ReductionTable,
    #[serde(default)]
    hello: HelloTable,
    #[serde(default)]
    notify: NotifyTable,
}

impl RsvpTable {
    fn timing(&self) -> TimingTable {
        TimingTable {
            refresh: self.refresh.clone(),
            lifetime_factor: self.lifetime_factor.clone(),
            slew_percent: self.slew_percent.clone(),
            repair_delay: self.repair_delay.clone(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntegrityTable {
    keys: Option<PathBuf>,
    window: Option<Spanned<u32>>,
    handshake: Option<HandshakeMode>,
}

/// The keys of RSVP in `[[interface]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceKeys {
    intercept: Option<InterceptName>,
    udp_encapsulation: Option<bool>,
    #[serde(default)]
    neighbors: Vec<Spanned<String>>,
    #[serde(default)]
    limits: NeighborTable,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    #[serde(default)]
    timing: TimingTable,
}

/// `limits` in `[[interface]]`: those of one neighbour of RSVP, instead of those of `[rsvp]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighborTable {
    max_per_neighbor: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
}

/// Names of [`Intercept`] in the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum InterceptName {
    RouterAlert,
    Protocol,
}

/// Upper bounds of `max_senders` and `max_next_hops`: a new one is compared with all others.
const MAX_SENDERS: u32 = 65_536;
const MAX_NEXT_HOPS: u32 = 4_096;

impl Tables for RsvpTables {
    fn excludes_others(&self) -> Option<(&'static str, &'static str)> {
        self.rsvp.udp_only.unwrap_or(false).then_some((
            "rsvp.udp_only allows no protocol but RSVP",
            "protocols = [\"rsvp\"], or leave udp_only out and grant CAP_NET_RAW",
        ))
    }

    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError> {
        let RsvpTables { rsvp, integrity, policy, sender_proxy, receiver_proxy } = *self;
        config.issuers = source.issuers(&policy.issuer)?;
        let verifications = policy.verifications_per_second.clone();
        config.verifications_per_second =
            source.count(verifications, config.verifications_per_second)?;
        config.keys = source.key_file(integrity.keys.clone(), &config.interfaces)?;
        let interfaces = &config.interfaces;
        let settings = RsvpConfig {
            timing: source.timing(rsvp.timing())?,
            limits: source.limits(&rsvp)?,
            integrity: source.integrity(&integrity)?,
            policy: source.policy(policy, interfaces)?,
            proxies: source.proxies(&sender_proxy, &receiver_proxy, interfaces)?,
            remove_path_state: rsvp.remove_path_state.unwrap_or(false),
            notify: source.notify(&rsvp.notify, &receiver_proxy)?,
            udp_only: rsvp.udp_only.unwrap_or(false),
            diagnostics: rsvp.diagnostics.unwrap_or(true),
            strict: rsvp.strict.unwrap_or(false),
            reduction: source.reduction(rsvp.reduction)?,
            hello: source.hello(rsvp.hello)?,
        };
        config.settings.set(settings);
        Ok(())
    }
}

impl Source<'_> {
    pub(super) fn rsvp_interface(
        &self,
        keys: &InterfaceKeys,
    ) -> Result<RsvpInterface, ConfigError> {
        Ok(RsvpInterface {
            intercept: match keys.intercept {
                Some(InterceptName::Protocol) => Intercept::Protocol,
                Some(InterceptName::RouterAlert) | None => Intercept::RouterAlert,
            },
            udp_encapsulation: keys.udp_encapsulation.unwrap_or(false),
            limits: self.interface_limits(keys)?,
            dscp: self.code_points(&keys.dscp)?,
            timing: self.interface_timing(keys.timing.clone())?,
        })
    }

    fn integrity(&self, table: &IntegrityTable) -> Result<IntegrityConfig, ConfigError> {
        let defaults = IntegrityConfig::default();
        let window = self.within(table.window.clone(), 1..1_025, defaults.window.into())?;
        Ok(IntegrityConfig {
            window: u16::try_from(window).unwrap_or(u16::MAX),
            handshake: table.handshake.unwrap_or(defaults.handshake),
        })
    }

    /// Returns the path of the key file, which all protocols share.
    fn key_file(
        &self,
        keys: Option<PathBuf>,
        interfaces: &[InterfaceConfig],
    ) -> Result<Option<PathBuf>, ConfigError> {
        let secured = interfaces.iter().find(|interface| !interface.integrity.is_empty());
        match (keys, secured) {
            (None, Some(secured)) => Err(ConfigError::at(
                secured.place.clone().unwrap_or_default(),
                format!("{} requires integrity, but no keys are configured", secured.name),
                "[integrity] with keys = \"/etc/earmark/keys.toml\" names the file that has them",
            )),
            (keys, _) => Ok(keys),
        }
    }

    fn limits(&self, table: &RsvpTable) -> Result<Limits, ConfigError> {
        let defaults = Limits::default();
        let senders = 1..MAX_SENDERS + 1;
        let next_hops = 1..MAX_NEXT_HOPS + 1;
        Ok(Limits {
            max_sessions: self.count(table.max_sessions.clone(), defaults.max_sessions)?,
            max_senders: self.within(table.max_senders.clone(), senders, defaults.max_senders)?,
            max_next_hops: self.within(
                table.max_next_hops.clone(),
                next_hops,
                defaults.max_next_hops,
            )?,
            per_neighbor: self.limit(&table.max_per_neighbor)?,
            changes_per_second: self.limit(&table.changes_per_second)?,
            access: self.access(&table.access)?,
        })
    }

    fn interface_limits(&self, table: &InterfaceKeys) -> Result<limits::Interface, ConfigError> {
        Ok(limits::Interface {
            neighbors: self.ranges(&table.neighbors)?,
            per_neighbor: self.limit(&table.limits.max_per_neighbor)?,
            changes_per_second: self.limit(&table.limits.changes_per_second)?,
        })
    }

    /// Reads a limit that does not exist by default.
    fn limit(&self, value: &Option<Spanned<u32>>) -> Result<Option<u32>, ConfigError> {
        value.clone().map(|value| self.count(Some(value), 0)).transpose()
    }

    fn code_points(&self, code_points: &[Spanned<u8>]) -> Result<Vec<Dscp>, ConfigError> {
        let code_point = |value: &Spanned<u8>| match *value.get_ref() {
            small @ 0..64 => Ok(Dscp(small)),
            large => Err(self.error(
                value.span(),
                format!("{large} exceeds the six bits of a code point"),
                "0 to 63; expedited forwarding is 46",
            )),
        };
        code_points.iter().map(code_point).collect()
    }
}
