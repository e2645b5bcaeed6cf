//! `earmark reserve` with Boomerang.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use earmark_control::command::{Failure, Output};
use earmark_control::protocols::boomerang::{
    Account, OnRefusal, RatePair, ReserveOptions as OwnOptions, Secret, rates,
};
use earmark_control::{Client, Event, ReservationRequest};
use earmark_core::Rate;
use earmark_core::outcome::{Kind, Outcome as Reach};
use earmark_wire::boomerang::Rates;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::arguments::reservation::Reservation;
use crate::cli::outcome::{Outcome, wrong_usage};
use crate::cli::wait::{Awaited, Granted, Refusal, Verdict, Wait, reach_of};

pub(super) const HELP: &str = "one loop reserves both ways; the far end only answers a ping";

/// What only loops have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Boomerang")]
#[group(id = "boomerang_options")]
pub(crate) struct Options {
    /// Rate from here to the far end.
    #[arg(long, value_name = "RATE")]
    pub(crate) forward: Option<Rate>,
    /// Rate from the far end back to here.
    #[arg(long, value_name = "RATE")]
    pub(crate) reverse: Option<Rate>,
    /// Smaller rates to accept if the previous ones are unavailable; may be given several times.
    #[arg(long = "or", value_name = "FORWARD/REVERSE", value_parser = rate_pair)]
    pub(crate) or: Vec<RatePair>,
    /// Accept the offered rates, if not all is granted.
    #[arg(long)]
    pub(crate) accept_less: bool,
    /// Read the secret of --user, at most eight octets long, from this file.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) secret: Option<PathBuf>,
}

/// Reads a pair of rates such as `2Mbit/500kbit`.
fn rate_pair(text: &str) -> Result<RatePair, String> {
    let (forward, reverse) =
        text.split_once('/').ok_or("two rates are written 2Mbit/500kbit, forward and reverse")?;
    let rate = |text: &str| match text {
        "0" => Ok(Rate::ZERO),
        text => text.parse::<Rate>().map_err(|error| error.to_string()),
    };
    Ok(RatePair { forward: rate(forward)?, reverse: rate(reverse)? })
}

pub(super) const RESERVE_EXAMPLES: &str =
    "  earmark reserve --protocol boomerang --to 10.0.2.2:5001 --forward 2Mbit --reverse 500kbit
  earmark reserve --protocol boomerang --to 10.0.2.2 --forward 3Mbit --or 2Mbit/0 --or 1Mbit/0";

pub(super) const ABOUT: &str = "\
With Boomerang one loop reserves both ways, between the two hosts' ports that are named (no port: all of them). The far
end only has to answer pings; it needs no Earmark.";

pub(super) const NOBODY_LISTENS: &str =
    "Boomerang needs no listener: the far end only answers pings";

/// The options of Boomerang.
pub(super) const OPTIONS: &str = "--forward, --reverse, --or, --accept-less and --secret";

impl Options {
    /// Returns whether any of these options is given.
    pub(super) fn are_given(&self) -> bool {
        self.forward.is_some()
            || self.reverse.is_some()
            || !self.or.is_empty()
            || self.accept_less
            || self.secret.is_some()
    }
}

pub(super) const RATE_NOTE: &str = "For all but Boomerang";

/// Refuses to listen: Boomerang has no receivers that listen.
pub(super) fn listen() -> Result<Outcome, Failure> {
    Err(wrong_usage(NOBODY_LISTENS))
}

/// Refuses options that contradict the protocol.
pub(super) fn check(options: &Reservation, of: &Options) -> Result<(), Failure> {
    if options.rate.is_some() {
        return Err(wrong_usage(
            "--protocol boomerang takes --forward and --reverse instead of --rate",
        ));
    }
    match wanted(of) {
        (Rate::ZERO, Rate::ZERO) => {
            Err(wrong_usage("give --forward RATE, --reverse RATE, or both"))
        }
        _ => Ok(()),
    }
}

/// Requested rates, forward and reverse.
fn wanted(of: &Options) -> (Rate, Rate) {
    (of.forward.unwrap_or_default(), of.reverse.unwrap_or_default())
}

/// Sends a Boomerang message and waits for it to return.
pub(super) fn reserve(
    client: &mut Client,
    options: &Reservation,
    of: &Options,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let (forward, reverse) = wanted(of);
    let own = OwnOptions {
        rates: [RatePair { forward, reverse }].into_iter().chain(of.or.iter().copied()).collect(),
        on_refusal: if of.accept_less { OnRefusal::TakeOffer } else { OnRefusal::Release },
        user: account(options, of)?,
        ..OwnOptions::default()
    };
    let request = options.traffic.request("boomerang")?.with(&own);
    let opened = client.reserve(ReservationRequest { query: options.query, ..request })?;
    let to = options.traffic.to;
    Wait::new(client, opened, options, out).run(AwaitedLoop { to, granted: None })
}

