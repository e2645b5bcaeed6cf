//! Changes of the daemon's configuration: requests and their answer.

use earmark_core::Rate;
use serde::{Deserialize, Serialize};

/// Parameters of [`crate::Request::Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ConfigRequest {
    /// Compare the running configuration with its files, and change nothing.
    Compare {},
    /// Read the files and apply their settings.
    Apply(ApplyConfig),
    /// Keep the settings that await confirmation.
    Confirm {},
    /// Go back to the settings before those that await confirmation.
    RollBack {},
}

/// Parameters of [`ConfigRequest::Apply`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApplyConfig {
    /// Time after which the daemon goes back to the earlier settings unless they are confirmed; `None` keeps them at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_ms: Option<u64>,
}

/// The answer to [`crate::Request::Config`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigAnswer {
    /// Files of the configuration that was read; later ones override earlier ones.
    pub files: Vec<String>,
    /// Settings in which the files differ from what ran before the request.
    pub differences: Vec<ConfigDifference>,
    /// Whether differences were left out because there are too many.
    pub more: bool,
    /// Links whose bandwidth differs, and what becomes of their reservations.
    pub links: Vec<ConfigLink>,
    /// The settings that await confirmation after the request; `None` if none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingConfig>,
}

/// A setting that differs. Values are shown as they are in the files; secrets are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigDifference {
    /// The key with its table: `daemon.reconcile`, `interface eth0: bandwidth`.
    pub key: String,
    /// The running value; `None` if the default runs.
    pub running: Option<String>,
    /// The value in the files; `None` if no file has it.
    pub file: Option<String>,
    /// File and line of this value, `earmark.toml:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// When the setting takes effect.
    pub effect: ConfigEffect,
}

earmark_core::named_enum! {
    /// When a changed setting takes effect.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum ConfigEffect {
        /// With a reload.
        Reload = "reload",
        /// After the daemon has started again.
        Restart = "restart",
    }
}

/// A link whose bandwidth differs from the running one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigLink {
    /// Interface name.
    pub interface: String,
    /// What happens to the link and its reservations.
    pub effect: LinkEffect,
    /// Bandwidth by the files; `None` if it is unknown.
    pub bandwidth_bps: Option<Rate>,
    /// Reservable bandwidth by the files; `None` if it is unknown.
    pub reservable_bps: Option<Rate>,
    /// Reserved bandwidth now.
    pub held_bps: Rate,
    /// Number of reservations now, adopted ones included.
    pub claims: u32,
}

earmark_core::named_enum! {
    /// What other settings mean for a link and its reservations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum LinkEffect {
        /// All reservations fit.
        Fits = "fits",
        /// The reservations exceed the reservable bandwidth. They stay, and no other is admitted until they fit.
        ExceedsReservable = "exceeds_reservable",
        /// The reservations exceed the bandwidth. They stay, but do not get their rates while all of them send.
        ExceedsBandwidth = "exceeds_bandwidth",
        /// The interface takes part from now on.
        Joins = "joins",
        /// The interface takes part no more once the daemon has started again.
        LeavesAtRestart = "leaves_at_restart",
    }
}

/// Settings that await confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PendingConfig {
    /// Time until the daemon goes back to the earlier settings.
    pub left_ms: u64,
    /// User that has applied the settings.
    pub by: String,
}
