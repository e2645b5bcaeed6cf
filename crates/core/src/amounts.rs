//! Parsing and formatting of times and amounts of octets in the configuration and on the command line.
//!
//! Rates are parsed by [`crate::Rate`].

use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// Reason why a text is not a time span or an amount of octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a time span.
    #[error("a time is a number and its unit (us, ms, s, min, h or d), such as 20ms or 30s")]
    Time,
    /// The text is not an amount of octets.
    #[error(
        "an amount of data is a number and its unit (B, kB, KiB, MB or MiB), such as 1500B or 10kB"
    )]
    Octets,
    /// The number is too large.
    #[error("the number is too large")]
    TooLarge,
}

/// Parses `250us`, `20ms`, `1.5s`, `2min` or `2m`, `8h`, `30d`. The unit is required, since a bare number would be ambiguous.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text).ok_or(UnitError::Time)?;
    let seconds = number
        * match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(UnitError::Time),
        };
    Duration::try_from_secs_f64(seconds).map_err(|_| UnitError::TooLarge)
}

/// Parses `1500`, `1500B`, `10kB`, `10KiB`, `1MB`, `1MiB` as octets.
pub fn parse_octets(text: &str) -> Result<u32, UnitError> {
    let (number, unit) = split(text).ok_or(UnitError::Octets)?;
    let octets = number
        * match unit {
            "" | "B" => 1.0,
            "kB" | "k" => 1e3,
            "KiB" => 1024.0,
            "MB" | "M" => 1e6,
            "MiB" => 1_048_576.0,
            _ => return Err(UnitError::Octets),
        };
    if octets > f64::from(u32::MAX) {
        return Err(UnitError::TooLarge);
    }
    Ok(octets as u32)
}

/// Formats a time span with three digits and a suitable unit: `12.3 ms`.
pub fn show_duration(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        s if s >= 60.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// Formats an amount of octets: `1.5 kB`.
pub fn show_octets(octets: u64) -> String {
    match octets {
        o if o >= 10_000_000_000 => format!("{:.1} GB", o as f64 / 1e9),
        o if o >= 10_000_000 => format!("{:.1} MB", o as f64 / 1e6),
        o if o >= 10_000 => format!("{:.1} kB", o as f64 / 1e3),
        o => format!("{o} B"),
    }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_unit_is_rejected() {
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("2m"), parse_duration("2min"));
        assert_eq!(parse_duration("8h"), Ok(Duration::from_secs(28_800)));
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(2_592_000)));
        for text in ["", "30", "ms", "-1s", "1y", "1..2s"] {
            assert_eq!(parse_duration(text), Err(UnitError::Time), "{text}");
        }
        let ages = "9".repeat(60) + "s";
        assert_eq!(parse_duration(&ages), Err(UnitError::TooLarge));
    }

    #[test]
    fn kilobyte_and_kibibyte_differ() {
        assert_eq!(parse_octets("10kB"), Ok(10_000));
        assert_eq!(parse_octets("10KiB"), Ok(10_240));
        assert_eq!(parse_octets("1500"), Ok(1_500));
        assert_eq!(parse_octets("1MB"), Ok(1_000_000));
        assert_eq!(parse_octets("10kbit"), Err(UnitError::Octets));
        assert_eq!(parse_octets("9999MB"), Err(UnitError::TooLarge));
    }

    #[test]
    fn shown_amount_has_suitable_unit() {
        assert_eq!(show_duration(Duration::from_micros(12_340)), "12.3 ms");
        assert_eq!(show_duration(Duration::from_secs(157)), "157 s");
        assert_eq!(show_octets(1_500), "1500 B");
        assert_eq!(show_octets(10_500), "10.5 kB");
        assert_eq!(show_octets(12_340_000), "12.3 MB");
        assert_eq!(show_octets(1_234_500_000_000), "1234.5 GB");
    }
}
