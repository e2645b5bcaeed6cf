//! Users behind requests, as shown in listings and events.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::token::Token;
use crate::verify::Verified;

/// Name of a user, and whether a token proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Name as in the token, or as claimed.
    pub name: String,
    /// Whether a token proves the name.
    pub verified: bool,
}

impl User {
    /// Returns how the name is known: `verified` or `claimed`.
    pub fn proof(&self) -> &'static str {
        if self.verified { "verified" } else { "claimed" }
    }

    /// Returns the user of a request with a token: proven if the token was verified, and only claimed if not.
    pub fn of_token(token: &[u8], verified: Option<&Verified>) -> Option<User> {
        let proven = verified.map(|verified| (verified.name.clone(), true));
        let (name, verified) = proven.or_else(|| {
            let claims = Token::try_from(token).ok()?.claims().ok()?;
            Some((claims.name, false))
        })?;
        Some(User { name, verified })
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.proof())
    }
}
