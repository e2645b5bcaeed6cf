//! Figures 8 to 10: cost of sessions for the node at the end of a pair, round-trip times meanwhile, and the time of a
//! set-up over an existing association.

use std::time::Duration;

use anyhow::{Context, Result};

use super::scaling::Scaling;
use crate::bench::nsis::steady_state::{self, Held, Level, Plan, validity};
use crate::bench::nsis::{Chain, Set, Transport};
use crate::bench::{Supervision, network, resident};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Section, Series, Table, key_part,
};
use earmark_lab::testbed::Settings;

/// Published numbers of sessions by level: those of the text.
const LEVELS: [u32; 4] = [20_000, 45_000, 55_000, TOP];
/// Levels over connections for a quick report.
const QUICK_CONNECTED: [u32; 2] = [20_000, TOP];
/// Level over TLS, which was not published.
const OVER_TLS: [u32; 1] = [TOP];
/// Level at which consecutive reservations are set up; the paper has 15 000 to 25 000.
const SET_UP_AT: u32 = 20_000;
/// Last level, and the number of sessions that the paper held at the same time.
const TOP: u32 = 60_000;
/// A larger number of sessions than the paper's.
const MORE: u32 = 95_000;

/// Results of one transport.
struct Run {
    name: &'static str,
    transport: Option<Transport>,
    levels: Vec<Level>,
}

/// Results of the rounds.
pub(super) struct Sessions {
    quick: bool,
    scaling: Scaling,
    runs: Vec<Run>,
    held: Vec<Held>,
}

impl Sessions {
    /// Creates empty results.
    pub(super) fn new(quick: bool) -> Sessions {
        let scaling = Scaling::of_report(quick);
        Sessions { quick, scaling, runs: Vec::new(), held: Vec::new() }
    }

    /// Measures each transport, RSVP, and the number of sessions that can be held, each on a network of its own.
    pub(super) fn round(&mut self, round: u32, supervision: &Supervision<'_>) -> Result<()> {
        let Sessions { quick, scaling, .. } = *self;
        for transport in Transport::ALL {
            // There are no published figures of TLS, and its slow measurement does not fit every quick round.
            if transport == Transport::Tls && quick && round > 0 {
                continue;
            }
            let levels = measure_levels(quick, scaling, transport, supervision)
                .with_context(|| format!("GIST over {}", transport.name()))?;
            self.add(transport.name(), Some(transport), levels);
        }
        let levels = rsvp(quick, scaling, supervision).context("RSVP")?;
        self.add("RSVP", None, levels);
        if quick && !round.is_multiple_of(2) {
            return Ok(());
        }
        self.held.push(hold(TOP, supervision)?);
        if !quick && round == 0 {
            self.held.push(hold(MORE, supervision)?);
        }
        Ok(())
    }

    fn add(&mut self, name: &'static str, transport: Option<Transport>, levels: Vec<Level>) {
        match self.runs.iter_mut().find(|run| run.transport == transport) {
            Some(run) => join(&mut run.levels, levels),
            None => self.runs.push(Run { name, transport, levels }),
        }
    }

    pub(super) fn section(&self) -> Section {
        let Sessions { scaling, ref runs, ref held, .. } = *self;
        let mut section = Section::default();
        section.heading("Sessions between two nodes (Figures 8 to 10)");
        introduce(&mut section, scaling, runs);
        section.figure(processor(scaling, runs));
        section.figure(round_trips(scaling, runs));
        section.table(table(scaling, runs));
        give_processor(&mut section, scaling, runs);
        give_round_trips(&mut section, scaling, runs);
        give_set_ups(&mut section, scaling, runs);
        give_held(&mut section, held);
        give_most(&mut section, scaling, runs);
        section
    }
}

/// Adds later measurements to the existing levels.
fn join(levels: &mut [Level], later: Vec<Level>) {
    for (level, later) in levels.iter_mut().zip(later) {
        level.processor.extend(later.processor);
        level.round_trips.extend(later.round_trips);
        level.set_ups_ms.extend(later.set_ups_ms);
        level.lost += later.lost;
    }
}

