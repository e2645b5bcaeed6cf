//! Command-line arguments that only Boomerang or only YESSIR has.

use std::path::PathBuf;

use clap::Args;
use earmark_boomerang::ReservationRequest;
use earmark_core::Rate;

/// What only loops have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Boomerang")]
pub(in crate::cli) struct LoopOptions {
    /// Rate from here to the far end.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) forward: Option<Rate>,
    /// Rate from the far end back to here.
    #[arg(long, value_name = "RATE")]
    pub(in crate::cli) reverse: Option<Rate>,
    /// Rates to be content with where the ones before are not to be had; may be given several times, ever smaller.
    #[arg(long = "or", value_name = "FORWARD/REVERSE", value_parser = wish)]
    pub(in crate::cli) or: Vec<ReservationRequest>,
    /// Take what is offered, if not all is granted.
    #[arg(long)]
    pub(in crate::cli) accept_less: bool,
    /// Read the secret of --user, at most eight octets long, from this file.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(in crate::cli) secret: Option<PathBuf>,
}

/// What only RTP streams have.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "YESSIR")]
pub(in crate::cli) struct StreamOptions {
    /// Rate of this RTP payload type (RFC 3551 section 6), such as 0 for PCMU.
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["rate", "measured"])]
    pub(in crate::cli) codec: Option<u8>,
    /// With --rate: ask for a class of service, named as its packets are marked: ef, cs5, af41, or a code point up to 63.
    #[arg(long, value_name = "DSCP", requires = "rate", value_parser = code_point)]
    pub(in crate::cli) class: Option<u8>,
    /// With --codec: frames in one packet.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "codec")]
    pub(in crate::cli) frames: u8,
    /// Whatever the reports show: the application tells the daemon how much it has sent.
    #[arg(long, conflicts_with = "rate")]
    pub(in crate::cli) measured: bool,
    /// Share one reservation with the other senders to this destination.
    #[arg(long)]
    pub(in crate::cli) shared: bool,
    /// Reports use the ports of the data (RFC 5761); otherwise the next ones.
    #[arg(long)]
    pub(in crate::cli) mux: bool,
    /// Do not wait for a receiver to answer: many RTP applications do not.
    #[arg(long)]
    pub(in crate::cli) unconfirmed: bool,
    /// Sign with this key of the daemon's.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) key: Option<u32>,
}

/// Reads a pair of rates such as `2Mbit/500kbit`.
fn wish(text: &str) -> Result<ReservationRequest, String> {
    let (forward, reverse) =
        text.split_once('/').ok_or("two rates are written 2Mbit/500kbit, there and back")?;
    let rate = |text: &str| match text {
        "0" => Ok(Rate::ZERO),
        text => text.parse::<Rate>().map_err(|error| error.to_string()),
    };
    Ok(ReservationRequest { forward: rate(forward)?, reverse: rate(reverse)? })
}

/// Reads a code point by its name (RFC 2474, 2597 or 3246) or number.
fn code_point(text: &str) -> Result<u8, String> {
    let digits = |text: &str| text.parse::<u8>().ok();
    let named = match text.to_ascii_lowercase().split_at_checked(2) {
        Some(("ef", "")) => Some(46),
        Some(("cs", class)) => digits(class).filter(|&class| class <= 7).map(|class| class << 3),
        Some(("af", both)) => digits(both)
            .map(|both| (both / 10, both % 10))
            .filter(|&(class, drop)| (1..=4).contains(&class) && (1..=3).contains(&drop))
            .map(|(class, drop)| class << 3 | drop << 1),
        _ => None,
    };
    let number = || digits(text).filter(|&number| number <= 63);
    named.or_else(number).ok_or_else(|| {
        "a class is ef, cs0 to cs7, af11 to af43, or a code point from 0 to 63".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_named_as_in_rfcs() {
        for (text, expected) in [
            ("ef", 46),
            ("EF", 46),
            ("cs0", 0),
            ("cs5", 40),
            ("af11", 10),
            ("af43", 38),
            ("46", 46),
        ] {
            assert_eq!(code_point(text), Ok(expected), "{text}");
        }
        for text in ["", "e", "ef1", "cs8", "cs", "af14", "af51", "af1", "64", "-1", "é1"] {
            assert!(code_point(text).is_err(), "{text}");
        }
    }
}
