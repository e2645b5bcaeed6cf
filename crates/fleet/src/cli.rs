//! The command line of `earmark-fleet`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use earmark_control::command::{Failure, with_cause};
use earmark_core::amounts::parse_duration;

use crate::config::{Config, ConfigError, UncheckedConfig, UncheckedRouter};
use crate::run::Page;

const HELP: &str = "\
Examples:
  earmark-fleet --router r1=http://10.0.0.1:9470/metrics --router r2=http://10.0.1.2:9470/metrics
  earmark-fleet --config /etc/earmark-fleet.toml --check
  earmark-fleet --config /etc/earmark-fleet.toml

Each router needs the table [metrics] in its earmark.toml, with an address that this host reaches:
  [metrics]
  address = \"10.0.0.1:9470\"

The file has the same settings as the arguments, and the routers' own pages:
  listen = \"127.0.0.1:9490\"
  interval = \"10s\"
  timeout = \"5s\"
  [[router]]
  name = \"r1\"
  metrics = \"http://10.0.0.1:9470/metrics\"
  page = \"http://10.0.0.1:9480/\"

Runs until SIGTERM. The page is at http://127.0.0.1:9490/, as JSON at /api/fleet. It has no password and changes nothing. A router
that becomes reachable or unreachable is a line of standard error.

Exit status: 0 success, 1 failure (a setting is wrong, the address is in use), 2 wrong arguments.";

/// Serve one web page for many routers, from the metrics of their daemons.
#[derive(Debug, Parser)]
#[command(name = "earmark-fleet", version, after_help = HELP)]
struct Arguments {
    /// File with the settings, instead of the other arguments.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["router", "listen", "interval", "timeout", "allow_remote"])]
    config: Option<PathBuf>,
    /// Router to scrape, may be repeated: its name on the page, and the URL of its metrics.
    #[arg(long, value_name = "NAME=URL", required_unless_present = "config")]
    router: Vec<UncheckedRouter>,
    /// Address of the page; by default 127.0.0.1:9490.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Interval at which each router is scraped; by default 10s.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// Time that a router has for its whole answer; by default 5s.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Permit an address of the page that other hosts reach. Whoever reaches it may read everything.
    #[arg(long)]
    allow_remote: bool,
    /// Check the settings, print the routers, and end.
    #[arg(long)]
    check: bool,
}

/// Returns the definition of the command line, for its man page and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the command line and serves the page.
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed; the exit status still reports the failure.
            let _ = failure.print("earmark-fleet", false);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let check_only = arguments.check;
    let config = settings(arguments).map_err(|error| failure("settings", &error.to_string()))?;
    if check_only {
        for router in &config.routers {
            println!("{}: {}", router.name, router.metrics);
        }
        println!("valid: {} routers, page at http://{}/", config.routers.len(), config.listen);
        return Ok(());
    }
    let listen = config.listen;
    let page = Page::listen(config).map_err(|error| {
        failure(
            "listen",
            &format!(
                "cannot listen at {listen}: {}; help: choose another address with `listen`",
                with_cause(&error)
            ),
        )
    })?;
    eprintln!("earmark-fleet: page at http://{}/", page.address());
    page.run(|line| eprintln!("earmark-fleet: {line}"))?;
    Ok(())
}

fn settings(arguments: Arguments) -> Result<Config, ConfigError> {
    if let Some(path) = &arguments.config {
        return UncheckedConfig::read(path)?.check();
    }
    let default = UncheckedConfig::default();
    UncheckedConfig {
        listen: arguments.listen.unwrap_or(default.listen),
        allow_remote: arguments.allow_remote,
        interval: arguments.interval.unwrap_or(default.interval),
        timeout: arguments.timeout.unwrap_or(default.timeout),
        routers: arguments.router,
    }
    .check()
}

/// Returns a failure; the text has its advice behind `; help: `.
fn failure(code: &'static str, text: &str) -> Failure {
    let (message, hint) = text.split_once("; help: ").unwrap_or((text, ""));
    Failure::new(code, message.trim_end(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_examples_are_valid() {
        earmark_testkit::command_line::check_arguments::<Arguments>(3);
    }

    #[test]
    fn arguments_that_contradict_are_refused() {
        for arguments in [
            "",
            "--router r1",
            "--config fleet.toml --router r1=http://r1:9470/",
            "--config fleet.toml --interval 5s",
            "--router r1=http://r1:9470/ --interval 5",
            "--router r1=http://r1:9470/ --listen localhost",
        ] {
            let words = ["earmark-fleet"].into_iter().chain(arguments.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err(), "{arguments}");
        }
    }

    #[test]
    fn arguments_are_settings() {
        let words = "earmark-fleet --router a=http://a:1/ --router b=http://b:2/m --timeout 2s";
        let arguments = Arguments::try_parse_from(words.split(' ')).expect("valid");
        let config = settings(arguments).expect("valid");
        assert_eq!((config.routers.len(), config.timeout), (2, Duration::from_secs(2)));
        let words = "earmark-fleet --router a=https://a:1/";
        let arguments = Arguments::try_parse_from(words.split(' ')).expect("valid");
        assert!(settings(arguments).is_err());
    }
}