fn measure_levels(
    quick: bool,
    scaling: Scaling,
    transport: Transport,
    supervision: &Supervision<'_>,
) -> Result<Vec<Level>> {
    supervision.watcher.begin("the network starts", 1);
    let chain =
        Chain::up(&Set { validity: validity(scaling.refresh()), ..Set::new(1, transport) })?;
    let published: &[u32] = match transport {
        Transport::Datagram => &LEVELS,
        Transport::Tcp if !quick => &LEVELS,
        Transport::Tcp => &QUICK_CONNECTED,
        Transport::Tls => &OVER_TLS,
    };
    let plan = Plan {
        levels: published.iter().map(|sessions| scaling.sessions(*sessions)).collect(),
        ping: scaling.ping(),
        settle: scaling.refresh() / 2,
        window: scaling.refresh(),
        parts: parts(quick),
        set_ups: Some((scaling.sessions(SET_UP_AT), if quick { 30 } else { 200 })),
    };
    steady_state::measure_on(&chain, &plan, supervision)
}

/// Measures as many sessions of RSVP, each refreshed every 30 s by Path and by Resv, at the one router between the
/// hosts.
fn rsvp(quick: bool, scaling: Scaling, supervision: &Supervision<'_>) -> Result<Vec<Level>> {
    let published: &[u32] = if quick { &[TOP] } else { &[SET_UP_AT, TOP] };
    let refresh = scaling.ping();
    let mut levels = Vec::new();
    for &sessions in published {
        let sessions = scaling.sessions(sessions);
        let interface = "queues = \"none\"\n".to_owned();
        let settings = Settings { interface, ..Settings::default() };
        let plan = resident::Plan {
            sessions,
            name: "RSVP",
            set: network::Set { routers: 1, refresh, reduction: false, settings },
            host_refresh: refresh,
            warm_up: refresh * 2,
            window: scaling.refresh(),
            parts: parts(quick),
            timeout: Duration::from_secs(60),
        };
        let residents = resident::measure(&plan, supervision)?;
        let router = residents.daemons.into_iter().next().context("there is a router")?;
        levels.push(Level {
            sessions,
            processor: router.processor_of_parts,
            packets_in: router.packets_in,
            memory_octets: router.memory_octets,
            ..Level::default()
        });
    }
    Ok(levels)
}

/// Holds `sessions` sessions at the same time, in datagrams, not scaled.
fn hold(sessions: u32, supervision: &Supervision<'_>) -> Result<Held> {
    /// Number of sessions that begin in a second.
    const RATE: u32 = 12_000;
    supervision.watcher.begin("the network starts", 1);
    let chain = Chain::up(&Set::new(1, Transport::Datagram))?;
    steady_state::hold_on(&chain, sessions, RATE, supervision)
}

fn introduce(section: &mut Section, scaling: Scaling, runs: &[Run]) {
    section.text(format!(
        "One node pings another over one hop, in datagrams (D-mode), over TCP (C-mode) and over TLS, {}; the second one is a daemon, \
         and is what is looked at. In the same run as many sessions of RSVP stood over one router, each refreshed by a Path and a Resv \
         every {:.2} s; it passes each of them on, which an end does not. One pair of Earmark's nodes shares two processors, with the \
         kernel's work in their time. {}",
        scaling.note(),
        scaling.ping().as_secs_f64(),
        match scaling.is_published() {
            true => "Intervals are over parts of a refresh period.",
            false => "Intervals are over parts of refresh periods, and over rounds with daemons of their own. The number of sessions is not \
                 the published one, so no published figure stands beside these; the full report has the published setting.",
        }
    ));
    let lost: u64 = runs.iter().flat_map(|run| &run.levels).map(|level| level.lost).sum();
    let lost = if lost == 0 { "none".to_owned() } else { lost.to_string() };
    section.text(format!(
        "In the paper round trips rose from 5 ms to 7 s between 50 000 and 60 000 sessions, as the sender came to its end. Here pings \
         that were lost: {lost}. Cycles compare processors of both times: a processor now has some times more \
         of them a second, and needs fewer for the same message, since no timer is sorted into a heap and messages are not copied from \
         one object to the next."
    ));
}

