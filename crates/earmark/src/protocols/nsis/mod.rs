//! `earmark reserve` and `listen` with QoS NSLP.

pub(crate) mod natfw;
pub(crate) mod ping;

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::nsis::{
    ListenOptions as OwnListenOptions, ReserveOptions as OwnOptions, listen_request, outcome,
};
use earmark_control::{ApplicationId, Client, Event, ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_wire::qos_nslp::Outcome as Answer;
use serde::Deserialize;
use serde_json::json;

use crate::cli::arguments::reservation::{Receiver, Reservation};
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::cli::reservations::begun;
use crate::cli::wait::{Awaited, Granted, Refusal, Verdict, Wait, reach_of};

pub(super) const HELP: &str = "QoS NSLP over GIST: the sender reserves, or the receiver on request";

/// What only sessions of QoS NSLP have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "NSIS")]
#[group(id = "nsis_options")]
pub(crate) struct Options {
    /// Accept less, down to this rate.
    #[arg(long, value_name = "RATE", requires = "rate")]
    pub(crate) at_least: Option<Rate>,
    /// Request the receiver to reserve.
    #[arg(long)]
    pub(crate) by_receiver: bool,
    /// Signal over connections, from hop to hop.
    #[arg(long)]
    pub(crate) reliable: bool,
    /// Signal over connections by TLS.
    #[arg(long)]
    pub(crate) secure: bool,
    /// End with this application, which has opened the path by `earmark open`.
    #[arg(long, value_name = "APPLICATION")]
    pub(crate) bound_to: Option<u64>,
}

pub(super) const RESERVE_EXAMPLES: &str =
    "  earmark reserve --protocol nsis --to 10.0.2.2:5001 --rate 2Mbit
  earmark reserve --protocol nsis --to 10.0.2.2:5001 --rate 2Mbit --at-least 500kbit --secure
  earmark reserve --protocol nsis --from 10.0.1.2:4000 --to 10.0.2.2:5001 --rate 2Mbit --bound-to 1   # the path of application 1";

pub(super) const ABOUT: &str = "\
With NSIS the sender's request follows the path, and the last node answers. With --by-receiver the receiver is requested to
reserve; run `earmark listen --protocol nsis` there.";

pub(super) const LISTEN_EXAMPLES: &str = "  earmark listen --protocol nsis --on 10.0.2.2:5001     # reserve by QoS NSLP for senders that ask for it";

/// The options of NSIS.
pub(super) const OPTIONS: &str = "--at-least, --by-receiver, --reliable, --secure and --bound-to";

impl Options {
    /// Returns whether any of these options is given.
    pub(super) fn are_given(&self) -> bool {
        self.at_least.is_some()
            || self.bound_to.is_some()
            || self.by_receiver
            || self.reliable
            || self.secure
    }
}

/// Help of `earmark listen --back`.
pub(super) const BACK: &str = "With NSIS: reserve this for the way back, too, for each sender";

/// Help of `earmark show routing-state` and `earmark show associations`.
pub(crate) const ROUTING_STATE: &str = "The peers of GIST that each session of NSIS has";
pub(crate) const ASSOCIATIONS: &str = "Connections with peers of GIST";

pub(crate) const SHOW_EXAMPLES: &str = "  earmark show routing-state     # of NSIS: the next node of each session, and whether it is valid
  earmark show associations      # of NSIS: connections with other nodes
  earmark show pinholes          # what firewalls and translators let through, and what waits for an answer
  earmark show translations      # external addresses and ports that hosts have reserved";

/// Refuses options that contradict the protocol.
pub(super) fn check(options: &Reservation) -> Result<(), Failure> {
    match options.rate {
        Some(_) => Ok(()),
        None => Err(wrong_usage("--protocol nsis requires --rate; --at-least sets the minimum")),
    }
}

/// Reserves along the path and waits for the answer of the last node.
pub(super) fn reserve(
    client: &mut Client,
    options: &Reservation,
    of: &Options,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let own = OwnOptions {
        minimum_bps: of.at_least,
        by_receiver: of.by_receiver,
        reliable: of.reliable,
        secure: of.secure,
        bound_to: of.bound_to.map(ApplicationId),
    };
    let traffic = options.traffic.request("nsis")?.with(&own);
    let request = ReservationRequest { rate_bps: options.rate, query: options.query, ..traffic };
    let opened = client.reserve(request)?;
    let (to, application) = (options.traffic.to, opened.application);
    Wait::new(client, opened, options, out).run(AwaitedSession { to, application })
}

/// A session whose outcome is awaited.
struct AwaitedSession {
    to: SocketAddr,
    application: ApplicationId,
}

/// Returns the rate that a RESPONSE reports as reserved.
pub(super) fn granted_rate(event: &Event) -> Option<Rate> {
    let reserved: Option<Reserved> = (event.event == "reserved").then(|| event.details()).flatten();
    reserved.map(|reserved| reserved.rate)
}

#[derive(Deserialize)]
struct Reserved {
    rate: Rate,
    breaks: bool,
}

#[derive(Deserialize)]
struct Incoming {
    rate: Rate,
}

#[derive(Deserialize)]
struct Offered {
    rate: Rate,
    latency_us: Option<u32>,
    breaks: bool,
}

#[derive(Deserialize)]
struct Refused {
    answer: Answer,
    source: Option<Source>,
    available: Option<Rate>,
}

/// Origin of a report.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Address(IpAddr),
    Name(String),
}

