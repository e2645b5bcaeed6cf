//! The endpoint of a program that was built without HTTP: there is none.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use earmark_core::Time;

use super::MetricsSettings;
use crate::control::Hub;
use crate::driver::{Driver, Kernel};
use crate::syscall_filter::SyscallFilter;

/// The endpoint, which cannot exist.
pub(crate) struct Endpoint(Infallible);

impl Endpoint {
    /// Fails.
    ///
    /// # Errors
    /// Always: the program has no HTTP.
    pub(crate) fn start(
        _settings: &MetricsSettings,
        _listener: TcpListener,
        _filter: SyscallFilter,
    ) -> io::Result<Endpoint> {
        Err(io::Error::other("this program was built without the feature `http`"))
    }

    /// Notes the length of a turn of the event loop.
    pub(crate) fn note_turn(&mut self, _turn: Duration) {
        match self.0 {}
    }

    /// Collects a slice of what is wanted.
    pub(crate) fn collect<K: Kernel>(&mut self, _now: Time, _hub: &Hub, _driver: &mut Driver<K>) {
        match self.0 {}
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
