//! The TOML file: its general tables. The protocols read theirs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::files::Files;
use super::history::HistoryTable;
use super::interface_table::InterfaceTable;
use super::mark::MarkTable;
use super::read_files::{cannot_include, read_files};
use super::source::Source;
use super::table::{INCLUDE, Owners, Table};
use super::web::WebTable;
use super::{Config, ConfigError, Control, DEFAULT_SOCKET, Place};
use crate::metrics::MetricsSettings;
use crate::protocol::{Protocol, Tables};
use crate::protocols;
use crate::syscall_filter::SyscallFilter;

/// The general tables and keys.
const TABLES: [&str; 10] = [
    INCLUDE, "node", "control", "metrics", "web", "history", INTERFACE, "mark", "protocol",
    "daemon",
];
const INTERFACE: &str = "interface";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    node: NodeTable,
    #[serde(default)]
    control: ControlTable,
    #[serde(default)]
    metrics: MetricsTable,
    #[serde(default)]
    web: WebTable,
    #[serde(default)]
    history: HistoryTable,
    #[serde(default)]
    mark: Vec<MarkTable>,
    #[serde(default)]
    protocol: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    daemon: DaemonTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: Option<Spanned<String>>,
    seed: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlTable {
    socket: Option<Spanned<PathBuf>>,
    group: Option<Spanned<String>>,
    readers: Option<Spanned<String>>,
    idle_timeout: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsTable {
    address: Option<Spanned<String>>,
    reservations: Option<Spanned<usize>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DaemonTable {
    record: Option<Spanned<PathBuf>>,
    user: Option<Spanned<String>>,
    #[serde(default)]
    syscall_filter: SyscallFilter,
    keep_reservations_on_exit: Option<bool>,
    adoption_time: Option<Spanned<String>>,
    reconcile: Option<Spanned<String>>,
}

/// Longest path of the control socket: `sun_path` of Linux has 108 octets with its terminator, and the daemon binds a
/// temporary name that is a little longer.
const MAX_SOCKET_PATH: usize = 90;

/// Most reservations with series of their own: the kernel is asked about each at every scrape.
const MOST_RESERVATIONS: usize = 1_000;

/// Longest name of a node, user or group, octets.
const MAX_NAME: usize = 255;

/// Longest path, octets (`PATH_MAX` of Linux without its terminator).
const MAX_PATH: usize = 4_095;

impl Config {
    /// Reads a configuration file, the files that it includes, and its drop-ins.
    ///
    /// # Errors
    /// A file cannot be read, is not TOML, or contains an invalid value; or others may use a file with secrets.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let (files, metadata) = read_files(path)?;
        let (config, secrets) = Config::of_files(&files)?;
        let config = Config { file: Some(path.to_owned()), files, ..config };
        let secrets = secrets.into_iter().zip(metadata);
        let secrets: Vec<_> =
            secrets.filter_map(|(place, metadata)| Some((place?, metadata))).collect();
        config.check_secret_files(&secrets)?;
        Ok(config)
    }

    /// Reads the texts of a configuration file and of those that belong to it.
    ///
    /// # Errors
    /// A file cannot be read, or is not TOML.
    pub(crate) fn read_files(path: &Path) -> Result<Files, ConfigError> {
        read_files(path).map(|(files, _)| files)
    }

    /// Parses the texts of files that were read before.
    ///
    /// # Errors
    /// The errors of [`Config::load`], except for access to the files.
    pub(crate) fn parse_files(file: PathBuf, files: Files) -> Result<Config, ConfigError> {
        let (config, _) = Config::of_files(&files)?;
        Ok(Config { file: Some(file), files, ..config })
    }

    /// Reads the texts of files. Returns the settings and, for each file, the place of its first secret.
    fn of_files(files: &Files) -> Result<(Config, Vec<Option<Place>>), ConfigError> {
        let (text, parts) = files.joined();
        let source = Source::of_files(&text, &parts);
        let (table, secrets) = Table::of_files(&source)?;
        Ok((Config::of(table, &source)?, secrets))
    }

    /// Parses the text of a configuration file; `path` appears in the errors only.
    ///
    /// # Errors
    /// The errors of [`Config::load`], except for access to the file. A text cannot include files.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let source = Source::new(text, path);
        let mut table = Table::parse(text, &source)?;
        match table.take(INCLUDE) {
            Some(include) => Err(cannot_include(&include, &source)),
            None => Config::of(table, &source),
        }
    }

    fn of(table: Table<'_>, source: &Source<'_>) -> Result<Config, ConfigError> {
        let protocols: Vec<&dyn Protocol> = protocols::all().collect();
        let owners = Owners::new(&TABLES, protocols.iter().map(|protocol| protocol.tables()));
        let (mut general, parts) = owners.divide(table, source)?;
        let interfaces = general.take_tables::<InterfaceTable>(INTERFACE, source)?;
        let file: File = general.read(source)?;
        let mut tables: Vec<Box<dyn Tables>> = Vec::with_capacity(protocols.len());
        let mut only = None;
        for (protocol, part) in protocols.iter().zip(parts) {
            let read = protocol.reader()(part, source)?;
            only = only.or(read.excludes_others().map(|why| (protocol.name(), why)));
            tables.push(read);
        }
        let mut config = source.general(file)?;
        config.interfaces = source.interfaces(interfaces, only)?;
        for tables in tables {
            tables.set(source, &mut config)?;
        }
        Ok(config)
    }
}

