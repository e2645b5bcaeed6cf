//! Command `earmark-studies bench life`.

use std::process::ExitCode;

use anyhow::Result;

use crate::bench::router::Protocol;
use crate::bench::{life, table};
use crate::cli::measurement::Measurement;

const EXAMPLES: &str = "\
One router without I/O receives the messages of a number of sessions, octet for octet: all set-ups, then every session's refresh,
then nothing more, until all have expired. Time is virtual (10 us between two sessions, 30 s to a refresh), and timers that
expire, such as the router's own refreshes of RSVP, are served and counted. Rates are sessions a second of wall time that the
router alone takes, on one processor. In the end sessions and ledger must be empty.

Examples:
  earmark-studies bench life --protocol boomerang --sessions 1000000
  earmark-studies bench life --protocol rsvp --json | jq '.phases[] | {name, rate, heap_peak}'

Exit status: 0 all sessions were set up and expired, 1 it could not run, 3 sessions were refused or state remained.";

/// Measure sessions of one router from set-up to expiry: rates and memory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Life {
    /// Protocol of the sessions.
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Number of sessions.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: u32,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Life {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::begin(self.json)?;
        let life = life::live(self.protocol, self.sessions, &measurement.supervision())?;
        measurement.show(|| table::life(&life));
        let (sessions, claims) = (life.left, life.claims_left);
        let broken = || {
            format!(
                "sessions were refused, or remained: {sessions} sessions and {claims} claims at the end"
            )
        };
        measurement.finish(&life, (!life.is_whole()).then(broken))
    }
}
