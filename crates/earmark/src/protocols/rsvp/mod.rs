//! `earmark send`, `reserve` and `listen` with RSVP.

pub(crate) mod trace;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::rsvp::{
    ListenOptions as OwnListenOptions, advice, error_text, rate,
};
use earmark_control::{
    ApplicationRow, Client, ClientError, Event, ListenRequest, ReservationRequest, Role,
    SenderName, Trace,
};
use earmark_core::Rate;
use earmark_core::outcome::{Kind, Outcome as Reach};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{ErrorSpec, FilterSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::arguments::reservation::{Receiver, Reservation, Traffic};
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::cli::reservations::begun;
use crate::cli::wait::{Awaited, Granted, Refusal, Verdict, Wait, next_event, reach_of};

pub(super) const HELP: &str = "the receiver reserves, for a sender that announces itself";

pub(super) const RESERVE_EXAMPLES: &str = "  earmark reserve --to 10.0.2.2:5001 --rate 2Mbit
  earmark reserve --to 10.0.2.2:5001 --rate 2Mbit --timeout 30s --hold";

pub(super) const ABOUT: &str = "\
With RSVP, the default:
If --to is an address of this host, the command answers the sender's announcement and waits for a confirmation. Otherwise
it announces the data and waits for the receiver's reservation (run `earmark listen` there).
Data to a multicast group is always announced; receivers run `earmark listen --wait 10s`.
Only the receiver is notified of a refusal further down the path, so here it appears as no answer.";

pub(super) const LISTEN_EXAMPLES: &str =
    "  earmark listen --on 10.0.2.2:5001                # as much as each sender announces
  earmark listen --on 10.0.2.2:5001 --rate 2Mbit   # this much for each
  earmark listen --on 10.0.2.2:5001 --delay 20ms   # guaranteed service: queueing delay below 20 ms
  earmark listen --on 239.1.2.3:5001 --style wf    # a group: one reservation that all senders share
  earmark listen --on 239.1.2.3:5001 --style se --sender 10.0.1.2 --sender 10.0.7.2:4000
  earmark listen --on 10.0.2.2:5001 --wait 10s     # and wait until it is confirmed";

pub(super) const QUERY_NOTE: &str = "Not for RSVP";

/// Refuses options that contradict the protocol.
pub(super) fn check(options: &Reservation) -> Result<(), Failure> {
    if options.query {
        return Err(wrong_usage(
            "RSVP does not support --query: it cannot query without reserving",
        ));
    }
    match options.rate {
        Some(_) => Ok(()),
        None => Err(wrong_usage("--protocol rsvp requires --rate")),
    }
}

/// Announce data that this host sends, so that receivers can reserve (RSVP Path).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark send --to 10.0.2.2:5001 --rate 2Mbit
  earmark send --to 10.0.2.2:5001 --from 10.0.1.2:4000 --rate 2Mbit --burst 20kB --ip-protocol tcp
  earmark send --to 239.1.2.3:5001 --rate 2Mbit                            # to a multicast group
  earmark send --to [2001:db8::2]:5001 --flow-label 0x12345 --rate 2Mbit   # found by its IPv6 flow label
  earmark send --to 10.0.2.2:9000 --ip-protocol esp --spi 0x1000 --rate 2Mbit   # found by its SPI (IPsec)

The announcement lasts until `earmark release`; with --hold, until this command ends.")]
pub(crate) struct SendOptions {
    /// Token rate, how fast the data comes for long: 64kbit, 2Mbit, 1.5Gbit.
    #[arg(long)]
    pub(crate) rate: Rate,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
}

pub(crate) fn send(
    client: &mut Client,
    options: &SendOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let traffic = &options.traffic;
    let hold = traffic.hold;
    let request = traffic.request("rsvp")?;
    let rate_bps = Some(options.rate);
    let opened = client.sender(ReservationRequest { rate_bps, hold, follow: hold, ..request })?;
    let text = format!(
        "announcing {} to {} as application {}",
        options.rate, traffic.to, opened.application
    );
    begun(&text, &opened, traffic.hold, client, out)
}

pub(super) fn listen(
    client: &mut Client,
    options: &Receiver,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    // Until the outcome is good, the application is tied to our connection, so that nothing is left behind.
    let waits = options.wait.is_some();
    let own = OwnListenOptions {
        delay_ms: options.delay.map(|delay| delay.as_secs_f64() * 1e3),
        style: options.style.into(),
        senders: options.senders.clone(),
        confirm: waits,
    };
    let opened = client.listen(ListenRequest {
        ip_protocol: options.ip_protocol,
        rate_bps: options.rate,
        identity: options.who.identity()?,
        hold: options.hold || waits,
        follow: options.hold || waits,
        ..ListenRequest::new(options.on).with(&own)
    })?;
    if let Some(timeout) = options.wait {
        let Receiver { on, hold, rate, ip_protocol, partial, .. } = *options;
        let role = opened.role;
        let wait = Wait { client, opened, timeout, hold, partial, out };
        return wait.run(AwaitedReservation::new(on, ip_protocol, rate, role));
    }
    let text = format!("listening on {} as application {}", options.on, opened.application);
    begun(&text, &opened, options.hold, client, out)
}

/// Opens the sender or receiver that this host can be, and waits for the outcome. Until the outcome is good, the
/// application is tied to our connection, so that nothing is left behind however this command ends.
pub(super) fn reserve(
    client: &mut Client,
    options: &Reservation,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let rate = options.rate.expect("it was checked that there is one");
    let Traffic { to, ip_protocol, .. } = options.traffic;
    let request = options.traffic.request("rsvp")?;
    let opened = client.reserve(ReservationRequest { rate_bps: Some(rate), ..request })?;
    let awaited = AwaitedReservation::new(to, ip_protocol, Some(rate), opened.role);
    Wait::new(client, opened, options, out).run(awaited)
}

pub(super) const CHANGE_NOTE: &str = "\
With RSVP the announcement of a sender is followed by receivers that reserve what is announced (`earmark listen` without
--rate); a receiver changes its own reservation in the same way.";

