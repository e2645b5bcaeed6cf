//! A connection: a socket with or without TLS, and the queue of octets that the neighbor has not read.
//!
//! ```text
//! initiated   Connecting -> Handshaking -> Open -> Lingering
//! accepted                  Handshaking -> Open -> Lingering
//!             or without TLS     Silent -> Open
//! ```
//!
//! The initiator of a connection of GIST sends at once. An accepted connection without data is therefore treated like one
//! whose handshake does not proceed: neither is reported.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::{CloseReason, Time, Transport};
use rustix::event::epoll::EventFlags;

use super::socket::{is_for_later, of_transfer, write};
use super::tls::Session;

/// Most octets read from one connection in a turn.
pub(super) const TURN: usize = 64 << 10;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The TCP handshake is in progress.
    Connecting,
    /// The TLS handshake is in progress.
    Handshaking,
    /// The connection was accepted without TLS, and no data have arrived yet.
    Silent,
    /// Data can be sent and received.
    Open,
    /// This side has been closed; the neighbor has yet to close its side.
    Lingering,
}

/// Event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEvent<'a> {
    /// The connection is open now.
    Open,
    /// Received octets.
    Data(&'a [u8]),
}

/// A connection with its queue of outgoing octets and its limits.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<Session>,
    outgoing: VecDeque<u8>,
    pub(super) stage: Stage,
    pub(super) transport: Transport,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Whether the connection was reported to the engine, which wants its events.
    pub(super) is_reported: bool,
    /// Whether a neighbor has opened the connection without having authenticated or sent data yet.
    pub(super) is_half_open: bool,
    /// Whether the connection is to be closed when its queue is empty.
    pub(super) is_ending: bool,
    /// Time at which the connection is aborted.
    pub(super) deadline: Option<Time>,
    /// Events that the epoll set waits for.
    pub(super) awaited: EventFlags,
}

impl Connection {
    /// Creates a connection that this node initiates.
    pub(super) fn ours(
        socket: TcpStream,
        tls: Option<Session>,
        [local, peer]: [SocketAddr; 2],
    ) -> Connection {
        Connection {
            is_reported: true,
            ..Connection::new(socket, tls, Stage::Connecting, [local, peer])
        }
    }

    /// Creates a connection that a neighbor has initiated.
    pub(super) fn accepted(
        socket: TcpStream,
        tls: Option<Session>,
        [local, peer]: [SocketAddr; 2],
    ) -> Connection {
        let stage = if tls.is_some() { Stage::Handshaking } else { Stage::Silent };
        Connection { is_half_open: true, ..Connection::new(socket, tls, stage, [local, peer]) }
    }

    fn new(
        socket: TcpStream,
        tls: Option<Session>,
        stage: Stage,
        [local, peer]: [SocketAddr; 2],
    ) -> Connection {
        Connection {
            transport: if tls.is_some() { Transport::Tls } else { Transport::Tcp },
            socket,
            tls,
            outgoing: VecDeque::new(),
            stage,
            local,
            peer,
            is_reported: false,
            is_half_open: false,
            is_ending: false,
            deadline: None,
            awaited: EventFlags::empty(),
        }
    }

    /// Octets queued for the neighbor.
    pub(super) fn backlog(&self) -> usize {
        self.outgoing.len()
    }

    /// Queues octets.
    pub(super) fn enqueue(&mut self, octets: &[u8]) {
        self.outgoing.extend(octets);
    }

    /// Events needed before [`Connection::serve`] can continue.
    pub(super) fn awaits(&self) -> EventFlags {
        let mut flags = EventFlags::IN;
        let wants_write = match (self.stage, &self.tls) {
            (Stage::Connecting, _) => return EventFlags::OUT,
            (Stage::Lingering, _) => false,
            (Stage::Open, tls) => {
                !self.outgoing.is_empty() || tls.as_ref().is_some_and(Session::wants_write)
            }
            (_, Some(tls)) => tls.wants_write(),
            (_, None) => false,
        };
        flags.set(EventFlags::OUT, wants_write);
        flags
    }

