//! The key file: the secrets shared with neighbors (RFC 2747 section 5), separate from the other settings so that those can
//! be published.
//!
//! The file is refused if anybody but its owner may read it, and no error message quotes a line with a secret.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use earmark_core::keys::{SharedKey, restore_secrets};
use earmark_core::{Secret, Time};
use earmark_node::{Command, NodeConfig};
use earmark_rsvp as rsvp;
use earmark_rsvp::integrity::{Algorithm, Directions, Key};
use jiff::Timestamp;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, Place, Source};
use crate::protocol::Secrets;

/// The keys of a file, with their lifetimes by the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFile {
    keys: Vec<DatedKey>,
}

#[derive(Clone, Debug, PartialEq)]
struct DatedKey {
    key: Key,
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
    secret: Option<String>,
    secret_hex: Option<String>,
    #[serde(default)]
    purpose: Directions,
    start: Option<Spanned<toml::value::Datetime>>,
    end: Option<Spanned<toml::value::Datetime>>,
    #[serde(default)]
    interfaces: Vec<String>,
    #[serde(default)]
    neighbors: Vec<Spanned<String>>,
}

/// Shortest secret, octets. HMAC accepts shorter ones, but they can be guessed.
const SHORTEST_SECRET: usize = 8;

impl Secrets for KeyFile {
    fn count(&self) -> usize {
        self.keys.len()
    }

    fn add_to(&self, node: &mut NodeConfig, origin: Timestamp) {
        node.rsvp.integrity.keys = self.keys(origin);
    }

    fn command(&self, origin: Timestamp) -> Command {
        Command::Rsvp(rsvp::Command::Keys { keys: self.keys(origin) })
    }

    fn restore(&self, node: &mut NodeConfig) {
        // Only the secrets are needed: a recording contains the lifetimes of the keys.
        let keys = self.keys(Timestamp::UNIX_EPOCH);
        restore_secrets(&mut node.rsvp.integrity.keys, &keys);
    }

    fn restore_command(&self, command: &mut Command) {
        if let Command::Rsvp(rsvp::Command::Keys { keys }) = command {
            restore_secrets(keys, &self.keys(Timestamp::UNIX_EPOCH));
        }
    }
}

