//! Subjects of the event stream: `PREFIX.NODE.PROTOCOL.EVENT`.

use std::fmt::Write;
use std::str::FromStr;

/// Most octets of a token that are kept; each may become three.
const MAX_TOKEN: usize = 64;
/// Most octets of a prefix.
const MAX_PREFIX: usize = 64;

/// First tokens of all subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

/// Why a text is not a prefix of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The text is too long.
    #[error("a subject prefix has at most {MAX_PREFIX} octets")]
    Long,
    /// A token is empty or has other characters.
    #[error("a subject prefix is words of letters, digits, `-` and `_`, separated by dots")]
    Character,
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        if text.len() > MAX_PREFIX {
            return Err(PrefixError::Long);
        }
        let valid = |token: &str| !token.is_empty() && token.bytes().all(is_plain);
        match text.split('.').all(valid) {
            true => Ok(Prefix(text.to_owned())),
            false => Err(PrefixError::Character),
        }
    }
}

impl Prefix {
    /// Returns the subject of an event. An event of the node itself has no name of its own: its kind, the `protocol` of the
    /// control protocol, is the last token, after `node`.
    pub fn subject(&self, node: &str, protocol: &str, event: &str) -> String {
        let (protocol, event) =
            if event.is_empty() { ("node", protocol) } else { (protocol, event) };
        format!("{}.{}.{}.{}", self.0, token(node), token(protocol), token(event))
    }

    /// Returns the pattern of all subjects.
    pub fn all(&self) -> String {
        format!("{}.>", self.0)
    }
}

/// Returns a text as one token: octets other than letters, digits, `-` and `_` are percent-encoded, so that different names
/// have different tokens. The empty text is `%`. Only the first 64 octets count.
pub fn token(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut token = String::with_capacity(text.len().min(MAX_TOKEN));
    for octet in text.bytes().take(MAX_TOKEN) {
        if is_plain(octet) {
            token.push(char::from(octet));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(token, "%{octet:02X}");
        }
    }
    token
}

fn is_plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn subject_has_prefix_node_protocol_and_event() {
        let prefix = prefix("earmark");
        assert_eq!(prefix.subject("r1", "export", "lost"), "earmark.r1.export.lost");
        assert_eq!(prefix.all(), "earmark.>");
    }

    #[test]
    fn event_of_node_has_its_kind_last() {
        assert_eq!(prefix("a.b").subject("r1", "enforcement", ""), "a.b.r1.node.enforcement");
    }

    #[test]
    fn characters_with_a_meaning_in_subjects_are_encoded() {
        for (name, expected) in [
            ("r1.example.net", "r1%2Eexample%2Enet"),
            ("*", "%2A"),
            (">", "%3E"),
            ("a b\r\n", "a%20b%0D%0A"),
            ("50%", "50%25"),
            ("zürich", "z%C3%BCrich"),
            ("", "%"),
            ("edge-1_b", "edge-1_b"),
        ] {
            assert_eq!(token(name), expected);
        }
    }

    #[test]
    fn long_name_is_cut() {
        assert_eq!(token(&"a".repeat(1_000)).len(), MAX_TOKEN);
        assert_eq!(token(&".".repeat(1_000)).len(), 3 * MAX_TOKEN);
    }

    #[test]
    fn invalid_prefix_is_refused() {
        for text in ["", ".", "a.", "a..b", "a b", "a.*", "a.>", "%"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Character), "{text:?}");
        }
        assert_eq!("a".repeat(65).parse::<Prefix>(), Err(PrefixError::Long));
    }
}
