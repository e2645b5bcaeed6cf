//! The command line: parses the arguments, runs the command, and reports the outcome as text or JSON and as an exit status.
//!
//! Every answer goes to standard output, every error to standard error. With `--json` both are JSON; an error is
//! `{"error":{"code","message","hint"}}`. For the exit status see [`Outcome`].

pub(crate) mod arguments;
mod capture;
mod change;
mod config;
#[cfg(feature = "history")]
mod history;
mod listings;
mod log;
pub(crate) mod outcome;
mod path;
pub(crate) mod reservations;
pub(crate) mod routers;
pub(crate) mod table;
pub(crate) mod token;
#[cfg(feature = "top")]
mod top;
pub(crate) mod wait;
pub(crate) mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use earmark_control::Client;
use earmark_control::command::{Failure, Output};

use crate::protocols;
use arguments::{Arguments, Command, Show};
use outcome::WRONG_USAGE;
use routers::RemoteCommand;

pub use outcome::Outcome;

/// Returns the definition of the command line, for its man pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line, runs the command, and returns the exit status.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.json;
    match carry_out(arguments) {
        Ok(outcome) => ExitCode::from(outcome as u8),
        Err(Failure { code: WRONG_USAGE, message, .. }) => {
            Arguments::command().error(ErrorKind::ArgumentConflict, message).exit()
        }
        // The reader of our output has closed it (`earmark watch | head`).
        Err(Failure { code: "broken_pipe", .. }) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed; the exit status still reports the failure.
            let _ = failure.print("earmark", json);
            ExitCode::from(Outcome::Failed as u8)
        }
    }
}

fn carry_out(arguments: Arguments) -> Result<Outcome, Failure> {
    let socket = arguments.socket();
    let Arguments { json, routers: options, command, .. } = arguments;
    match routers::of(&options, &command)?.cloned() {
        None => run(&command, &socket, &mut Output::new(json)),
        Some(names) => {
            let remote = RemoteCommand { names: &names, options: &options, socket: &socket, json };
            remote.run(&Arc::new(command), run)
        }
    }
}

/// Runs a command with the daemon that serves the socket.
fn run(command: &Command, socket: &Path, out: &mut Output) -> Result<Outcome, Failure> {
    let connect = || Client::connect(socket).map_err(Failure::from);
    match command {
        Command::Decode { file } => capture::decode(file, out),
        Command::Schema => schema(out),
        Command::Show { what: Show::Listing(what), limit } => {
            listings::show(&mut connect()?, what.clone(), *limit, out)
        }
        Command::Show { what: Show::Path(flow), limit } => {
            path::show(&mut connect()?, flow, *limit, out)
        }
        Command::Send(options) => protocols::send(&mut connect()?, options, out),
        Command::Listen(options) => protocols::listen(&mut connect()?, options, out),
        Command::Reserve(options) => {
            protocols::check(options)?;
            protocols::reserve(&mut connect()?, options, out)
        }
        Command::Change(options) => {
            change::check(options)?;
            change::change(&mut connect()?, options, out)
        }
        Command::Release(which) => reservations::release(&mut connect()?, which, out),
        Command::Trace(options) => protocols::trace(&mut connect()?, options, out),
        Command::Ping(options) => protocols::ping(&mut connect()?, options, out),
        Command::Open(options) => {
            let request = options.request()?;
            protocols::open(&mut connect()?, options, request, out)
        }
        Command::Expose(options) => protocols::expose(&mut connect()?, options, out),
        #[cfg(feature = "history")]
        Command::History(options) => history::history(options, out),
        #[cfg(feature = "history")]
        Command::Usage(options) => history::usage(options, out),
        Command::Log(command) => log::carry_out(&mut connect()?, command, out),
        Command::Config(command) => config::carry_out(&mut connect()?, command, out),
        Command::Token(command) => token::carry_out(command, out),
        Command::Watch(options) => watch::watch(&mut connect()?, options, out),
        #[cfg(feature = "top")]
        Command::Top(options) => top::top(socket, options, out),
    }
}

/// Prints the JSON Schema of the control protocol.
fn schema(out: &mut Output) -> Result<Outcome, Failure> {
    let schema = earmark_control::schema::document();
    out.line(&format!("{schema:#}"), &schema)?;
    Ok(Outcome::Done)
}
