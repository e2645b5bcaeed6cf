//! The epoll set of the event loop, which contains all sources, so that a wake-up reports which ones are ready.
//!
//! The deadline is a timer in the set, which is set only when the deadline changes. A timeout of the wait would be started and
//! stopped for every message that arrives before it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use earmark_core::Time;
use earmark_linux::SignallingSocket;
use earmark_linux::clock::Clock;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::control::{ClientId, Hub};

/// Number of the first source of messages in the set. Clients, counted from 1, follow the sources of messages.
pub(super) const FIRST_MESSAGES: u64 = 8;
const BEHIND_MESSAGES: u64 = FIRST_MESSAGES + SignallingSocket::SOURCES;

/// Most sources reported by one wait.
const EVENTS: usize = 64;

/// A source that can become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    /// The timer of the deadline.
    Timer,
    /// A source of messages, by its number in the set.
    Messages(u64),
    Mirror,
    TrafficControl,
    Listener,
    Streams,
    Metrics,
    Web,
    Client(ClientId),
}

impl Source {
    /// Number of the source in the epoll set.
    fn number(self) -> u64 {
        match self {
            Source::Signals => 0,
            Source::Mirror => 1,
            Source::Listener => 2,
            Source::Streams => 3,
            Source::Timer => 4,
            Source::TrafficControl => 5,
            Source::Metrics => 6,
            Source::Web => 7,
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
            4 => Source::Timer,
            5 => Source::TrafficControl,
            6 => Source::Metrics,
            7 => Source::Web,
            FIRST_MESSAGES..BEHIND_MESSAGES => Source::Messages(number),
            client => Source::Client(ClientId(client - BEHIND_MESSAGES)),
        }
    }
}

/// The epoll set, with the interests of the hub in its clients.
pub(super) struct WaitSet {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Time that the timer is set to; `None` if it has expired.
    wakes_at: Option<Time>,
    clients: BTreeMap<ClientId, epoll::EventFlags>,
    /// Changes of the clients that `clients` includes.
    followed: Option<u64>,
    events: Vec<epoll::Event>,
}

impl WaitSet {
    pub(super) fn new() -> io::Result<WaitSet> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let set = WaitSet {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            wakes_at: None,
            clients: BTreeMap::new(),
            followed: None,
            events: Vec::with_capacity(EVENTS),
        };
        let data = epoll::EventData::new_u64(Source::Timer.number());
        epoll::add(&set.epoll, &set.timer, data, epoll::EventFlags::IN)?;
        Ok(set)
    }

    /// A descriptor of the set, for sources that add themselves.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    pub(super) fn add(&mut self, source: Source, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.number());
        Ok(epoll::add(&self.epoll, descriptor, data, epoll::EventFlags::IN)?)
    }

    /// Adds new clients and updates the interests in the others. Closing a descriptor removes it from the set.
    pub(super) fn follow_clients(&mut self, hub: &Hub) -> io::Result<()> {
        if self.followed == Some(hub.client_changes()) {
            return Ok(());
        }
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
        self.followed = Some(hub.client_changes());
        Ok(())
    }

    /// Waits until a source is ready, or for the deadline. Fills `ready` with the sources, each with whether it is readable or
    /// has ended.
    pub(super) fn wait(
        &mut self,
        clock: Clock,
        deadline: Option<Time>,
        ready: &mut Vec<(Source, bool)>,
    ) -> io::Result<()> {
        self.set_timer(clock, deadline.unwrap_or(Time::MAX))?;
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear();
        let to_read = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        for event in &self.events {
            let flags = event.flags;
            match Source::from_number(event.data.u64()) {
                // Setting the timer again clears its expiration.
                Source::Timer => self.wakes_at = None,
                source => ready.push((source, flags.intersects(to_read))),
            }
        }
        Ok(())
    }

    /// Sets the timer to a deadline, or to expire at once if the deadline has passed.
    fn set_timer(&mut self, clock: Clock, deadline: Time) -> io::Result<()> {
        if self.wakes_at == Some(deadline) {
            return Ok(());
        }
        let longest = (deadline - clock.now()).max(Duration::from_nanos(1)); // zero disarms it
        let it_value = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.wakes_at = Some(deadline);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::time::timerfd_gettime;

    use super::*;

    /// A wait ends at its deadline and not before, also if the deadline has passed or is the previous one.
    #[test]
    fn a_deadline_ends_a_wait() {
        let clock = Clock::start();
        let (mut set, mut ready) = (WaitSet::new().unwrap(), Vec::new());
        let soon = clock.now() + Duration::from_millis(20);
        for deadline in [soon, soon, Time::ZERO, soon + Duration::from_millis(20)] {
            set.wait(clock, Some(deadline), &mut ready).unwrap();
            assert!(clock.now() >= deadline);
            assert_eq!(ready, []);
        }
    }

    /// A source that becomes ready before the deadline leaves the timer as it is.
    #[test]
    fn a_timer_is_set_once_for_a_deadline() {
        let clock = Clock::start();
        let (mut set, mut ready) = (WaitSet::new().unwrap(), Vec::new());
        let (mut far, near) = UnixStream::pair().unwrap();
        set.add(Source::Mirror, near.as_fd()).unwrap();
        far.write_all(b"x").unwrap();
        for deadline in [None, Some(Time::MAX), Some(Time::from_secs(3_600))] {
            set.wait(clock, deadline, &mut ready).unwrap();
            assert_eq!(ready, [(Source::Mirror, true)]);
        }
        // The test disarms the timer to detect whether it is set again.
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let never = Itimerspec { it_interval: never, it_value: never };
        timerfd_settime(&set.timer, TimerfdTimerFlags::empty(), &never).unwrap();
        set.wait(clock, Some(Time::from_secs(3_600)), &mut ready).unwrap();
        let left = timerfd_gettime(&set.timer).unwrap().it_value;
        assert_eq!((left.tv_sec, left.tv_nsec), (0, 0));
        set.wait(clock, Some(Time::from_secs(7_200)), &mut ready).unwrap();
        assert!(timerfd_gettime(&set.timer).unwrap().it_value.tv_sec > 3_600);
    }

    #[test]
    fn source_numbers_convert_back() {
        let clients = [1, 2, u64::MAX >> 1].map(|id| Source::Client(ClientId(id)));
        let messages = [FIRST_MESSAGES, BEHIND_MESSAGES - 1].map(Source::Messages);
        let others = [
            Source::Signals,
            Source::Timer,
            Source::Mirror,
            Source::Listener,
            Source::Streams,
            Source::Metrics,
            Source::Web,
        ];
        for source in clients.into_iter().chain(messages).chain(others) {
            assert_eq!(Source::from_number(source.number()), source);
        }
    }
}
