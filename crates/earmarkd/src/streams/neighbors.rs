//! Connections that neighbors open: which ones are accepted, and which ones are closed for them.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use earmark_core::{ConnectionId, Time, Transport};
use rustix::event::epoll;
use socket2::Socket;
use tracing::{debug, warn};

use super::connection::Connection;
use super::socket::{is_transient, prepare};
use super::source::source;
use super::tls::Session;
use super::{LISTENERS, Listener, Streams};

/// Most connections accepted in a turn.
const ACCEPTS: usize = 16;
/// Pause in accepting connections when the process has no file descriptors left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

impl Streams {
    /// Accepts the waiting connections, a bounded number of them.
    pub(super) fn accept(&mut self, now: Time, listener: usize) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Listener { socket, transport } = &self.listeners[listener];
            let transport = *transport;
            match socket.accept() {
                Ok((socket, peer)) => {
                    let peer = peer.as_socket();
                    if let Err(error) =
                        peer.map_or(Ok(()), |peer| self.let_in(now, socket, transport, peer))
                    {
                        debug!(%error, ?peer, "connection not accepted");
                    }
                }
                Err(error) if is_transient(&error) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    // Probably out of descriptors. Neighbors still wait, so avoid a busy loop.
                    warn!(%error, "cannot accept connections of neighbours");
                    self.accept_again = Some(now + ACCEPT_BACKOFF);
                    self.listen_for(epoll::EventFlags::empty())?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn let_in(
        &mut self,
        now: Time,
        socket: Socket,
        transport: Transport,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let source = source(peer.ip());
        let share = self.sources.get(&source).copied().unwrap_or_default();
        if share.half_open >= self.limits.half_open_per_source {
            self.make_room(Some(source));
        } else if self.half_open >= self.limits.half_open {
            self.make_room(None);
        }
        let share = self.sources.get(&source).copied().unwrap_or_default();
        if share.connections >= self.limits.per_source || self.accepted >= self.limits.connections {
            self.counters.refused += 1;
            return Ok(());
        }
        let tls = match (transport, &self.tls) {
            (Transport::Tcp, _) => None,
            (Transport::Tls, Some(tls)) => Some(Session::accepted(tls)?),
            (Transport::Tls, None) => return Ok(()),
        };
        prepare(&socket, peer.is_ipv4())?;
        let socket = TcpStream::from(socket);
        let local = socket.local_addr()?;
        let id = ConnectionId(self.next_accepted);
        self.next_accepted += 2;
        self.counters.accepted += 1;
        self.accepted += 1;
        self.half_open += 1;
        let share = self.sources.entry(source).or_default();
        share.connections += 1;
        share.half_open += 1;
        self.enter(now, id, Connection::accepted(socket, tls, [local, peer]));
        Ok(())
    }

    /// Closes the oldest half-open connection of one source, or of all.
    fn make_room(&mut self, of: Option<IpAddr>) {
        let oldest = self.deadlines.iter().map(|(_, id)| *id).find(|id| {
            self.connections.get(id).is_some_and(|connection| {
                let is_his = of.is_none_or(|of| of == source(connection.peer.ip()));
                connection.is_half_open && is_his
            })
        });
        if let Some(id) = oldest {
            self.counters.half_open += 1;
            self.remove(id);
        }
    }

    /// Changes the events of the listeners that the epoll set waits for.
    pub(super) fn listen_for(&self, flags: epoll::EventFlags) -> io::Result<()> {
        for (listener, number) in self.listeners.iter().zip(0..) {
            let data = epoll::EventData::new_u64(LISTENERS - number);
            epoll::modify(&self.epoll, &listener.socket, data, flags)?;
        }
        Ok(())
    }
}