impl KeyFile {
    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read, a user other than its owner may read or change it, or a value is invalid.
    pub fn load(path: &Path) -> Result<KeyFile, ConfigError> {
        let unreadable = |error: std::io::Error| {
            ConfigError::at(
                whole(path),
                format!("cannot read the keys: {error}"),
                "integrity.keys names a file of [[key]] tables; docs/integrity.md has one",
            )
        };
        let mut file = std::fs::File::open(path).map_err(unreadable)?;
        let mode = rustix::fs::fstat(&file).map_err(|e| unreadable(e.into()))?.st_mode;
        if mode & 0o077 != 0 {
            return Err(ConfigError::at(
                whole(path),
                format!("other users can read these keys (mode {:03o})", mode & 0o777),
                format!("chmod 600 {}", path.display()),
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unreadable)?;
        KeyFile::parse(&text, path)
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
        let mut keys: Vec<DatedKey> = Vec::with_capacity(file.key.len());
        let mut places = BTreeMap::new();
        for table in file.key {
            let span = table.get_ref().id.span();
            let key = source.key(table.into_inner())?;
            if let Some(twin) =
                keys.iter().find(|other| other.key.key_use().is_ambiguous_with(&key.key.key_use()))
            {
                return Err(source.error(
                    span,
                    format!(
                        "duplicate key {}: line {} has it for the same neighbours",
                        key.key.id, places[&twin.key.id]
                    ),
                    "give each key a number of its own",
                ));
            }
            places.insert(key.key.id, source.place(span).line);
            keys.push(key);
        }
        // If several keys have expired before the daemon starts, the engine prefers the last one.
        keys.sort_by_key(|key| key.end.unwrap_or(Timestamp::MAX));
        Ok(KeyFile { keys })
    }

    /// Converts the keys to the time of an engine that starts at `origin`.
    pub fn keys(&self, origin: Timestamp) -> Vec<Key> {
        let time = |at: Timestamp| {
            let since = at.duration_since(origin);
            Time::ZERO + Duration::try_from(since).unwrap_or(Duration::ZERO)
        };
        let dated = |dated: &DatedKey| Key {
            start: dated.start.map_or(Time::ZERO, time),
            end: dated.end.map_or(Time::MAX, time),
            ..dated.key.clone()
        };
        self.keys.iter().map(dated).collect()
    }
}

impl Source<'_> {
    fn key(&self, table: KeyTable) -> Result<DatedKey, ConfigError> {
        let id = *table.id.get_ref();
        if id > Key::LARGEST_ID {
            return Err(self.error(
                table.id.span(),
                "a key's number has 48 bits",
                format!("from 0 to {}", Key::LARGEST_ID),
            ));
        }
        let secret = match (table.secret, table.secret_hex) {
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(digits)) => octets(&digits),
            _ => None,
        };
        let Some(secret) = secret.filter(|secret| secret.len() >= SHORTEST_SECRET) else {
            return Err(self.error(
                table.id.span(),
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
        let key = Key {
            id,
            algorithm: table.algorithm,
            secret: Secret::new(secret),
            purpose: table.purpose,
            start: Time::ZERO,
            end: Time::MAX,
            interfaces: table.interfaces,
            neighbors: neighbors.collect::<Result<_, _>>()?,
        };
        Ok(DatedKey { key, start, end })
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

fn whole(path: &Path) -> Place {
    Place { file: PathBuf::from(path), ..Place::default() }
}

/// Decodes hexadecimal digits, two an octet.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().as_chunks::<2>();
    let octet = |pair: &[u8; 2]| {
        let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
        Some(digit(pair[0])? << 4 | digit(pair[1])?)
    };
    pairs.1.is_empty().then(|| pairs.0.iter().map(octet).collect())?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEYS: &str = r#"
[[key]]
id = 1
algorithm = "hmac-sha-256"
secret = "correct horse battery"
start = 2027-01-01T00:00:00Z
end = 2027-02-01T01:00:00+01:00

[[key]]
id = 2
algorithm = "hmac-md5"
secret_hex = "00FF10203040506070"
purpose = "accept"
interfaces = ["eth1"]
neighbors = ["10.0.1.2", "fe80::1"]
"#;

    fn read(text: &str) -> Result<KeyFile, ConfigError> {
        KeyFile::parse(text, Path::new("keys.toml"))
    }

    #[test]
    fn keys_are_parsed() {
        let origin: Timestamp = "2027-01-11T00:00:00Z".parse().unwrap();
        let [first, second] = <[Key; 2]>::try_from(read(KEYS).unwrap().keys(origin)).unwrap();
        assert_eq!((first.id, first.algorithm), (1, Algorithm::HmacSha256));
        assert_eq!(first.secret, Secret::new(b"correct horse battery".to_vec()));
        assert_eq!(first.start, Time::ZERO, "it has begun already");
        assert_eq!(first.end, Time::from_secs(21 * 86_400));
        assert_eq!(second.secret, Secret::new(vec![0, 255, 16, 32, 48, 64, 80, 96, 112]));
        assert_eq!((second.purpose, second.end), (Directions::Accept, Time::MAX));
        assert_eq!(second.neighbors.len(), 2);
        let earlier: Timestamp = "2026-12-31T00:00:00Z".parse().unwrap();
        assert_eq!(read(KEYS).unwrap().keys(earlier)[0].start, Time::from_secs(86_400));
    }

    /// Each error names its line and key, and none quotes the secret.
    #[test]
    fn invalid_keys_are_refused_without_quoting_secrets() {
        let one = "[[key]]\nid = 1\nalgorithm = \"hmac-md5\"\nsecret = \"hidden-from-view\"\n";
        let cases = [
            ("[[key]]\nid = 1\n".into(), "missing field `algorithm`", 1),
            ("[key]\n".into(), "expected a sequence", 1),
            (one.replace("md5", "md4"), "unknown variant `hmac-md4`", 3),
            (one.replace("id = 1", "id = 281474976710656"), "48 bits", 2),
            (one.replace("id = 1", "id = -1"), "invalid value", 2),
            (one.replace("\"hidden-from-view\"", "\"short\""), "at least 8 octets", 2),
            (one.replace("\"hidden-from-view\"", "1234567890"), "malformed secret", 4),
            (one.replace("\"hidden-from-view\"", "hidden-from-view"), "malformed secret", 4),
            (one.replace("secret =", "secret_hex ="), "at least 8 octets", 2),
            (format!("{one}secret_hex = \"0011223344556677\"\n"), "at least 8 octets", 2),
            (format!("{one}secrets = \"hidden-from-view\"\n"), "malformed secret", 5),
            (format!("{one}start = 2027-01-01\n"), "invalid time", 5),
            (format!("{one}start = \"tomorrow\"\n"), "invalid", 5),
            (
                format!("{one}start = 2027-01-01T00:00:00Z\nend = 2027-01-01T00:00:00Z\n"),
                "end is before start",
                6,
            ),
            (format!("{one}neighbors = [\"r2\"]\n"), "invalid IP address", 5),
            (format!("{one}purpose = \"none\"\n"), "unknown variant", 5),
            (format!("{one}{one}"), "line 2 has it", 6),
        ];
        for (text, message, line) in cases {
            let error = read(&text).expect_err(&text);
            assert!(error.message.contains(message), "{text}\n{error}");
            assert_eq!(error.place.line, line, "{text}\n{error}");
            for secret in ["hidden", "1234567890"] {
                assert!(!format!("{error} {error:?}").contains(secret), "{error}");
            }
        }
        let shown = format!("{:?}", read(KEYS).unwrap());
        assert!(!shown.contains("correct") && shown.contains("Secret(..)"), "{shown}");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("earmark-keys-{}", std::process::id()));
        std::fs::write(&path, KEYS).unwrap();
        let mut found = Vec::new();
        for mode in [0o644, 0o640, 0o602, 0o600, 0o400] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            found
                .push(KeyFile::load(&path).map(|keys| keys.count()).map_err(|error| error.message));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found[3..], [Ok(2), Ok(2)]);
        for (refused, mode) in found.iter().zip(["644", "640", "602"]) {
            let message = refused.clone().unwrap_err();
            assert!(message.contains(mode), "{message}");
        }
        assert!(KeyFile::load(&path).unwrap_err().message.contains("cannot read"));
    }
}
