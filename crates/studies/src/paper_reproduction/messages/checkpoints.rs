//! Checkpoints 1, 2 and 3 (Tables 1 to 8): times of messages through a router with a daemon, one at a time.
//!
//! A round sends the messages of a few sessions, each as soon as the one before has left. Each way is visited several
//! times, each time with a new router and daemon; the daemon handles Boomerang in one way, and the kernel's offload
//! in another.

use anyhow::{Context, Result, ensure};
use earmark_lab::statistics::{percentile, sorted, trimmed, trimmed_mean};

use super::published_steps;
use crate::bench::Supervision;
use crate::bench::messages::offload;
use crate::bench::router::{Message, Protocol, Step};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::checkpoint_trace::{Clock, TracePoint};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::forwarding_latency::{
    ForwardingLatency, ForwardingTestbed, NOWHERE, RouterVariant,
};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Point, Section, Series, Table, key_part,
};
use crate::paper_reproduction::steps::Times;

/// Number of visits of each way, in turns, so that each way is measured at different times.
const VISITS: u32 = 4;
/// Rounds of a visit.
const ROUNDS: u32 = 2;
/// Number of sessions in a round: 304 messages of each kind in all.
const BATCH: u32 = 38;
/// Number of uncounted sessions: neighbor resolution and first use of memory.
const WARM_UP: u32 = 10;
/// Largest number of lost messages.
const MAX_LOST: u32 = 30;
/// Largest number of sessions that the daemon handles in place of the offload.
const MAX_OTHERS: u32 = 1_000;
/// Number of runs of the kernel's test runner while all ways are visited once.
const TEST_RUNS: u32 = 2;
/// Number of sessions in the kernel during a test run.
const KNOWN: u32 = 1_000;

/// Name of packets without a message.
const PLAIN: &str = "no message, UDP";

const VARIANTS: [RouterVariant; 5] = [
    RouterVariant { protocol: Protocol::Rsvp, name: "RSVP", settings: "", daemon: true },
    RouterVariant {
        protocol: Protocol::Boomerang,
        name: "Boomerang, by the daemon",
        settings: "[boomerang]\nkernel = false\n",
        daemon: true,
    },
    RouterVariant {
        protocol: Protocol::Boomerang,
        name: "Boomerang, by the kernel",
        settings: "[boomerang]\nkernel = true\n",
        daemon: false,
    },
    RouterVariant { protocol: Protocol::Yessir, name: "YESSIR", settings: "", daemon: true },
    RouterVariant { protocol: Protocol::Nsis, name: "NSIS", settings: "", daemon: true },
];

/// Times of a kind of message, one value a round, microseconds.
#[derive(Clone, Debug, Default)]
struct MessageTimes {
    message: &'static str,
    interfaces: Vec<f64>,
    inside: Vec<f64>,
    traffic_control: Vec<f64>,
    /// Means and standard deviations of `interfaces`.
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// Steps in the daemon.
    steps: Times,
}

/// Key of the time from device driver to device driver of a new flow of YESSIR: mean and standard deviation.
const KERNEL_IO: &str = "pan.table3_yessir.kernel_io";

/// A published row, and the protocol and message of its counterpart.
const PUBLISHED: [(&str, Protocol, &str); 6] = [
    ("table1_isi_rsvp.path", Protocol::Rsvp, "Path, new"),
    ("table1_isi_rsvp.path_tear", Protocol::Rsvp, "PathTear"),
    ("table1_isi_rsvp.resv", Protocol::Rsvp, "Resv, new"),
    ("table1_isi_rsvp.resv_tear", Protocol::Rsvp, "ResvTear"),
    ("table2_boomerang.reservation", Protocol::Boomerang, "set-up, out"),
    ("table2_boomerang.reservation_tear", Protocol::Boomerang, "release, out"),
];

fn published_key(protocol: Protocol, message: &str) -> Option<String> {
    let results = PUBLISHED.iter().find(|(_, of, name)| *of == protocol && *name == message);
    results.map(|(key, _, _)| format!("budapest.{key}"))
}

