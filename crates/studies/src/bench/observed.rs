//! A daemon with many sessions that is observed by everything that can observe it, beside one that is not.
//!
//! ```text
//!   s --- r1 --- d        r1 is a daemon; s and d are threads of this program
//! ```
//!
//! The observed daemon has metrics, which are read every second, and accounting; a client lists all sessions again and again,
//! and others watch events. Both daemons reserve without traffic control, which holds no million classes on a link. The
//! hosts refresh the sessions. What a refresh costs is the time of the event loop's thread in a window, with all that it does in
//! between for those who observe. How late the event loop is, is told by its own histogram of turns, and by a client that asks a
//! short question all the time. [`instructions`] counts what a refresh costs without the kernel.

pub mod instructions;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use earmark_control::{Client, Listing, Show};
use serde::Serialize;
use serde_json::Value;

use super::Supervision;
use super::rates::line::{Line, NEVER, Processors};
use super::router::Protocol;
use earmark_lab::statistics::percentile;

/// Port of the metrics.
const PORT: u16 = 9470;
/// Interval between two collections of the metrics.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two short questions.
const QUESTION_INTERVAL: Duration = Duration::from_millis(10);
/// Clients that watch events.
const WATCHERS: usize = 8;
/// Timeout of a collection.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of directories of records so far.
static RECORDS: AtomicU32 = AtomicU32::new(0);
/// Metric: histogram of the turns of the event loop.
const TURNS: &str = "earmark_event_loop_turn_seconds_bucket";

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Path of `earmark-studies`, for the daemon.
    pub program: PathBuf,
    /// Protocol of the sessions.
    pub protocol: Protocol,
    /// Number of sessions.
    pub sessions: u32,
    /// Length of a window.
    pub window: Duration,
    /// Number of windows for each daemon, at least 1.
    pub windows: u32,
}

/// Result of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Observation {
    /// Protocol of the sessions.
    pub protocol: Protocol,
    /// Number of sessions.
    pub sessions: u32,
    /// The daemon that is not observed, and the one that is.
    pub daemons: Vec<Daemon>,
}

impl Observation {
    /// Returns whether all sessions were set up at both daemons and refreshed in time, and everybody who observes was served.
    pub fn is_whole(&self) -> bool {
        let all = self.daemons.iter().all(|daemon| daemon.unanswered == 0 && daemon.in_time);
        let mut observers = self.daemons.iter().filter_map(|daemon| daemon.observers.as_ref());
        all && observers.all(|found| found.collections > 0 && found.listed > 0)
    }
}

/// One daemon.
#[derive(Clone, Debug, Serialize)]
pub struct Daemon {
    /// Set-ups without an answer.
    pub unanswered: u64,
    /// Additional memory, octets a session.
    pub memory_octets: f64,
    /// Whether every refresh was sent in its time.
    pub in_time: bool,
    /// Time of the event loop's thread for a refresh and all else in each window, microseconds.
    pub refresh_us: Vec<f64>,
    /// Time until a short question was answered, milliseconds: 50th, 99th and 100th percentile.
    pub answer_ms: [f64; 3],
    /// What those who observe have seen; `None` without them.
    pub observers: Option<Observers>,
}

/// What those who observe a daemon have seen.
#[derive(Clone, Debug, Serialize)]
pub struct Observers {
    /// Turns of the event loop in the windows.
    pub turns: u64,
    /// Turns by the upper bound of their length, seconds: 50th, 99th and 99.9th percentile. Infinite beyond the last bound.
    pub turn_s: [f64; 3],
    /// Collections of metrics.
    pub collections: u64,
    /// Octets of the last collection.
    pub metrics_octets: usize,
    /// Rows of listings.
    pub listed: u64,
    /// Events that the watching clients have received.
    pub events: u64,
}

