//! The daemon's settings: one TOML file, read at start, and again on SIGHUP ([`Config::renew`]).
//!
//! [`Config::load`] either gives settings that make sense, or a [`ConfigError`] that names file, line and key and says
//! what to write instead. Whether an interface exists is no matter of the settings: the daemon waits for one that does not.

mod across;
mod capacity;
mod error;
mod exchange;
mod file;
mod keys;
mod light;
mod mark;
mod nsis;
mod policy;
mod proxy;
mod renewal;
mod services;
mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::RetryPolicy;
use earmark_linux::Intercept;
use earmark_linux::{Gist, MarkRule, Queues, ServicePlan, Yessir};
use earmark_node::Border;
use earmark_rsvp::integrity::{HandshakeMode, Secured};
use earmark_rsvp::policy as policy_settings;
use earmark_rsvp::{HelloTiming, Reduction, Timing, limits};
use earmark_wire::rsvp::Dscp;

pub use capacity::{Capacity, Reservable};
pub use error::{ConfigError, Place};
pub use keys::KeyFile;
pub use nsis::NsisConfig;
pub use renewal::Renewed;

/// A configuration to start from, with every setting explained. `earmark config example` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Where the control socket is unless somebody says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/earmark/control.sock";

/// All settings of one daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that says all this, to be read again when the daemon is told to.
    pub file: Option<PathBuf>,
    /// The node's name, for people; the host's name by default.
    pub name: String,
    /// Where the random streams start; drawn from the system at start where there is none.
    pub seed: Option<u64>,
    /// The control socket.
    pub control: Control,
    /// The interfaces that take part, in the order of the file.
    pub interfaces: Vec<InterfaceConfig>,
    /// RSVP's timing, the same on all interfaces.
    pub timing: Timing,
    /// How much work this node takes on.
    pub limits: Limits,
    /// How RSVP keeps state alive between neighbours that can do better than repeat it.
    pub reduction: Reduction,
    /// How RSVP watches its neighbours.
    pub hello: HelloTiming,
    /// How messages are signed and verified, where interfaces are secured.
    pub integrity: Option<IntegrityConfig>,
    /// Who may reserve how much and where, and who gives way to whom.
    pub policy: policy_settings::Settings,
    /// For whom this node speaks.
    pub proxies: earmark_rsvp::proxy::Settings,
    /// Settings of Boomerang.
    pub boomerang: earmark_boomerang::Config,
    /// The most of what can be reserved on a link that the kernel is lent for Boomerang, as a part of it.
    pub boomerang_share: f64,
    /// Settings of YESSIR; the interfaces that it measures are in theirs.
    pub yessir: earmark_yessir::Config,
    /// Settings of NSIS.
    pub nsis: NsisConfig,
    /// How eagerly YESSIR takes what others give back.
    pub retry: RetryPolicy,
    /// The marks of packets, for policy rules that look at them.
    pub marks: Vec<MarkRule>,
    /// Whether this is a host that signals inside UDP only (RFC 2205 appendix C).
    pub udp_only: bool,
    /// Whether the questions of others about sessions are answered (RFC 2745, `earmark trace`).
    pub diagnostics: bool,
    /// The file to record inputs into.
    pub record: Option<PathBuf>,
    /// The user to become when everything that needs root is done; the one it was started as where there is none.
    pub user: Option<String>,
    /// Whether reserved flows keep their queues when the daemon stops in good order, for its successor to adopt.
    pub keep_reservations_on_exit: bool,
    /// For how long they keep them if no successor comes, where a service manager sees to that.
    pub adoption_time: Duration,
    /// How often routes and traffic control are compared with what they should be.
    pub reconcile: Duration,
}

/// How much work this node takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions, and most senders.
    pub max_sessions: u32,
    /// Most senders, and most reservations, of one neighbour.
    pub per_neighbor: Option<u32>,
    /// Most new senders and reservations, and changes of reservations, that one neighbour may ask for in a second.
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
    /// Its path.
    pub socket: PathBuf,
    /// The group that may use it beside its owner: a number, or a name of `/etc/group`.
    pub group: Option<String>,
}

/// How messages are signed and verified (RFC 2747).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityConfig {
    /// The file with the keys; see [`KeyFile`].
    pub keys: PathBuf,
    /// How many places a message may be late.
    pub window: u16,
    /// Whether new neighbours are challenged.
    pub handshake: HandshakeMode,
}

