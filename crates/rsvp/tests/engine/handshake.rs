//! Integrity handshake (RFC 2747 section 4.3): challenges and responses.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{HostEvent, Prefix};
use earmark_rsvp::DropReason;
use earmark_rsvp::integrity::{Algorithm, HandshakeMode, Settings};
use earmark_wire::rsvp::{Body, Challenge, Integrity, Message};

use crate::common::*;
use crate::signing::*;

fn challenging(mode: HandshakeMode) -> Settings {
    let keys = vec![key(KEY, Algorithm::HmacSha256)];
    Settings { handshake: mode, ..settings(keys) }
}

fn challenge_in(outcomes: &[Outcome]) -> Option<(IpAddr, Challenge)> {
    sent(outcomes).iter().find_map(|(how, message)| match message.body {
        Body::IntegrityChallenge(challenge) => Some((how.destination, challenge)),
        _ => None,
    })
}

fn answer(challenge: Challenge, sequence: u64) -> Vec<u8> {
    let blank = Integrity::blank(Integrity::HANDSHAKE, KEY, sequence, 32);
    let body = Body::IntegrityResponse(challenge);
    let message = Message { integrity: Some(blank), ..Message::new(64, body) };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets[2..4].fill(0);
    let digest = mac(SECRET, &octets);
    Integrity::seal(&mut octets, &digest).expect("it has a place for it");
    octets
}

/// RFC 2747 section 4.3: the first message causes a challenge, the response opens the association, and older messages
/// are dropped.
#[test]
fn new_neighbor_must_answer_challenge() {
    let mut bench = secured(challenging(HandshakeMode::Offered));
    let own = ip("10.0.1.2");
    let fresh = |sequence| Signer { sequence, flags: Integrity::HANDSHAKE, ..SIGNER };
    let outcomes = receive_path(&mut bench, &fresh(10).sign(&path_octets()));
    assert_eq!(dropped(&outcomes), [DropReason::HandshakePending]);
    let (to, first) = challenge_in(&outcomes).expect("it is challenged");
    assert_eq!((to, first.key_id), (ip(UPSTREAM), KEY));
    assert_eq!(sent(&outcomes)[0].1.integrity, None, "a challenge is not signed");

    // Further messages cause no more challenges; time does, each with a new cookie.
    let outcomes = receive_path(&mut bench, &fresh(11).sign(&path_octets()));
    assert_eq!(dropped(&outcomes), [DropReason::HandshakePending]);
    assert_eq!(challenge_in(&outcomes), None);
    let (_, second) = challenge_in(&bench.pass(Duration::from_secs(1))).expect("again");
    assert_ne!(first.cookie, second.cookie);

    for wrong in [first, Challenge { key_id: 1, ..second }] {
        let outcomes = bench.receive_octets(ETH1, own, 64, &answer(wrong, 100));
        assert_eq!(dropped(&outcomes), [DropReason::UnknownChallenge]);
    }
    let mut forged = answer(second, 100);
    forged[40] ^= 1;
    let outcomes = bench.receive_octets(ETH1, own, 64, &forged);
    assert_eq!(dropped(&outcomes), [DropReason::WrongDigest]);
    assert_eq!(bench.receive_octets(ETH1, own, 64, &answer(second, 100)), []);
    let outcomes = bench.receive_octets(ETH1, own, 64, &answer(second, 101));
    assert_eq!(dropped(&outcomes), [DropReason::UnknownChallenge], "it was answered");

    let outcomes = receive_path(&mut bench, &fresh(50).sign(&path_octets()));
    assert_eq!(dropped(&outcomes), [DropReason::Replayed]);
    receive_path(&mut bench, &fresh(101).sign(&path_octets()));
    assert_eq!(bench.engine.population().0, 1);
    assert_eq!(challenge_in(&bench.pass(Duration::from_secs(20))), None, "that is over");
}

#[test]
fn unanswered_challenge_is_given_up() {
    let mut bench = secured(challenging(HandshakeMode::Required));
    let signer = Signer { flags: Integrity::HANDSHAKE, ..SIGNER };
    receive_path(&mut bench, &signer.sign(&path_octets()));
    let outcomes = bench.pass(Duration::from_secs(300));
    assert_eq!(sent(&outcomes).len(), 4, "five in all, at 0, 1, 3, 7 and 15 s");
    assert_eq!(bench.engine.counters().dropped[DropReason::NotSigned as usize], 0);
    // A sender without the flag HF is neither challenged nor accepted.
    let outcomes = receive_path(&mut bench, &SIGNER.sign(&path_octets()));
    assert_eq!(dropped(&outcomes), [DropReason::HandshakePending]);
    assert_eq!(challenge_in(&outcomes), None);
    let mut lenient = secured(challenging(HandshakeMode::Offered));
    assert_eq!(dropped(&receive_path(&mut lenient, &SIGNER.sign(&path_octets()))), []);
}

