//! Which of the sockets have something: an epoll set inside the one of the daemon.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::OpenError;

/// There are no more sockets than this: four, UDP's two ports in two families, and five for router alert.
const MOST: usize = 13;
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

    fn from_number(number: u64) -> Source {
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

/// The sockets, to be asked which of them have something. It can itself be waited for.
#[derive(Debug)]
pub(super) struct ReadySet {
    epoll: OwnedFd,
}

impl ReadySet {
    pub(super) fn new() -> Result<ReadySet, OpenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        Ok(ReadySet { epoll })
    }

    pub(super) fn add(&self, source: Source, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let data = epoll::EventData::new_u64(source.number());
        epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN).map_err(failed)
    }

    /// Which have something now; never waits.
    pub(super) fn now(&self) -> io::Result<impl Iterator<Item = Source> + use<>> {
        let mut room = [const { MaybeUninit::uninit() }; MOST];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut sources = [None; MOST];
        match epoll::wait(&self.epoll, &mut room[..], Some(&now)) {
            Ok((ready, _)) => {
                for (place, event) in sources.iter_mut().zip(ready) {
                    *place = Some(Source::from_number(event.data.u64()));
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(sources.into_iter().flatten())
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
