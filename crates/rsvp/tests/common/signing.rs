//! Keys, signatures and signing neighbours for tests of message integrity.
#![allow(dead_code, unreachable_pub)]

use earmark_core::{Secret, Time};
use earmark_rsvp::integrity::{Algorithm, Directions, HandshakeMode, Key, Settings};
use earmark_rsvp::{Config, DropReason, Event};
use earmark_wire::rsvp::{Body, Integrity, Message};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::common::*;

pub const SECRET: &[u8] = b"what r1 and r2 share";
pub const KEY: u64 = 0x0102_0304_0506;

pub fn key(id: u64, algorithm: Algorithm) -> Key {
    Key {
        id,
        algorithm,
        secret: Secret::new(SECRET),
        purpose: Directions::Both,
        start: Time::ZERO,
        age: Default::default(),
        end: Time::MAX,
        interfaces: vec![],
        neighbors: vec![],
    }
}

/// Settings with both interfaces secured and without challenges.
pub fn settings(keys: Vec<Key>) -> Settings {
    Settings {
        interfaces: ["eth1", "eth2"].map(|name| (name.to_owned(), Directions::Both)).into(),
        keys,
        handshake: HandshakeMode::Off,
        sequence_start: 5 << 32,
        ..Settings::default()
    }
}

pub fn secured(integrity: Settings) -> Bench {
    with_config(Config { integrity, ..Config::default() })
}

pub fn router_with_key() -> Bench {
    secured(settings(vec![key(KEY, Algorithm::HmacSha256)]))
}

/// Signer of test messages: HMAC-SHA-256 over a message with zeros for digest and checksum.
#[derive(Clone, Copy)]
pub struct Signer {
    pub key: u64,
    pub secret: &'static [u8],
    pub sequence: u64,
    pub flags: u8,
}

pub const SIGNER: Signer = Signer { key: KEY, secret: SECRET, sequence: 1, flags: 0 };

impl Signer {
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let blank = Integrity::blank(self.flags, self.key, self.sequence, 32);
        let mut octets = vec![0; message.len() + blank.object_len()];
        blank.insert(message, &mut octets).expect("it fits");
        octets[2..4].fill(0);
        let digest = mac(self.secret, &octets);
        Integrity::seal(&mut octets, &digest).expect("it has a place for it");
        octets
    }
}

pub fn mac(secret: &[u8], octets: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
    mac.update(octets);
    mac.finalize().into_bytes().to_vec()
}

pub fn dropped(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |event: &Event| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    };
    events(outcomes).iter().filter_map(reason).collect()
}

/// Key Identifier and sequence number of a sent message, whose digest must be valid.
pub fn signature(octets: &[u8]) -> Option<(u64, u64)> {
    let message = Message::parse(octets).expect("what we send can be read");
    let integrity = message.integrity?;
    let mut zeroed = octets.to_vec();
    zeroed[2..4].fill(0);
    zeroed[28..28 + integrity.digest.len()].fill(0);
    assert_eq!(integrity.digest, mac(SECRET, &zeroed));
    assert_eq!(integrity.flags, Integrity::HANDSHAKE);
    Some((integrity.key_id, integrity.sequence))
}

pub fn sent_octets<'o>(outcomes: &'o [Outcome]) -> Vec<&'o [u8]> {
    let octets = |outcome: &'o Outcome| match outcome {
        Outcome::Sent(_, octets) => Some(octets.as_slice()),
        _ => None,
    };
    outcomes.iter().filter_map(octets).collect()
}

pub fn path_octets() -> Vec<u8> {
    octets(Body::Path(path()), 63)
}

pub fn receive_path(bench: &mut Bench, octets: &[u8]) -> Vec<Outcome> {
    bench.receive_octets(ETH1, ip(RECEIVER), 63, octets)
}