/// A neighbour that a key names is challenged before it sends anything, until it answers.
#[test]
fn neighbor_named_by_key_is_challenged_in_advance() {
    let mut settings = challenging(HandshakeMode::Offered);
    settings.keys[0].neighbors = vec![ip(UPSTREAM)];
    let mut bench = secured(settings);
    let prefix: Prefix = "10.0.2.0/24".parse().expect("a prefix");
    assert_eq!(bench.host(HostEvent::RouteChanged(prefix)), []);
    let prefix: Prefix = "10.0.1.0/24".parse().expect("a prefix");
    let outcomes = bench.host(HostEvent::RouteChanged(prefix));
    assert!(challenge_in(&outcomes).is_some());
    assert_eq!(bench.host(HostEvent::InterfaceChanged(ETH1)), []);
    let outcomes = bench.pass(Duration::from_secs(1_000));
    let (_, last) = sent(&outcomes)
        .iter()
        .rev()
        .find_map(|(how, message)| match message.body {
            Body::IntegrityChallenge(challenge) => Some((how.destination, challenge)),
            _ => None,
        })
        .expect("again and again");
    assert!(sent(&outcomes).len() > 15);
    assert_eq!(bench.receive_octets(ETH1, ip("10.0.1.2"), 64, &answer(last, 5)), []);
    let outcomes = receive_path(&mut bench, &Signer { sequence: 6, ..SIGNER }.sign(&path_octets()));
    assert_eq!(dropped(&outcomes), []);
}

/// A challenge gets a signed response, and the messages that the challenger has just dropped are sent again.
#[test]
fn challenge_is_answered_and_recent_messages_are_resent() {
    let mut bench = router_with_key();
    let first = receive_path(&mut bench, &SIGNER.sign(&path_octets()));
    let challenge = Challenge { key_id: KEY, cookie: 0xfeed };
    let octets_of_it = octets(Body::IntegrityChallenge(challenge), 64);
    let ask = |bench: &mut Bench| bench.receive_octets(ETH2, ip("10.0.2.1"), 64, &octets_of_it);
    let outcomes = ask(&mut bench);
    let repeated = sent_octets(&outcomes);
    assert_eq!(repeated.len(), 2);
    let response = Message::parse(repeated[0]).expect("it can be read");
    assert_eq!(response.body, Body::IntegrityResponse(challenge));
    let numbers: Vec<u64> = [sent_octets(&first)[0], repeated[0], repeated[1]]
        .map(|octets| signature(octets).expect("signed").1)
        .into();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let body = |octets| Message::parse(octets).map(|message| message.body);
    assert_eq!(body(repeated[1]), body(sent_octets(&first)[0]), "the Path once more");
    assert_eq!(sent_octets(&ask(&mut bench)).len(), 1, "but not a third time");

    let unknown = octets(Body::IntegrityChallenge(Challenge { key_id: 1, cookie: 1 }), 64);
    let outcomes = bench.receive_octets(ETH2, ip("10.0.2.1"), 64, &unknown);
    assert_eq!(dropped(&outcomes), [DropReason::UnknownKey]);
    // Anyone can send challenges, so responses are limited.
    let answered = (0..500).filter(|_| !sent_octets(&ask(&mut bench)).is_empty()).count();
    assert_eq!(answered, 98, "a hundred a second");
}

/// RFC 2747 section 5.2: keys can be removed and added while the engine runs. Associations of the remaining ones are
/// kept.
#[test]
fn replaced_keys_keep_associations_of_remaining_keys() {
    let mut bench = router_with_key();
    let path = |sequence, key| Signer { sequence, key, ..SIGNER }.sign(&path_octets());
    receive_path(&mut bench, &path(5, KEY));
    let keys = vec![key(KEY, Algorithm::HmacSha256), key(9, Algorithm::HmacSha256)];
    bench.command(earmark_rsvp::Command::Keys { keys });
    assert_eq!(dropped(&receive_path(&mut bench, &path(5, KEY))), [DropReason::Replayed]);
    assert_eq!(dropped(&receive_path(&mut bench, &path(1, 9))), []);
    bench.command(earmark_rsvp::Command::Keys { keys: vec![key(9, Algorithm::HmacSha256)] });
    assert_eq!(dropped(&receive_path(&mut bench, &path(6, KEY))), [DropReason::UnknownKey]);
    assert_eq!(dropped(&receive_path(&mut bench, &path(2, 9))), []);
}