/// Summarizes values in order of time.
fn estimate_of(values: impl Iterator<Item = f64>) -> Option<Estimate> {
    Estimate::over_time(&values.collect::<Vec<_>>())
}

/// Returns the number of parts of a level's window in a round.
fn parts(quick: bool) -> u32 {
    if quick { 3 } else { 8 }
}

/// Returns the share of a processor, percent.
fn percent(level: &Level) -> Option<Estimate> {
    estimate_of(level.processor.iter().map(|share| 100.0 * share))
}

/// Returns the median round-trip time, milliseconds.
fn round_trip(level: &Level) -> Option<Estimate> {
    estimate_of(level.round_trips.iter().filter(|times| times.count > 0).map(|times| times.p50_ms))
}

fn table(scaling: Scaling, runs: &[Run]) -> Table {
    let mut columns = vec![
        "by",
        "sessions",
        "pings a second",
        "% of a processor",
        "thousand cycles a ping",
        "memory octets/session",
        "round trip ms",
    ];
    if scaling.is_published() {
        columns.extend([
            "published %",
            "published thousand cycles a ping",
            "published round trip ms",
        ]);
    }
    let mut table = Table::new("gist-sessions", "A node with sessions that stand", &columns);
    let mhz = Environment::of_this_machine().mhz;
    let then_mhz = published::number("gist.cpu_mhz");
    for run in runs {
        for level in &run.levels {
            let pings = scaling.pings_a_second(level.sessions);
            let cycles = |mhz: f64| mhz * 1e3 / 100.0 / pings;
            let ours = percent(level);
            let ours_cycles = ours.as_ref().zip(mhz).map(|(ours, mhz)| ours.times(cycles(mhz)));
            let mut row: Vec<Cell> = vec![
                run.name.into(),
                f64::from(level.sessions).into(),
                pings.into(),
                ours.into(),
                ours_cycles.into(),
                level.memory_octets.round().into(),
                round_trip(level).into(),
            ];
            if scaling.is_published() {
                let then = published_percent(run.transport, level.sessions);
                row.extend([
                    then.into(),
                    then.zip(then_mhz).map(|(then, mhz)| then * cycles(mhz)).into(),
                    published_round_trip(run.transport, level.sessions).into(),
                ]);
            }
            table.row(row);
        }
    }
    table
}

fn published_percent(transport: Option<Transport>, sessions: u32) -> Option<f64> {
    let name = match transport {
        Some(Transport::Datagram) => "gist_d",
        Some(Transport::Tcp) => "gist_c",
        Some(Transport::Tls) => return None,
        None => "kom_rsvp",
    };
    published::number(&format!("gist.cpu_pct_60000.{name}")).filter(|_| sessions == TOP)
}

/// Returns the published round-trip time, milliseconds.
fn published_round_trip(transport: Option<Transport>, sessions: u32) -> Option<f64> {
    if !matches!(transport, Some(Transport::Datagram | Transport::Tcp)) {
        return None;
    }
    match sessions {
        ..50_000 => published::number("gist.rtt_ms_below_50000"),
        55_000 => published::number("gist.rtt_ms_55000"),
        60_000 => published::number("gist.rtt_s_60000").map(|seconds| 1e3 * seconds),
        _ => None,
    }
}

fn figure(
    (name, title, up): (&str, &str, Axis),
    scaling: Scaling,
    runs: &[Run],
    ours: impl Fn(&Level) -> Option<Estimate>,
    theirs: impl Fn(Option<Transport>, u32) -> Option<f64>,
) -> Figure {
    let x = |level: &Level| match scaling.is_published() {
        true => f64::from(level.sessions),
        false => scaling.pings_a_second(level.sessions),
    };
    let mut series = Vec::new();
    for run in runs {
        let points = run.levels.iter().filter_map(|level| Some(ours(level)?.at(x(level))));
        series.push(Series::measured(run.name, points));
        if scaling.is_published() {
            let then = run.levels.iter().filter_map(|level| {
                let value = theirs(run.transport, level.sessions)?;
                Some(Estimate::exact(value).at(x(level)))
            });
            series.push(Series::published(run.name, then));
        }
    }
    series.retain(|one| !one.points.is_empty());
    let across = match scaling.is_published() {
        true => Axis::linear("sessions"),
        false => Axis::linear("pings a second, of fewer sessions than published"),
    };
    let (name, title) = (name.to_owned(), title.to_owned());
    Figure { name, title, across, up, kind: Kind::Dots, series }
}

