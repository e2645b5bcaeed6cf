//! Daemon of the router, on a thread of this process, so that the marks of its messages are accessible.
//!
//! The thread sleeps until there is work, as a daemon does, so that checkpoint 1 includes the wake-up.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use earmark_core::checkpoint::Checkpoint;
use earmark_linux::netns::Namespace;
use earmarkd::config::Config;
use earmarkd::embedded::Embedded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::checkpoint_trace::{CheckpointTracing, TracePoint, record};

/// Largest delay of the daemon's end.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Timeout of the daemon's start: loading the classifier may take half a second on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Time after the departure of a message in which the daemon has passed on its marks.
const SETTLING: Duration = Duration::from_micros(200);
/// Number of messages whose marks may wait; further ones are dropped.
const WAITING: usize = 64;

/// Thread of a daemon, and the marks of its messages.
pub(super) struct Daemon {
    thread: Option<JoinHandle<Result<()>>>,
    stop: Arc<AtomicBool>,
    keep: Arc<AtomicBool>,
    marks: Receiver<Vec<TracePoint>>,
    expected: bool,
}

impl Daemon {
    /// Starts a daemon in a namespace.
    pub(super) fn start(namespace: Arc<Namespace>, configuration: &str) -> Result<Daemon> {
        let config = Config::parse(configuration, Path::new("router.toml"))?;
        let [stop, keep] = [false, true].map(|set| Arc::new(AtomicBool::new(set)));
        let (sender, marks) = sync_channel(WAITING);
        let (ready, is_ready) = sync_channel(1);
        let (told, wanted) = (Arc::clone(&stop), Arc::clone(&keep));
        let thread = std::thread::Builder::new().name("router".to_owned()).spawn(move || {
            namespace.run_in(|| {
                let node =
                    Embedded::start(&config).context("the router's daemon does not start")?;
                // A failed send means that the waiting thread has ended.
                let _ = ready.send(());
                serve(node, &told, &wanted, &sender)
            })?
        })?;
        let thread = Some(thread);
        let mut daemon = Daemon { thread, stop, keep, marks, expected: true };
        match is_ready.recv_timeout(READY_WITHIN) {
            Ok(()) => Ok(daemon),
            Err(RecvTimeoutError::Timeout) => bail!("the router's daemon does not start in time"),
            Err(RecvTimeoutError::Disconnected) => Err(daemon.end()),
        }
    }

    /// Drops the marks of messages so far.
    pub(super) fn forget(&mut self) {
        while self.marks.try_recv().is_ok() {}
    }

    pub(super) fn keep_trace(&self, keep: bool) {
        self.keep.store(keep, Ordering::Relaxed);
    }

    pub(super) fn expect(&mut self, expected: bool) {
        self.expected = expected;
    }

    /// Returns the marks of the next message; `None` if the kernel's offload has handled it.
    pub(super) fn marks(&mut self, deadline: Instant) -> Result<Option<Vec<TracePoint>>> {
        let timeout = match self.expected {
            true => deadline.saturating_duration_since(Instant::now()),
            false => SETTLING,
        };
        match self.marks.recv_timeout(timeout) {
            Ok(stamps) => Ok(Some(stamps)),
            Err(RecvTimeoutError::Timeout) if !self.expected => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("the router's daemon has not seen a message"),
            Err(RecvTimeoutError::Disconnected) => Err(self.end()),
        }
    }

    /// Waits for as long as after a message that the kernel's offload handles, if it does.
    pub(super) fn settle(&self) {
        if !self.expected {
            std::thread::sleep(SETTLING);
        }
    }

    /// Returns the error with which the daemon has ended.
    fn end(&mut self) -> anyhow::Error {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => error,
            _ => anyhow!("the router's daemon has ended"),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The result of the thread does not matter here.
            let _ = thread.join();
        }
    }
}

fn serve(
    mut node: Embedded,
    stop: &AtomicBool,
    keep: &AtomicBool,
    marks: &SyncSender<Vec<TracePoint>>,
) -> Result<()> {
    let wanted = CheckpointTracing::begin();
    let mut stamps = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let now = node.now();
        let nap = Timespec::try_from(node.next_deadline().since(now).min(MAX_WAIT))?;
        match poll(&mut [PollFd::from_borrowed_fd(node.as_fd(), PollFlags::IN)], Some(&nap)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !keep.load(Ordering::Relaxed) {
            node.serve()?;
        } else {
            let (served, _) = record(&wanted, &mut stamps, || node.serve())?;
            served?;
            let is_message = |stamp: &TracePoint| stamp.checkpoint == Checkpoint::Begin;
            if stamps.iter().any(is_message) {
                // Marks that find no room have no reader.
                let _ = marks.try_send(std::mem::take(&mut stamps));
            }
        }
        // Events are for watchers, of which there are none here.
        node.take_events();
    }
    Ok(())
}
