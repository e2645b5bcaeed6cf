//! `earmark daemon` and the commands around it: `config`, `replay`, `decode`.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use earmark_decode::{DecodeError, Format, Summary};
use jiff::Timestamp;
use sd_notify::NotifyState;
use serde_json::json;
use tracing::{info, warn};

use super::arguments::{ConfigCommand, DaemonOptions};
use super::{Failure, Outcome, Output};
use crate::config::{Config, EXAMPLE, KeyFile};
use crate::daemon;
use crate::record::{self, ReplayError};
use crate::system::with_cause;

pub(super) fn daemon(options: &DaemonOptions, socket: Option<PathBuf>) -> Result<Outcome, Failure> {
    let mut config = Config::load(&options.config)
        .map_err(|error| Failure::new("configuration", error.to_string(), ""))?;
    if options.cleanup {
        config.keep_reservations_on_exit = false;
    }
    if let Some(socket) = socket {
        config.control.socket = socket;
    }
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(options.log)
        .with_target(false)
        .init();
    daemon::run(&config, ready).map_err(|error| Failure::new("daemon", error.to_string(), ""))?;
    Ok(Outcome::Done)
}

/// Reports readiness to the log, and to a service manager that waits for it (systemd's Type=notify).
fn ready() {
    info!("ready");
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        warn!("cannot tell the service manager: {error}");
    }
}

pub(super) fn config(what: &ConfigCommand, out: &mut Output) -> Result<Outcome, Failure> {
    match what {
        ConfigCommand::Example => out.line(EXAMPLE.trim_end(), &json!({ "example": EXAMPLE }))?,
        ConfigCommand::Check { file } => {
            let config = Config::load(file).map_err(|error| {
                let place = format!("{}: {}", error.place, error.message);
                Failure::new("configuration", place, error.hint)
            })?;
            let keys = config.load_keys().map_err(|error| {
                let place = format!("{}: {}", error.place, error.message);
                Failure::new("configuration", place, error.hint)
            })?;
            let keys = keys.map_or(0, |keys| keys.len());
            let count = config.interfaces.len();
            let text =
                format!("{} is valid: node {}, {count} interfaces", file.display(), config.name);
            let text = if keys > 0 { format!("{text}, {keys} keys") } else { text };
            let json =
                json!({ "valid": true, "node": config.name, "interfaces": count, "keys": keys });
            out.line(&text, &json)?;
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn decode(file: &Path, out: &mut Output) -> Result<Outcome, Failure> {
    let format = if out.json { Format::Json } else { Format::Text };
    let summary =
        earmark_decode::decode(open(file)?, &mut out.to, format).map_err(|error| match error {
            DecodeError::Write(error) => Failure::from(error),
            other => Failure::new(
                "capture",
                format!("{}: {}", file.display(), with_cause(&other)),
                "`tcpdump -w FILE` writes one",
            ),
        })?;
    if !out.json {
        let Summary { frames, messages, malformed, unknown_link_type } = summary;
        eprintln!("{frames} frames, {messages} messages, {malformed} of them malformed");
        if unknown_link_type > 0 {
            eprintln!("{unknown_link_type} frames have a link type that is not known here");
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn replay(
    file: &Path,
    keys: Option<&Path>,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let input = BufReader::new(open(file)?);
    // Only the secrets are needed: the recording contains the lifetimes of the keys.
    let keys = keys.map(KeyFile::load).transpose().map_err(|error| {
        Failure::new("configuration", format!("{}: {}", error.place, error.message), error.hint)
    })?;
    let keys = keys.map(|keys| keys.keys(Timestamp::UNIX_EPOCH)).unwrap_or_default();
    let count = record::replay(input, &keys, &mut out.to).map_err(|error| match error {
        ReplayError::Write(error) => Failure::from(error),
        other => Failure::new("recording", format!("{}: {other}", file.display()), ""),
    })?;
    if !out.json {
        eprintln!("{count} inputs replayed");
    }
    Ok(Outcome::Done)
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
