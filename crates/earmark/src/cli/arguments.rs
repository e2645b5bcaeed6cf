//! Command-line arguments and their help texts.

mod listing;
mod path;
pub(crate) mod reservation;
pub(crate) mod values;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use earmark_control::DEFAULT_SOCKET;

use super::change::ChangeOptions;
use super::config::{CONFIG_HELP, ConfigCommand};
#[cfg(feature = "history")]
use super::history::{HistoryOptions, UsageOptions};
use super::log::LogCommand;
use super::reservations::ReleaseOptions;
use super::routers::options::RouterOptions;
use super::token::{TOKEN_HELP, TokenCommand};
#[cfg(feature = "top")]
use super::top::options::TopOptions;
use super::watch::WatchOptions;
use crate::protocols::{
    self, ExposeOptions, ListenOptions, OpenOptions, PingOptions, ReserveOptions, SendOptions,
    TraceOptions,
};
#[cfg(feature = "top")]
pub(crate) use listing::FilterOptions;
pub(crate) use listing::{ListingOptions, What};
pub(crate) use path::PathOptions;

/// Reserve bandwidth along a network path.
#[derive(Debug, Parser)]
#[command(name = "earmark", version, propagate_version = true, after_help = MAIN_HELP)]
pub(crate) struct Arguments {
    /// The daemon's control socket [default: /run/earmark/control.sock].
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        help_heading = EVERYWHERE,
        env = "EARMARK_CONTROL",
        hide_env_values = true
    )]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON, errors included.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) routers: RouterOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Path of the control socket: the argument, else the environment, else [`DEFAULT_SOCKET`].
    pub(crate) fn socket(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(|| DEFAULT_SOCKET.into())
    }
}

const EVERYWHERE: &str = "Options of every command";

const MAIN_HELP: &str = "\
Every router and host on the path runs a daemon:
  earmarkd config example > /etc/earmark/earmark.toml   # then adapt its interfaces
  earmarkd --config /etc/earmark/earmark.toml

Then, on the receiver (10.0.2.2 here) and on the sender, in this order:
  earmark listen --on 10.0.2.2:5001                 # reserve for whoever announces data for this address
  earmark reserve --to 10.0.2.2:5001 --rate 2Mbit   # announce it, and wait until it is reserved

And anywhere on the path:
  earmark show reservations
  earmark show path 10.0.2.2:5001 --from 10.0.1.2:4000   # next hop of this flow, and the service of its packets
  earmark trace 10.0.2.2:5001                       # hop by hop, from the receiver to the sender

On the daemons of other machines, over SSH:
  earmark --on r1,r2,r3 show reservations --sort=-rate     # one listing, each row with its router
  earmark --on r1,r2,r3 trace 10.0.2.2:5001 --from 10.0.1.1:4000   # what the flow has at each router

Through firewalls and address translators:
  earmark expose 5001                               # on the receiver: prints its external address and port
  earmark open --to 203.0.113.1:40000               # on the sender

Exit status: 0 success, 1 error, 2 wrong usage, 3 reservation refused, 4 nobody answered in time,
5 reserved on part of the path only, 6 on this node only (5 and 6: released again; success with --partial).
Only the daemon needs privileges.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List state of the daemon: sessions, reservations, links, neighbors, aggregates,
    /// routing state, associations, pinholes, translations, applications or counters; or next hop and service of one flow.
    #[command(after_help = format!("\
Examples:
  earmark show sessions          # senders that were announced (path state)
  earmark show reservations      # what is reserved, for whom, on which link, and the traffic it has carried
  earmark show reservations --to 10.1.0.0/16 --sort=-rate --limit 10   # the ten largest into a range
  earmark show reservations --to 10.0.2.2:5001 --detail   # everything about one flow
  earmark show sessions --link eth1 --state waiting
  earmark show links             # how much of each link is reserved
  earmark show applications      # what was opened on this host; `earmark release` ends it
{}
  earmark show path 10.0.2.2:5001 --from 10.0.1.1:4000   # next hop of a flow, and the service of its packets
  earmark show counters --json
  earmark --on r1,r2 show reservations --sort router,-rate   # of several machines, over SSH", protocols::SHOW_EXAMPLES))]
    Show {
        /// What to show.
        #[command(subcommand)]
        what: Show,
        /// Show at most this many rows, of all routers of --on together [default: all; of `path` 100 at each router].
        #[arg(long, global = true, value_name = "N")]
        limit: Option<usize>,
    },
    Send(SendOptions),
    Listen(ListenOptions),
    Reserve(ReserveOptions),
    Change(ChangeOptions),
    Release(ReleaseOptions),
    Trace(TraceOptions),
    Ping(PingOptions),
    Open(OpenOptions),
    Expose(ExposeOptions),
    Watch(WatchOptions),
    #[cfg(feature = "top")]
    Top(TopOptions),
    #[cfg(feature = "history")]
    History(HistoryOptions),
    #[cfg(feature = "history")]
    Usage(UsageOptions),
    /// Show and set what the daemon logs, without a restart.
    #[command(subcommand, after_help = format!("\
Examples:
  earmark log show                # targets, levels, and what the lines of each are about
{}
  earmark log set warn,ledger=debug
  earmark log reset

The levels are off, error, warn, info, debug and trace. Changes need the rights of an operator.", protocols::LOG_EXAMPLE))]
    Log(LogCommand),
    /// Compare the running configuration with its files, and change it with a way back.
    #[command(subcommand, after_help = CONFIG_HELP)]
    Config(ConfigCommand),
    /// Make and show tokens, by which a provider vouches for the name of a user.
    #[command(subcommand, after_help = TOKEN_HELP)]
    Token(TokenCommand),
    /// Print the JSON Schema of the control protocol, which describes every request, answer and event.
    #[command(after_help = "\
Example:
  earmark schema > control-protocol.json")]
    Schema,
    /// Print the reservation messages of a packet capture (pcap or pcapng).
    #[command(after_help = format!("\
Examples:
{}
  earmark decode signalling.pcap
  earmark decode - --json < signalling.pcap        # one object a message", protocols::CAPTURE_EXAMPLES))]
    Decode {
        /// The capture; `-` reads standard input.
        file: PathBuf,
    },
}

/// What can be shown.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Show {
    #[command(flatten)]
    Listing(What),
    /// Next hop of a flow from this node, and the service of its packets.
    Path(PathOptions),
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