/// Advice about a changed announcement that no reservation has followed.
pub(super) const UNCONFIRMED_CHANGE: &str = "the receiver may reserve a rate of its own (`earmark listen --rate`), or a router has refused it, which RSVP reports to \
     the receiver only: `earmark show applications` there shows it";

/// Returns the rate that a Resv reserves.
pub(super) fn granted_rate(event: &Event) -> Option<Rate> {
    let resv: Option<Resv> = (event.event == "resv").then(|| event.details()).flatten();
    resv.map(|resv| rate(&resv.flowspec))
}

/// Timeout of the trace that finds out which nodes of the path take part.
const TRACE_WITHIN: Duration = Duration::from_secs(2);

/// Returns how far the reservation for a sender reaches if its messages leave that open.
fn verify(
    client: &mut Client,
    to: SocketAddr,
    ip_protocol: u8,
    sender: SenderName,
    reach: Reach,
) -> Result<Reach, Failure> {
    let is_open = matches!(reach.kind, Kind::Unverified | Kind::Part | Kind::OnlyHere);
    if !is_open || to.ip().is_multicast() {
        return Ok(reach);
    }
    let begun = client.trace(Trace {
        from: Some(sender),
        ip_protocol,
        timeout_ms: TRACE_WITHIN.as_millis() as u32, // two thousand
        ..Trace::new(to)
    });
    let trace = match begun {
        Ok(begun) => begun.trace,
        // Too many traces are in progress, or diagnostics are disabled.
        Err(ClientError::Refused(_)) => return Ok(reach),
        Err(error) => return Err(error.into()),
    };
    let deadline = Instant::now() + TRACE_WITHIN;
    while let Some(event) = next_event(client, "rsvp", trace, Some(deadline))? {
        if event.event == "traced" {
            let traced = event.outcome.filter(|traced| traced.kind.is_reserved());
            let Some(traced) = traced else { break };
            let translation = reach.translation;
            return Ok(Reach { translation, ..*traced });
        }
    }
    Ok(reach)
}

/// Returns how far a changed reservation reaches, which an event reports.
pub(super) fn verify_change(
    client: &mut Client,
    application: &ApplicationRow,
    event: &Event,
    reach: Reach,
) -> Result<Reach, Failure> {
    let resv: Option<Resv> = (event.event == "resv").then(|| event.details()).flatten();
    let confirmed: Option<Confirmed> =
        (event.event == "confirmed").then(|| event.details()).flatten();
    let filters = confirmed.into_iter().flat_map(|confirmed| confirmed.filters);
    let sender = resv.map(|resv| resv.filter).into_iter().chain(filters).next();
    let to = SocketAddr::new(application.destination, application.destination_port);
    match sender {
        Some(sender) => verify(client, to, application.ip_protocol, sender.parts().into(), reach),
        None => Ok(reach),
    }
}

/// A reservation whose outcome is awaited.
struct AwaitedReservation {
    /// Destination of the data.
    to: SocketAddr,
    ip_protocol: u8,
    /// The requested rate, if known.
    rate: Option<Rate>,
    role: Role,
    /// Whether a sender is known, so that a reservation is possible.
    heard_sender: bool,
    /// Sender of the reservation.
    sender: Option<SenderName>,
}