/// Returns the options of a change of both rates.
pub(super) fn both_rates(forward: Rate, reverse: Rate) -> Map<String, Value> {
    Map::from_iter([("rates".to_owned(), json!([RatePair { forward, reverse }]))])
}

/// Returns whether the count of the nodes that take part follows an event. No node answers for a group.
pub(super) fn is_preliminary(event: &Event, destination: IpAddr) -> bool {
    matches!(event.event.as_str(), "established" | "changed") && !destination.is_multicast()
}

/// A loop whose outcome is awaited.
struct AwaitedLoop {
    to: SocketAddr,
    /// Rates of the message that returned, kept until it is known which nodes take part.
    granted: Option<Rates>,
}

#[derive(Deserialize)]
struct Established {
    rates: Rates,
}

#[derive(Deserialize)]
struct Offer {
    offer: Rates,
}

#[derive(Deserialize)]
struct Refused {
    offer: Rates,
    reaction: OnRefusal,
}

impl Awaited for AwaitedLoop {
    fn verdict(&mut self, event: &Event) -> Verdict {
        self.read(event).unwrap_or(Verdict::Open)
    }

    fn timeout_advice(&self) -> (&'static str, &'static str) {
        match self.granted {
            None => (
                "the loop has not returned",
                "does the far end answer pings (`ping` it), and do all routers on the path forward them?",
            ),
            Some(_) => {
                ("the loop that counts the participating nodes has not returned", RUN_DAEMONS)
            }
        }
    }
}

impl AwaitedLoop {
    /// Returns the meaning of an event; `None` if it has none for the outcome.
    fn read(&mut self, event: &Event) -> Option<Verdict> {
        if event.protocol != "boomerang" {
            return None;
        }
        let reach = reach_of(event);
        Some(match event.event.as_str() {
            "established" | "changed" => {
                let Established { rates } = event.details()?;
                self.granted = Some(rates);
                // No node answers for a group, so the nodes are not counted either.
                if !self.to.ip().is_multicast() {
                    return None;
                }
                Verdict::Reserved(self.granted(&rates, reach))
            }
            "reached" if reach.kind == Kind::Unanswered => {
                Verdict::TimedOut("no node on the reverse path has reserved", RUN_DAEMONS)
            }
            "reached" => Verdict::Reserved(self.granted(&self.granted.unwrap_or_default(), reach)),
            "offered" => {
                let Offer { offer } = event.details()?;
                let what = format!("{} available to {}", rates(&offer), self.to);
                let more = json!({ "offer": rates_json(&offer) });
                Verdict::Offered(Granted { what, reach, more })
            }
            "refused" => {
                let Refused { offer, reaction: OnRefusal::Release } = event.details()? else {
                    return None;
                };
                let hint = match offer {
                    Rates::ZERO => "release other reservations; `earmark show links` on each router shows what is available"
                        .to_owned(),
                    _ => format!("{} is available: request that, or give --accept-less", rates(&offer)),
                };
                Verdict::Refused(Refusal {
                    why: "a node on the path has less available".to_owned(),
                    hint,
                    reach,
                    more: json!({ "offer": rates_json(&offer) }),
                })
            }
            "released" => Verdict::Refused(Refusal {
                why: "nothing was offered".to_owned(),
                hint: "request less".to_owned(),
                reach: Reach::default(),
                more: json!({}),
            }),
            _ => return None,
        })
    }

    fn granted(&self, granted: &Rates, reach: Reach) -> Granted {
        let what = format!("{} for {}", rates(granted), self.to);
        Granted { what, reach, more: rates_json(granted) }
    }
}

const RUN_DAEMONS: &str = "does a daemon with `boomerang` run on every router?";

fn account(options: &Reservation, of: &Options) -> Result<Option<Account>, Failure> {
    let (Some(name), Some(file)) = (&options.traffic.who.user, &of.secret) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new("input_output", format!("cannot read {}: {error}", file.display()), "")
    })?;
    let secret = Secret(text.trim_end_matches('\n').to_owned());
    Ok(Some(Account { name: name.clone(), secret }))
}

fn rates_json(rates: &Rates) -> Value {
    json!({ "forward_bps": rates.forward, "reverse_bps": rates.reverse })
}
