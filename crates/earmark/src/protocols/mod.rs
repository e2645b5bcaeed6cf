//! What belongs to one protocol on the command line: its arguments, its requests, and the texts of its outcomes.

mod boomerang;
mod nsis;
mod rsvp;
mod yessir;

use clap::{Args, ValueEnum};
use earmark_control::Client;

use crate::cli::arguments::{ListenOptions, ReserveOptions};
use crate::cli::{Failure, Outcome, Output, wrong_usage};

pub(crate) use nsis::ping::{PingOptions, ping};
pub(crate) use rsvp::{send, trace::trace};

/// Protocols that the command line can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolName {
    #[value(help = rsvp::HELP)]
    Rsvp,
    #[value(help = boomerang::HELP)]
    Boomerang,
    #[value(help = yessir::HELP)]
    Yessir,
    #[value(help = nsis::HELP)]
    Nsis,
}

/// What only one protocol has.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    boomerang: boomerang::Options,
    #[command(flatten)]
    yessir: yessir::Options,
    #[command(flatten)]
    nsis: nsis::Options,
}

/// Returns the help of `earmark reserve`.
pub(crate) fn reserve_help() -> String {
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
Below the first line stands how far the reservation reaches, and by whose word. Where hops of the path take no part it is
released again, unless --partial says that less will do.

The reservation lasts until `earmark release`; with --hold, until this command ends.
Exit status: 0 reserved, 3 refused, 4 nobody answered in time, 5 only a part of the path takes part, 6 only this node does
(5 and 6: nothing is left behind).";

/// Returns the help of `earmark listen`.
pub(crate) fn listen_help() -> String {
    let examples = [rsvp::LISTEN_EXAMPLES, yessir::LISTEN_EXAMPLES, nsis::LISTEN_EXAMPLES];
    let nobody = boomerang::NOBODY_LISTENS;
    format!("Examples:\n{}\n\n{nobody}.\n\n{LISTEN_END}", examples.join("\n"))
}

const LISTEN_END: &str = "\
Shared styles (wf, se) fit a conference, where one speaks at a time: a shared reservation is as large as the most
demanding sender needs. All receivers of a session must use the same style.

It lasts until `earmark release`; with --hold, until this command ends. Whether something was refused,
`earmark show applications` tells, or with --hold this command.
Exit status with --wait: 0 reserved, 3 refused, 4 nobody answered in time.";

/// Ends the program if options contradict the protocol.
pub(crate) fn check(options: &ReserveOptions) {
    let own = &options.own;
    for (protocol, is_given, names) in [
        (ProtocolName::Boomerang, own.boomerang.are_given(), boomerang::OPTIONS),
        (ProtocolName::Yessir, own.yessir.are_given(), yessir::OPTIONS),
        (ProtocolName::Nsis, own.nsis.are_given(), nsis::OPTIONS),
    ] {
        if is_given && protocol != options.protocol {
            let value = protocol.to_possible_value();
            let name = value.as_ref().map_or("", |value| value.get_name());
            wrong_usage(&format!("{names} need --protocol {name}"));
        }
    }
    match options.protocol {
        ProtocolName::Rsvp => rsvp::check(options),
        ProtocolName::Boomerang => boomerang::check(options),
        ProtocolName::Yessir => yessir::check(options),
        ProtocolName::Nsis => nsis::check(options),
    }
}

/// Reserves, and waits for the outcome.
pub(crate) fn reserve(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol {
        ProtocolName::Rsvp => rsvp::reserve(client, options, out),
        ProtocolName::Boomerang => boomerang::reserve(client, options, out),
        ProtocolName::Yessir => yessir::reserve(client, options, out),
        ProtocolName::Nsis => nsis::reserve(client, options, out),
    }
}

/// Answers senders that announce themselves.
pub(crate) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol {
        ProtocolName::Rsvp => rsvp::listen(client, options, out),
        ProtocolName::Boomerang => boomerang::nobody_listens(),
        ProtocolName::Yessir => yessir::listen(client, options, out),
        ProtocolName::Nsis => nsis::listen(client, options, out),
    }
}
