//! Signed messages: neighbors that share a key with the node under test (RFC 2747).
//!
//! Digests are computed here, with HMAC-SHA-256, so that a case is independent of the code under test.

use earmark_testkit::conformance::words::{Fault, Words};
use std::fmt::Write as _;

use earmark_core::Secret;
use earmark_rsvp::integrity::{Algorithm, Key};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// A key in `topology.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedKey {
    id: u64,
    /// Secret in plain text.
    secret: String,
}

/// Signature of a message: `signed=1 sequence=5`, with `handshake` if its sender answers challenges.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    key: SharedKey,
    sequence: u64,
    handshake: bool,
    /// `forged`: signed with another secret than the key's.
    forged: bool,
}

const INTEGRITY: [u8; 2] = [4, 1];
const HANDSHAKE: u8 = 0x80;
/// Offsets of INTEGRITY and its digest, octets from the start of the message.
const OBJECT: usize = 8;
const DIGEST: usize = OBJECT + 20;

impl SharedKey {
    /// Returns the key in the form of the node's configuration.
    pub(crate) fn key(&self) -> Key {
        Key {
            id: self.id,
            algorithm: Algorithm::HmacSha256,
            secret: Secret::new(self.secret.clone()),
            purpose: Default::default(),
            start: earmark_core::Time::ZERO,
            age: Default::default(),
            end: earmark_core::Time::MAX,
            interfaces: Vec::new(),
            neighbors: Vec::new(),
        }
    }

    /// Returns the digest of a message, with zeros for checksum and digest (RFC 2747 section 4.1).
    fn digest(&self, secret: &[u8], message: &[u8]) -> Result<[u8; 32], Fault> {
        let mut covered = message.to_vec();
        covered[2..4].fill(0);
        covered[DIGEST..DIGEST + 32].fill(0);
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|e| e.to_string())?;
        mac.update(&covered);
        Ok(mac.finalize().into_bytes().into())
    }
}

impl Signature {
    /// Takes the words of a signature, if present.
    pub(crate) fn read(
        words: &mut Words<'_>,
        keys: &[SharedKey],
    ) -> Result<Option<Signature>, Fault> {
        let Some(id) = words.maybe::<u64>("signed")? else { return Ok(None) };
        let key = keys.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| format!("there is no key {id}"))?.clone();
        let sequence = words.key("sequence")?;
        let (handshake, forged) = (words.flag("handshake"), words.flag("forged"));
        Ok(Some(Signature { key, sequence, handshake, forged }))
    }

    /// Returns the message with INTEGRITY as the first object, and without a checksum.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let (header, objects) = message.split_at(OBJECT);
        let flags = if self.handshake { HANDSHAKE } else { 0 };
        let mut signed = header.to_vec();
        signed.extend([0, 52]);
        signed.extend(INTEGRITY);
        signed.extend([flags, 0]);
        signed.extend(&self.key.id.to_be_bytes()[2..]);
        signed.extend(self.sequence.to_be_bytes());
        signed.extend([0; 32]);
        signed.extend(objects);
        let length = u16::try_from(signed.len()).map_err(|_| "the message is too long")?;
        signed[6..8].copy_from_slice(&length.to_be_bytes());
        signed[2..4].fill(0);
        let secret = if self.forged { "a guess" } else { &self.key.secret };
        let digest = self.key.digest(secret.as_bytes(), &signed)?;
        signed[DIGEST..DIGEST + 32].copy_from_slice(&digest);
        Ok(signed)
    }
}

/// Returns the signature of a message sent by the node; `None` if no key of the case gives its digest.
pub(crate) fn show(message: &[u8], keys: &[SharedKey]) -> Option<String> {
    let object = message.get(OBJECT..OBJECT + 52)?;
    let id = object[4..12].iter().skip(2).fold(0, |id, &octet| id << 8 | u64::from(octet));
    let key = keys.iter().find(|key| key.id == id)?;
    let digest = key.digest(key.secret.as_bytes(), message).ok()?;
    if object[..4] != [0, 52, 4, 1] || object[20..] != digest {
        return None;
    }
    let sequence = u64::from_be_bytes(object[12..20].try_into().ok()?);
    // The high half is the time in seconds since a fixed epoch.
    let mut text = format!("INTEGRITY key={id} sequence={}", sequence >> 32);
    let _ = write!(text, "s+{}", sequence & 0xffff_ffff);
    let handshake = if object[4] & HANDSHAKE == 0 { "" } else { " handshake" };
    Some(text + handshake + " (the digest is right)")
}
