//! The command line of `earmark-export`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_nats::ServerAddr;
use clap::{Args, CommandFactory, Parser, Subcommand, value_parser};
use earmark_control::DEFAULT_SOCKET;
use earmark_control::command::Failure;
use earmark_core::amounts::parse_duration;
use postgres::Config;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::events::credentials::Credentials;
use crate::events::publisher::Publisher;
use crate::events::subject::Prefix;
use crate::events::watcher::Watcher;
use crate::events::{EventStream, Report};
use crate::ipfix::Transport;
use crate::run::{Exporter, Target};

const PROGRAM: &str = "earmark-export";
const HELP: &str = "\
Examples:
  earmark-export postgres --to postgresql://earmark@db.example.net/accounting
  earmark-export ipfix --to 192.0.2.9:4739
  earmark-export ipfix --to collector.example.net:4739 --tcp --once
  earmark-export nats --to nats://127.0.0.1:4222 --create-stream EARMARK
  earmark-export nats --to broker.example.net --credentials /etc/earmark/nats --protocol enforcement,aggregate

Runs until SIGTERM. Which records are delivered is noted in the daemon's database: after a failure of any kind the program goes on where it
stopped, and the daemon removes nothing that was not delivered. So run it as the user of the daemon, and delete its row from the table
`export` if you give it up.";

/// Copy the accounting records of a daemon to PostgreSQL, send them as IPFIX, or publish the events of a daemon to NATS.
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
    /// Publish the events of the daemon to a stream of a NATS server (JetStream), under the subjects PREFIX.NODE.PROTOCOL.EVENT.
    Nats(NatsArguments),
}

#[derive(Args, Debug)]
struct NatsArguments {
    /// Servers, of which the first that works is used: host, port (4222). Without TLS: a server on this host, or a network
    /// that you trust.
    #[arg(long, value_name = "URL", required = true, value_delimiter = ',', value_parser = parse_server)]
    to: Vec<ServerAddr>,
    /// File with credentials, which only its owner may use: as nsc writes it (.creds), the seed of an NKey, \"token=TOKEN\", or the
    /// lines \"user=NAME\" and \"password=PASSWORD\".
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// First words of all subjects.
    #[arg(long, value_name = "WORDS", default_value = "earmark")]
    prefix: Prefix,
    /// Protocols whose events are published, by the member `protocol` of the events; all by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    protocol: Vec<String>,
    /// Create this stream if it does not exist: all subjects of the prefix, 1 GiB or 7 days.
    #[arg(long, value_name = "NAME")]
    create_stream: Option<String>,
    /// Most events that wait for the server, which may have 64 MiB in all. Further ones are lost and counted.
    #[arg(long, value_name = "EVENTS", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    buffer: u32,
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET, env = "EARMARK_CONTROL", hide_env_values = true)]
    control: PathBuf,
    /// Connect to the daemon and to the server, say whether both work, and end.
    #[arg(long)]
    check: bool,
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

/// Why a text names no server.
#[derive(Debug, thiserror::Error)]
enum ServerAddressError {
    #[error("invalid address of a NATS server: {0}")]
    Invalid(#[from] std::io::Error),
    #[error("the scheme {0} is not supported: use nats://HOST:PORT, without TLS")]
    Scheme(String),
    #[error(
        "an address with credentials is shown in lists of processes: name a file with --credentials"
    )]
    Credentials,
    #[error("the address has no host: use nats://HOST:PORT")]
    NoHost,
}

fn parse_server(text: &str) -> Result<ServerAddr, ServerAddressError> {
    let server: ServerAddr = text.parse()?;
    if server.scheme() != "nats" {
        return Err(ServerAddressError::Scheme(server.scheme().to_owned()));
    }
    if server.username().is_some() || server.password().is_some() {
        return Err(ServerAddressError::Credentials);
    }
    match server.host() {
        "" => Err(ServerAddressError::NoHost),
        _ => Ok(server),
    }
}

/// Returns the definition of the command line, for its man page and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line and runs the exporter.
pub fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = failure.print(PROGRAM, false);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let (target, name, common) = match command {
        Command::Postgres { to, common } => (Target::Postgres(to), "postgres".to_owned(), common),
        Command::Ipfix { to, tcp, domain, common } => {
            let transport = if tcp { Transport::Tcp } else { Transport::Udp };
            let name = format!("ipfix {to}");
            (Target::Ipfix { to, transport, domain }, name, common)
        }
        Command::Nats(arguments) => return publish_events(arguments),
    };
    let exporter = Exporter { database: common.database, target, name };
    if common.once {
        exporter.deliver().map(|rows| println!("{rows} rows")).map_err(|error| failure(&error))
    } else {
        serve(&exporter, common.every)
    }
}

/// Returns a flag that SIGTERM and SIGINT set.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn publish_events(arguments: NatsArguments) -> Result<(), Failure> {
    let credentials = arguments.credentials.as_deref().map(Credentials::read).transpose();
    let credentials = credentials
        .map_err(|error| Failure::new("credentials", error.to_string(), error.hint()))?;
    let stream = EventStream {
        watcher: Watcher { control: arguments.control, protocols: arguments.protocol },
        publisher: Publisher {
            servers: arguments.to,
            credentials,
            prefix: arguments.prefix,
            create_stream: arguments.create_stream,
        },
        messages: arguments.buffer as usize,
    };
    if arguments.check {
        let (node, server) = stream.check()?;
        println!("daemon of {node} and {server}: connected");
        return Ok(());
    }
    stream.run(&stop_flag()?, report)
}

fn report(report: &Report) {
    match report {
        Report::Watching => eprintln!("{PROGRAM}: watching the daemon"),
        Report::Publishing { server } => eprintln!("{PROGRAM}: publishing to {server}"),
        Report::Dropped(events) => eprintln!("{PROGRAM}: events lost since the start: {events}"),
        Report::Undelivered(events) => {
            eprintln!(
                "{PROGRAM}: events lost at the end, which the server has not acknowledged: {events}"
            );
        }
        Report::Failed(failure) => {
            // Without standard error, there is nobody to tell.
            let _ = failure.print(PROGRAM, false);
        }
    }
}

fn serve(exporter: &Exporter, every: Duration) -> Result<(), Failure> {
    let stop = stop_flag()?;
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
            "nats",
            "nats --to http://192.0.2.9",
            "nats --to tls://192.0.2.9",
            "nats --to nats://",
            "nats --to 192.0.2.9 --prefix a.>",
            "nats --to 192.0.2.9 --buffer 0",
        ] {
            let words = ["earmark-export"].into_iter().chain(arguments.split(' '));
            assert!(Arguments::try_parse_from(words).is_err(), "{arguments}");
        }
    }

    #[test]
    fn credentials_in_address_are_refused() {
        let error = parse_server("nats://user:secret@192.0.2.9").expect_err("credentials");
        assert!(error.to_string().contains("--credentials"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn several_servers_and_protocols_are_lists() {
        let words = "earmark-export nats --to a,nats://b:4223 --protocol enforcement,aggregate";
        let arguments = Arguments::try_parse_from(words.split(' ')).expect("valid arguments");
        let Command::Nats(arguments) = arguments.command else { panic!("another command") };
        let servers: Vec<_> = arguments.to.iter().map(|to| (to.host(), to.port())).collect();
        assert_eq!(servers, [("a", 4_222), ("b", 4_223)]);
        assert_eq!(arguments.protocol, ["enforcement", "aggregate"]);
    }
}
