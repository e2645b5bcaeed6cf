//! Outcomes as tables: one for each kind of row, joined by the seed and the number of the flow in its run, from 0.
//!
//! The CSV files of `earmark-lab simulate` and the data frames of the Python package have these columns. The name of a
//! column ends with its unit if that is `s` or `bit/s`.

use crate::outcome::{FlowOutcome, Outcome};

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// Columns.
    pub columns: &'static [Column],
    visit: for<'a> fn(&'a [Outcome], &mut RowVisitor<'_, 'a>),
}

/// Function that is called with the cells of each row.
type RowVisitor<'v, 'a> = dyn FnMut(&[Cell<'a>]) + 'v;

impl Table {
    /// Calls a function with the cells of each row, in the order of the columns.
    pub fn rows<'a>(&self, outcomes: &'a [Outcome], mut row: impl FnMut(&[Cell<'a>])) {
        (self.visit)(outcomes, &mut row);
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Unit: `s`, `bit/s`, `packet`, `octet`, or none.
    pub unit: Option<&'static str>,
    /// Meaning, in one phrase.
    pub meaning: &'static str,
}

/// Kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number from 0.
    Integer,
    /// A number.
    Number,
    /// A truth value.
    Flag,
}

/// Value in a row; any column may be empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Text.
    Text(&'a str),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A truth value.
    Flag(bool),
    /// No value.
    Empty,
}

/// All tables.
pub const TABLES: [Table; 4] = [
    Table { name: "runs", columns: RUNS, visit: runs },
    Table { name: "flows", columns: FLOWS, visit: flows },
    Table { name: "attempts", columns: ATTEMPTS, visit: attempts },
    Table { name: "rates", columns: RATES, visit: rates },
];

const fn column(
    name: &'static str,
    kind: Kind,
    unit: Option<&'static str>,
    meaning: &'static str,
) -> Column {
    Column { name, kind, unit, meaning }
}

const S: Option<&str> = Some("s");
const PACKET: Option<&str> = Some("packet");
const OCTET: Option<&str> = Some("octet");
const BIT_S: Option<&str> = Some("bit/s");

const SEED: Column = column("seed", Kind::Integer, None, "seed of the run");
const FLOW: Column = column("flow", Kind::Integer, None, "number of the watched flow in its run");

const RUNS: &[Column] = &[
    column("scenario", Kind::Text, None, "name of the scenario"),
    SEED,
    column("events", Kind::Integer, None, "events of the simulator"),
    column("attempts", Kind::Integer, None, "attempts to reserve on links of routers"),
    column("retries", Kind::Integer, None, "attempts that were not the first at the router"),
    column("refused_retries", Kind::Integer, None, "retries that were refused"),
    column("served", Kind::Number, None, "share of the time with a complete reservation"),
    column("fragmented", Kind::Number, None, "share of the reserved bandwidth reserved in vain"),
    column("wanted", Kind::Integer, None, "reservations requested"),
    column("completed", Kind::Integer, None, "reservations completed"),
    column("wait_quartile_s", Kind::Number, S, "lower quartile of the time until completion"),
    column("wait_median_s", Kind::Number, S, "median of the time until completion"),
    column("wait_upper_quartile_s", Kind::Number, S, "upper quartile of the time until completion"),
    column(
        "interruptions",
        Kind::Integer,
        None,
        "complete reservations that ceased to be complete",
    ),
    column("recoveries", Kind::Integer, None, "interrupted reservations that were complete again"),
    column(
        "recovery_median_s",
        Kind::Number,
        S,
        "median of the time until they were complete again",
    ),
    column("signalling_packets", Kind::Integer, PACKET, "signalling on all links"),
    column("signalling_octets", Kind::Integer, OCTET, "signalling on all links, with IP headers"),
];

fn runs<'a>(outcomes: &'a [Outcome], row: &mut RowVisitor<'_, 'a>) {
    for run in outcomes {
        let [quartile, median, upper_quartile] = match run.waits {
            Some(waits) => waits.map(Cell::Number),
            None => [Cell::Empty; 3],
        };
        row(&[
            Cell::Text(&run.scenario),
            Cell::Integer(run.seed),
            Cell::Integer(run.events),
            Cell::Integer(run.attempts),
            Cell::Integer(run.retries),
            Cell::Integer(run.refused_retries),
            Cell::Number(run.served),
            Cell::Number(run.fragmented),
            Cell::Integer(run.wanted),
            Cell::Integer(run.completed),
            quartile,
            median,
            upper_quartile,
            Cell::Integer(run.interruptions),
            Cell::Integer(run.recoveries),
            run.recovery_times.map_or(Cell::Empty, |[_, median, _]| Cell::Number(median)),
            Cell::Integer(run.signalling.packets),
            Cell::Integer(run.signalling.octets),
        ]);
    }
}

const FLOWS: &[Column] = &[
    SEED,
    FLOW,
    column("flows", Kind::Text, None, "name of the group of flows"),
    column("from", Kind::Text, None, "source node"),
    column("to", Kind::Text, None, "destination node"),
    column("reserves_s", Kind::Number, S, "time of the reservation request"),
    column("completed_after_s", Kind::Number, S, "time from the request to the first completion"),
    column("retries", Kind::Integer, None, "attempts at a node after the first there"),
    column("outcome", Kind::Text, None, "last outcome that an application of the flow was told"),
    column("sent", Kind::Integer, PACKET, "packets sent"),
    column("arrived", Kind::Integer, PACKET, "packets received"),
    column("lost", Kind::Integer, PACKET, "packets dropped"),
    column("delay_mean_s", Kind::Number, S, "mean one-way delay"),
    column("delay_p50_s", Kind::Number, S, "median one-way delay"),
    column("delay_p99_s", Kind::Number, S, "99th percentile of the one-way delay"),
    column("delay_max_s", Kind::Number, S, "maximum one-way delay"),
    column("jitter_s", Kind::Number, S, "interarrival jitter (RFC 3550 section 6.4.1)"),
    column("ipdv_s", Kind::Number, S, "mean absolute delay variation (RFC 3393)"),
];

fn flows<'a>(outcomes: &'a [Outcome], row: &mut RowVisitor<'_, 'a>) {
    let number = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Number);
    for (seed, place, flow) in watched(outcomes) {
        let (received, delay) = (&flow.received, flow.received.delay);
        let outcome = flow.reports.last().map(|report| report.outcome.kind.name());
        row(&[
            seed,
            place,
            Cell::Text(&flow.flows),
            Cell::Text(&flow.from),
            Cell::Text(&flow.to),
            number(flow.reserves),
            number(flow.completed_after),
            Cell::Integer(flow.retries),
            outcome.map_or(Cell::Empty, Cell::Text),
            Cell::Integer(received.sent),
            Cell::Integer(received.arrived),
            Cell::Integer(received.lost),
            number(delay.map(|delay| delay.mean)),
            number(delay.map(|delay| delay.p50)),
            number(delay.map(|delay| delay.p99)),
            number(delay.map(|delay| delay.max)),
            number(delay.map(|delay| delay.jitter)),
            number(delay.map(|delay| delay.ipdv)),
        ]);
    }
}

