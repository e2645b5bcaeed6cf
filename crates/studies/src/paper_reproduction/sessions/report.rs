//! Section on sessions: cost of a session by each of the measures, beside the results of the Budapest paper.

use super::load::{BATCH, Costs};
use super::measurements::{Measurements, SECONDS};
use super::regression::slope_over;
use super::table9::{self, FEW, TABLE_9};
use crate::bench::router::{Message, Protocol};
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Point, Section, Series, Table, key_part, parts,
};

const TIMERS: &str = "isi_timer_management_per_session_per_second";

/// Returns the section.
pub(super) fn section(all: &Measurements, rounds: u32) -> Section {
    let mut section = Section::default();
    let largest = all.loads.iter().map(|load| load.sessions).max().unwrap_or(0);
    section.text(format!(
        "How much longer a router takes over a message for each session that it holds. One router without I/O holds 1 to {largest} \
         sessions of one protocol, each refreshed every 30 s; {BATCH} more are set up on top of them, refreshed and released, message \
         by message, again and again in {rounds} seconds of the sessions' time, of which {SECONDS} at a time have routers and \
         structures of their own. New sessions meet tables that are as cold as that \
         many sessions make them, and refreshes are about sessions far from each other."
    ));
    table9::report(&mut section, all);
    messages(&mut section, all);
    lookups(&mut section, all);
    timers(&mut section, all);
    section
}

