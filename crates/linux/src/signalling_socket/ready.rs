//! Which of the sockets have something: by an epoll set of their own, or told by whoever has them in his.
//!
//! A set of their own that somebody waits for in another one costs a second call for each time that something comes, and the
//! kernel a second waking up.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::OpenError;

/// There are no more sockets than this: four, UDP's two ports in two families, and five for router alert.
pub(super) const MOST: u64 = 13;
/// Numbers of UDP's ports begin here, and those for router alert.
const FIRST_UDP: u64 = 4;
const FIRST_ALERTED: u64 = 8;

/// Where messages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Raw4,
    Raw6,
    Transit6,
    Intercepted,
    Udp(usize),
    Alerted(usize),
}

impl Source {
    /// The number that stands for it in the epoll set.
    fn number(self) -> u64 {
        match self {
            Source::Raw4 => 0,
            Source::Raw6 => 1,
            Source::Transit6 => 2,
            Source::Intercepted => 3,
            Source::Udp(port) => FIRST_UDP + port as u64,
            Source::Alerted(socket) => FIRST_ALERTED + socket as u64,
        }
    }

    pub(super) fn from_number(number: u64) -> Source {
        match number {
            0 => Source::Raw4,
            1 => Source::Raw6,
            2 => Source::Transit6,
            3 => Source::Intercepted,
            FIRST_UDP..FIRST_ALERTED => Source::Udp((number - FIRST_UDP) as usize),
            _ => Source::Alerted((number - FIRST_ALERTED) as usize),
        }
    }
}

/// The sockets, and which of them have something.
#[derive(Debug)]
pub(super) struct ReadySet {
    epoll: OwnedFd,
    /// The number of the first source in the set.
    first: u64,
    /// Whether somebody else waits for the set, and tells what it says.
    is_told: bool,
    /// A bit for each source that has something, as far as is known.
    ready: u16,
}

impl ReadySet {
    /// A set of their own.
    pub(super) fn new() -> Result<ReadySet, OpenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        Ok(ReadySet { epoll, first: 0, is_told: false, ready: 0 })
    }

    /// A set of somebody who tells what is ready, and in which sources have numbers from `first` on.
    pub(super) fn inside(epoll: OwnedFd, first: u64) -> ReadySet {
        ReadySet { epoll, first, is_told: true, ready: 0 }
    }

    pub(super) fn add(&self, source: Source, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let data = epoll::EventData::new_u64(self.first + source.number());
        epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN).map_err(failed)
    }

    /// Takes note of what has something; a number that is nobody's is ignored.
    pub(super) fn note(&mut self, number: u64) {
        if let Some(number) = number.checked_sub(self.first).filter(|&number| number < MOST) {
            self.ready |= 1 << number;
        }
    }

    /// Nothing waits at a source any more.
    pub(super) fn forget(&mut self, source: Source) {
        self.ready &= !(1 << source.number());
    }

    /// Finds out which have something now, unless that is told; never waits.
    pub(super) fn look(&mut self) -> io::Result<()> {
        if self.is_told {
            return Ok(());
        }
        self.ready = 0;
        let mut room = [const { MaybeUninit::uninit() }; MOST as usize];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, &mut room[..], Some(&now)) {
            Ok((events, _)) => events.iter().for_each(|event| self.note(event.data.u64())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Which have something, as far as is known.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> + use<> {
        let ready = self.ready;
        (0..MOST).filter(move |number| ready & (1 << number) != 0).map(Source::from_number)
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
