//! Signed tokens, as octets and as text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde::{Deserialize, Serialize};

use crate::claims::{Claims, ClaimsError};
use crate::encoding::{self, Signed};
use crate::key::{PublicKey, SecretKey};
use crate::{MAX_LENGTH, TokenError};

/// A token: at most [`MAX_LENGTH`] octets that may be malformed. Its text is Base64 for URLs (RFC 4648 section 5) without
/// padding.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(Vec<u8>);

/// Error: the text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenTextError {
    /// The text is too long.
    #[error("a token has at most {MAX_LENGTH} octets")]
    TooLong,
    /// The text has other characters than those of Base64.
    #[error("a token is one line of letters, digits, - and _ (Base64 for URLs)")]
    Characters,
}

impl Claims {
    /// Signs the claims.
    ///
    /// # Errors
    /// No token can have these claims.
    pub fn sign(&self, key: &SecretKey) -> Result<Token, ClaimsError> {
        self.check()?;
        Ok(Token(encoding::encode(self, |message| key.sign(message).to_vec())))
    }
}

impl Token {
    /// Returns the octets, as in messages.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Returns the claims without verifying the signature.
    ///
    /// # Errors
    /// The token is malformed.
    pub fn claims(&self) -> Result<Claims, TokenError> {
        Signed::decode(&self.0).map(|signed| signed.claims)
    }

    /// Returns whether the owner of a key has signed the token, whatever it is used for.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        Signed::decode(&self.0)
            .is_ok_and(|Signed { message, signature, .. }| key.has_signed(&message, &signature))
    }
}

impl FromStr for Token {
    type Err = TokenTextError;

    fn from_str(text: &str) -> Result<Token, TokenTextError> {
        let text = text.trim();
        if text.len() > MAX_LENGTH.div_ceil(3) * 4 {
            return Err(TokenTextError::TooLong);
        }
        let octets = Base64UrlUnpadded::decode_vec(text).ok().filter(|octets| !octets.is_empty());
        let octets = octets.ok_or(TokenTextError::Characters)?;
        if octets.len() > MAX_LENGTH { Err(TokenTextError::TooLong) } else { Ok(Token(octets)) }
    }
}

impl TryFrom<&[u8]> for Token {
    type Error = TokenTextError;

    fn try_from(octets: &[u8]) -> Result<Token, TokenTextError> {
        if octets.len() > MAX_LENGTH {
            return Err(TokenTextError::TooLong);
        }
        Ok(Token(octets.to_vec()))
    }
}

impl TryFrom<String> for Token {
    type Error = TokenTextError;

    fn try_from(text: String) -> Result<Token, TokenTextError> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        token.to_string()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64UrlUnpadded::encode_string(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} octets)", self.0.len())
    }
}
