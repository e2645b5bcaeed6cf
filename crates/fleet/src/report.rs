//! The state of all routers as JSON: a row for each, those with trouble first.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::config::RouterSettings;
use crate::metrics::LinkMetrics;
use crate::router::{LinkSample, Reachability, RouterState};

/// Part of the reservable rate from which a link counts as nearly full.
const NEARLY_FULL: f64 = 0.9;
/// Dropped messages per minute from which they are trouble; a few are usual.
const MANY_DROPS: f64 = 60.0;
/// Time of the slowest turns of the event loop from which they are trouble, seconds.
const SLOW_TURN: f64 = 0.1;

/// State of a router, for programs; the order is that of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    /// The last scrape failed.
    Unreachable,
    /// The last scrape succeeded, and shows trouble.
    Trouble,
    /// No scrape has ended yet.
    Pending,
    /// The last scrape succeeded.
    Good,
}

/// What the page shows of all routers.
#[derive(Debug, Serialize)]
pub struct FleetReport<'a> {
    /// Time of the report.
    #[serde(serialize_with = "as_text")]
    pub time: Timestamp,
    /// Interval of the scrapes, seconds.
    pub interval_s: f64,
    /// The routers, those with trouble first.
    pub routers: Vec<RouterRow<'a>>,
}

/// A row: a router.
#[derive(Debug, Serialize)]
pub struct RouterRow<'a> {
    /// Number of the router in the configuration, for `/api/router/ID`.
    pub id: usize,
    /// Name.
    pub name: &'a str,
    /// Address of its own page.
    pub page: Option<&'a str>,
    /// State.
    pub state: RowState,
    /// Why the last scrape failed.
    pub reason: Option<&'a str>,
    /// Time since when the router is reachable or unreachable.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
    /// What an operator should look at.
    pub troubles: Vec<String>,
    /// Age of the latest successful scrape, seconds. What follows is of that scrape.
    pub age_s: Option<f64>,
    /// Version of the daemon.
    pub version: Option<&'a str>,
    /// Sessions by protocol.
    pub sessions: Option<&'a BTreeMap<String, f64>>,
    /// Reservable rate of all links, bit/s.
    pub reservable_bps: Option<f64>,
    /// Reserved rate of all links, bit/s.
    pub reserved_bps: Option<f64>,
    /// Refused reservations per minute.
    pub refusals_per_minute: Option<f64>,
    /// Dropped messages per minute.
    pub drops_per_minute: Option<f64>,
    /// Upper bound of 99 of 100 turns of the event loop, seconds.
    pub slow_turns_s: Option<f64>,
    /// The links.
    pub links: Vec<LinkRow<'a>>,
    /// Links that were left out because there are too many.
    pub links_left_out: usize,
}

/// A sample of a link: Unix time in seconds, reserved and used rate in bit/s.
pub type SampleRow = (f64, Option<f64>, Option<f64>);

/// A link of a router.
#[derive(Debug, Serialize)]
pub struct LinkRow<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// Whether the interface is up.
    pub up: Option<bool>,
    /// Bandwidth, bit/s.
    pub bandwidth_bps: Option<f64>,
    /// Reservable rate, bit/s.
    pub reservable_bps: Option<f64>,
    /// Reserved rate, bit/s.
    pub reserved_bps: Option<f64>,
    /// Rate that the reservations send, bit/s; `null` where the kernel counts nothing.
    pub used_bps: Option<f64>,
    /// Number of reservations.
    pub reservations: Option<f64>,
    /// History, the oldest sample first; only in `/api/router/ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<SampleRow>>,
}

/// Writes a time as RFC 3339.
fn as_text<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(time)
}

/// Returns the row of a router, with the history of its links if it is wanted.
pub fn row<'a>(
    id: usize,
    settings: &'a RouterSettings,
    state: &'a RouterState,
    now: Timestamp,
    with_history: bool,
) -> RouterRow<'a> {
    let latest = state.latest.as_ref();
    let metrics = latest.map(|latest| &latest.metrics);
    let troubles = troubles(state);
    let (row_state, reason) = match &state.reachability {
        Reachability::Unreachable(reason) => (RowState::Unreachable, Some(reason.as_str())),
        Reachability::Pending => (RowState::Pending, None),
        Reachability::Reachable if troubles.is_empty() => (RowState::Good, None),
        Reachability::Reachable => (RowState::Trouble, None),
    };
    let links = metrics.iter().flat_map(|metrics| &metrics.links);
    let links = links.map(|(name, link)| link_row(name, link, state, with_history)).collect();
    let sum = |of: fn(&LinkMetrics) -> Option<f64>| metrics.map(|metrics| metrics.sum(of));
    RouterRow {
        id,
        name: &settings.name,
        page: settings.page.as_deref(),
        state: row_state,
        reason,
        since: state.since,
        troubles,
        age_s: latest.map(|latest| now.duration_since(latest.at).as_secs_f64().max(0.0)),
        version: metrics.and_then(|metrics| metrics.version.as_deref()),
        sessions: metrics.map(|metrics| &metrics.sessions),
        reservable_bps: sum(|link| link.reservable_bps),
        reserved_bps: sum(|link| link.reserved_bps),
        refusals_per_minute: latest.and_then(|latest| latest.refusals_per_minute),
        drops_per_minute: latest.and_then(|latest| latest.drops_per_minute),
        slow_turns_s: latest.and_then(|latest| latest.slow_turns_s),
        links,
        links_left_out: metrics.map_or(0, |metrics| metrics.links_left_out),
    }
}