/// Measures and describes the checkpoints; says what is missing if namespaces are unavailable.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    section.heading("Checkpoints 1 and 2: from interface to interface");
    if let Some(obstacle) = &order.obstacle {
        section.text(format!("It takes network namespaces, and was left out: {obstacle}."));
        for key in ["budapest.table1_isi_rsvp", "budapest.table2_boomerang"] {
            section.leave_out(key, "it takes network namespaces, and so root");
        }
        section.leave_out(KERNEL_IO, "it takes network namespaces, and so root");
        section.leave_out("messages", "checkpoints take network namespaces, and so root");
        let reason = "steps are measured in a daemon with the kernel's routes and traffic control, which takes network namespaces, and \
             so root";
        published_steps::leave_out(&mut section, reason);
        return Ok(section);
    }
    let visits = if order.quick { VISITS } else { 3 * VISITS };
    let mut results = VARIANTS.map(VariantResults::empty);
    let all = visits as usize * results.len();
    supervision.watcher.begin("messages: through a router with a daemon", all as u64);
    let mut kernel = [const { Vec::new() }; 2];
    for done in 0..all {
        results[done % VARIANTS.len()].visit(supervision)?;
        if done % VARIANTS.len() == 0 {
            by_test_runner(&mut kernel, supervision)?;
        }
        supervision.watcher.reached(done as u64 + 1);
    }
    let [set_up, release] = kernel.map(|us| Estimate::of(&us));
    let kernel = set_up.zip(release).context("the kernel's test runner has not run")?;
    explain(&mut section, visits * ROUNDS);
    report(&mut section, &results, &kernel)?;
    published_steps::report(&mut section, |protocol, message| {
        let mut of = results.iter().filter(|it| it.variant.protocol == protocol);
        let in_daemon = of.find(|it| it.variant.daemon)?;
        in_daemon.times.iter().find(|times| times.message == message).map(|times| &times.steps)
    })?;
    Ok(section)
}

/// Results of a way.
struct VariantResults {
    variant: RouterVariant,
    kinds: Vec<Message>,
    times: Vec<MessageTimes>,
    /// Times of packets without a message between the interfaces, one value a round, microseconds.
    plain: Vec<f64>,
}

impl VariantResults {
    /// Returns empty results for all kinds of messages of a protocol but refreshes, in the order of a session.
    fn empty(variant: RouterVariant) -> VariantResults {
        let kinds = variant
            .protocol
            .messages_of_both_ends()
            .into_iter()
            .filter(|kind| kind.step != Step::Refresh);
        let kinds: Vec<Message> = kinds.collect();
        let of_kind =
            |kind: &Message| MessageTimes { message: kind.name, ..MessageTimes::default() };
        let times = kinds.iter().map(of_kind).collect();
        VariantResults { variant, kinds, times, plain: Vec::new() }
    }

    /// Runs some rounds with a new router and daemon.
    fn visit(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        let mut testbed = ForwardingTestbed::up(self.variant.protocol, self.variant.settings)?;
        testbed.expect_daemon(self.variant.daemon);
        let mut session = 0;
        let nowhere = testbed.datagrams(NOWHERE)?;
        self.batch(&mut testbed, &mut session, WARM_UP, supervision)?;
        for _ in 0..ROUNDS {
            let plain: Result<Vec<_>> =
                (0..BATCH).map(|_| testbed.forward_plain(&nowhere)).collect();
            self.plain.extend(median(plain?.into_iter().flatten()));
            let batch = self.batch(&mut testbed, &mut session, BATCH, supervision)?;
            let (protocol, clock) = (self.variant.protocol, testbed.clock());
            let noted = self.times.iter_mut().zip(&batch);
            noted.for_each(|(times, batch)| times.note(protocol, batch, &clock));
        }
        Ok(())
    }

    /// Sends the messages of a number of sessions, one after the other, by kind.
    fn batch(
        &self,
        testbed: &mut ForwardingTestbed,
        session: &mut u32,
        sessions: u32,
        supervision: &Supervision<'_>,
    ) -> Result<Vec<Vec<ForwardingLatency>>> {
        let VariantResults { variant, kinds, .. } = self;
        let mut batch = vec![Vec::new(); kinds.len()];
        let (mut lost, mut others) = (0, 0);
        while batch[0].len() < sessions as usize {
            supervision.check_interrupted()?;
            *session += 1;
            let mut passed = Vec::new();
            for kind in kinds {
                let message = testbed.write(kind, *session, 1);
                let Some(one) = testbed.forward(&message)? else {
                    lost += 1;
                    let name = variant.name;
                    ensure!(lost <= MAX_LOST, "{lost} messages did not leave the router ({name})");
                    break;
                };
                passed.push(one);
            }
            // The kernel leaves the first message of a new initiator to the daemon.
            let is_of_way = |passed: &ForwardingLatency| passed.inside.is_some() == variant.daemon;
            if passed.len() < kinds.len() || !passed.iter().all(is_of_way) {
                others += 1;
                let name = variant.name;
                ensure!(others <= MAX_OTHERS, "{others} sessions were treated otherwise ({name})");
                continue;
            }
            batch.iter_mut().zip(passed).for_each(|(batch, passed)| batch.push(passed));
        }
        Ok(batch)
    }
}

