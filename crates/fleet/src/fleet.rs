//! What is known about all routers, and the JSON of it that browsers share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use jiff::Timestamp;

use crate::config::{Config, RouterSettings};
use crate::metrics::Metrics;
use crate::report::{self, FleetReport};
use crate::router::{Reachability, RouterState};
use crate::scrape::ScrapeError;

/// Age up to which a report of all routers is used again.
const FRESH: Duration = Duration::from_millis(500);

/// What is known about all routers.
#[derive(Debug)]
pub struct Fleet {
    interval: Duration,
    routers: Vec<(RouterSettings, Mutex<RouterState>)>,
    /// The latest report, and when it was made.
    report: Mutex<Option<(Instant, Bytes)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    /// Creates the state of routers that were not scraped yet.
    pub fn new(config: &Config) -> Fleet {
        let now = Timestamp::now();
        let routers = config.routers.iter();
        let routers = routers.map(|router| (router.clone(), Mutex::new(RouterState::new(now))));
        let report = Mutex::new(None);
        Fleet { interval: config.interval, routers: routers.collect(), report }
    }

    /// Takes over the result of a scrape. Returns a line for the log if the router has become reachable or unreachable.
    pub fn note(&self, id: usize, result: Result<Metrics, ScrapeError>) -> Option<String> {
        let (settings, state) = self.routers.get(id)?;
        let mut state = lock(state);
        if !state.note(result, Timestamp::now(), Instant::now()) {
            return None;
        }
        Some(match &state.reachability {
            Reachability::Unreachable(reason) => {
                format!("{}: unreachable: {reason}", settings.name)
            }
            _ => format!("{}: reachable", settings.name),
        })
    }

    /// Returns all routers as JSON, those with trouble first.
    ///
    /// # Errors
    /// The state cannot be written as JSON.
    pub fn report(&self) -> serde_json::Result<Bytes> {
        let mut latest = lock(&self.report);
        if let Some((at, text)) = &*latest
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let time = Timestamp::now();
        let states: Vec<_> = self.routers.iter().map(|(_, state)| lock(state)).collect();
        let routers = self.routers.iter().zip(&states).enumerate();
        let mut routers: Vec<_> = routers
            .map(|(id, ((settings, _), state))| report::row(id, settings, state, time, false))
            .collect();
        report::sort(&mut routers);
        let interval_s = self.interval.as_secs_f64();
        let text = serde_json::to_vec(&FleetReport { time, interval_s, routers })?;
        let text = Bytes::from(text);
        *latest = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    /// Returns one router with the history of its links as JSON; `None` if there is no such router.
    ///
    /// # Errors
    /// The state cannot be written as JSON.
    pub fn router_report(&self, id: usize) -> serde_json::Result<Option<Bytes>> {
        let Some((settings, state)) = self.routers.get(id) else { return Ok(None) };
        let state = lock(state);
        let row = report::row(id, settings, &state, Timestamp::now(), true);
        serde_json::to_vec(&row).map(|text| Some(text.into()))
    }
}