/// Sorts rows: those with trouble first, then by name.
pub fn sort(rows: &mut [RouterRow<'_>]) {
    rows.sort_by(|a, b| (a.state, a.name).cmp(&(b.state, b.name)));
}

fn link_row<'a>(
    name: &'a str,
    link: &LinkMetrics,
    state: &RouterState,
    with_history: bool,
) -> LinkRow<'a> {
    let history = state.history.get(name);
    let sample = |sample: &LinkSample| {
        let at = sample.at.as_millisecond() as f64 / 1_000.0;
        (at, sample.reserved_bps, sample.used_bps)
    };
    LinkRow {
        name,
        up: link.up,
        bandwidth_bps: link.bandwidth_bps,
        reservable_bps: link.reservable_bps,
        reserved_bps: link.reserved_bps,
        used_bps: history.and_then(|samples| samples.back()?.used_bps),
        reservations: link.reservations,
        samples: history
            .filter(|_| with_history)
            .map(|samples| samples.iter().map(sample).collect()),
    }
}

/// Returns what an operator should look at in a reachable router.
fn troubles(state: &RouterState) -> Vec<String> {
    let Some(latest) = state.latest.as_ref() else { return Vec::new() };
    let mut troubles = Vec::new();
    for (name, link) in &latest.metrics.links {
        if link.up == Some(false) {
            troubles.push(format!("{name} is down"));
        }
        let rates = link.reserved_bps.zip(link.reservable_bps);
        if rates.is_some_and(|(reserved, all)| all > 0.0 && reserved >= all * NEARLY_FULL) {
            troubles.push(format!("{name} is nearly full"));
        }
    }
    let links = &latest.metrics.links_left_out;
    if *links > 0 {
        troubles.push(format!("{links} links are left out"));
    }
    let rates = [
        (latest.refusals_per_minute, 0.0, "refusals per minute"),
        (latest.drops_per_minute, MANY_DROPS, "dropped messages per minute"),
    ];
    for (rate, most, what) in rates {
        if let Some(rate) = rate.filter(|rate| *rate > most) {
            troubles.push(format!("{rate:.1} {what}"));
        }
    }
    if let Some(turn) = latest.slow_turns_s.filter(|turn| *turn > SLOW_TURN) {
        troubles.push(format!("turns of the event loop take up to {turn} s"));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::metrics::Metrics;
    use crate::scrape::ScrapeError;

    fn reachable(change: impl Fn(&mut LinkMetrics)) -> RouterState {
        let mut link = LinkMetrics {
            up: Some(true),
            reservable_bps: Some(10e6),
            reserved_bps: Some(1e6),
            ..LinkMetrics::default()
        };
        change(&mut link);
        let metrics = Metrics { links: [("eth0".to_owned(), link)].into(), ..Metrics::default() };
        let mut state = RouterState::new(Timestamp::UNIX_EPOCH);
        state.note(Ok(metrics), Timestamp::UNIX_EPOCH, Instant::now());
        state
    }

    fn settings(name: &str) -> RouterSettings {
        let metrics = "http://r:1/".parse().expect("a URL");
        RouterSettings { name: name.to_owned(), metrics, page: None }
    }

    #[test]
    fn trouble_comes_first() {
        let now = Timestamp::UNIX_EPOCH;
        let mut failed = RouterState::new(now);
        failed.note(Err(ScrapeError::OtherProgram), now, Instant::now());
        let mut refusing = reachable(|_| {});
        refusing.latest.as_mut().expect("latest").refusals_per_minute = Some(2.0);
        let states = [
            ("b", reachable(|_| {})),
            ("a", reachable(|_| {})),
            ("c", RouterState::new(now)),
            ("d", reachable(|link| link.up = Some(false))),
            ("e", reachable(|link| link.reserved_bps = Some(9.5e6))),
            ("f", refusing),
            ("g", failed),
        ];
        let settings = states.each_ref().map(|(name, _)| settings(name));
        let mut rows: Vec<_> = states
            .iter()
            .zip(&settings)
            .map(|((_, state), settings)| row(0, settings, state, now, false))
            .collect();
        sort(&mut rows);
        let order: Vec<_> = rows.iter().map(|row| (row.name, row.state)).collect();
        use RowState::*;
        assert_eq!(
            order,
            [
                ("g", Unreachable),
                ("d", Trouble),
                ("e", Trouble),
                ("f", Trouble),
                ("c", Pending),
                ("a", Good),
                ("b", Good)
            ]
        );
        let troubles: Vec<_> = rows[1..4].iter().map(|row| row.troubles.join(", ")).collect();
        assert_eq!(troubles, ["eth0 is down", "eth0 is nearly full", "2.0 refusals per minute"]);
        assert!(rows[0].reason.is_some());
    }

    #[test]
    fn history_is_in_the_row_of_one_router_only() {
        let (state, settings) = (reachable(|_| {}), settings("a"));
        let json = |history| {
            let row = row(0, &settings, &state, Timestamp::UNIX_EPOCH, history);
            serde_json::to_value(&row).expect("JSON")
        };
        assert!(json(false)["links"][0].get("samples").is_none());
        assert_eq!(json(true)["links"][0]["samples"], serde_json::json!([[0.0, 1e6, null]]));
        assert_eq!(json(true)["reserved_bps"], 1e6);
    }
}
