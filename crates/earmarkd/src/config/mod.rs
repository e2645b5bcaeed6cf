//! The daemon's settings: one TOML file, read at start and again on SIGHUP ([`Config::reload`]).
//!
//! [`Config::load`] returns valid settings, or a [`ConfigError`] that names file, line and key and says what to write
//! instead. It does not check whether an interface exists: the daemon waits for interfaces that do not.

mod admission;
mod capacity;
mod core_aggregates;
mod error;
pub(crate) mod file;
mod mark;
mod protocols;
mod reference;
mod reload;
mod services;
pub(crate) mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::{AdmissionMethod, RetryPolicy};
use earmark_linux::Intercept;
use earmark_linux::{Gist, MarkRule, Queues, ServicePlan, Yessir};
use earmark_node::Border;
use earmark_rsvp::integrity::{HandshakeMode, Secured};
use earmark_rsvp::policy as policy_settings;
use earmark_rsvp::{HelloTiming, Reduction, Timing, limits};
use earmark_wire::rsvp::Dscp;
use serde_json::Value;

pub use capacity::{Capacity, Reservable};
pub use error::{ConfigError, Place};
pub use reference::reference;
pub use reload::Reloaded;

pub use crate::protocols::nsis::config::NsisConfig;
pub use crate::protocols::rsvp::keys::KeyFile;

/// An example configuration that explains every setting. `earmarkd config example` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

pub use earmark_control::DEFAULT_SOCKET;

/// All settings of one daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that these settings were read from, and that a reload reads again.
    pub file: Option<PathBuf>,
    /// The node's name for display; by default the host's name.
    pub name: String,
    /// Seed of the random streams; `None` draws one from the system at start.
    pub seed: Option<u64>,
    /// The control socket.
    pub control: Control,
    /// Interfaces that take part, in the order of the file.
    pub interfaces: Vec<InterfaceConfig>,
    /// Timing of RSVP, common to all interfaces.
    pub timing: Timing,
    /// Limits on the state of this node.
    pub limits: Limits,
    /// Refresh reduction of RSVP (RFC 2961).
    pub reduction: Reduction,
    /// Timing of RSVP Hello messages.
    pub hello: HelloTiming,
    /// Signing and verification of messages; `None` if no interface is secured.
    pub integrity: Option<IntegrityConfig>,
    /// Policy: who may reserve how much and where, and which reservations may be preempted.
    pub policy: policy_settings::Settings,
    /// Hosts without RSVP for which this node signals.
    pub proxies: earmark_rsvp::proxy::Settings,
    /// Settings of Boomerang.
    pub boomerang: earmark_boomerang::Config,
    /// Largest part of the reservable rate of a link that the kernel may grant by itself with Boomerang.
    pub boomerang_share: f64,
    /// Settings of YESSIR, including the interfaces on which it measures RTP streams.
    pub yessir: earmark_yessir::Config,
    /// Settings of NSIS.
    pub nsis: NsisConfig,
    /// Settings of the protocols that the program adds, by name.
    pub others: BTreeMap<String, Value>,
    /// Policy for retrying refused requests of YESSIR when bandwidth is released.
    pub retry: RetryPolicy,
    /// Marks of packets, for policy rules that match them.
    pub marks: Vec<MarkRule>,
    /// Whether this host signals inside UDP only (RFC 2205 appendix C).
    pub udp_only: bool,
    /// Whether diagnostic requests about sessions are answered (RFC 2745, `earmark trace`).
    pub diagnostics: bool,
    /// File to record inputs to.
    pub record: Option<PathBuf>,
    /// User to change to once all work that needs root is done; `None` keeps the user that started the daemon.
    pub user: Option<String>,
    /// Whether reserved flows keep their queues when the daemon shuts down cleanly, for its successor to adopt.
    pub keep_reservations_on_exit: bool,
    /// How long the queues are kept if no successor starts, provided that a service manager enforces it.
    pub adoption_time: Duration,
    /// Interval between comparisons of routes and traffic control with their intended state.
    pub reconcile: Duration,
}

/// Limits on the state of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions, and most senders.
    pub max_sessions: u32,
    /// Most senders, and most reservations, of one neighbor.
    pub per_neighbor: Option<u32>,
    /// Most new senders, new reservations and changes of reservations a second that one neighbor may request.
    pub changes_per_second: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        let rsvp = earmark_rsvp::Config::default();
        Limits { max_sessions: rsvp.max_sessions, per_neighbor: None, changes_per_second: None }
    }
}

/// The control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Group that may use the socket besides its owner: a number, or a name of `/etc/group`.
    pub group: Option<String>,
}

/// Signing and verification of messages (RFC 2747).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityConfig {
    /// Path of the key file; see [`KeyFile`].
    pub keys: PathBuf,
    /// Window for messages out of order, in sequence numbers.
    pub window: u16,
    /// Whether new neighbors are challenged.
    pub handshake: HandshakeMode,
}

/// Queueing of reserved packets on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// One class for each reservation, see [`Queues::PerFlow`].
    #[default]
    PerFlow,
    /// One class for all reservations, and one token bucket for each, see [`Queues::Aggregate`].
    Aggregate,
    /// No classes: one token bucket for each reservation, and strict priority in the device's queues, see [`Queues::Priority`].
    Priority,
    /// No traffic control: another program manages the queues, and reservations are only accounted for.
    None,
}

impl Queueing {
    /// The corresponding plan of traffic control; `None` if the interface must be left alone.
    pub fn plan(self) -> Option<Queues> {
        match self {
            Queueing::PerFlow => Some(Queues::PerFlow),
            Queueing::Aggregate => Some(Queues::Aggregate),
            Queueing::Priority => Some(Queues::Priority),
            Queueing::None => None,
        }
    }
}

