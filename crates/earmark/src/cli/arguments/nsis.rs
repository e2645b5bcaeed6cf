//! Command-line arguments that only NSIS has.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use earmark_core::Rate;

use super::values::host;
use earmark_core::amounts::parse_duration;

/// What only sessions of QoS NSLP have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "NSIS")]
pub(in crate::cli) struct NsisOptions {
    /// Be content with less, down to this rate.
    #[arg(long, value_name = "RATE", requires = "rate")]
    pub(in crate::cli) at_least: Option<Rate>,
    /// Have the receiver reserve.
    #[arg(long)]
    pub(in crate::cli) by_receiver: bool,
    /// Signal over connections, from hop to hop.
    #[arg(long)]
    pub(in crate::cli) reliable: bool,
    /// Signal over connections by TLS.
    #[arg(long)]
    pub(in crate::cli) secure: bool,
}

#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct PingOptions {
    /// Where the way ends: an address, or a name.
    #[arg(value_name = "HOST", value_parser = host)]
    pub(in crate::cli) to: IpAddr,
    /// Ask each node also what it could still reserve, there and back.
    #[arg(long)]
    pub(in crate::cli) qos: bool,
    /// Send so many messages.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) count: u32,
    /// Wait so long between one and the next.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(in crate::cli) interval: Duration,
    /// How long an answer may take: 500ms, 10s, 2min [default: 5s, as the daemon is set].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Over connections, from hop to hop.
    #[arg(long)]
    pub(in crate::cli) reliable: bool,
    /// Over connections by TLS.
    #[arg(long)]
    pub(in crate::cli) secure: bool,
}
