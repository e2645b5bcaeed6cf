//! What belongs to one protocol on the command line: its arguments, its requests, and the texts of its outcomes.

pub(crate) mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use clap::ValueEnum;
use earmark_control::Client;

use crate::cli::arguments::{ListenOptions, ReserveOptions};
use crate::cli::{Failure, Outcome, Output};

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

/// Ends the program if options contradict the protocol.
pub(crate) fn check(options: &ReserveOptions) {
    match options.protocol {
        ProtocolName::Rsvp => rsvp::check(options),
        ProtocolName::Boomerang => boomerang::check(options),
        ProtocolName::Yessir => yessir::check(options),
        ProtocolName::Nsis => return nsis::check(options),
    }
    nsis::refuse_options(options);
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
