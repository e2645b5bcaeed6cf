//! Keyed digests: HMAC (RFC 2104) with MD5, SHA-1 or SHA-256.
//!
//! HMAC-MD5 is mandatory (RFC 2747 section 6); the others are optional.

use core::fmt;

use earmark_core::keys::Algorithm;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

/// Maximum digest length of all algorithms, octets.
pub(super) const LONGEST_DIGEST: usize = 32;

/// Hash with the key already absorbed, so that a message costs only its own length.
#[derive(Clone)]
pub(super) enum KeyedHash {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl KeyedHash {
    pub(super) fn new(algorithm: Algorithm, secret: &[u8]) -> KeyedHash {
        // HMAC accepts keys of any length; the error type serves other constructions.
        const ANY: &str = "HMAC takes keys of any length";
        match algorithm {
            Algorithm::HmacMd5 => KeyedHash::Md5(Hmac::new_from_slice(secret).expect(ANY)),
            Algorithm::HmacSha1 => KeyedHash::Sha1(Hmac::new_from_slice(secret).expect(ANY)),
            Algorithm::HmacSha256 => KeyedHash::Sha256(Hmac::new_from_slice(secret).expect(ANY)),
        }
    }

    /// Computes the digest of the concatenated pieces into the beginning of `digest`; returns its octets.
    pub(super) fn digest<'a, 'd>(
        &self,
        pieces: impl Iterator<Item = &'a [u8]>,
        digest: &'d mut [u8; LONGEST_DIGEST],
    ) -> &'d [u8] {
        match self {
            KeyedHash::Md5(keyed) => put(absorb(keyed, pieces), digest),
            KeyedHash::Sha1(keyed) => put(absorb(keyed, pieces), digest),
            KeyedHash::Sha256(keyed) => put(absorb(keyed, pieces), digest),
        }
    }

    /// Returns whether `digest` is the digest of the pieces. The comparison takes constant time, so that a digest
    /// cannot be guessed octet by octet.
    pub(super) fn verify<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>, digest: &[u8]) -> bool {
        match self {
            KeyedHash::Md5(keyed) => absorb(keyed, pieces).verify_slice(digest).is_ok(),
            KeyedHash::Sha1(keyed) => absorb(keyed, pieces).verify_slice(digest).is_ok(),
            KeyedHash::Sha256(keyed) => absorb(keyed, pieces).verify_slice(digest).is_ok(),
        }
    }
}

fn absorb<'a, M: Mac + Clone>(keyed: &M, pieces: impl Iterator<Item = &'a [u8]>) -> M {
    let mut mac = keyed.clone();
    pieces.for_each(|piece| mac.update(piece));
    mac
}

fn put<M: Mac>(mac: M, digest: &mut [u8; LONGEST_DIGEST]) -> &[u8] {
    let octets = mac.finalize().into_bytes();
    let place = &mut digest[..octets.len()];
    place.copy_from_slice(&octets);
    place
}

/// The absorbed state is as secret as the key, so it is not shown.
impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash(..)")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;

    use super::*;

    /// RFC 2202 for MD5 and SHA-1, RFC 4231 for SHA-256: key, message in hexadecimal or text, digest. The last row of
    /// each has a key longer than a block of the hash.
    const VECTORS: [(Algorithm, &[u8], &[u8], &str); 9] = [
        (Algorithm::HmacMd5, &[0x0b; 16], b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d"),
        (Algorithm::HmacMd5, b"Jefe", WHAT, "750c783e6ab0b503eaa86e310a5db738"),
        (Algorithm::HmacMd5, &[0xaa; 80], LONG, "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"),
        (Algorithm::HmacSha1, &[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        (Algorithm::HmacSha1, b"Jefe", WHAT, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        (Algorithm::HmacSha1, &[0xaa; 80], LONG, "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
        (
            Algorithm::HmacSha256,
            &[0x0b; 20],
            b"Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            Algorithm::HmacSha256,
            b"Jefe",
            WHAT,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            Algorithm::HmacSha256,
            &[0xaa; 131],
            LONG,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ];
    const WHAT: &[u8] = b"what do ya want for nothing?";
    const LONG: &[u8] = b"Test Using Larger Than Block-Size Key - Hash Key First";

    #[test]
    fn digests_are_those_of_the_published_vectors() {
        for (algorithm, key, message, expected) in VECTORS {
            let keyed = KeyedHash::new(algorithm, key);
            let mut buffer = [0; LONGEST_DIGEST];
            // In pieces, as for messages.
            let (start, end) = message.split_at(5);
            let digest = keyed.digest([start, end].into_iter(), &mut buffer);
            assert_eq!(hexadecimal(digest), expected);
            assert_eq!(digest.len(), algorithm.digest_len());
            assert!(keyed.verify([message].into_iter(), digest));
            for wrong in 0..digest.len() {
                let mut other = digest.to_vec();
                other[wrong] ^= 1;
                assert!(!keyed.verify([message].into_iter(), &other));
            }
            assert!(!keyed.verify([message].into_iter(), &digest[..digest.len() - 1]));
            assert!(!keyed.verify([message].into_iter(), &[]));
        }
    }

    #[test]
    fn keyed_hash_debug_shows_no_secret() {
        let keyed = KeyedHash::new(Algorithm::HmacMd5, b"a secret of ours");
        assert_eq!(format!("{keyed:?}"), "KeyedHash(..)");
    }

    fn hexadecimal(octets: &[u8]) -> String {
        octets.iter().map(|octet| format!("{octet:02x}")).collect()
    }
}
