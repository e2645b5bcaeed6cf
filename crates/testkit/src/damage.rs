//! Damage to texts that people write.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Odd values: extremes of all ranges, other types, text that is no value.
pub const ODD: [&str; 26] = [
    "",
    "0",
    "-1",
    "1e308",
    "1e999",
    "nan",
    "4294967296",
    "9223372036854775807",
    "18000000000000000000",
    "18446744073709551615",
    "\"18000000000000000000s\"",
    "\"uniform 0s 18000000000000000000s\"",
    "\"uniform 18000000000000000000s 18000000000000000000s\"",
    "\"99999999999999999999Gbit\"",
    "\"0\"",
    "\"0bit\"",
    "\"0.0.0.0/0\"",
    "\"\"",
    "\"\u{0}é€😀\"",
    "2027-13-32",
    "true",
    "[]",
    "{}",
    "[[[[[]]]]]",
    "[[flows]]",
    "\n=\n",
];

/// A change of a text: an octet is changed, a value or a line is replaced by something odd, a line is duplicated, the
/// end is lost.
#[derive(Clone, Debug)]
pub enum Damage {
    /// An octet has another value.
    Octet(Index, u8),
    /// A value, behind an equals sign, is replaced.
    Value(Index, &'static str),
    /// A line is replaced.
    Line(Index, &'static str),
    /// A line is duplicated.
    Twice(Index),
    /// The end is lost.
    Lost(Index),
}

/// Generates any damage.
pub fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<(Index, u8)>().prop_map(|(at, octet)| Damage::Octet(at, octet)),
        (any::<Index>(), select(&ODD[..])).prop_map(|(at, odd)| Damage::Value(at, odd)),
        (any::<Index>(), select(&ODD[..])).prop_map(|(at, odd)| Damage::Line(at, odd)),
        any::<Index>().prop_map(Damage::Twice),
        any::<Index>().prop_map(Damage::Lost),
    ]
}

/// Returns the text with all damage applied.
pub fn damaged(text: &str, damage: &[Damage]) -> String {
    let mut text = text.to_owned();
    for damage in damage {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.is_empty() {
            return text;
        }
        match damage {
            Damage::Octet(at, octet) => {
                let mut octets = text.into_bytes();
                let at = at.index(octets.len());
                octets[at] = *octet;
                text = String::from_utf8_lossy(&octets).into_owned();
                continue;
            }
            Damage::Lost(at) => {
                text.truncate(text.floor_char_boundary(at.index(text.len())));
                continue;
            }
            Damage::Value(at, odd) => {
                let line = &mut lines[at.index(text.lines().count())];
                if let Some((key, _)) = line.split_once('=') {
                    *line = format!("{key}= {odd}");
                }
            }
            Damage::Line(at, odd) => {
                let at = at.index(lines.len());
                lines[at] = (*odd).to_owned();
            }
            Damage::Twice(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at].clone());
            }
        }
        text = lines.join("\n");
    }
    text
}

/// Inverts bits of octets, each given by a number and a mask.
pub fn flip(octets: &mut [u8], damage: &[(u16, u8)]) {
    for &(at, mask) in damage {
        let at = usize::from(at) % octets.len();
        octets[at] ^= mask;
    }
}
