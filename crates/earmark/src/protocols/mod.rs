//! What belongs to one protocol on the command line: its arguments, its requests, and the texts of its outcomes.

pub(crate) mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use earmark_control::{Client, Signalling};

use crate::cli::arguments::{ListenOptions, ReserveOptions};
use crate::cli::{Failure, Outcome, Output};

/// Protocols that the command line can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolName(pub(crate) Signalling);

impl ValueEnum for ProtocolName {
    fn value_variants<'a>() -> &'a [ProtocolName] {
        &[
            ProtocolName(Signalling::Rsvp),
            ProtocolName(Signalling::Boomerang),
            ProtocolName(Signalling::Yessir),
            ProtocolName(Signalling::Nsis),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Signalling::Rsvp => rsvp::HELP,
            Signalling::Boomerang => boomerang::HELP,
            Signalling::Yessir => yessir::HELP,
            Signalling::Nsis => nsis::HELP,
            // Ping NSLP reserves nothing and has a command of its own.
            Signalling::Ping => return None,
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

/// Ends the program if options contradict the protocol.
pub(crate) fn check(options: &ReserveOptions) {
    match options.protocol.0 {
        Signalling::Rsvp => rsvp::check(options),
        Signalling::Boomerang => boomerang::check(options),
        Signalling::Yessir => yessir::check(options),
        Signalling::Nsis => return nsis::check(options),
        Signalling::Ping => nsis::ping::reserves_nothing(),
    }
    nsis::refuse_options(options);
}

/// Reserves, and waits for the outcome.
pub(crate) fn reserve(
    client: &mut Client,
    options: &ReserveOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol.0 {
        Signalling::Rsvp => rsvp::reserve(client, options, out),
        Signalling::Boomerang => boomerang::reserve(client, options, out),
        Signalling::Yessir => yessir::reserve(client, options, out),
        Signalling::Nsis => nsis::reserve(client, options, out),
        Signalling::Ping => nsis::ping::reserves_nothing(),
    }
}

/// Answers senders that announce themselves.
pub(crate) fn listen(
    client: &mut Client,
    options: &ListenOptions,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    match options.protocol.0 {
        Signalling::Rsvp => rsvp::listen(client, options, out),
        Signalling::Boomerang => boomerang::nobody_listens(),
        Signalling::Yessir => yessir::listen(client, options, out),
        Signalling::Nsis => nsis::listen(client, options, out),
        Signalling::Ping => nsis::ping::reserves_nothing(),
    }
}
