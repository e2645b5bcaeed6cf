//! `earmark ping`.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::Cell;
use earmark_control::command::{Failure, Output};
use earmark_control::{Client, Opened, Ping, Request};
use earmark_core::Rate;
use earmark_core::amounts::{parse_duration, show_duration};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::arguments::values::host;
use crate::cli::outcome::Outcome;
use crate::cli::table::{new_table, number};
use crate::cli::wait::next_event;

/// Show every node on the path to a host that supports NSIS, with its round-trip time (Ping NSLP).
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  earmark ping 10.0.3.2
  earmark ping 10.0.3.2 --qos                 # and the rate that each node can still reserve, in both directions
  earmark ping 10.0.3.2 --count 10 --interval 200ms --json
  earmark ping 10.0.3.2 --secure              # over TLS connections on the whole path

The message follows the path of packets to the host; each node with NSIS adds a record, and the last one returns the
message. Round-trip times need no synchronized clocks: the time beyond a node is subtracted from the whole. The host answers
if its daemon supports NSIS; otherwise the last router that does.
Exit status: 0 a message returned, 4 no message returned in time.")]
pub(crate) struct PingOptions {
    /// Destination: an address, or a name.
    #[arg(value_name = "HOST", value_parser = host)]
    pub(crate) to: IpAddr,
    /// Also query the rate that each node can still reserve, in both directions.
    #[arg(long)]
    pub(crate) qos: bool,
    /// Number of messages.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: u32,
    /// Interval between messages.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Timeout of an answer: 500ms, 10s, 2min [default: as configured in the daemon, 5s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Over connections, from hop to hop.
    #[arg(long)]
    pub(crate) reliable: bool,
    /// Over connections by TLS.
    #[arg(long)]
    pub(crate) secure: bool,
}

/// Longest wait for an answer, longer than the usual settings of the daemon allow.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Queries which nodes on the path take part, and prints each answer.
pub(crate) fn ping(
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
    let mut round_trips = Vec::new();
    let silence = options.interval + options.timeout.unwrap_or_default() + MAX_WAIT;
    let next = |client: &mut Client| {
        next_event(client, "nsis", opened.application, Some(Instant::now() + silence))
    };
    while let Some(event) = next(client)? {
        match event.event.as_str() {
            "pong" => {
                let Some(Returned { sequence, round_trip, nodes, visits }) = event.details() else {
                    continue;
                };
                round_trips.push(round_trip);
                let pong = Pong { options, sequence, round_trip, nodes, visits: &visits };
                out.line(&pong.text(), &pong.json())?;
            }
            "lost" => {
                let Some(lost) = event.details::<Lost>() else { continue };
                let (sequence, reason) = (lost.sequence, lost.reason(&event.text));
                let text = reason.as_deref().unwrap_or("no answer in time");
                let json = json!({ "outcome": "lost", "sequence": sequence, "reason": reason });
                out.line(&format!("{sequence}: {text}"), &json)?;
            }
            "finished" => break,
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
    let mut text = format!("{sent} sent, {answered} returned");
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
    visits: &'a [Visit],
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
            "{nodes} nodes take part on the path to {}; round trip {}",
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
            let _ = write!(text, "\n{missing} more did not fit in the message");
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

#[derive(Deserialize)]
struct Returned {
    sequence: u32,
    round_trip: Duration,
    nodes: u16,
    visits: Vec<Visit>,
}

/// A node on the path of a message, with its record.
#[derive(Deserialize)]
struct Visit {
    address: IpAddr,
    round_trip: Option<Duration>,
    forward: Option<Rate>,
    reverse: Option<Rate>,
}

#[derive(Deserialize)]
struct Lost {
    sequence: u32,
    /// Name of the failure; `None` if no answer has arrived in time.
    failure: Option<String>,
}

impl Lost {
    /// Returns the reason of a failure in words: the end of the event's text, if there is one.
    fn reason(&self, text: &str) -> Option<String> {
        let name = self.failure.as_ref()?;
        let words = text.split_once(": ").map(|(_, reason)| reason.to_owned());
        Some(words.unwrap_or_else(|| name.replace('_', " ")))
    }
}
