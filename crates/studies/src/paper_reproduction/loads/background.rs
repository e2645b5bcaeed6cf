//! Background traffic (Figures 2 to 4): UDP packets of 512 octets through the router at rising rates, while
//! reservations pass it one at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use earmark_core::Rate;
use earmark_lab::statistics::{percentile, sorted};

use super::{RouterVariant, VARIANTS, mean, trimmed_estimate};
use crate::bench::Supervision;
use crate::bench::router::{Message, Protocol, RESV_TEAR};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::forwarding_latency::{
    ForwardingLatency, ForwardingTestbed, NOWHERE,
};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Estimate, Figure, Kind, Point, Section, Series, Table, key_part,
};
use earmark_lab::traffic::{Shape, Source};

/// Requested rates, Mbit/s. The results are for the rates that the sender reached.
const RATES: [u64; 8] = [0, 10, 25, 55, 100, 200, 400, 800];
const QUICK: [u64; 4] = [0, 55, 200, 800];
/// Largest number of background packets in a row when the sender is late.
const BURST: u32 = 32;
/// Time from the start of the background to the first measurement.
const START: Duration = Duration::from_millis(100);
/// Duration longer than any measurement.
const LONG: Duration = Duration::from_secs(600);
/// Number of uncounted sessions.
const WARM_UP: u32 = 20;
/// Number of lost messages above which the measurement fails.
const MAX_LOST: u32 = 300;
/// Number of parts of the messages whose means give the interval.
const PARTS: usize = 12;

/// Results at one rate.
struct RateResult {
    /// Rate sent, IP headers included, Mbit/s.
    rate: f64,
    passed: Vec<ForwardingLatency>,
    lost: u32,
}

impl RateResult {
    fn interfaces(&self) -> Vec<f64> {
        self.passed.iter().map(|passed| passed.interfaces_us).collect()
    }

    fn inside(&self) -> Vec<f64> {
        let inside = self.passed.iter().filter_map(|passed| passed.inside.as_ref());
        inside.map(|inside| inside.all_us).collect()
    }
}

/// Returns the messages of a session, and the name of the measured one.
fn session_messages(protocol: Protocol) -> Result<(Vec<Message>, &'static str)> {
    let named = |name: &str| {
        let found = protocol.messages().iter().find(|message| message.name == name);
        found.copied().with_context(|| format!("{} has no {name}", protocol.name()))
    };
    Ok(match protocol {
        Protocol::Rsvp => {
            let all = vec![named("Path, new")?, named("Resv, new")?, RESV_TEAR, named("PathTear")?];
            (all, "Resv, new")
        }
        _ => (vec![named("set-up, out")?, named("release, out")?], "set-up, out"),
    })
}

/// Measures and describes the background loads.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let number = |key: &str| published::number(key).with_context(|| format!("{key} is missing"));
    let messages = number("budapest.loads.traffic_flow_messages")? as u32;
    let octets = number("budapest.loads.background_packet_octets")? as u32;
    let rates: &[u64] = if order.quick { &QUICK } else { &RATES };
    let mut found = Vec::new();
    for variant in VARIANTS {
        let what = format!("loads: background ({})", variant.name);
        supervision.watcher.begin(&what, rates.len() as u64);
        let mut testbed = ForwardingTestbed::up(variant.protocol, variant.settings)?;
        testbed.expect_daemon(variant.daemon);
        let mut session = 0;
        let mut all = Vec::new();
        for (done, &rate) in rates.iter().enumerate() {
            let plan = Load { rate, octets, messages };
            all.push(plan.measure(&mut testbed, variant, &mut session, supervision)?);
            supervision.watcher.reached(done as u64 + 1);
        }
        found.push((variant, all));
    }
    Ok(section(&found, messages, octets))
}

struct Load {
    /// Rate, Mbit/s.
    rate: u64,
    octets: u32,
    messages: u32,
}

impl Load {
    fn measure(
        &self,
        testbed: &mut ForwardingTestbed,
        variant: RouterVariant,
        session: &mut u32,
        supervision: &Supervision<'_>,
    ) -> Result<RateResult> {
        let shape = Shape {
            rate: Rate::from_mbps(self.rate),
            packet_octets: self.octets,
            bucket_octets: BURST * self.octets,
        };
        let begun = Instant::now();
        let source = match self.rate {
            0 => None,
            _ => Some(Source::start(testbed.datagrams(NOWHERE)?, shape, LONG)?),
        };
        std::thread::sleep(START);
        let measured = self.messages_through(testbed, variant, session, supervision);
        let sent = source.map(Source::stop).transpose()?.map_or(0, |sent| sent.len());
        let bits = 8.0 * f64::from(self.octets) * sent as f64;
        let rate = bits / begun.elapsed().as_secs_f64() / 1e6;
        let (passed, lost) = measured?;
        Ok(RateResult { rate, passed, lost })
    }

    fn messages_through(
        &self,
        testbed: &mut ForwardingTestbed,
        variant: RouterVariant,
        session: &mut u32,
        supervision: &Supervision<'_>,
    ) -> Result<(Vec<ForwardingLatency>, u32)> {
        let (kinds, measured) = session_messages(variant.protocol)?;
        let (mut passed, mut lost) = (Vec::new(), 0);
        while passed.len() < (self.messages + WARM_UP) as usize {
            supervision.check_interrupted()?;
            *session += 1;
            for kind in &kinds {
                let message = testbed.write(kind, *session, 1);
                let Some(one) = testbed.forward(&message)? else {
                    lost += 1;
                    ensure!(lost <= MAX_LOST, "{lost} messages of {} were lost", variant.name);
                    break;
                };
                // The kernel leaves the first message of a new initiator to the daemon.
                if kind.name == measured && one.inside.is_some() == variant.daemon {
                    passed.push(one);
                }
            }
        }
        passed.drain(..WARM_UP as usize);
        Ok((passed, lost))
    }
}

