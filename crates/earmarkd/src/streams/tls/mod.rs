//! TLS of connections: what the daemon is configured with, and one session for each connection.
//!
//! Without the feature `tls` the program has no cryptography: settings of TLS are refused, and no session exists.

use std::error::Error;
use std::path::PathBuf;

#[cfg(feature = "tls")]
mod credentials;
#[cfg(feature = "tls")]
mod session;
#[cfg(not(feature = "tls"))]
mod unavailable;

#[cfg(feature = "tls")]
pub(super) use self::credentials::Tls;
#[cfg(feature = "tls")]
pub(super) use self::session::Session;
#[cfg(not(feature = "tls"))]
pub(super) use self::unavailable::{Session, Tls};

/// Why the settings of TLS are invalid.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or is malformed.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A file does not contain what it is configured for.
    #[error("{}: there is no {what} in it", path.display())]
    Nothing {
        /// Path of the file.
        path: PathBuf,
        /// The missing content.
        what: &'static str,
    },
    /// A name is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    Name(String),
    /// Key, certificates and authorities do not match.
    #[error("key and certificates do not match: {0}")]
    Identity(String),
    /// The program was built without the feature `tls`.
    #[error("this program is built without TLS; build it with `--features tls`")]
    Unavailable,
}