fn processor(scaling: Scaling, runs: &[Run]) -> Figure {
    let what = (
        "gist-processor",
        "Sessions and processor time (Figure 8)",
        Axis::linear("% of a processor"),
    );
    figure(what, scaling, runs, percent, published_percent)
}

fn round_trips(scaling: Scaling, runs: &[Run]) -> Figure {
    let what = ("gist-round-trips", "Sessions and round trips (Figure 10)", Axis::linear("ms"));
    figure(what, scaling, runs, round_trip, published_round_trip)
}

fn at(run: &Run, scaling: Scaling, published: u32) -> Option<&Level> {
    run.levels.iter().find(|level| level.sessions == scaling.sessions(published))
}

fn give_processor(section: &mut Section, scaling: Scaling, runs: &[Run]) {
    let note = scaling.note();
    scaling.admits(section, "gist.processor");
    for run in runs {
        for level in run.levels.iter().filter(|_| scaling.is_published()) {
            let key = format!("gist.processor.{}.{}", key_part(run.name), level.sessions);
            section.measure(Basis::Measured, key, "% of a processor", percent(level));
        }
        let Some(share) = at(run, scaling, TOP).and_then(percent) else { continue };
        let keys: &[&str] = match run.transport {
            // The one version here is compared with both published ones.
            Some(Transport::Datagram) => &["gist_d", "gist_0_5_2_d"],
            Some(Transport::Tcp) => &["gist_c"],
            Some(Transport::Tls) => &[],
            None => &["kom_rsvp"],
        };
        for key in keys {
            let key = format!("gist.cpu_pct_60000.{key}");
            if scaling.admits(section, &key) {
                section.entries(key, "% of a processor", [share.clone()], &*note);
            }
        }
    }
}

fn give_round_trips(section: &mut Section, scaling: Scaling, runs: &[Run]) {
    let Some(run) = runs.iter().find(|run| run.transport == Some(Transport::Datagram)) else {
        return;
    };
    let note = format!("in datagrams, {}", scaling.note());
    for (key, sessions, unit, factor) in [
        ("gist.rtt_ms_below_50000", 45_000, "ms", 1.0),
        ("gist.rtt_ms_55000", 55_000, "ms", 1.0),
        ("gist.rtt_s_60000", 60_000, "s", 1e-3),
    ] {
        let Some(time) = at(run, scaling, sessions).and_then(round_trip) else { continue };
        if scaling.admits(section, key) {
            section.entries(key, unit, [time.times(factor)], &*note);
        }
    }
    if !scaling.admits(section, "gist.sessions_effective") {
        return;
    }
    let effective = (0..).map_while(|part| effective(run, part));
    if let Some(last) = estimate_of(effective.map(f64::from)) {
        let note = format!(
            "the largest that was tried whose round trips are less than twice those of the smallest; {}",
            scaling.note()
        );
        section.entries("gist.sessions_effective", "sessions", [last], &*note);
    }
}

/// Returns the paper's effective number of sessions, beyond which round-trip times grow steadily: the largest with less
/// than twice the round-trip time of the first level, by one part of the window at each level. `None` if there are
/// fewer parts.
fn effective(run: &Run, part: usize) -> Option<u32> {
    let time = |level: &Level| level.round_trips.get(part).map(|times| times.p50_ms);
    let first = run.levels.first().and_then(time)?;
    let is_effective = |level: &&Level| time(level).is_some_and(|time| time < 2.0 * first);
    run.levels.iter().filter(is_effective).map(|level| level.sessions).max()
}

