//! Options of `earmark top`.

use std::time::Duration;

use clap::Args;
use earmark_core::amounts::parse_duration;

use crate::cli::arguments::FilterOptions;

/// Shortest interval between two samples.
const SHORTEST: Duration = Duration::from_millis(200);

/// Show the links and the largest reservations of this node, refreshed all the time.
#[derive(Args, Debug)]
#[command(after_help = "\
Keys: q ends; s sorts by the next column, r in the other direction; / types filters such as: to 10.1.0.0/16 link eth1
up, down, page up, page down move; Esc leaves the line of filters as it was.
Many reservations are gone through in pages that take a fifth of the daemon's time at most; the top line tells how far.

Examples:
  earmark top
  earmark top --sort=-sent --link eth1
  earmark top --once                  # one frame as text, also if the output is no terminal
  earmark top --once --json --interval 5s")]
pub(crate) struct TopOptions {
    /// Time between two samples: 500ms, 2s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(super) interval: Duration,
    /// Column that reservations are sorted by at first; `-` before it sorts the largest first.
    #[arg(long, value_name = "[-]COLUMN", default_value = "-rate", allow_hyphen_values = true)]
    pub(super) sort: String,
    /// Print one frame, after two samples, and end.
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) filter: FilterOptions,
}

fn interval(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).map_err(|error| error.to_string())?;
    match span >= SHORTEST {
        true => Ok(span),
        false => Err(format!("at least {} ms", SHORTEST.as_millis())),
    }
}
