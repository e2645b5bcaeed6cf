//! A node inside another program: what a daemon is, but for its control socket and its signals.
//!
//! The program hands in commands and takes events, with no socket between; a measurement, for instance, has sixty thousand
//! sessions begin here. It is never blocked: it waits for [`Embedded`]'s descriptor to become readable, or for
//! [`Embedded::next_deadline`], and then calls [`Embedded::serve`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use earmark_core::Time;
use earmark_linux::SignallingSocket;
use earmark_node::{Command, Event, Input, Node};
use rustix::event::epoll;
use rustix::fs::Timespec;

use crate::config::Config;
use crate::daemon::{DaemonError, Station};
use crate::event_loop::{TIMER_GRAIN, next_multiple, receive};

/// The sources in the epoll set, by number; those of messages come behind them.
const MIRROR: u64 = 0;
const STREAMS: u64 = 1;
const FIRST_MESSAGES: u64 = 2;

/// See the module's text.
pub struct Embedded {
    station: Station,
    set: OwnedFd,
    ready: Vec<epoll::Event>,
    grain: Duration,
}

impl Embedded {
    /// Starts a node in the network namespace of the calling thread, to which it belongs from then on: connections are
    /// begun by the thread that calls [`Embedded::serve`] and [`Embedded::command`].
    ///
    /// # Errors
    /// Of a daemon: it lacks privileges, there is one already, the settings do not fit this host.
    pub fn start(config: &Config) -> Result<Embedded, DaemonError> {
        let mut station = Station::open(config)?;
        let set = wait_set(&mut station).map_err(|error| DaemonError::System {
            doing: "wait for events",
            cause: error.to_string(),
        })?;
        let ready = Vec::with_capacity((FIRST_MESSAGES + SignallingSocket::SOURCES) as usize);
        Ok(Embedded { station, set, ready, grain: TIMER_GRAIN })
    }

    /// Has timers fire at their time, and not together with others as those of a daemon do.
    pub fn set_exact_timers(&mut self) {
        self.grain = Duration::ZERO;
    }

    /// The node's present.
    pub fn now(&self) -> Time {
        self.station.clock.now()
    }

    /// Carries a command out.
    pub fn command(&mut self, command: Command) {
        let now = self.now();
        self.station.driver.handle(now, Input::Command(command));
    }

    /// Does what there is to do, bounded in work; what is left is reported again.
    ///
    /// # Errors
    /// A socket failed that the node cannot do without.
    pub fn serve(&mut self) -> io::Result<()> {
        self.look()?;
        let Station { clock, driver, watch, .. } = &mut self.station;
        let mut is_told_of_messages = false;
        for event in &self.ready {
            match event.data.u64() {
                MIRROR => watch.follow_kernel(clock.now(), driver),
                STREAMS => driver.follow_streams(clock.now())?,
                number => {
                    driver.kernel().socket.note(number);
                    is_told_of_messages = true;
                }
            }
        }
        if is_told_of_messages {
            receive(driver, *clock)?;
        }
        let now = clock.now();
        let due = driver.next_deadline().map(|deadline| next_multiple(deadline, self.grain));
        if due.is_some_and(|due| due <= now) {
            driver.expire(now);
        }
        if driver.next_look().is_some_and(|at| at <= now) {
            driver.look(now)?;
        }
        if driver.next_stream_deadline().is_some_and(|at| at <= now) {
            driver.follow_streams(now)?;
        }
        watch.house_keeping(now, driver);
        Ok(())
    }

    /// When [`Embedded::serve`] is due at the latest.
    pub fn next_deadline(&self) -> Time {
        let Station { driver, watch, .. } = &self.station;
        let timers = driver.next_deadline().map(|deadline| next_multiple(deadline, self.grain));
        let house = Some(watch.next_deadline());
        let deadlines = [timers, driver.next_look(), driver.next_stream_deadline(), house];
        deadlines.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// What the node has reported since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.station.driver.take_events()
    }

    /// The node, to be looked at.
    pub fn node(&self) -> &Node {
        self.station.driver.node()
    }

    /// What is ready, without waiting.
    fn look(&mut self) -> io::Result<()> {
        self.ready.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.set, room, Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Embedded {
    /// Readable when [`Embedded::serve`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

fn wait_set(station: &mut Station) -> io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let enter = |number, descriptor: BorrowedFd<'_>| {
        epoll::add(&set, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
    };
    enter(MIRROR, station.watch.mirror.as_fd())?;
    enter(STREAMS, station.driver.kernel_ref().streams.as_fd())?;
    station.driver.kernel().socket.wait_in(set.try_clone()?, FIRST_MESSAGES)?;
    Ok(set)
}
