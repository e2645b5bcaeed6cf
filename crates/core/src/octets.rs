//! Octets that people can read in recordings and listings.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Octets written in hexadecimal, in lower case and without spaces.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Octets(pub Vec<u8>);

/// Reason why a text is not octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OctetsError {
    /// A character that is not a hexadecimal digit.
    #[error("no hexadecimal digit at offset {offset}")]
    Digit {
        /// Offset in the text, octets.
        offset: usize,
    },
    /// The last octet has one digit only.
    #[error("an odd number of hexadecimal digits: {length}")]
    Odd {
        /// Length of the text.
        length: usize,
    },
}

impl fmt::Display for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hexadecimal(&self.0), f)
    }
}

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hexadecimal(&self.0), f)
    }
}

impl FromStr for Octets {
    type Err = OctetsError;

    fn from_str(text: &str) -> Result<Octets, OctetsError> {
        let digit = |(offset, character): (usize, u8)| {
            char::from(character).to_digit(16).ok_or(OctetsError::Digit { offset })
        };
        let digits: Vec<u32> = text.bytes().enumerate().map(digit).collect::<Result<_, _>>()?;
        let (pairs, []) = digits.as_chunks::<2>() else {
            return Err(OctetsError::Odd { length: digits.len() });
        };
        Ok(Octets(pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect()))
    }
}

impl Serialize for Octets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hexadecimal(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Octets, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Writes octets as [`Octets`] does.
pub(crate) fn hexadecimal<S: Serializer>(octets: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Hexadecimal(octets))
}

struct Hexadecimal<'a>(&'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::vec;

    use serde_json::from_str;

    use super::*;

    #[test]
    fn invalid_octets_are_rejected_with_offset() {
        assert_eq!("".parse(), Ok(Octets::default()));
        assert_eq!("00aBff".parse(), Ok(Octets(vec![0, 0xab, 0xff])));
        assert_eq!("00abf".parse::<Octets>(), Err(OctetsError::Odd { length: 5 }));
        assert_eq!("00 ab".parse::<Octets>(), Err(OctetsError::Digit { offset: 2 }));
        assert_eq!("00é".parse::<Octets>(), Err(OctetsError::Digit { offset: 2 }));
        let error = from_str::<Octets>(r#""0x10""#).expect_err("not octets");
        assert!(error.to_string().contains("offset 1"), "{error}");
    }
}