fn section(found: &[(RouterVariant, Vec<RateResult>)], messages: u32, octets: u32) -> Section {
    let mut section = Section::default();
    section.heading("Background traffic");
    let theirs = published::number("budapest.loads.figure4_background_mbit_s").unwrap_or_default();
    section.text(format!(
        "UDP packets of {octets} octets pass the router at rising rates, each rate while {messages} reservations are set up one \
         after the other; the Resv of RSVP and Boomerang's message on its way out are measured, at both checkpoints. Shown are \
         means without the least and the greatest tenth, beside the plain means of the paper, whose Pentium was busy with \
         {theirs:.0} Mbit/s; rates are those that were really sent. The \
         sender shares the machine's processors with the router, and in namespaces the work of forwarding is done in the sender's \
         time: it is not the router's daemon that is interrupted for each packet, as the paper found. Messages wait while a \
         burst of packets is forwarded on the processor that they came to; at the highest rate the sender never sleeps and keeps \
         a processor to itself, and then messages may take less than at rates in between.",
    ));
    let mut table = Table::new(
        "loads-background",
        "A reservation against background traffic",
        &[
            "message",
            "Mbit/s",
            "checkpoint 1 us",
            "checkpoint 2 us",
            "checkpoint 1, plain mean us",
            "95 of 100 below us",
            "lost",
        ],
    );
    let mut lines = Vec::new();
    for (variant, all) in found {
        let outer = |at: &RateResult| trimmed_estimate(&at.interfaces(), PARTS);
        let inner = |at: &RateResult| trimmed_estimate(&at.inside(), PARTS);
        for (load, at) in [("none", all.first()), ("most", all.last())] {
            let key = format!("loads.{}.background.{load}", key_part(variant.name));
            section.measure(Basis::Measured, key, "us", at.and_then(outer));
        }
        for at in all {
            table.row([
                variant.name.into(),
                at.rate.into(),
                outer(at).into(),
                inner(at).into(),
                mean(&at.interfaces()).into(),
                percentile(&sorted(at.interfaces()), 95).into(),
                f64::from(at.lost).into(),
            ]);
        }
        let points = |value: &dyn Fn(&RateResult) -> Option<Estimate>| -> Vec<Point> {
            all.iter().filter_map(|at| Some(value(at)?.at(at.rate))).collect()
        };
        lines.push(Series::measured(format!("{}, checkpoint 1", variant.name), points(&outer)));
        if variant.daemon {
            lines.push(Series::measured(format!("{}, checkpoint 2", variant.name), points(&inner)));
        }
    }
    section.figure(Figure {
        name: "loads-background".to_owned(),
        title: "Reservations against background traffic (Figures 2 and 3)".to_owned(),
        across: Axis::linear("background traffic, Mbit/s"),
        up: Axis::linear("mean time of a message, us"),
        kind: Kind::Lines,
        series: lines,
    });
    section.table(table);
    levels(&mut section, found);
    section
}

/// Adds each message at the highest rate.
fn levels(section: &mut Section, found: &[(RouterVariant, Vec<RateResult>)]) {
    let Some(rate) = found.iter().filter_map(|(_, all)| Some(all.last()?.rate)).reduce(f64::min)
    else {
        return;
    };
    let each = found
        .iter()
        .filter(|(variant, _)| variant.protocol == Protocol::Boomerang)
        .filter_map(|(variant, all)| {
            let values = all.last()?.interfaces();
            let points = values.into_iter().enumerate();
            let points = points.map(|(n, y)| Point { x: n as f64, y, interval: None });
            Some(Series::measured(variant.name, points))
        });
    section.text(
        "The paper saw levels: a message is interrupted for no packet, for one, or for two, and each costs the same. Where such \
         levels can be seen in the drawing below is where a message waited for a burst of packets, or its thread for a processor.",
    );
    section.figure(Figure {
        name: "loads-background-each".to_owned(),
        title: format!("Each reservation of Boomerang at {rate:.0} Mbit/s or more (Figure 4)"),
        across: Axis::linear("message"),
        up: Axis::logarithmic("checkpoint 1, us"),
        kind: Kind::Dots,
        series: each.collect(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper_reproduction::forwarding_latency::DaemonLatency;

    #[test]
    fn every_loaded_protocol_has_session_messages() {
        for variant in VARIANTS {
            let (kinds, measured) = session_messages(variant.protocol).unwrap();
            assert!(kinds.iter().any(|kind| kind.name == measured));
        }
    }

    #[test]
    fn results_are_shown() {
        let inside =
            Some(DaemonLatency { all_us: 2.0, traffic_control_us: 1.0, steps: Vec::new() });
        let at = |rate| RateResult {
            rate,
            passed: vec![ForwardingLatency { interfaces_us: 9.0, inside: inside.clone() }; 24],
            lost: 1,
        };
        let found = VARIANTS.map(|variant| (variant, vec![at(0.0), at(50.0)]));
        let section = section(&found, 24, 512);
        assert_eq!(section.tables().next().unwrap().rows.len(), 6);
        let figures = section.blocks.iter().filter_map(|block| match block {
            crate::paper_reproduction::section::Block::Figure(figure) => Some(figure.series.len()),
            _ => None,
        });
        assert_eq!(figures.collect::<Vec<_>>(), [5, 2], "both checkpoints but for the kernel");
    }
}
