//! The key file: the secrets shared with neighbors and users, for all protocols. It is separate from the other settings so
//! that those can be published.
//!
//! The file is refused if anybody but its owner may read it, and no error message quotes a line with a secret. Each protocol
//! takes its keys from here ([`SigningKeys`]).

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use earmark_core::keys::{Algorithm, Directions, KeyUse};
use earmark_core::{Secret, Time};
use earmark_node::{Command, NodeConfig};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::config::{Config, ConfigError, Source, secret_file};
use crate::protocol::{Protocol, SigningKeys};
use crate::protocols;

/// Keys of a file, with their lifetimes by the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFile {
    keys: Vec<FileKey>,
}

/// One key of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileKey {
    /// Number of the key.
    pub id: u64,
    /// Digest algorithm.
    pub algorithm: Algorithm,
    /// The shared secret.
    pub secret: Secret,
    /// User whose key it is, for protocols with users.
    pub user: Option<String>,
    /// Names of the protocols that use the key.
    pub protocols: Vec<&'static str>,
    /// Direction of use.
    pub purpose: Directions,
    /// Names of the interfaces where the key is used; all if empty.
    pub interfaces: Vec<String>,
    /// Addresses of the neighbors that share the key, for protocols with neighbors; all if empty.
    pub neighbors: Vec<IpAddr>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Spanned<KeyTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTable {
    id: Spanned<u64>,
    algorithm: Algorithm,
    secret: Option<SecretText>,
    secret_hex: Option<SecretText>,
    protocols: Option<Vec<Spanned<String>>>,
    user: Option<String>,
    #[serde(default)]
    purpose: Directions,
    start: Option<Spanned<toml::value::Datetime>>,
    end: Option<Spanned<toml::value::Datetime>>,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    neighbors: Vec<Spanned<String>>,
}

/// A secret as it stands in the file.
struct SecretText(Secret);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SecretText, D::Error> {
        String::deserialize(deserializer).map(|text| SecretText(Secret::new(text)))
    }
}

/// Shortest secret, octets. HMAC accepts shorter ones, but they can be guessed.
const SHORTEST_SECRET: usize = 8;
/// Largest number of a key (RFC 2747 section 2.1).
const LARGEST_ID: u64 = 0xffff_ffff_ffff;

impl KeyFile {
    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, a user other than its owner may read or change it, or a value is invalid.
    pub fn load(path: &Path) -> Result<KeyFile, ConfigError> {
        KeyFile::parse(&secret_file::read_private(path)?, path)
    }

    /// Reads the key file of a configuration; `None` if it names none.
    ///
    /// # Errors
    /// The errors of [`KeyFile::load`]; or an interface is secured for a protocol that has no key there.
    pub fn of(config: &Config) -> Result<Option<KeyFile>, ConfigError> {
        let Some(path) = &config.keys else { return Ok(None) };
        let file = KeyFile::load(path)?;
        file.check(config)?;
        Ok(Some(file))
    }

