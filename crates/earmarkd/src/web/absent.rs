//! The web page of a program that was built without HTTP: there is none.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::Time;

use super::WebSocket;
use crate::control::Hub;
use crate::syscall_filter::SyscallFilter;

/// The endpoint, which cannot exist.
pub(crate) struct WebEndpoint(Infallible);

impl WebEndpoint {
    /// Fails.
    ///
    /// # Errors
    /// Always: the program has no HTTP.
    pub(crate) fn start(_socket: WebSocket, _filter: SyscallFilter) -> io::Result<WebEndpoint> {
        Err(io::Error::other("this program was built without the feature `http`"))
    }

    /// Gives new clients to the hub.
    pub(crate) fn connect_clients(&mut self, _hub: &mut Hub, _now: Time) {
        match self.0 {}
    }
}

impl AsFd for WebEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