fn give_set_ups(section: &mut Section, scaling: Scaling, runs: &[Run]) {
    /// Number of set-ups in the median that makes one value.
    const BATCH: usize = 10;
    let mut columns = vec!["by", "sessions", "set-ups", "ms"];
    if scaling.is_published() {
        columns.push("published ms");
    }
    let title = "Setting a reservation up over one hop while sessions stand";
    let mut table = Table::new("gist-set-ups", title, &columns);
    let sessions = f64::from(scaling.sessions(SET_UP_AT));
    let key = "gist.setup_ms_ma_reused";
    for run in runs {
        let times = run.levels.iter().flat_map(|level| &level.set_ups_ms);
        let times: Vec<f64> = times.copied().collect();
        let batches = times.chunks_exact(BATCH);
        let medians = batches.filter_map(|batch| Some(Estimate::of(batch)?.median));
        let medians: Vec<f64> = medians.collect();
        let count = times.len();
        let Some(time) = Estimate::of_batches(&medians, count as u64) else { continue };
        let mut row: Vec<Cell> =
            vec![run.name.into(), sessions.into(), (count as f64).into(), (&time).into()];
        if scaling.is_published() {
            row.push(published::value(key).into());
        }
        table.row(row);
        let key_here = format!("gist.set_up.{}", key_part(run.name));
        section.measure(Basis::Measured, key_here, "ms", time.clone());
        if run.transport == Some(Transport::Tcp) {
            let note = "over TCP, one hop, QoS NSLP: from the request to the answer, the handshake of GIST in it; published is a range";
            if scaling.admits(section, key) {
                section.entries(key, "ms", [time], note);
            }
        }
    }
    section.table(table);
}

fn give_held(section: &mut Section, held: &[Held]) {
    let whole = || held.iter().filter(|held| held.back == held.sessions);
    let mut table = Table::new(
        "gist-held",
        "Sessions at the same time, each pinged once, in datagrams",
        &["sessions", "pings that came back", "seconds", "memory octets/session"],
    );
    for Held { sessions, back, seconds, memory_octets } in held {
        let cells = [f64::from(*sessions), f64::from(*back), *seconds, memory_octets.round()];
        table.row(cells.map(Cell::from));
    }
    section.table(table);
    let most = whole().map(|held| held.sessions).max();
    section.measure(
        Basis::Measured,
        "gist.held",
        "sessions",
        most.map(|most| Estimate::exact(most.into())),
    );
    match estimate_of(whole().map(|held| held.memory_octets / 1e3)) {
        Some(memory) => {
            let note = "resident memory of the daemon that came with 60 000 sessions or more, in datagrams; kB are 1 000 octets";
            section.entries("gist.memory_per_session_kb", "kB", [memory], note);
        }
        None => section.leave_out(
            "gist.memory_per_session_kb",
            "not every session of any count that was tried had its ping back",
        ),
    }
}

/// Adds the largest number of sessions that were pinged and refreshed as published, without a lost ping.
fn give_most(section: &mut Section, scaling: Scaling, runs: &[Run]) {
    let key = "gist.sessions_max";
    if !scaling.admits(section, key) {
        return;
    }
    let datagrams = runs.iter().filter(|run| run.transport == Some(Transport::Datagram));
    let whole = datagrams.flat_map(|run| &run.levels).filter(|level| level.lost == 0);
    match whole.map(|level| level.sessions).max() {
        Some(most) => {
            let most = [Estimate::exact(most.into())];
            let note =
                "the most that were tried without a lost ping; where the end is was not looked for";
            section.entries(key, "sessions", most, note);
        }
        None => {
            section.leave_out(key, "pings were lost with every number of sessions that was tried");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::nsis::Times;

    #[test]
    fn sessions_are_effective_until_round_trips_become_long() {
        let level = |sessions, medians: &[f64]| {
            let times = |&p50_ms: &f64| Times { count: 9, p50_ms, ..Times::default() };
            let round_trips = medians.iter().map(times).collect();
            Level { sessions, round_trips, ..Level::default() }
        };
        let levels = vec![level(20, &[1.0, 1.0]), level(45, &[1.2, 2.5]), level(60, &[3.0, 1.0])];
        let run = Run { name: "datagrams", transport: Some(Transport::Datagram), levels };
        let effective: Vec<u32> = (0..).map_while(|part| effective(&run, part)).collect();
        assert_eq!(effective, [45, 60]);
    }
}