/// Protocols spoken on an interface; all of them by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    /// RSVP.
    pub rsvp: bool,
    /// Boomerang.
    pub boomerang: bool,
    /// YESSIR.
    pub yessir: bool,
    /// NSIS.
    pub nsis: bool,
}

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols { rsvp: true, boomerang: true, yessir: true, nsis: true }
    }
}

/// One interface that takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceConfig {
    /// Name of the interface in the kernel.
    pub name: String,
    /// Bandwidth of the link, to which traffic control shapes; `None` uses the speed that the link's driver reports.
    pub bandwidth: Option<Rate>,
    /// The part of the bandwidth that may be reserved.
    pub reservable: Reservable,
    /// Minimum latency of the link, microseconds (RFC 2215 section 3.4).
    pub latency_us: u32,
    /// Traffic classes to create in advance; up to this number, reservations create none.
    pub classes: u32,
    /// Limit of the best-effort queue, packets.
    pub queue_packets: u32,
    /// Queueing of reserved packets.
    pub queues: Queueing,
    /// Admission control of the link.
    pub admission: AdmissionMethod,
    /// Rates for packets with certain DSCPs that are not reserved for, in the order of service.
    pub services: Vec<ServicePlan>,
    /// Directions in which messages are signed and verified; `None` for neither.
    pub integrity: Option<Secured>,
    /// Protocols spoken on the interface.
    pub protocols: Protocols,
    /// Which messages of RSVP are intercepted.
    pub intercept: Intercept,
    /// Which messages of YESSIR are intercepted, if the interface speaks it.
    pub yessir: Yessir,
    /// Which messages of GIST are intercepted, if the interface speaks NSIS.
    pub gist: Gist,
    /// Whether incoming RTP streams whose senders do not use YESSIR are measured and reserved for.
    pub measure_rtp: bool,
    /// Whether hosts behind the interface signal inside UDP (RFC 2205 appendix C).
    pub udp_encapsulation: bool,
    /// Accepted neighbors, largest reservation and overhead of the interface.
    pub limits: limits::Interface,
    /// DSCPs that senders behind the interface are told to set (RFC 2996).
    pub dscp: Vec<Dscp>,
    /// The core that the interface faces, with the aggregates across it.
    pub border: Option<Border>,
    /// Place of the interface in the file; `None` for settings without a file.
    pub place: Option<Place>,
}

impl InterfaceConfig {
    /// An interface with the file's defaults: three quarters reservable, 256 classes, a queue of 50 packets.
    pub fn new(name: impl Into<String>, bandwidth: Rate) -> InterfaceConfig {
        InterfaceConfig {
            name: name.into(),
            bandwidth: Some(bandwidth),
            reservable: Reservable::Share(0.75),
            latency_us: 0,
            classes: 256,
            queue_packets: 50,
            queues: Queueing::PerFlow,
            admission: AdmissionMethod::Parameter,
            services: Vec::new(),
            integrity: None,
            protocols: Protocols::default(),
            intercept: Intercept::RouterAlert,
            yessir: Yessir::RouterAlert,
            gist: Gist::RouterAlert,
            measure_rtp: false,
            udp_encapsulation: false,
            limits: limits::Interface::default(),
            dscp: Vec::new(),
            border: None,
            place: None,
        }
    }
}

impl Config {
    /// Settings with every default and without interfaces, for a daemon that serves `socket`.
    pub fn new(name: impl Into<String>, socket: impl Into<PathBuf>) -> Config {
        Config {
            file: None,
            name: name.into(),
            seed: None,
            control: Control { socket: socket.into(), group: None },
            interfaces: Vec::new(),
            timing: Timing::default(),
            limits: Limits::default(),
            policy: policy_settings::Settings::default(),
            proxies: earmark_rsvp::proxy::Settings::default(),
            reduction: Reduction::default(),
            hello: HelloTiming::default(),
            integrity: None,
            boomerang: earmark_boomerang::Config::default(),
            boomerang_share: 0.0,
            yessir: earmark_yessir::Config::default(),
            nsis: NsisConfig::default(),
            others: BTreeMap::new(),
            retry: RetryPolicy::default(),
            marks: Vec::new(),
            udp_only: false,
            diagnostics: true,
            record: None,
            user: None,
            keep_reservations_on_exit: true,
            adoption_time: Duration::from_secs(180),
            reconcile: Duration::from_secs(30),
        }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or contains an invalid value.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        let config = Config::parse(&text, path)?;
        Ok(Config { file: Some(path.to_owned()), ..config })
    }

    /// Parses the text of a configuration file; `path` appears in the errors only.
    ///
    /// # Errors
    /// The errors of [`Config::load`], except for access to the file.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        file::parse(text, path)
    }

    /// Reads the key file, if one is configured.
    ///
    /// # Errors
    /// The errors of [`KeyFile::load`].
    pub fn load_keys(&self) -> Result<Option<KeyFile>, ConfigError> {
        self.integrity.as_ref().map(|integrity| KeyFile::load(&integrity.keys)).transpose()
    }

    /// Lifetime of state that is not refreshed, by this node's own timing: L = (K + 0.5) * 1.5 * R
    /// (RFC 2205 section 3.7). Adopted reservations of an earlier daemon are kept as long.
    pub fn lifetime(&self) -> Duration {
        self.timing.lifetime(u32::try_from(self.timing.refresh.as_millis()).unwrap_or(u32::MAX))
    }
}
