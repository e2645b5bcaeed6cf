//! Authentication of messages by AUTH, checked where the operator requires it.
//!
//! The digest is HMAC-SHA-256 (RFC 2104), cut to 16 octets. It covers the stream (addresses and data ports), the
//! SSRC, the fragments that no router edits (GENERIC and FLOWSPEC), the key's number and the sequence number, so that
//! it is valid only for the same request for the same stream. Counts of sender reports are not covered: in
//! measurement mode whoever can modify packets can make a stream seem larger, within the limits of the node.
//!
//! Sequence numbers grow from message to message, also over restarts of the sender: their high 32 bits are seconds of
//! a real clock. A router remembers the last one for as long as it knows the stream. A captured message can therefore
//! bring back a stream that has ended, until routers have dropped the key; this is only a reservation for packets
//! that nobody sends.
//!
//! A message that fails the check is forwarded, and otherwise ignored. Answers of receivers are not signed.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Context, InterfaceId, KeyedDigest, Secret};
use earmark_wire::yessir::{Auth, covered};
use serde::{Deserialize, Serialize};

use crate::api::Stream;
use crate::counters::DropReason;

/// Settings of authentication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// All keys of this node.
    pub keys: Vec<Key>,
    /// Names of the interfaces that require signed messages.
    pub required_on: Vec<String>,
    /// Seconds since 1970 when the engine was created: the sequence numbers of this host's senders start there.
    pub started: u32,
}

/// A key that senders share with routers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Number of the key in AUTH.
    pub id: u32,
    /// The shared secret.
    pub secret: Secret,
}

impl Key {
    /// Returns the digest for a message about `stream` whose APP packet has this SSRC, data and sequence number. The
    /// content of AUTH itself is not covered.
    pub fn digest(&self, stream: &Stream, ssrc: u32, data: &[u8], sequence: u64) -> [u8; 16] {
        self.fed(stream, ssrc, data, sequence).finish()
    }

    fn fed(&self, stream: &Stream, ssrc: u32, data: &[u8], sequence: u64) -> KeyedDigest {
        let mut digest = self.secret.keyed_digest();
        for address in [stream.source, stream.destination] {
            match address {
                IpAddr::V4(address) => digest.update(&address.to_ipv6_mapped().octets()),
                IpAddr::V6(address) => digest.update(&address.octets()),
            }
        }
        digest.update(&stream.source_port.to_be_bytes());
        digest.update(&stream.destination_port.to_be_bytes());
        digest.update(&ssrc.to_be_bytes());
        digest.update(&self.id.to_be_bytes());
        digest.update(&sequence.to_be_bytes());
        covered(data).for_each(|fragment| digest.update(fragment));
        digest
    }
}

impl Settings {
    /// Returns the key with this number.
    pub(crate) fn key(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Returns whether an interface requires signed messages.
    #[inline]
    pub(crate) fn is_required(&self, context: &Context<'_>, interface: InterfaceId) -> bool {
        !self.required_on.is_empty()
            && context
                .interfaces
                .by_id(interface)
                .is_some_and(|interface| self.required_on.contains(&interface.name))
    }

    /// Verifies a message and returns its sequence number.
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
        if !key.fed(stream, ssrc, data, auth.sequence).begins_with(&auth.digest) {
            return Err(DropReason::WrongDigest);
        }
        match last {
            Some(last) if auth.sequence <= last => Err(DropReason::Replayed),
            _ => Ok(auth.sequence),
        }
    }
}
