//! Signalling load: messages at rising rates without waiting for the router, until some are lost.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{RouterVariant, VARIANTS, mean, trimmed_estimate};
use crate::bench::Supervision;
use crate::bench::router::{Arrival, Message, Protocol};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::forwarding_latency::ForwardingTestbed;
use crate::paper_reproduction::section::{
    Axis, Basis, Figure, Kind, Section, Series, Table, key_part,
};

/// Messages a second.
const RATES: [u32; 9] = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000];
const QUICK: [u32; 5] = [500, 2_000, 5_000, 20_000, 80_000];
/// Duration of each rate.
const LASTS: Duration = Duration::from_millis(400);
/// Largest number of messages of a rate.
const MAX_MESSAGES: u32 = 20_000;
/// Number of uncounted sessions.
const WARM_UP: u32 = 20;
/// Number of sessions that are refreshed in turn.
const KNOWN: u32 = 160;
/// Margin for late wake-ups of a sleep.
const LATE: Duration = Duration::from_micros(200);
/// Timeout of a message after the last one was sent.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Share of lost messages above which the rate is the last one.
const TOO_MANY: f64 = 0.01;
/// Number of parts of the messages whose means give the interval.
const PARTS: usize = 12;

/// Results of one rate.
#[derive(Clone, Debug, Default, PartialEq)]
struct RateResult {
    /// Messages a second that were to be sent.
    wanted: u32,
    /// Messages a second that were sent.
    rate: f64,
    /// Times from interface to interface of the messages that left, microseconds.
    took: Vec<f64>,
    sent: u32,
}

impl RateResult {
    fn lost(&self) -> f64 {
        1.0 - self.took.len() as f64 / f64::from(self.sent.max(1))
    }
}

/// Messages sent to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flood {
    variant: RouterVariant,
    name: &'static str,
    /// Number of sessions that are refreshed in turn; `None` if every message is about a new one.
    known: Option<u32>,
}

/// Returns the loads. RSVP refreshes do not leave a router at once, so only its new sessions can be observed. New
/// sessions of Boomerang always involve the daemon for traffic control, so only its refreshes stay in the kernel.
fn floods() -> [Flood; 3] {
    let [rsvp, by_daemon, by_kernel] = VARIANTS;
    [
        Flood { variant: rsvp, name: "RSVP, new Paths", known: None },
        Flood { variant: by_daemon, name: "Boomerang, new sessions by the daemon", known: None },
        Flood {
            variant: by_kernel,
            name: "Boomerang, refreshes by the kernel",
            known: Some(KNOWN),
        },
    ]
}

/// Returns the message that creates or refreshes a session and is forwarded by the router.
fn first(protocol: Protocol) -> Result<Message> {
    protocol.messages().first().copied().context("a protocol without messages")
}

/// Measures and describes the signalling loads.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let rates: &[u32] = if order.quick { &QUICK } else { &RATES };
    let mut found = Vec::new();
    for flood in floods() {
        let what = format!("loads: signalling ({})", flood.name);
        supervision.watcher.begin(&what, rates.len() as u64);
        let mut all: Vec<RateResult> = Vec::new();
        for (done, &rate) in rates.iter().enumerate() {
            supervision.check_interrupted()?;
            all.push(at_rate(flood, rate)?);
            supervision.watcher.reached(done as u64 + 1);
            if all.last().is_some_and(|at| at.lost() > TOO_MANY) {
                break;
            }
        }
        found.push((flood, all));
    }
    Ok(section(&found))
}

/// Sends messages at a rate through a router of its own.
fn at_rate(flood: Flood, rate: u32) -> Result<RateResult> {
    let Flood { variant, known, .. } = flood;
    let mut testbed = ForwardingTestbed::up(variant.protocol, variant.settings)?;
    testbed.expect_daemon(variant.daemon);
    let kind = first(variant.protocol)?;
    for session in 0..known.unwrap_or(WARM_UP) {
        let message = testbed.write(&kind, session, 1);
        testbed.forward(&message)?;
    }
    testbed.keep_trace(false);
    let count = MAX_MESSAGES.min((f64::from(rate) * LASTS.as_secs_f64()) as u32);
    let session = |number: u32| known.map_or(WARM_UP + number, |known| number % known);
    let messages: Vec<Arrival> =
        (0..count).map(|number| testbed.write(&kind, session(number), 1)).collect();
    testbed.tap.forget()?;
    let mut watch = OrderedCapture::default();
    let start = Instant::now();
    for (number, message) in messages.iter().enumerate() {
        let due = start + Duration::from_secs_f64(number as f64 / f64::from(rate));
        watch.until(due, &mut testbed)?;
        testbed.send(message)?;
    }
    let (wanted, rate) = (rate, f64::from(count) / start.elapsed().as_secs_f64());
    let deadline = Instant::now() + TIMEOUT;
    while watch.took.len() < messages.len()
        && let Some(seen) = testbed.tap.next(deadline)?
    {
        watch.note(seen.leaves, seen.destination, seen.at);
    }
    let missed = testbed.tap.missed()?;
    ensure!(missed == 0, "{missed} packets were not seen at the router's interfaces");
    Ok(RateResult { wanted, rate, took: watch.took, sent: count })
}

