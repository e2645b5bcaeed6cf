//! Names of routers on the command line: destinations of SSH.

use std::fmt;
use std::sync::Arc;

/// Most routers of one command.
pub(crate) const MAX_ROUTERS: usize = 256;
/// Most characters of a name; a DNS name has at most 253.
const MAX_LENGTH: usize = 255;
/// Characters of names, besides letters and digits: those of `user@host`, `ssh://host:port` and IPv6 addresses.
const PUNCTUATION: &str = ".-_@:/[]%+";

/// Name of a router, as `ssh` takes it: `r1`, `admin@r1`, `ssh://admin@r1:2222`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouterName(Arc<str>);

impl RouterName {
    fn parse(text: &str) -> Result<RouterName, String> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || PUNCTUATION.contains(c);
        if text.is_empty() {
            return Err("the name of a router is empty".to_owned());
        }
        // `ssh` would read it as an option.
        if text.starts_with('-') || text.contains("@-") {
            return Err(format!("{text:?} begins with `-`; name the router otherwise"));
        }
        if text.len() > MAX_LENGTH {
            return Err(format!("the name of a router has more than {MAX_LENGTH} characters"));
        }
        match text.chars().find(|&c| !is_allowed(c)) {
            Some(c) => Err(format!(
                "{text:?} has the character {c:?}; a router is named as for `ssh`: r1, admin@r1"
            )),
            None => Ok(RouterName(text.into())),
        }
    }

    /// Returns the name as it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RouterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Names of the routers of a command, in the order given, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouterNames(Vec<RouterName>);

impl RouterNames {
    /// Parses names with commas between them.
    ///
    /// # Errors
    /// A name is empty, invalid or given twice; there are too many.
    pub(crate) fn parse(text: &str) -> Result<RouterNames, String> {
        let names = text.split(',').map(RouterName::parse).collect::<Result<Vec<_>, _>>()?;
        if names.len() > MAX_ROUTERS {
            return Err(format!(
                "{} routers are named; at most {MAX_ROUTERS} are possible",
                names.len()
            ));
        }
        let mut sorted: Vec<&RouterName> = names.iter().collect();
        sorted.sort();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} is named twice", pair[0])),
            None => Ok(RouterNames(names)),
        }
    }

    /// Returns the names.
    pub(crate) fn as_slice(&self) -> &[RouterName] {
        &self.0
    }

    /// Returns the length of the longest name.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|name| name.as_str().len()).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_ssh() {
        let text = "r1,admin@r2.example.net,ssh://admin@r3:2222,2001:db8::1,fe80::1%eth0";
        let names = RouterNames::parse(text).expect("valid names");
        let given: Vec<&str> = names.as_slice().iter().map(RouterName::as_str).collect();
        assert_eq!(given.join(","), text);
        assert_eq!(names.width(), "admin@r2.example.net".len());
    }

    #[test]
    fn invalid_names_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("r1,", "empty"),
            ("r1,,r2", "empty"),
            ("-oProxyCommand=x", "begins with `-`"),
            ("r1,-r2", "begins with `-`"),
            ("admin@-oX", "begins with `-`"),
            ("r1 r2", "character ' '"),
            ("r1;reboot", "character ';'"),
            ("$(reboot)", "character '$'"),
            ("r1\n", "character '\\n'"),
            ("r\u{fc}1", "character"),
            ("r1,r2,r1", "r1 is named twice"),
        ] {
            let error = RouterNames::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(RouterNames::parse(&"x".repeat(256)).is_err());
        let numbered =
            |count: usize| (0..count).map(|n| format!("r{n}")).collect::<Vec<_>>().join(",");
        assert!(RouterNames::parse(&numbered(MAX_ROUTERS)).is_ok());
        let error = RouterNames::parse(&numbered(MAX_ROUTERS + 1)).expect_err("too many");
        assert_eq!(error, "257 routers are named; at most 256 are possible");
    }
}
