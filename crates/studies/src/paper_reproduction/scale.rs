//! Signalling capacity of one router: the largest burst, and the largest rate, without a loss, by the methodology of
//! RFC 4883's authors, for each protocol, on one processor and on two.

use std::time::Duration;

use anyhow::{Context, Result};

use super::PartOptions;
use super::environment::Environment;
use super::section::{Axis, Basis, Cell, Estimate, Figure, Kind, Section, Series, Table};
use crate::bench::Supervision;
use crate::bench::rates::line::Processors;
use crate::bench::rates::{self, Held, Plan, Rates};
use crate::bench::router::Protocol;
use crate::bench::search::Search;

/// Largest burst that is tried, set-ups.
const LARGEST_BURST: u32 = 128_000;
/// Largest number of resident sessions that is tried.
const MAX_SESSIONS: u32 = 256_000;

/// Measures within the capacity of this machine.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    if let Some(obstacle) = &order.obstacle {
        section
            .text(format!("Not measured here: {obstacle}. As root the same command measures it."));
        return Ok(section);
    }
    let steady_state = (!order.quick).then(|| steady_state(supervision)).transpose()?;
    let mut all = Vec::new();
    for protocol in Protocol::RESERVING {
        let plans: Vec<_> =
            Processors::available().into_iter().map(|one| plan(order, one)).collect();
        let measured = rates::measure(protocol, &plans, supervision);
        all.extend(measured.with_context(|| format!("rates of {}", protocol.name()))?);
    }
    all.sort_by_key(|rates| rates.processors == Processors::One);
    report(&mut section, order);
    section.figure(figure(&all));
    section.table(rates_table(&all));
    section.text(
        "Where the daemon's share of its processor is well below 100 %, the ends came to their limit first. What the daemon could do with \
         a processor of its own, by the time that it takes for a pair, is in a column of its own; that was not offered. No published figure stands beside these: the papers timed \
         single messages, and did not look for the largest rate.",
    );
    for rates in &all {
        let name = rates.protocol.name().to_lowercase();
        let key = format!("scale.{name}.pairs_a_second.{}", rates.processors.name());
        section.measure(Basis::Measured, key, "1/s", each(rates, |held| held.rate));
    }
    section.table(costs_table(&all));
    section.table(bursts_table(&all));
    match steady_state {
        Some(table) => section.table(table),
        None => {
            section.text("How many sessions can be refreshed is looked for by the full report.");
        }
    }
    Ok(section)
}

fn plan(order: &PartOptions, processors: Processors) -> Plan {
    let is_alone = processors == Processors::Two;
    let rates = Search { first: 8_000, last: 256_000, step: 100, halvings: 3 };
    let bursts = Search { first: 8_000, last: LARGEST_BURST, step: 1_000, halvings: 2 };
    if order.quick {
        let bursts = Search { last: 16_000, halvings: 1, ..bursts };
        return Plan {
            processors,
            bursts: is_alone.then_some(bursts),
            rates,
            window: Duration::from_millis(200),
            held: Duration::from_millis(500),
            repetitions: 1,
            sustained: None,
        };
    }
    Plan {
        processors,
        bursts: is_alone.then_some(bursts),
        rates,
        window: Duration::from_millis(500),
        held: Duration::from_secs(2),
        repetitions: if is_alone { 3 } else { 1 },
        sustained: Some(Duration::from_secs(60)),
    }
}

fn report(section: &mut Section, order: &PartOptions) {
    let Plan { held, sustained, .. } = plan(order, Processors::Two);
    let sustained = match sustained {
        Some(sustained) => format!(
            "; in the end the lowest of those that did, or a fifth less as long as that did not, had to hold for {:.0} s",
            sustained.as_secs_f64()
        ),
        None => " (the full report has it hold for a minute, once)".to_owned(),
    };
    section.text(format!(
        "A sender, one router that is a daemon, and a destination, in network namespaces. Set-ups and releases go in pairs, a release a \
         tenth to half of a second after its set-up, so that the number of sessions stays the same; the methodology of RFC 4883's authors asks for \
         that. A load goes through if every message was answered, or came to the destination, no buffer ran over, and nothing of a rate waited \
         for more than 50 ms after its end, nor needed more than all the time of a processor. Rates are doubled until one does not go through, then halved in; the largest had to hold for \
         {:.1} s{sustained}. That methodology asks for a minute, in 30 runs. On two processors the daemon has one of its own, and both ends \
         share the other; on one, all of them share it, so that the ends' work is in the rate. What the sender says was written beforehand. \
         Memory of sockets is as the daemon sets it.",
        held.as_secs_f64()
    ));
    section.text(
        "A set-up is a Path and the Resv that answers it with RSVP, a request and its echo with Boomerang, and one report with YESSIR, \
         which nobody answers; a release is a PathTear, a request and its echo, and a BYE. With Boomerang each message passes the \
         router twice, out and back, so that a pair is four passes. With NSIS a set-up is all of it, in datagrams: the handshake of GIST \
         with the sender, that with the destination, the RESERVE, and the RESPONSE that answers it; a release is a RESERVE that tears \
         down. A router gives up routing state with the reservation that it was for, so that there is no set-up without the handshakes. The \
         router takes five datagrams in and sends five. Both ends keep no state: what a node must say back follows from what it hears, and \
         routing state is valid for an hour, so that no handshake is refreshed. A node of GIST answers no more than 50 000 Queries of \
         one neighbour in a second, and sends no more than 200 000 datagrams, five for a pair: what is beyond that is cut by these limits of \
         the daemon, and not by its processor.",
    );
}

