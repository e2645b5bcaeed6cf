//! Settings: the address of the page, and the routers.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use earmark_core::amounts::parse_duration;
use hyper::Uri;
use serde::Deserialize;

use crate::metrics::MAX_LINKS;
use crate::metrics_url::{MetricsUrl, UrlError};

/// Most routers.
pub const MAX_ROUTERS: usize = 500;
/// Most links of all routers together that are kept.
const MAX_ALL_LINKS: usize = 32_768;
/// Longest name of a router, characters.
const LONGEST_NAME: usize = 64;
/// Largest file, octets.
const LARGEST_FILE: u64 = 1024 * 1024;
/// Shortest and longest interval.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
/// Shortest timeout.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

/// Address of the page by default.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9_490);
/// Interval by default.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout by default.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("{} exceeds {LARGEST_FILE} octets", .0.display())]
    TooLarge(PathBuf),
    /// The file is no TOML, or has an unknown key or a value of another type.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Place and mistake.
        source: Box<toml::de::Error>,
    },
    /// A setting has no valid value.
    #[error("{key}: {problem}")]
    Setting {
        /// Name of the setting.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
}

/// A router to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// Name on the page.
    pub name: String,
    /// Address of its metrics.
    pub metrics: MetricsUrl,
    /// Address of its own page.
    pub page: Option<String>,
}

/// Valid settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Address of the page.
    pub listen: SocketAddr,
    /// Interval at which each router is scraped.
    pub interval: Duration,
    /// Time that a router has for its whole answer.
    pub timeout: Duration,
    /// The routers.
    pub routers: Vec<RouterSettings>,
}

/// Settings as the file has them, before their check.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UncheckedConfig {
    /// Address of the page.
    pub listen: SocketAddr,
    /// Whether other hosts may reach the page.
    pub allow_remote: bool,
    /// Interval.
    #[serde(deserialize_with = "duration")]
    pub interval: Duration,
    /// Timeout.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// The routers.
    #[serde(rename = "router")]
    pub routers: Vec<UncheckedRouter>,
}

/// A router as the file has it, before its check.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UncheckedRouter {
    /// Name on the page.
    pub name: String,
    /// Address of its metrics.
    pub metrics: String,
    /// Address of its own page.
    pub page: Option<String>,
}

/// A router as an argument has it, `NAME=URL`.
impl FromStr for UncheckedRouter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<UncheckedRouter, &'static str> {
        let (name, metrics) =
            text.split_once('=').ok_or("no name; write NAME=http://ADDRESS:9470/metrics")?;
        Ok(UncheckedRouter { name: name.to_owned(), metrics: metrics.to_owned(), page: None })
    }
}

impl Default for UncheckedConfig {
    fn default() -> UncheckedConfig {
        UncheckedConfig {
            listen: DEFAULT_LISTEN,
            allow_remote: false,
            interval: DEFAULT_INTERVAL,
            timeout: DEFAULT_TIMEOUT,
            routers: Vec::new(),
        }
    }
}

fn duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn setting(key: impl Into<String>, problem: impl fmt::Display) -> ConfigError {
    ConfigError::Setting { key: key.into(), problem: problem.to_string() }
}

impl UncheckedConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no TOML with these keys.
    pub fn read(path: &Path) -> Result<UncheckedConfig, ConfigError> {
        use std::io::Read;
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LARGEST_FILE {
            return Err(ConfigError::TooLarge(path.to_owned()));
        }
        toml::from_str(&text)
            .map_err(|error| ConfigError::Parse { path: path.to_owned(), source: Box::new(error) })
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// A setting has no valid value.
    pub fn check(self) -> Result<Config, ConfigError> {
        if !self.listen.ip().is_loopback() && !self.allow_remote {
            return Err(setting(
                "listen",
                format!(
                    "{} can be reached by other hosts, and the page has no password; help: use 127.0.0.1, or set allow_remote behind a firewall",
                    self.listen
                ),
            ));
        }
        let (shortest, longest) = INTERVALS;
        if !(shortest..=longest).contains(&self.interval) {
            return Err(setting("interval", "out of range; help: 1s to 1h"));
        }
        if !(SHORTEST_TIMEOUT..=self.interval).contains(&self.timeout) {
            return Err(setting("timeout", "out of range; help: 10ms up to the interval"));
        }
        if self.routers.is_empty() {
            return Err(setting(
                "router",
                "no router; help: add a table [[router]] with name and metrics, or --router NAME=URL",
            ));
        }
        if self.routers.len() > MAX_ROUTERS {
            let problem = format!(
                "{} routers exceed {MAX_ROUTERS}; help: run a second program",
                self.routers.len()
            );
            return Err(setting("router", problem));
        }
        let mut names = BTreeSet::new();
        let mut routers = Vec::with_capacity(self.routers.len());
        for router in self.routers {
            if !names.insert(router.name.clone()) {
                let problem = "two routers have this name; help: rename one";
                return Err(setting(format!("router {:?}", router.name), problem));
            }
            routers.push(router.check()?);
        }
        let (listen, interval, timeout) = (self.listen, self.interval, self.timeout);
        Ok(Config { listen, interval, timeout, routers })
    }
}

impl UncheckedRouter {
    fn check(self) -> Result<RouterSettings, ConfigError> {
        let key = |name: &str| format!("router {:?}: {name}", self.name);
        let length = self.name.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || self.name.chars().any(char::is_control) {
            let problem = format!("no name; help: 1 to {LONGEST_NAME} characters in one line");
            return Err(setting(key("name"), problem));
        }
        let metrics =
            self.metrics.parse().map_err(|error: UrlError| setting(key("metrics"), error))?;
        if let Some(page) = &self.page {
            let uri = page.parse::<Uri>().ok();
            let scheme = uri.as_ref().and_then(Uri::scheme_str);
            if !matches!(scheme, Some("http" | "https")) {
                let problem = "no URL; help: write http://ADDRESS:9480/, the page of the daemon";
                return Err(setting(key("page"), problem));
            }
        }
        Ok(RouterSettings { name: self.name, metrics, page: self.page })
    }
}

impl Config {
    /// Returns the number of links of each router that are kept.
    pub fn max_links(&self) -> usize {
        MAX_LINKS.min(MAX_ALL_LINKS / self.routers.len().max(1))
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