const ATTEMPTS: &[Column] = &[
    SEED,
    FLOW,
    column("at_s", Kind::Number, S, "time of the attempt"),
    column("node", Kind::Text, None, "node"),
    column("granted", Kind::Flag, None, "whether the attempt was granted"),
    column("available_bit_s", Kind::Integer, BIT_S, "rate that was available, if refused"),
];

fn attempts<'a>(outcomes: &'a [Outcome], row: &mut RowVisitor<'_, 'a>) {
    for (seed, place, flow) in watched(outcomes) {
        for attempt in &flow.attempts {
            row(&[
                seed,
                place,
                Cell::Number(attempt.at),
                Cell::Text(&attempt.node),
                Cell::Flag(attempt.granted),
                attempt.available.map_or(Cell::Empty, Cell::Integer),
            ]);
        }
    }
}

const RATES: &[Column] = &[
    SEED,
    FLOW,
    column("at_s", Kind::Integer, S, "begin of the second"),
    column("rate_bit_s", Kind::Integer, BIT_S, "received rate in this second"),
];

fn rates<'a>(outcomes: &'a [Outcome], row: &mut RowVisitor<'_, 'a>) {
    for (seed, place, flow) in watched(outcomes) {
        for (second, rate) in (0..).zip(&flow.received.rates) {
            row(&[seed, place, Cell::Integer(second), Cell::Integer(*rate)]);
        }
    }
}

/// Returns all watched flows, with the seeds of their runs and their numbers in these.
fn watched(
    outcomes: &[Outcome],
) -> impl Iterator<Item = (Cell<'static>, Cell<'static>, &FlowOutcome)> {
    outcomes.iter().flat_map(|outcome| {
        let flows = (0..).zip(&outcome.watched);
        flows.map(|(place, flow)| (Cell::Integer(outcome.seed), Cell::Integer(place), flow))
    })
}
