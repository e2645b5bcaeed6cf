//! Section on YESSIR: our results beside the tables of Pan and Schulzrinne.

use super::Measurements;
use super::clock::Tally;
use super::steps::{MANY_ROUTES, RESIDENT, Steps};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Point, Section, Series, Table,
};

const TABLE_2: &str = "pan.table2_flow_build";
const TABLE_3: &str = "pan.table3_yessir";
/// Report interval of senders, seconds: the number of flows of a router is its set-ups a second times this, as in the
/// paper.
const REFRESH_S: f64 = 30.0;

/// Returns the section.
pub(super) fn section(all: &Measurements) -> Section {
    let mut section = Section::default();
    section.text(
        "What a router takes to make a reservation for a flow that it has not seen: YESSIR on FreeBSD and a Pentium of 700 MHz then, \
         the engine of this project in a router without I/O now. Every operation is timed by itself, as theirs were; what reading the \
         clock costs is taken off the means.",
    );
    section.text(format!(
        "{} rounds lie apart in time, between the other parts of the report, each with routers, tables and sockets of its own on a thread \
         of its own; of a million flows fewer \
         routers are made, each of which gives the values of several rounds. A round gives the mean of its operations without the least \
         and the greatest tenth, and their standard deviation without the least and the greatest hundredth, which are those that an \
         interrupt came between; intervals are over rounds.",
        all.plan.rounds
    ));
    if let Some(clock) = Estimate::of(&all.steps.clock_us) {
        section.text(format!(
            "Reading the clock cost {:.1} to {:.1} ns, measured in each round; its own jitter is in the standard deviations of what \
             takes little longer.",
            1e3 * clock.low,
            1e3 * clock.high
        ));
    }
    table_2(&mut section, all);
    table_3(&mut section, &all.steps);
    entries(&mut section, &all.steps);
    capacity(&mut section, all);
    section
}

/// Adds flow build time against flows.
fn table_2(section: &mut Section, all: &Measurements) {
    section.heading("A new flow among those that stand");
    let [mean, sd, flows] =
        ["mean", "sd", "flows"].map(|key| published::numbers(&format!("{TABLE_2}.{key}")));
    let (here, then) = (Environment::of_this_machine().mhz, published::number("pan.cpu_mhz"));
    let mut table = Table::new(
        "yessir-table2",
        "Building a flow (Table 2)",
        &[
            "flows",
            "look-up and creation, us",
            "standard deviation",
            "published us",
            "published standard deviation",
            "cycles",
            "published cycles",
            "the whole message, us",
            "index alone, us",
            "1 537 chains alone, us",
        ],
    );
    for (place, flows) in all.flows.iter().enumerate() {
        let (ours, theirs) = (flows.look_up.mean(), mean.get(place).copied());
        let cycles = ours.as_ref().zip(here).map(|(ours, mhz)| ours.times(mhz));
        table.row([
            f64::from(flows.resident).into(),
            ours.into(),
            flows.look_up.deviation().into(),
            theirs.into(),
            sd.get(place).copied().into(),
            cycles.into(),
            theirs.zip(then).map(|(us, mhz)| us * mhz).into(),
            flows.build.mean().into(),
            flows.keyed.mean().into(),
            flows.chains.mean().into(),
        ]);
    }
    figure_2(section, all, [&flows, &mean, &sd]);
    section.table(table);
    section.text(
        "Timed are the search for a flow, which fails, and its creation, as in the paper; ours arms the flow's timer and counts it at its \
         source, and the paper had its timers shut off. The whole message, from its octets to the one that goes on, with parsing, route and \
         admission, is in a column of its own. With 1 537 chains a search that finds nothing walks a whole chain, which is what made \
         the published times grow from 1 000 flows on; the same table here, beside our index, grows with the length of its chains. An \
         index that grows with its flows does not: what it takes longer among a million is memory.",
    );
    let build = all.flows.iter().take(flows.len()).map(|flows| &flows.look_up);
    let of = |number: fn(&Tally) -> Option<Estimate>| build.clone().filter_map(number);
    let note = "search and creation, with the flow's timer and the limits of its source";
    section.entries(format!("{TABLE_2}.mean"), "us", of(Tally::mean), note);
    section.entries(format!("{TABLE_2}.sd"), "us", of(Tally::deviation), note);
    for flows in &all.flows {
        let of_size = |what: &str| format!("yessir.{what}.{}", flows.resident);
        section.measure(Basis::Measured, of_size("chains"), "us", flows.chains.mean());
        section.measure(Basis::Measured, of_size("look_up"), "us", flows.look_up.mean());
    }
}

