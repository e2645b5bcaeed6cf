//! Connections with neighbors, as in [`earmark_core::stream`]: TCP, with or without TLS, without blocking.
//!
//! All sockets are in an epoll set of their own, level-triggered, which the daemon's event loop waits for. Each turn does one
//! bounded piece of work for every ready connection. What the engine writes is collected and sent at the end of a turn
//! ([`Streams::flush`]). Octets that a neighbor does not read are queued up to a limit; beyond it only the connection of this
//! neighbor is closed.
//!
//! Connections that neighbors open are limited in total and for each address, and more tightly while they are half open. A
//! connection is reported to the engine when it is open: with TLS after mutual authentication, without it when the first
//! octets have arrived. All connections are in the traffic class of signalling, like all messages of this node.

mod connection;
mod neighbors;
mod settings;
mod socket;
mod source;
mod tls;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use earmark_core::{CloseReason, Connect, ConnectionId, StreamEvent, Time, Transport};
use rustix::event::epoll;
use socket2::Socket;
use tracing::{debug, warn};

use self::connection::{Connection, ConnectionEvent, Stage, TURN};
pub use self::settings::{Identity, Limits, Settings, TlsSettings};
use self::socket::{begin, listen};
use self::source::{Share, source};
pub use self::tls::TlsError;
use self::tls::{Session, Tls};
use crate::log::kind::AUTHENTICATION_FAILED;

/// Time that a neighbor has to close its side after we have closed ours.
const LINGER: Duration = Duration::from_secs(5);
/// Numbers in the epoll set: listeners count down from here, connections use their own numbers.
const LISTENERS: u64 = u64::MAX;

