//! Session identifiers, common to GIST and its applications.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Session identifier: 128 random bits (RFC 5971 section 3.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Length of the identifier, octets.
    pub const LEN: usize = 16;
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// Serialized as hexadecimal digits, the displayed form.
impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        deserializer.deserialize_str(Digits)
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = SessionId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SessionId, E> {
        let digits = Some(text).filter(|text| text.len() == 32 && !text.starts_with('+'));
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        number
            .map(|number| SessionId(number.to_be_bytes()))
            .ok_or_else(|| Error::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}
