//! A node inside another program: a daemon without control socket and signal handlers.
//!
//! The program passes commands and takes events directly; a measurement, for instance, opens sixty thousand sessions this way.
//! No call blocks: the program waits until the descriptor of [`Embedded`] is readable, or for [`Embedded::next_deadline`],
//! and then calls [`Embedded::serve`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use earmark_core::Time;
use earmark_linux::SignallingSocket;
use earmark_node::{Command, Event, Input, Node};
use rustix::event::epoll;
use rustix::fs::Timespec;

use crate::config::Config;
use crate::daemon::{DaemonError, Runtime};
use crate::event_loop::{TIMER_GRAIN, next_multiple, receive};

/// Numbers of the sources in the epoll set; the sources of messages follow.
const MIRROR: u64 = 0;
const STREAMS: u64 = 1;
const FIRST_MESSAGES: u64 = 2;

/// A node that runs inside the calling program.
pub struct Embedded {
    runtime: Runtime,
    set: OwnedFd,
    ready: Vec<epoll::Event>,
    grain: Duration,
}

impl Embedded {
    /// Starts a node in the network namespace of the calling thread. Connections are opened by the thread that calls
    /// [`Embedded::serve`] and [`Embedded::command`], which must therefore be in the same namespace.
    ///
    /// # Errors
    /// The errors of a daemon: missing privileges, another daemon in the namespace, or settings that do not fit this host.
    pub fn start(config: &Config) -> Result<Embedded, DaemonError> {
        let mut runtime = Runtime::open(config)?;
        let set = wait_set(&mut runtime).map_err(DaemonError::system("wait for events"))?;
        let ready = Vec::with_capacity((FIRST_MESSAGES + SignallingSocket::SOURCES) as usize);
        Ok(Embedded { runtime, set, ready, grain: TIMER_GRAIN })
    }

    /// Lets each timer fire at its exact time, instead of together with others as in a daemon.
    pub fn set_exact_timers(&mut self) {
        self.grain = Duration::ZERO;
    }

    /// Returns the node's current time.
    pub fn now(&self) -> Time {
        self.runtime.clock.now()
    }

    /// Carries out a command.
    pub fn command(&mut self, command: Command) {
        let now = self.now();
        self.runtime.driver.handle(now, Input::Command(command));
    }

    /// Does the work that is due, a bounded amount; the remaining work makes the descriptor readable again.
    ///
    /// # Errors
    /// A socket that the node depends on failed.
    pub fn serve(&mut self) -> io::Result<()> {
        self.look()?;
        let Runtime { clock, driver, watch, .. } = &mut self.runtime;
        let mut is_told_of_messages = false;
        for event in &self.ready {
            match event.data.u64() {
                MIRROR => watch.follow_kernel(clock.now(), driver),
                STREAMS => driver.follow_streams(clock.now())?,
                number => {
                    driver.kernel().socket.mark_ready(number);
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

    /// Time by which [`Embedded::serve`] must be called.
    pub fn next_deadline(&self) -> Time {
        let Runtime { driver, watch, .. } = &self.runtime;
        let timers = driver.next_deadline().map(|deadline| next_multiple(deadline, self.grain));
        let house = Some(watch.next_deadline());
        let deadlines = [timers, driver.next_look(), driver.next_stream_deadline(), house];
        deadlines.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Returns the events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.runtime.driver.take_events()
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        self.runtime.driver.node()
    }

    /// Reads which sources are ready, without waiting.
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
    /// Descriptor that is readable while [`Embedded::serve`] has work to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

fn wait_set(runtime: &mut Runtime) -> io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let enter = |number, descriptor: BorrowedFd<'_>| {
        epoll::add(&set, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
    };
    enter(MIRROR, runtime.watch.mirror.as_fd())?;
    enter(STREAMS, runtime.driver.kernel_ref().streams.as_fd())?;
    runtime.driver.kernel().socket.register_in(set.try_clone()?, FIRST_MESSAGES)?;
    Ok(set)
}