impl Source {
    fn text(&self) -> String {
        match self {
            Source::Address(address) => address.to_string(),
            Source::Name(name) => name.clone(),
        }
    }
}

impl Awaited for AwaitedSession {
    fn verdict(&mut self, event: &Event) -> Verdict {
        self.read(event).unwrap_or(Verdict::Open)
    }

    fn timeout_advice(&self) -> (&'static str, &'static str) {
        (
            "no node has answered for the path",
            "do the next router and the receiver support NSIS? `earmark ping` shows the nodes that do",
        )
    }
}

impl AwaitedSession {
    /// Returns the meaning of an event; `None` if it has none for the outcome.
    fn read(&self, event: &Event) -> Option<Verdict> {
        if event.protocol != "nsis" || event.application != Some(self.application) {
            return None;
        }
        let (to, reach) = (self.to, reach_of(event));
        Some(match event.event.as_str() {
            "reserved" => {
                let Reserved { rate, breaks } = event.details()?;
                let more = json!({ "rate_bps": rate, "breaks": breaks });
                Verdict::Reserved(Granted { what: format!("{rate} for {to}"), reach, more })
            }
            // The receiver has reserved, as requested (`--by-receiver`).
            "incoming" => {
                let Incoming { rate } = event.details()?;
                let what = format!("{rate} for {to} by the receiver");
                Verdict::Reserved(Granted { what, reach, more: json!({ "rate_bps": rate }) })
            }
            "offered" => {
                let Offered { rate, latency_us, breaks } = event.details()?;
                let more = json!({ "rate_bps": rate, "latency_us": latency_us, "breaks": breaks });
                Verdict::Offered(Granted { what: format!("{rate} available to {to}"), reach, more })
            }
            "refused" => {
                let Refused { answer, source, available } = event.details()?;
                let source = source.as_ref().map(Source::text);
                let by = source.as_ref().map_or(String::new(), |source| format!(", says {source}"));
                Verdict::Refused(Refusal {
                    why: format!("{}{by}", outcome(answer)),
                    hint: hint(answer, available),
                    reach,
                    more: json!({
                        "class": answer.class().code(),
                        "code": answer.code(),
                        "source": source,
                        "available_bps": available,
                    }),
                })
            }
            "timed_out" => {
                let (why, hint) = self.timeout_advice();
                Verdict::TimedOut(why, hint)
            }
            _ => return None,
        })
    }
}

fn hint(outcome: Answer, available: Option<Rate>) -> String {
    match (outcome, available) {
        (_, Some(rate)) if rate > Rate::ZERO => {
            format!("{rate} is available: request that, or give --at-least")
        }
        (Answer::PermanentFailure(_), _) => {
            "a policy on the path refuses the request; ask the operator".to_owned()
        }
        _ => "request less, or release other reservations; `earmark ping --qos` shows what is available at each node"
            .to_owned(),
    }
}

/// Waits for flows that are reserved by their senders, and reserves for senders that request it.
pub(super) fn listen(
    client: &mut Client,
    options: &Receiver,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    if options.delay.is_some() || !options.senders.is_empty() || options.wait.is_some() {
        return Err(wrong_usage("with NSIS, --delay, --sender and --wait are not supported"));
    }
    let (on, hold) = (options.on, options.hold);
    let request = ListenRequest {
        ip_protocol: options.ip_protocol,
        rate_bps: options.rate,
        identity: options.who.identity()?,
        hold,
        follow: hold,
        ..listen_request(on).with(&OwnListenOptions { reverse_bps: options.back })
    };
    let opened = client.listen(request)?;
    let text = format!("waiting for flows to {on} as application {}", opened.application);
    begun(&text, &opened, hold, client, out)
}
