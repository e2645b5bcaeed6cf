//! Protocols on the command line: the arguments, requests and outcome texts of each.

mod boomerang;
mod nsis;
mod rsvp;
mod yessir;

use std::net::IpAddr;

use clap::{Arg, Args, ValueEnum};
use earmark_control::command::{Failure, Output};
use earmark_control::{ApplicationRow, Client, Event, Role};
use earmark_core::Rate;
use earmark_core::outcome::Outcome as Reach;
use serde_json::{Map, Value};

use crate::cli::arguments::reservation::{Receiver, Reservation};
use crate::cli::outcome::{Outcome, wrong_usage};

pub(crate) use nsis::natfw::{ExposeOptions, OpenOptions, PINHOLES, TRANSLATIONS, expose, open};
pub(crate) use nsis::ping::{PingOptions, ping};
pub(crate) use nsis::{ASSOCIATIONS, ROUTING_STATE, SHOW_EXAMPLES};
pub(crate) use rsvp::trace::{TraceOptions, trace};
pub(crate) use rsvp::{SendOptions, send};

/// Example of a level for the log of one protocol.
pub(crate) const LOG_EXAMPLE: &str =
    "  earmark log set rsvp=debug 10m  # for ten minutes: each event of one protocol";

/// Protocols that the command line can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolName {
    #[value(help = rsvp::HELP)]
    Rsvp,
    #[value(help = boomerang::HELP)]
    Boomerang,
    #[value(help = yessir::HELP)]
    Yessir,
    #[value(help = nsis::HELP)]
    Nsis,
}

/// Answer senders that announce data for this host or a group: reserve for them, or report what is reserved.
#[derive(Args, Debug)]
#[command(after_help = listen_help(), mut_arg("back", |arg| arg.help(nsis::BACK)))]
pub(crate) struct ListenOptions {
    /// Protocol by which senders announce data.
    #[arg(long, value_name = "NAME", default_value = "rsvp")]
    protocol: ProtocolName,
    #[command(flatten)]
    pub(crate) receiver: Receiver,
}

/// Reserve for a flow from or to this host, and wait for the outcome.
#[derive(Args, Debug)]
#[command(
    after_help = reserve_help(),
    mut_arg("rate", |arg| with_note(arg, boomerang::RATE_NOTE)),
    mut_arg("query", |arg| with_note(arg, rsvp::QUERY_NOTE)),
    mut_arg("partial", |arg| with_note(arg, yessir::PARTIAL_NOTE)),
)]
pub(crate) struct ReserveOptions {
    /// Reservation protocol.
    #[arg(long, value_name = "NAME", default_value = "rsvp")]
    protocol: ProtocolName,
    #[command(flatten)]
    reservation: Reservation,
    #[command(flatten)]
    own: Options,
}

/// Appends a sentence about one protocol to the help of an argument that all have.
fn with_note(arg: Arg, note: &str) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help}. {note}"))
}

/// What only one protocol has.
#[derive(Args, Clone, Debug)]
struct Options {
    #[command(flatten)]
    boomerang: boomerang::Options,
    #[command(flatten)]
    yessir: yessir::Options,
    #[command(flatten)]
    nsis: nsis::Options,
}

/// Returns the help of `earmark reserve`.
fn reserve_help() -> String {
    let examples = [
        rsvp::RESERVE_EXAMPLES,
        boomerang::RESERVE_EXAMPLES,
        yessir::RESERVE_EXAMPLES,
        nsis::RESERVE_EXAMPLES,
    ];
    let about = [rsvp::ABOUT, boomerang::ABOUT, yessir::ABOUT, nsis::ABOUT];
    format!("Examples:\n{}\n\n{}\n\n{RESERVE_END}", examples.join("\n"), about.join("\n\n"))
}

const RESERVE_END: &str = "\
The second line of the output states the extent of the reservation, and the node that reported it. If hops of the path take
no part, the reservation is released again, unless --partial is given.

The reservation lasts until `earmark release`; with --hold, until this command ends.
Exit status: 0 reserved, 3 refused, 4 nobody answered in time, 5 only a part of the path takes part, 6 only this node does
(5 and 6: nothing is left behind).";

/// Returns the help of `earmark listen`.
fn listen_help() -> String {
    let examples = [rsvp::LISTEN_EXAMPLES, yessir::LISTEN_EXAMPLES, nsis::LISTEN_EXAMPLES];
    let nobody = boomerang::NOBODY_LISTENS;
    format!("Examples:\n{}\n\n{nobody}.\n\n{LISTEN_END}", examples.join("\n"))
}

