//! `earmark send`, `listen`, `reserve` and `release`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use earmark_core::Rate;
use earmark_core::outcome::{Kind, Outcome as Reach};
use earmark_node::{Ask, Event};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{ErrorSpec, FilterSpec};
use serde_json::{Value, json};

use super::arguments::{ListenOptions, ReleaseOptions, ReserveOptions, SendOptions, Traffic};
use super::outcome::{Granted, Refusal, Wait, reach_of};
use super::{Failure, Outcome, Output, light, nsis};
use crate::client::{Client, ClientError};
use crate::control::protocol::{Listen, Opened, Role, Send, SenderName, Signalling, Trace};
use crate::describe;

pub(super) fn send(
    client: &mut Client,
    options: &SendOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let traffic = &options.traffic;
    let opened = client.sender(request(traffic, options.rate, traffic.hold))?;
    let text = format!(
        "announcing {} to {} as application {}",
        options.rate, traffic.to, opened.application
    );
    begun(&text, &opened, traffic.hold, client, out)
}

pub(super) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol {
        Signalling::Rsvp => {}
        Signalling::Boomerang => light::nobody_listens(),
        Signalling::Yessir => return light::listen(client, options, out),
        Signalling::Nsis => return nsis::listen(client, options, out),
        Signalling::Ping => nsis::reserves_nothing(),
    }
    let ask = match (options.rate, options.delay) {
        (Some(rate), _) => Ask::Rate(rate),
        (None, Some(delay)) => Ask::Delay(delay),
        (None, None) => Ask::ControlledLoad,
    };
    // Until the outcome is good, the application is tied to our connection, so that nothing is left behind.
    let waits = options.wait.is_some();
    let opened = client.listen(Listen {
        ip_protocol: options.ip_protocol,
        ask,
        style: options.style.into(),
        senders: options.senders.clone(),
        confirm: waits,
        identity: options.who.identity(),
        hold: options.hold || waits,
        follow: options.hold || waits,
        ..Listen::new(options.on)
    })?;
    if let Some(timeout) = options.wait {
        let ListenOptions { on, hold, rate, ip_protocol, partial, .. } = *options;
        let wait = Wait { client, opened, timeout, hold, partial, out };
        return await_outcome(wait, &Awaited { to: on, ip_protocol, rate });
    }
    let text = format!("listening on {} as application {}", options.on, opened.application);
    begun(&text, &opened, options.hold, client, out)
}

pub(super) fn release(
    client: &mut Client,
    which: &ReleaseOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let released = match which.application {
        Some(application) => client.release(application)?,
        None => client.release_all()?,
    };
    let text = match released.applications.as_slice() {
        [] => "nothing was open".to_owned(),
        [one] => format!("released {one}"),
        many => format!("released {} applications", many.len()),
    };
    out.line(&text, &released)?;
    Ok(Outcome::Done)
}

/// Opens the sender or receiver that this host can be, and waits for the outcome. Until the outcome is good, the
/// application is tied to our connection, so that nothing is left behind however this command ends.
pub(super) fn reserve(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol {
        Signalling::Rsvp => {}
        Signalling::Boomerang => return light::reserve_loop(client, options, out),
        Signalling::Yessir => return light::reserve_stream(client, options, out),
        Signalling::Nsis => return nsis::reserve(client, options, out),
        Signalling::Ping => nsis::reserves_nothing(),
    }
    let rate = options.rate.expect("it was checked that there is one");
    let Traffic { to, hold, ip_protocol, .. } = options.traffic;
    let opened = client.reserve(Send { hold: true, ..request(&options.traffic, rate, true) })?;
    let (timeout, partial) = (options.timeout, options.partial);
    let wait = Wait { client, opened, timeout, hold, partial, out };
    await_outcome(wait, &Awaited { to, ip_protocol, rate: Some(rate) })
}

