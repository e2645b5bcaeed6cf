//! Table II: cost of GIST's refresh interval.

use std::time::Duration;

use anyhow::Result;

use super::scaling::Scaling;
use crate::bench::Supervision;
use crate::bench::nsis::steady_state::{self, Plan};
use crate::bench::nsis::{Chain, Set, Transport};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Cell, Estimate, Figure, Kind, Point, Section, Series, Table,
};

/// Published number of sessions.
const SESSIONS: u32 = 15_000;
const INTERVALS: &str = "gist.table2_refresh_cpu.interval_s";
const KEY: &str = "gist.table2_refresh_cpu.cpu_pct";
/// Length to which a quick report shortens every interval.
const QUICK: Duration = Duration::from_millis(500);

/// Results of the rounds.
pub(super) struct RefreshInterval {
    quick: bool,
    /// Published intervals, seconds.
    intervals: Vec<f64>,
    /// Share of a processor by interval and part, percent.
    shares: Vec<Vec<f64>>,
}

impl RefreshInterval {
    /// Creates empty results.
    pub(super) fn new(quick: bool) -> RefreshInterval {
        let intervals = published::numbers(INTERVALS);
        let shares = vec![Vec::new(); intervals.len()];
        RefreshInterval { quick, intervals, shares }
    }

    /// Measures every interval. Routing state of an interval may outlive its sessions as long as it is valid, so each
    /// published interval has a network of its own.
    pub(super) fn round(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        let mut chain = None;
        for (&interval, shares) in self.intervals.iter().zip(&mut self.shares) {
            supervision.watcher.begin("the network starts", 1);
            // The responder accepts any proposed validity.
            let chain = match &mut chain {
                Some(chain) if self.quick => chain,
                chain => chain.insert(Chain::up(&Set::new(1, Transport::Tcp))?),
            };
            let (period, plan) = plan(interval, self.quick);
            let measured =
                steady_state::measure_each_with_period(chain, period, &[plan], supervision)?;
            let parts = measured.into_iter().flatten().flat_map(|level| level.processor);
            shares.extend(parts.map(|share| 100.0 * share));
        }
        Ok(())
    }

    pub(super) fn section(&self) -> Section {
        let RefreshInterval { quick, ref intervals, ref shares } = *self;
        let mut section = Section::default();
        section.heading("The refresh interval of GIST (Table II)");
        let setting = match quick {
            true => {
                "A quick report has no time for the published intervals: each is shortened to 0.5 s, with so many fewer sessions that refreshes \
                 and pings a second are those of the paper; no published figure stands beside these."
            }
            false => "15 000 sessions stand.",
        };
        section.text(format!(
            "One node pings another over TCP, each session every 30 s, while GIST's own interval is longer and longer. {setting} Refreshes of GIST \
             are datagrams, a Query and a Response, and a Confirm over the connection; what they cost is the difference between the rows."
        ));
        let mut columns =
            vec!["sessions", "refresh interval, s", "refreshes a second", "% of a processor"];
        if !quick {
            columns.push("published %");
        }
        let mut table =
            Table::new("gist-refreshing", "Processor by GIST's refresh interval", &columns);
        let then = published::numbers(KEY);
        let (mut values, mut points, mut then_points) = (Vec::new(), Vec::new(), Vec::new());
        for ((interval, shares), then) in intervals.iter().zip(shares).zip(&then) {
            let Some(share) = Estimate::over_time(shares) else { continue };
            let (period, Plan { levels, .. }) = plan(*interval, quick);
            let sessions = levels.iter().copied().max().map_or(0.0, f64::from);
            let rate = sessions / period.as_secs_f64();
            let mut row: Vec<Cell> =
                vec![sessions.into(), period.as_secs_f64().into(), rate.into(), (&share).into()];
            if !quick {
                row.push((*then).into());
                then_points.push(Estimate::exact(*then).at(*interval));
            }
            table.row(row);
            points.push(share.at(if quick { rate } else { *interval }));
            values.push(share);
        }
        section.figure(figure(quick, points, then_points));
        section.table(table);
        if Scaling::of_report(quick).admits(&mut section, KEY) {
            section.entries(KEY, "% of a processor", values, "15 000 sessions, over TCP");
        }
        section
    }
}

/// Returns the length of an interval in a report, and its measurement.
fn plan(interval: f64, quick: bool) -> (Duration, Plan) {
    let published = Duration::from_secs_f64(interval);
    let period = if quick { QUICK } else { published };
    let scaling = scaling(interval, period);
    let plan = Plan {
        levels: vec![scaling.sessions(SESSIONS)],
        ping: scaling.ping(),
        settle: period / 2,
        window: period,
        parts: if quick { 3 } else { 8 },
        set_ups: None,
    };
    (period, plan)
}

/// Returns the factor by which an interval is shortened.
fn scaling(interval: f64, period: Duration) -> Scaling {
    Scaling { by: (interval / period.as_secs_f64()).round().max(1.0) as u32 }
}

fn figure(quick: bool, ours: Vec<Point>, then: Vec<Point>) -> Figure {
    let across = if quick { "refreshes a second" } else { "refresh interval, s" };
    let mut series = vec![Series::measured("Earmark", ours)];
    if !then.is_empty() {
        series.push(Series::published("GIST 0.1.0", then));
    }
    Figure {
        name: "gist-refreshing".to_owned(),
        title: "Processor by GIST's refresh interval (Table II)".to_owned(),
        across: Axis::linear(across),
        up: Axis::linear("% of a processor"),
        kind: Kind::Lines,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_intervals_are_shortened_and_full_ones_are_published() {
        for interval in published::numbers(INTERVALS) {
            let (period, quick) = plan(interval, true);
            let by = interval / period.as_secs_f64();
            assert_eq!(period, QUICK);
            assert_eq!(quick.levels, [SESSIONS / by as u32]);
            let (period, full) = plan(interval, false);
            assert_eq!((period.as_secs_f64(), full.levels), (interval, vec![SESSIONS]));
            assert_eq!(full.ping, Duration::from_secs(30));
        }
        assert_eq!(published::numbers(INTERVALS).len(), published::numbers(KEY).len());
    }

    #[test]
    fn quick_shares_stand_beside_nothing_published() {
        let of = |quick| {
            let mut measured = RefreshInterval::new(quick);
            measured.shares.iter_mut().for_each(|shares| shares.extend([1.0, 2.0, 3.0]));
            measured.section()
        };
        let (quick, full) = (of(true), of(false));
        assert!(quick.entries.is_empty() && quick.left_out.iter().any(|(key, _)| key == KEY));
        assert!(quick.tables().all(|table| !format!("{table:?}").contains("published")));
        assert_eq!(full.entries[0].values.len(), 7);
    }
}
