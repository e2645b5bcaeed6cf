//! The readable sockets: by an epoll set of their own, or as reported by the caller who polls them in his set.
//!
//! An own set inside the caller's set would cost a second system call for each event, and the kernel a second wake-up.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::OpenError;

/// Maximum number of sources: the interceptor, UDP's two ports in two families, and raw sockets: two for each IP
/// protocol, and one for each value of IPv6's router alert.
pub(super) const MAX_SOURCES: u64 = 64;
/// First numbers of UDP's ports and of the raw sockets.
const FIRST_UDP: u64 = 1;
const FIRST_RAW: u64 = 5;

/// A source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Intercepted,
    Udp(usize),
    Raw(usize),
}

impl Source {
    /// Returns the number of the source in the epoll set.
    fn number(self) -> u64 {
        match self {
            Source::Intercepted => 0,
            Source::Udp(port) => FIRST_UDP + port as u64,
            Source::Raw(socket) => FIRST_RAW + socket as u64,
        }
    }

    pub(super) fn from_number(number: u64) -> Source {
        match number {
            0 => Source::Intercepted,
            FIRST_UDP..FIRST_RAW => Source::Udp((number - FIRST_UDP) as usize),
            _ => Source::Raw((number - FIRST_RAW) as usize),
        }
    }
}

/// The epoll set of the sockets, and the readable ones among them.
#[derive(Debug)]
pub(super) struct ReadySet {
    epoll: OwnedFd,
    /// The number of the first source in the set.
    first: u64,
    /// Whether the set is the caller's, who polls it and reports readable sources.
    is_callers: bool,
    /// Bit mask of the sources that are known to be readable.
    ready: u64,
}

impl ReadySet {
    /// Creates a set of its own.
    pub(super) fn new() -> Result<ReadySet, OpenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        Ok(ReadySet { epoll, first: 0, is_callers: false, ready: 0 })
    }

    /// Uses the caller's set, in which sources have numbers from `first` on; the caller reports readable ones.
    pub(super) fn of_caller(epoll: OwnedFd, first: u64) -> ReadySet {
        ReadySet { epoll, first, is_callers: true, ready: 0 }
    }

    pub(super) fn add(&self, source: Source, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        if source.number() >= MAX_SOURCES {
            return Err(failed(Errno::MFILE));
        }
        let data = epoll::EventData::new_u64(self.first + source.number());
        epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN).map_err(failed)
    }

    /// Records a readable source; ignores numbers of other descriptors.
    pub(super) fn mark_ready(&mut self, number: u64) {
        if let Some(number) = number.checked_sub(self.first).filter(|&number| number < MAX_SOURCES)
        {
            self.ready |= 1 << number;
        }
    }

    /// Records that nothing waits at a source any more.
    pub(super) fn forget(&mut self, source: Source) {
        self.ready &= !(1 << source.number());
    }

    /// Polls the sockets unless the caller reports them; never waits.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        if self.is_callers {
            return Ok(());
        }
        self.ready = 0;
        let mut events_buffer = [const { MaybeUninit::uninit() }; MAX_SOURCES as usize];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, &mut events_buffer[..], Some(&now)) {
            Ok((events, _)) => events.iter().for_each(|event| self.mark_ready(event.data.u64())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the sources that are known to be readable.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> + use<> {
        let mut ready = self.ready;
        std::iter::from_fn(move || {
            let number = ready.trailing_zeros();
            ready &= ready.checked_sub(1)?; // clears the lowest bit; none is left at 0
            Some(Source::from_number(number.into()))
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0
    }
}

impl AsFd for ReadySet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn failed(error: Errno) -> OpenError {
    OpenError::System { doing: "wait for messages", source: error.into() }
}
