//! The event loop: one thread waits for sockets, clients, signals and timers, and serves them in turn.
//!
//! The wait is an epoll set in level-triggered mode. A source with remaining work is reported again, so that each source gets
//! one bounded piece of work a turn, and a flood on one of them cannot starve the others.

mod wait_set;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use earmark_core::Time;
use earmark_linux::clock::Clock;
use earmark_node::Input;
use jiff::Timestamp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use tracing::{error, info, warn};

use self::wait_set::{Source, WaitSet};
use crate::control::{Hub, Listener};
use crate::driver::Driver;
use crate::history::WriterThread;
use crate::log::kind;
use crate::metrics::Endpoint;
use crate::protocols;
use crate::reload::Reload;
use crate::running_config::ConfigChange;
use crate::service_manager::ServiceManager;
use crate::system::System;
use crate::wall_clock::WallClock;
use crate::watch::Watch;
use crate::web::WebEndpoint;

/// Most batches of messages in a turn.
const BATCHES: usize = 8;
/// Most clients accepted in a turn.
const ACCEPTS: usize = 16;
/// Granularity of timers, so that refreshes are sent, and received by neighbors, in bursts: a wake-up for each costs more than
/// the refresh itself. No timer of a protocol needs more precision.
pub(crate) const TIMER_GRAIN: Duration = Duration::from_millis(10);
/// Pause in accepting clients when the process has no file descriptors left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// State of a running daemon.
pub(crate) struct EventLoop {
    pub(crate) clock: Clock,
    pub(crate) driver: Driver<System>,
    pub(crate) watch: Watch,
    pub(crate) listener: Listener,
    pub(crate) hub: Hub,
    pub(crate) service_manager: ServiceManager,
    metrics: Option<Endpoint>,
    web: Option<WebEndpoint>,
    pub(crate) history: Option<WriterThread>,
    reload: Reload,
    wall_clock: WallClock,
    set: WaitSet,
    signals: Signals,
}

impl EventLoop {
    pub(crate) fn new(
        (clock, wall_clock): (Clock, WallClock),
        mut driver: Driver<System>,
        watch: Watch,
        listener: Listener,
        hub: Hub,
        reload: Reload,
    ) -> io::Result<EventLoop> {
        let signals = Signals::catch()?;
        let mut set = WaitSet::new()?;
        set.add(Source::Signals, signals.end.as_fd())?;
        set.add(Source::Signals, signals.reload.as_fd())?;
        driver.kernel().socket.register_in(set.descriptor()?, wait_set::FIRST_MESSAGES)?;
        set.add(Source::Mirror, watch.mirror.as_fd())?;
        set.add(Source::TrafficControl, watch.traffic_control())?;
        set.add(Source::Listener, listener.as_fd())?;
        set.add(Source::Streams, driver.kernel_ref().streams.as_fd())?;
        let service_manager = ServiceManager::from_environment(clock.now());
        Ok(EventLoop {
            clock,
            driver,
            watch,
            listener,
            hub,
            service_manager,
            metrics: None,
            web: None,
            history: None,
            reload,
            wall_clock,
            set,
            signals,
        })
    }

    /// Adds the endpoint of metrics.
    ///
    /// # Errors
    /// The endpoint cannot be waited for.
    pub(crate) fn add_metrics(&mut self, endpoint: Endpoint) -> io::Result<()> {
        self.set.add(Source::Metrics, endpoint.as_fd())?;
        self.metrics = Some(endpoint);
        Ok(())
    }

    /// Adds the web page.
    ///
    /// # Errors
    /// The page cannot be waited for.
    pub(crate) fn add_web(&mut self, web: WebEndpoint) -> io::Result<()> {
        self.set.add(Source::Web, web.as_fd())?;
        self.web = Some(web);
        Ok(())
    }

    /// Adds the writer of accounting records.
    pub(crate) fn add_history(&mut self, history: WriterThread) {
        if let Some(accounts) = self.driver.accounts_mut() {
            accounts.set_applied(history.applied());
        }
        self.history = Some(history);
    }

