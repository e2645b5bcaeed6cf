//! The daemon's settings: one TOML file, read at start and again on SIGHUP ([`Config::reload`]).
//!
//! [`Config::load`] returns valid settings, or a [`ConfigError`] that names file, line and key and says what to write
//! instead. It does not check whether an interface exists: the daemon waits for interfaces that do not.
//!
//! `file` reads the general tables and `interface_table` the general keys of an interface; each protocol reads its own
//! ([`crate::protocol::ProtocolConfig`]).

mod admission;
mod capacity;
mod core_aggregates;
mod error;
mod file;
mod files;
mod history;
mod integrity;
mod interface;
mod interface_table;
mod issuer;
mod mark;
mod merge;
mod protocol_settings;
mod protocols;
mod read_files;
mod read_text;
mod reference;
mod reload;
pub(crate) mod secret_file;
mod services;
mod settings;
mod share;
mod source;
mod table;
mod values;
mod web;

pub use capacity::Capacity;
pub use error::{ConfigError, Place};
pub use files::Files;
pub(crate) use integrity::InKeyFile;
pub use interface::{InterfaceConfig, Queueing, Reservable};
pub(crate) use issuer::IssuerTable;
pub use protocol_settings::{ProtocolSettings, Settings};
pub use read_files::drop_in_directory;
pub use reference::{Block, Line, blocks, reference};
pub use reload::Reloaded;
pub use secret_file::SecretFileError;
pub(crate) use secret_file::{read_own, read_private};
pub use settings::{Config, Control};
pub(crate) use share::Share;
pub use source::Source;
pub(crate) use source::{LineOfKey, USER_NAME};
pub use table::{Keys, Table};
pub(crate) use values::{Value, Values};

/// An example configuration that explains every setting. `earmarkd config example` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

pub use crate::history::HistorySettings;
pub use crate::metrics::MetricsSettings;
pub use crate::web::{WebAddress, WebSettings};
pub use earmark_control::DEFAULT_SOCKET;