impl MessageTimes {
    /// Records the medians of a batch.
    fn note(&mut self, protocol: Protocol, batch: &[ForwardingLatency], clock: &Clock) {
        let interfaces = sorted(batch.iter().map(|passed| passed.interfaces_us));
        self.interfaces.extend(percentile(&interfaces, 50));
        self.means.push(trimmed_mean(interfaces.iter().copied()));
        self.deviations.extend(deviation(trimmed(&interfaces, batch.len().min(20))));
        let inside = || batch.iter().filter_map(|passed| passed.inside.as_ref());
        let steps: Vec<&[TracePoint]> = inside().map(|inside| inside.steps.as_slice()).collect();
        if !steps.is_empty() {
            self.steps.note(&steps, clock, &published_steps::groups(protocol, self.message));
        }
        self.inside.extend(median(inside().map(|inside| inside.all_us)));
        self.traffic_control.extend(median(inside().map(|inside| inside.traffic_control_us)));
    }
}

/// Returns the standard deviation; `None` of fewer than two values.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (count > 1.0).then(|| (squares / (count - 1.0)).sqrt())
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    percentile(&sorted(values), 50)
}

/// Summarizes medians of rounds.
fn of_rounds(medians: &[f64]) -> Option<Estimate> {
    Estimate::of_batches(medians, medians.len() as u64 * u64::from(BATCH))
}

/// Measures a set-up and a release in the kernel several times, microseconds.
fn by_test_runner(into: &mut [Vec<f64>; 2], supervision: &Supervision<'_>) -> Result<()> {
    for _ in 0..TEST_RUNS {
        supervision.check_interrupted()?;
        let cost = offload::measure(KNOWN)?;
        for (into, nanoseconds) in into.iter_mut().zip([cost.set_up, cost.release]) {
            into.push(nanoseconds as f64 / 1e3);
        }
    }
    Ok(())
}

fn explain(section: &mut Section, rounds: u32) {
    section.text(format!(
        "A host, a router and another host, in namespaces that are joined by veth pairs; the router's daemon runs on a thread of \
         this process, with traffic control by classes of HTB. Each message is sent after the one before has left: {} of each \
         kind, {BATCH} in each of {rounds} rounds, each of which gives a median, and every {ROUNDS} of which have a daemon of \
         their own. Checkpoint 1 is the time between the kernel's stamps of the packet that comes and of the one that leaves. \
         Checkpoint 2 is the time from the socket's handing a message to the daemon until the daemon hands out what came of it, \
         reservations in traffic control included: it is narrower than the packet filter of the paper, since the way into and out \
         of the socket is not in it.",
        rounds * BATCH
    ));
    section.text(
        "Between the two lies what the system takes: waking the daemon up, and the socket's calls. Each interrupt and each wake-up of \
         a virtual machine goes through its host, and the share of checkpoint 1 that is the system's has grown from a tenth \
         to half of it or more. Boomerang's kernel module in the paper compares to what the kernel does here on the daemon's behalf; \
         checkpoint 2 of that is timed by the kernel's test runner for BPF, with what starting and stopping its clock takes. Of \
         NSIS the message that leaves is the answer or what goes on of it: a Query is answered to where it came from. What a packet \
         takes that is no message, and is forwarded by the kernel through the same router, is in a row of its own: nothing that leaves it \
         by the way of a packet can take less.",
    );
}

