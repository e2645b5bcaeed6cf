//! Cases that the paper estimates: multicast sessions, and reservations that senders share.
//!
//! The measured messages are those of the last sender and the last receiver of a group, when all others have joined:
//! their cost shows the router's work for the others.

use std::time::Duration;

use anyhow::{Result, ensure};
use earmark_lab::statistics::trimmed_mean;
use earmark_wire::rsvp::Style;

use super::steps::TRIES;
use crate::bench::Supervision;
use crate::bench::router::group::{Group, MAX_RECEIVERS, MemberMessage};
use crate::bench::router::{Protocol, Router};
use crate::paper_reproduction::PartOptions;
use crate::paper_reproduction::checkpoint_trace::{
    CheckpointTracing, Clock, TracePoint, by_message, record,
};
use crate::paper_reproduction::repeated::{on_new_thread, run_rounds};
use crate::paper_reproduction::section::{
    Axis, Basis, Estimate, Figure, Kind, Section, Series, Table, key_part,
};

const RECEIVERS: [u32; 7] = [1, 2, 4, 8, 16, 32, MAX_RECEIVERS];
const STYLES: [(Style, &str); 3] =
    [(Style::FixedFilter, "FF"), (Style::SharedExplicit, "SE"), (Style::Wildcard, "WF")];
const ROUNDS: u32 = 12;
/// Number of groups in a round.
const BATCH: u32 = 25;
/// Number of senders of the groups that have more than one.
const SENDERS: u32 = 4;

const KINDS: [&str; 4] = ["Path", "Resv", "ResvTear", "PathTear"];

/// Times of each kind of message, one value a round, microseconds.
#[derive(Clone, Debug)]
struct Case {
    group: Group,
    style: &'static str,
    times: [Vec<f64>; 4],
}

impl Case {
    fn place(&self) -> &'static str {
        if self.group.one_link { "one interface" } else { "an interface each" }
    }
}

fn cases(receivers: &[u32]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (style, name) in STYLES {
        let mut add = |senders, receivers, one_link| {
            let group = Group { style, senders, receivers, one_link };
            let times = [const { Vec::new() }; 4];
            cases.push(Case { group, style: name, times });
        };
        for &receivers in receivers {
            add(1, receivers, false);
        }
        for &receivers in receivers.iter().filter(|&&receivers| receivers > 1) {
            add(1, receivers, true);
        }
        add(SENDERS, 1, false);
    }
    cases
}

/// Measures and describes the cases.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let apart = Duration::from_millis(if order.quick { 300 } else { 2_000 });
    let mut cases = cases(&RECEIVERS);
    rounds(&mut cases, ROUNDS, apart, supervision)?;
    Ok(section(&cases))
}

fn rounds(
    cases: &mut [Case],
    rounds: u32,
    apart: Duration,
    supervision: &Supervision<'_>,
) -> Result<()> {
    supervision.watcher.begin("messages: styles and receivers", rounds.into());
    let marks = CheckpointTracing::begin();
    let mut clock = Clock::calibrate(&marks)?;
    run_rounds(rounds, apart, supervision, |_| {
        clock.measure_mark_cost(&marks)?;
        for case in &mut *cases {
            supervision.check_interrupted()?;
            let mut tries = 1;
            while !on_new_thread(|| round(case, &marks, &clock, tries < TRIES))? {
                tries += 1;
            }
        }
        Ok(())
    })
}

/// Runs one round of a case: sets up a batch of groups without the last member of each, whose messages are then
/// timed. Returns `false`, and records nothing, if `undisturbed` is required and the round was disturbed.
fn round(
    case: &mut Case,
    marks: &CheckpointTracing,
    clock: &Clock,
    undisturbed: bool,
) -> Result<bool> {
    let group = case.group;
    let mut router = group.router(BATCH);
    let [last_sender, last_receiver] = [group.senders - 1, group.receivers - 1];
    (0..last_sender).for_each(|sender| deliver(&mut router, &group, MemberMessage::Path(sender)));
    let mut stamps: Vec<TracePoint> = Vec::new();
    let mut means = [0.0; 4];
    let timed = [
        MemberMessage::Path(last_sender),
        MemberMessage::Resv(last_receiver),
        MemberMessage::ResvTear(last_receiver),
        MemberMessage::PathTear(last_sender),
    ];
    for (mean, message) in means.iter_mut().zip(timed) {
        if matches!(message, MemberMessage::Resv(_)) {
            (0..last_receiver)
                .for_each(|receiver| deliver(&mut router, &group, MemberMessage::Resv(receiver)));
        }
        let messages: Vec<_> = (0..BATCH).map(|n| group.message(&router, n, message)).collect();
        let deliver = || router.deliver_all(&messages);
        let ((), is_undisturbed) = record(marks, &mut stamps, deliver)?;
        if undisturbed && !is_undisturbed {
            return Ok(false);
        }
        let took = by_message(&stamps).map(|message| clock.steps_us(message, |_| true));
        let took: Vec<f64> = took.collect();
        ensure!(took.len() == BATCH as usize, "{} of {BATCH} messages have marks", took.len());
        *mean = trimmed_mean(took);
    }
    let left = router.sessions(Protocol::Rsvp);
    let expected = if last_sender > 0 { BATCH } else { 0 };
    ensure!(left == expected as usize, "{left} sessions are left instead of {expected}");
    case.times.iter_mut().zip(means).for_each(|(times, mean)| times.push(mean));
    Ok(true)
}