#[derive(Deserialize)]
struct Resv {
    flowspec: FlowSpec,
    filter: FilterSpec,
}

#[derive(Deserialize)]
struct Confirmed {
    filters: Vec<FilterSpec>,
}

#[derive(Deserialize)]
struct Failed {
    error: ErrorSpec,
    /// Available rate, which this host's own node reports.
    available_bps: Option<Rate>,
    /// Reason in the words of the node that refuses.
    explanation: Option<String>,
}

impl AwaitedReservation {
    fn new(to: SocketAddr, ip_protocol: u8, rate: Option<Rate>, role: Role) -> AwaitedReservation {
        AwaitedReservation { to, ip_protocol, rate, role, heard_sender: false, sender: None }
    }

    /// Returns the meaning of an event; `None` if it has none for the outcome.
    fn read(&mut self, event: &Event) -> Option<Verdict> {
        if event.protocol == "no_answer" {
            return Some(Verdict::Impossible(event.text.clone()));
        }
        if event.protocol != "rsvp" {
            return None;
        }
        let reach = reach_of(event);
        Some(match event.event.as_str() {
            "resv" => {
                let Resv { flowspec, filter } = event.details()?;
                Verdict::Reserved(self.granted(Some(&filter), Some(rate(&flowspec)), reach))
            }
            "confirmed" => {
                let Confirmed { filters } = event.details()?;
                Verdict::Reserved(self.granted(filters.first(), None, reach))
            }
            "path_error" | "notified" | "resv_error" | "refused" => {
                let Failed { error, available_bps, explanation } = event.details()?;
                let reason = explanation.as_deref().map(|text| format!(": {text}"));
                Verdict::Refused(Refusal {
                    why: error_text(&error) + &reason.unwrap_or_default(),
                    hint: advice(&error, available_bps).unwrap_or_default(),
                    reach,
                    more: json!({
                        "error": error_json(&error),
                        "available_bps": available_bps,
                        "explanation": explanation,
                    }),
                })
            }
            "rejected" => Verdict::Impossible(event.text.clone()),
            "path" => {
                self.heard_sender = true;
                return None;
            }
            _ => return None,
        })
    }

    fn granted(
        &mut self,
        sender: Option<&FilterSpec>,
        rate: Option<Rate>,
        reach: Reach,
    ) -> Granted {
        self.sender = sender.map(|sender| sender.parts().into());
        // A receiver that reserves what senders announce learns that the reservation stands, but not its rate.
        let rate = rate.or(self.rate);
        let much = rate.map_or(String::new(), |rate| format!("{rate} "));
        let what = format!("{much}to {}", self.to);
        Granted { what, reach, more: json!({ "rate_bps": rate }) }
    }
}

impl Awaited for AwaitedReservation {
    fn verdict(&mut self, event: &Event) -> Verdict {
        self.read(event).unwrap_or(Verdict::Open)
    }

    /// Queries each node of the path (RFC 2745) if the received messages leave open how far the reservation reaches. If
    /// a node does not answer in time, the known reach stays.
    fn verify(&self, client: &mut Client, reach: Reach) -> Result<Reach, Failure> {
        match self.sender {
            Some(sender) => verify(client, self.to, self.ip_protocol, sender, reach),
            None => Ok(reach),
        }
    }

    fn timeout_advice(&self) -> (&'static str, &'static str) {
        timeout_advice(self.role, self.heard_sender)
    }
}

/// Returns what is missing, and possible reasons.
fn timeout_advice(role: Role, heard_sender: bool) -> (&'static str, &'static str) {
    match (role, heard_sender) {
        (Role::Sender | Role::Initiator, _) => (
            "no reservation has arrived from the receiver",
            "either no receiver reserves: is `earmark listen` running on the receiver, and a daemon on every router? \
             Or a router refused it, or addresses are translated on the path, which RSVP reports to the receiver only: \
             `earmark show applications` there shows it",
        ),
        (Role::Receiver, false) => (
            "no sender has announced data",
            "is `earmark send` running on the sender, and a daemon on every router?",
        ),
        (Role::Receiver, true) => (
            "the reservation was requested, but no confirmation or refusal has arrived",
            "is a daemon running on every router?",
        ),
    }
}

fn error_json(error: &ErrorSpec) -> Value {
    json!({ "code": error.code.code(), "value": error.value, "name": error.code.name(), "node": error.node })
}
