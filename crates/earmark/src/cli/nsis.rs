//! `earmark ping`, and `earmark reserve` and `listen` with QoS NSLP.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use comfy_table::Cell;
use earmark_core::Rate;
use earmark_core::outcome::Outcome as Reach;
use earmark_node::Event;
use earmark_nsis::{Event as NsisEvent, ping, qos};
use earmark_wire::qos_nslp::Outcome as Answer;
use serde_json::{Value, json};

use super::arguments::{ListenOptions, PingOptions, ReserveOptions, Traffic};
use super::light::wrong_usage;
use super::listings::{new_table, number};
use super::outcome::{Granted, Refusal, Wait, reach_of};
use super::reservations::begun;
use super::{Failure, Outcome, Output};
use crate::client::Client;
use crate::control::protocol::{Establish, Expect, Opened, Ping, Request};
use crate::describe;
use earmark_core::amounts::show_duration;

/// Ends the program: Ping NSLP cannot be chosen as a protocol on the command line.
pub(super) fn reserves_nothing() -> ! {
    wrong_usage("Ping NSLP reserves nothing: `earmark ping` asks by it")
}

/// Longest wait for an answer, longer than the usual settings of the daemon allow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queries which nodes on the path take part, and prints each answer.
pub(super) fn ping(
    client: &mut Client,
    options: &PingOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let milliseconds = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
    let request = Ping {
        count: options.count,
        interval_ms: milliseconds(options.interval),
        timeout_ms: options.timeout.map(milliseconds),
        qos: options.qos,
        reliable: options.reliable,
        secure: options.secure,
        hold: true,
        follow: true,
        ..Ping::new(options.to)
    };
    let opened: Opened = client.call(&Request::Ping(request))?;
    let ours = ping::Application(opened.application);
    let mut round_trips = Vec::new();
    let silence = options.interval + options.timeout.unwrap_or_default() + PATIENCE;
    while let Some(notice) = client.next_event(Some(Instant::now() + silence))? {
        let Event::Nsis(NsisEvent::Ping(event)) = &notice.event else { continue };
        match event {
            ping::Event::Pong { application, sequence, round_trip, nodes, visits }
                if *application == ours =>
            {
                round_trips.push(*round_trip);
                let pong = Pong {
                    options,
                    sequence: *sequence,
                    round_trip: *round_trip,
                    nodes: *nodes,
                    visits,
                };
                out.line(&pong.text(), &pong.json())?;
            }
            ping::Event::Lost { application, sequence, failure } if *application == ours => {
                let why = failure.map(|failure| failure.to_string());
                let text = why.clone().map_or("no answer in time".to_owned(), |why| why);
                let json = json!({ "outcome": "lost", "sequence": sequence, "reason": why });
                out.line(&format!("{sequence}: {text}"), &json)?;
            }
            ping::Event::Finished { application } if *application == ours => break,
            _ => {}
        }
    }
    if options.count > 1 {
        summarize(options.count, &round_trips, out)?;
    }
    Ok(if round_trips.is_empty() { Outcome::TimedOut } else { Outcome::Done })
}

fn summarize(sent: u32, round_trips: &[Duration], out: &mut Output) -> Result<(), Failure> {
    let answered = round_trips.len();
    let mut text = format!("{sent} sent, {answered} came back");
    let mut json = json!({ "outcome": "finished", "sent": sent, "answered": answered });
    if let (Some(least), Some(most)) = (round_trips.iter().min(), round_trips.iter().max()) {
        let mean = round_trips.iter().sum::<Duration>().div_f64(answered as f64);
        let [low, middle, high] = [*least, mean, *most].map(show_duration);
        let _ = write!(text, "; round trip {low} to {high}, {middle} in the mean");
        for (name, span) in [("least_ms", *least), ("mean_ms", mean), ("most_ms", *most)] {
            json[name] = milliseconds(span).into();
        }
    }
    out.line(&text, &json)
}

/// A Ping message that has returned.
struct Pong<'a> {
    options: &'a PingOptions,
    sequence: u32,
    round_trip: Duration,
    nodes: u16,
    visits: &'a [ping::Visit],
}

