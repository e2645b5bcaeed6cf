//! Command-line arguments of the daemon and their help texts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use earmark_control::LogLevels;
use earmark_core::amounts::parse_duration;

use crate::log::LogFormat;

/// The daemon that reserves bandwidth along a network path.
///
/// Runs in the foreground (needs CAP_NET_ADMIN and CAP_NET_RAW; start it as root).
#[derive(Debug, Parser)]
#[command(
    name = "earmarkd",
    version,
    propagate_version = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Example:
  earmarkd config example > /etc/earmark/earmark.toml   # then adapt its interfaces
  earmarkd --config /etc/earmark/earmark.toml

It logs to the journal if systemd has started it, to standard error otherwise, and ends in good order on SIGTERM.
Reserved flows keep their queues in the kernel when it ends or dies; the next daemon adopts them. --cleanup takes them out
at the end instead, `earmarkd clear` later.

On SIGHUP it reads configuration and keys again. What is reserved stays; new work meets the new settings. The log names
what waits for a restart, and a file with a mistake changes nothing.

`earmark` is its command line."
)]
pub(super) struct Arguments {
    /// Print JSON, errors included.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) daemon: Option<DaemonOptions>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Args, Debug)]
pub(super) struct DaemonOptions {
    /// The configuration; `earmarkd config example` writes one to start from.
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// The control socket, instead of the configured one.
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
    /// Directory in which the daemon keeps the earlier configuration while another awaits `earmark config confirm`. Only its user
    /// may use it; systemd's StateDirectory= sets the variable.
    #[arg(
        long,
        value_name = "PATH",
        env = "STATE_DIRECTORY",
        hide_env_values = true,
        default_value = "/var/lib/earmark"
    )]
    pub(super) state_directory: PathBuf,
    /// Take reservations out of the kernel at the end, whatever the configuration says.
    #[arg(long)]
    pub(super) cleanup: bool,
    /// Write the seed of identifiers and cookies into `FILE.secrets` beside the recording `daemon.record = FILE`, for
    /// `earmarkd replay --secrets`. Who reads it while the daemon runs can forge its cookies.
    #[arg(long)]
    pub(super) record_secrets: bool,
    /// What to log: off, error, warn, info, debug or trace; or levels by target, such as `warn,ledger=debug`. `earmark log`
    /// shows the targets, and changes the levels while the daemon runs.
    #[arg(long, value_name = "LEVELS", default_value = "info")]
    pub(super) log: LogLevels,
    /// Form of the log [default: journal if standard error leads to the journal, otherwise text].
    #[arg(long, value_name = "FORM", value_enum)]
    pub(super) log_format: Option<LogFormat>,
}

/// Commands beside running the daemon.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write an example configuration, or check one.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Take what a daemon has left in the kernel out of it: queues, classes, classifiers.
    Clear(ClearOptions),
    /// Replay a recording of a daemon's inputs and print the effects, one JSON object a line.
    #[command(after_help = "\
Example:
  earmarkd replay /var/log/earmark/inputs.jsonl     # recorded with `record = ...` in [daemon]")]
    Replay {
        /// The recording; `-` reads standard input.
        file: PathBuf,
        /// The key file of the daemon that was recorded, if it signed messages; recordings hold no secrets.
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
        /// The file that `earmarkd --record-secrets` wrote beside the recording. Without it identifiers and cookies
        /// differ from the recorded ones.
        #[arg(long, value_name = "FILE")]
        secrets: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Say whether a configuration makes sense, with the files that it includes and its drop-ins, and what of it cannot work on
    /// this host.
    #[command(after_help = "\
Examples:
  earmarkd config check /etc/earmark/earmark.toml
  earmarkd config check --elsewhere router2.toml   # for another host: the file alone

The exit status is 1 if the daemon would not start: the file has a mistake, or a user, a group, a directory or an address is missing
on this host. A missing interface is a warning, because the daemon waits for it.")]
    Check {
        /// The configuration.
        file: PathBuf,
        /// Check the file alone, not whether this host has what it names.
        #[arg(long)]
        elsewhere: bool,
    },
    /// Print a configuration to start from, with every setting explained.
    #[command(after_help = "Example:\n  earmarkd config example > /etc/earmark/earmark.toml")]
    Example,
    /// Print the reference of all settings, as Markdown.
    #[command(after_help = "Example:\n  earmarkd config reference > configuration.md")]
    Reference,
}

/// Arguments of `earmarkd clear`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  earmarkd clear                                        # now; an error while a daemon is running
  earmarkd clear --after 3min                           # unless a daemon starts before that
  earmarkd clear --schedule /etc/earmark/earmark.toml   # have systemd do so, after daemon.adoption_time of this file

It needs root, and clears the network namespace in which it runs. packaging/earmark.service schedules it whenever the daemon has
ended, and docs/operation.md tells what stays in the kernel for how long.")]
pub(super) struct ClearOptions {
    /// Wait this long first. If a daemon is running, or starts meanwhile, what is there is its own, and stays.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) after: Option<Duration>,
    /// Have systemd run `earmarkd clear --after 0s` after daemon.adoption_time of this configuration, counted from now.
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    pub(super) schedule: Option<PathBuf>,
}
