//! How much signalling one router takes: the largest burst, and the largest rate, without a loss, by the methodology of RFC 4883's
//! authors, for each protocol, on one processor and on two.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Order;
use super::chapter::{Axis, Cell, Chapter, Estimate, Figure, Kind, Series, Table};
use super::environment::Environment;
use super::published;
use crate::bench::Supervision;
use crate::bench::rates::line::Processors;
use crate::bench::rates::speaker::Protocol;
use crate::bench::rates::{self, Plan, Rates};
use crate::bench::search::Search;

/// Measures what this machine has room for.
pub(super) fn measure(order: &Order, supervision: &Supervision<'_>) -> Result<Chapter> {
    let mut chapter = Chapter::default();
    if let Some(obstacle) = &order.obstacle {
        chapter
            .text(format!("Not measured here: {obstacle}. As root the same command measures it."));
        return Ok(chapter);
    }
    let standing = (!order.quick).then(|| standing(supervision)).transpose()?;
    let mut all = Vec::new();
    for processors in Processors::available() {
        for protocol in Protocol::ALL {
            let plan = plan(order, protocol, processors);
            let measured = rates::measure(&plan, supervision);
            let name = protocol.name();
            all.push(measured.with_context(|| format!("rates of {name}"))?);
        }
    }
    tell(&mut chapter, order, &all);
    chapter.table(rates_table(&all));
    chapter.text(
        "Where the daemon's share of its processor is well below 100 %, the ends came to their limit first. What the daemon could do with \
         a processor of its own, by the time that it takes for a pair, is in a column of its own; that was not offered.",
    );
    chapter.figure(figure(&all));
    chapter.table(bursts_table(&all));
    match standing {
        Some(table) => chapter.table(table),
        None => {
            chapter.text("How many sessions can be refreshed is looked for by the full report.");
        }
    }
    chapter.text(
        "NSIS is not among them: its sender has to take part in a handshake for each session, so that a light one is a node of its own, \
         and would be what is measured beside the router. What NSIS takes is in the chapter on GIST.",
    );
    Ok(chapter)
}

fn plan(order: &Order, protocol: Protocol, processors: Processors) -> Plan {
    let rates = Search { first: 8_000, last: 256_000, step: 100, halvings: 1 };
    if order.quick {
        let bursts = Search { first: 8_000, last: 16_000, step: 1_000, halvings: 1 };
        let is_alone = processors == Processors::Two;
        return Plan {
            protocol,
            processors,
            bursts: is_alone.then_some(bursts),
            rates,
            window: Duration::from_millis(200),
            held: Duration::from_millis(500),
            repetitions: if is_alone { 2 } else { 1 },
            repetitions_of_bursts: 1,
        };
    }
    Plan {
        protocol,
        processors,
        bursts: Some(Search { first: 8_000, last: 128_000, step: 1_000, halvings: 2 }),
        rates: Search { halvings: 2, ..rates },
        window: Duration::from_millis(500),
        held: Duration::from_secs(4),
        repetitions: 3,
        repetitions_of_bursts: 1,
    }
}

fn tell(chapter: &mut Chapter, order: &Order, all: &[Rates]) {
    let held = all
        .first()
        .map_or(0.0, |rates| plan(order, rates.protocol, rates.processors).held.as_secs_f64());
    chapter.text(format!(
        "A sender, one router that is a daemon, and a destination, in network namespaces. Set-ups and releases go in pairs, a release a \
         tenth of a second after its set-up, so that the number of sessions stays the same; the methodology of RFC 4883's authors asks for \
         that. A load goes through if every message was answered, or came to the destination, no buffer ran over, and nothing of a rate waited \
         for more than 50 ms after its end. Rates are doubled \
         until one does not go through, then halved in; the largest had to hold for {held:.1} s (a minute in that methodology, in 30 \
         runs). On two processors the daemon has one of its own, and both ends share the other; on one, all of them share it, so that the \
         ends' work is in the rate. Memory of sockets is as the daemon sets it.",
    ));
    chapter.text(
        "A set-up is a Path and the Resv that answers it with RSVP, a request and its echo with Boomerang, and one report with YESSIR, \
         which nobody answers; a release is a PathTear, a request and its echo, and a BYE. With Boomerang each message passes the \
         router twice, out and back, so that a pair is four passes. Time is that of the daemon's process, with what the kernel does for it. \
         Cycles beside it are the paper's, its microseconds by the MHz of then: of Path, Resv and PathTear of the ISI daemon, a process as \
         well; and of one pass each of a reservation and a tear of Boomerang, which lived in the kernel there. Both are from one network \
         interface to the other.",
    );
}

/// What was published of a pair, thousand cycles, from interface to interface; `None` where that was not measured.
fn published_cycles(protocol: Protocol) -> Option<f64> {
    let parts: &[&str] = match protocol {
        Protocol::Rsvp => {
            &["table1_isi_rsvp.path", "table1_isi_rsvp.resv", "table1_isi_rsvp.path_tear"]
        }
        Protocol::Boomerang => {
            &["table2_boomerang.reservation", "table2_boomerang.reservation_tear"]
        }
        Protocol::Yessir => return None,
    };
    let micros = parts.iter().map(|part| published::number(&format!("budapest.{part}.cp1_median")));
    let sum: Option<f64> = micros.sum();
    Some(sum? * published::number("budapest.cpu_mhz")? / 1e3)
}

