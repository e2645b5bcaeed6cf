//! Keys of issuers: Ed25519, as PEM files like those of openssl, or as Base64.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use base64ct::{Base64, Encoding};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

/// Key that signs tokens. Overwritten on drop, and never shown.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

/// Key that verifies tokens; no secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(VerifyingKey);

/// Error: the text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a private key.
    #[error("not an Ed25519 private key in PEM")]
    Secret,
    /// The text is a private key.
    #[error("a private key, which belongs to the issuer only; routers need the public key")]
    SecretInsteadOfPublic,
    /// The text is not a public key.
    #[error("not an Ed25519 public key: PEM, or 32 octets in Base64")]
    Public,
    /// The key is one for which signatures prove nothing.
    #[error("a weak Ed25519 public key, for which anybody can make signatures")]
    Weak,
}

impl SecretKey {
    /// Creates the key of 32 random octets.
    pub fn from_random(octets: &[u8; 32]) -> SecretKey {
        SecretKey(SigningKey::from_bytes(octets))
    }

    /// Reads a private key in PEM (PKCS #8).
    ///
    /// # Errors
    /// The text is not one.
    pub fn from_pem(text: &str) -> Result<SecretKey, KeyError> {
        SigningKey::from_pkcs8_pem(text.trim()).map(SecretKey).map_err(|_| KeyError::Secret)
    }

    /// Returns the key in PEM (PKCS #8).
    pub fn to_pem(&self) -> impl AsRef<str> + use<> {
        self.0.to_pkcs8_pem(LineEnding::LF).expect("a key of fixed length can be encoded")
    }

    /// Returns the key that verifies what this one signs.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

impl PublicKey {
    /// Returns the key in PEM (SubjectPublicKeyInfo).
    pub fn to_pem(self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).expect("a key of fixed length can be encoded")
    }

    /// Returns whether the key's owner has signed a message.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let text = text.trim();
        if text.contains("PRIVATE KEY") {
            return Err(KeyError::SecretInsteadOfPublic);
        }
        let key = if text.starts_with("-----") {
            VerifyingKey::from_public_key_pem(text).map_err(|_| KeyError::Public)?
        } else {
            let mut octets = [0; 32];
            let length = Base64::decode(text, &mut octets).map(<[u8]>::len);
            if length != Ok(octets.len()) {
                return Err(KeyError::Public);
            }
            VerifyingKey::from_bytes(&octets).map_err(|_| KeyError::Public)?
        };
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(PublicKey(key)) }
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<PublicKey, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> String {
        key.to_string()
    }
}

/// Base64, as in settings.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// Made by `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
    const OPENSSL: [&str; 2] = [
        "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIEoWzMQy3zGGlMPc8nkJJ/v20qnxzVhcpD3fzUxIzlNQ\n\
        -----END PRIVATE KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAHgTNXroLGXBK7O6mHwX6Gi9Qurku6skvQ01DGoq9Hjk=\n\
        -----END PUBLIC KEY-----\n",
    ];

    #[test]
    fn keys_round_trip_through_text() {
        let secret = SecretKey::from_random(&[7; 32]);
        let read = SecretKey::from_pem(secret.to_pem().as_ref()).expect("its own text");
        assert_eq!(read.public(), secret.public());
        assert_eq!(secret.public().to_pem().parse(), Ok(secret.public()));
        assert_eq!(secret.public().to_string().parse(), Ok(secret.public()));
        assert_eq!(format!("{secret:?}"), "SecretKey(..)");
    }

    #[test]
    fn keys_of_openssl_are_read() {
        let secret = SecretKey::from_pem(OPENSSL[0]).expect("a private key");
        assert_eq!(OPENSSL[1].parse(), Ok(secret.public()));
    }

    #[test]
    fn invalid_keys_are_refused() {
        let secret = SecretKey::from_random(&[7; 32]);
        for (text, error) in [
            ("", KeyError::Public),
            ("AAAA", KeyError::Public),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", KeyError::Public),
            (secret.to_pem().as_ref(), KeyError::SecretInsteadOfPublic),
            ("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", KeyError::Weak),
        ] {
            assert_eq!(text.parse::<PublicKey>(), Err(error), "{text}");
        }
        for text in ["", "AAAA", OPENSSL[1]] {
            assert_eq!(SecretKey::from_pem(text).err(), Some(KeyError::Secret), "{text}");
        }
    }
}
