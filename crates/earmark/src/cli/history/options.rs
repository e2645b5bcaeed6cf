//! Arguments of `earmark history` and `earmark usage`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use earmark_core::amounts::parse_duration;
use earmark_history::query::Filter;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};

/// Database that the package's configuration names.
pub(super) const DEFAULT_DATABASE: &str = "/var/lib/earmark/history.db";

const HISTORY_HELP: &str = "\
Examples:
  earmark history                              # the latest reservations first, also those that stand
  earmark history --since 2h --user alice      # of a user, in the last two hours
  earmark history --link eth0 --reason preempted
  earmark history --since 2026-11-01 --until 2026-12-01 --limit 1000000 --csv > november.csv

The daemon writes these records if its configuration has a `database` in [history]. A reservation that stands has used what is shown
when its counters were last read (`interval`).";

const USAGE_HELP: &str = "\
Examples:
  earmark usage                                # octets of each user, and what they reserved
  earmark usage --by link --since 24h
  earmark usage --by hour --link eth0 --csv > eth0.csv
  earmark usage --by user --since 2026-11-01 --until 2026-12-01 --json

Use is summed by the hour in which it was read from the queues, so that times are rounded down to hours.";

/// List the accounting records of reservations: who reserved what, from when to when, why it ended, and what its packets used.
#[derive(Args, Clone, Debug)]
#[command(after_help = HISTORY_HELP)]
pub(crate) struct HistoryOptions {
    #[command(flatten)]
    pub(super) select: Select,
    /// Only reservations to this address.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) to: Option<std::net::IpAddr>,
    /// Only reservations that ended for this reason: released, torn_down, expired, preempted, rerouted, link_lost,
    /// traffic_control_refused, not_adopted, stopped, unknown.
    #[arg(long, value_name = "REASON")]
    pub(super) reason: Option<String>,
    /// Only reservations that stand.
    #[arg(long)]
    pub(super) open: bool,
    /// Show at most this many.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) limit: usize,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// Sum the use of reservations by user, link, protocol, node or hour.
#[derive(Args, Clone, Debug)]
#[command(after_help = USAGE_HELP)]
pub(crate) struct UsageOptions {
    /// What to sum by.
    #[arg(long, value_enum, default_value = "user")]
    pub(super) by: SumBy,
    #[command(flatten)]
    pub(super) select: Select,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// What use is summed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SumBy {
    /// User, with the proof of the name.
    User,
    /// Interface of a node.
    Link,
    /// Protocol.
    Protocol,
    /// Node.
    Node,
    /// Hour.
    Hour,
}

/// Records that both commands select.
#[derive(Args, Clone, Debug)]
pub(crate) struct Select {
    /// The database of the daemon [default: /var/lib/earmark/history.db].
    #[arg(long, value_name = "PATH", env = "EARMARK_HISTORY", hide_env_values = true)]
    pub(super) database: Option<PathBuf>,
    /// Only from this time on: an age such as 90min, 24h or 30d, a date (2026-11-01) or a time (2026-11-01T08:00).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<Timestamp>,
    /// Only before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) until: Option<Timestamp>,
    /// Only of this user.
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Only on this interface.
    #[arg(long, value_name = "INTERFACE")]
    pub(super) link: Option<String>,
    /// Only of this protocol.
    #[arg(long, value_name = "NAME")]
    pub(super) protocol: Option<String>,
    /// Only of this node.
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
}

impl Select {
    /// Returns what both commands select by.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            since_ms: self.since.map(Timestamp::as_millisecond),
            until_ms: self.until.map(Timestamp::as_millisecond),
            user: self.user.clone(),
            link: self.link.clone(),
            protocol: self.protocol.clone(),
            node: self.node.clone(),
            ..Filter::default()
        }
    }
}

/// Reads an age, a date or a time; dates and times without zone are local.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(age) = parse_duration(text) {
        let age = SignedDuration::try_from(age).map_err(|error| error.to_string())?;
        return Timestamp::now().checked_sub(age).map_err(|error| error.to_string());
    }
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let midnight = || Some(text.parse::<civil::Date>().ok()?.at(0, 0, 0, 0));
    let local = text.parse::<civil::DateTime>().ok().or_else(midnight);
    let local = local.and_then(|time| TimeZone::system().to_timestamp(time).ok());
    local.ok_or_else(|| {
        "an age such as 24h, a date (2026-11-01) or a time (2026-11-01T08:00)".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_an_age_a_date_or_a_time() {
        let age = Timestamp::now().duration_since(parse_time("2h").expect("an age"));
        assert!((7_195..7_210).contains(&age.as_secs()), "{age:?}");
        let date = parse_time("2026-11-01").expect("a date");
        assert_eq!(parse_time("2026-11-01T00:00"), Ok(date));
        let zoned = parse_time("2026-11-01T08:00:00Z").expect("a time");
        assert_eq!(zoned.to_string(), "2026-11-01T08:00:00Z");
        for text in ["", "yesterday", "2026-13-01", "24"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