/// A reservation whose outcome is awaited.
struct Awaited {
    /// Destination of the data.
    to: SocketAddr,
    ip_protocol: u8,
    /// The requested rate, if known.
    rate: Option<Rate>,
}

/// Timeout of the trace that finds out which nodes of the path take part.
const TRACE_WITHIN: Duration = Duration::from_secs(2);

/// Waits for the outcome and reports it.
fn await_outcome(mut wait: Wait<'_>, awaited: &Awaited) -> Result<Outcome, Failure> {
    let within = wait.timeout;
    let role = wait.opened.role;
    let mut heard_sender = false;
    let mut stands = Reach::default();
    while let Some(notice) = wait.next()? {
        let reach = reach_of(&notice);
        match verdict(&notice.event) {
            Verdict::Reserved { sender, rate_bps } => {
                let reach = verified(&mut wait, awaited, sender, reach)?;
                let rate = rate_bps.map(Rate::from_bps).or(awaited.rate);
                // A receiver that reserves what senders announce learns that the reservation stands, but not its rate.
                let much = rate.map_or(String::new(), |rate| format!("{rate} "));
                let what = format!("{much}to {}", awaited.to);
                let more = json!({ "rate_bps": rate });
                return wait.reserved(&notice, Granted { what: &what, reach, more });
            }
            Verdict::Refused { error, available } => {
                let why = describe::error_text(&error);
                let hint = describe::advice(&error, available).unwrap_or_default();
                let more = json!({ "error": error_json(&error), "available_bps": available });
                return wait.refused(&notice, Refusal { why: &why, hint: &hint, reach, more });
            }
            Verdict::Impossible(reason) => {
                wait.release()?;
                return Err(Failure::new("rejected", reason, ""));
            }
            Verdict::SenderHeard => heard_sender = true,
            Verdict::Translated => stands = reach,
            Verdict::Open => {}
        }
    }
    let (why, hint) = silence(role, heard_sender);
    wait.timed_out(&stands, within, why, hint)
}

/// How far a reservation reaches. If the received messages leave that open, each node of the path is queried (RFC 2745);
/// if one does not answer in time, the known reach stays.
fn verified(
    wait: &mut Wait<'_>,
    awaited: &Awaited,
    sender: Option<FilterSpec>,
    reach: Reach,
) -> Result<Reach, Failure> {
    let is_open = matches!(reach.kind, Kind::Unverified | Kind::Part | Kind::OnlyHere);
    let Some(sender) = sender.filter(|_| is_open && !awaited.to.ip().is_multicast()) else {
        return Ok(reach);
    };
    let begun = wait.client.trace(Trace {
        from: Some(SenderName::from(&sender)),
        ip_protocol: awaited.ip_protocol,
        timeout_ms: TRACE_WITHIN.as_millis() as u32, // two thousand
        ..Trace::new(awaited.to)
    });
    let trace = match begun {
        Ok(begun) => begun.trace,
        // Too many traces are in progress, or diagnostics are disabled.
        Err(ClientError::Refused(_)) => return Ok(reach),
        Err(error) => return Err(error.into()),
    };
    let deadline = Instant::now() + TRACE_WITHIN;
    while let Some(notice) = wait.client.next_event(Some(deadline))? {
        if let Event::Rsvp(rsvp::Event::Traced { application, .. }) = &notice.event
            && application.0 == trace
        {
            let traced = notice.outcome.filter(|traced| traced.kind.is_reserved());
            let Some(traced) = traced else { break };
            let translation = reach.translation;
            return Ok(Reach { translation, ..*traced });
        }
    }
    Ok(reach)
}

/// Meaning of an event for a reservation that is awaited.
enum Verdict {
    /// The reservation stands; the rate, bits per second, if the event contains it.
    Reserved { sender: Option<FilterSpec>, rate_bps: Option<u64> },
    /// A node on the path refused the reservation; this host's own node reports the available rate.
    Refused { error: ErrorSpec, available: Option<Rate> },
    /// This node cannot reserve; the reason.
    Impossible(String),
    /// A sender is known, so that a reservation is possible.
    SenderHeard,
    /// Addresses are translated on the path.
    Translated,
    /// No outcome yet.
    Open,
}

