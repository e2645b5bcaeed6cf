//! The command line: parses the arguments, runs the command, and reports the outcome as text or JSON and as an exit status.
//!
//! Every answer goes to standard output, every error to standard error. With `--json` both are JSON; an error is
//! `{"error":{"code","message","hint"}}`. For the exit status see [`Outcome`].

mod arguments;
mod clear;
mod light;
mod listings;
mod nsis;
mod outcome;
mod path;
mod reservations;
mod service;
mod trace;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;
use serde_json::json;

use crate::client::ClientError;
use arguments::{Arguments, Command, Show};

/// Outcome of a command, and its exit status. Wrong usage is 2, by convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded.
    Done = 0,
    /// The command failed.
    Failed = 1,
    /// A reservation was refused.
    Refused = 3,
    /// No answer arrived in time.
    TimedOut = 4,
    /// Only a part of the path was reserved or queried, and `--partial` was not given.
    Part = 5,
    /// No other node takes part, and `--partial` was not given.
    OnlyHere = 6,
}

/// Parses the command line, runs the command, and returns the exit status.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.json;
    match carry_out(arguments) {
        Ok(outcome) => ExitCode::from(outcome as u8),
        // The reader of our output has closed it (`earmark watch | head`).
        Err(Failure { code: "broken_pipe", .. }) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed; the exit status still reports the failure.
            let _ = failure.print(json);
            ExitCode::from(Outcome::Failed as u8)
        }
    }
}

fn carry_out(arguments: Arguments) -> Result<Outcome, Failure> {
    let socket = arguments.socket();
    let Arguments { control, json, command } = arguments;
    let mut out = Output { json, to: io::stdout().lock() };
    let connect = || crate::client::Client::connect(&socket).map_err(Failure::from);
    match command {
        Command::Daemon(options) => service::daemon(&options, control),
        Command::Config(what) => service::config(&what, &mut out),
        Command::Replay { file, keys } => service::replay(&file, keys.as_deref(), &mut out),
        Command::Decode { file } => service::decode(&file, &mut out),
        Command::Show { what: Show::Listing(what), limit } => {
            listings::show(&mut connect()?, what, limit, &mut out)
        }
        Command::Show { what: Show::Path(flow), limit } => {
            path::show(&mut connect()?, &flow, limit, &mut out)
        }
        Command::Send(options) => reservations::send(&mut connect()?, &options, &mut out),
        Command::Listen(options) => reservations::listen(&mut connect()?, &options, &mut out),
        Command::Reserve(options) => {
            light::check(&options);
            reservations::reserve(&mut connect()?, &options, &mut out)
        }
        Command::Release(which) => reservations::release(&mut connect()?, &which, &mut out),
        Command::Trace(options) => trace::trace(&mut connect()?, &options, &mut out),
        Command::Ping(options) => nsis::ping(&mut connect()?, &options, &mut out),
        Command::Clear(options) => clear::clear(&options, &mut out),
        Command::Watch(options) => watch::watch(&mut connect()?, &options, &mut out),
    }
}

/// Standard output, as text or JSON.
struct Output {
    json: bool,
    to: io::StdoutLock<'static>,
}

impl Output {
    /// Prints one line: the text, or the JSON object.
    fn line(&mut self, text: &str, json: &impl Serialize) -> Result<(), Failure> {
        if self.json {
            serde_json::to_writer(&mut self.to, json).map_err(io::Error::from)?;
            writeln!(self.to)?;
        } else {
            writeln!(self.to, "{text}")?;
        }
        // A reader may wait for the line at the other end of a pipe.
        self.to.flush()?;
        Ok(())
    }
}

/// Failure of a command: a code for programs, a message for people, and a hint what to do.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: &'static str,
    message: String,
    hint: String,
}

impl Failure {
    fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), hint: hint.into() }
    }

    fn print(&self, json: bool) -> io::Result<()> {
        let Failure { code, message, hint } = self;
        let mut to = io::stderr().lock();
        if json {
            let error = json!({ "error": { "code": code, "message": message, "hint": hint } });
            return writeln!(to, "{error}");
        }
        writeln!(to, "earmark: {message}")?;
        if hint.is_empty() { Ok(()) } else { writeln!(to, "  help: {hint}") }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let code = match &error {
            ClientError::Connect { .. } => "cannot_connect",
            ClientError::Lost(_) => "connection_lost",
            ClientError::Garbled(_) | ClientError::OtherVersion { .. } => "other_protocol",
            ClientError::Refused(problem) => problem.code.name(),
        };
        Failure::new(code, error.to_string(), error.hint())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let code = match error.kind() {
            io::ErrorKind::BrokenPipe => "broken_pipe",
            _ => "input_output",
        };
        Failure::new(code, error.to_string(), "")
    }
}
