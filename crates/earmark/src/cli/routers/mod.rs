//! `earmark --on ROUTER,...`: commands on the daemons of other machines.
//!
//! `names` parses the routers, `forwarding` has the `ssh` of one router and `connections` those of all, `labels` adds the router to
//! each line, `report` prints the failure of a router, and `hops` follows a flow from router to router.

mod connections;
mod forwarding;
mod hops;
pub(crate) mod labels;
pub(crate) mod names;
pub(crate) mod options;
mod report;
pub(crate) mod router;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use earmark_control::command::{Failure, Output};

use self::connections::Connections;
use self::labels::{Labels, labelled_output};
use self::names::RouterNames;
use self::options::RouterOptions;
use self::report::report;
use self::router::{ANSWER_TIMEOUT, Router, no_answer};
use super::arguments::{Command, Show, What};
use super::config::{ApplyOptions, ConfigCommand};
use super::log::LogCommand;
use super::outcome::{Outcome, WRONG_USAGE, wrong_usage};
use super::{listings, watch};

/// Runs a command on one daemon.
pub(super) type RunOnOne = fn(&Command, &Path, &mut Output) -> Result<Outcome, Failure>;

/// Kinds of commands, by what they do with several routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Rows of all routers in one listing.
    Listing,
    /// Events of all routers as they come.
    Events,
    /// A flow from router to router.
    Hops,
    /// One answer of each router.
    Query,
    /// One router only: the command changes something, or lasts as long as its connection.
    One,
    /// No daemon.
    Local,
}

fn kind(command: &Command) -> Kind {
    match command {
        Command::Show { what: Show::Listing(What::Counters) | Show::Path(_), .. }
        | Command::Log(LogCommand::Show)
        | Command::Config(
            ConfigCommand::Diff | ConfigCommand::Apply(ApplyOptions { dry_run: true, .. }),
        ) => Kind::Query,
        Command::Show { what: Show::Listing(_), .. } => Kind::Listing,
        Command::Watch(_) => Kind::Events,
        Command::Trace(_) => Kind::Hops,
        Command::Decode { .. } | Command::Schema | Command::Token(_) => Kind::Local,
        #[cfg(feature = "history")]
        Command::History(_) | Command::Usage(_) => Kind::Local,
        _ => Kind::One,
    }
}

/// Returns the routers of a command, and refuses a command that cannot run there.
///
/// # Errors
/// The command uses no daemon, or takes one router; routers are named twice.
pub(super) fn of<'a>(
    options: &'a RouterOptions,
    command: &'a Command,
) -> Result<Option<&'a RouterNames>, Failure> {
    let own = match command {
        Command::Trace(trace) => trace.on.as_ref(),
        _ => None,
    };
    let names = match (&options.on, own) {
        (Some(_), Some(_)) => {
            return Err(wrong_usage("--on names the routers twice, before and after the command"));
        }
        (None, None) => return Ok(None),
        (Some(names), None) | (None, Some(names)) => names,
    };
    match kind(command) {
        Kind::Local => Err(wrong_usage(
            "--on: this command uses no daemon; run it without --on, or log in on the router",
        )),
        Kind::One if names.as_slice().len() > 1 => Err(wrong_usage(
            "--on: this command changes something or lasts as long as its connection, so it takes one router; name one, and \
             repeat the command for the others",
        )),
        _ => Ok(Some(names)),
    }
}

/// A command and its routers.
pub(super) struct RemoteCommand<'a> {
    pub(super) names: &'a RouterNames,
    pub(super) options: &'a RouterOptions,
    /// Control socket on the routers.
    pub(super) socket: &'a Path,
    pub(super) json: bool,
}

impl RemoteCommand<'_> {
    /// Runs a command on all routers, and prints their answers.
    ///
    /// # Errors
    /// The command is used wrongly, or the output cannot be written. The failure of a router is reported to standard error, and
    /// the outcome is that of a failure.
    pub(super) fn run(&self, command: &Arc<Command>, run: RunOnOne) -> Result<Outcome, Failure> {
        let RemoteCommand { names, options, socket, json } = *self;
        if let Command::Trace(trace) = &**command {
            hops::check(trace)?;
        }
        let connections = Connections::open(names, options, socket, json)?;
        let routers = &connections.routers;
        let has_failed = connections.has_failed;
        if routers.is_empty() {
            return Ok(Outcome::Failed);
        }
        let mut failed = |router: &Router, failure: Failure| {
            report(&router.name, &connections.explain(&router.name, failure), json);
        };
        let outcome = match (&**command, kind(command)) {
            (Command::Show { what: Show::Listing(what), limit }, Kind::Listing) => {
                let mut out = Output::new(json);
                listings::show_all(routers, what, *limit, &mut out, &mut failed)?
            }
            (Command::Watch(options), _) => {
                watch::watch_all(routers, options, names.width(), json, &mut failed)?
            }
            (Command::Trace(options), _) => {
                hops::trace(routers, options, &mut Output::new(json), &mut failed)?
            }
            (_, Kind::One) => {
                let router = &routers[0];
                let mut out = labelled_output(&router.name, names.width(), json);
                outcome_of(router, run(command, &router.socket, &mut out), &mut failed)?
            }
            _ => query(routers, command, run, names.width(), json, &mut failed)?,
        };
        Ok(if has_failed { Outcome::Failed } else { outcome })
    }
}

