//! Requests of the page to the control hub, on a socket pair.

use std::io;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// A connection to the hub.
pub(super) struct HubClient(BufReader<tokio::net::UnixStream>);

impl HubClient {
    /// Takes over one end of the socket pair.
    ///
    /// # Errors
    /// The system refuses to wait for it.
    pub(super) fn new(stream: UnixStream) -> io::Result<HubClient> {
        Ok(HubClient(BufReader::new(tokio::net::UnixStream::from_std(stream)?)))
    }

    /// Sends one request, which is one line without its end.
    ///
    /// # Errors
    /// The hub has ended the connection.
    pub(super) async fn send(&mut self, request: &str) -> io::Result<()> {
        self.0.write_all(format!("{request}\n").as_bytes()).await
    }

    /// Returns the next line of the hub.
    ///
    /// # Errors
    /// The hub has ended the connection.
    pub(super) async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    /// Returns the answer to a request; events before it are left out.
    ///
    /// # Errors
    /// The hub has ended the connection.
    pub(super) async fn answer(&mut self) -> io::Result<String> {
        loop {
            let line = self.line().await?;
            if !line.starts_with("{\"event\"") {
                return Ok(line);
            }
        }
    }
}
