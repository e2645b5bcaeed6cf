//! Listings of many sessions: how soon their first rows come, and how long a slice keeps the event loop of the daemon.
//!
//! A router without I/O gets its sessions message by message. Then its node is that of a daemon's control layer, above
//! a kernel that does nothing, and a client lists over a socket, as `earmark show` does. The slices are timed in the thread
//! of the daemon; everything else, such as parsing, is the client's.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_control::{Client, Listing, ListingFilter, Show};
use earmark_core::{EndFilter, Prefix, Time};
use earmarkd::control::{ClientId, Hub};
use earmarkd::driver::Driver;
use serde::Serialize;
use serde_json::Value;

use super::Supervision;
use super::idle_kernel::Idle;
use super::router::{Protocol, Router};

/// Result of the listings of one protocol.
#[derive(Clone, Debug, Serialize)]
pub struct Listings {
    /// Protocol of the sessions.
    pub protocol: Protocol,
    /// Number of sessions.
    pub sessions: u32,
    /// Listings, each as often as requested.
    pub runs: Vec<Run>,
}

impl Listings {
    /// Returns whether the listings of all sessions have a row for each.
    pub fn are_whole(&self) -> bool {
        let mut all = self.runs.iter().filter(|run| run.name == "sessions");
        all.all(|run| run.rows == self.sessions as usize)
    }
}

/// One listing.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Listing, with its filter.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Time from the request to the first rows at the client, milliseconds.
    pub first_ms: f64,
    /// Time from the request to the last row, seconds.
    pub total_s: f64,
    /// Number of slices.
    pub slices: usize,
    /// Median slice, milliseconds.
    pub median_slice_ms: f64,
    /// 99.9th percentile of the slices, milliseconds.
    pub late_slice_ms: f64,
    /// Longest slice, milliseconds.
    pub longest_slice_ms: f64,
}

/// Lists the sessions of a router of `sessions` sessions, `runs` times each listing.
///
/// # Errors
/// The measurement was interrupted, or a listing failed.
pub fn list(
    protocol: Protocol,
    sessions: u32,
    runs: usize,
    supervision: &Supervision<'_>,
) -> Result<Listings> {
    supervision.watcher.begin(&format!("{}: set-up", protocol.name()), sessions.into());
    let reached = |count: u32| supervision.watcher.reached(count.into());
    let router = Router::with_sessions(protocol, sessions, reached);
    let (node, now) = router.into_node();
    let mut driver = Driver::of(node, Idle::default());
    let last = driver.node().session_rows(now).last().context("the router has no session")?;
    let to = EndFilter { range: Prefix::host(last.destination), port: None };
    let one_flow = ListingFilter { to: Some(to), ..ListingFilter::default() };
    let all = ListingFilter::default;
    let listings = [
        ("sessions", Listing::Sessions, all()),
        ("reservations", Listing::Reservations, all()),
        ("sessions --to the last", Listing::Sessions, one_flow),
    ];
    let mut results = Vec::new();
    for (name, what, filter) in listings {
        supervision.watcher.begin(&format!("{}: {name}", protocol.name()), runs as u64);
        for run in 0..runs {
            supervision.check_interrupted()?;
            let show = Show { filter: filter.clone(), ..Show::new(what) };
            results.push(measure(name, show, now, &mut driver)?);
            supervision.watcher.reached(run as u64 + 1);
        }
    }
    Ok(Listings { protocol, sessions, runs: results })
}

/// What a client has seen of a listing.
struct Received {
    rows: usize,
    first: Duration,
    total: Duration,
}

fn measure(name: &str, show: Show, now: Time, driver: &mut Driver<Idle>) -> Result<Run> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut hub = Hub::new("router");
    let id = hub.connect(ours, now).context("the client is refused")?;
    let client = thread::spawn(move || receive(theirs, show));
    let slices = serve(&mut hub, id, now, driver);
    let Ok(received) = client.join() else { bail!("the client has failed") };
    let Received { rows, first, total } = received?;
    let mut slices: Vec<f64> = slices.iter().map(|slice| milliseconds(*slice)).collect();
    slices.sort_by(f64::total_cmp);
    let at = |share: f64| slices.get((slices.len() as f64 * share) as usize).copied();
    Ok(Run {
        name: name.to_owned(),
        rows,
        first_ms: milliseconds(first),
        total_s: total.as_secs_f64(),
        slices: slices.len(),
        median_slice_ms: at(0.5).unwrap_or_default(),
        late_slice_ms: at(0.999).unwrap_or_default(),
        longest_slice_ms: slices.last().copied().unwrap_or_default(),
    })
}

/// Receives a listing page by page.
fn receive(stream: UnixStream, show: Show) -> Result<Received> {
    let start = Instant::now();
    let mut client = Client::over(stream);
    let mut pages = client.pages::<Value>(show);
    let (mut rows, mut first) = (0, None);
    while let Some(page) = pages.next_page()? {
        rows += page.rows.len();
        if !page.rows.is_empty() {
            first.get_or_insert_with(|| start.elapsed());
        }
    }
    let total = start.elapsed();
    Ok(Received { rows, first: first.unwrap_or(total), total })
}

/// Serves a client until it disconnects. Returns the time of each slice.
fn serve(hub: &mut Hub, id: ClientId, now: Time, driver: &mut Driver<Idle>) -> Vec<Duration> {
    let mut slices = Vec::new();
    while hub.interests().next().is_some() {
        if hub.has_listings() {
            let start = Instant::now();
            hub.continue_listings(now, driver);
            slices.push(start.elapsed());
        } else {
            hub.readable(id, now, driver);
        }
        hub.writable(id, now, driver);
    }
    slices
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_every_reserving_protocol_are_whole() {
        for protocol in Protocol::ALL.into_iter().filter(|it| it.reserves()) {
            let listings = list(protocol, 1_500, 1, &Supervision::unwatched()).expect("listed");
            let [sessions, reservations, one] = &listings.runs[..] else { panic!("{listings:?}") };
            assert_eq!(sessions.rows, 1_500, "{sessions:?}");
            assert!(reservations.rows >= 1_500, "{reservations:?}");
            assert_eq!(one.rows, 1, "{one:?}");
        }
    }
}
