//! One session of TLS: records are read from and written to the socket of the connection.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

use earmark_core::CloseReason;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, Connection, Error, ServerConnection};

use super::credentials::Tls;
use crate::streams::socket::{is_for_later, of_transfer};

/// Encrypted octets that a session may buffer, besides the queue of its connection.
const BUFFER: usize = 32 << 10;

/// A session of TLS.
#[derive(Debug)]
pub(in crate::streams) struct Session {
    records: Box<Connection>,
    /// Whether the close alert is sent.
    is_closed: bool,
}

impl Session {
    /// Creates the session of a connection that this node initiates to `peer`.
    ///
    /// # Errors
    /// The configuration cannot be used for such a session.
    pub(in crate::streams) fn initiated(tls: &Tls, peer: IpAddr) -> io::Result<Session> {
        let client = ClientConnection::new(Arc::clone(&tls.client), ServerName::from(peer));
        client.map(|client| Session::new(client.into())).map_err(io::Error::other)
    }

    /// Creates the session of a connection that a neighbor has initiated.
    ///
    /// # Errors
    /// The configuration cannot be used for such a session.
    pub(in crate::streams) fn accepted(tls: &Tls) -> io::Result<Session> {
        let server = ServerConnection::new(Arc::clone(&tls.server));
        server.map(|server| Session::new(server.into())).map_err(io::Error::other)
    }

    fn new(mut records: Connection) -> Session {
        records.set_buffer_limit(Some(BUFFER));
        Session { records: Box::new(records), is_closed: false }
    }

    /// Whether records wait to be written.
    pub(in crate::streams) fn wants_write(&self) -> bool {
        self.records.wants_write()
    }

    /// Whether the handshake is in progress.
    pub(in crate::streams) fn is_handshaking(&self) -> bool {
        self.records.is_handshaking()
    }

    /// Reads records from the socket and decrypts them. Returns the number of octets, 0 if the neighbor has closed its side, or
    /// `None` if nothing has arrived.
    ///
    /// # Errors
    /// The connection has ended; the reason.
    pub(in crate::streams) fn receive(
        &mut self,
        mut socket: &TcpStream,
    ) -> Result<Option<usize>, CloseReason> {
        let length = match self.records.read_tls(&mut socket) {
            Ok(length) => length,
            Err(error) if is_for_later(&error) => return Ok(None),
            Err(error) => return Err(of_transfer(&error)),
        };
        self.records.process_new_packets().map_err(|error| of_tls(&error))?;
        Ok(Some(length))
    }

    /// Reads decrypted data. An error other than [`ErrorKind::WouldBlock`]: the stream was cut off, possibly by an attacker.
    pub(in crate::streams) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.records.reader().read(room)
    }

    /// Writes the queue and the records of the session itself, until the neighbor accepts no more.
    pub(in crate::streams) fn write(
        &mut self,
        socket: &TcpStream,
        outgoing: &mut VecDeque<u8>,
    ) -> io::Result<()> {
        loop {
            self.write_records(socket)?;
            if self.wants_write() || outgoing.is_empty() {
                return Ok(());
            }
            let length = self.records.writer().write(outgoing.as_slices().0)?;
            drop(outgoing.drain(..length));
        }
    }

    /// Writes the records that wait, until the neighbor accepts no more.
    pub(in crate::streams) fn write_records(&mut self, mut socket: &TcpStream) -> io::Result<()> {
        while self.wants_write() {
            match self.records.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Queues the close alert, once.
    pub(in crate::streams) fn close(&mut self) {
        if !self.is_closed {
            self.records.send_close_notify();
            self.is_closed = true;
        }
    }
}

/// Reason for an error of TLS. With TLS 1.3 the client may learn only after its handshake is complete that it was not
/// accepted.
fn of_tls(error: &Error) -> CloseReason {
    use AlertDescription::{DecodeError, InternalError, RecordOverflow, UnexpectedMessage};
    match error {
        Error::AlertReceived(DecodeError | InternalError | RecordOverflow | UnexpectedMessage)
        | Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::PeerSentOversizedRecord
        | Error::DecryptError => CloseReason::Broken,
        _ => CloseReason::NotAuthenticated,
    }
}
