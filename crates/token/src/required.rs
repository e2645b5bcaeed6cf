//! Requirement of proven names, of a node or of a rule.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// Whose requests are granted. By default everybody's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Required {
    /// Whether a token must prove the name of the user.
    pub verified: bool,
    /// Names that may reserve, of those that a token proves; empty for all of them. With names, one must be proven.
    pub users: Vec<Pattern>,
}

impl Required {
    /// Returns whether a request needs a proven name.
    #[inline]
    pub fn needs_name(&self) -> bool {
        self.verified || !self.users.is_empty()
    }

    /// Returns whether a request may be granted, with the name that its token proves.
    pub fn allows(&self, name: Option<&str>) -> bool {
        match name {
            Some(name) => {
                self.users.is_empty() || self.users.iter().any(|pattern| pattern.fits(name))
            }
            None => !self.needs_name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_is_about_proven_names() {
        let users = |text: &str| Vec::from([text.parse().expect("a pattern")]);
        for (verified, users, [anonymous, proven]) in [
            (false, Vec::new(), [true, true]),
            (true, Vec::new(), [false, true]),
            (false, users("alice@*"), [false, true]),
            (true, users("bob@*"), [false, false]),
        ] {
            let required = Required { verified, users };
            assert_eq!(required.allows(None), anonymous, "{required:?}");
            assert_eq!(required.allows(Some("alice@example.org")), proven, "{required:?}");
            assert_eq!(required.needs_name(), !anonymous);
        }
    }
}
