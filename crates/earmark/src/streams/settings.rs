//! Settings of connections: where to listen, who is let in, and how much at once.

use std::path::PathBuf;
use std::time::Duration;

/// How connections are made and taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP port on which neighbours are heard that prove nothing; `None` to hear none.
    pub tcp: Option<u16>,
    /// How sides prove who they are; `None` where there is no TLS here.
    pub tls: Option<TlsSettings>,
    /// How much is taken on.
    pub limits: Limits,
}

impl Settings {
    /// Whether the same ports are listened on.
    pub fn has_same_ports(&self, other: &Settings) -> bool {
        let port = |settings: &Settings| settings.tls.as_ref().map(|tls| tls.port);
        self.tcp == other.tcp && port(self) == port(other)
    }

    /// The same, on the ports of others.
    pub fn with_ports_of(self, other: &Settings) -> Settings {
        let tls = match (self.tls, &other.tls) {
            (Some(tls), Some(TlsSettings { port, .. })) => Some(TlsSettings { port: *port, ..tls }),
            (_, tls) => tls.clone(),
        };
        Settings { tcp: other.tcp, tls, limits: self.limits }
    }
}

/// TLS: who this node is, and whom it believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// TCP port on which neighbours are heard that prove who they are.
    pub port: u16,
    /// This node's private key, PEM.
    pub key: PathBuf,
    /// How both sides are known.
    pub identity: Identity,
}

/// By what one side knows the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By certificates.
    Certificates {
        /// This node's, and what stands between it and those that others trust; PEM, its own first.
        chain: PathBuf,
        /// Those whose certificates are believed, PEM.
        authorities: PathBuf,
        /// Who is let in and connected to: DNS names and IP addresses, of which a certificate has to hold one.
        peers: Vec<String>,
    },
    /// By their keys alone (RFC 7250): the public keys of all peers, PEM.
    PublicKeys(PathBuf),
}

/// How much is taken on; past a limit others suffer nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections that neighbours have opened, and of those most from one address (of IPv6: from one /64).
    pub connections: usize,
    /// See above.
    pub per_source: usize,
    /// Most of them that have not proved who they are, or have said nothing yet. Past it the oldest goes, first of the
    /// same address.
    pub half_open: usize,
    /// See above, of one address.
    pub half_open_per_source: usize,
    /// How long either side may take to set a connection up.
    pub handshake: Duration,
    /// Octets that may wait for a neighbour to read them.
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
