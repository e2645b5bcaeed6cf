//! Table II: what it costs how often GIST asks again who is next.

use std::time::Duration;

use anyhow::{Context, Result};

use super::noted;
use super::scaled::Scaled;
use crate::bench::Supervision;
use crate::bench::nsis::standing::{self, Plan};
use crate::bench::nsis::{Chain, Set, Transport};
use crate::overhead::Order;
use crate::overhead::chapter::{Axis, Chapter, Estimate, Figure, Kind, Point, Series, Table};
use crate::overhead::published;

/// Sessions, as published.
const SESSIONS: u32 = 15_000;
const INTERVALS: &str = "gist.table2_refresh_cpu.interval_s";
const KEY: &str = "gist.table2_refresh_cpu.cpu_pct";

/// Measures every interval, again and again.
pub(super) fn measure(order: &Order, supervision: &Supervision<'_>) -> Result<Chapter> {
    let (period, rounds, parts) =
        if order.quick { (Duration::from_secs(1), 1, 5) } else { (Duration::from_secs(6), 2, 6) };
    let intervals = published::numbers(INTERVALS);
    supervision.watcher.begin("the network starts", 1);
    // The other end grants whatever this one proposes.
    let chain = Chain::up(&Set::new(1, Transport::Tcp))?;
    let mut shares = vec![Vec::new(); intervals.len()];
    for _ in 0..rounds {
        for (interval, shares) in intervals.iter().zip(&mut shares) {
            let percent = one(&chain, *interval, period, parts, supervision);
            shares.extend(percent.with_context(|| format!("GIST refreshed every {interval} s"))?);
        }
    }
    let mut chapter = Chapter::default();
    chapter.heading("The refresh interval of GIST (Table II)");
    let seconds = period.as_secs_f64();
    let way = format!(
        "so many fewer sessions, and so much shorter intervals, that GIST's becomes {seconds:.0} s: as many messages a second as with 15 000 sessions"
    );
    chapter.text(format!(
        "One node pings another over TCP, as with 15 000 sessions that are pinged every 30 s, while GIST's own interval is longer and \
         longer. Each row has {way}. Refreshes of GIST are datagrams, a Query and a Response, and a Confirm over the connection; what \
         they cost is the difference between the rows."
    ));
    let columns = ["interval s, as published", "sessions here", "% of a processor", "published %"];
    let mut table = Table::new("gist-refreshing", "Processor by GIST's refresh interval", &columns);
    let then = published::numbers(KEY);
    let mut values = Vec::new();
    for ((interval, shares), then) in intervals.iter().zip(&shares).zip(&then) {
        let Some(share) = Estimate::of(shares) else { continue };
        let sessions = scaled(*interval, period).sessions(SESSIONS);
        table.row([(*interval).into(), f64::from(sessions).into(), share.into(), (*then).into()]);
        values.push(share);
    }
    chapter.table(table);
    chapter.figure(figure(&intervals, &values, &then));
    noted(&mut chapter, KEY, "% of a processor", values, &way);
    Ok(chapter)
}

/// By how much an interval is made shorter.
fn scaled(interval: f64, period: Duration) -> Scaled {
    Scaled { by: (interval / period.as_secs_f64()).round().max(1.0) as u32 }
}

/// Percent of a processor, in each part of one period.
fn one(
    chain: &Chain,
    interval: f64,
    period: Duration,
    parts: u32,
    supervision: &Supervision<'_>,
) -> Result<Vec<f64>> {
    let scaled = scaled(interval, period);
    let plan = Plan {
        levels: vec![scaled.sessions(SESSIONS)],
        ping: scaled.ping(),
        settle: period / 2,
        window: period,
        parts,
        set_ups: None,
    };
    let levels = standing::measure_with_period(chain, period, &plan, supervision)?;
    let shares = levels.into_iter().flat_map(|level| level.processor);
    Ok(shares.map(|share| 100.0 * share).collect())
}

fn figure(intervals: &[f64], ours: &[Estimate], then: &[f64]) -> Figure {
    let points = |values: &mut dyn Iterator<Item = Estimate>| -> Vec<Point> {
        intervals.iter().zip(values).map(|(interval, value)| value.at(*interval)).collect()
    };
    let series =
        |name: &str, published, points| Series { name: name.to_owned(), published, points };
    Figure {
        name: "gist-refreshing".to_owned(),
        title: "Processor by GIST's refresh interval (Table II)".to_owned(),
        across: Axis::linear("refresh interval, s"),
        up: Axis::logarithmic("% of a processor"),
        kind: Kind::Lines,
        series: vec![
            series("Earmark", false, points(&mut ours.iter().copied())),
            series("GIST 0.1.0", true, points(&mut then.iter().copied().map(Estimate::exact))),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_becomes_the_period() {
        let period = Duration::from_secs(1);
        for interval in published::numbers(INTERVALS) {
            let scaled = scaled(interval, period);
            assert_eq!(f64::from(scaled.by), interval);
            assert!(scaled.sessions(SESSIONS) > 50);
        }
        assert_eq!(published::numbers(INTERVALS).len(), published::numbers(KEY).len());
    }
}