    /// Parses the text of a key file; `path` appears in the errors only.
    ///
    /// # Errors
    /// The errors of [`KeyFile::load`], except for access to the file.
    pub fn parse(text: &str, path: &Path) -> Result<KeyFile, ConfigError> {
        let source = Source::new(text, path);
        let file: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let place = source.place(span);
            // The parser may quote the text that it rejects, which is a secret.
            if source.line(place.line).contains("secret") {
                let hint = "secret = \"...\" is text, secret_hex = \"...\" two digits an octet";
                return ConfigError::at(place, "malformed secret", hint);
            }
            ConfigError::of_parser(place, error.message())
        })?;
        let mut keys: Vec<(FileKey, usize)> = Vec::with_capacity(file.key.len());
        for table in file.key {
            let span = table.get_ref().id.span();
            let key = source.key(table.into_inner())?;
            if let Some((_, line)) = keys.iter().find(|(other, _)| other.is_ambiguous_with(&key)) {
                return Err(source.error(
                    span,
                    format!("duplicate key {}: line {line} has it for the same neighbours", key.id),
                    "give each key a number of its own",
                ));
            }
            keys.push((key, source.place(span).line));
        }
        let mut keys: Vec<FileKey> = keys.into_iter().map(|(key, _)| key).collect();
        // If several keys have expired before the daemon starts, the engines prefer the last one.
        keys.sort_by_key(|key| key.end.unwrap_or(Timestamp::MAX));
        Ok(KeyFile { keys })
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Iterates over the keys of a protocol.
    pub fn keys_of<'a>(&'a self, protocol: &'a str) -> impl Iterator<Item = &'a FileKey> {
        self.keys.iter().filter(move |key| key.protocols.contains(&protocol))
    }

    /// Sets the keys of a node whose clock starts at `origin`.
    pub fn configure(&self, origin: Timestamp, node: &mut NodeConfig) {
        protocols::signing_keys().for_each(|keys| keys.configure(self, origin, node));
    }

    /// Returns the commands by which the engines get the keys, for all protocols: a key that is missing is no longer used.
    pub fn commands(&self, origin: Timestamp) -> Vec<Command> {
        protocols::signing_keys().map(|keys| keys.command(self, origin)).collect()
    }

    /// Restores the secrets of settings that were recorded.
    pub(crate) fn restore(&self, node: &mut NodeConfig) {
        protocols::signing_keys().for_each(|keys| keys.restore(self, node));
    }

    /// Restores the secrets of a command that was recorded.
    pub(crate) fn restore_command(&self, command: &mut Command) {
        protocols::signing_keys().for_each(|keys| keys.restore_command(self, command));
    }

    /// Checks that each protocol has keys where an interface requires them.
    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        for interface in &config.interfaces {
            for (&protocol, &directions) in &interface.integrity {
                let place = || interface.place.clone().unwrap_or_default();
                let name = &interface.name;
                let serving = || {
                    self.keys_of(protocol)
                        .filter(|key| key.interfaces.is_empty() || key.interfaces.contains(name))
                };
                let lacks = |is_needed: bool, serves: fn(Directions) -> bool| {
                    is_needed && !serving().any(|key| serves(key.purpose))
                };
                if lacks(directions.sends(), Directions::sends)
                    || lacks(directions.accepts(), Directions::accepts)
                {
                    return Err(ConfigError::at(
                        place(),
                        format!("{name} has integrity for {protocol}, but no key for it"),
                        format!(
                            "a [[key]] with protocols = [\"{protocol}\"] in {}; or a table without {protocol} as \
                             `integrity`, see docs/integrity.md",
                            config.keys.as_deref().unwrap_or(Path::new("")).display()
                        ),
                    ));
                }
                let mut users: Vec<&str> = serving()
                    .filter(|key| key.purpose.sends())
                    .filter_map(|key| key.user.as_deref())
                    .collect();
                users.sort_unstable();
                users.dedup();
                if let (true, [first, second, ..]) = (directions.sends(), &users[..]) {
                    return Err(ConfigError::at(
                        place(),
                        format!("{name} signs {protocol} with keys of {first} and of {second}"),
                        "purpose = \"accept\" for keys with which this host does not sign; or \
                         integrity = \"accept\" for the interface",
                    ));
                }
            }
        }
        Ok(())
    }
}

impl FileKey {
    /// Returns the start of validity by an engine's clock that starts at `origin`.
    pub fn start(&self, origin: Timestamp) -> Time {
        self.start.map_or(Time::ZERO, |start| engine_time(start, origin))
    }

    /// Returns the time by which the validity began before `origin`.
    pub fn age(&self, origin: Timestamp) -> Duration {
        let before = self.start.map(|start| origin.duration_since(start));
        before.and_then(|before| before.try_into().ok()).unwrap_or(Duration::ZERO)
    }

    /// Returns the end of validity by an engine's clock that starts at `origin`.
    pub fn end(&self, origin: Timestamp) -> Time {
        self.end.map_or(Time::MAX, |end| engine_time(end, origin))
    }

    fn is_ambiguous_with(&self, other: &FileKey) -> bool {
        let shared = self.protocols.iter().any(|protocol| other.protocols.contains(protocol));
        shared && self.key_use().is_ambiguous_with(&other.key_use())
    }

    fn key_use(&self) -> KeyUse<'_> {
        let FileKey { id, ref secret, purpose, ref interfaces, ref neighbors, .. } = *self;
        KeyUse {
            id,
            secret,
            purpose,
            start: Time::ZERO,
            age: Duration::ZERO,
            end: Time::MAX,
            interfaces,
            neighbors,
        }
    }
}

