//! The `earmarkd` command: runs the daemon, and the commands around it (`config`, `clear`, `replay`).

mod arguments;
mod clear;
mod host_check;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde_json::json;

use earmark_control::command::{Failure, Output};
use earmark_core::SecretSeed;

use crate::config::{Config, ConfigError, EXAMPLE, reference};
use crate::daemon;
use crate::key_file::KeyFile;
use crate::log::kind::{CONFIGURATION_REFUSED, Kind, START_FAILED};
use crate::log::{Log, LogOptions};
use crate::protocol::Protocol;
use crate::protocols;
use crate::record::{self, ReplayError, ReplaySecrets};
use crate::running_config;
use arguments::{Arguments, Command, ConfigCommand, DaemonOptions};

/// Runs [`main`] with protocols of the program beside those of this project.
pub fn main_with(protocols: &[&'static dyn Protocol]) -> ExitCode {
    match protocols::add(protocols) {
        Ok(()) => main(),
        Err(error) => {
            eprintln!("earmarkd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the definition of the command line, for its man pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line, runs the daemon or a command, and returns the exit status.
pub fn main() -> ExitCode {
    let Arguments { json, daemon: options, command } = Arguments::parse();
    let mut out = Output::new(json);
    let outcome = match (&command, &options) {
        (Some(Command::Config(what)), _) => config(what, &mut out),
        (Some(Command::Clear(options)), _) => clear::clear(options, &mut out),
        (Some(Command::Replay { file, keys, secrets }), _) => {
            replay(file, keys.as_deref(), secrets.as_deref(), &mut out)
        }
        (None, Some(options)) => match daemon(options) {
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
        (None, None) => unreachable!("the configuration is required without a command"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has closed it (`earmarkd replay FILE | head`).
        Err(Failure { code: "broken_pipe", .. }) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed; the exit status still reports the failure.
            let _ = failure.print("earmarkd", json);
            ExitCode::FAILURE
        }
    }
}

/// Runs the daemon. An error is a line of the log if programs read that.
fn daemon(options: &DaemonOptions) -> Result<ExitCode, Failure> {
    let log = LogOptions { levels: options.log.clone(), format: options.log_format };
    let log = start_log(&log)?;
    let Err((kind, failure)) = run(options, &log) else { return Ok(ExitCode::SUCCESS) };
    if log.is_text() {
        return Err(failure);
    }
    log.fatal(kind, failure.message);
    Ok(ExitCode::FAILURE)
}

fn run(options: &DaemonOptions, log: &Log) -> Result<(), (&'static Kind, Failure)> {
    let loaded = running_config::load(&options.config, &options.state_directory);
    let mut config = loaded.map_err(|error| {
        let failure = Failure::new("configuration", error.to_string(), "");
        (&CONFIGURATION_REFUSED, failure)
    })?;
    if options.cleanup {
        config.keep_reservations_on_exit = false;
    }
    config.state_directory = Some(options.state_directory.clone());
    config.record_secrets = options.record_secrets;
    if let Some(socket) = &options.control {
        config.control.socket.clone_from(socket);
    }
    daemon::run(&config, log)
        .map_err(|error| (&START_FAILED, Failure::new("daemon", error.to_string(), "")))
}

/// Starts the daemon's log, with the protocols of the daemon as targets.
///
/// # Errors
/// A level is for an unknown target, or the journal is wanted and cannot be reached.
pub fn start_log(options: &LogOptions) -> Result<Log, Failure> {
    let protocols = protocols::all().map(Protocol::name);
    Log::start(options, protocols).map_err(|error| Failure::new("log", error.to_string(), ""))
}

fn config(what: &ConfigCommand, out: &mut Output) -> Result<(), Failure> {
    match what {
        ConfigCommand::Example => out.line(EXAMPLE.trim_end(), &json!({ "example": EXAMPLE }))?,
        ConfigCommand::Reference => {
            let page = reference(EXAMPLE);
            out.line(page.trim_end(), &json!({ "reference": page }))?;
        }
        ConfigCommand::Check { file, elsewhere } => check(file, *elsewhere, out)?,
    }
    Ok(())
}

/// Checks a configuration, and whether this host has what it names, unless it is for use elsewhere.
fn check(file: &Path, elsewhere: bool, out: &mut Output) -> Result<(), Failure> {
    let invalid = |error: ConfigError| {
        let place = format!("{}: {}", error.place, error.message);
        Failure::new("configuration", place, error.hint)
    };
    let config = Config::load(file).map_err(invalid)?;
    let keys = KeyFile::of(&config).map_err(invalid)?;
    let keys: usize = keys.map_or(0, |file| file.count());
    let count = config.interfaces.len();
    let obstacles = if elsewhere { Vec::new() } else { host_check::obstacles(&config) };
    let mut text = String::new();
    for found in &obstacles {
        let word = if found.prevents_start { "error" } else { "warning" };
        let _ = writeln!(text, "{word}: {}: {}\n  help: {}", found.key, found.message, found.hint);
    }
    let _ = write!(text, "{} is valid: node {}, {count} interfaces", file.display(), config.name);
    if keys > 0 {
        let _ = write!(text, ", {keys} keys");
    }
    let files: Vec<&Path> = config.files.paths().collect();
    if files.len() > 1 {
        let _ = write!(text, ", {} files", files.len());
    }
    let json = json!({
        "valid": true, "node": config.name, "interfaces": count, "keys": keys, "files": files, "here": obstacles,
    });
    out.line(&text, &json)?;
    match obstacles.iter().filter(|found| found.prevents_start).count() {
        0 => Ok(()),
        errors => Err(Failure::new(
            "configuration",
            format!("the daemon would not start on this host: {errors} of the settings above"),
            "`--elsewhere` checks a file for another host",
        )),
    }
}

fn replay(
    file: &Path,
    keys: Option<&Path>,
    secrets: Option<&Path>,
    out: &mut Output,
) -> Result<(), Failure> {
    let input = BufReader::new(open(file)?);
    let keys = keys.map(KeyFile::load).transpose().map_err(|error| {
        Failure::new("configuration", format!("{}: {}", error.place, error.message), error.hint)
    })?;
    let seed = match secrets {
        Some(path) => record::read_secrets(open(path)?).map_err(|error| {
            Failure::new(
                "recording",
                format!("{}: no secrets of a recording: {error}", path.display()),
                "`earmarkd --record-secrets` writes them",
            )
        })?,
        None => SecretSeed::None,
    };
    let secrets = ReplaySecrets { keys: keys.as_ref(), seed };
    let replayed = record::replay(input, secrets, &mut out.to).map_err(|error| match error {
        ReplayError::Write(error) => Failure::from(error),
        other => Failure::new("recording", format!("{}: {other}", file.display()), ""),
    })?;
    if !out.json {
        eprintln!("{} inputs replayed", replayed.inputs);
        if !replayed.has_seed {
            eprintln!(
                "identifiers and cookies differ from the recorded ones\n  help: record with \
                 `earmarkd --record-secrets`, and give --secrets FILE.secrets"
            );
        }
    }
    Ok(())
}

/// Opens the file, or standard input if the name is `-`.
fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let opened = File::open(file).map_err(|error| {
        Failure::new("input_output", format!("cannot read {}: {error}", file.display()), "")
    })?;
    Ok(Box::new(opened))
}
