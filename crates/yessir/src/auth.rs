//! Who vouches for a message: AUTH, checked where an operator wants it.
//!
//! The digest is HMAC-SHA-256 (RFC 2104), cut to 16 octets. It covers the stream (addresses and data ports), the SSRC, the
//! fragments that no router edits (GENERIC and FLOWSPEC), the key's number and the sequence number, so that it is good
//! for nothing but to ask for the same for the same stream. Counts of sender reports are not covered: in measurement mode
//! whoever can write into packets can make a stream seem larger, within the limits of the node.
//!
//! Sequence numbers grow from message to message, over restarts of the sender, too, whose high 32 bits are seconds of a
//! real clock. A router remembers the last one for as long as it knows the stream. A message that was caught can
//! therefore bring back a stream that has ended, until routers have forgotten the key; it is no more than a
//! reservation for packets that nobody sends.
//!
//! What does not pass is forwarded all the same, and not acted on. Answers of receivers are not signed.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use earmark_core::{Context, InterfaceId};
use earmark_wire::yessir::{Auth, covered};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::api::Stream;
use crate::counters::DropReason;

/// Who must prove who it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// All keys that this node knows.
    pub keys: Vec<Key>,
    /// Names of the interfaces where only signed messages are acted on.
    pub required_on: Vec<String>,
    /// Seconds since 1970 when the engine was made: where the sequence numbers of this host's senders begin.
    pub started: u32,
}

/// A key that senders share with routers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its number in AUTH.
    pub id: u32,
    /// What only those who share the key know.
    pub secret: Secret,
}

/// Octets that must never be shown. They are overwritten when they are not needed any more.
///
/// In recordings and listings there is nothing in its place, so what is read back there is empty, and good for nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Keeps these octets.
    pub fn new(octets: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(octets))
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
        <()>::deserialize(deserializer).map(|()| Secret::default())
    }
}

impl Key {
    /// The digest for a message about `stream` whose APP packet has this SSRC, data and sequence number. What stands in
    /// AUTH itself does not count.
    pub fn digest(&self, stream: &Stream, ssrc: u32, data: &[u8], sequence: u64) -> [u8; 16] {
        let whole = self.fed(stream, ssrc, data, sequence).finalize().into_bytes();
        whole.first_chunk().copied().unwrap_or_default()
    }

    fn fed(&self, stream: &Stream, ssrc: u32, data: &[u8], sequence: u64) -> Hmac<Sha256> {
        // The error type is for other constructions.
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret.0).expect("HMAC takes keys of any length");
        for address in [stream.source, stream.destination] {
            match address {
                IpAddr::V4(address) => mac.update(&address.to_ipv6_mapped().octets()),
                IpAddr::V6(address) => mac.update(&address.octets()),
            }
        }
        mac.update(&stream.source_port.to_be_bytes());
        mac.update(&stream.destination_port.to_be_bytes());
        mac.update(&ssrc.to_be_bytes());
        mac.update(&self.id.to_be_bytes());
        mac.update(&sequence.to_be_bytes());
        covered(data).for_each(|fragment| mac.update(fragment));
        mac
    }
}

impl Settings {
    /// The key with this number.
    pub(crate) fn key(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Whether only signed messages count that come in there.
    #[inline]
    pub(crate) fn is_required(&self, context: &Context<'_>, interface: InterfaceId) -> bool {
        !self.required_on.is_empty()
            && context
                .interfaces
                .by_id(interface)
                .is_some_and(|interface| self.required_on.contains(&interface.name))
    }

    /// Whether a message is whose it says: its sequence number.
    pub(crate) fn verify(
        &self,
        stream: &Stream,
        ssrc: u32,
        data: &[u8],
        auth: Option<&Auth>,
        last: Option<u64>,
    ) -> Result<u64, DropReason> {
        let auth = auth.ok_or(DropReason::MissingAuth)?;
        let key = self.key(auth.key).ok_or(DropReason::UnknownKey)?;
        let mac = key.fed(stream, ssrc, data, auth.sequence);
        // Takes as long for a digest that is nearly right as for one that is all wrong.
        mac.verify_truncated_left(&auth.digest).map_err(|_| DropReason::WrongDigest)?;
        match last {
            Some(last) if auth.sequence <= last => Err(DropReason::Replayed),
            _ => Ok(auth.sequence),
        }
    }
}