/// Returns whether a failure is one of this process, not of a router.
fn is_own(failure: &Failure) -> bool {
    [WRONG_USAGE, "broken_pipe"].contains(&failure.code)
}

/// Returns the outcome of a command on one router, whose failure is reported.
///
/// # Errors
/// The failure is one of this process.
fn outcome_of(
    router: &Router,
    result: Result<Outcome, Failure>,
    failed: &mut dyn FnMut(&Router, Failure),
) -> Result<Outcome, Failure> {
    match result {
        Err(failure) if !is_own(&failure) => {
            failed(router, failure);
            Ok(Outcome::Failed)
        }
        other => other,
    }
}

/// Asks all routers at the same time, and prints the answers in the order of the routers.
fn query(
    routers: &[Router],
    command: &Arc<Command>,
    run: RunOnOne,
    width: usize,
    json: bool,
    failed: &mut dyn FnMut(&Router, Failure),
) -> Result<Outcome, Failure> {
    let answers: Vec<_> = routers
        .iter()
        .map(|router| {
            let (sender, answer) = channel();
            let (command, router) = (command.clone(), router.clone());
            thread::spawn(move || {
                let buffer = Buffer::default();
                let labels = Labels::new(router.name, width, json, buffer.clone());
                let outcome =
                    run(&command, &router.socket, &mut Output { json, to: Box::new(labels) });
                let _ = sender.send((outcome, buffer.0.take()));
            });
            answer
        })
        .collect();
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let (mut out, mut outcome) = (io::stdout().lock(), Outcome::Done);
    for (router, answer) in routers.iter().zip(answers) {
        let Ok((result, octets)) =
            answer.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        else {
            failed(router, no_answer());
            outcome = Outcome::Failed;
            continue;
        };
        out.write_all(&octets)?;
        out.flush()?;
        match outcome_of(router, result, failed)? {
            Outcome::Done => {}
            other => outcome = other,
        }
    }
    Ok(outcome)
}

/// Output that is kept until it is printed.
#[derive(Clone, Default)]
struct Buffer(Rc<RefCell<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::arguments::Arguments;

    fn names_of(line: &str) -> Result<Option<usize>, String> {
        let arguments =
            Arguments::try_parse_from(std::iter::once("earmark").chain(line.split_whitespace()))
                .map_err(|error| error.to_string())?;
        of(&arguments.routers, &arguments.command)
            .map(|names| names.map(|names| names.as_slice().len()))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn commands_take_as_many_routers_as_they_can() {
        for (line, expected) in [
            ("show links", None),
            ("--on r1,r2 show links", Some(2)),
            ("--on r1,r2 show path 10.0.2.2", Some(2)),
            ("--on r1,r2 show counters", Some(2)),
            ("--on r1,r2 log show", Some(2)),
            ("--on r1,r2 config diff", Some(2)),
            ("--on r1,r2 config apply --dry-run", Some(2)),
            ("--on r1,r2 watch", Some(2)),
            ("--on r1,r2 trace 10.0.2.2:5001", Some(2)),
            ("trace --on r1,r2,r3 10.0.2.2:5001", Some(3)),
            ("--on r1 listen --on 10.0.2.2:5001", Some(1)),
            ("--on r1 release --all", Some(1)),
            ("--on r1 config apply", Some(1)),
        ] {
            assert_eq!(names_of(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn other_commands_are_refused_with_the_reason() {
        for (line, reason) in [
            ("--on r1,r2 reserve --to 10.0.2.2:5001 --rate 1Mbit", "it takes one router"),
            ("--on r1,r2 release --all", "it takes one router"),
            ("--on r1,r2 config apply", "it takes one router"),
            ("--on r1,r2 log reset", "it takes one router"),
            ("--on r1,r2 ping 10.0.2.2", "it takes one router"),
            ("--on r1 schema", "uses no daemon"),
            ("--on r1 decode x.pcap", "uses no daemon"),
            ("--on r1 trace --on r2 10.0.2.2:5001", "twice"),
            ("--on r1,r1 show links", "named twice"),
            ("--on -oX show links", ""),
            ("--on=-oX show links", "begins with `-`"),
            ("--connect-timeout 0s --on r1 show links", "longer than 0"),
        ] {
            let error = names_of(line).expect_err(line);
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