/// Why connections cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The settings of TLS are invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Listening on a port failed.
    #[error("port {port}")]
    Listen {
        /// The port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// Another system call failed.
    #[error("epoll")]
    System(#[from] io::Error),
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Connections initiated by this node.
    pub connected: u64,
    /// Connections initiated by neighbors.
    pub accepted: u64,
    /// Connections refused because of a limit.
    pub refused: u64,
    /// Connections whose peer failed to authenticate, or is not on the list.
    pub not_authenticated: u64,
    /// Half-open connections that timed out or were closed to make room for others.
    pub half_open: u64,
    /// Connections closed because the neighbor stopped reading.
    pub backlog: u64,
}

/// All connections of a daemon.
#[derive(Debug)]
pub struct Streams {
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    tls: Option<Tls>,
    limits: Limits,
    /// Connections by their number, which the engine or this module assigns.
    connections: BTreeMap<ConnectionId, Connection>,
    /// Deadlines of connections, earliest first; half-open connections are therefore in order of arrival.
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// Accepted connections by source; bounded by the limit on connections.
    sources: BTreeMap<IpAddr, Share>,
    half_open: usize,
    accepted: usize,
    next_accepted: u64,
    /// Ended connections that were not reported to the engine yet.
    ended: VecDeque<(ConnectionId, CloseReason)>,
    /// Connections with new octets to send.
    written: Vec<ConnectionId>,
    /// Time at which connections are accepted again.
    accept_again: Option<Time>,
    room: Box<[u8]>,
    counters: StreamCounters,
}

#[derive(Debug)]
struct Listener {
    socket: Socket,
    transport: Transport,
}

impl Streams {
    /// Opens the listening sockets in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The settings of TLS are invalid, or a port is taken or needs a privilege.
    pub fn open(settings: &Settings) -> Result<Streams, StreamError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        let secured = settings.tls.as_ref().map(|tls| (Transport::Tls, tls.port));
        let mut listeners = Vec::new();
        for (transport, port) in
            settings.tcp.map(|port| (Transport::Tcp, port)).into_iter().chain(secured)
        {
            for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
                match listen(SocketAddr::new(any, port)) {
                    Ok(socket) => listeners.push(Listener { socket, transport }),
                    // The kernel does not support this address family.
                    Err(error) if error.raw_os_error() == Some(EAFNOSUPPORT) => {}
                    Err(source) => return Err(StreamError::Listen { port, source }),
                }
            }
        }
        for (listener, number) in listeners.iter().zip(0..) {
            let data = epoll::EventData::new_u64(LISTENERS - number);
            epoll::add(&epoll, &listener.socket, data, epoll::EventFlags::IN)
                .map_err(io::Error::from)?;
        }
        Ok(Streams {
            epoll,
            listeners,
            tls,
            limits: settings.limits,
            connections: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            sources: BTreeMap::new(),
            half_open: 0,
            accepted: 0,
            next_accepted: 1,
            ended: VecDeque::new(),
            written: Vec::new(),
            accept_again: None,
            room: vec![0; TURN].into(),
            counters: StreamCounters::default(),
        })
    }

    /// Replaces keys, certificates and names for new connections; existing ones stay.
    ///
    /// # Errors
    /// The settings of TLS are invalid, and the old ones stay.
    pub fn reload(&mut self, settings: &Settings) -> Result<(), TlsError> {
        self.tls = settings.tls.as_ref().map(Tls::load).transpose()?;
        self.limits = settings.limits;
        Ok(())
    }

    /// Checks whether [`Streams::reload`] would apply settings.
    ///
    /// # Errors
    /// The settings of TLS are invalid.
    pub fn check(settings: &Settings) -> Result<(), TlsError> {
        settings.tls.as_ref().map(Tls::load).transpose().map(drop)
    }

    /// Starts a connection. [`Streams::serve`] reports the outcome.
    pub fn connect(&mut self, now: Time, connect: &Connect) {
        let id = connect.connection;
        match self.begin(connect) {
            Ok(connection) => {
                self.counters.connected += 1;
                self.enter(now, id, connection);
            }
            Err(reason) => {
                debug!(destination = %connect.destination, %reason, "no connection");
                self.ended.push_back((id, reason));
            }
        }
    }

    /// Queues octets for a connection. Octets for a connection that has ended are discarded, because its end is reported
    /// anyway.
    pub fn write(&mut self, id: ConnectionId, octets: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_ending {
            return;
        }
        if connection.backlog() + octets.len() > self.limits.backlog {
            self.end(id, CloseReason::Backlog);
            return;
        }
        if connection.backlog() == 0 {
            self.written.push(id);
        }
        connection.enqueue(octets);
    }

    /// Closes a connection after sending its queue; at once if it is not open yet and nothing was queued.
    pub fn close(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            self.ended.retain(|(ended, _)| *ended != id);
            return;
        };
        if connection.stage != Stage::Open && connection.backlog() == 0 {
            connection.is_reported = false;
            self.remove(id);
            return;
        }
        connection.is_ending = true;
        connection.is_reported = false;
        self.written.push(id);
        let due = now + LINGER;
        if connection.deadline.is_none() {
            connection.deadline = Some(due);
            self.deadlines.insert((due, id));
        }
    }

    /// Sends what was queued since the last call, in the order in which the connections were first written to.
    pub fn flush(&mut self) {
        for id in mem::take(&mut self.written) {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            match connection.flush() {
                Ok(()) => self.follow(id),
                Err(reason) => self.end(id, reason),
            }
        }
    }

    /// Time by which [`Streams::serve`] must be called even without events.
    pub fn next_deadline(&self) -> Option<Time> {
        let at_once = (!self.ended.is_empty()).then_some(Time::ZERO);
        let first = self.deadlines.first().map(|(at, _)| *at);
        [at_once, first, self.accept_again].into_iter().flatten().min()
    }

    /// Returns the counters.
    pub fn counters(&self) -> StreamCounters {
        self.counters
    }

    fn begin(&mut self, connect: &Connect) -> Result<Connection, CloseReason> {
        let tls = match (connect.transport, &self.tls) {
            (Transport::Tcp, _) => None,
            (Transport::Tls, None) => return Err(CloseReason::NotAuthenticated),
            (Transport::Tls, Some(tls)) => {
                let session = Session::initiated(tls, connect.destination.ip());
                Some(session.map_err(|_| CloseReason::NotAuthenticated)?)
            }
        };
        let local = match (connect.source, connect.destination) {
            // A link-local address needs the scope.
            (IpAddr::V6(own), SocketAddr::V6(to)) => {
                SocketAddrV6::new(own, 0, 0, to.scope_id()).into()
            }
            (own, _) => SocketAddr::new(own, 0),
        };
        let socket = begin(local, connect.destination).map_err(|_| CloseReason::Unreachable)?;
        Ok(Connection::ours(socket, tls, [local, connect.destination]))
    }

    /// Adds a connection, which must be open within the time limit of the handshake.
    fn enter(&mut self, now: Time, id: ConnectionId, mut connection: Connection) {
        let due = now + self.limits.handshake;
        connection.deadline = Some(due);
        connection.awaited = connection.awaits();
        let data = epoll::EventData::new_u64(id.0);
        let added = epoll::add(&self.epoll, &connection, data, connection.awaited);
        self.deadlines.insert((due, id));
        self.connections.insert(id, connection);
        if added.is_err() {
            self.end(id, CloseReason::Broken);
        }
    }

    fn serve_one(&mut self, id: ConnectionId, each: &mut dyn FnMut(StreamEvent<'_>)) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_half_open = connection.is_half_open;
        let mut opened = false;
        let wanted = !connection.is_ending;
        let outcome = connection.serve(&mut self.room, &mut |connection, event| {
            opened |= event == ConnectionEvent::Open;
            if wanted {
                each(stream_event(id, connection, event));
            }
        });
        if opened {
            connection.is_reported = wanted;
            if let Some(due) = connection.deadline.take_if(|_| wanted) {
                self.deadlines.remove(&(due, id));
            }
        }
        if opened && was_half_open {
            connection.is_half_open = false;
            self.half_open -= 1;
            if let Some(share) = self.sources.get_mut(&source(connection.peer.ip())) {
                share.half_open -= 1;
            }
        }
        match outcome {
            Ok(()) => self.follow(id),
            Err(CloseReason::NotAuthenticated)
                if connection.is_half_open && connection.dismiss().is_ok() =>
            {
                self.counters.not_authenticated += 1;
                self.follow(id);
            }
            Err(reason) => self.end(id, reason),
        }
    }

    /// Ends the connections that were not set up, or not closed, in time.
    fn expire(&mut self, now: Time) {
        while let Some(&(at, id)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let is_set_up =
                self.connections.get(&id).is_some_and(|it| it.stage == Stage::Lingering);
            self.counters.half_open += u64::from(!is_set_up);
            self.end(id, CloseReason::TimedOut);
        }
    }

    /// Removes a connection and reports its end to the engine, if the connection was reported.
    fn end(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(connection) = self.remove(id) else { return };
        let peer = connection.peer;
        debug!(%peer, %reason, "connection closed");
        match reason {
            CloseReason::NotAuthenticated => {
                self.counters.not_authenticated += 1;
                warn!(kind = AUTHENTICATION_FAILED.name, peer = %peer.ip(), "TLS: {reason}");
            }
            CloseReason::Backlog => self.counters.backlog += 1,
            _ => {}
        }
        if connection.is_reported {
            self.ended.push_back((id, reason));
        }
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(due) = connection.deadline {
            self.deadlines.remove(&(due, id));
        }
        if is_accepted(id) {
            self.accepted -= 1;
            let key = source(connection.peer.ip());
            let is_half_open = usize::from(connection.is_half_open);
            self.half_open -= is_half_open;
            if let Some(share) = self.sources.get_mut(&key) {
                share.connections -= 1;
                share.half_open -= is_half_open;
                if share.connections == 0 {
                    self.sources.remove(&key);
                }
            }
        }
        Some(connection)
    }

    /// Updates the events that the epoll set waits for.
    fn follow(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let awaits = connection.awaits();
        if awaits == connection.awaited {
            return;
        }
        connection.awaited = awaits;
        let data = epoll::EventData::new_u64(id.0);
        if epoll::modify(&self.epoll, &*connection, data, awaits).is_err() {
            self.end(id, CloseReason::Broken);
        }
    }
}

impl AsFd for Streams {
    /// Descriptor that is readable while [`Streams::serve`] has work to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Error number of an unsupported address family, `EAFNOSUPPORT`.
const EAFNOSUPPORT: i32 = rustix::io::Errno::AFNOSUPPORT.raw_os_error();

fn stream_event<'a>(
    id: ConnectionId,
    connection: &Connection,
    event: ConnectionEvent<'a>,
) -> StreamEvent<'a> {
    match event {
        ConnectionEvent::Open => StreamEvent::Open {
            connection: id,
            local: connection.local,
            peer: connection.peer,
            transport: connection.transport,
        },
        ConnectionEvent::Data(octets) => StreamEvent::Data { connection: id, octets },
    }
}

/// Whether a neighbor has initiated the connection: these have odd numbers.
fn is_accepted(id: ConnectionId) -> bool {
    id.0 % 2 == 1
}

#[cfg(all(test, feature = "tls"))]
mod tests;
