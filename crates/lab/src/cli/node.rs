//! Hidden command `earmark-lab node`: the daemon of one node of a testbed.
//!
//! A testbed starts this program with this subcommand in the namespace of each node, so that a build of `earmark-lab`
//! has everything that the demo needs. The command is the same as `earmarkd`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use earmarkd::cli::start_log;
use earmarkd::config::Config;
use earmarkd::log::LogOptions;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Be the daemon of a node of a testbed
#[derive(Debug, clap::Args)]
pub struct Node {
    /// Configuration of the node.
    #[arg(long)]
    config: PathBuf,
    /// End when the process that started it ends.
    #[arg(long)]
    bound: bool,
}

impl Node {
    /// Runs the daemon until it ends.
    ///
    /// # Errors
    /// The configuration cannot be read; the daemon cannot start, or fails.
    pub fn run(&self) -> Result<ExitCode> {
        if self.bound {
            set_parent_process_death_signal(Some(Signal::TERM))?;
        }
        let log = start_log(&LogOptions::default()).map_err(|failure| anyhow!(failure.message))?;
        let config = Config::load(&self.config)?;
        earmarkd::daemon::run(&config, &log)?;
        Ok(ExitCode::SUCCESS)
    }
}
