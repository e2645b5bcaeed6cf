//! Table II: cost of GIST's refresh interval.

use std::time::Duration;

use anyhow::Result;

use super::scaling::Scaling;
use crate::bench::Supervision;
use crate::bench::nsis::steady_state::{self, Plan};
use crate::bench::nsis::{Chain, Set, Transport};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{Axis, Estimate, Figure, Kind, Section, Series, Table};

/// Sessions, as published.
const SESSIONS: u32 = 15_000;
const INTERVALS: &str = "gist.table2_refresh_cpu.interval_s";
const KEY: &str = "gist.table2_refresh_cpu.cpu_pct";

/// Results of the rounds.
pub(super) struct RefreshInterval {
    /// Scaled length of every interval.
    period: Duration,
    /// Number of parts of the window of each interval in a round.
    parts: u32,
    intervals: Vec<f64>,
    /// Share of a processor by interval and part, percent.
    shares: Vec<Vec<f64>>,
}

impl RefreshInterval {
    /// Creates empty results.
    pub(super) fn new(quick: bool) -> RefreshInterval {
        let intervals = published::numbers(INTERVALS);
        let (period, parts) =
            if quick { (Duration::from_millis(500), 3) } else { (Duration::from_secs(3), 4) };
        let shares = vec![Vec::new(); intervals.len()];
        RefreshInterval { period, parts, intervals, shares }
    }

    /// Measures every interval, each on a network of its own.
    pub(super) fn round(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        supervision.watcher.begin("the network starts", 1);
        // The responder accepts any proposed validity.
        let chain = Chain::up(&Set::new(1, Transport::Tcp))?;
        let plans: Vec<Plan> = self.intervals.iter().map(|&interval| self.plan(interval)).collect();
        let measured =
            steady_state::measure_each_with_period(&chain, self.period, &plans, supervision)?;
        for (levels, shares) in measured.into_iter().zip(&mut self.shares) {
            let parts = levels.into_iter().flat_map(|level| level.processor);
            shares.extend(parts.map(|share| 100.0 * share));
        }
        Ok(())
    }

    fn plan(&self, interval: f64) -> Plan {
        let RefreshInterval { period, parts, .. } = *self;
        let scaling = scaling(interval, period);
        Plan {
            levels: vec![scaling.sessions(SESSIONS)],
            ping: scaling.ping(),
            settle: period / 2,
            window: period,
            parts,
            set_ups: None,
        }
    }

    pub(super) fn section(&self) -> Section {
        let RefreshInterval { period, ref intervals, ref shares, .. } = *self;
        let mut section = Section::default();
        section.heading("The refresh interval of GIST (Table II)");
        let seconds = period.as_secs_f64();
        let way = format!(
            "so many fewer sessions, and so much shorter intervals, that GIST's becomes {seconds} s: as many messages a second as with 15 000 sessions"
        );
        section.text(format!(
            "One node pings another over TCP, as with 15 000 sessions that are pinged every 30 s, while GIST's own interval is longer and \
             longer. Each row has {way}. Refreshes of GIST are datagrams, a Query and a Response, and a Confirm over the connection; what \
             they cost is the difference between the rows."
        ));
        let columns =
            ["interval s, as published", "sessions here", "% of a processor", "published %"];
        let mut table =
            Table::new("gist-refreshing", "Processor by GIST's refresh interval", &columns);
        let then = published::numbers(KEY);
        let mut values = Vec::new();
        for ((interval, shares), then) in intervals.iter().zip(shares).zip(&then) {
            let Some(share) = Estimate::over_time(shares) else { continue };
            let sessions = scaling(*interval, period).sessions(SESSIONS);
            table.row([
                (*interval).into(),
                f64::from(sessions).into(),
                share.into(),
                (*then).into(),
            ]);
            values.push(share);
        }
        section.table(table);
        section.figure(figure(intervals, &values, &then));
        section.entries(KEY, "% of a processor", values, &*way);
        section
    }
}

/// Returns the factor by which an interval is shortened.
fn scaling(interval: f64, period: Duration) -> Scaling {
    Scaling { by: (interval / period.as_secs_f64()).round().max(1.0) as u32 }
}

fn figure(intervals: &[f64], ours: &[Estimate], then: &[f64]) -> Figure {
    let ours = intervals.iter().zip(ours).map(|(interval, value)| value.at(*interval));
    let then = intervals.iter().zip(then);
    let then = then.map(|(interval, value)| Estimate::exact(*value).at(*interval));
    Figure {
        name: "gist-refreshing".to_owned(),
        title: "Processor by GIST's refresh interval (Table II)".to_owned(),
        across: Axis::linear("refresh interval, s"),
        up: Axis::logarithmic("% of a processor"),
        kind: Kind::Lines,
        series: vec![Series::measured("Earmark", ours), Series::published("GIST 0.1.0", then)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_becomes_the_period() {
        for RefreshInterval { period, intervals, .. } in [true, false].map(RefreshInterval::new) {
            for interval in intervals {
                let scaling = scaling(interval, period);
                assert_eq!(f64::from(scaling.by) * period.as_secs_f64(), interval);
                assert!(scaling.sessions(SESSIONS) > 25);
            }
        }
        assert_eq!(published::numbers(INTERVALS).len(), published::numbers(KEY).len());
    }
}
