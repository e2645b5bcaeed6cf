//! `earmark reserve` and `listen` with Boomerang and YESSIR.

use std::net::{IpAddr, SocketAddr};

use clap::CommandFactory;
use clap::error::ErrorKind;
use earmark_boomerang::{self as boomerang, Account, OnRefusal, ReservationRequest, Secret};
use earmark_core::Rate;
use earmark_core::outcome::{Kind, Message, NodeName, Outcome as Reach, OutcomeSource};
use earmark_node::Event;
use earmark_wire::boomerang::Rates;
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::yessir::{Flowspec, OctetRate};
use earmark_yessir as yessir;
use serde_json::{Value, json};

use super::arguments::{
    Arguments, ListenOptions, LoopOptions, NsisOptions, ReserveOptions, StreamOptions, Traffic,
};
use super::outcome::{Granted, Refusal, Wait, reach_of};
use super::reservations::begun;
use super::{Failure, Outcome, Output};
use crate::client::Client;
use crate::control::protocol::{Answer, Attach, Loop, Opened, Request, Signalling};
use crate::describe;

/// Window over which the largest rate of a measured stream counts, seconds, and headroom added to it, percent.
const WINDOW: u16 = 60;
const HEADROOM: u16 = 20;

/// Ends the program: Boomerang has no receivers that listen.
pub(super) fn nobody_listens() -> ! {
    wrong_usage("Boomerang needs nobody who listens: whoever answers pings will do")
}

/// Ends the program with the message and exit status of wrong usage.
pub(super) fn wrong_usage(message: &str) -> ! {
    Arguments::command().error(ErrorKind::ArgumentConflict, message).exit()
}

/// Ends the program if options contradict the protocol.
pub(super) fn check(options: &ReserveOptions) {
    let streams = has_stream_options(&options.stream_options);
    let loops = has_loop_options(options);
    match options.protocol {
        Signalling::Rsvp if loops || options.query => wrong_usage(
            "--forward, --reverse, --or, --accept-less, --secret and --query need --protocol boomerang",
        ),
        Signalling::Rsvp if streams => wrong_usage(
            "--codec, --class, --measured, --shared, --mux, --unconfirmed and --key need --protocol yessir",
        ),
        Signalling::Rsvp if options.rate.is_none() => wrong_usage("--rate says how much"),
        Signalling::Rsvp => {}
        Signalling::Boomerang => {
            if streams || options.rate.is_some() {
                wrong_usage("with --protocol boomerang, --forward and --reverse say how much");
            }
            if wanted(&options.loop_options) == (Rate::ZERO, Rate::ZERO) {
                wrong_usage("give --forward RATE, --reverse RATE, or both");
            }
        }
        Signalling::Yessir if loops => wrong_usage(
            "--forward, --reverse, --or, --accept-less and --secret are Boomerang's; with YESSIR say --rate, --codec or --measured",
        ),
        Signalling::Yessir => _ = flowspec(options),
        Signalling::Nsis if loops || streams || options.rate.is_none() => {
            wrong_usage("with --protocol nsis, --rate says how much, and --at-least what will do")
        }
        Signalling::Nsis => return,
        Signalling::Ping => super::nsis::reserves_nothing(),
    }
    if has_nsis_options(&options.nsis_options) {
        wrong_usage("--at-least, --by-receiver, --reliable and --secure need --protocol nsis");
    }
}

/// Requested rates, forward and reverse.
fn wanted(of: &LoopOptions) -> (Rate, Rate) {
    (of.forward.unwrap_or_default(), of.reverse.unwrap_or_default())
}

fn has_loop_options(options: &ReserveOptions) -> bool {
    let of = &options.loop_options;
    of.forward.is_some()
        || of.reverse.is_some()
        || !of.or.is_empty()
        || of.accept_less
        || of.secret.is_some()
}

fn has_stream_options(of: &StreamOptions) -> bool {
    of.codec.is_some()
        || of.class.is_some()
        || of.measured
        || of.shared
        || of.mux
        || of.unconfirmed
        || of.key.is_some()
}

fn has_nsis_options(of: &NsisOptions) -> bool {
    of.at_least.is_some() || of.by_receiver || of.reliable || of.secure
}

