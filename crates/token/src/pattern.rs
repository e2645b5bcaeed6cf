//! Patterns for names of users and applications.
//!
//! A name is either a distinguished name, a list of keys and values such as `CN=Alice, OU=Sales, O=Example` (RFC 3182
//! section 3.3.1) or `APP=voice, VER=1.2` (RFC 2872), or a plain one such as `alice@example.org`. A pattern has the
//! same syntax, and `*` in it matches any text. It matches a name that has all parts of the pattern, in any order and
//! among any others: `OU=Sales` matches everybody there. Case is ignored.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Pattern for names of users or applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// Error for a pattern without any part, which would match everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an empty pattern names nobody; `*` names everybody who gives a name")]
pub struct EmptyPattern;

impl Pattern {
    /// Returns whether a name matches.
    pub fn fits(&self, name: &str) -> bool {
        name_parts(&self.0).all(|(key, value)| {
            name_parts(name).any(|(its_key, its_value)| {
                // `*` alone matches anything.
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

/// Splits a distinguished name, such as `APP=SAP, VER=1.1`, into keys and values (RFC 2872 section 2). Separators are
/// commas and semicolons, except within quotation marks or behind a backslash (RFC 1779, on which RFC 2872 is based).
/// Quotation marks around a whole value are removed; a part without an equals sign has an empty value.
pub fn name_parts(name: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(name);
    core::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.find(|c: char| {
            let literal = escaped;
            escaped = !literal && c == '\\';
            quoted ^= c == '"' && !literal;
            matches!(c, ',' | ';') && !literal && !quoted
        });
        rest = end.and_then(|end| text.get(end + 1..));
        text.get(..end.unwrap_or(text.len()))
    })
    .filter(|part| !part.trim().is_empty())
    .map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (key.trim(), inner.unwrap_or(value))
    })
}

/// Returns whether a text matches a pattern in which `*` stands for any octets. The number of steps is at most the
/// product of the lengths, because only the last star is retried.
fn fits_text(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Position for a retry if the part behind the last star does not match: behind the star, and one octet further in
    // the text.
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
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pattern_matches_names_with_its_parts() {
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
    fn names_are_split_at_unquoted_commas() {
        let parts = |name| name_parts(name).collect::<Vec<_>>();
        let guid = "GUID=http://www.example.com/apps, APP=MyApplication; VER=1.2.3";
        let expected =
            [("GUID", "http://www.example.com/apps"), ("APP", "MyApplication"), ("VER", "1.2.3")];
        assert_eq!(parts(guid), expected);
        assert_eq!(
            parts(r#"CN="Smith, Ann" , O=A\,B\\,C"#),
            [("CN", "Smith, Ann"), ("O", r"A\,B\\"), ("C", "")]
        );
        assert_eq!(parts(r#"CN="unfinished, O=A"#), [("CN", r#""unfinished, O=A"#)]);
        assert_eq!(parts(""), []);
        assert_eq!(parts(" , ;"), []);
        assert_eq!(parts("ä=ö,"), [("ä", "ö")]);
    }

    #[test]
    fn empty_pattern_is_rejected() {
        for text in ["", "  ", ",", " , ;"] {
            assert_eq!(text.parse::<Pattern>(), Err(EmptyPattern), "{text:?}");
        }
    }

    /// Only the last star is retried, so many stars take no exponential time.
    #[test]
    fn many_stars_match_in_bounded_time() {
        let pattern = "*a".repeat(100) + "b";
        assert!(!fits_text(&pattern, &"a".repeat(2_000)));
    }

    proptest! {
        #[test]
        fn arbitrary_names_are_split(name in "[a=,;\\\\\" ä]{0,20}") {
            for (key, value) in name_parts(&name) {
                prop_assert!(name.contains(key) && name.contains(value));
            }
        }
    }
}