fn verdict(event: &Event) -> Verdict {
    let event = match event {
        Event::Rsvp(event) => event,
        Event::NoAnswer { reason, .. } => return Verdict::Impossible(reason.to_string()),
        // Events of other applications.
        Event::NotAdopted { .. }
        | Event::Aggregate { .. }
        | Event::Enforcement { .. }
        | Event::Boomerang(_)
        | Event::Yessir(_)
        | Event::Nsis(_)
        | Event::Other(_) => return Verdict::Open,
    };
    match event {
        rsvp::Event::Resv { flowspec, filter, .. } => Verdict::Reserved {
            sender: Some(*filter),
            rate_bps: Some(describe::rate(flowspec).as_bps()),
        },
        rsvp::Event::Confirmed { filters, .. } => {
            Verdict::Reserved { sender: filters.as_slice().first().copied(), rate_bps: None }
        }
        rsvp::Event::Translated { .. } => Verdict::Translated,
        rsvp::Event::PathError { error, .. } | rsvp::Event::ResvError { error, .. } => {
            Verdict::Refused { error: *error, available: None }
        }
        rsvp::Event::Refused { error, available_bps, .. } => {
            Verdict::Refused { error: *error, available: Some(Rate::from_bps(*available_bps)) }
        }
        rsvp::Event::Rejected { reason, .. } => Verdict::Impossible(reason.to_string()),
        rsvp::Event::Path { .. } => Verdict::SenderHeard,
        _ => Verdict::Open,
    }
}

/// What is missing, and possible reasons.
fn silence(role: Role, heard_sender: bool) -> (&'static str, &'static str) {
    match (role, heard_sender) {
        (Role::Sender | Role::Initiator, _) => (
            "no reservation has come up the path",
            "either nobody asked for one: is `earmark listen` running on the receiver, and a daemon on every router? \
             Or a router refused it, or addresses are translated on the way, which RSVP tells the receiver alone: \
             `earmark show applications` there shows it",
        ),
        (Role::Receiver, false) => (
            "no sender has announced itself",
            "is `earmark send` running on the sender, and a daemon on every router?",
        ),
        (Role::Receiver, true) => (
            "the reservation was asked for, and neither confirmed nor refused",
            "is a daemon running on every router?",
        ),
    }
}

fn error_json(error: &ErrorSpec) -> Value {
    json!({ "code": error.code.code(), "value": error.value, "name": error.code.name(), "node": error.node })
}

fn request(traffic: &Traffic, rate: Rate, follow: bool) -> Send {
    Send {
        from: traffic.from,
        flow_label: traffic.flow_label,
        ip_protocol: traffic.ip_protocol,
        burst_octets: traffic.burst,
        peak_bps: traffic.peak,
        min_packet: traffic.min_packet.min(traffic.max_packet),
        max_packet: traffic.max_packet,
        ttl: traffic.ttl,
        identity: traffic.who.identity(),
        hold: traffic.hold,
        follow,
        ..Send::new(traffic.to, rate)
    }
}

/// Reports what was opened, and follows it if it is held.
pub(super) fn begun(
    text: &str,
    opened: &Opened,
    hold: bool,
    client: &mut Client,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let end = if hold {
        "it ends with this command".to_owned()
    } else {
        format!("`earmark release {}` ends it", opened.application)
    };
    out.line(&format!("{text}; {end}"), opened)?;
    if hold { follow(client, out) } else { Ok(Outcome::Done) }
}

/// Prints the events of our application until a signal arrives or the daemon stops.
pub(super) fn follow(client: &mut Client, out: &mut Output) -> Result<Outcome, Failure> {
    while let Some(notice) = client.next_event(None)? {
        super::watch::print(&notice, out)?;
    }
    Ok(Outcome::Done)
}