/// Sends a Boomerang message and waits for it to return.
pub(super) fn reserve_loop(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let of = &options.loop_options;
    let (forward, reverse) = wanted(of);
    let Traffic { to, from, ip_protocol, hold, .. } = options.traffic;
    let request = Loop {
        from,
        ip_protocol,
        wishes: [ReservationRequest { forward, reverse }]
            .into_iter()
            .chain(of.or.iter().copied())
            .collect(),
        on_refusal: if of.accept_less { OnRefusal::TakeOffer } else { OnRefusal::Release },
        query: options.query,
        user: account(options)?,
        hold: true,
        follow: true,
        ..Loop::new(to, forward, reverse)
    };
    let opened: Opened = client.call(&Request::Loop(request))?;
    let (timeout, partial) = (options.timeout, options.partial);
    let mut wait = Wait { client, opened, timeout, hold, partial, out };
    let ours = boomerang::Application(wait.opened.application);
    // Rates of the message that returned, kept until it is known which nodes take part.
    let mut granted = None;
    let mut text = String::new();
    while let Some(notice) = wait.next()? {
        use boomerang::Event::*;
        let Event::Boomerang(event) = &notice.event else { continue };
        match event {
            Established { application, rates, .. } | Changed { application, rates }
                if *application == ours =>
            {
                granted = Some(*rates);
                // No node answers for a group, so the nodes are not counted either.
                if to.ip().is_multicast() {
                    let reach = reach_of(&notice);
                    return wait.reserved(&notice, loop_granted(rates, to, reach, &mut text));
                }
            }
            Reached { application, .. } if *application == ours => {
                let reach = reach_of(&notice);
                let rates = granted.unwrap_or_default();
                if reach.kind == Kind::Unanswered {
                    let (why, hint) = ("no node on the way back has reserved", RUN_DAEMONS);
                    return wait.timed_out(&reach, options.timeout, why, hint);
                }
                let granted = loop_granted(&rates, to, reach, &mut text);
                return wait.reserved(&notice, granted);
            }
            Offered { application, offer, .. } if *application == ours => {
                text = format!("{} could be had to {to}", describe::rates(offer));
                let more = json!({ "offer": rates_json(offer) });
                return wait.offered(Granted { what: &text, reach: reach_of(&notice), more });
            }
            Refused { application, offer, reaction: OnRefusal::Release }
                if *application == ours =>
            {
                let offered = describe::rates(offer);
                let hint = match *offer {
                    Rates::ZERO => "release other reservations; `earmark show links` on each router tells what is left"
                        .to_owned(),
                    _ => format!("{offered} could be had: ask for that, or say --accept-less"),
                };
                let refusal = Refusal {
                    why: "a node on the way has not that much left",
                    hint: &hint,
                    reach: reach_of(&notice),
                    more: json!({ "offer": rates_json(offer) }),
                };
                return wait.refused(&notice, refusal);
            }
            Released { application } if *application == ours => {
                let (why, hint) = ("nothing was offered", "ask for less");
                let (reach, more) = (Reach::default(), json!({}));
                return wait.refused(&notice, Refusal { why, hint, reach, more });
            }
            _ => {}
        }
    }
    let (why, hint) = match granted {
        None => (
            "the loop has not come back",
            "does the far end answer pings (`ping` it), and does no router on the way drop them?",
        ),
        Some(_) => ("the loop that counts who takes part has not come back", RUN_DAEMONS),
    };
    wait.timed_out(&Reach::default(), options.timeout, why, hint)
}

const RUN_DAEMONS: &str = "does a daemon with `boomerang` run on every router?";

/// The granted reservation of a loop; `text` holds its description.
fn loop_granted<'t>(
    rates: &Rates,
    to: SocketAddr,
    reach: Reach,
    text: &'t mut String,
) -> Granted<'t> {
    *text = format!("{} for {to}", describe::rates(rates));
    Granted { what: text, reach, more: rates_json(rates) }
}

fn account(options: &ReserveOptions) -> Result<Option<Account>, Failure> {
    let (Some(name), Some(file)) = (&options.traffic.who.user, &options.loop_options.secret) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new("input_output", format!("cannot read {}: {error}", file.display()), "")
    })?;
    let secret = Secret::from(text.trim_end_matches('\n').to_owned());
    Ok(Some(Account { name: name.clone(), secret }))
}

fn rates_json(rates: &Rates) -> Value {
    json!({ "forward_bps": rates.forward, "reverse_bps": rates.reverse })
}

