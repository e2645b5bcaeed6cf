//! The endpoint on the side of the event loop: it gives the connections of the page to the control hub.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};

use earmark_core::Time;
use earmark_linux::PeerCredentials;
use rustix::event::{EventfdFlags, eventfd};

use super::WebSocket;
use super::server::{Server, serve};
use crate::control::{Hub, Role};
use crate::server_thread::ServerThread;
use crate::syscall_filter::SyscallFilter;

/// A connection of the page to the hub.
pub(super) struct NewClient {
    /// The hub's end of the socket pair.
    pub(super) stream: UnixStream,
    /// User for whom the page asks.
    pub(super) peer: PeerCredentials,
    /// What this user may do.
    pub(super) role: Role,
}

/// The endpoint on the side of the event loop.
pub(crate) struct WebEndpoint {
    /// Readable while connections wait.
    wanted: Arc<OwnedFd>,
    clients: mpsc::Receiver<NewClient>,
    _thread: ServerThread,
}

impl WebEndpoint {
    /// Starts a thread that serves `socket`, without privileges and with a filter for system calls.
    ///
    /// # Errors
    /// The system refuses the thread or what it needs.
    pub(crate) fn start(socket: WebSocket, filter: SyscallFilter) -> io::Result<WebEndpoint> {
        let wanted = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (connect, clients) = mpsc::channel();
        let hub = HubConnector { wanted: wanted.clone(), connect };
        let prepare = move || Ok(serve(Server::new(socket, hub)?));
        let thread = ServerThread::start("earmark-web", filter, prepare)?;
        Ok(WebEndpoint { wanted, clients, _thread: thread })
    }

    /// Gives new connections to the hub. The server bounds their number.
    pub(crate) fn connect_clients(&mut self, hub: &mut Hub, now: Time) {
        // Before the connections are taken, so that a later one makes the descriptor readable again.
        let _ = rustix::io::read(&self.wanted, &mut [0; 8]);
        for NewClient { stream, peer, role } in self.clients.try_iter() {
            hub.connect_page(stream, peer, role, now);
        }
    }
}

impl AsFd for WebEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wanted.as_fd()
    }
}

/// The way from the thread of the page to the hub.
pub(super) struct HubConnector {
    wanted: Arc<OwnedFd>,
    connect: mpsc::Sender<NewClient>,
}

impl HubConnector {
    /// Opens a connection to the hub for a user.
    ///
    /// # Errors
    /// No descriptor is left, or the daemon stops.
    pub(super) fn connect(&self, peer: PeerCredentials, role: Role) -> io::Result<UnixStream> {
        let (own, stream) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        self.connect.send(NewClient { stream, peer, role }).map_err(io::Error::other)?;
        rustix::io::write(&self.wanted, &1_u64.to_ne_bytes())?;
        Ok(own)
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