    /// Serves until a signal stops the daemon.
    ///
    /// # Errors
    /// Waiting failed, or a socket that the daemon depends on.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            self.set.wait(self.clock, self.next_deadline(), &mut ready)?;
            let woken = self.metrics.as_ref().map(|_| self.clock.now());
            self.follow_wall_clock();
            let mut is_told_of_messages = false;
            for (source, readable) in ready.drain(..) {
                match source {
                    Source::Signals => {
                        let received = self.signals.take()?;
                        if received.end {
                            self.service_manager.stopping();
                            self.hub.stop();
                            return Ok(());
                        }
                        if received.reload {
                            self.read_settings();
                        }
                    }
                    Source::Messages(number) => {
                        self.driver.kernel().socket.mark_ready(number);
                        is_told_of_messages = true;
                    }
                    _ => self.serve(source, readable)?,
                }
            }
            if is_told_of_messages {
                receive(&mut self.driver, self.clock)?;
            }
            let now = self.clock.now();
            self.follow_config(now);
            if self.timers_due().is_some_and(|due| due <= now) {
                self.driver.expire(now);
            }
            if self.driver.next_look().is_some_and(|at| at <= now)
                && let Err(error) = self.driver.look(now)
            {
                warn!(%error, "cannot read what the kernel has done by itself");
            }
            if self.driver.next_stream_deadline().is_some_and(|at| at <= now) {
                self.driver.follow_streams(now)?;
            }
            if self.driver.next_sample().is_some_and(|at| at <= now) {
                self.driver.sample_links(now);
            }
            if self.driver.next_counters().is_some_and(|at| at <= now) {
                self.driver.read_counters(now);
            }
            self.hub.continue_listings(now, &mut self.driver);
            self.watch.house_keeping(now, &mut self.driver);
            self.hub.publish(now, &mut self.driver);
            self.hub.sweep(now, &mut self.driver);
            self.hub.log.tick();
            self.service_manager.keep_alive(now, || self.driver.link_rows());
            self.set.follow_clients(&self.hub)?;
            if let (Some(metrics), Some(woken)) = (&mut self.metrics, woken) {
                metrics.note_turn(self.clock.now() - woken);
            }
        }
    }

    /// Reads settings and keys again, and tells the service manager.
    fn read_settings(&mut self) {
        self.service_manager.reloading();
        let now = self.clock.now();
        let settings = self.hub.config.reload(now);
        match &settings {
            Ok(()) => {
                if let Some(change) = self.hub.config.take_change() {
                    self.carry_out(now, &change);
                }
            }
            Err(error) => {
                error!(kind = kind::CONFIGURATION_REFUSED.name, %error, "the old settings stay");
            }
        }
        let outcome = settings.and(self.reload.read_keys(now, &mut self.driver));
        self.service_manager.reloaded(outcome, self.driver.link_rows());
    }

    /// Applies the settings that a client has applied, or that were taken back.
    fn follow_config(&mut self, now: Time) {
        self.hub.config.expire(now);
        if let Some(change) = self.hub.config.take_change() {
            self.carry_out(now, &change);
            // The log contains a mistake in the key file.
            let _ = self.reload.read_keys(now, &mut self.driver);
            let outcome = change.obstacle.map_or(Ok(()), Err);
            self.service_manager.reloaded(outcome, self.driver.link_rows());
        }
    }

    fn carry_out(&mut self, now: Time, change: &ConfigChange) {
        let ConfigChange { config, waiting, .. } = change;
        self.reload.apply(now, (config, waiting), &mut self.watch, &mut self.driver);
    }

    /// Tells the engines of a jump of the wall clock, before they handle what has arrived since.
    fn follow_wall_clock(&mut self) {
        let now = self.clock.now();
        let Some(origin) = self.wall_clock.jumped(now, Timestamp::now()) else { return };
        info!("the wall clock has jumped");
        for protocol in protocols::all() {
            if let Some(command) = protocol.wall_clock_command(origin) {
                self.driver.handle(now, Input::Command(command));
            }
        }
        self.reload.follow_wall_clock(now, origin, &mut self.driver);
    }

    fn serve(&mut self, source: Source, readable: bool) -> io::Result<()> {
        let now = self.clock.now();
        match source {
            Source::Signals | Source::Timer | Source::Messages(_) => {}
            Source::Mirror => self.watch.follow_kernel(now, &mut self.driver),
            Source::TrafficControl => self.watch.follow_traffic_control(now, &self.driver),
            Source::Streams => self.driver.follow_streams(now)?,
            Source::Metrics => {
                if let Some(metrics) = &mut self.metrics {
                    metrics.collect(now, &self.hub, &mut self.driver);
                }
            }
            Source::Web => {
                if let Some(web) = &mut self.web {
                    web.connect_clients(&mut self.hub, now);
                }
            }
            Source::Listener => self.accept(),
            Source::Client(id) if readable => self.hub.readable(id, now, &mut self.driver),
            Source::Client(id) => self.hub.writable(id, now, &mut self.driver),
        }
        self.hub.publish(now, &mut self.driver);
        Ok(())
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            match self.listener.accept() {
                Ok(Some(stream)) => {
                    self.hub.connect(stream, self.clock.now());
                }
                Ok(None) => break,
                Err(error) => {
                    // Probably out of descriptors. The client still waits, so avoid a busy loop.
                    warn!(%error, "cannot accept a client");
                    std::thread::sleep(ACCEPT_BACKOFF);
                    break;
                }
            }
        }
    }

    /// Time at which the node's timers are served next.
    fn timers_due(&self) -> Option<Time> {
        self.driver.next_deadline().map(|deadline| next_multiple(deadline, TIMER_GRAIN))
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.timers_due(),
            self.driver.next_look(),
            self.driver.next_sample(),
            self.driver.next_counters(),
            self.driver.next_stream_deadline(),
            Some(self.watch.next_deadline()),
            self.hub.next_deadline(),
            self.hub.config.next_deadline(),
            self.hub.log.wakeup_after().map(|span| self.clock.now() + span),
            self.service_manager.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}