/// Adds the same as lines; the published lists are flows, means and standard deviations.
fn figure_2(section: &mut Section, all: &Measurements, [flows, mean, sd]: [&[f64]; 3]) {
    let line = |name: &str, of: &dyn Fn(&super::Flows) -> Option<Estimate>| {
        let points = all.flows.iter();
        let points = points.filter_map(|flows| Some(of(flows)?.at(f64::from(flows.resident))));
        Series::measured(name, points)
    };
    let points = flows.iter().zip(mean).zip(sd).map(|((&x, &y), &sd)| Point {
        x,
        y,
        interval: Some([y - sd, y + sd]),
    });
    let then = Series::published("YESSIR, 700 MHz", points);
    section.figure(Figure {
        name: "yessir-table2".to_owned(),
        title: "Building a flow, against flows that stand".to_owned(),
        across: Axis::logarithmic("flows"),
        up: Axis::logarithmic("us"),
        kind: Kind::Lines,
        series: vec![
            line("Earmark", &|flows| flows.look_up.mean()),
            line("the whole message", &|flows| flows.build.mean()),
            line("its index alone", &|flows| flows.keyed.mean()),
            line("1 537 chains alone, here", &|flows| flows.chains.mean()),
            then,
        ],
    });
}

/// Adds the steps of a request.
fn table_3(section: &mut Section, steps: &Steps) {
    section.heading("The steps of a request");
    let (here, then) = (Environment::of_this_machine().mhz, published::number("pan.cpu_mhz"));
    let columns = [
        "step",
        "us",
        "standard deviation",
        "published us",
        "published standard deviation",
        "cycles",
        "published cycles",
    ];
    let mut table =
        Table::new("yessir-table3", "A signed request for a new flow (Table 3)", &columns);
    let (mut names, mut ours_drawn, mut then_drawn) = (Vec::new(), Vec::new(), Vec::new());
    let mut row = |name: &str, key: &str, [ours, deviation]: [Option<Estimate>; 2]| {
        let key = format!("{TABLE_3}.{key}");
        let pair = published::numbers(&key);
        let theirs = pair.first().copied().or_else(|| published::number(&key));
        let cycles = ours.as_ref().zip(here).map(|(ours, mhz)| ours.times(mhz));
        if let Some(then) = published::value(&key) {
            let place = names.len() as f64;
            names.push(name.to_owned());
            ours_drawn.extend(ours.as_ref().map(|ours| ours.at(place)));
            then_drawn.push(then.at(place));
        }
        table.row([
            name.into(),
            ours.into(),
            deviation.into(),
            theirs.into(),
            pair.get(1).copied().into(),
            cycles.into(),
            theirs.zip(then).map(|(us, mhz)| us * mhz).into(),
        ]);
    };
    let of = |tally: &Tally| [tally.mean(), tally.deviation()];
    row("message integrity", "message_integrity", of(&steps.integrity));
    row("flow look-up and creation", "flow_lookup_creation", of(&steps.look_up));
    row("likewise, the index alone", "", of(&steps.look_up_alone));
    row("route look-up", "route_lookup", of(&steps.route));
    row(&format!("likewise, {MANY_ROUTES} routes"), "", of(&steps.route_of_many));
    row("admission control", "admission_control", of(&steps.admission));
    row("the rest: parsing, timer, what goes on", "", [steps.rest(), None]);
    row("user space, all", "user_space_total", of(&steps.total));
    row("recv and sendto alone", "", of(&steps.system_calls));
    row("recv, user space, sendto", "", of(&steps.through));
    section.figure(Figure {
        name: "yessir-table3".to_owned(),
        title: "The steps of a request for a new flow (Table 3)".to_owned(),
        across: Axis::named("step", &names),
        up: Axis::linear("us"),
        kind: Kind::Bars,
        series: vec![
            Series::measured("Earmark", ours_drawn),
            Series::published("YESSIR, 700 MHz", then_drawn),
        ],
    });
    section.table(table);
    section.text(format!(
        "{RESIDENT} flows stand. Look-up and creation, with the flow's timer and the limits of its source, and admission, a claim in the \
         ledger and its place on the link, are steps that the engine itself marks. Integrity is HMAC-SHA-256 over stream and request (what \
         the paper's check was it does not tell), and routes are the two that the router has: these are timed apart, as the index \
         alone is. User space is the router with the whole signed request, without marks, and the rest is the difference. The \
         dearest step then was the route; here the daemon keeps a copy of the kernel's table and looks there. Now the check of \
         the digest is the dearest of the named ones. The messages of the last two rows go over UDP sockets of the loopback interface, \
         one at a time, and the kernel's part of that is more than all of ours. The published 97.8 us reach from driver to driver; their \
         counterpart is checkpoint 1 of YESSIR among the messages of the first part, through a daemon between two interfaces."
    ));
}

