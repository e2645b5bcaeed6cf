//! Arguments of `earmark clear`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use earmark_core::amounts::parse_duration;

/// What `earmark clear` is told.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmark clear                                  # now; an error while a daemon is running
  earmark clear --after 3min                     # unless a daemon starts before that
  earmark clear --schedule /etc/earmark.toml     # have systemd do so, after daemon.adoption_time of this file

It needs root, and clears the network namespace in which it runs. packaging/earmark.service schedules it whenever the daemon has
ended, and docs/operation.md tells what stays in the kernel for how long.")]
pub(in crate::cli) struct ClearOptions {
    /// Wait this long first. If a daemon is running, or starts meanwhile, what is there is its own, and stays.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(in crate::cli) after: Option<Duration>,
    /// Have systemd run `earmark clear --after 0s` after daemon.adoption_time of this configuration, counted from now.
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    pub(in crate::cli) schedule: Option<PathBuf>,
}