fn engine_time(at: Timestamp, origin: Timestamp) -> Time {
    let since = at.duration_since(origin);
    Time::ZERO + Duration::try_from(since).unwrap_or(Duration::ZERO)
}

impl Source<'_> {
    fn key(&self, table: KeyTable) -> Result<FileKey, ConfigError> {
        let (id, span) = (*table.id.get_ref(), table.id.span());
        if id > LARGEST_ID {
            return Err(self.error(
                span,
                "a key's number has 48 bits",
                format!("from 0 to {LARGEST_ID}"),
            ));
        }
        let secret = match (table.secret, table.secret_hex) {
            (Some(SecretText(text)), None) => Some(text),
            (None, Some(SecretText(digits))) => octets(digits.octets()).map(Secret::new),
            _ => None,
        };
        let Some(secret) = secret.filter(|secret| secret.octets().len() >= SHORTEST_SECRET) else {
            return Err(self.error(
                span,
                format!("key {id} needs a secret of at least {SHORTEST_SECRET} octets"),
                "either secret = \"text\" or secret_hex = \"digits\"; `openssl rand -hex 32` \
                 makes one",
            ));
        };
        let start = self.date(table.start.as_ref())?;
        let end = self.date(table.end.as_ref())?;
        if let (Some(at), Some(end)) = (start, end)
            && end <= at
        {
            let span = table.end.map_or(0..0, |end| end.span());
            return Err(self.error(
                span,
                format!("key {id}: end is before start"),
                "end must be after start",
            ));
        }
        let neighbors = table.neighbors.iter().map(|text| {
            IpAddr::from_str(text.get_ref()).map_err(|error| {
                self.error(text.span(), error.to_string(), "an address such as \"10.0.1.2\"")
            })
        });
        let protocols = self.key_protocols(table.protocols)?;
        let key = FileKey {
            id,
            algorithm: table.algorithm,
            secret,
            user: table.user,
            protocols: protocols.iter().map(|protocol| protocol.name()).collect(),
            purpose: table.purpose,
            interfaces: table.interfaces,
            neighbors: neighbors.collect::<Result<_, _>>()?,
            start,
            end,
        };
        let fault = |(message, hint): (&str, &str)| {
            self.error(span.clone(), format!("key {id}: {message}"), hint)
        };
        let all = || protocols.iter().filter_map(|protocol| protocol.signing_keys());
        all().try_for_each(|keys| keys.check(&key)).map_err(fault)?;
        if key.user.is_some() && !all().any(SigningKeys::has_users) {
            return Err(fault((
                "no protocol of the key has users",
                "remove `user`, or add a protocol",
            )));
        }
        Ok(key)
    }

    fn key_protocols(
        &self,
        names: Option<Vec<Spanned<String>>>,
    ) -> Result<Vec<&'static dyn Protocol>, ConfigError> {
        let signing = || protocols::all().filter(|known| known.signing_keys().is_some());
        let Some(names) = names else {
            let is_default = |keys: &dyn SigningKeys| keys.serve_by_default();
            return Ok(signing()
                .filter(|known| known.signing_keys().is_some_and(is_default))
                .collect());
        };
        let find = |name: &Spanned<String>| {
            signing().find(|known| known.name() == name.get_ref()).ok_or_else(|| {
                let known: Vec<&str> = signing().map(Protocol::name).collect();
                let hint =
                    format!("keys serve {}; docs/integrity.md has the others", known.join(", "));
                self.error(name.span(), format!("no keys for protocol {:?}", name.get_ref()), hint)
            })
        };
        names.iter().map(find).collect()
    }

    fn date(
        &self,
        date: Option<&Spanned<toml::value::Datetime>>,
    ) -> Result<Option<Timestamp>, ConfigError> {
        let Some(date) = date else { return Ok(None) };
        date.get_ref().to_string().parse().map(Some).map_err(|_| {
            self.error(
                date.span(),
                "invalid time",
                "with date, time and zone: 2027-01-31T00:00:00Z",
            )
        })
    }
}

/// Decodes hexadecimal digits, two an octet.
fn octets(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let octet = |pair: &[u8; 2]| {
        let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
        Some(digit(pair[0])? << 4 | digit(pair[1])?)
    };
    rest.is_empty().then(|| pairs.iter().map(octet).collect())?
}

#[cfg(test)]
mod tests;
