//! Secrets that nodes and users share, and digests keyed with them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Secret octets, never shown, and overwritten on drop.
///
/// Recordings and listings contain nothing in their place, so a secret read back from there is empty and cannot be
/// used.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret from octets or text.
    pub fn new(octets: impl Into<Vec<u8>>) -> Secret {
        Secret(Zeroizing::new(octets.into()))
    }

    /// Returns whether the secret is missing, as in a key read back from a recording.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the octets.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Returns the digest of no octets yet that is keyed with the secret.
    pub fn keyed_digest(&self) -> KeyedDigest {
        // HMAC accepts keys of any length; the error type serves other constructions.
        KeyedDigest(Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            // Recordings of earlier versions have an empty text.
            None => Ok(Secret::default()),
            Some(text) if text.is_empty() => Ok(Secret::default()),
            Some(_) => Err(D::Error::custom("a secret is not read from here")),
        }
    }
}

/// Seed of the random streams of cookies, keys and identifiers, never shown or recorded.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum SecretSeed {
    /// No seed of its own: one seed serves all streams.
    #[default]
    None,
    /// A seed that a recording does not contain.
    Redacted,
    /// The seed.
    Known(u64),
}

impl SecretSeed {
    /// Returns the seed if it is known.
    pub fn known(self) -> Option<u64> {
        match self {
            SecretSeed::Known(seed) => Some(seed),
            SecretSeed::None | SecretSeed::Redacted => None,
        }
    }
}

const REDACTED: &str = "redacted";

impl fmt::Debug for SecretSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretSeed(..)")
    }
}

impl Serialize for SecretSeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SecretSeed::None => serializer.serialize_unit(),
            SecretSeed::Redacted | SecretSeed::Known(_) => serializer.serialize_str(REDACTED),
        }
    }
}

impl<'de> Deserialize<'de> for SecretSeed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(SecretSeed::None),
            Some(text) if text == REDACTED => Ok(SecretSeed::Redacted),
            Some(_) => Err(D::Error::custom("a secret is not read from here")),
        }
    }
}

/// HMAC-SHA-256 (RFC 2104) of the octets given so far.
pub struct KeyedDigest(Hmac<Sha256>);

impl KeyedDigest {
    /// Appends octets.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// Returns the first octets of the digest, at most 32.
    pub fn finish<const N: usize>(self) -> [u8; N] {
        const { assert!(N <= 32, "a digest has 32 octets") };
        let mut first = [0; N];
        first.copy_from_slice(&self.0.finalize().into_bytes()[..N]);
        first
    }

    /// Returns whether the digest begins with these octets, at least one. The comparison takes constant time, so that a
    /// digest cannot be guessed octet by octet.
    pub fn begins_with(self, octets: &[u8]) -> bool {
        self.0.verify_truncated_left(octets).is_ok()
    }
}

/// The absorbed state is as secret as the key, so it is not shown.
impl fmt::Debug for KeyedDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedDigest(..)")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;

    /// RFC 4231 section 4.3.
    #[test]
    fn digest_is_that_of_the_published_vector() {
        let digest = || {
            let mut digest = Secret::new("Jefe").keyed_digest();
            digest.update(b"what do ya want ");
            digest.update(b"for nothing?");
            digest
        };
        let first = digest().finish::<8>();
        assert_eq!(first, [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        assert_eq!(digest().finish::<32>()[..8], first);
        assert!(digest().begins_with(&first) && digest().begins_with(&first[..1]));
        for place in 0..8 {
            let mut wrong = first;
            wrong[place] ^= 1;
            assert!(!digest().begins_with(&wrong));
        }
        assert!(!digest().begins_with(&[]) && !digest().begins_with(&[0; 33]));
    }

    #[test]
    fn seed_is_not_shown_or_serialized() {
        let seed = SecretSeed::Known(4_711);
        assert_eq!(format!("{seed:?}"), "SecretSeed(..)");
        let text = serde_json::to_string(&seed).expect("serialisable");
        assert_eq!(text, "\"redacted\"");
        let back: SecretSeed = serde_json::from_str(&text).expect("what was written");
        assert_eq!((back, back.known()), (SecretSeed::Redacted, None));
        let none: SecretSeed = serde_json::from_str("null").expect("no seed");
        assert_eq!(none, SecretSeed::None);
        assert!(serde_json::from_str::<SecretSeed>("\"4711\"").is_err());
    }

    #[test]
    fn secrets_are_not_shown_or_serialized() {
        let secret = Secret::new(b"correct horse".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(format!("{:?}", secret.keyed_digest()), "KeyedDigest(..)");
        let text = serde_json::to_string(&secret).expect("serialisable");
        assert_eq!(text, "null");
        let back: Secret = serde_json::from_str(&text).expect("what was written");
        assert!(back.is_empty() && !secret.is_empty());
        assert!(serde_json::from_str::<Secret>("\"\"").expect("an earlier form").is_empty());
        assert!(serde_json::from_str::<Secret>("\"correct horse\"").is_err());
    }
}
