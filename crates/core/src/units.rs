//! Bandwidth: parsing, formatting and arithmetic.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, Sub};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bits per second. Whole numbers, so that sums can be subtracted again exactly.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Rate(u64);

impl Rate {
    /// Zero.
    pub const ZERO: Rate = Rate(0);
    /// The maximum, more than any link has.
    pub const MAX: Rate = Rate(u64::MAX);

    /// Returns `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// Returns `mbps` million bits per second.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps.saturating_mul(1_000_000))
    }

    /// Converts IntServ's octets per second, rounded up to a whole bit; negative numbers and NaN become zero.
    pub fn from_octets_per_second(octets: f32) -> Rate {
        let bits = f64::from(octets) * 8.0;
        let whole = bits as u64; // saturates; NaN and negatives give 0
        Rate(if (whole as f64) < bits { whole.saturating_add(1) } else { whole })
    }

    /// Returns IntServ's octets per second.
    pub fn as_octets_per_second(self) -> f32 {
        (self.0 as f64 / 8.0) as f32
    }

    /// Returns the bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Returns the sum, or [`Rate::MAX`].
    pub const fn saturating_add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero.
    pub const fn saturating_sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }

    /// Returns this rate times `share`, rounded down; `share` is clamped to 0 to 1.
    pub fn share(self, share: f64) -> Rate {
        Rate((self.0 as f64 * share.clamp(0.0, 1.0)) as u64)
    }
}

impl Add for Rate {
    type Output = Rate;

    fn add(self, other: Rate) -> Rate {
        Rate(self.0 + other.0)
    }
}

impl Sub for Rate {
    type Output = Rate;

    fn sub(self, other: Rate) -> Rate {
        Rate(self.0 - other.0)
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, Rate::saturating_add)
    }
}

const STEPS: [(u64, &str); 3] =
    [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, name) in STEPS {
            if self.0 >= step {
                let thousandths = self.0 / (step / 1_000).max(1);
                let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
                if rest == 0 {
                    return write!(f, "{whole} {name}");
                }
                // Trailing zeros are omitted.
                let (rest, width) = match rest {
                    r if r % 100 == 0 => (r / 100, 1),
                    r if r % 10 == 0 => (r / 10, 2),
                    r => (r, 3),
                };
                return write!(f, "{whole}.{rest:0width$} {name}");
            }
        }
        write!(f, "{} bit/s", self.0)
    }
}

/// Reason why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The text has no leading number.
    #[error("a rate starts with a number, such as 10Mbit or 64kbit")]
    NoNumber,
    /// The unit is unknown.
    #[error("the unit of a rate is bit, kbit, Mbit or Gbit (a trailing /s is allowed)")]
    UnknownUnit,
    /// The number is too large.
    #[error("the rate is too large")]
    TooLarge,
}

impl FromStr for Rate {
    type Err = RateError;

    /// Parses `2Mbit`, `64 kbit/s`, `1.5Gbit`, `800bit`, and a bare number of bits per second. Case does not matter.
    fn from_str(text: &str) -> Result<Rate, RateError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let number: f64 = text[..end].parse().map_err(|_| RateError::NoNumber)?;
        let unit = text[end..].trim();
        let unit = match unit.strip_suffix("ps") {
            Some(bits) => bits.strip_suffix('b').unwrap_or(bits), // mbps; but MBps means octets
            None => unit.strip_suffix("/s").unwrap_or(unit),
        };
        let factor = match unit {
            "" => 1.0,
            u if u.eq_ignore_ascii_case("bit") || u.eq_ignore_ascii_case("b") => 1.0,
            u if u.eq_ignore_ascii_case("kbit") || u.eq_ignore_ascii_case("k") => 1e3,
            u if u.eq_ignore_ascii_case("mbit") || u.eq_ignore_ascii_case("m") => 1e6,
            u if u.eq_ignore_ascii_case("gbit") || u.eq_ignore_ascii_case("g") => 1e9,
            _ => return Err(RateError::UnknownUnit),
        };
        let bits = number * factor;
        if bits >= u64::MAX as f64 {
            return Err(RateError::TooLarge);
        }
        Ok(Rate(bits as u64))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    /// Every spelling in the help texts, with its value.
    #[test]
    fn rate_spellings_are_parsed() {
        for (text, bps) in [
            ("2Mbit", 2_000_000),
            ("64 kbit/s", 64_000),
            ("1.5Gbit", 1_500_000_000),
            ("800bit", 800),
            ("1200", 1_200),
            ("10mbps", 10_000_000),
            (" 0 ", 0),
        ] {
            assert_eq!(text.parse(), Ok(Rate::from_bps(bps)), "{text}");
        }
        assert_eq!("fast".parse::<Rate>(), Err(RateError::NoNumber));
        assert_eq!("-1Mbit".parse::<Rate>(), Err(RateError::NoNumber));
        assert_eq!("10MB".parse::<Rate>(), Err(RateError::UnknownUnit));
        assert_eq!("10MBps".parse::<Rate>(), Err(RateError::UnknownUnit));
        assert_eq!("99999999999Gbit".parse::<Rate>(), Err(RateError::TooLarge));
    }

    #[test]
    fn rate_is_shown_in_largest_exact_unit() {
        for (bps, text) in [
            (0, "0 bit/s"),
            (999, "999 bit/s"),
            (64_000, "64 kbit/s"),
            (1_500_000, "1.5 Mbit/s"),
            (1_050_000, "1.05 Mbit/s"),
            (2_000_001, "2 Mbit/s"),
            (10_000_000_000, "10 Gbit/s"),
        ] {
            assert_eq!(Rate::from_bps(bps).to_string(), text);
        }
    }

    #[test]
    fn rate_is_converted_to_octets() {
        assert_eq!(Rate::from_bps(8_000).as_octets_per_second(), 1_000.0);
        assert_eq!(Rate::from_bps(1).as_octets_per_second(), 0.125);
    }

    /// The ledger must never hold less than was requested, so fractions of a bit round up.
    #[test]
    fn octets_per_second_round_up_and_invalid_is_zero() {
        assert_eq!(Rate::from_octets_per_second(250_000.0), Rate::from_mbps(2));
        assert_eq!(Rate::from_octets_per_second(0.01), Rate::from_bps(1));
        assert_eq!(Rate::from_octets_per_second(f32::NAN), Rate::ZERO);
        assert_eq!(Rate::from_octets_per_second(-5.0), Rate::ZERO);
        assert_eq!(Rate::from_octets_per_second(f32::INFINITY), Rate::MAX);
    }
}