/// Set-ups a second that were published.
fn published_rate(protocol: Protocol) -> Option<f64> {
    match protocol {
        Protocol::Yessir => published::number("pan.table3_yessir.flow_setups_per_s"),
        Protocol::Rsvp | Protocol::Boomerang => None,
    }
}

fn rates_table(all: &[Rates]) -> Table {
    let columns = [
        "protocol",
        "processors",
        "pairs a second",
        "published set-ups a second",
        "daemon, % of a processor",
        "daemon, us a pair",
        "pairs a second, daemon alone",
        "thousand cycles a pair",
        "published thousand cycles",
    ];
    let title = "The largest rate of set-ups and releases without a loss";
    let mut table = Table::new("scale-rates", title, &columns);
    let mhz = Environment::of_this_machine().mhz;
    for rates in all {
        let pair_us = Estimate::of(&rates.message_us).map(|us| us.times(2.0));
        table.row([
            rates.protocol.name().into(),
            rates.processors.name().into(),
            Estimate::of(&rates.rates).map(|rate| rate.times(0.5)).into(),
            published_rate(rates.protocol).into(),
            Estimate::of(&rates.processor).map(|share| share.times(100.0)).into(),
            pair_us.into(),
            Estimate::of(&rates.message_us.iter().map(|us| 0.5e6 / us).collect::<Vec<_>>()).into(),
            Cell::from(pair_us.zip(mhz).map(|(us, mhz)| us.times(mhz / 1e3))),
            published_cycles(rates.protocol).into(),
        ]);
    }
    table
}

fn bursts_table(all: &[Rates]) -> Table {
    let columns = ["protocol", "processors", "set-ups at once", "or more"];
    let title = "The largest burst of set-ups without a loss";
    let mut table = Table::new("scale-bursts", title, &columns);
    for rates in all.iter().filter(|rates| !rates.bursts.is_empty()) {
        let more = if rates.is_more { "yes: no larger one was tried" } else { "no" };
        table.row([
            rates.protocol.name().into(),
            rates.processors.name().into(),
            Estimate::of(&rates.bursts).into(),
            more.into(),
        ]);
    }
    table
}

/// How many sessions stand.
fn standing(supervision: &Supervision<'_>) -> Result<Table> {
    let search = Search { first: 8_000, last: 64_000, step: 1_000, halvings: 1 };
    let columns = ["protocol", "sessions refreshed every second", "as many every 30 s", "or more"];
    let title = "The most sessions that all stood after a time-out";
    let mut table = Table::new("scale-sessions", title, &columns);
    for protocol in Protocol::ALL {
        let most = rates::standing(protocol, search, supervision)
            .with_context(|| format!("sessions of {}", protocol.name()))?;
        let more = if most > search.last / 2 { "yes: no larger number was tried" } else { "no" };
        let most = f64::from(most);
        table.row([protocol.name().into(), most.into(), (30.0 * most).into(), more.into()]);
    }
    Ok(table)
}

fn figure(all: &[Rates]) -> Figure {
    let names = Protocol::ALL.map(Protocol::name);
    let series = [Processors::Two, Processors::One].into_iter().filter_map(|processors| {
        let of = |protocol| {
            let fits =
                |rates: &&Rates| (rates.protocol, rates.processors) == (protocol, processors);
            let rates = all.iter().find(fits)?;
            Some(Estimate::of(&rates.rates)?.times(0.5))
        };
        let points = Protocol::ALL.into_iter().enumerate();
        let points = points.filter_map(|(place, protocol)| Some(of(protocol)?.at(place as f64)));
        let name = format!("{} processor(s)", processors.name());
        let points: Vec<_> = points.collect();
        (!points.is_empty()).then_some(Series { name, published: false, points })
    });
    Figure {
        name: "scale-rates".to_owned(),
        title: "Pairs of a set-up and a release a second, without a loss".to_owned(),
        across: Axis::named("protocol", &names),
        up: Axis::linear("pairs a second"),
        kind: Kind::Bars,
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_published_where_messages_were_timed() {
        let of = published_cycles;
        let rsvp = of(Protocol::Rsvp).expect("three messages");
        let boomerang = of(Protocol::Boomerang).expect("two messages");
        assert!(rsvp > 10.0 * boomerang, "{rsvp} {boomerang}");
        assert_eq!(of(Protocol::Yessir), None);
        assert!(published_rate(Protocol::Yessir).is_some());
    }

    #[test]
    fn without_namespaces_it_is_left_out_with_a_line() {
        let order = Order { quick: true, obstacle: Some("no root".to_owned()) };
        let interrupted = std::sync::atomic::AtomicBool::new(false);
        let watcher = &crate::bench::Unwatched;
        let chapter = measure(&order, &Supervision { watcher, interrupted: &interrupted }).unwrap();
        assert!(format!("{chapter:?}").contains("no root"));
    }
}