    /// Continues the set-up, reads at most about [`TURN`] octets by way of `room`, and writes.
    ///
    /// # Errors
    /// The connection has ended; the reason.
    pub(super) fn serve(
        &mut self,
        room: &mut [u8],
        each: &mut dyn FnMut(&Connection, ConnectionEvent<'_>),
    ) -> Result<(), CloseReason> {
        if self.stage == Stage::Connecting {
            if !self.is_connected()? {
                return Ok(());
            }
            match self.tls {
                Some(_) => self.stage = Stage::Handshaking,
                None => self.open(each),
            }
        }
        let read = match (self.stage, self.tls.is_some()) {
            (Stage::Lingering, _) => return self.discard(room),
            (_, true) => self.read_tls(room, each),
            (_, false) => self.read(room, each),
        };
        // Data read before an error are valid, and our TLS alert must be sent.
        let flushed = self.flush();
        read.and(flushed)
    }

    /// Writes as much as the neighbor accepts. Closes this side after the last octet if the connection is to be closed.
    ///
    /// # Errors
    /// The connection has ended; the reason.
    pub(super) fn flush(&mut self) -> Result<(), CloseReason> {
        let stands = self.stage == Stage::Open;
        let outcome = match &mut self.tls {
            Some(_) if self.stage == Stage::Connecting => Ok(()),
            Some(tls) if stands => tls.write(&self.socket, &mut self.outgoing),
            Some(tls) => tls.write_records(&self.socket),
            None if stands => write(&self.socket, &mut self.outgoing),
            None => Ok(()),
        };
        outcome.map_err(|error| of_transfer(&error))?;
        if stands && self.is_ending && self.outgoing.is_empty() {
            if let Some(tls) = &mut self.tls {
                tls.close();
                tls.write_records(&self.socket).map_err(|error| of_transfer(&error))?;
                if tls.wants_write() {
                    return Ok(());
                }
            }
            self.socket.shutdown(Shutdown::Write).map_err(|_| CloseReason::Broken)?;
            self.stage = Stage::Lingering;
        }
        Ok(())
    }

    /// Closes this side of a connection that failed to be set up, so that the neighbor still receives the TLS alert: closing a
    /// socket with unread data would discard what was sent.
    pub(super) fn dismiss(&mut self) -> io::Result<()> {
        self.stage = Stage::Lingering;
        self.is_ending = true;
        self.socket.shutdown(Shutdown::Write)
    }

    fn open(&mut self, each: &mut dyn FnMut(&Connection, ConnectionEvent<'_>)) {
        self.stage = Stage::Open;
        each(self, ConnectionEvent::Open);
    }

    fn is_connected(&mut self) -> Result<bool, CloseReason> {
        if let Some(error) = self.socket.take_error().map_err(|_| CloseReason::Broken)? {
            return Err(match error.kind() {
                ErrorKind::TimedOut => CloseReason::TimedOut,
                _ => CloseReason::Unreachable,
            });
        }
        if self.socket.peer_addr().is_err() {
            return Ok(false);
        }
        self.local = self.socket.local_addr().map_err(|_| CloseReason::Broken)?;
        Ok(true)
    }

    fn read(
        &mut self,
        room: &mut [u8],
        each: &mut dyn FnMut(&Connection, ConnectionEvent<'_>),
    ) -> Result<(), CloseReason> {
        match (&self.socket).read(room) {
            Ok(0) => Err(CloseReason::Ended),
            Ok(length) => {
                if self.stage == Stage::Silent {
                    self.open(each);
                }
                each(self, ConnectionEvent::Data(&room[..length]));
                Ok(())
            }
            Err(error) if is_for_later(&error) => Ok(()),
            Err(error) => Err(of_transfer(&error)),
        }
    }

    fn read_tls(
        &mut self,
        room: &mut [u8],
        each: &mut dyn FnMut(&Connection, ConnectionEvent<'_>),
    ) -> Result<(), CloseReason> {
        let mut taken = 0;
        while taken < TURN {
            let Some(tls) = &mut self.tls else { return Ok(()) };
            let Some(length) = tls.receive(&self.socket)? else { break };
            taken += length;
            if tls.is_handshaking() {
                match length {
                    0 => return Err(CloseReason::Ended),
                    _ => continue,
                }
            }
            if self.stage == Stage::Handshaking {
                self.open(each);
            }
            self.read_plain(room, each)?;
        }
        Ok(())
    }

    /// Reads the data that TLS has decrypted.
    fn read_plain(
        &mut self,
        room: &mut [u8],
        each: &mut dyn FnMut(&Connection, ConnectionEvent<'_>),
    ) -> Result<(), CloseReason> {
        while let Some(tls) = &mut self.tls {
            match tls.read(room) {
                Ok(0) => return Err(CloseReason::Ended),
                Ok(length) => each(self, ConnectionEvent::Data(&room[..length])),
                Err(error) if is_for_later(&error) => break,
                // The stream was cut off without close_notify, possibly by an attacker.
                Err(_) => return Err(CloseReason::Broken),
            }
        }
        Ok(())
    }

    /// Discards received data, which nobody wants any more.
    fn discard(&mut self, room: &mut [u8]) -> Result<(), CloseReason> {
        match (&self.socket).read(room) {
            Ok(0) => Err(CloseReason::Ended),
            Ok(_) => Ok(()),
            Err(error) if is_for_later(&error) => Ok(()),
            Err(_) => Err(CloseReason::Broken),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