/// Summarizes a value of each repetition.
fn each(rates: &Rates, value: impl Fn(&Held) -> f64) -> Option<Estimate> {
    Estimate::of(&rates.held.iter().map(value).collect::<Vec<_>>())
}

fn rates_table(all: &[Rates]) -> Table {
    let columns = [
        "protocol",
        "processors",
        "pairs a second",
        "held for a minute",
        "messages a pair",
        "messages a second",
        "daemon, % of a processor",
        "pairs a second, daemon alone",
    ];
    let title = "The largest rate of set-ups and releases without a loss";
    let mut table = Table::new("scale-rates", title, &columns);
    for rates in all {
        let messages = f64::from(rates.protocol.messages_of_a_pair());
        table.row([
            rates.protocol.name().into(),
            rates.processors.name().into(),
            each(rates, |held| held.rate).into(),
            rates.sustained.map(|held| held.rate).into(),
            messages.into(),
            each(rates, |held| messages * held.rate).into(),
            each(rates, |held| 100.0 * held.processor).into(),
            each(rates, |held| 1e6 / held.pair_us).into(),
        ]);
    }
    table
}

/// Returns the table of a pair's cost for the daemon.
fn costs_table(all: &[Rates]) -> Table {
    let columns = [
        "protocol",
        "processors",
        "us a pair",
        "us a message",
        "thousand cycles a message",
        "thousand cycles a pair",
    ];
    let title = "What a set-up and its release cost the daemon at that rate";
    let mut table = Table::new("scale-costs", title, &columns);
    let mhz = Environment::of_this_machine().mhz;
    for rates in all {
        let messages = f64::from(rates.protocol.messages_of_a_pair());
        let pair_us = each(rates, |held| held.pair_us);
        let cycles = pair_us.as_ref().zip(mhz).map(|(us, mhz)| us.times(mhz / 1e3));
        let of_message = |of_pair: &Option<Estimate>| {
            Cell::from(of_pair.as_ref().map(|of_pair| of_pair.times(1.0 / messages)))
        };
        let [us, thousands] = [of_message(&pair_us), of_message(&cycles)];
        table.row([
            rates.protocol.name().into(),
            rates.processors.name().into(),
            pair_us.into(),
            us,
            thousands,
            cycles.into(),
        ]);
    }
    table
}

fn bursts_table(all: &[Rates]) -> Table {
    let columns = ["protocol", "processors", "set-ups at once", "or more"];
    let title = "The largest burst of set-ups without a loss";
    let mut table = Table::new("scale-bursts", title, &columns);
    for rates in all {
        let Some(burst) = rates.burst else { continue };
        let more = if rates.is_more { "yes: no larger one was tried" } else { "no" };
        table.row([
            rates.protocol.name().into(),
            rates.processors.name().into(),
            f64::from(burst).into(),
            more.into(),
        ]);
    }
    table
}

/// Measures the number of resident sessions.
fn steady_state(supervision: &Supervision<'_>) -> Result<Table> {
    let search = Search { first: 16_000, last: MAX_SESSIONS, step: 1_000, halvings: 1 };
    let columns = ["protocol", "sessions refreshed every second", "as many every 30 s", "or more"];
    let title = format!("Most sessions that all survived a state lifetime, up to {MAX_SESSIONS}");
    let mut table = Table::new("scale-sessions", &title, &columns);
    for protocol in Protocol::RESERVING {
        let most = rates::steady_state(protocol, search, supervision)
            .with_context(|| format!("sessions of {}", protocol.name()))?;
        let more = if most > search.last / 2 { "yes: no larger number was tried" } else { "no" };
        let most = f64::from(most);
        table.row([protocol.name().into(), most.into(), (30.0 * most).into(), more.into()]);
    }
    Ok(table)
}

fn figure(all: &[Rates]) -> Figure {
    let names = Protocol::RESERVING.map(Protocol::name);
    let series = [Processors::Two, Processors::One].into_iter().filter_map(|processors| {
        let of = |protocol| {
            let fits =
                |rates: &&Rates| (rates.protocol, rates.processors) == (protocol, processors);
            each(all.iter().find(fits)?, |held| held.rate)
        };
        let points = Protocol::RESERVING.into_iter().enumerate();
        let points = points.filter_map(|(place, protocol)| Some(of(protocol)?.at(place as f64)));
        let name = format!("{} processor(s)", processors.name());
        let series = Series::measured(name, points);
        (!series.points.is_empty()).then_some(series)
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
    fn missing_namespaces_are_noted() {
        let order = PartOptions { quick: true, obstacle: Some("no root".to_owned()) };
        let section = measure(&order, &Supervision::unwatched()).unwrap();
        assert!(format!("{section:?}").contains("no root"));
    }
}
