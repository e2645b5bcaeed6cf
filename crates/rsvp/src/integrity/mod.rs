//! Message integrity: authentication and replay protection by the INTEGRITY object (RFC 2747, with the message types of
//! RFC 3097).
//!
//! # Overview
//!
//! Neighbours share secret keys. Every message sent through a secured interface gets an INTEGRITY object with a keyed
//! digest of the whole message and a sequence number. A message received through such an interface is processed only if
//! its digest is valid and its sequence number is new. All others are dropped and counted by reason, without any error
//! message (section 4.2), so that an attacker learns nothing and cannot make this node send.
//!
//! Signing is the last step of handling an input: each message among its effects is rewritten with INTEGRITY
//! ([`sign`]). No rule of the protocol can omit it, and it costs nothing if not configured. Verification precedes
//! parsing ([`verify`]). A Bundle has no digest; each message in it has its own (RFC 2961 section 3.2).
//!
//! # Sequence numbers
//!
//! The sequence numbers of this node come from the wall clock as the driver supplied it at start, so that they increase
//! across restarts ([`sequence`]). For each neighbour and key the last N numbers are kept. The first message of an
//! unknown neighbour could be an old one that is replayed, so it only causes a challenge: an unpredictable number to be
//! returned signed ([`handshake`]). The answer opens the association. Neighbours that the keys name are challenged in
//! advance.
//!
//! The first message is lost, which would delay a Path by a refresh period. A node that answers a challenge therefore
//! resends the messages that it has sent that way within the last second, up to a small limit.
//!
//! # Odd cases
//!
//! - **The last key expires**: it remains in use (section 5.3), and one event reports it.
//! - **No key** for a message through a secured interface: the message is not sent.
//! - **ResvConf** is signed by each hop, so each hop sends it from its own address: RFC 2747 section 4 identifies the
//!   signer by the IP source address.
//! - **One key for both directions** allows an attacker to reflect messages without a hop object (PathErr, Ack,
//!   Srefresh) to their sender as the neighbour's. Keys for one of the [`Directions`] prevent that.

mod digest;
mod handshake;
mod key;
mod sequence;
mod sign;
mod verify;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Interface;
use earmark_core::keys::{KeyChain, SequenceClock};
use earmark_core::random::RandomStreams;
use earmark_core::timer::TimerId;
use serde::{Deserialize, Serialize};

use self::digest::KeyedHash;
use self::handshake::Handshakes;
use self::sign::RecentMessages;

pub use self::key::Key;
pub use earmark_core::keys::{Algorithm, Directions};

/// Settings of message integrity. By default no interface is secured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Security of interfaces by name; interfaces that are missing here are not secured.
    pub interfaces: BTreeMap<String, Directions>,
    /// Keys in any order.
    pub keys: Vec<Key>,
    /// N: number of sequence numbers kept for each neighbour, which limits how far messages may be reordered. At least
    /// 1, which allows no reordering.
    pub window: u16,
    /// Whether new neighbours are challenged.
    pub handshake: HandshakeMode,
    /// Time until an unanswered challenge is repeated; doubled each time.
    pub challenge_interval: Duration,
    /// Limit of Integrity Responses to one neighbour in one second. Anyone can send challenges, unsigned.
    pub answers_per_second: u32,
    /// Limit of associations (pairs of key and neighbour) with sequence numbers.
    pub max_associations: u32,
    /// Sequence number at [`earmark_core::Time::ZERO`], in units of 2^-32 seconds. It must exceed that of this node's
    /// previous run by at least the time that has passed since.
    pub sequence_start: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            interfaces: BTreeMap::new(),
            keys: Vec::new(),
            window: 32,
            handshake: HandshakeMode::Offered,
            challenge_interval: Duration::from_secs(1),
            answers_per_second: 100,
            max_associations: 65_536,
            sequence_start: 0,
        }
    }
}

/// Whether new neighbours must prove that their messages are not replayed (RFC 2747 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandshakeMode {
    /// No neighbour is challenged; the first message of a neighbour is accepted.
    Off,
    /// Neighbours that set the flag HF are challenged; the first message of others is accepted.
    Offered,
    /// Neighbours that do not answer a challenge are ignored.
    Required,
}

/// Verified signature of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Index of the key. Several keys may have one identifier.
    key: usize,
    /// The sending system (RFC 2747 section 4).
    sender: IpAddr,
}

/// State of message integrity.
#[derive(Debug)]
pub(crate) struct Integrity {
    /// Settings, without keys.
    settings: Settings,
    keys: KeyChain<Key>,
    /// Hash of each key, in the order of the keys.
    hashes: Vec<KeyedHash>,
    clock: SequenceClock,
    /// Last sequence number used with each Key Identifier.
    last_sequences: BTreeMap<u64, u64>,
    handshakes: Handshakes,
    recent: RecentMessages,
    timer: Option<TimerId>,
}

impl Integrity {
    /// Returns `None` if no interface is secured.
    pub(crate) fn new(settings: &Settings, random: &RandomStreams) -> Option<Integrity> {
        if settings.interfaces.is_empty() {
            return None;
        }
        Some(Integrity {
            hashes: hashes(&settings.keys),
            clock: SequenceClock::new(settings.sequence_start),
            last_sequences: BTreeMap::new(),
            handshakes: Handshakes::new(random.stream("rsvp/cookie").hash_key(), settings),
            recent: RecentMessages::default(),
            keys: KeyChain::new(settings.keys.clone()),
            timer: None,
            settings: Settings { keys: Vec::new(), ..settings.clone() },
        })
    }

    /// Replaces the keys; associations of keys that remain are kept.
    fn replace_keys(&mut self, keys: Vec<Key>) {
        self.hashes = hashes(&keys);
        self.handshakes.forget(|id| !keys.iter().any(|key| key.id == id));
        self.keys = KeyChain::new(keys);
    }

    /// Returns whether an interface accepts only signed messages.
    pub(crate) fn requires_signature(&self, interface: &Interface) -> bool {
        self.secured(&interface.name).is_some_and(Directions::accepts)
    }

    /// Returns whether a message was signed with a key that serves on this interface with its sender, too.
    pub(crate) fn is_signed_for(&self, signature: Signature, interface: &Interface) -> bool {
        self.keys.keys()[signature.key].serves(&interface.name, signature.sender)
    }

    fn secured(&self, interface: &str) -> Option<Directions> {
        self.settings.interfaces.get(interface).copied()
    }
}

fn hashes(keys: &[Key]) -> Vec<KeyedHash> {
    keys.iter().map(|key| KeyedHash::new(key.algorithm, key.secret.octets())).collect()
}