fn report(
    section: &mut Section,
    results: &[VariantResults],
    (set_up, release): &(Estimate, Estimate),
) -> Result<()> {
    let mhz = Environment::of_this_machine().mhz;
    let theirs = published::number("budapest.cpu_mhz").context("the clock of the paper")?;
    let mut table = Table::new(
        "message-checkpoints",
        "Tables 1 and 2, and the other protocols: microseconds and cycles of a message",
        &[
            "protocol",
            "message",
            "checkpoint 1 us",
            "published us",
            "checkpoint 2 us",
            "published us",
            "of it traffic control us",
            "checkpoint 2 cycles",
            "published cycles",
        ],
    );
    let mut headline = Headline::default();
    for VariantResults { variant, times: all, plain, .. } in results {
        let key = format!("messages.{}.plain.cp1", key_part(variant.name));
        section.measure(Basis::Measured, key, "us", Estimate::of(plain));
        let mut row = vec![Cell::from(variant.name), PLAIN.into(), Estimate::of(plain).into()];
        row.resize(table.columns.len(), Cell::Nothing);
        table.row(row);
        for times in all {
            let by_kernel = match times.message {
                "set-up, out" => Some(set_up.clone()),
                "release, out" => Some(release.clone()),
                _ => None,
            };
            let [outer, inner] = [&times.interfaces, &times.inside].map(|us| of_rounds(us));
            let inner = if variant.daemon { inner } else { by_kernel };
            let key = published_key(variant.protocol, times.message);
            // In the published measurement Boomerang was part of the kernel.
            let counts = variant.protocol != Protocol::Boomerang || !variant.daemon;
            let then = |part: &str| {
                published::value(&format!("{}.{part}", key.as_deref().filter(|_| counts)?))
            };
            let (then_1, then_2) = (then("cp1_median"), then("cp2_median"));
            let cycles = mhz.and_then(|mhz| Some(inner.as_ref()?.times(mhz)));
            table.row([
                variant.name.into(),
                times.message.into(),
                outer.clone().into(),
                then_1.into(),
                inner.clone().into(),
                then_2.into(),
                Cell::from(of_rounds(&times.traffic_control)),
                cycles.into(),
                then_2.map(|then| then.times(theirs)).into(),
            ]);
            if key.is_some() {
                headline.add(variant, times.message, [&outer, &inner], [then_1, then_2]);
            }
            for (part, value) in [("cp1", &outer), ("cp2", &inner)] {
                let key = measure_key(variant, times.message, part);
                section.measure(Basis::Measured, key, "us", value.clone());
            }
            if variant.protocol == Protocol::Yessir && times.message == SET_UP {
                let values = [of_rounds(&times.means), of_rounds(&times.deviations)];
                let note = "an unsigned request through the daemon, in namespaces, over veth pairs; with traffic control, which theirs had not";
                section.entries(KERNEL_IO, "us", values.into_iter().flatten(), note);
            }
            if let (Some(key), Some(outer), Some(inner), true) = (key, outer, inner, counts) {
                let note = "in namespaces, over veth pairs";
                section.entries(format!("{key}.cp1_median"), "us", [outer], note);
                let note = if variant.daemon {
                    "from being handed to the daemon to being handed out by it"
                } else {
                    "by the kernel's test runner, with what starting and stopping its clock takes"
                };
                section.entries(format!("{key}.cp2_median"), "us", [inner], note);
            }
        }
    }
    section.figure(headline.draw());
    section.table(table);
    Ok(())
}

/// Message with which YESSIR makes a reservation.
const SET_UP: &str = "set-up";

/// Returns the key of a message's checkpoint, for verdicts.
fn measure_key(variant: &RouterVariant, message: &str, part: &str) -> String {
    format!("messages.{}.{}.{part}", key_part(variant.name), key_part(message))
}

/// Figure of Tables 1 and 2: both checkpoints of each message that was published.
#[derive(Default)]
struct Headline {
    messages: Vec<String>,
    ours: [Vec<Point>; 2],
    published: [Vec<Point>; 2],
}

impl Headline {
    fn add(
        &mut self,
        variant: &RouterVariant,
        message: &str,
        ours: [&Option<Estimate>; 2],
        then: [Option<published::Published>; 2],
    ) {
        let place = self.messages.len() as f64;
        self.messages.push(format!("{}: {message}", variant.name));
        for (points, value) in self.ours.iter_mut().zip(ours) {
            points.extend(value.as_ref().map(|value| value.at(place)));
        }
        for (points, value) in self.published.iter_mut().zip(then) {
            points.extend(value.map(|value| value.at(place)));
        }
    }

    fn draw(self) -> Figure {
        let ([outer, inner], [then_outer, then_inner]) = (self.ours, self.published);
        Figure {
            name: "message-checkpoints".to_owned(),
            title: "A message in a router, from interface to interface (1) and within (2)"
                .to_owned(),
            across: Axis::named("message", &self.messages),
            up: Axis::linear("us"),
            kind: Kind::Bars,
            series: vec![
                Series::measured("checkpoint 1", outer),
                Series::published("checkpoint 1", then_outer),
                Series::measured("checkpoint 2", inner),
                Series::published("checkpoint 2", then_inner),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_published_has_a_counterpart() {
        for (key, _) in published::measurements() {
            let Some(row) = key.strip_prefix("budapest.") else { continue };
            if !row.starts_with("table1_") && !row.starts_with("table2_") {
                continue;
            }
            let (above, _) = row.rsplit_once('.').unwrap();
            let (_, protocol, message) = PUBLISHED.iter().find(|(key, ..)| *key == above).unwrap();
            assert!(
                protocol.messages_of_both_ends().iter().any(|kind| kind.name == *message),
                "{message}"
            );
        }
    }

    #[test]
    fn rounds_give_medians() {
        let mut times = MessageTimes::default();
        let passed = |us| ForwardingLatency { interfaces_us: us, inside: None };
        let clock = Clock { tick: 1.0, mark: 0.0 };
        times.note(Protocol::Rsvp, &[passed(3.0), passed(900.0), passed(1.0)], &clock);
        assert_eq!((times.interfaces, times.inside), (vec![3.0], Vec::new()));
    }
}
