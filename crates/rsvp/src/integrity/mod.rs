//! Who a message comes from, and that it is not an old one: the INTEGRITY object (RFC 2747, with the message types of
//! RFC 3097).
//!
//! # The story
//!
//! Neighbours share secret keys. Whatever leaves through a secured interface gets an INTEGRITY object with a keyed digest
//! of the whole message and a sequence number; whatever arrives through one is looked at only if its digest is right and
//! its number is new. Everything else is dropped and counted by reason, and nobody is told (section 4.2), so that an
//! attacker learns nothing and cannot make this node send.
//!
//! Signing happens when an input has had all its consequences: each message that it brought about is written anew with
//! INTEGRITY in it ([`sign`]). So no rule of the protocol can forget it, and none pays for it where it is not configured.
//! Verifying happens before a message is even parsed ([`guard`]). A Bundle has no digest; each message in it has its own
//! (RFC 2961 section 3.2).
//!
//! # Sequence numbers
//!
//! Those that this node gives come from the wall clock as the driver had it at the start, so that they grow across
//! restarts ([`sequence`]). Of each neighbour and key the last N numbers are kept. Who is new here could be an echo of
//! last year, so its first message only earns it a challenge, a number that nobody can guess, to be sent back signed
//! ([`handshake`]). The answer opens the association. Neighbours that the keys name are challenged in advance.
//!
//! That first message is lost, which would delay a Path by a refresh period. So who answers a challenge sends once more
//! what it has sent that way within the last second, a few messages at most.
//!
//! # Odd cases
//!
//! - **The last key expires**: it goes on (section 5.3), and an event says so once.
//! - **There is no key** for what leaves through a secured interface: it does not leave.
//! - **ResvConf** is signed by each hop, so each hop sends it in its own name: RFC 2747 section 4 finds the signer by the
//!   IP source address.
//! - **One key for both directions** lets an attacker play messages without a hop object (PathErr, Ack, Srefresh) back to
//!   their sender as the neighbour's. Keys with a [`Purpose`] of one direction close that.

mod digest;
mod guard;
mod handshake;
mod key;
mod sequence;
mod sign;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::timer::TimerId;
use serde::{Deserialize, Serialize};

use self::digest::KeyedHash;
use self::handshake::Handshakes;
use self::sequence::SequenceClock;
use self::sign::Recent;

pub use self::digest::Algorithm;
pub use self::key::{Key, Purpose, Secret};

/// Settings of message integrity. By default no interface is secured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How interfaces are secured, by name; those that are not there are not.
    pub interfaces: BTreeMap<String, Secured>,
    /// All keys, in any order.
    pub keys: Vec<Key>,
    /// N: how many sequence numbers of a neighbour are kept, and so how many places a message may be late. At least 1,
    /// which allows no reordering.
    pub window: u16,
    /// Whether new neighbours are challenged.
    pub handshake: HandshakeMode,
    /// How long an answer to a challenge is waited for before the challenge is repeated; doubled each time.
    pub challenge_interval: Duration,
    /// Challenges of others that are answered in a second. Anyone can send them, unsigned.
    pub answers_per_second: u32,
    /// Most pairs of a key and a neighbour whose sequence numbers are kept.
    pub max_associations: u32,
    /// The sequence number that belongs to [`earmark_core::Time::ZERO`], in units of 2^-32 seconds. It must be larger than
    /// in the last life of this node by at least as much time as has passed since.
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

/// In which directions an interface is secured (RFC 2747 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secured {
    /// What leaves is signed, and only what is signed is accepted.
    Both,
    /// What leaves is signed; INTEGRITY in what arrives is ignored. For the time of changing over.
    Send,
    /// Only what is signed is accepted; what leaves is not signed.
    Receive,
}

impl Secured {
    fn sends(self) -> bool {
        self != Secured::Receive
    }

    fn receives(self) -> bool {
        self != Secured::Send
    }
}

/// Whether a new neighbour has to prove that its messages are not old ones (RFC 2747 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandshakeMode {
    /// Nobody is challenged; the first message of a neighbour is believed.
    Off,
    /// Those are challenged who say that they answer; others are believed.
    Offered,
    /// Whoever does not answer is not heard.
    Required,
}

/// Integrity at work.
#[derive(Debug)]
pub(crate) struct Integrity {
    settings: Settings,
    /// The hash of each key, in the order of the settings.
    hashes: Vec<KeyedHash>,
    clock: SequenceClock,
    /// The last sequence number that was given with each key identifier.
    given: BTreeMap<u64, u64>,
    handshakes: Handshakes,
    recent: Recent,
    /// Keys that are used after their time, so that this is told once.
    overdue: Vec<bool>,
    timer: Option<TimerId>,
}

impl Integrity {
    /// `None` where no interface is secured.
    pub(crate) fn new(settings: &Settings, random: &RandomStreams) -> Option<Integrity> {
        if settings.interfaces.is_empty() {
            return None;
        }
        Some(Integrity {
            hashes: hashes(&settings.keys),
            clock: SequenceClock::new(settings.sequence_start),
            given: BTreeMap::new(),
            handshakes: Handshakes::new(random.stream("rsvp/cookie").hash_key(), settings),
            recent: Recent::default(),
            overdue: alloc::vec![false; settings.keys.len()],
            timer: None,
            settings: settings.clone(),
        })
    }

    /// Takes other keys; what is known of neighbours by keys that stay is kept.
    fn replace_keys(&mut self, keys: Vec<Key>) {
        self.hashes = hashes(&keys);
        self.overdue = alloc::vec![false; keys.len()];
        self.handshakes.forget(|id| !keys.iter().any(|key| key.id == id));
        self.settings.keys = keys;
    }

    fn secured(&self, interface: &str) -> Option<Secured> {
        self.settings.interfaces.get(interface).copied()
    }
}

fn hashes(keys: &[Key]) -> Vec<KeyedHash> {
    keys.iter().map(|key| KeyedHash::new(key.algorithm, key.secret.octets())).collect()
}