impl Source<'_> {
    /// Reads the general tables.
    fn general(&self, file: File) -> Result<Config, ConfigError> {
        let name = match file.node.name {
            Some(name) if name.get_ref().is_empty() => {
                return Err(self.error(
                    name.span(),
                    "the name is empty",
                    "leave the key out to use the host's name",
                ));
            }
            Some(name) => self.name(name)?,
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        };
        let control = self.control(file.control)?;
        let history = self.history(file.history, &control.socket)?;
        let defaults = Config::new(name, control.socket.clone());
        Ok(Config {
            seed: file.node.seed,
            control,
            metrics: self.metrics(file.metrics)?,
            web: self.web(file.web)?,
            history,
            others: self.others(file.protocol)?,
            marks: self.marks(&file.mark)?,
            record: file.daemon.record.map(|path| self.path(path)).transpose()?,
            user: file.daemon.user.map(|name| self.name(name)).transpose()?,
            syscall_filter: file.daemon.syscall_filter,
            keep_reservations_on_exit: file.daemon.keep_reservations_on_exit.unwrap_or(true),
            adoption_time: self.duration(
                file.daemon.adoption_time.as_ref(),
                Duration::from_secs(1)..=Duration::from_secs(24 * 3_600),
                defaults.adoption_time,
                "\"3min\" is usual; from 1s to a day (1440min) are possible; keep_reservations_on_exit = false keeps nothing",
            )?,
            reconcile: self.duration(
                file.daemon.reconcile.as_ref(),
                Duration::from_millis(100)..=Duration::from_secs(3_600),
                defaults.reconcile,
                "\"30s\" is usual; from 100ms to 1 hour (60min) are possible",
            )?,
            ..defaults
        })
    }

    /// Reads the tables of the protocols that the program adds.
    fn others(
        &self,
        tables: BTreeMap<String, Spanned<Value>>,
    ) -> Result<BTreeMap<String, Value>, ConfigError> {
        let mut others = BTreeMap::new();
        for (name, table) in tables {
            let added = protocols::find(&name).filter(|protocol| protocol.engine().is_some());
            let checked = match added {
                Some(protocol) => protocol.check_settings(table.get_ref()),
                None => Err(format!("this program adds no protocol {name:?}")),
            };
            checked.map_err(|message| {
                let hint = "[protocol.NAME] has the settings of a protocol that the program adds";
                self.error(table.span(), message, hint)
            })?;
            others.insert(name, table.into_inner());
        }
        Ok(others)
    }

    fn control(&self, table: ControlTable) -> Result<Control, ConfigError> {
        if let Some(socket) = &table.socket {
            self.socket_path(socket.span(), socket.get_ref())?;
        }
        let socket: PathBuf =
            table.socket.map_or_else(|| DEFAULT_SOCKET.into(), Spanned::into_inner);
        let defaults = Control::new(socket);
        Ok(Control {
            group: table.group.map(|name| self.name(name)).transpose()?,
            readers: table.readers.map(|name| self.name(name)).transpose()?,
            idle_timeout: self.duration(
                table.idle_timeout.as_ref(),
                Duration::from_secs(1)..=Duration::from_secs(24 * 3_600),
                defaults.idle_timeout,
                "\"60s\" is usual; from 1s to a day (1440min) are possible",
            )?,
            ..defaults
        })
    }

    /// Checks that a path is short enough for a socket.
    pub(super) fn socket_path(&self, span: Range<usize>, path: &Path) -> Result<(), ConfigError> {
        match path.as_os_str().len() {
            1..=MAX_SOCKET_PATH => Ok(()),
            length => Err(self.error(
                span,
                format!("a socket's path has 1 to {MAX_SOCKET_PATH} octets, this one has {length}"),
                "a short path such as /run/earmark/control.sock",
            )),
        }
    }

    fn metrics(&self, table: MetricsTable) -> Result<Option<MetricsSettings>, ConfigError> {
        let reservations = table.reservations.as_ref().map_or(0, |number| *number.get_ref());
        if let Some(number) = table.reservations
            && *number.get_ref() > MOST_RESERVATIONS
        {
            return Err(self.error(
                number.span(),
                format!("{} reservations are too many", number.get_ref()),
                format!("0 to {MOST_RESERVATIONS}; `earmark show reservations` lists them all"),
            ));
        }
        let hint = "an address and a port: \"127.0.0.1:9470\" or \"[::1]:9470\"";
        let address = table.address.map(|address| self.read(&address, hint)).transpose()?;
        Ok(address.map(|address| MetricsSettings { address, reservations }))
    }

    /// Returns the name of a node, user or group: names appear in the log.
    fn name(&self, name: Spanned<String>) -> Result<String, ConfigError> {
        match name.get_ref().len() {
            0..=MAX_NAME => Ok(name.into_inner()),
            length => Err(self.error(
                name.span(),
                format!("the name has {length} octets"),
                format!("at most {MAX_NAME} octets"),
            )),
        }
    }

    pub(super) fn path(&self, path: Spanned<PathBuf>) -> Result<PathBuf, ConfigError> {
        match path.get_ref().as_os_str().len() {
            0..=MAX_PATH => Ok(path.into_inner()),
            length => Err(self.error(
                path.span(),
                format!("the path has {length} octets"),
                format!("at most {MAX_PATH} octets, as Linux allows"),
            )),
        }
    }
}

#[cfg(test)]
#[path = "large_input_tests.rs"]
mod large_input_tests;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
