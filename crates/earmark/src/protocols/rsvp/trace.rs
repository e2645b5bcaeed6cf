//! `earmark trace`: the state of a sender on the nodes of its path, from the receiver to the sender.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use comfy_table::Cell;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::rsvp::{rate, tracing};
use earmark_control::text::{sender, with_port};
use earmark_control::{Client, Event, SenderName, Trace, TraceBegun};
use earmark_core::Rate;
use earmark_core::amounts::{parse_duration, show_duration};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{FilterSpec, Style};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::arguments::values::{self, endpoint, ip_protocol};
use crate::cli::outcome::Outcome;
use crate::cli::routers::names::RouterNames;
use crate::cli::table::{new_table, number};
use crate::cli::wait::next_event;

/// Show a flow hop by hop: what each node from the receiver to the sender has reserved for it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark trace 10.0.2.2:5001                            # on any node that the flow passes
  earmark trace 10.0.2.2:5001 --from 10.0.1.1:4000       # if there are several senders, or from another node
  earmark trace 10.0.2.2:5001 --last-hop 10.0.5.1        # the receiver does not answer: start at this router
  earmark trace 239.1.2.3:5001 --from 10.0.1.1 --json
  earmark trace --on r1,r2,r3 10.0.2.2:5001 --from 10.0.1.1:4000   # what each of these routers gives a flow of any protocol

Without --on, RSVP traces its own reservation: any node can ask, and needs no login elsewhere. With --on, each router is asked
over SSH where the packets of the flow go from there and what they get: reservations of all protocols, and whether the kernel
enforces them, but only at routers that are named and that let you log in. The trace begins at the router that has the source, or
at the first one named, and follows the next hop to the router that has its address.

Without --on the request (RFC 2745) starts at the receiver, or here for a group, and follows the recorded path from node to node
towards the sender. Each node adds its state: what is reserved on its link, for whom, what the sender announces, and the
refresh period. Routers without RSVP are counted. No state changes.

If a node does not answer, the path is traced again hop by hop to find it, which takes some seconds.
A reservation larger than that of the hop before is merged with others; \"nothing\" means best effort.
Exit status: 0 the whole path answered, 1 a node has no state of the flow, 4 a node did not answer in time. With --on: 0 the
packets arrive, 1 they do not or a router failed, 4 a router did not answer in time, 5 the path leaves the routers named.")]
pub(crate) struct TraceOptions {
    /// Destination of the flow.
    #[arg(value_name = "HOST:PORT", value_parser = endpoint)]
    pub(crate) to: SocketAddr,
    /// Sender of the flow: ADDR, ADDR:PORT, ADDR#LABEL or ADDR@SPI [default: the only sender known here].
    #[arg(long, value_name = "SENDER", value_parser = values::sender)]
    pub(crate) from: Option<SenderName>,
    /// IP protocol of the flow: udp, tcp, esp, ah or a number.
    #[arg(long, value_name = "NAME", default_value = "udp", value_parser = ip_protocol)]
    pub(crate) ip_protocol: u8,
    /// Follow the flow from router to router over SSH, and ask each for its reservations.
    #[arg(long, value_name = "ROUTER,...", value_parser = RouterNames::parse)]
    pub(crate) on: Option<RouterNames>,
    /// The node to start at, without --on [default: the receiver; for a group, this node].
    #[arg(long, value_name = "ADDR")]
    pub(crate) last_hop: Option<IpAddr>,
    /// Query at most this many nodes; 0 means no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_hops: u8,
    /// Timeout of the whole trace: 500ms, 10s, 2min.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

pub(crate) fn trace(
    client: &mut Client,
    options: &TraceOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let begun = client.trace(Trace {
        from: options.from,
        ip_protocol: options.ip_protocol,
        last_hop: options.last_hop,
        max_hops: options.max_hops,
        timeout_ms: u32::try_from(options.timeout.as_millis()).unwrap_or(u32::MAX),
        ..Trace::new(options.to)
    })?;
    while let Some(event) = next_event(client, "rsvp", begun.trace, None)? {
        match event.event.as_str() {
            "tracing" => {
                let Some(Tracing { last_hop, known, attempt, reach }) = event.details() else {
                    continue;
                };
                // The answer usually arrives before a line about the first request could be read.
                if !out.json && (attempt > 1 || reach > 0) {
                    eprintln!("{}", tracing(last_hop, known, attempt, reach));
                }
            }
            "traced" => {
                let Some(Traced { last_hop, hops, end }) = event.details() else { continue };
                let report = Report { options, begun: &begun, last_hop, hops: &hops, end: &end };
                out.line(&report.text(), &report.json(&event))?;
                return Ok(report.outcome());
            }
            _ => {}
        }
    }
    Ok(Outcome::TimedOut)
}

#[derive(Deserialize)]
struct Tracing {
    last_hop: IpAddr,
    known: usize,
    attempt: u8,
    reach: u8,
}

#[derive(Deserialize)]
struct Traced {
    last_hop: IpAddr,
    hops: Vec<TraceHop>,
    end: TraceEnd,
}

/// Response of one node on the path.
#[derive(Deserialize)]
struct TraceHop {
    incoming: Option<IpAddr>,
    outgoing: Option<IpAddr>,
    previous_hop: Option<IpAddr>,
    /// Arrival time of the request, units of 2^-16 s.
    arrival: u32,
    /// IP hops of the request from the previous node in the list; 0 if the trace started here.
    ip_hops: u8,
    no_path_state: bool,
    merged: bool,
    refresh_s: u16,
    refresh_multiple: u8,
    tspec: Option<SenderTspec>,
    style: Option<Style>,
    flowspec: Option<FlowSpec>,
    filters: Vec<FilterSpec>,
}

/// Reason for the end of a trace.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TraceEnd {
    Sender,
    NoPathState,
    HopLimit,
    GaveUp,
    Silent { node: IpAddr },
    Incomplete,
}

