//! Instructions of a refresh in a daemon that is observed, and in one that is not, as counted by valgrind.
//!
//! A router without I/O gets its sessions message by message. Then its node is that of a daemon, above a kernel that does no
//! work, with accounting and watching clients or without. Counted is a turn of the event loop that receives one refresh.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_control::Client;
use earmark_core::Time;
use earmark_history::Journal;
use earmarkd::control::Hub;
use earmarkd::driver::Driver;
use earmarkd::history::Accounts;
use serde::Serialize;

use super::{Records, WATCHERS};
use crate::bench::Supervision;
use crate::bench::idle_kernel::Idle;
use crate::bench::messages::instructions::{count_calls, counted_arguments};
use crate::bench::router::{Protocol, Router, Step};

/// Refreshes that are counted.
const REFRESHES: u32 = 15;
/// Largest journal, octets.
const JOURNAL: u64 = 1 << 30;

/// Instructions of refreshes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instructions {
    /// Refreshes of a daemon that is not observed, in the order of their sessions.
    pub alone: Vec<u64>,
    /// Refreshes of the same sessions in a daemon that is observed.
    pub observed: Vec<u64>,
}

impl Instructions {
    /// Returns the ratio of the sums: observed to alone.
    pub fn ratio(&self) -> f64 {
        let [observed, alone] = [&self.observed, &self.alone].map(|it| it.iter().sum::<u64>());
        observed as f64 / alone.max(1) as f64
    }
}

/// Counts the same refreshes of both daemons. `None` if valgrind is not installed.
///
/// # Errors
/// Valgrind fails on this program or this machine; the measurement was interrupted.
pub fn count(
    protocol: Protocol,
    sessions: u32,
    supervision: &Supervision<'_>,
) -> Result<Option<Instructions>> {
    let run = |is_observed: bool| {
        let mut arguments = counted_arguments("counted-refreshes", protocol, sessions);
        arguments.extend(is_observed.then(|| "--observed".to_owned()));
        let what = format!("{}: instructions, {sessions} sessions", protocol.name());
        count_calls(&arguments, REFRESHES.into(), &what, supervision)
    };
    let Some(alone) = run(false)? else { return Ok(None) };
    Ok(run(true)?.map(|observed| Instructions { alone, observed }))
}

/// Refreshes sessions in turns of the event loop; runs under valgrind.
///
/// # Errors
/// The journal cannot be opened; a client is not served.
pub fn refresh_counted(protocol: Protocol, sessions: u32, is_observed: bool) -> Result<()> {
    let mut router = Router::with_sessions(protocol, sessions, |_| {});
    let kind = protocol.messages().iter().find(|kind| kind.step == Step::Refresh);
    let kind = kind.context("a protocol without refreshes")?;
    let arrival = |number: u32| {
        let session = (u64::from(sessions) * u64::from(number) / u64::from(REFRESHES)) as u32;
        kind.of(&router, session.min(sessions - 1), 1 + number)
    };
    let arrivals: Vec<_> = (0..REFRESHES).rev().map(arrival).collect();
    router.forget_effects();
    let (node, now) = router.into_node();
    let mut driver = Driver::of(node, Idle { arrivals });
    let mut hub = Hub::new("router");
    let (records, mut clients) = (Records::new(is_observed)?, Vec::new());
    if let Some(records) = &records {
        let journal = Journal::open(&records.0.join("journal"), JOURNAL)?;
        driver.keep_accounts(Accounts::begin(journal, "router", Duration::from_secs(300)));
        for _ in 0..WATCHERS {
            clients.push(watcher(&mut hub, now, &mut driver)?);
        }
    }
    // What follows a connection is done before a refresh arrives.
    hub.sweep(now, &mut driver);
    hub.continue_listings(now, &mut driver);
    for _ in 0..REFRESHES {
        ensure!(earmark_dumped_message(&mut driver, &mut hub, now) == 1, "a refresh is missing");
    }
    Ok(())
}

/// Connects a client that watches events.
fn watcher(hub: &mut Hub, now: Time, driver: &mut Driver<Idle>) -> Result<Client> {
    let (ours, theirs) = UnixStream::pair()?;
    let id = hub.connect(ours, now).context("the client is refused")?;
    let starting = std::thread::spawn(move || {
        let mut client = Client::over(theirs);
        client.start_watching().map(|_| client)
    });
    while !starting.is_finished() {
        hub.readable(id, now, driver);
        hub.writable(id, now, driver);
    }
    Ok(starting.join().expect("nothing there panics")?)
}

/// Valgrind writes the counts after this function: see [`DUMPED`](crate::bench::router::DUMPED).
#[inline(never)]
fn earmark_dumped_message(driver: &mut Driver<Idle>, hub: &mut Hub, now: Time) -> usize {
    // Prevents a tail call: it could become a jump, and then this function would never return.
    std::hint::black_box(earmark_counted_turn(driver, hub, now))
}

/// Valgrind counts while this function runs: see [`COUNTED`](crate::bench::router::COUNTED).
#[inline(never)]
fn earmark_counted_turn(driver: &mut Driver<Idle>, hub: &mut Hub, now: Time) -> usize {
    let received = driver.receive(now).unwrap_or_default();
    hub.continue_listings(now, driver);
    hub.publish(now, driver);
    hub.sweep(now, driver);
    received
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observed_daemons_get_all_refreshes() {
        for protocol in Protocol::ALL.into_iter().filter(|it| it.reserves()) {
            for is_observed in [false, true] {
                refresh_counted(protocol, 100, is_observed).expect("all were received");
            }
        }
    }
}
