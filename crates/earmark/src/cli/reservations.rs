//! `earmark send`, `listen`, `reserve` and `release`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use earmark_core::Rate;
use earmark_node::{Ask, Event};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::ErrorSpec;
use serde_json::{Value, json};

use super::arguments::{ListenOptions, ReleaseOptions, ReserveOptions, SendOptions, Traffic};
use super::{Failure, Outcome, Output, light, nsis};
use crate::client::Client;
use crate::control::protocol::{Listen, Notice, Opened, Role, Send, Signalling};
use crate::describe;
use earmark_core::amounts::show_duration;

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
    // Until the outcome of a wait is good the application hangs on our connection, so that nothing is left behind.
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
        let (to, hold, rate) = (options.on, options.hold, options.rate);
        return wait(client, &Awaited { opened, to, rate, timeout, hold }, out);
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

/// Opens both ends' work that this host can do, and waits for what comes of it. Until the outcome is good the
/// application hangs on our connection, so that nothing is left behind whatever ends us.
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
    let Traffic { to, hold, .. } = options.traffic;
    let opened = client.reserve(Send { hold: true, ..request(&options.traffic, rate, true) })?;
    let (rate, timeout) = (Some(rate), options.timeout);
    wait(client, &Awaited { opened, to, rate, timeout, hold }, out)
}

/// A reservation that is waited for.
struct Awaited {
    opened: Opened,
    /// Where the data goes.
    to: SocketAddr,
    /// What was asked for, where that is known.
    rate: Option<Rate>,
    timeout: Duration,
    /// Whether it is to end with this command.
    hold: bool,
}

/// Waits for the outcome, and says it.
fn wait(client: &mut Client, awaited: &Awaited, out: &mut Output) -> Result<Outcome, Failure> {
    let Awaited { opened, timeout, hold, .. } = awaited;
    let deadline = Instant::now() + *timeout;
    let mut heard_sender = false;
    loop {
        let Some(notice) = client.next_event(Some(deadline))? else {
            client.release(opened.application)?;
            let (why, hint) = silence(opened.role, heard_sender);
            let time = show_duration(*timeout);
            let text = format!("no answer within {time}: {why}\n  help: {hint}");
            let role = opened.role;
            let json = json!({ "outcome": "timed_out", "role": role, "reason": why, "hint": hint });
            out.line(&text, &json)?;
            return Ok(Outcome::TimedOut);
        };
        match verdict(&notice.event) {
            Verdict::Reserved(rate_bps) => {
                if !hold {
                    client.keep(opened.application)?;
                }
                let rate = rate_bps.map(Rate::from_bps).or(awaited.rate);
                reserved(awaited, &notice, rate, out)?;
                return if *hold { follow(client, out) } else { Ok(Outcome::Done) };
            }
            Verdict::Refused { error, available } => {
                client.release(opened.application)?;
                refused(opened, &notice, &error, available, out)?;
                return Ok(Outcome::Refused);
            }
            Verdict::Impossible(reason) => {
                client.release(opened.application)?;
                return Err(Failure::new("rejected", reason, ""));
            }
            Verdict::SenderHeard => heard_sender = true,
            Verdict::Open => {}
        }
    }
}

/// What an event means for a reservation that is waited for.
enum Verdict {
    /// It stands; with the rate where the event tells, bits per second.
    Reserved(Option<u64>),
    /// A node on the path refused it; this host's own tells what could have been had.
    Refused { error: ErrorSpec, available: Option<Rate> },
    /// The node here cannot do it; why.
    Impossible(String),
    /// There is a sender to reserve for.
    SenderHeard,
    /// Nothing yet.
    Open,
}

fn verdict(event: &Event) -> Verdict {
    let event = match event {
        Event::Rsvp(event) => event,
        Event::NoAnswer { reason, .. } => return Verdict::Impossible(reason.to_string()),
        // Of other applications.
        Event::NotAdopted { .. }
        | Event::Aggregate { .. }
        | Event::Enforcement { .. }
        | Event::Boomerang(_)
        | Event::Yessir(_)
        | Event::Nsis(_) => return Verdict::Open,
    };
    match event {
        rsvp::Event::Resv { flowspec, .. } => {
            Verdict::Reserved(Some(describe::rate(flowspec).as_bps()))
        }
        rsvp::Event::Confirmed { .. } => Verdict::Reserved(None),
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

/// What did not come, and why that may be.
fn silence(role: Role, heard_sender: bool) -> (&'static str, &'static str) {
    match (role, heard_sender) {
        (Role::Sender | Role::Initiator, _) => (
            "no reservation has come up the path",
            "either nobody asked for one: is `earmark listen` running on the receiver, and a daemon on every router? \
             Or a router refused it, which RSVP tells the receiver alone: `earmark show applications` there shows the \
             refusal",
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

fn reserved(
    awaited: &Awaited,
    notice: &Notice,
    rate: Option<Rate>,
    out: &mut Output,
) -> Result<(), Failure> {
    let Awaited { opened, to, hold, .. } = awaited;
    let application = opened.application;
    let setup = Duration::try_from_secs_f64(notice.at_s - opened.at_s).unwrap_or_default();
    let end = if *hold {
        "it ends with this command".to_owned()
    } else {
        format!("`earmark release {application}` ends it")
    };
    // A receiver that takes what senders announce is told that it stands, not how much it is.
    let much = rate.map_or(String::new(), |rate| format!("{rate} "));
    let text = format!("reserved {much}to {to} in {}; {end}", show_duration(setup));
    let json = json!({
        "outcome": "reserved",
        "application": application,
        "role": opened.role,
        "rate_bps": rate,
        "setup_ms": setup.as_secs_f64() * 1e3,
    });
    out.line(&text, &json)
}

fn refused(
    opened: &Opened,
    notice: &Notice,
    error: &ErrorSpec,
    available: Option<Rate>,
    out: &mut Output,
) -> Result<(), Failure> {
    let reason = describe::error_text(error);
    let advice = describe::advice(error, available);
    let after = Duration::try_from_secs_f64(notice.at_s - opened.at_s).unwrap_or_default();
    let json = json!({
        "outcome": "refused",
        "role": opened.role,
        "reason": reason,
        "hint": advice,
        "error": error_json(error),
        "available_bps": available,
        "after_ms": after.as_secs_f64() * 1e3,
    });
    let help = advice.map_or(String::new(), |advice| format!("\n  help: {advice}"));
    out.line(&format!("refused after {}: {reason}{help}", show_duration(after)), &json)
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

/// Says what was begun, and stays with it where it is to be held.
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

/// Prints what happens to our application until a signal or the daemon ends us.
pub(super) fn follow(client: &mut Client, out: &mut Output) -> Result<Outcome, Failure> {
    while let Some(notice) = client.next_event(None)? {
        super::watch::print(&notice, out)?;
    }
    Ok(Outcome::Done)
}
