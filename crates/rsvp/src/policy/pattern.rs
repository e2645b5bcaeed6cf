//! Patterns for the names by which users and applications say who they are.
//!
//! A name is either a distinguished one, a list of keys and values such as `CN=Alice, OU=Sales, O=Example` (RFC 3182
//! section 3.3.1) or `APP=voice, VER=1.2` (RFC 2872), or a plain one such as `alice@example.org`. A pattern is written
//! alike, and `*` in it stands for any text. It fits a name that has all the parts of the pattern, in whatever order and
//! among whatever others: `OU=Sales` fits everybody there. Letters of either case are the same.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use earmark_wire::rsvp::name_parts;
use serde::{Deserialize, Serialize};

/// Which names of users or applications are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// A pattern without any part would fit everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an empty pattern names nobody; `*` names everybody who gives a name")]
pub struct EmptyPattern;

impl Pattern {
    /// Whether a name is one of those that are meant.
    pub fn fits(&self, name: &str) -> bool {
        name_parts(&self.0).all(|(key, value)| {
            name_parts(name).any(|(its_key, its_value)| {
                // `*` alone fits whatever there is.
                let anything = key == "*" && value.is_empty();
                anything || fits_text(key, its_key) && fits_text(value, its_value)
            })
        })
    }
}

impl FromStr for Pattern {
    type Err = EmptyPattern;

    fn from_str(text: &str) -> Result<Pattern, EmptyPattern> {
        Pattern::try_from(String::from(text))
    }
}

impl TryFrom<String> for Pattern {
    type Error = EmptyPattern;

    fn try_from(text: String) -> Result<Pattern, EmptyPattern> {
        if name_parts(&text).next().is_none() { Err(EmptyPattern) } else { Ok(Pattern(text)) }
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text fits a pattern in which `*` stands for any octets. At most the product of their lengths in steps, for
/// only the last star is ever tried again.
fn fits_text(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what comes behind the last star does not fit: behind the star, and one octet further on.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                retry = Some((p, t));
            }
            Some(octet) if octet.eq_ignore_ascii_case(&text[t]) => (p, t) = (p + 1, t + 1),
            _ => match &mut retry {
                None => return false,
                Some((star, from)) => {
                    *from += 1;
                    (p, t) = (*star, *from);
                }
            },
        }
    }
    pattern[p..].iter().all(|octet| *octet == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_the_names_that_are_meant() {
        let alice = "CN=Alice Doe, OU=Sales, O=Example";
        for (pattern, name, fits) in [
            ("CN=Alice Doe", alice, true),
            ("cn=alice doe", alice, true),
            ("O=Example, CN=Alice*", alice, true),
            ("OU=*", alice, true),
            ("*", alice, true),
            ("OU=Sales, O=Other", alice, false),
            ("CN=Alice", alice, false),
            ("CN=*Doe", alice, true),
            ("C=DE", alice, false),
            ("Alice*", alice, false),
            ("alice@example.org", "alice@example.org", true),
            ("*@example.org", "alice@example.org", true),
            ("*@example.org", "alice@example.org.evil.net", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("APP=voice", "GUID=http://example.org/, APP=voice, VER=\"1.2\"", true),
            ("APP=voice, VER=1.*", "GUID=http://example.org/, APP=voice, VER=\"1.2\"", true),
            ("*", "", false),
        ] {
            let read: Pattern = pattern.parse().expect("not empty");
            assert_eq!(read.fits(name), fits, "{pattern:?} and {name:?}");
        }
    }

    #[test]
    fn an_empty_pattern_is_none() {
        for text in ["", "  ", ",", " , ;"] {
            assert_eq!(text.parse::<Pattern>(), Err(EmptyPattern), "{text:?}");
        }
    }

    /// Only the last star is tried again, so that a pattern of many stars takes no exponential time.
    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(100) + "b";
        assert!(!fits_text(&pattern, &"a".repeat(2_000)));
    }
}
