//! Settings of connections: ports, authentication and limits.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of connections; by default there are no ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// TCP port for unauthenticated connections; `None` disables it.
    pub tcp: Option<u16>,
    /// Authentication by TLS; `None` disables TLS.
    pub tls: Option<TlsSettings>,
    /// Limits on accepted connections.
    pub limits: Limits,
}

impl Settings {
    /// Returns whether both settings use the same ports.
    pub fn has_same_ports(&self, other: &Settings) -> bool {
        let port = |settings: &Settings| settings.tls.as_ref().map(|tls| tls.port);
        self.tcp == other.tcp && port(self) == port(other)
    }

    /// Returns these settings with the ports of others.
    pub fn with_ports_of(self, other: &Settings) -> Settings {
        let tls = match (self.tls, &other.tls) {
            (Some(tls), Some(TlsSettings { port, .. })) => Some(TlsSettings { port: *port, ..tls }),
            (_, tls) => tls.clone(),
        };
        Settings { tcp: other.tcp, tls, limits: self.limits }
    }
}

/// Settings of TLS: the identity of this node, and the accepted peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// TCP port for authenticated connections.
    pub port: u16,
    /// File with this node's private key, PEM.
    pub key: PathBuf,
    /// How both sides authenticate.
    pub identity: Identity,
}

/// Method of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Authentication by certificates.
    Certificates {
        /// File with this node's certificate, and the certificates up to the authority that peers trust; PEM, this node's
        /// certificate first.
        chain: PathBuf,
        /// File with the trusted authorities, PEM.
        authorities: PathBuf,
        /// Accepted peers: DNS names and IP addresses, one of which a certificate must contain.
        peers: Vec<String>,
    },
    /// Authentication by raw public keys (RFC 7250): file with the public keys of all peers, PEM.
    PublicKeys(PathBuf),
}

/// Limits on accepted connections, so that a flood does not affect the open ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections that neighbors have opened.
    pub connections: usize,
    /// Most of these connections from one address (for IPv6: from one /64).
    pub per_source: usize,
    /// Most half-open connections, which have not authenticated or sent data yet. Beyond the limit the oldest one is closed,
    /// preferably of the same address.
    pub half_open: usize,
    /// Most half-open connections from one address (for IPv6: from one /64).
    pub half_open_per_source: usize,
    /// Timeout for setting up a connection, in either role.
    pub handshake: Duration,
    /// Most octets queued for a neighbor.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 512,
            per_source: 16,
            half_open: 128,
            half_open_per_source: 8,
            handshake: Duration::from_secs(10),
            backlog: 1 << 20,
        }
    }
}