/// Receives the messages that the socket has announced, a bounded number; the remaining ones are announced again.
pub(crate) fn receive(driver: &mut Driver<System>, clock: Clock) -> io::Result<()> {
    for _ in 0..BATCHES {
        // A later batch may answer a message sent for an earlier one, and messages may carry times.
        if driver.receive(clock.now())? == 0 || !driver.kernel_ref().socket.has_more() {
            break;
        }
    }
    Ok(())
}

/// The first multiple of `grain` not before `time`.
pub(crate) fn next_multiple(time: Time, grain: Duration) -> Time {
    let grain = u64::try_from(grain.as_nanos()).unwrap_or(u64::MAX).max(1);
    Time::from_nanos(time.as_nanos().checked_next_multiple_of(grain).unwrap_or(u64::MAX))
}

/// SIGTERM, SIGINT and SIGHUP as readable sockets: the handlers write to socket pairs, which the loop reads.
struct Signals {
    end: UnixStream,
    reload: UnixStream,
    handlers: [signal_hook::SigId; 3],
}

/// Signals received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceivedSignals {
    end: bool,
    reload: bool,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let (end, end_handler) = UnixStream::pair()?;
        let (reload, reload_handler) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        reload.set_nonblocking(true)?;
        let second = end_handler.try_clone()?;
        let handlers = [
            pipe::register(SIGTERM, end_handler)?,
            pipe::register(SIGINT, second)?,
            pipe::register(SIGHUP, reload_handler)?,
        ];
        Ok(Signals { end, reload, handlers })
    }

    fn take(&mut self) -> io::Result<ReceivedSignals> {
        Ok(ReceivedSignals { end: any(&mut self.end)?, reload: any(&mut self.reload)? })
    }
}

/// Reads the socket. Returns whether there was data.
fn any(stream: &mut UnixStream) -> io::Result<bool> {
    let mut octets = [0; 16];
    match stream.read(&mut octets) {
        Ok(length) => Ok(length > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers {
            signal_hook::low_level::unregister(handler);
        }
    }
}
