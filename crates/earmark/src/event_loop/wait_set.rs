//! What the event loop waits for: one epoll set for everything, so that each wake-up says what there is.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use earmark_linux::SignallingSocket;
use rustix::event::epoll;
use rustix::fs::Timespec;

use crate::control::{ClientId, Hub};

/// The sources of messages have numbers from here on in the set, and behind them the clients, which count from 1.
pub(super) const FIRST_MESSAGES: u64 = 4;
const BEHIND_MESSAGES: u64 = FIRST_MESSAGES + SignallingSocket::SOURCES;

/// What can become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    /// One of the sources of messages, by its number in the set.
    Messages(u64),
    Mirror,
    Listener,
    Streams,
    Client(ClientId),
}

impl Source {
    /// The number that stands for it in the epoll set.
    fn number(self) -> u64 {
        match self {
            Source::Signals => 0,
            Source::Mirror => 1,
            Source::Listener => 2,
            Source::Streams => 3,
            Source::Messages(number) => number,
            Source::Client(ClientId(id)) => BEHIND_MESSAGES + id,
        }
    }

    fn from_number(number: u64) -> Source {
        match number {
            0 => Source::Signals,
            1 => Source::Mirror,
            2 => Source::Listener,
            3 => Source::Streams,
            FIRST_MESSAGES..BEHIND_MESSAGES => Source::Messages(number),
            client => Source::Client(ClientId(client - BEHIND_MESSAGES)),
        }
    }
}

/// An epoll set that follows what the hub wants of its clients.
pub(super) struct WaitSet {
    epoll: OwnedFd,
    clients: BTreeMap<ClientId, epoll::EventFlags>,
    ready: Vec<epoll::Event>,
}

impl WaitSet {
    pub(super) fn new() -> io::Result<WaitSet> {
        Ok(WaitSet {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            clients: BTreeMap::new(),
            ready: Vec::with_capacity(64),
        })
    }

    /// The set itself, for whoever enters what is his.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    pub(super) fn add(&mut self, source: Source, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.number());
        Ok(epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)?)
    }

    /// Enters new clients, and changes what is awaited of the others. Closing a descriptor takes it out by itself.
    pub(super) fn follow_clients(&mut self, hub: &Hub) -> io::Result<()> {
        let mut present = BTreeMap::new();
        for (id, descriptor, read, write) in hub.interests() {
            let mut flags = epoll::EventFlags::empty();
            flags.set(epoll::EventFlags::IN, read);
            flags.set(epoll::EventFlags::OUT, write);
            let data = epoll::EventData::new_u64(Source::Client(id).number());
            match self.clients.get(&id) {
                None => epoll::add(&self.epoll, descriptor, data, flags)?,
                Some(&awaited) if awaited != flags => {
                    epoll::modify(&self.epoll, descriptor, data, flags)?;
                }
                Some(_) => {}
            }
            present.insert(id, flags);
        }
        self.clients = present;
        Ok(())
    }

    /// Waits, at most so long; gives what is ready, and whether it can be read or has ended.
    pub(super) fn wait(&mut self, longest: Option<Duration>) -> io::Result<Vec<(Source, bool)>> {
        let timeout = longest.map(|longest| Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        });
        self.ready.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.ready),
            timeout.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let to_read = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        let ready = self.ready.iter().map(|event| {
            let flags = event.flags;
            (Source::from_number(event.data.u64()), flags.intersects(to_read))
        });
        Ok(ready.collect())
    }
}
