//! Command line: arguments and dispatch of all commands.
//!
//! Results go to standard output, progress and errors to standard error. Exit status: 0 success, 1 an error, 2 wrong
//! usage, 3 the demo ran but a promise did not hold.

mod attack;
mod cross;
mod demo;
mod explore;
mod network;
mod node;
mod simulate;
mod topology;
mod traffic;

pub use node::Node;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use earmark_core::amounts::parse_duration;

/// Exit status if the demo ran but a promise did not hold.
const BROKEN_PROMISE: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  earmark-lab demo                          the whole demo in a minute and a half
  earmark-lab demo --html demo.html         the same, and a page with the chart
  earmark-lab simulate scenarios/retry-high.toml   a scenario in the simulator
  earmark-lab explore --seeds 200           invariants in random networks, with random flows and faults
  earmark-lab cross --cases 10000           one reservation in all variants, with events at all places of its path
  earmark-lab topology show topologies/abilene.graphml   size and links of a network, or its drawing
  earmark-lab up topologies/demo.toml       a network for trials, a daemon in each node
  earmark-lab status
  earmark-lab down topologies/demo.toml";

/// Networks to try Earmark on: namespaces of this machine, or simulated.
///
/// A topology is one TOML file. As root, each node becomes a network namespace with a daemon in it; without the
/// privileges for that the demo runs the same protocol engines in a simulator.
#[derive(Debug, Parser)]
#[command(name = "earmark-lab", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Attack(attack::Attack),
    Simulate(simulate::Simulate),
    Explore(explore::Explore),
    Cross(cross::Cross),
    #[command(subcommand)]
    Topology(topology::Topology),
    Up(network::Up),
    Down(network::Down),
    Status(network::Status),
    #[command(subcommand)]
    Traffic(traffic::Traffic),
    #[command(hide = true)]
    Node(node::Node),
}

/// Returns the definition of the command line, for its man pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    exit_code(run(Arguments::parse()))
}

/// Returns the exit status of a run. An error is shown on standard error.
pub fn exit_code(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Demo(demo) => demo.run(),
        Command::Attack(attack) => attack.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Explore(explore) => explore.run(),
        Command::Cross(cross) => cross.run(),
        Command::Topology(topology) => topology.run(),
        Command::Up(up) => up.run(),
        Command::Down(down) => down.run(),
        Command::Status(status) => status.run(),
        Command::Traffic(traffic) => traffic.run(),
        Command::Node(node) => node.run(),
    }
}

#[cfg(test)]
mod tests {
    use earmark_testkit::command_line::check_arguments;

    use super::*;

    #[test]
    fn arguments_and_examples_are_valid() {
        check_arguments::<Arguments>(21);
    }

    #[test]
    fn wrong_usage_is_refused_with_the_reason() {
        for (line, reason) in [
            ("earmark-lab", "Usage"),
            ("earmark-lab up", "TOPOLOGY"),
            ("earmark-lab demo --stage soon", "a time is a number and its unit"),
            ("earmark-lab traffic source --to nowhere --rate 1Mbit", "invalid socket address"),
            (
                "earmark-lab traffic source --to 10.0.0.1:1 --rate fast",
                "a rate starts with a number",
            ),
            ("earmark-lab down a.toml --name b", "cannot be used with"),
            ("earmark-lab attack --protocol ldp", "invalid value 'ldp' for '--protocol"),
            ("earmark-lab attack --network paper", "possible values: testbed, simulated"),
        ] {
            let error = Arguments::try_parse_from(line.split_whitespace()).unwrap_err();
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
    }
}
