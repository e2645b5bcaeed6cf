//! Message authentication by a keyed digest (RFC 2747, with the message types of RFC 3097).
//!
//! The digest covers the whole message, with zeros in place of the digest itself and the checksum. INTEGRITY is the
//! first object, so that these places are fixed, and neither signing nor verification needs a copy of the message:
//!
//! - To verify, pass [`Integrity::covered`] to the keyed hash and compare with [`Integrity::digest`].
//! - To sign, emit the message with a digest of the right length and any contents ([`Integrity::blank`]), pass
//!   [`Integrity::covered`] of the emitted message to the hash, and insert the result with [`Integrity::seal`], which
//!   computes the checksum last (section 4.1).
//!
//! This module knows neither keys nor algorithms.

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, OBJECT_HEADER, RawObject, set_checksum};
use super::iana::{ObjectClass, c_type};
use crate::serialize::hex;
use crate::writer::{EmitError, Writer};

/// INTEGRITY (class 4, C-Type 1; RFC 2747 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Integrity<'a> {
    /// Flag bits; [`Integrity::HANDSHAKE`] is the only one defined.
    pub flags: u8,
    /// Key Identifier, 48 bits; higher bits are not written. Unique among the keys of its sender.
    pub key_id: u64,
    /// Sequence Number: larger than in every earlier message signed with the same key.
    pub sequence: u64,
    /// Keyed Message Digest; a multiple of four octets, at least four.
    #[serde(serialize_with = "hex")]
    pub digest: &'a [u8],
}

/// CHALLENGE (class 64, C-Type 1; RFC 2747 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Challenge {
    /// Key Identifier of the key for the response, 48 bits.
    pub key_id: u64,
    /// Challenge Cookie: unpredictable and never repeated.
    pub cookie: u64,
}

/// Offset of the digest, octets from the start of the message.
const DIGEST: usize = COMMON_HEADER + OBJECT_HEADER + 16;
/// Zeros that replace digest and checksum while the digest is computed.
const ZEROS: [u8; 64] = [0; 64];
/// Mask of a Key Identifier.
const KEY_ID_MASK: u64 = 0xffff_ffff_ffff;

impl<'a> Integrity<'a> {
    /// Flag HF: the sender answers challenges.
    pub const HANDSHAKE: u8 = 0x80;

