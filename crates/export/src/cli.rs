//! The command line of `earmark-export`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use earmark_control::command::Failure;
use earmark_core::amounts::parse_duration;
use postgres::Config;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::ipfix::Transport;
use crate::run::{Exporter, Target};

const HELP: &str = "\
Examples:
  earmark-export postgres --to postgresql://earmark@db.example.net/accounting
  earmark-export ipfix --to 192.0.2.9:4739
  earmark-export ipfix --to collector.example.net:4739 --tcp --once

Runs until SIGTERM. What is delivered is noted in the daemon's database: after a failure of any kind the program goes on where it
stopped, and the daemon removes nothing that was not delivered. So run it as the user of the daemon, and delete its row from the table
`export` if you give it up.";

/// Copy the accounting records of a daemon to PostgreSQL, or send them as IPFIX.
#[derive(Debug, Parser)]
#[command(name = "earmark-export", version, after_help = HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copy all records to a PostgreSQL database, which may have those of many routers: tables in the schema `earmark`.
    Postgres {
        /// Parameters of the connection, as psql takes them: a URL, or \"host=... dbname=... user=...\". Without TLS: a Unix socket, or a
        /// network that you trust.
        #[arg(long, value_name = "CONNECTION", value_parser = parse_connection)]
        to: Box<Config>,
        #[command(flatten)]
        common: Common,
    },
    /// Send a flow record of each reservation that has ended to a collector of IPFIX.
    Ipfix {
        /// Collector.
        #[arg(long, value_name = "HOST:PORT")]
        to: String,
        /// Use TCP; by default UDP, by which records may be lost on the way.
        #[arg(long)]
        tcp: bool,
        /// Observation domain, which tells routers apart at the collector.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        domain: u32,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// The database of the daemon ([history] in its configuration).
    #[arg(long, value_name = "PATH", default_value = "/var/lib/earmark/history.db")]
    database: PathBuf,
    /// Interval at which new records are delivered.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    every: Duration,
    /// Deliver what there is, print the number of rows, and end.
    #[arg(long)]
    once: bool,
}

fn parse_connection(text: &str) -> Result<Box<Config>, postgres::Error> {
    text.parse().map(Box::new)
}

/// Returns the definition of the command line, for its man page and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line and runs the exporter.
pub fn main() -> ExitCode {
    let (target, name, common) = match Arguments::parse().command {
        Command::Postgres { to, common } => (Target::Postgres(to), "postgres".to_owned(), common),
        Command::Ipfix { to, tcp, domain, common } => {
            let transport = if tcp { Transport::Tcp } else { Transport::Udp };
            let name = format!("ipfix {to}");
            (Target::Ipfix { to, transport, domain }, name, common)
        }
    };
    let exporter = Exporter { database: common.database, target, name };
    let done = if common.once {
        exporter.deliver().map(|rows| println!("{rows} rows")).map_err(|error| failure(&error))
    } else {
        serve(&exporter, common.every)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = failure.print("earmark-export", false);
            ExitCode::FAILURE
        }
    }
}

fn serve(exporter: &Exporter, every: Duration) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    exporter.run(every, &stop, |failure| match failure {
        Some(text) => eprintln!("earmark-export: {text}; records wait in the daemon's database"),
        None => eprintln!("earmark-export: records are delivered again"),
    });
    Ok(())
}

fn failure(error: &dyn std::error::Error) -> Failure {
    let text = earmark_control::command::with_cause(error);
    Failure::new("export", text, "what was not delivered stays in the daemon's database")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_examples_are_valid() {
        earmark_testkit::command_line::check_arguments::<Arguments>(2);
    }

    #[test]
    fn what_is_no_connection_time_or_number_is_refused() {
        for arguments in [
            "postgres",
            "postgres --to nowhere",
            "postgres --to port=none",
            "ipfix --to 192.0.2.9:4739 --every 5",
            "ipfix --to 192.0.2.9:4739 --domain -1",
        ] {
            let words = ["earmark-export"].into_iter().chain(arguments.split(' '));
            assert!(Arguments::try_parse_from(words).is_err(), "{arguments}");
        }
    }
}