/// Announces a stream and waits for the answer of a receiver.
pub(super) fn reserve_stream(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let of = &options.stream_options;
    let Traffic { to, from, hold, ttl, .. } = options.traffic;
    let any: IpAddr = match to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = from.unwrap_or(SocketAddr::new(any, to.port()));
    let request = Attach {
        shared: of.shared,
        multiplexed: of.mux,
        query: options.query,
        ttl,
        key: of.key,
        hold: true,
        follow: true,
        ..Attach::new(from, to, flowspec(options))
    };
    let opened: Opened = client.call(&Request::Attach(request))?;
    if of.unconfirmed {
        if !hold {
            client.keep(opened.application)?;
        }
        let text = format!(
            "announcing {} to {to} as application {}",
            stream_text(options),
            opened.application
        );
        return begun(&text, &opened, hold, client, out);
    }
    let (timeout, partial) = (options.timeout, options.partial);
    let mut wait = Wait { client, opened, timeout, hold, partial, out };
    let ours = yessir::Application(wait.opened.application);
    while let Some(notice) = wait.next()? {
        let Event::Yessir(yessir::Event::Answered { application, answer, .. }) = &notice.event
        else {
            continue;
        };
        if *application != ours {
            continue;
        }
        let reach = reach_of(&notice);
        if options.query {
            let what = format!("{} to {to}", describe::way(answer.path.as_ref()));
            let more = json!({ "offer": answer.path });
            return wait.offered(Granted { what: &what, reach, more });
        }
        let more = json!({ "path": answer.path, "failures": answer.failures });
        if reach.kind == Kind::Refused || !answer.failures.is_empty() && !partial {
            let why = answer.failures.first().map(describe::failure).unwrap_or_default();
            let hint = "ask for less, release other reservations there, or say --partial to keep what could be reserved";
            let node = answer.failures.first().map(|note| NodeName::Address(note.node));
            let by = Some(OutcomeSource { node, message: Message::new("receiver report") });
            let reach = Reach { by, ..reach };
            return wait.refused(&notice, Refusal { why: &why, hint, reach, more });
        }
        let mut what = format!("{} for {to}", stream_text(options));
        if !answer.failures.is_empty() {
            let notes: Vec<String> = answer.failures.iter().map(describe::failure).collect();
            what.push_str(&format!(", but not everywhere ({}),", notes.join("; ")));
        }
        return wait.reserved(&notice, Granted { what: &what, reach, more });
    }
    wait.timed_out(
        &Reach::default(),
        options.timeout,
        "no receiver has answered",
        "is `earmark listen --protocol yessir` running on the receiver? Where it cannot, say --unconfirmed",
    )
}

fn flowspec(options: &ReserveOptions) -> Flowspec {
    let (of, traffic) = (&options.stream_options, &options.traffic);
    if let Some((dscp, rate)) = of.class.zip(options.rate) {
        return Flowspec::Class { dscp, rate: OctetRate(rate.as_octets_per_second()) };
    }
    match (options.rate, of.codec, of.measured) {
        (Some(rate), _, _) => Flowspec::Intserv(FlowSpec::ControlledLoad(TokenBucket {
            rate: rate.as_octets_per_second(),
            depth: traffic.burst as f32,
            peak: traffic.peak.map_or(f32::INFINITY, Rate::as_octets_per_second),
            min_policed_unit: traffic.min_packet.min(traffic.max_packet),
            max_packet_size: traffic.max_packet,
        })),
        (None, Some(payload_type), _) => Flowspec::Codec { payload_type, frames: of.frames },
        (None, None, true) => Flowspec::Measured { window: WINDOW, headroom: HEADROOM },
        (None, None, false) => wrong_usage("--rate, --codec or --measured says how much"),
    }
}

fn stream_text(options: &ReserveOptions) -> String {
    match (options.rate, options.stream_options.codec) {
        (Some(rate), _) => rate.to_string(),
        (None, Some(codec)) => format!("RTP payload type {codec}"),
        (None, None) => "what is measured".to_owned(),
    }
}

/// Answers streams that are announced with YESSIR.
pub(super) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let says_how_much = options.rate.is_some() || options.delay.is_some();
    if says_how_much || !options.senders.is_empty() || options.wait.is_some() {
        wrong_usage(
            "with YESSIR the sender says how much: --rate, --delay, --sender and --wait have no place here",
        );
    }
    let (on, hold) = (options.on, options.hold);
    let request = Answer { hold, follow: hold, ..Answer::new(on) };
    let opened: Opened = client.call(&Request::Answer(request))?;
    let text = format!("answering streams to {on} as application {}", opened.application);
    begun(&text, &opened, hold, client, out)
}
