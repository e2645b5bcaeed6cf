//! Command `earmark-studies bench listing`.

use std::process::ExitCode;

use anyhow::Result;

use crate::bench::router::Protocol;
use crate::bench::{listing, table};
use crate::cli::measurement::Measurement;

const EXAMPLES: &str = "\
A router without I/O gets its sessions message by message. Then a client lists them over a socket, page by page as `earmark show`
does: all sessions, all reservations, and the sessions to the destination of the last one. Measured are the time to the first rows and
to the last one at the client, and how long each slice keeps the event loop. The kernel has no queues, so that the rows of
reservations cost what the daemon itself does for them.

Examples:
  earmark-studies bench listing --protocol rsvp
  earmark-studies bench listing --protocol nsis --sessions 60000 --json | jq '.runs[].longest_slice_ms'

Exit status: 0 all sessions were listed, 1 it could not run, 3 sessions were missing.";

/// Measure listings of many sessions: time to the first rows, and time of the event loop
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ListingBench {
    /// Protocol of the sessions.
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Number of sessions.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: u32,
    /// Runs of each listing.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl ListingBench {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::begin(self.json)?;
        let runs = self.runs as usize;
        let listings =
            listing::list(self.protocol, self.sessions, runs, &measurement.supervision())?;
        measurement.show(|| table::listings(&listings));
        let missing = || format!("not all {} sessions were listed", self.sessions);
        measurement.finish(&listings, (!listings.are_whole()).then(missing))
    }
}