fn deliver(router: &mut Router, group: &Group, message: MemberMessage) {
    let messages: Vec<_> = (0..BATCH).map(|n| group.message(router, n, message)).collect();
    router.deliver_all(&messages);
}

fn section(cases: &[Case]) -> Section {
    let mut section = Section::default();
    section.heading("Styles, and receivers: what the paper could only guess at");
    section.text(format!(
        "The paper measured unicast sessions with fixed filters, and expected more of other styles and of multicast without \
         measuring them. Here a group has up to {MAX_RECEIVERS} receivers, each behind an interface of its own, or all of them behind one \
         as so many next hops. What is timed is the last message of its kind, when all others of the group are reserved: the \
         Path that goes out to all, the Resv that is merged with those of the other receivers, the ResvTear that leaves theirs, \
         and the PathTear that takes them all with it. The router is the one without I/O; {ROUNDS} rounds of {BATCH} groups."
    ));
    section.text(
        "What goes out on each interface costs by the interface: Path and PathTear grow with the number of interfaces, as any \
         multicast forwarding does. A Resv costs more with each reservation that it is merged with, since the merged flowspec is \
         computed from all requests there are; the first Resv of a group makes what the others find. With SE a PathTear takes the \
         sender's filter out of every receiver's request; traffic control and the previous hop hear of it once.",
    );
    for (kind, name) in KINDS.iter().enumerate() {
        section.figure(figure(cases, kind, name));
    }
    let mut table = Table::new(
        "message-receivers",
        "A message about a group, microseconds",
        &["style", "senders", "receivers", "behind", "Path", "Resv", "ResvTear", "PathTear"],
    );
    for case in cases {
        let head = [
            case.style.into(),
            f64::from(case.group.senders).into(),
            f64::from(case.group.receivers).into(),
            case.place().into(),
        ];
        let times = case.times.iter().map(|times| Estimate::of(times).into());
        table.row(head.into_iter().chain(times));
    }
    section.table(table);
    measures(&mut section, cases);
    section
}

/// Adds the times of one receiver and of the most, behind an interface each.
fn measures(section: &mut Section, cases: &[Case]) {
    for case in cases.iter().filter(|case| !case.group.one_link && case.group.senders == 1) {
        let receivers = match case.group.receivers {
            1 => "1",
            MAX_RECEIVERS => "most",
            _ => continue,
        };
        for (kind, times) in KINDS.iter().zip(&case.times) {
            let key = format!(
                "messages.receivers.{}.{receivers}.{}",
                key_part(case.style),
                key_part(kind)
            );
            section.measure(Basis::Measured, key, "us", Estimate::of(times));
        }
    }
}

fn figure(cases: &[Case], kind: usize, name: &str) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for one_link in [false, true] {
        for (style, short) in STYLES {
            let of_series = |case: &&Case| {
                (case.group.style, case.group.one_link) == (style, one_link)
                    && case.group.senders == 1
            };
            let points = cases.iter().filter(of_series).filter_map(|case| {
                let estimate = Estimate::of(&case.times[kind])?;
                Some(estimate.at(f64::from(case.group.receivers)))
            });
            let place = if one_link { "one interface" } else { "an interface each" };
            let name = format!("{short}, {place}");
            series.push(Series::measured(name, points));
        }
    }
    Figure {
        name: format!("message-receivers-{}", name.to_lowercase()),
        title: format!("{name} against receivers"),
        across: Axis::logarithmic("receivers"),
        up: Axis::linear("us"),
        kind: Kind::Lines,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_and_shown() {
        let supervision = Supervision::unwatched();
        let mut cases = cases(&[1, 3]);
        assert_eq!(cases.len(), 3 * (2 + 1 + 1));
        rounds(&mut cases, 1, Duration::ZERO, &supervision).unwrap();
        let all = || cases.iter().flat_map(|case| &case.times);
        assert!(all().all(|times| times.len() == 1 && times[0] > 0.0), "{cases:?}");
        let section = section(&cases);
        assert_eq!(section.tables().next().unwrap().rows.len(), cases.len());
        let figure = figure(&cases, 1, "Resv");
        let points: Vec<_> = figure.series.iter().map(|series| series.points.len()).collect();
        assert_eq!(points, [2, 2, 2, 1, 1, 1]);
    }
}
