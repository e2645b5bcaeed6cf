//! State of message integrity: keys, and what was sent and received with them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::Interface;
use earmark_core::keys::{KeyChain, SequenceClock};
use earmark_core::random::RandomStreams;
use earmark_core::timer::TimerId;

use super::Directions;
use super::digest::KeyedHash;
use super::handshake::Handshakes;
use super::key::Key;
use super::recent_messages::RecentMessages;
use super::settings::Settings;

/// Verified signature of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Index of the key. Several keys may have one identifier.
    pub(super) key: usize,
    /// The sending system (RFC 2747 section 4).
    pub(super) sender: IpAddr,
}

/// State of message integrity.
#[derive(Debug)]
pub(crate) struct Integrity {
    /// Settings, without keys.
    pub(super) settings: Settings,
    pub(super) keys: KeyChain<Key>,
    /// Hash of each key, in the order of the keys.
    pub(super) hashes: Vec<KeyedHash>,
    pub(super) clock: SequenceClock,
    /// Last sequence number used with each Key Identifier.
    pub(super) last_sequences: BTreeMap<u64, u64>,
    pub(super) handshakes: Handshakes,
    pub(super) recent: RecentMessages,
    pub(super) timer: Option<TimerId>,
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
    pub(super) fn replace_keys(&mut self, keys: Vec<Key>) {
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

    pub(super) fn secured(&self, interface: &str) -> Option<Directions> {
        self.settings.interfaces.get(interface).copied()
    }
}

pub(super) fn hashes(keys: &[Key]) -> Vec<KeyedHash> {
    keys.iter().map(|key| KeyedHash::new(key.algorithm, key.secret.octets())).collect()
}
