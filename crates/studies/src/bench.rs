//! Measurements of real daemons (cost of many sessions, rate of set-ups) and of one router without I/O (cost of each
//! message).
//!
//! The daemons are those of `earmarkd`, one process in each namespace, joined by veth pairs. Measured are the
//! processor time and memory of each daemon as the kernel accounts for them ([`process`]), and messages as the
//! interfaces count them. Both ends of all sessions are light hosts ([`host`]) rather than daemons with many
//! applications, because an application costs a daemon more than a session does, and all of them share one machine.
//!
//! - [`resident`]: two neighbors that hold many sessions and only refresh them.
//! - [`set_up`]: sessions offered to a chain of three daemons, from the first Path to the ResvConf.
//! - [`nsis`](mod@nsis): set-ups, resident sessions and pings of NSIS, over a chain of daemons.
//! - [`rates`]: the largest burst, and the largest rate, of state-changing messages that one router handles without a
//!   loss.
//! - [`cost_profile`]: the times of this machine for the simulator.
//! - [`messages`]: the cost of each kind of message of a protocol for one router ([`router`]), and the memory of a
//!   session.
//! - [`bytes`]: octets of the messages of GIST, layer by layer.
//! - [`calls`]: a benchmark of many telephone calls, for simulators of processors.
//! - [`life`]: sessions of one router from set-up to expiry.
//! - [`listing`]: listings of many sessions over the control socket.
//! - [`observed`]: a daemon with many sessions, metrics, accounting, listings and watchers.
//! - [`published`]: published figures of other engines, for comparison.
//! - [`search`]: search for the largest sustained load.
//! - [`table`]: the results as text tables.
//!
//! The figures have the names of RFC 4883. A figure holds for one machine, and for the load of the day on it.

pub mod bytes;
pub mod calls;
pub mod cost_profile;
pub mod forwarding;
pub mod host;
mod idle_kernel;
pub mod life;
pub mod listing;
pub mod messages;
pub mod network;
pub mod nsis;
pub mod observed;
pub mod process;
pub mod published;
pub mod rates;
mod refresh_reduction;
pub mod resident;
pub mod router;
pub mod search;
mod session;
pub mod set_up;
pub mod table;

pub use session::Sessions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Interval between two checks of a measurement's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Receives the progress of a measurement, and may end it.
pub trait Watcher: Sync {
    /// Begins a step, described in words, that ends when `total` is reached.
    fn begin(&self, what: &str, total: u64);
    /// Reports the count reached so far.
    fn reached(&self, count: u64);
}

/// A watcher that ignores all progress.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn reached(&self, _: u64) {}
}

/// Progress and interruption of a measurement.
pub struct Supervision<'a> {
    /// Receives the progress.
    pub watcher: &'a dyn Watcher,
    /// Set from outside to end the measurement.
    pub interrupted: &'a AtomicBool,
}

impl Supervision<'_> {
    /// Creates a supervision that ignores all progress and never interrupts.
    pub const fn unwatched() -> Supervision<'static> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Supervision { watcher: &Unwatched, interrupted: &NEVER }
    }

    /// Waits until `reached` returns `total`; returns whether that was before `timeout` was over.
    fn await_all(
        &self,
        what: &str,
        total: u64,
        timeout: Duration,
        mut reached: impl FnMut() -> Result<u64>,
    ) -> Result<bool> {
        self.watcher.begin(what, total);
        let deadline = Instant::now() + timeout;
        loop {
            let count = reached()?;
            self.watcher.reached(count);
            if count >= total || Instant::now() >= deadline {
                return Ok(count >= total);
            }
            self.check_interrupted()?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Checks that the measurement may continue.
    ///
    /// # Errors
    /// The measurement was interrupted.
    pub fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Waits for `how_long`, and reports the progress.
    fn wait(&self, what: &str, how_long: Duration) -> Result<()> {
        let start = Instant::now();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.await_all(what, millis(how_long), how_long, || Ok(millis(start.elapsed())))?;
        Ok(())
    }
}