/// Measures both daemons, one after the other.
///
/// # Errors
/// Sessions of the protocol end meanwhile; the network cannot be built, a process of it ends, or the measurement was
/// interrupted.
pub fn measure(plan: &Plan, supervision: &Supervision<'_>) -> Result<Observation> {
    ensure!(
        matches!(plan.protocol, Protocol::Rsvp | Protocol::Nsis),
        "sessions of {} end without a refresh every 30 s, and those here have one every {} s; measure rsvp or nsis",
        plan.protocol.name(),
        NEVER.as_secs()
    );
    let daemons = [false, true].map(|observed| daemon(plan, observed, supervision));
    let daemons = daemons.into_iter().collect::<Result<_>>()?;
    Ok(Observation { protocol: plan.protocol, sessions: plan.sessions, daemons })
}

fn daemon(plan: &Plan, is_observed: bool, supervision: &Supervision<'_>) -> Result<Daemon> {
    supervision.watcher.begin("the network starts", 1);
    let records = Records::new(is_observed)?;
    let tables = records.as_ref().map(|directory| tables(&directory.0)).unwrap_or_default();
    let line = Line::of(plan.program.clone(), plan.protocol, NEVER, tables)?;
    let processors = Processors::available().first().copied().unwrap_or(Processors::One);
    line.pin(processors)?;
    let empty = line.sample()?;
    line.with_ends(processors, |sender| {
        let name = if is_observed { "observed" } else { "not observed" };
        supervision.watcher.begin(&format!("{} sessions are set up ({name})", plan.sessions), 1);
        let unanswered = sender.set_up(plan.sessions, supervision)?;
        let memory_octets = line.sample()?.octets_a_session(&empty, plan.sessions);
        let (mut refresh_us, mut in_time) = (Vec::new(), true);
        let (answer_ms, observers) = while_observed(&line, is_observed, || {
            for number in 1..=plan.windows.max(1) {
                let what = format!("window {number} of {} ({name})", plan.windows);
                supervision.watcher.begin(&what, 1);
                let before = line.sample()?;
                let refreshed = sender.refresh(plan.sessions, plan.window, supervision)?;
                in_time &= refreshed.sent == refreshed.due;
                let after = line.sample()?;
                let spent = after.processor.saturating_sub(before.processor).as_secs_f64();
                refresh_us.push(spent * 1e6 / f64::from(refreshed.sent.max(1)));
            }
            Ok(())
        })?;
        Ok(Daemon { unanswered, memory_octets, in_time, refresh_us, answer_ms, observers })
    })
}

/// Directory of accounting records; removed when the value is dropped.
struct Records(PathBuf);