/// Adds the published steps, with notes about differences.
fn entries(section: &mut Section, steps: &Steps) {
    let pairs = [
        ("message_integrity", &steps.integrity, "HMAC-SHA-256, cut to 16 octets"),
        (
            "flow_lookup_creation",
            &steps.look_up,
            "with the flow's timer and the limits of its source, without its reservation",
        ),
        ("route_lookup", &steps.route, "in the daemon's copy of the table, two routes"),
        ("admission_control", &steps.admission, "a claim in the ledger, and its place on the link"),
    ];
    for (key, tally, note) in pairs {
        let values = tally.mean().into_iter().chain(tally.deviation());
        section.entries(format!("{TABLE_3}.{key}"), "us", values, note);
    }
    section.leave_out(
        format!("{TABLE_3}.kernel_io"),
        "the part on messages measures it, from interface to interface",
    );
    section.measure(Basis::Measured, "yessir.through", "us", steps.through.mean());
    section.measure(Basis::Measured, "yessir.system_calls", "us", steps.system_calls.mean());
    let values = steps.total.mean();
    let note = "a signed request, from its octets to the one that goes on";
    section.entries(format!("{TABLE_3}.user_space_total"), "us", values, note);
}

/// Adds set-ups a second and flows.
fn capacity(section: &mut Section, all: &Measurements) {
    section.heading("How many flows");
    let through = &all.steps.through;
    let rates = through.means().filter(|&us| us > 0.0).map(|us| 1e6 / us);
    let Some(rate) = through.estimate(rates) else { return };
    let memory = Environment::of_this_machine().memory as f64;
    let largest = all.flows.iter().max_by_key(|flows| flows.resident);
    let most = largest.and_then(|flows| flows.octets).map(|octets| memory / octets);
    let by_processor = rate.times(REFRESH_S);
    // The lower limit applies.
    let active = match most {
        Some(most) if most < by_processor.median => Estimate::exact(most),
        _ => by_processor.clone(),
    };
    let mut table =
        Table::new("yessir-capacity", "Flows of one router", &["what", "value", "published"]);
    let published = |key: &str| published::number(&format!("{TABLE_3}.{key}"));
    table.row([
        "flow set-ups a second".into(),
        (&rate).into(),
        published("flow_setups_per_s").into(),
    ]);
    table.row(["active flows".into(), (&active).into(), published("active_flows").into()]);
    if let Some(flows) = largest {
        table.row(["flows that stood".into(), f64::from(flows.resident).into(), Cell::Nothing]);
        table.row(["octets a flow".into(), flows.octets.into(), Cell::Nothing]);
        table.row(["flows that memory has room for".into(), most.into(), Cell::Nothing]);
    }
    section.table(table);
    section.text(
        "Set-ups a second are those of one processor that receives, treats and sends one request after the other, as in the last row \
         of the table above. Active flows are counted as in the paper: at a report every 30 s there are 30 times as many flows as \
         messages in a second, each as dear as a set-up (a refresh is less), as long as memory has room for them. So many stood in \
         this run, in one router, as the table tells.",
    );
    section.entries_by(
        Basis::Derived,
        format!("{TABLE_3}.flow_setups_per_s"),
        "1/s",
        vec![rate],
        "one over the time of a signed request over UDP sockets of the loopback interface, as the paper's is of its 98 us",
    );
    section.entries_by(
        Basis::Derived,
        format!("{TABLE_3}.active_flows"),
        "flows",
        vec![active],
        "30 s of set-ups, as the paper counts, or what memory has room for",
    );
}