/// Messages that have arrived at the router and not left it, by their destinations, each of which has one session;
/// messages of one session leave in order of arrival.
#[derive(Default)]
struct OrderedCapture {
    came: HashMap<IpAddr, VecDeque<Duration>>,
    took: Vec<f64>,
}

impl OrderedCapture {
    /// Records passing messages until `due`. The last moments are spent without sleep, since a sleep ends late.
    fn until(&mut self, due: Instant, testbed: &mut ForwardingTestbed) -> Result<()> {
        let awake = due - LATE;
        while Instant::now() < awake
            && let Some(seen) = testbed.tap.next(awake)?
        {
            self.note(seen.leaves, seen.destination, seen.at);
        }
        loop {
            while let Some(seen) = testbed.tap.look()? {
                self.note(seen.leaves, seen.destination, seen.at);
            }
            if Instant::now() >= due {
                return Ok(());
            }
        }
    }

    fn note(&mut self, leaves: bool, destination: IpAddr, at: Duration) {
        let waiting = self.came.entry(destination).or_default();
        if !leaves {
            waiting.push_back(at);
        } else if let Some(came) = waiting.pop_front() {
            self.took.push(at.saturating_sub(came).as_secs_f64() * 1e6);
        }
    }
}

fn section(found: &[(Flood, Vec<RateResult>)]) -> Section {
    let mut section = Section::default();
    section.heading("Signalling load");
    section.text(format!(
        "Messages come at rising rates, for {:.1} s or {MAX_MESSAGES} of them each, whether the router keeps up or not: Paths of new \
         sessions; Boomerang's on their way out, of new sessions for the daemon, which puts each into traffic control, and of \
         {KNOWN} sessions that are refreshed in turn for the kernel. What is measured is checkpoint 1. The paper found the time of a message independent \
         of the rate until the messages come as fast as they are treated, and then messages lost. A rate at which more than one in \
         a hundred did not leave the router is the last one shown; where none is lost, the sender was the slower one.",
        LASTS.as_secs_f64()
    ));
    let mut table = Table::new(
        "loads-signalling",
        "A message against the rate of messages",
        &["message", "messages/s", "checkpoint 1 us", "plain mean us", "sent", "lost %"],
    );
    let mut lines = Vec::new();
    for (flood, all) in found {
        for at in all {
            let key = format!("loads.{}.signalling.{}", key_part(flood.variant.name), at.wanted);
            section.measure(Basis::Measured, key, "us", trimmed_estimate(&at.took, PARTS));
            table.row([
                flood.name.into(),
                at.rate.into(),
                trimmed_estimate(&at.took, PARTS).into(),
                mean(&at.took).into(),
                f64::from(at.sent).into(),
                (100.0 * at.lost()).into(),
            ]);
        }
        let points =
            all.iter().filter_map(|at| Some(trimmed_estimate(&at.took, PARTS)?.at(at.rate)));
        lines.push(Series::measured(flood.name, points));
    }
    section.figure(Figure {
        name: "loads-signalling".to_owned(),
        title: "Messages against the rate of messages".to_owned(),
        across: Axis::logarithmic("messages a second"),
        up: Axis::logarithmic("mean time of a message at checkpoint 1, us"),
        kind: Kind::Lines,
        series: lines,
    });
    section.table(table);
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_matched_by_destination() {
        let mut watch = OrderedCapture::default();
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let us = Duration::from_micros;
        watch.note(false, a, us(10));
        watch.note(false, b, us(20));
        watch.note(true, b, us(50));
        watch.note(true, b, us(60));
        watch.note(false, a, us(70));
        watch.note(true, a, us(80));
        assert_eq!(watch.took, [30.0, 70.0], "the first that came is the first that left");
        let at = RateResult { wanted: 1, rate: 1.0, took: vec![1.0; 3], sent: 4 };
        assert_eq!(at.lost(), 0.25);
        assert_eq!(RateResult::default().lost(), 1.0);
    }

    #[test]
    fn rates_are_rows_and_points() {
        let at = |rate| RateResult { wanted: 0, rate, took: vec![5.0; 24], sent: 25 };
        let found = floods().map(|flood| (flood, vec![at(500.0), at(1_000.0)]));
        assert_eq!(section(&found).tables().next().unwrap().rows.len(), 6);
        assert!(floods().iter().all(|flood| first(flood.variant.protocol).is_ok()));
    }
}
