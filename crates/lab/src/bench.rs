//! Measurements: of real daemons, what many sessions cost, and how fast they can be set up; and of one router without I/O,
//! what each message costs.
//!
//! The daemons are those of `earmark daemon`, one process in each namespace, joined by veth pairs. What is measured is
//! theirs: processor time and memory as the kernel accounts for them ([`process`]), messages as the interfaces count them.
//! Both ends of all sessions are light hosts ([`host`]) rather than daemons with many applications, because an
//! application costs a daemon more than a session does, and the machine is shared.
//!
//! - [`resident`]: two neighbours that hold many sessions and do nothing but refresh them.
//! - [`setup`]: sessions offered to a chain of three daemons, from the first Path to the ResvConf.
//! - [`nsis`](mod@nsis): set-ups, resident sessions and pings of NSIS, over a chain of daemons.
//! - [`rates`]: the largest burst, and the largest rate, of messages that change something which one router takes without a loss.
//! - [`messages`]: what each kind of message of a protocol costs one router ([`router`]), and what a session takes.
//! - [`bytes`]: of how many octets the messages of GIST are, layer by layer.
//! - [`calls`]: a benchmark of many telephone calls, for simulators of processors.
//! - [`life`]: sessions of one router from set-up to expiry.
//! - [`published`]: what others have measured of their engines, to be shown beside.
//! - [`search`]: how the largest load is looked for.
//! - [`table`]: the results for people.
//!
//! RFC 4883 names what such figures are called; a figure holds for one machine, and for the load of the day on it.

pub mod bytes;
pub mod calls;
mod exchange;
pub mod forwarding;
pub mod host;
pub mod life;
pub mod messages;
pub mod network;
pub mod nsis;
pub mod process;
pub mod published;
pub mod rates;
pub mod resident;
pub mod router;
pub mod search;
mod session;
pub mod setup;
pub mod table;

pub use session::Sessions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a measurement looks how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// Somebody who wants to know how far a measurement is, and may end it.
pub trait Watcher: Sync {
    /// A step begins, in words, that ends when `total` is reached.
    fn begin(&self, what: &str, total: u64);
    /// It has come so far.
    fn reached(&self, count: u64);
}

/// Nobody looks on.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn reached(&self, _: u64) {}
}

/// What every measurement needs of who runs it.
pub struct Supervision<'a> {
    /// Is told how far it is.
    pub watcher: &'a dyn Watcher,
    /// Set from outside to end it.
    pub interrupted: &'a AtomicBool,
}

impl Supervision<'_> {
    /// Waits until `reached` says that `total` has been reached; gives whether that was before `patience` was over.
    fn await_all(
        &self,
        what: &str,
        total: u64,
        patience: Duration,
        mut reached: impl FnMut() -> Result<u64>,
    ) -> Result<bool> {
        self.watcher.begin(what, total);
        let deadline = Instant::now() + patience;
        loop {
            let count = reached()?;
            self.watcher.reached(count);
            if count >= total || Instant::now() >= deadline {
                return Ok(count >= total);
            }
            self.go_on()?;
            std::thread::sleep(LOOK);
        }
    }

    /// Whether it may go on.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn go_on(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Lets time pass.
    fn wait(&self, what: &str, how_long: Duration) -> Result<()> {
        let start = Instant::now();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.await_all(what, millis(how_long), how_long, || Ok(millis(start.elapsed())))?;
        Ok(())
    }
}