const LISTEN_END: &str = "\
Shared styles (wf, se) fit a conference, in which one speaks at a time: a shared reservation is as large as the most
demanding sender needs. All receivers of a session must use the same style.

It lasts until `earmark release`; with --hold, until this command ends. Refusals are listed by `earmark show applications`,
and printed by this command with --hold.
Exit status with --wait: 0 reserved, 3 refused, 4 nobody answered in time.";

pub(crate) const CAPTURE_EXAMPLES: &str = "  tcpdump -i eth0 -w signalling.pcap ip proto 46
  tcpdump -i eth0 -w signalling.pcap 'proto 46 or icmp or icmp6 or udp'    # Boomerang and YESSIR, too";

/// Returns whether the protocol of this name records neighboring hops, for listings.
pub(crate) fn records_hops(protocol: &str) -> bool {
    protocol == "rsvp"
}

pub(crate) const CHANGE_NOTE: &str = rsvp::CHANGE_NOTE;

/// Returns the options that change the rates of both directions.
pub(crate) fn both_rates(forward: Rate, reverse: Rate) -> Map<String, Value> {
    boomerang::both_rates(forward, reverse)
}

/// Returns whether a more exact outcome follows an event about a reservation to this destination.
pub(crate) fn is_preliminary(event: &Event, destination: IpAddr) -> bool {
    event.protocol == "boomerang" && boomerang::is_preliminary(event, destination)
}

/// Returns how far a changed reservation reaches, which an event reports as `reach`.
pub(crate) fn verify_change(
    client: &mut Client,
    application: &ApplicationRow,
    event: &Event,
    reach: Reach,
) -> Result<Reach, Failure> {
    match event.protocol.as_str() {
        "rsvp" => rsvp::verify_change(client, application, event, reach),
        _ => Ok(reach),
    }
}

/// Returns the rate that is reserved according to an event, if it says so.
pub(crate) fn granted_rate(event: &Event) -> Option<Rate> {
    match event.protocol.as_str() {
        "rsvp" => rsvp::granted_rate(event),
        "nsis" => nsis::granted_rate(event),
        _ => None,
    }
}

/// Returns advice about a changed request that nobody has confirmed.
pub(crate) fn unconfirmed_change_help(application: &ApplicationRow) -> &'static str {
    match (application.protocol.as_str(), application.role) {
        ("rsvp", Role::Sender) => rsvp::UNCONFIRMED_CHANGE,
        _ => "`earmark show applications` shows what stands; is a daemon running on every router?",
    }
}

/// Refuses options that contradict the protocol.
pub(crate) fn check(options: &ReserveOptions) -> Result<(), Failure> {
    let ReserveOptions { protocol, reservation, own } = options;
    for (owner, is_given, names) in [
        (ProtocolName::Boomerang, own.boomerang.are_given(), boomerang::OPTIONS),
        (ProtocolName::Yessir, own.yessir.are_given(), yessir::OPTIONS),
        (ProtocolName::Nsis, own.nsis.are_given(), nsis::OPTIONS),
    ] {
        if is_given && owner != *protocol {
            let value = owner.to_possible_value();
            let name = value.as_ref().map_or("", |value| value.get_name());
            return Err(wrong_usage(&format!("{names} require --protocol {name}")));
        }
    }
    match protocol {
        ProtocolName::Rsvp => rsvp::check(reservation),
        ProtocolName::Boomerang => boomerang::check(reservation, &own.boomerang),
        ProtocolName::Yessir => yessir::check(reservation, &own.yessir),
        ProtocolName::Nsis => nsis::check(reservation),
    }
}

/// Reserves, and waits for the outcome.
pub(crate) fn reserve(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let ReserveOptions { protocol, reservation, own } = options;
    match protocol {
        ProtocolName::Rsvp => rsvp::reserve(client, reservation, out),
        ProtocolName::Boomerang => boomerang::reserve(client, reservation, &own.boomerang, out),
        ProtocolName::Yessir => yessir::reserve(client, reservation, &own.yessir, out),
        ProtocolName::Nsis => nsis::reserve(client, reservation, &own.nsis, out),
    }
}

/// Answers senders that announce themselves.
pub(crate) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let receiver = &options.receiver;
    if receiver.who.token.is_some() && options.protocol == ProtocolName::Yessir {
        return Err(wrong_usage("--token: receivers of YESSIR reserve nothing, senders do"));
    }
    match options.protocol {
        ProtocolName::Rsvp => rsvp::listen(client, receiver, out),
        ProtocolName::Boomerang => boomerang::listen(),
        ProtocolName::Yessir => yessir::listen(client, receiver, out),
        ProtocolName::Nsis => nsis::listen(client, receiver, out),
    }
}
