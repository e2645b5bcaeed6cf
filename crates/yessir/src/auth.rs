//! Authentication of messages by AUTH: signed by the host of the sender, verified by routers where the operator requires it.
//!
//! The digest is HMAC-SHA-256 (RFC 2104), cut to 16 octets. [`Covered`] lists what it covers: a captured digest is valid
//! only for the same request and the same counts of the same stream.
//!
//! Sequence numbers grow with each message of a host, also over restarts: their high 32 bits are seconds of a real clock. A
//! router remembers the last number of each stream, and for each source the last number of its streams that have ended, so
//! that a captured message does not bring back a stream ([`EndedStreams`]).
//!
//! A message that fails the check is forwarded, and otherwise ignored. Answers of receivers are not signed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::keys::{Directions, KeyChain, KeyUse, SequenceClock, SharedKey, Unusable};
use earmark_core::{Context, InterfaceId, KeyedDigest, Secret, Time};
use earmark_wire::rtcp::SenderInfo;
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
    /// Interfaces by name where reports of this host are signed, or received reports must be.
    pub interfaces: BTreeMap<String, Directions>,
    /// Sequence number of this host's reports at [`Time::ZERO`], in units of 2^-32 seconds. It must exceed that of the
    /// previous run by at least the time that has passed since.
    pub sequence_start: u64,
}

/// A key that senders share with routers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Number of the key in AUTH.
    pub id: u32,
    /// The shared secret.
    pub secret: Secret,
    /// Direction of use.
    #[serde(default)]
    pub purpose: Directions,
    /// Start of validity.
    #[serde(default)]
    pub start: Time,
    /// Time by which the validity began before [`Time::ZERO`], where `start` is then.
    #[serde(default)]
    pub age: Duration,
    /// End of validity; [`Time::MAX`] for none.
    #[serde(default = "never")]
    pub end: Time,
    /// Names of the interfaces where the key is used; all if empty.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

fn never() -> Time {
    Time::MAX
}

impl SharedKey for Key {
    fn key_use(&self) -> KeyUse<'_> {
        let Key { id, ref secret, purpose, start, age, end, ref interfaces } = *self;
        KeyUse { id: id.into(), secret, purpose, start, age, end, interfaces, neighbors: &[] }
    }

    fn secret_mut(&mut self) -> &mut Secret {
        &mut self.secret
    }
}

/// What the digest of a message covers, beside the number of the key and the sequence number.
#[derive(Clone, Copy, Debug)]
pub struct Covered<'a> {
    /// The stream that the message is about: addresses and data ports.
    pub stream: &'a Stream,
    /// SSRC of the report.
    pub ssrc: u32,
    /// Counts of the sender report, by which a rate is measured.
    pub sender: SenderInfo,
    /// Whether the report ends with a BYE for its sender.
    pub goodbye: bool,
    /// Data of the APP packet. Only the fragments are covered that no router edits: GENERIC and FLOWSPEC.
    pub data: &'a [u8],
}

impl Key {
    /// Creates a key that is used for both directions, always and everywhere.
    pub fn new(id: u32, secret: Secret) -> Key {
        let (start, age, end) = (Time::ZERO, Duration::ZERO, Time::MAX);
        Key { id, secret, purpose: Directions::Both, start, age, end, interfaces: Vec::new() }
    }

    /// Returns the digest for a message.
    pub fn digest(&self, message: &Covered<'_>, sequence: u64) -> [u8; 16] {
        self.fed(message, sequence).finish()
    }

    fn fed(&self, message: &Covered<'_>, sequence: u64) -> KeyedDigest {
        let &Covered { stream, ssrc, sender, goodbye, data } = message;
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
        digest.update(&sender.ntp.to_be_bytes());
        for count in [sender.rtp_timestamp, sender.packets, sender.octets] {
            digest.update(&count.to_be_bytes());
        }
        digest.update(&[goodbye.into()]);
        covered(data).for_each(|fragment| digest.update(fragment));
        digest
    }
}

/// State of authentication.
#[derive(Debug)]
pub(crate) struct Authentication {
    interfaces: BTreeMap<String, Directions>,
    /// Whether some interface requires signed reports.
    pub(crate) is_required: bool,
    keys: KeyChain<Key>,
    clock: SequenceClock,
    /// Last sequence number of this host.
    last_sequence: Option<u64>,
    ended: EndedStreams,
}

impl Authentication {
    pub(crate) fn new(settings: &mut Settings) -> Authentication {
        let interfaces = core::mem::take(&mut settings.interfaces);
        Authentication {
            is_required: interfaces.values().any(|directions| directions.accepts()),
            interfaces,
            keys: KeyChain::new(core::mem::take(&mut settings.keys)),
            clock: SequenceClock::new(settings.sequence_start),
            last_sequence: None,
            ended: EndedStreams::default(),
        }
    }

    /// Replaces the keys.
    pub(crate) fn replace_keys(&mut self, keys: Vec<Key>) {
        self.keys = KeyChain::new(keys);
    }

