//! Command line: arguments and dispatch of all commands.
//!
//! Results go to standard output, progress and errors to standard error. Exit status: 0 success, 1 an error, 2 wrong
//! usage, 3 a measurement ran but a promise did not hold.

mod bench;
mod compare;
mod knee;
mod measurement;
mod profile;
mod progress;
mod report;
mod reproduce;
mod study;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use earmark_core::amounts::parse_duration;

/// Exit status if a measurement ran but a promise did not hold.
const BROKEN_PROMISE: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  earmark-studies study retry --quick            the published retry study, done again
  earmark-studies study compare --out compare    all protocols on equal terms
  earmark-studies bench scale                    what many sessions cost real daemons
  earmark-studies bench messages                 what each message costs a router: instructions, ns, octets a session
  earmark-studies bench life --protocol yessir   a million sessions, from set-up to expiry
  earmark-studies bench forwarding               what a router forwards with and without traffic control
  earmark-studies report --quick --out report    the published overhead studies, done again, on one page
  earmark-studies reproduce report/results.json --out again   earlier results once more, compared";

/// Measurements of Earmark, and published studies done again.
///
/// Daemons are measured in network namespaces, which needs root; engines alone and simulations as any user.
#[derive(Debug, Parser)]
#[command(name = "earmark-studies", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    Study(study::Study),
    #[command(subcommand)]
    Bench(bench::Bench),
    Report(report::Report),
    Profile(profile::Profile),
    Reproduce(reproduce::Reproduce),
    #[command(hide = true)]
    Node(earmark_lab::cli::Node),
    #[command(hide = true)]
    LightHost(bench::LightHost),
    #[command(hide = true)]
    CountedMessages(bench::CountedMessages),
    #[command(hide = true)]
    CountedCalls(bench::CountedCalls),
    #[command(hide = true)]
    CountedTurns(bench::CountedTurns),
    #[command(hide = true)]
    CountedRefreshes(bench::CountedRefreshes),
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    earmark_lab::cli::exit_code(run(Arguments::parse()))
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Study(study) => study.run(),
        Command::Bench(bench) => bench.run(),
        Command::Report(report) => report.run(),
        Command::Profile(profile) => profile.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Node(node) => node.run(),
        Command::LightHost(host) => host.run(),
        Command::CountedMessages(messages) => Ok(messages.run()),
        Command::CountedCalls(calls) => calls.run(),
        Command::CountedTurns(turns) => Ok(turns.run()),
        Command::CountedRefreshes(refreshes) => refreshes.run(),
    }
}

#[cfg(test)]
mod tests {
    use earmark_testkit::command_line::check_arguments;

    use super::*;

    #[test]
    fn arguments_and_examples_are_valid() {
        check_arguments::<Arguments>(24);
    }

    #[test]
    fn wrong_usage_is_refused_with_the_reason() {
        for (line, reason) in [
            ("earmark-studies", "Usage"),
            ("earmark-studies bench forwarding --queues fair:7", "per-flow, aggregate"),
            ("earmark-studies bench forwarding --rounds 0", "0 is not in 1..=1000"),
            ("earmark-studies report --quick", "--out <DIRECTORY>"),
            ("earmark-studies report --only retry,all --out a", "the parts are messages, loads,"),
        ] {
            let error = Arguments::try_parse_from(line.split_whitespace()).unwrap_err();
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
    }
}
