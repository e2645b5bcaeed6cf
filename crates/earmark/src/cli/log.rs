//! `earmark log`: shows and sets the levels of the daemon's log.

use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use earmark_control::command::{Failure, Output};
use earmark_control::{Client, LogAnswer, LogLevels, LogRequest, LogTargetRow};
use earmark_core::amounts::{parse_duration, show_duration};

use super::outcome::Outcome;
use super::table::new_table;

/// What to do with the levels of the log.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// List the targets of the log with their levels.
    Show,
    Set(SetOptions),
    /// Return all targets to the levels of the daemon's start.
    Reset,
}

/// Set levels: `off`, `error`, `warn`, `info`, `debug` or `trace`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SetOptions {
    /// Level of all targets, or levels by target: `debug`, `ledger=debug`, `warn,ledger=debug`.
    #[arg(value_name = "LEVELS")]
    pub(crate) levels: LogLevels,
    /// Time after which these targets return to the levels of the daemon's start: 30s, 10m, 2h. Without it they stay as set
    /// until `reset` or the daemon's end.
    #[arg(value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,
}

impl LogCommand {
    fn request(&self) -> LogRequest {
        match self {
            LogCommand::Show => LogRequest::default(),
            LogCommand::Reset => LogRequest { reset: true, ..LogRequest::default() },
            LogCommand::Set(SetOptions { levels, time }) => {
                let for_ms = time.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
                LogRequest { reset: false, set: levels.0.clone(), for_ms }
            }
        }
    }
}

/// Sends the request and prints the levels after it.
pub(super) fn carry_out(
    client: &mut Client,
    command: &LogCommand,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let answer = client.log(command.request())?;
    out.line(&text(&answer), &answer)?;
    Ok(Outcome::Done)
}

fn text(answer: &LogAnswer) -> String {
    let mut table = new_table(&["target", "level", "at start", "for", "lines"]);
    for LogTargetRow { target, level, started_with, for_ms, about } in &answer.targets {
        let left = for_ms.map_or("-".to_owned(), |ms| show_duration(Duration::from_millis(ms)));
        let cells =
            [target.clone(), level.to_string(), started_with.to_string(), left, about.clone()];
        table.add_row(cells.map(Cell::new));
    }
    format!("{table}\nform: {}", answer.format)
}

#[cfg(test)]
mod tests {
    use earmark_control::LogLevel;

    use super::*;

    fn row(target: &str, level: LogLevel, for_ms: Option<u64>) -> LogTargetRow {
        let (target, about) = (target.to_owned(), "what it does".to_owned());
        LogTargetRow { target, level, started_with: LogLevel::Info, for_ms, about }
    }

    #[test]
    fn levels_are_listed_with_the_time_that_is_left() {
        let targets =
            vec![row("ledger", LogLevel::Debug, Some(90_000)), row("audit", LogLevel::Info, None)];
        let text = text(&LogAnswer { format: "journal".to_owned(), targets });
        let has = |cells: &[&str]| {
            text.lines().any(|line| cells.iter().all(|cell| line.contains(&format!(" {cell} "))))
        };
        assert!(has(&["ledger", "debug", "info", "90 s"]), "{text}");
        assert!(has(&["audit", "info", "-"]), "{text}");
        assert!(text.ends_with("form: journal"), "{text}");
    }
}
