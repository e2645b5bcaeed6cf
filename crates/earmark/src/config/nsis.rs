//! `[nsis]`: connections of GIST, and who is let in.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::Source;
use crate::streams::{Identity, Limits, Settings, TlsSettings};

/// TCP ports of connections, where nothing else is said: free ones, since none are assigned. Neighbours are told of them.
pub(super) const TCP: u16 = 30_270;
pub(super) const TLS: u16 = 30_271;

/// Settings of NSIS.
#[derive(Clone, Debug, PartialEq)]
pub struct NsisConfig {
    /// Of connections.
    pub streams: Settings,
}

impl Default for NsisConfig {
    fn default() -> NsisConfig {
        NsisConfig { streams: Settings { tcp: Some(TCP), tls: None, limits: Limits::default() } }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NsisTable {
    tcp: Option<Spanned<u32>>,
    tls: Option<Spanned<TlsTable>>,
    connections: Option<Spanned<u32>>,
    connections_per_source: Option<Spanned<u32>>,
    half_open: Option<Spanned<u32>>,
    half_open_per_source: Option<Spanned<u32>>,
    handshake: Option<Spanned<String>>,
    backlog: Option<Spanned<u32>>,
}

/// What neighbours are known by; the settings of the other may be there, too.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Proof {
    #[default]
    Certificates,
    Keys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    port: Option<Spanned<u32>>,
    #[serde(default)]
    by: Proof,
    key: PathBuf,
    certificate: Option<PathBuf>,
    authorities: Option<PathBuf>,
    #[serde(default)]
    peers: Vec<String>,
    public_keys: Option<PathBuf>,
}

/// The names of [`earmark_linux::Gist`].
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NsisInterceptName {
    RouterAlert,
    Port,
}

impl Source<'_> {
    pub(super) fn nsis(&self, table: NsisTable) -> Result<NsisConfig, ConfigError> {
        let limits = Limits::default();
        let count = |value: Option<Spanned<u32>>, default: usize| {
            let default = u32::try_from(default).unwrap_or(u32::MAX);
            self.within(value, 1..65_536, default).map(|count| count as usize)
        };
        let range = Duration::from_millis(100)..=Duration::from_secs(120);
        let hint = "\"10s\" is usual; from 100ms to 120s are possible";
        let backlog = u32::try_from(limits.backlog).unwrap_or(u32::MAX);
        let limits = Limits {
            connections: count(table.connections, limits.connections)?,
            per_source: count(table.connections_per_source, limits.per_source)?,
            half_open: count(table.half_open, limits.half_open)?,
            half_open_per_source: count(table.half_open_per_source, limits.half_open_per_source)?,
            handshake: self.duration(table.handshake.as_ref(), range, limits.handshake, hint)?,
            // What one message of GIST may have at least.
            backlog: self.within(table.backlog, 262_144..1 << 30, backlog)? as usize,
        };
        let tcp = self.port(table.tcp, TCP, 0)?;
        let tls = table.tls.map(|table| self.tls(table)).transpose()?;
        Ok(NsisConfig { streams: Settings { tcp: (tcp > 0).then_some(tcp), tls, limits } })
    }

    fn tls(&self, table: Spanned<TlsTable>) -> Result<TlsSettings, ConfigError> {
        let span = table.span();
        let TlsTable { port, by, key, certificate, authorities, peers, public_keys } =
            table.into_inner();
        let missing = |hint| self.error(span, "it is not said whom to believe", hint);
        let identity = match by {
            Proof::Certificates => match (certificate, authorities) {
                (Some(chain), Some(authorities)) if !peers.is_empty() => {
                    Identity::Certificates { chain, authorities, peers }
                }
                _ => {
                    return Err(missing(
                        "certificate, authorities, and peers: the names that are let in; or by = \"keys\"",
                    ));
                }
            },
            Proof::Keys => match public_keys {
                Some(keys) => Identity::PublicKeys(keys),
                None => return Err(missing("public_keys: a file with the keys of all peers")),
            },
        };
        Ok(TlsSettings { port: self.port(port, TLS, 1)?, key, identity })
    }

    fn port(
        &self,
        value: Option<Spanned<u32>>,
        default: u16,
        least: u32,
    ) -> Result<u16, ConfigError> {
        let port = self.within(value, least..65_536, default.into())?;
        Ok(u16::try_from(port).unwrap_or(default))
    }
}
