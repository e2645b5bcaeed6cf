//! All settings of one daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use earmark_core::keys::Directions;
use earmark_linux::MarkRule;
use earmark_token::Issuer;
use jiff::Timestamp;
use serde_json::Value;

use super::files::Files;
use super::interface::InterfaceConfig;
use super::protocol_settings::ProtocolSettings;
use crate::history::HistorySettings;
use crate::metrics::MetricsSettings;
use crate::syscall_filter::SyscallFilter;
use crate::wall_clock::since_1970;
use crate::web::WebSettings;

/// All settings of one daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file that these settings were read from, and that a reload reads again.
    pub file: Option<PathBuf>,
    /// The texts of this file and of those that belong to it; without any if these settings were not read from a file.
    pub files: Files,
    /// Directory for an earlier configuration while another awaits confirmation; `None` if the daemon writes none.
    pub state_directory: Option<PathBuf>,
    /// The node's name for display; by default the host's name.
    pub name: String,
    /// Seed of the random streams; `None` draws one from the system at start.
    pub seed: Option<u64>,
    /// The control socket.
    pub control: Control,
    /// The endpoint of metrics; `None` if there is none.
    pub metrics: Option<MetricsSettings>,
    /// The web page; `None` if there is none.
    pub web: Option<WebSettings>,
    /// Accounting records; `None` if there are none.
    pub history: Option<HistorySettings>,
    /// Interfaces that take part, in the order of the file.
    pub interfaces: Vec<InterfaceConfig>,
    /// Settings of the protocols, each by its own type.
    pub settings: ProtocolSettings,
    /// Settings of the protocols that the program adds, by name.
    pub others: BTreeMap<String, Value>,
    /// Path of the key file of all protocols; see [`KeyFile`](crate::key_file::KeyFile).
    pub keys: Option<PathBuf>,
    /// Providers whose tokens prove names, for all protocols.
    pub issuers: Vec<Issuer>,
    /// Limit of tokens in one second that an engine verifies for the requests through one access interface.
    pub verifications_per_second: u32,
    /// Marks of packets, for policy rules that match them.
    pub marks: Vec<MarkRule>,
    /// File to record inputs to.
    pub record: Option<PathBuf>,
    /// Whether the secret seed is written beside the recording, for an exact replay.
    pub record_secrets: bool,
    /// User to change to once all work that needs root is done; `None` keeps the user that started the daemon.
    pub user: Option<String>,
    /// What happens at a system call that the daemon never needs once it serves.
    pub syscall_filter: SyscallFilter,
    /// Whether reserved flows keep their queues when the daemon shuts down cleanly, for its successor to adopt.
    pub keep_reservations_on_exit: bool,
    /// How long the queues are kept if no successor starts, provided that a service manager enforces it.
    pub adoption_time: Duration,
    /// Interval between comparisons of routes and traffic control with their intended state.
    pub reconcile: Duration,
}

/// The control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Group that may use the socket besides its owner: a number, or a name of `/etc/group`.
    pub group: Option<String>,
    /// Group that may list and watch, but change nothing; `None` lets only those use the socket who may change everything.
    pub readers: Option<String>,
    /// Time without a request after which a connection without an application, a trace or a watch is closed.
    pub idle_timeout: Duration,
}

impl Control {
    /// The socket at a path, with every other default.
    pub fn new(socket: impl Into<PathBuf>) -> Control {
        let idle_timeout = Duration::from_secs(60);
        Control { socket: socket.into(), group: None, readers: None, idle_timeout }
    }
}

impl Config {
    /// Settings with every default and without interfaces, for a daemon that serves `socket`.
    pub fn new(name: impl Into<String>, socket: impl Into<PathBuf>) -> Config {
        Config {
            file: None,
            files: Files::default(),
            state_directory: None,
            name: name.into(),
            seed: None,
            control: Control::new(socket),
            metrics: None,
            web: None,
            history: None,
            interfaces: Vec::new(),
            settings: ProtocolSettings::default(),
            others: BTreeMap::new(),
            keys: None,
            issuers: Vec::new(),
            verifications_per_second: earmark_token::Settings::default().verifications_per_second,
            marks: Vec::new(),
            record: None,
            record_secrets: false,
            user: None,
            syscall_filter: SyscallFilter::default(),
            keep_reservations_on_exit: true,
            adoption_time: Duration::from_secs(180),
            reconcile: Duration::from_secs(30),
        }
    }

    /// Returns the interfaces by name where messages of a protocol are signed or verified.
    pub(crate) fn secured(&self, protocol: &str) -> BTreeMap<String, Directions> {
        let secured = |interface: &InterfaceConfig| {
            Some((interface.name.clone(), *interface.integrity.get(protocol)?))
        };
        self.interfaces.iter().filter_map(secured).collect()
    }

    /// Returns the settings for tokens of an engine whose clock starts at `origin`.
    pub(crate) fn tokens(&self, origin: Timestamp) -> earmark_token::Settings {
        earmark_token::Settings {
            issuers: self.issuers.clone(),
            router: self.name.clone(),
            wall_clock: since_1970(origin),
            verifications_per_second: self.verifications_per_second,
        }
    }
}