/// How the kernel keeps the packets of reservations apart on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// A class each, see [`Queues::PerFlow`].
    #[default]
    PerFlow,
    /// One class together, and a token bucket each, see [`Queues::Aggregate`].
    Aggregate,
    /// No classes: a token bucket each, and strict priority in the device's own queues, see [`Queues::Priority`].
    Priority,
    /// Not at all: somebody else manages the queues, and reservations are only kept account of.
    None,
}

impl Queueing {
    /// The same for traffic control; `None` where that must leave the interface alone.
    pub fn plan(self) -> Option<Queues> {
        match self {
            Queueing::PerFlow => Some(Queues::PerFlow),
            Queueing::Aggregate => Some(Queues::Aggregate),
            Queueing::Priority => Some(Queues::Priority),
            Queueing::None => None,
        }
    }
}

/// Which protocols are spoken through an interface; all of them unless the file says otherwise.
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
    /// The kernel's name of it.
    pub name: String,
    /// Bandwidth of the link; traffic control shapes to it. The speed that the link's driver tells where there is none.
    pub bandwidth: Option<Rate>,
    /// The part of it that may be reserved.
    pub reservable: Reservable,
    /// Smallest latency of the link, microseconds (RFC 2215 section 3.4).
    pub latency_us: u32,
    /// Traffic classes to make in advance: so many reservations cost nothing extra.
    pub classes: u32,
    /// Packets that best effort may queue.
    pub queue_packets: u32,
    /// How the kernel keeps the packets of reservations apart.
    pub queues: Queueing,
    /// Rates for packets with certain DSCPs that nobody has reserved for, the first one served first.
    pub services: Vec<ServicePlan>,
    /// In which directions messages are signed and verified; `None` for neither.
    pub integrity: Option<Secured>,
    /// Which protocols are spoken through it.
    pub protocols: Protocols,
    /// Which messages of RSVP are taken out of what arrives.
    pub intercept: Intercept,
    /// Which messages of YESSIR are, where that is spoken.
    pub yessir: Yessir,
    /// Which messages of GIST are, where NSIS is spoken.
    pub gist: Gist,
    /// Whether RTP streams whose senders know nothing of YESSIR are measured when they come in, and reserved for.
    pub measure_rtp: bool,
    /// Whether hosts behind it signal inside UDP (RFC 2205 appendix C).
    pub udp_encapsulation: bool,
    /// To whom this node listens there, and how much one reservation may have and claims.
    pub limits: limits::Interface,
    /// What senders behind it shall mark their packets with (RFC 2996).
    pub dscp: Vec<Dscp>,
    /// Whether it faces a core, and what crosses that in aggregates.
    pub border: Option<Border>,
    /// Where the file says so; `None` in settings that come from no file.
    pub place: Option<Place>,
}

impl InterfaceConfig {
    /// An interface as the file's defaults have it: three quarters reservable, 256 classes, queue of 50 packets.
    pub fn new(name: impl Into<String>, bandwidth: Rate) -> InterfaceConfig {
        InterfaceConfig {
            name: name.into(),
            bandwidth: Some(bandwidth),
            reservable: Reservable::Share(0.75),
            latency_us: 0,
            classes: 256,
            queue_packets: 50,
            queues: Queueing::PerFlow,
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
    /// Settings with every default, for a daemon that serves `socket`; interfaces are for the caller to add.
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

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or says something that cannot be.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        let config = Config::parse(&text, path)?;
        Ok(Config { file: Some(path.to_owned()), ..config })
    }

    /// Reads a text; `path` only serves the errors.
    ///
    /// # Errors
    /// As of [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        file::parse(text, path)
    }

    /// Reads the key file, if there is one.
    ///
    /// # Errors
    /// As of [`KeyFile::load`].
    pub fn load_keys(&self) -> Result<Option<KeyFile>, ConfigError> {
        self.integrity.as_ref().map(|integrity| KeyFile::load(&integrity.keys)).transpose()
    }

    /// How long state lives that nobody refreshes, by this node's own timing: L = (K + 0.5) * 1.5 * R
    /// (RFC 2205 section 3.7). What a dead daemon left behind is kept for as long.
    pub fn lifetime(&self) -> Duration {
        self.timing.lifetime(u32::try_from(self.timing.refresh.as_millis()).unwrap_or(u32::MAX))
    }
}