impl Pong<'_> {
    fn text(&self) -> String {
        let Pong { options, sequence, round_trip, nodes, visits } = self;
        let mut text = String::new();
        if options.count > 1 {
            let _ = write!(text, "{sequence}: ");
        }
        let _ = writeln!(
            text,
            "{nodes} nodes take part on the way to {}; round trip {}",
            options.to,
            show_duration(*round_trip)
        );
        let mut header = vec!["hop", "node", "round trip"];
        if options.qos {
            header.extend(["free there", "free back"]);
        }
        let mut table = new_table(&header);
        let free =
            |rate: Option<Rate>| number(rate.map_or("-".to_owned(), |rate| rate.to_string()));
        for (place, visit) in visits.iter().enumerate() {
            let round_trip = match (place, visit.round_trip) {
                (0, _) => "this host".to_owned(),
                (_, Some(round_trip)) => show_duration(round_trip),
                (_, None) => "-".to_owned(),
            };
            let mut cells = vec![number(place), Cell::new(visit.address), number(round_trip)];
            if options.qos {
                cells.extend([free(visit.forward), free(visit.reverse)]);
            }
            table.add_row(cells);
        }
        let _ = write!(text, "{table}");
        if visits.len() < usize::from(*nodes) {
            let missing = usize::from(*nodes) - visits.len();
            let _ = write!(text, "\n{missing} more found no room in the message");
        }
        text
    }

    fn json(&self) -> Value {
        let visits: Vec<Value> = self
            .visits
            .iter()
            .map(|visit| {
                json!({
                    "address": visit.address,
                    "round_trip_ms": visit.round_trip.map(milliseconds),
                    "forward_bps": visit.forward,
                    "reverse_bps": visit.reverse,
                })
            })
            .collect();
        json!({
            "outcome": "answered",
            "sequence": self.sequence,
            "round_trip_ms": milliseconds(self.round_trip),
            "nodes": self.nodes,
            "visits": visits,
        })
    }
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The request to the daemon.
fn establish(options: &ReserveOptions) -> Establish {
    let rate = options.rate.expect("it was checked that there is one");
    let (traffic, of) = (&options.traffic, &options.nsis_options);
    Establish {
        from: traffic.from,
        flow_label: traffic.flow_label,
        ip_protocol: traffic.ip_protocol,
        minimum_bps: of.at_least,
        burst_octets: traffic.burst,
        peak_bps: traffic.peak,
        max_packet: traffic.max_packet,
        priority: traffic.who.priority,
        by_receiver: of.by_receiver,
        query: options.query,
        reliable: of.reliable,
        secure: of.secure,
        hold: true,
        follow: true,
        ..Establish::new(traffic.to, rate)
    }
}

/// Reserves along the path and waits for the answer of the last node.
pub(super) fn reserve(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let Traffic { to, hold, .. } = options.traffic;
    let opened: Opened = client.call(&Request::Establish(establish(options)))?;
    let ours = qos::Application(opened.application);
    let (timeout, partial) = (options.timeout, options.partial);
    let mut wait = Wait { client, opened, timeout, hold, partial, out };
    let mut stands = Reach::default();
    while let Some(notice) = wait.next()? {
        let Event::Nsis(NsisEvent::Qos(event)) = &notice.event else { continue };
        let reach = reach_of(&notice);
        match event {
            qos::Event::Reserved { application, rate, breaks, .. } if *application == ours => {
                let what = format!("{rate} for {to}");
                let more = json!({ "rate_bps": rate, "breaks": breaks });
                return wait.reserved(&notice, Granted { what: &what, reach, more });
            }
            // The receiver has reserved, as requested (`--by-receiver`).
            qos::Event::Incoming { application, rate, .. } if *application == ours => {
                let what = format!("{rate} for {to} by the receiver");
                let more = json!({ "rate_bps": rate });
                return wait.reserved(&notice, Granted { what: &what, reach, more });
            }
            qos::Event::Offered { application, rate, latency_us, breaks, .. }
                if *application == ours =>
            {
                let more = json!({ "rate_bps": rate, "latency_us": latency_us, "breaks": breaks });
                let what = format!("{rate} could be had to {to}");
                return wait.offered(Granted { what: &what, reach, more });
            }
            qos::Event::Refused { application, outcome, source, available, .. }
                if *application == ours =>
            {
                let more = json!({
                    "class": outcome.class().code(),
                    "code": outcome.code(),
                    "source": source.as_ref().map(describe::qos_source),
                    "available_bps": available,
                });
                let by = source.as_ref().map_or(String::new(), |source| {
                    format!(", says {}", describe::qos_source(source))
                });
                let why = format!("{}{by}", describe::outcome(*outcome));
                let hint = hint(*outcome, *available);
                return wait.refused(&notice, Refusal { why: &why, hint: &hint, reach, more });
            }
            qos::Event::Translated { application: Some(application), .. }
                if *application == ours =>
            {
                stands = reach;
            }
            qos::Event::TimedOut { application } if *application == ours => break,
            _ => {}
        }
    }
    let waited = options.timeout.saturating_sub(wait.timeout);
    wait.timed_out(
        &stands,
        waited,
        "no node has answered for the path",
        "does the next router speak NSIS (`earmark ping` shows who does), and does the receiver?",
    )
}

fn hint(outcome: Answer, available: Option<Rate>) -> String {
    match (outcome, available) {
        (_, Some(rate)) if rate > Rate::ZERO => {
            format!("{rate} could be had: ask for that, or say --at-least")
        }
        (Answer::PermanentFailure(_), _) => {
            "the nodes on the way have rules about who may reserve; ask who runs them".to_owned()
        }
        _ => "ask for less, or release other reservations; `earmark ping --qos` shows what each node has left"
            .to_owned(),
    }
}

/// Waits for flows that are reserved by their senders, and reserves for senders that request it.
pub(super) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    if options.delay.is_some() || !options.senders.is_empty() || options.wait.is_some() {
        wrong_usage("with NSIS, --delay, --sender and --wait have no place here");
    }
    let (on, hold) = (options.on, options.hold);
    let request = Expect {
        ip_protocol: options.ip_protocol,
        most_bps: options.rate,
        reverse_bps: options.back,
        hold,
        follow: hold,
        ..Expect::new(on)
    };
    let opened: Opened = client.call(&Request::Expect(request))?;
    let text = format!("waiting for flows to {on} as application {}", opened.application);
    begun(&text, &opened, hold, client, out)
}
