//! Floating-point values in text formats, without loss: for `#[serde(with = "...")]`.
//!
//! JSON has no infinity, which is the value of an unknown peak rate (RFC 2215 section 3.6). Finite numbers are written
//! as numbers, infinity as `"infinity"`, every other bit pattern (a peer may send any) in hexadecimal.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Serializes `value`.
///
/// # Errors
/// The errors of the serializer.
pub fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f32(*value)
    } else if *value == f32::INFINITY {
        serializer.serialize_str("infinity")
    } else {
        serializer.collect_str(&format_args!("{:#010x}", value.to_bits()))
    }
}

/// Deserializes the output of [`serialize`].
///
/// # Errors
/// The input is neither a number, nor `"infinity"`, nor eight hexadecimal digits after `0x`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    deserializer.deserialize_any(Exact)
}

struct Exact;

impl Visitor<'_> for Exact {
    type Value = f32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"infinity\", or the bits of one such as \"0x7fc00000\"")
    }

    fn visit_f32<E: Error>(self, value: f32) -> Result<f32, E> {
        Ok(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f32, E> {
        if text == "infinity" {
            return Ok(f32::INFINITY);
        }
        text.strip_prefix("0x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .map(f32::from_bits)
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}