    /// Creates an INTEGRITY with a digest of `digest_len` zeros, at most 64, for signing.
    pub fn blank(flags: u8, key_id: u64, sequence: u64, digest_len: usize) -> Integrity<'static> {
        let digest = ZEROS.get(..digest_len).unwrap_or(&ZEROS);
        Integrity { flags, key_id, sequence, digest }
    }

    /// Parses an object of class 4.
    ///
    /// # Errors
    /// The C-Type is unknown, or the object is too short for a digest.
    #[inline]
    pub fn parse(object: &RawObject<'a>) -> Result<Integrity<'a>, ParseError> {
        if object.c_type() != c_type::INTEGRITY {
            return Err(object.error(ErrorKind::UnknownCType));
        }
        let fields = object.body().split_first_chunk::<8>().and_then(|(first, rest)| {
            let (sequence, digest) = rest.split_first_chunk::<8>()?;
            (!digest.is_empty()).then_some((first, sequence, digest))
        });
        let Some(([flags, _, key @ ..], sequence, digest)) = fields else {
            return Err(object.error(ErrorKind::ObjectSize));
        };
        let sequence = u64::from_be_bytes(*sequence);
        Ok(Integrity { flags: *flags, key_id: key_id(*key), sequence, digest })
    }

    /// Returns the octets of `message` that its digest covers, in pieces: all of them, with zeros in place of checksum
    /// and digest. `None` if the message does not begin with a header and an INTEGRITY.
    pub fn covered(message: &'a [u8]) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let digest_len = digest_len(message)?;
        let behind = message.get(DIGEST + digest_len..)?;
        let before = [message.get(..2)?, &ZEROS[..2], message.get(4..DIGEST)?];
        let whole = core::iter::repeat_n(&ZEROS[..], digest_len / ZEROS.len());
        let remainder = &ZEROS[..digest_len % ZEROS.len()];
        Some(before.into_iter().chain(whole).chain([remainder, behind]))
    }

    /// Copies an emitted message without INTEGRITY and inserts this one as its first object. The length is updated, the
    /// checksum is not: call [`Integrity::seal`] next. Returns the length in octets, [`Integrity::object_len`] more
    /// than that of the message.
    ///
    /// # Errors
    /// The buffer is too short, the message would exceed its length field, or it has no common header.
    pub fn insert(&self, message: &[u8], buffer: &mut [u8]) -> Result<usize, EmitError> {
        let (header, objects) =
            message.split_first_chunk::<COMMON_HEADER>().ok_or(EmitError::Contradiction)?;
        let length = message.len() + self.object_len();
        let octets = |length| u16::try_from(length).map(u16::to_be_bytes);
        let [l0, l1] = octets(length).map_err(|_| EmitError::TooLong)?;
        let [o0, o1] = octets(self.object_len()).map_err(|_| EmitError::TooLong)?;
        let [version_flags, message_type, _, _, send_ttl, reserved, _, _] = *header;
        let mut writer = Writer::new(buffer);
        writer.put([version_flags, message_type, 0, 0, send_ttl, reserved, l0, l1])?;
        writer.put([o0, o1, ObjectClass::Integrity.code(), c_type::INTEGRITY])?;
        writer.put(self.fixed_octets())?;
        writer.put_slice(self.digest)?;
        writer.put_slice(objects)?;
        Ok(length)
    }

    /// Inserts the digest into an emitted message and computes the checksum.
    ///
    /// # Errors
    /// [`EmitError::Contradiction`] if the message does not begin with an INTEGRITY with a digest of that length.
    pub fn seal(message: &mut [u8], digest: &[u8]) -> Result<(), EmitError> {
        let fits = digest_len(message) == Some(digest.len());
        let place = message.get_mut(DIGEST..DIGEST + digest.len()).filter(|_| fits);
        place.ok_or(EmitError::Contradiction)?.copy_from_slice(digest);
        set_checksum(message)
    }

    /// Returns all octets behind the object's header except the digest.
    #[inline]
    pub(super) fn fixed_octets(&self) -> [u8; 16] {
        let mut octets = [0; 16];
        let (first, sequence) = octets.split_at_mut(8);
        first.copy_from_slice(&(self.key_id & KEY_ID_MASK).to_be_bytes());
        first[0] = self.flags;
        sequence.copy_from_slice(&self.sequence.to_be_bytes());
        octets
    }

    /// Length of the object, octets.
    #[inline]
    pub fn object_len(&self) -> usize {
        OBJECT_HEADER + 16 + self.digest.len()
    }
}

impl Challenge {
    /// Length of the object, octets.
    pub(super) const OBJECT_LEN: usize = OBJECT_HEADER + 16;

    /// Returns all octets behind the object's header.
    pub(super) fn octets(&self) -> [u8; 16] {
        let digestless =
            Integrity { flags: 0, key_id: self.key_id, sequence: self.cookie, digest: &[] };
        digestless.fixed_octets()
    }
}

pub(super) fn challenge(object: &RawObject<'_>) -> Result<Challenge, ParseError> {
    if object.c_type() != c_type::CHALLENGE {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    match object.body().as_chunks::<8>() {
        ([[_, _, key @ ..], cookie], []) => {
            Ok(Challenge { key_id: key_id(*key), cookie: u64::from_be_bytes(*cookie) })
        }
        _ => Err(object.error(ErrorKind::ObjectSize)),
    }
}

#[inline]
fn key_id([k0, k1, k2, k3, k4, k5]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, k0, k1, k2, k3, k4, k5])
}

/// Length of the digest in a message that begins with a header and an INTEGRITY, octets.
fn digest_len(message: &[u8]) -> Option<usize> {
    let [high, low, class, c_type] = *message.get(COMMON_HEADER..)?.first_chunk()?;
    let is_integrity = class == ObjectClass::Integrity.code() && c_type == c_type::INTEGRITY;
    let length = usize::from(u16::from_be_bytes([high, low]));
    length.checked_sub(DIGEST - COMMON_HEADER).filter(|_| is_integrity)
}