/// Result of a trace.
struct Report<'a> {
    options: &'a TraceOptions,
    begun: &'a TraceBegun,
    last_hop: IpAddr,
    hops: &'a [TraceHop],
    end: &'a TraceEnd,
}

impl Report<'_> {
    fn outcome(&self) -> Outcome {
        match self.end {
            TraceEnd::Sender | TraceEnd::HopLimit => Outcome::Done,
            TraceEnd::NoPathState | TraceEnd::GaveUp => Outcome::Failed,
            TraceEnd::Silent { .. } | TraceEnd::Incomplete => Outcome::TimedOut,
        }
    }

    fn text(&self) -> String {
        let sender = sender(&self.begun.sender);
        let to = with_port(self.options.to.ip(), self.options.to.port());
        let mut text = format!("{sender} -> {to}, from {} towards the sender\n", self.last_hop);
        if !self.hops.is_empty() {
            let mut table = new_table(&[
                "hop",
                "node",
                "towards receivers",
                "reserved",
                "for",
                "announced",
                "refresh",
                "notes",
            ]);
            for (place, hop) in (1..).zip(self.hops) {
                if let Some(silent) = without_rsvp(place, hop) {
                    let plural = if silent == 1 { "" } else { "s" };
                    let gap = format!("{silent} router{plural} without RSVP");
                    table.add_row([Cell::new("·"), Cell::new(gap)]);
                }
                table.add_row(self.cells(place, hop));
            }
            let _ = writeln!(text, "{table}");
        }
        let (end, help) = self.end();
        text += &end;
        if let Some(help) = help {
            let _ = write!(text, "\n  help: {help}");
        }
        text
    }

    fn cells(&self, place: usize, hop: &TraceHop) -> Vec<Cell> {
        let announced = |rate: f32| Rate::from_octets_per_second(rate).to_string();
        let reserved = match (&hop.flowspec, hop.no_path_state) {
            (Some(flowspec), _) => format!("{} {}", rate(flowspec), service(flowspec)),
            (None, false) => "nothing".to_owned(),
            (None, true) => "-".to_owned(),
        };
        let refresh = match hop.no_path_state {
            true => "-".to_owned(),
            false => format!("{} s, K {}", hop.refresh_s, hop.refresh_multiple),
        };
        vec![
            number(place),
            Cell::new(self.name(place, hop)),
            Cell::new(hop.outgoing.map_or("this host".to_owned(), |address| address.to_string())),
            number(reserved),
            Cell::new(shared(hop)),
            number(hop.tspec.as_ref().map_or("-".to_owned(), |tspec| announced(tspec.rate))),
            number(refresh),
            Cell::new(notes(hop)),
        ]
    }

    /// Name of a node: the address of its interface towards the sender, if the node reported one.
    fn name(&self, place: usize, hop: &TraceHop) -> String {
        let before = place.checked_sub(2).and_then(|before| self.hops.get(before));
        let asked = match before {
            Some(before) => before.previous_hop,
            None => Some(self.last_hop),
        };
        let name = hop.incoming.or(asked).or(hop.outgoing);
        name.map_or("unknown".to_owned(), |address| address.to_string())
    }

    /// How the trace ended, and what to do about it.
    fn end(&self) -> (String, Option<String>) {
        let last = self.hops.last().map(|hop| self.name(self.hops.len(), hop)).unwrap_or_default();
        match self.end {
            TraceEnd::Sender => ("reached the sender".to_owned(), None),
            TraceEnd::HopLimit => (format!("ended at {last}, the limit of --max-hops"), None),
            TraceEnd::NoPathState if self.hops.len() == 1 => (
                format!("{last} has no path state of this sender"),
                Some(format!(
                    "is {} announced (`earmark show sessions` on its host), and does the data pass {last}? \
                     If it takes another path, start at a node of that: --last-hop ADDR",
                    sender(&self.begun.sender)
                )),
            ),
            TraceEnd::NoPathState => (
                format!("{last} has no path state of this sender, but the nodes downstream have"),
                Some(format!(
                    "its state was lost or the path has changed: the sender's next refresh repairs it; \
                     if not, look at `earmark show sessions` and the log of {last}"
                )),
            ),
            TraceEnd::GaveUp => (
                format!("{last} could not forward the request"),
                Some(format!(
                    "its route to the sender may be down: `earmark show links` on {last}"
                )),
            ),
            TraceEnd::Silent { node } if self.hops.is_empty() => (
                format!("no answer within {} from {node}", show_duration(self.options.timeout)),
                Some(format!(
                    "possibly {node} runs no RSVP daemon, its daemon does not answer (`diagnostics` in [rsvp]), or a firewall \
                     drops IP protocol 46; start at another node of the path: --last-hop ADDR"
                )),
            ),
            TraceEnd::Silent { node } => (
                format!("no answer beyond {last}: its previous hop, {node}, does not answer"),
                Some(format!(
                    "the daemon on {node} may be down, may not answer (`diagnostics` in [rsvp]), or may not support \
                     RFC 2745; to see the nodes beyond it, start at the next one: --last-hop ADDR"
                )),
            ),
            TraceEnd::Incomplete => (
                "parts of the answer were lost; the list has no gap, but is incomplete".to_owned(),
                Some("trace again, or fewer nodes at a time: --max-hops N".to_owned()),
            ),
        }
    }

    fn json(&self, event: &Event) -> Value {
        let (message, help) = self.end();
        let first = self.hops.first().map_or(0, |hop| hop.arrival);
        let hops: Vec<Value> = (1..)
            .zip(self.hops)
            .map(|(place, hop)| {
                // Differences of clocks are small numbers of either sign.
                let arrival = hop.arrival.wrapping_sub(first).cast_signed();
                json!({
                    "node": self.name(place, hop),
                    "incoming": hop.incoming,
                    "outgoing": hop.outgoing,
                    "previous_hop": hop.previous_hop,
                    "routers_without_rsvp": without_rsvp(place, hop).unwrap_or(0),
                    "arrival_ms": f64::from(arrival) * 1e3 / 65_536.0,
                    "path_state": !hop.no_path_state,
                    "announced_bps": hop.tspec.map(|tspec| Rate::from_octets_per_second(tspec.rate)),
                    "reserved_bps": hop.flowspec.as_ref().map(rate),
                    "service": hop.flowspec.as_ref().map(service),
                    "style": hop.style.map(Style::name),
                    "senders": hop.filters.iter().map(|f| SenderName::from(f.parts())).collect::<Vec<_>>(),
                    "merged": hop.merged,
                    "refresh_s": hop.refresh_s,
                    "refresh_multiple": hop.refresh_multiple,
                })
            })
            .collect();
        let end = match self.end {
            TraceEnd::Sender => "sender",
            TraceEnd::NoPathState => "no_path_state",
            TraceEnd::HopLimit => "hop_limit",
            TraceEnd::GaveUp => "gave_up",
            TraceEnd::Silent { .. } => "silent",
            TraceEnd::Incomplete => "incomplete",
        };
        let silent = match self.end {
            TraceEnd::Silent { node } => Some(node),
            _ => None,
        };
        json!({
            "end": end,
            "message": message,
            "hint": help,
            "silent": silent,
            "sender": self.begun.sender,
            "last_hop": self.last_hop,
            "hops": hops,
            "after_ms": (event.at_s - self.begun.at_s) * 1e3,
        })
    }
}

/// Number of routers without RSVP between a node and the one before it in the list. The hops before the first node belong
/// to the path of the request, not of the data.
fn without_rsvp(place: usize, hop: &TraceHop) -> Option<u8> {
    hop.ip_hops.checked_sub(1).filter(|&silent| silent > 0 && place > 1)
}

fn service(flowspec: &FlowSpec) -> &'static str {
    match flowspec {
        FlowSpec::ControlledLoad(_) => "controlled-load",
        FlowSpec::Guaranteed(..) => "guaranteed",
    }
}

/// Senders that the reservation is for.
fn shared(hop: &TraceHop) -> String {
    match hop.style {
        None => "-".to_owned(),
        Some(Style::FixedFilter) => "this sender (FF)".to_owned(),
        Some(Style::SharedExplicit) => format!("{} senders (SE)", hop.filters.len()),
        Some(Style::Wildcard) => "all senders (WF)".to_owned(),
    }
}

fn notes(hop: &TraceHop) -> &'static str {
    match (hop.no_path_state, hop.merged) {
        (true, _) => "no path state",
        (false, true) => "merged with other branches",
        (false, false) => "",
    }
}
