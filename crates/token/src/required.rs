//! Requirement of proven names, for protocols without rules.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;
use crate::verify::Verified;

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

    /// Returns whether the request of a user may be granted.
    pub fn allows(&self, verified: Option<&Verified>) -> bool {
        match verified {
            Some(Verified { name, .. }) => {
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
        let alice = Some(Verified { name: "alice@example.org".into(), until: 1 });
        for (verified, users, [anonymous, proven]) in [
            (false, Vec::new(), [true, true]),
            (true, Vec::new(), [false, true]),
            (false, users("alice@*"), [false, true]),
            (true, users("bob@*"), [false, false]),
        ] {
            let required = Required { verified, users };
            assert_eq!(required.allows(None), anonymous, "{required:?}");
            assert_eq!(required.allows(alice.as_ref()), proven, "{required:?}");
            assert_eq!(required.needs_name(), !anonymous);
        }
    }
}
