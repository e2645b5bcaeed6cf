//! Settings that replace those of a running engine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::Dscp;
use serde::{Deserialize, Serialize};

use crate::config::{Config, RestartTimes, Timing};
use crate::host::proxy;
use crate::neighbors::limits;
use crate::rules::{notify, policy};

/// Part of [`Config`] that can change at run time; the rest is fixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// Value for [`Config::timing`].
    pub timing: Timing,
    /// Value for [`Config::interfaces`].
    pub interfaces: BTreeMap<InterfaceId, Timing>,
    /// Value for [`Config::interface_timing`].
    #[serde(default)]
    pub interface_timing: BTreeMap<String, Timing>,
    /// Value for [`Config::max_sessions`].
    pub max_sessions: u32,
    /// Value for [`Config::max_senders`].
    #[serde(default = "default_max_senders")]
    pub max_senders: u32,
    /// Value for [`Config::max_next_hops`].
    #[serde(default = "default_max_next_hops")]
    pub max_next_hops: u32,
    /// Value for [`Config::strict`].
    #[serde(default)]
    pub strict: bool,
    /// Value for [`crate::rules::diagnostics::Settings::answer`].
    pub diagnostics: bool,
    /// Value for [`Config::limits`].
    pub limits: limits::Settings,
    /// Value for [`Config::without_router_alert`].
    #[serde(default)]
    pub without_router_alert: BTreeSet<String>,
    /// Value for [`Config::tokens`]; the wall clock stays.
    pub tokens: earmark_token::Settings,
    /// Value for [`Config::policy`]. A rule with unchanged conditions keeps its account, whatever its limits are.
    pub policy: policy::Settings,
    /// Value for [`Config::dclass`].
    pub dclass: BTreeMap<String, Vec<Dscp>>,
    /// Value for [`Config::proxies`].
    pub proxies: proxy::Settings,
    /// Value for [`Config::notify`].
    #[serde(default)]
    pub notify: notify::Settings,
    /// Value for [`Config::remove_path_state`].
    #[serde(default)]
    pub remove_path_state: bool,
    /// Value for [`crate::HelloTiming::restart`].
    #[serde(default)]
    pub restart: RestartTimes,
}

pub(super) fn default_max_senders() -> u32 {
    Config::default().max_senders
}

pub(super) fn default_max_next_hops() -> u32 {
    Config::default().max_next_hops
}

impl From<Config> for Renewal {
    fn from(config: Config) -> Renewal {
        Renewal {
            timing: config.timing,
            interfaces: config.interfaces,
            interface_timing: config.interface_timing,
            max_sessions: config.max_sessions,
            max_senders: config.max_senders,
            max_next_hops: config.max_next_hops,
            strict: config.strict,
            diagnostics: config.diagnostics.answer,
            limits: config.limits,
            without_router_alert: config.without_router_alert,
            tokens: config.tokens,
            policy: config.policy,
            dclass: config.dclass,
            proxies: config.proxies,
            notify: config.notify,
            remove_path_state: config.remove_path_state,
            restart: config.hello.restart,
        }
    }
}

/// Timing that was configured, while refresh periods still rise to it.
#[derive(Clone, Debug)]
pub(crate) struct TimingChange {
    pub(super) timing: Timing,
    pub(super) interfaces: BTreeMap<InterfaceId, Timing>,
    /// When a period rises again: that of an interface, or of all without settings of their own.
    pub(super) rises_at: BTreeMap<Option<InterfaceId>, Time>,
}
