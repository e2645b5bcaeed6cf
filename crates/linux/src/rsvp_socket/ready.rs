//! Which of the sockets have something: an epoll set inside the one of the daemon.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::OpenError;
use super::raw::RawSockets;
use super::udp::UdpSockets;

/// There are no more sockets than this: four, and UDP's two ports in two families.
const MOST: usize = 8;

/// Where messages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Raw4,
    Raw6,
    Transit6,
    Intercepted,
    Udp(usize),
}

impl Source {
    const ALL_BUT_UDP: [Source; 4] =
        [Source::Raw4, Source::Raw6, Source::Transit6, Source::Intercepted];

    /// The number that stands for it in the epoll set.
    fn number(self) -> u64 {
        match self {
            Source::Raw4 => 0,
            Source::Raw6 => 1,
            Source::Transit6 => 2,
            Source::Intercepted => 3,
            Source::Udp(port) => 4 + port as u64,
        }
    }

    fn from_number(number: u64) -> Source {
        let port = number.saturating_sub(4) as usize;
        Source::ALL_BUT_UDP.get(number as usize).copied().unwrap_or(Source::Udp(port))
    }

    pub(super) fn socket<'a>(
        self,
        raw: Option<&'a RawSockets>,
        udp: Option<&'a UdpSockets>,
    ) -> Option<&'a OwnedFd> {
        match self {
            Source::Raw4 => raw.map(|raw| &raw.receiver4),
            Source::Raw6 => Some(&raw?.six.as_ref()?.receiver),
            Source::Transit6 => Some(&raw?.six.as_ref()?.transit),
            Source::Intercepted => None,
            Source::Udp(port) => udp?.ports.get(port).map(|port| &port.socket),
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
