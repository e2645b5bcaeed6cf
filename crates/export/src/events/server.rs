//! Connections to a NATS server, and why they fail.

use std::io;
use std::time::Duration;

use async_nats::{ConnectErrorKind, ServerAddr, ServerInfo};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time for each step of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest first line of a server, octets.
const MAX_GREETING: u64 = 64 * 1024;
/// Most octets of another program's first line in an error.
const MAX_QUOTED: usize = 60;

/// Why events are not published.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The server cannot be reached.
    #[error("cannot connect to {server}: {source}")]
    Connect {
        /// The server's URL.
        server: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server accepts the connection and sends nothing.
    #[error("{server} accepts connections, but sends nothing within 5 s")]
    Silent {
        /// The server's URL.
        server: String,
    },
    /// Another program listens at the address.
    #[error("{server} is not a NATS server: it sends {greeting:?}")]
    NotNats {
        /// The server's URL.
        server: String,
        /// Beginning of what the program sends.
        greeting: String,
    },
    /// The server accepts TLS only.
    #[error("{server} requires TLS, which this program does not have")]
    TlsRequired {
        /// The server's URL.
        server: String,
    },
    /// The server refuses the credentials, or their absence.
    #[error("{server} refuses {}", if *given { "the credentials" } else { "a connection without credentials" })]
    Credentials {
        /// The server's URL.
        server: String,
        /// Whether there were credentials.
        given: bool,
    },
    /// The client library has failed.
    #[error("{server}: {text}")]
    Client {
        /// The server's URL.
        server: String,
        /// The library's error.
        text: String,
    },
    /// The server has reported an error, such as a missing permission.
    #[error("{server} reports: {text}")]
    Reported {
        /// The server's URL.
        server: String,
        /// The server's text.
        text: String,
    },
    /// The connection has ended.
    #[error("{server} has closed the connection")]
    Closed {
        /// The server's URL.
        server: String,
    },
    /// No stream takes the messages.
    #[error("{server}: no JetStream stream takes the subject {subject}")]
    NoStream {
        /// The server's URL.
        server: String,
        /// Subject of the message.
        subject: String,
        /// Whether JetStream is enabled on the server.
        jetstream: bool,
    },
    /// The server does not acknowledge a message.
    #[error("{server} does not acknowledge a message within 5 s")]
    Unacknowledged {
        /// The server's URL.
        server: String,
    },
    /// The stream refuses a message.
    #[error("{server}: the stream refuses a message: {text}")]
    Refused {
        /// The server's URL.
        server: String,
        /// The server's reason.
        text: String,
    },
    /// The stream cannot be created.
    #[error("{server}: cannot create the stream {stream}: {text}")]
    Create {
        /// The server's URL.
        server: String,
        /// Name of the stream.
        stream: String,
        /// The server's reason.
        text: String,
    },
}

impl NatsError {
    /// Returns advice what to do.
    pub fn hint(&self) -> &'static str {
        match self {
            NatsError::Connect { .. } => "is the server running? check host and port of --to",
            NatsError::Silent { .. } | NatsError::NotNats { .. } => {
                "check host and port of --to: NATS clients have port 4222, unless the server's `listen` says otherwise"
            }
            NatsError::TlsRequired { .. } => {
                "run a nats-server on this host, which connects to the others as a leaf node by TLS, and name it with --to"
            }
            NatsError::Credentials { given: true, .. } => {
                "check the file of --credentials against the server's users"
            }
            NatsError::Credentials { given: false, .. } => "name a file with --credentials",
            NatsError::Reported { .. } => {
                "the user needs the permissions to publish to the subjects of --prefix and to subscribe to _INBOX.>"
            }
            NatsError::NoStream { jetstream: false, .. } => {
                "enable JetStream on the server (`jetstream {}` in its configuration), and create a stream with --create-stream"
            }
            NatsError::NoStream { .. } => {
                "create a stream with --create-stream EARMARK, or `nats stream add --subjects 'earmark.>'`"
            }
            NatsError::Create { .. } => {
                "enable JetStream on the server, allow the user its API, or create the stream as another user"
            }
            NatsError::Refused { .. } => {
                "raise the limits of the stream, or let it discard old messages"
            }
            NatsError::Client { .. }
            | NatsError::Closed { .. }
            | NatsError::Unacknowledged { .. } => "the server's log may say why",
        }
    }
}

/// Reads what a server says of itself, before the client library connects: the library has no TLS here, and does not tell
/// another program from a broken connection.
///
/// # Errors
/// The server cannot be reached, is no NATS server, or requires TLS.
pub async fn inspect(server: &ServerAddr) -> Result<ServerInfo, NatsError> {
    let name = || server.as_url_str().to_owned();
    let failed = |source| NatsError::Connect { server: name(), source };
    let address = (server.host().trim_matches(['[', ']']), server.port());
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(failed)?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(MAX_GREETING));
    timeout(CONNECT_TIMEOUT, reader.read_until(b'\n', &mut line))
        .await
        .map_err(|_| NatsError::Silent { server: name() })?
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&line);
    let info: Option<ServerInfo> =
        text.strip_prefix("INFO ").and_then(|json| serde_json::from_str(json).ok());
    let info = info.ok_or_else(|| {
        let greeting = text.trim_end().chars().take(MAX_QUOTED).collect();
        NatsError::NotNats { server: name(), greeting }
    })?;
    match info.tls_required {
        true => Err(NatsError::TlsRequired { server: name() }),
        false => Ok(info),
    }
}

/// Connects to a server. The client does not have to reconnect: a session that ends is begun anew.
///
/// # Errors
/// The server refuses the credentials, or does not answer.
pub async fn connect(
    server: &ServerAddr,
    options: async_nats::ConnectOptions,
    given: bool,
) -> Result<async_nats::Client, NatsError> {
    let name = || server.as_url_str().to_owned();
    let options = options
        .name("earmark-export")
        .connection_timeout(CONNECT_TIMEOUT)
        .ignore_discovered_servers()
        .max_reconnects(1);
    options.connect(server).await.map_err(|error| match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            NatsError::Credentials { server: name(), given }
        }
        ConnectErrorKind::TimedOut => NatsError::Silent { server: name() },
        _ => NatsError::Client { server: name(), text: error.to_string() },
    })
}