/// Adds the time of each message against the number of sessions.
fn messages(section: &mut Section, all: &Measurements) {
    section.heading("Messages against sessions");
    section.text(
        "Refreshes are about sessions that nobody has looked at for a while, so that what is known of them comes from memory: they \
         show most of what many sessions cost. Of a new session the first message does the same to the tables; those that follow \
         it find in the caches what it has left there. Where only one session stands, its refresh is timed alone, with the \
         clock's own part in it.",
    );
    let sizes = sizes(all.loads.iter().map(|load| load.sessions));
    let mut columns = vec!["protocol".to_owned(), "message".to_owned()];
    columns.extend(sizes.iter().map(|sessions| format!("{sessions} sessions, us")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("sessions-messages", "Microseconds of a message", &columns);
    for protocol in Protocol::RESERVING {
        let mut lines = Vec::new();
        for message in protocol.messages_of_both_ends() {
            let values = of_sizes(all, protocol, &message);
            let mut row = vec![Cell::from(protocol.name()), message.name.into()];
            row.extend(values.iter().map(|(_, value)| Cell::from(value)));
            let few = values.iter().find(|(sessions, _)| *sessions == 1_000.0);
            for (sessions, value) in [("1000", few), ("most", values.last())] {
                let [protocol, message] = [protocol.name(), message.name].map(key_part);
                let key = format!("sessions.{protocol}.{message}.{sessions}");
                section.measure(Basis::Measured, key, "us", value.map(|(_, value)| value.clone()));
            }
            table.row(row);
            lines.push(Series::measured(
                message.name,
                values.into_iter().map(|(x, value)| value.at(x)),
            ));
        }
        section.figure(Figure {
            name: format!("sessions-{}", protocol.name().to_lowercase()),
            title: format!("{}: processing time against resident sessions", protocol.name()),
            across: Axis::logarithmic("resident sessions"),
            up: Axis::linear("us"),
            kind: Kind::Lines,
            series: lines,
        });
    }
    section.table(table);
}

fn of_sizes(all: &Measurements, protocol: Protocol, message: &Message) -> Vec<(f64, Estimate)> {
    let loads = all.loads.iter().filter(|load| load.protocol == protocol);
    let value = |load: &Costs| {
        let kind = load.kinds.iter().find(|kind| kind.message.name == message.name)?;
        Some((f64::from(load.sessions), Estimate::over_time(&kind.times)?))
    };
    loads.filter_map(value).collect()
}

/// Adds look-ups, as in Figure 5.
fn lookups(section: &mut Section, all: &Measurements) {
    section.heading("Finding a session");
    section.text(
        "Look-ups of sessions that are there and far from each other, 16 to a destination, in our index and in the tables of earlier \
         implementations, written anew as their papers describe them; every block takes one line of a cache. The Budapest paper \
         could not see its look-ups grow (Figure 5) in the range that it looked at. A table with a fixed number of chains does \
         grow with its sessions, in the end by a memory access for each session of a chain; GIST's first hash fills no more than \
         4 081 chains, however large its table is.",
    );
    let sizes = sizes(all.lookups.iter().map(|lookups| lookups.sessions));
    let mut columns = vec!["structure".to_owned()];
    columns.extend(sizes.iter().map(|sessions| format!("{sessions} sessions, ns")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("sessions-lookups", "Nanoseconds of a look-up", &columns);
    let mut lines = Vec::new();
    for name in names(all.lookups.iter().map(|lookups| lookups.name)) {
        let of_name = all.lookups.iter().filter(|lookups| lookups.name == name);
        let values: Vec<(f64, Estimate)> = of_name
            .filter_map(|one| Some((f64::from(one.sessions), Estimate::over_time(&one.times)?)))
            .collect();
        let mut row = vec![Cell::from(name)];
        row.extend(values.iter().map(|(_, value)| Cell::from(value)));
        table.row(row);
        lines.push(Series::measured(name, values.into_iter().map(|(x, value)| value.at(x))));
    }
    section.figure(Figure {
        name: "sessions-lookups".to_owned(),
        title: "Finding a session".to_owned(),
        across: Axis::logarithmic("resident sessions"),
        up: Axis::logarithmic("ns"),
        kind: Kind::Lines,
        series: lines,
    });
    section.table(table);
}

/// Adds soft state, as in Figure 6.
fn timers(section: &mut Section, all: &Measurements) {
    section.heading("Keeping soft state");
    section.text(
        "What a second costs that nothing happens in but time. First the structures alone: each session has a timer that fires every \
         30 s and one that begins again every 30 s, and a list is walked, or buckets are looked at, once a second. Then the whole \
         router, refreshes that it composes included. ISI RSVP's timers were in one list, and each session cost 10 us a second, one \
         thousandth of a per cent of its processor. In every 30 s a Path and a Resv are refreshed, too, which by the paper's own \
         steps is most of that: so our counterpart is the whole router's upkeep, and the structure alone stands beside it. A list \
         costs what its length is, the more so when memory has scattered it; buckets are cheapest, as a whole second of timers \
         fires from one list. Both are up to a second late, and all that they have to do comes at once; the wheel and the heap fire \
         at the millisecond, and wake up that often. As all sessions of a router came within 30 s, what a router does with them once in a \
         lifetime comes in bursts: a second is the mean of eight parts of the time, and its interval their range. Boomerang and YESSIR send nothing of their own: their routers have next to no upkeep, whatever they hold.",
    );
    let mut table = Table::new(
        "sessions-timers",
        "Keeping soft state for a second",
        &["what", "sessions", "us a second", "us a second, each session", "published us"],
    );
    let key = format!("{TABLE_9}.{TIMERS}");
    let published = published::number(&key);
    let mut lines = Vec::new();
    for name in names(all.timer_costs.iter().map(|cost| cost.name)) {
        let of_name = all.timer_costs.iter().filter(|cost| cost.name == name);
        let values = of_name.map(|cost| (f64::from(cost.sessions), cost.times.as_slice()));
        let then = published.filter(|_| name.starts_with("ISI"));
        let (_, line) = rows(&mut table, name, &values.collect::<Vec<_>>(), then);
        lines.push(line);
    }
    for protocol in Protocol::RESERVING {
        let of_protocol = all.loads.iter().filter(|load| load.protocol == protocol);
        let values =
            of_protocol.map(|load| (f64::from(load.sessions), load.maintenance.as_slice()));
        let name = format!("whole router: {}", protocol.name());
        let then = published.filter(|_| protocol == Protocol::Rsvp);
        let values = values.collect::<Vec<_>>();
        let upkeep = values.last().and_then(|(_, times)| mean_over_time(times));
        let measured = format!("sessions.{}.upkeep.most", key_part(protocol.name()));
        section.measure(Basis::Measured, measured, "us a second", upkeep);
        let (slope, line) = rows(&mut table, &name, &values, then);
        lines.push(line);
        if let Some(slope) = slope.filter(|_| protocol == Protocol::Rsvp) {
            let note = "the whole router's upkeep, refreshes that it composes included";
            section.entries(key.as_str(), "us per session and second", [slope], note);
        }
    }
    if let Some(us) = published {
        let at = |sessions: u32| Point {
            x: f64::from(sessions),
            y: us * f64::from(sessions),
            interval: None,
        };
        let sizes = sizes(all.loads.iter().map(|load| load.sessions)).into_iter();
        let points = sizes.filter(|&sessions| sessions <= FEW).map(at);
        lines.push(Series::published("ISI RSVP, 400 MHz", points));
    }
    section.figure(Figure {
        name: "sessions-timers".to_owned(),
        title: "Keeping soft state: time in every second".to_owned(),
        across: Axis::logarithmic("resident sessions"),
        up: Axis::logarithmic("us a second (10 000: one per cent)"),
        kind: Kind::Lines,
        series: lines,
    });
    section.table(table);
}

/// Summarizes work that comes in bursts by the means of parts in time; the interval is their range.
fn mean_over_time(times: &[f64]) -> Option<Estimate> {
    let parts = parts(times);
    let median = parts.iter().sum::<f64>() / parts.len() as f64;
    Some(Estimate { median, ..Estimate::over_time(times)? })
}

/// Adds rows of the values at each size, with the slope in the last one; returns the slope, and the line of the
/// figure. A time of zero, if no timer was due, is left out of the figure because of its logarithmic axis.
fn rows(
    table: &mut Table,
    name: &str,
    measured: &[(f64, &[f64])],
    published: Option<f64>,
) -> (Option<Estimate>, Series) {
    let slope = slope_over(measured.iter().copied());
    let mut points = Vec::new();
    for (place, &(sessions, times)) in measured.iter().enumerate() {
        let is_last = place + 1 == measured.len();
        let value = mean_over_time(times);
        table.row([
            name.into(),
            sessions.into(),
            value.clone().into(),
            slope.clone().filter(|_| is_last).into(),
            published.filter(|_| is_last).into(),
        ]);
        points.extend(value.map(|value| value.at(sessions)));
    }
    points.retain(|point| point.y > 0.0);
    (slope, Series::measured(name, points))
}

/// Returns the sizes without duplicates.
fn sizes(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut sizes: Vec<u32> = all.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the names without duplicates, in order of first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