impl Records {
    /// Creates the directory if a daemon is observed.
    fn new(is_observed: bool) -> Result<Option<Records>> {
        if !is_observed {
            return Ok(None);
        }
        let number = RECORDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("earmark-observed-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Some(Records(path)))
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tables of the configuration that switch on what observes.
fn tables(records: &Path) -> String {
    let path = records.display();
    format!(
        "\n[metrics]\naddress = \"127.0.0.1:{PORT}\"\nreservations = 1000\n\n[history]\ndatabase = \"{path}/history.db\"\n\
         journal = \"{path}/journal\"\njournal_size = \"1024MiB\"\ninterval = \"60s\"\n"
    )
}

/// Does `work` while a client asks short questions, and all others observe if they shall.
fn while_observed(
    line: &Line,
    is_observed: bool,
    work: impl FnOnce() -> Result<()>,
) -> Result<([f64; 3], Option<Observers>)> {
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let questions = scope.spawn(move || ask(line.client()?, done));
        let observers = is_observed.then(|| {
            let watchers: Vec<_> =
                (0..WATCHERS).map(|_| scope.spawn(move || watch(line.client()?, done))).collect();
            let lister = scope.spawn(move || list(line.client()?, done));
            let scraper = scope.spawn(move || line.router().run_in(|| scrape(done))?);
            (watchers, lister, scraper)
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        let answer_ms = questions.join().expect("nothing there panics");
        let observers = observers.map(|(watchers, lister, scraper)| {
            let events = watchers.into_iter().map(|it| it.join().expect("nothing there panics"));
            let events = events.sum::<Result<u64>>()?;
            let listed = lister.join().expect("nothing there panics")?;
            let scraped = scraper.join().expect("nothing there panics")?;
            Ok::<_, anyhow::Error>(scraped.observers(listed, events))
        });
        worked?;
        Ok((answer_ms?, observers.transpose()?))
    })
}

/// Asks for the links again and again. Returns the percentiles of the times to the answer, milliseconds.
fn ask(mut client: Client, done: &AtomicBool) -> Result<[f64; 3]> {
    let mut times = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let start = Instant::now();
        client.show_links()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(QUESTION_INTERVAL);
    }
    times.sort_by(f64::total_cmp);
    let at = |percent| percentile(&times, percent).context("no question was answered");
    Ok([at(50)?, at(99)?, at(100)?])
}

/// Watches events. Returns their number.
fn watch(mut client: Client, done: &AtomicBool) -> Result<u64> {
    client.start_watching()?;
    let mut events = 0;
    while !done.load(Ordering::Relaxed) {
        let deadline = Instant::now() + Duration::from_millis(100);
        events += u64::from(client.next_event(Some(deadline))?.is_some());
    }
    Ok(events)
}

/// Lists all sessions again and again. Returns the number of rows.
fn list(mut client: Client, done: &AtomicBool) -> Result<u64> {
    let mut rows = 0;
    while !done.load(Ordering::Relaxed) {
        let mut pages = client.pages::<Value>(Show::new(Listing::Sessions));
        while let Some(page) = pages.next_page()? {
            rows += page.rows.len() as u64;
            if done.load(Ordering::Relaxed) {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}

/// What was read of the metrics.
struct Scraped {
    /// Turns in the windows by the upper bound of their length, seconds.
    turns: Vec<(f64, u64)>,
    collections: u64,
    octets: usize,
}

impl Scraped {
    fn observers(self, listed: u64, events: u64) -> Observers {
        let Scraped { turns, collections, octets } = self;
        let all = turns.last().map_or(0, |(_, count)| *count);
        let at = |share: f64| {
            let rank = (all as f64 * share).ceil() as u64;
            turns
                .iter()
                .find(|(_, count)| *count >= rank)
                .map_or(f64::INFINITY, |(bound, _)| *bound)
        };
        let turn_s = [at(0.5), at(0.99), at(0.999)];
        Observers { turns: all, turn_s, collections, metrics_octets: octets, listed, events }
    }
}

/// Reads the metrics every second.
fn scrape(done: &AtomicBool) -> Result<Scraped> {
    let first = turns(&collect()?);
    let mut collections = 1;
    let mut last = collect()?;
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(SCRAPE_INTERVAL);
        last = collect()?;
        collections += 1;
    }
    let earlier: BTreeMap<u64, u64> =
        first.into_iter().map(|(bound, count)| (bound.to_bits(), count)).collect();
    let since = |(bound, count): (f64, u64)| {
        (bound, count - earlier.get(&bound.to_bits()).copied().unwrap_or(0))
    };
    let turns = turns(&last).into_iter().map(since).collect();
    Ok(Scraped { turns, collections, octets: last.len() })
}

fn collect() -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => bail!("the metrics cannot be read: {}", answer.lines().next().unwrap_or_default()),
    }
}

/// Returns the buckets of the turns of the event loop: upper bounds, and numbers of turns up to them.
fn turns(metrics: &str) -> Vec<(f64, u64)> {
    let bucket = |line: &str| {
        let rest = line.strip_prefix(TURNS)?.strip_prefix("{le=\"")?;
        let (bound, count) = rest.split_once("\"} ")?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some((bound, count.trim().parse().ok()?))
    };
    metrics.lines().filter_map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_turns_are_bounds_of_buckets() {
        let text = "# HELP x\nearmark_event_loop_turn_seconds_bucket{le=\"0.001\"} 980\n\
            earmark_event_loop_turn_seconds_bucket{le=\"0.005\"} 990\n\
            earmark_event_loop_turn_seconds_bucket{le=\"+Inf\"} 1000\nother 3\n";
        let turns = turns(text);
        assert_eq!(turns, [(0.001, 980), (0.005, 990), (f64::INFINITY, 1_000)]);
        let observers = Scraped { turns, collections: 2, octets: 9 }.observers(1, 0);
        assert_eq!((observers.turns, observers.turn_s), (1_000, [0.001, 0.005, f64::INFINITY]));
    }
}