    /// Returns the name of the interface if reports that arrive there must be signed.
    #[inline]
    pub(crate) fn required_on<'c>(
        &self,
        context: &Context<'c>,
        interface: InterfaceId,
    ) -> Option<&'c str> {
        let name =
            |directions: fn(Directions) -> bool| self.secured(context, interface, directions);
        if self.is_required { name(Directions::accepts) } else { None }
    }

    /// Returns whether reports of this host are signed anywhere.
    pub(crate) fn signs(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Returns the name of the interface if reports of this host that leave there are signed.
    pub(crate) fn signs_on<'c>(
        &self,
        context: &Context<'c>,
        interface: InterfaceId,
    ) -> Option<&'c str> {
        self.secured(context, interface, Directions::sends)
    }

    fn secured<'c>(
        &self,
        context: &Context<'c>,
        interface: InterfaceId,
        directions: fn(Directions) -> bool,
    ) -> Option<&'c str> {
        let name = context.interfaces.by_id(interface)?.name.as_str();
        self.interfaces.get(name).is_some_and(|&found| directions(found)).then_some(name)
    }

    /// Verifies a message about a stream whose last sequence number is `last`. Returns its sequence number, and the number
    /// of the key if it is used for the first time after its end.
    ///
    /// # Errors
    /// The reason why the message has no effect.
    pub(crate) fn verify(
        &mut self,
        now: Time,
        interface: &str,
        message: &Covered<'_>,
        auth: Option<&Auth>,
        last: Option<u64>,
    ) -> Result<(u64, Option<u64>), DropReason> {
        let auth = auth.ok_or(DropReason::MissingAuth)?;
        let serves = |key: &Key| key.key_use().serves_on(interface);
        let index = self.keys.to_accept(now, auth.key.into(), serves);
        let index = index.map_err(|unusable| match unusable {
            Unusable::Unknown => DropReason::UnknownKey,
            Unusable::NotValid => DropReason::KeyNotValid,
        })?;
        let key = &self.keys.keys()[index];
        if !key.fed(message, auth.sequence).begins_with(&auth.digest) {
            return Err(DropReason::WrongDigest);
        }
        // The numbers of a known stream have grown beyond those of the streams before it.
        let last = last.or_else(|| self.ended.last(message.stream.source));
        if last.is_some_and(|last| auth.sequence <= last) {
            return Err(DropReason::Replayed);
        }
        Ok((auth.sequence, self.keys.report_overdue(now, index)))
    }

    /// Returns the key to sign a report with that leaves by an interface, and its sequence number.
    pub(crate) fn signer(&mut self, now: Time, interface: &str) -> Option<Signer<'_>> {
        let index = self.keys.to_sign(now, |key| key.key_use().serves_on(interface))?;
        let expired = self.keys.report_overdue(now, index);
        let sequence = self.clock.next(now, self.last_sequence);
        self.last_sequence = Some(sequence);
        Some(Signer { key: &self.keys.keys()[index], sequence, expired })
    }

    /// Records that a stream has ended that signed reports had reserved.
    pub(crate) fn end_stream(&mut self, source: IpAddr, sequence: u64) {
        self.ended.add(source, sequence);
    }
}

/// Key and sequence number for a report of this host.
pub(crate) struct Signer<'a> {
    pub(crate) key: &'a Key,
    pub(crate) sequence: u64,
    /// Number of the key if it is used for the first time after its end.
    pub(crate) expired: Option<u64>,
}

/// Last sequence numbers of streams that have ended, by source. Who adds one has the key. Beyond the limit the lowest number,
/// which is the oldest message, is forgotten.
#[derive(Debug, Default)]
struct EndedStreams {
    by_source: BTreeMap<IpAddr, u64>,
    by_sequence: BTreeSet<(u64, IpAddr)>,
}

impl EndedStreams {
    /// Maximum number of sources.
    const SOURCES: usize = 65_536;

    fn last(&self, source: IpAddr) -> Option<u64> {
        self.by_source.get(&source).copied()
    }

    fn add(&mut self, source: IpAddr, sequence: u64) {
        if let Some(before) = self.last(source) {
            if before >= sequence {
                return;
            }
            self.by_sequence.remove(&(before, source));
        }
        self.by_source.insert(source, sequence);
        self.by_sequence.insert((sequence, source));
        if self.by_source.len() > Self::SOURCES
            && let Some((_, oldest)) = self.by_sequence.pop_first()
        {
            self.by_source.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_ended_streams_are_bounded_and_the_oldest_leaves() {
        let mut ended = EndedStreams::default();
        let source = |number: u32| IpAddr::V4(number.into());
        for number in 0..70_000_u32 {
            ended.add(source(number), number.into());
        }
        assert_eq!((ended.by_source.len(), ended.by_sequence.len()), (65_536, 65_536));
        assert_eq!((ended.last(source(4_463)), ended.last(source(4_464))), (None, Some(4_464)));
        ended.add(source(4_464), 9);
        assert_eq!(ended.last(source(4_464)), Some(4_464), "numbers do not go back");
        ended.add(source(4_464), 80_000);
        assert_eq!(ended.last(source(4_464)), Some(80_000));
        assert_eq!(ended.by_sequence.len(), 65_536);
    }
}
