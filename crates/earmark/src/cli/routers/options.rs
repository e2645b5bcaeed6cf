//! Options of commands on the daemons of other machines.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use earmark_core::amounts::parse_duration;

use super::names::RouterNames;

/// Longest time to connect.
const LONGEST: Duration = Duration::from_secs(600);

/// Where a command runs, and how it gets there. These options come before the command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Routers (before the command)")]
pub(crate) struct RouterOptions {
    /// Run the command on the daemons of these machines, over SSH: r1,admin@r2. --control is the socket there. Commands that
    /// change something, or that last as long as their connection, take one router.
    #[arg(long, value_name = "ROUTER,...", value_parser = RouterNames::parse)]
    pub(crate) on: Option<RouterNames>,
    /// Program that is run as `ssh`.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "ssh",
        env = "EARMARK_SSH",
        hide_env_values = true
    )]
    pub(crate) ssh: OsString,
    /// Timeout of the connection to each router, until its daemon answers.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = timeout)]
    pub(crate) connect_timeout: Duration,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    match time {
        Duration::ZERO => Err("a timeout is longer than 0".to_owned()),
        time if time > LONGEST => Err(format!("at most {} s", LONGEST.as_secs())),
        time => Ok(time),
    }
}
