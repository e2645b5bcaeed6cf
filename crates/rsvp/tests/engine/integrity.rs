//! Message integrity (RFC 2747, RFC 3097): signing, verification, and resistance to attackers.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Rate, Secret, Time};
use earmark_rsvp::integrity::{Algorithm, Directions, Key, Settings};
use earmark_rsvp::{DropReason, Event};
use earmark_wire::rsvp::{
    Body, Bundle, Carried, ErrorCode, ErrorSpec, PathErr, ResvConf, ResvErr, SourceSelector,
};
use proptest::prelude::*;

use crate::common::*;
use crate::signing::*;

/// Whole Path messages with sequence number 7 and flag HF clear, built and signed by a few lines of Python (its
/// `struct`, `hmac` and `hashlib`), without a checksum: the one of [`path`].
const SIGNED_ELSEWHERE: [(Algorithm, &str); 3] = [
    (
        Algorithm::HmacMd5,
        "100100003f00007c002404010000010203040506000000000000000715a57b403265befd957738d7b7c25210000c\
         01010a0009091100138c000c03010a0001010000004d0008050100007530000c0b010a00000100000fa000240c02\
         00000007010000067f00000548742400453b80007f80000000000064000005dc",
    ),
    (
        Algorithm::HmacSha1,
        "100100003f00008000280401000001020304050600000000000000073c86a4e0a177ee0d433f125e07c0c1b4fd67\
         4784000c01010a0009091100138c000c03010a0001010000004d0008050100007530000c0b010a00000100000fa0\
         00240c0200000007010000067f00000548742400453b80007f80000000000064000005dc",
    ),
    (
        Algorithm::HmacSha256,
        "100100003f00008c00340401000001020304050600000000000000075452d99ba3eed77f229f5f5dd37922f7fc3c\
         a3c8832c2252b364a4d12623dc90000c01010a0009091100138c000c03010a0001010000004d0008050100007530\
         000c0b010a00000100000fa000240c0200000007010000067f00000548742400453b80007f800000000000640000\
         05dc",
    ),
];

#[test]
fn externally_signed_message_is_accepted_unless_changed() {
    for (algorithm, hexadecimal) in SIGNED_ELSEWHERE {
        let octets: Vec<u8> = (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).expect("hex"))
            .collect();
        let mut bench = secured(settings(vec![key(KEY, algorithm)]));
        // The checksum is not signed; a wrong one would use up the sequence number.
        for bit in (0..octets.len() * 8).filter(|bit| !(16..32).contains(bit)) {
            let mut other = octets.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            receive_path(&mut bench, &other);
            assert_eq!(bench.engine.population().0, 0, "{algorithm:?}, bit {bit}");
        }
        let outcomes = receive_path(&mut bench, &octets);
        assert_eq!(dropped(&outcomes), []);
        assert_eq!(bench.engine.population().0, 1, "{algorithm:?}");
        // A repetition is a replay.
        assert_eq!(dropped(&receive_path(&mut bench, &octets)), [DropReason::Replayed]);
    }
}

/// RFC 2747 section 4.2: each fault has its own drop reason, and none is answered.
#[test]
fn invalid_integrity_is_dropped_with_reason() {
    let early = Key { start: Time::from_secs(2_000), ..key(2, Algorithm::HmacSha256) };
    let late = Key { end: Time::from_secs(900), ..key(3, Algorithm::HmacSha256) };
    let elsewhere = Key { interfaces: vec!["eth2".into()], ..key(4, Algorithm::HmacSha256) };
    let others = Key { neighbors: vec![ip("10.0.1.9")], ..key(5, Algorithm::HmacSha256) };
    let sending = Key { purpose: Directions::Send, ..key(6, Algorithm::HmacSha256) };
    let short = key(7, Algorithm::HmacMd5);
    let good = key(KEY, Algorithm::HmacSha256);
    let mut bench = secured(settings(vec![early, late, elsewhere, others, sending, short, good]));
    let plain = path_octets();
    let with = |signer: Signer| signer.sign(&plain);
    let cases = [
        (plain.clone(), DropReason::MissingIntegrity),
        (plain[..20].to_vec(), DropReason::MissingIntegrity),
        (with(Signer { key: 99, ..SIGNER }), DropReason::UnknownKey),
        (with(Signer { key: 2, ..SIGNER }), DropReason::KeyNotValid),
        (with(Signer { key: 3, ..SIGNER }), DropReason::KeyNotValid),
        (with(Signer { key: 4, ..SIGNER }), DropReason::UnknownKey),
        (with(Signer { key: 5, ..SIGNER }), DropReason::UnknownKey),
        (with(Signer { key: 6, ..SIGNER }), DropReason::UnknownKey),
        (with(Signer { key: 7, ..SIGNER }), DropReason::DigestLength),
        (with(Signer { secret: b"a guess", ..SIGNER }), DropReason::WrongDigest),
    ];
    for (octets, reason) in cases {
        let outcomes = receive_path(&mut bench, &octets);
        assert_eq!(dropped(&outcomes), [reason]);
        assert_eq!(outcomes.len(), 1, "and nothing else comes of it");
    }
    // A message of this node, reflected.
    let mut mirrored = path();
    mirrored.hop.address = ip("10.0.1.2");
    let octets = SIGNER.sign(&octets(Body::Path(mirrored), 63));
    assert_eq!(dropped(&receive_path(&mut bench, &octets)), [DropReason::Replayed]);
    assert_eq!(dropped(&receive_path(&mut bench, &with(SIGNER))), []);
}

/// All messages that a reservation causes are signed, with increasing sequence numbers from the clock.
#[test]
fn sent_messages_are_signed_in_order() {
    let mut bench = router_with_key();
    let mut numbers = Vec::new();
    let mut note = |outcomes: &[Outcome]| {
        for octets in sent_octets(outcomes) {
            let (key, sequence) = signature(octets).expect("it is signed");
            assert_eq!(key, KEY);
            numbers.push(sequence);
        }
    };
    let signer = |sequence| Signer { sequence, ..SIGNER };
    note(&receive_path(&mut bench, &signer(1).sign(&path_octets())));
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.confirm = Some(ip(RECEIVER));
    request.hop.lih = bench.engine.lih(ETH2);
    let octets_of_resv = octets(Body::Resv(request), 64);
    note(&bench.receive_octets(ETH2, ip("10.0.2.1"), 64, &signer(2).sign(&octets_of_resv)));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    note(&bench.pass(Duration::from_secs(100)));
    assert!(numbers.len() >= 5, "a Path, a Resv, and refreshes: {numbers:?}");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(numbers[0], (5 + 1_000) << 32);
}

/// Without a key no message is sent, and each is counted.
#[test]
fn message_without_key_is_not_sent() {
    let accept = Key { purpose: Directions::Accept, ..key(KEY, Algorithm::HmacSha256) };
    let unread = Key { secret: Secret::default(), ..key(8, Algorithm::HmacSha256) };
    let mut bench = secured(settings(vec![accept, unread]));
    let outcomes = receive_path(&mut bench, &SIGNER.sign(&path_octets()));
    assert_eq!(bench.engine.population().0, 1);
    assert_eq!(sent_octets(&outcomes).len(), 0);
    assert_eq!(bench.engine.counters().dropped[DropReason::NotSigned as usize], 1);
}

/// A message between two other nodes is neither signed nor verified, nor answered if malformed.
#[test]
fn relayed_message_is_unchanged() {
    let mut bench = router_with_key();
    let message = octets(Body::Resv(resv(&[flow(2)])), 64);
    for octets in [&message[..], &message[..40], &[]] {
        let outcomes = bench.receive_octets(ETH2, ip(SENDER), 64, octets);
        assert_eq!(sent_octets(&outcomes), [octets]);
    }
}

/// An interface secured only for sending accepts any message; one secured only for receiving signs none.
#[test]
fn directions_are_secured_independently() {
    let mut one_way = settings(vec![key(KEY, Algorithm::HmacSha256)]);
    one_way.interfaces.insert("eth1".into(), Directions::Accept);
    one_way.interfaces.insert("eth2".into(), Directions::Send);
    let mut bench = secured(one_way);
    assert_eq!(dropped(&receive_path(&mut bench, &path_octets())), [DropReason::MissingIntegrity]);
    let outcomes = receive_path(&mut bench, &SIGNER.sign(&path_octets()));
    assert!(signature(sent_octets(&outcomes)[0]).is_some());
    let outcomes = bench.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(bench.held(), Rate::from_mbps(2));
    assert_eq!(signature(sent_octets(&outcomes)[0]), None);
}

/// Key 1 ends after key 2 has started: both are accepted in between, the newer one signs from the middle on. After its
/// end key 2 remains in use, which is reported once for each use.
#[test]
fn key_rollover_keeps_last_key() {
    let at = Time::from_secs;
    let first = Key { end: at(1_100), ..key(1, Algorithm::HmacSha256) };
    let second = Key { start: at(1_050), end: at(1_200), ..key(2, Algorithm::HmacSha256) };
    let mut bench = secured(settings(vec![first, second]));
    let script = [
        (1_000, 1, Ok(1)),
        (1_049, 2, Err(DropReason::KeyNotValid)),
        (1_050, 2, Ok(1)),
        (1_060, 1, Ok(1)),
        (1_080, 1, Ok(2)),
        (1_100, 1, Err(DropReason::KeyNotValid)),
        (1_150, 2, Ok(2)),
    ];
    let mut sequence = 0;
    let mut send = |bench: &mut Bench, now, key| {
        bench.now = at(now);
        sequence += 1;
        // A new source port each time makes the Path a change to be forwarded.
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(sequence as u16);
        let octets = Signer { key, sequence, ..SIGNER }.sign(&octets(Body::Path(path), 63));
        receive_path(bench, &octets)
    };
    for (now, key, expected) in script {
        let outcomes = send(&mut bench, now, key);
        match expected {
            Ok(signed_with) => {
                let sent = sent_octets(&outcomes);
                assert_eq!(signature(sent[0]).map(|(key, _)| key), Some(signed_with), "at {now}");
            }
            Err(reason) => assert_eq!(dropped(&outcomes), [reason], "at {now}"),
        }
    }
    let outcomes = send(&mut bench, 1_201, 2);
    assert_eq!(signature(sent_octets(&outcomes)[0]).map(|(key, _)| key), Some(2));
    let report_count = |outcomes: &[Outcome]| {
        let expired = Event::LastKeyExpired { key: 2 };
        events(outcomes).iter().filter(|event| **event == expired).count()
    };
    assert_eq!(report_count(&outcomes), 1);
    assert_eq!(report_count(&send(&mut bench, 1_202, 2)), 0);
    assert_eq!(dropped(&send(&mut bench, 1_202, 1)), [DropReason::KeyNotValid]);
}

/// RFC 2747 section 4 finds the signer of a ResvConf by its IP source address, so each hop signs with its own address.
#[test]
fn forwarded_confirmation_has_own_source_address() {
    let mut bench = router_with_key();
    receive_path(&mut bench, &SIGNER.sign(&path_octets()));
    let flows = [flow(2)];
    let confirmation = ResvConf {
        session: session(),
        error: ErrorSpec { node: ip(SENDER), flags: 0, code: ErrorCode::Confirmation, value: 0 },
        confirm: ip(RECEIVER),
        carried: Carried::NONE,
        flows: resv(&flows).flows,
    };
    let octets = octets(Body::ResvConf(confirmation), 64);
    let octets = Signer { sequence: 2, ..SIGNER }.sign(&octets);
    let outcomes = bench.receive_octets(ETH1, ip(RECEIVER), 64, &octets);
    assert_eq!(sent(&outcomes)[0].0.source, ip("10.0.2.1"));
}

/// Reordering within the window is accepted, and no message is accepted twice.
#[test]
fn late_message_within_window_is_accepted() {
    for (window, late) in [(1, DropReason::Replayed), (4, DropReason::NoState)] {
        let mut bench =
            secured(Settings { window, ..settings(vec![key(KEY, Algorithm::HmacSha256)]) });
        let tear = octets(Body::PathTear(path_tear()), 63);
        let mut receive = |sequence| {
            let octets = Signer { sequence, ..SIGNER }.sign(&tear);
            dropped(&receive_path(&mut bench, &octets))
        };
        assert_eq!(receive(1), [DropReason::NoState]);
        assert_eq!(receive(9), [DropReason::NoState]);
        assert_eq!(receive(5), [late]);
        assert_eq!(receive(5), [DropReason::Replayed]);
    }
}

/// One message of each type that could have an effect, by number.
fn message_of_kind(kind: usize, lih: u32) -> (Vec<u8>, IpAddr, bool) {
    let error = ErrorSpec {
        node: ip(UPSTREAM),
        flags: 0,
        code: ErrorCode::AdmissionControlFailure,
        value: 2,
    };
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.hop.lih = lih;
    let mut tear = resv_tear(&flows);
    tear.hop.lih = lih;
    let mut other = path();
    other.session.port = 6_000;
    let sender = Some((template(), None));
    let (body, to, upstream) = match kind {
        0 => (Body::Path(other), RECEIVER, true),
        1 => (Body::Resv(request), "10.0.2.1", false),
        2 => {
            let body = PathErr { session: session(), error, carried: Carried::NONE, sender };
            (Body::PathErr(body), "10.0.2.1", false)
        }
        3 => {
            let hop = path().hop;
            let body = ResvErr {
                session: session(),
                hop,
                error,
                scope: None,
                carried: Carried::NONE,
                flows: request.flows,
            };
            (Body::ResvErr(body), "10.0.1.2", true)
        }
        4 => (Body::PathTear(path_tear()), RECEIVER, true),
        5 => (Body::ResvTear(tear), "10.0.2.1", false),
        // Srefresh with one Message_Identifier (RFC 2961 section 5.2).
        6 => {
            let header = [0x10, 15, 0, 0, 63, 0, 0, 20];
            let list = [0, 12, 25, 1, 0, 0, 0xab, 0xcd, 0, 0, 0, 9];
            return ([&header[..], &list].concat(), ip("10.0.1.2"), true);
        }
        _ => (Body::Path(path()), RECEIVER, true),
    };
    (octets(body, 63), ip(to), upstream)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Without the key nobody can create or change state, or make this node send, by any message, alone or in a Bundle.
    #[test]
    fn unauthenticated_message_changes_nothing(
        kind in 0_usize..8,
        bundled in any::<bool>(),
        disguise in 0_usize..5,
        sequence in any::<u64>(),
        octet in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut bench = router_with_key();
        receive_path(&mut bench, &Signer { sequence: 1 << 40, ..SIGNER }.sign(&path_octets()));
        let lih = bench.engine.lih(ETH2);
        let (reserve, to, _) = message_of_kind(1, lih);
        let reserve = Signer { sequence: 1 << 40, ..SIGNER }.sign(&reserve);
        bench.receive_octets(ETH2, to, 63, &reserve);
        let before = (bench.engine.population(), bench.held());
        prop_assert_eq!(before, ((1, 1, 1), Rate::from_mbps(2)));

        let (plain, to, upstream) = message_of_kind(kind, lih);
        let signer = Signer { sequence, ..SIGNER };
        let attack = match disguise {
            0 => plain,
            1 => Signer { secret: b"", ..signer }.sign(&plain),
            2 => Signer { key: sequence | 1, secret: b"guessed", ..signer }.sign(&plain),
            // A message of the neighbour with one bit changed, or an old one.
            3 => {
                let mut changed = Signer { sequence: (1 << 40) + 1, ..SIGNER }.sign(&plain);
                let place = octet.index(changed.len());
                // The checksum is not signed, and a receiver may verify it. With another type the message may be one
                // that is only for its addressee, which is forwarded unread.
                prop_assume!(!(1..4).contains(&place));
                changed[place] ^= 1 << bit;
                changed
            }
            _ => Signer { sequence: sequence % (1 << 40), ..SIGNER }.sign(&plain),
        };
        let attack = if bundled {
            let mut bundle = vec![0; Bundle::HEADER_LEN];
            bundle.extend_from_slice(&attack);
            Bundle::seal(&mut bundle, 0, 63).expect("it fits");
            bundle
        } else {
            attack
        };
        let to = match bundled {
            true => ip(if upstream { "10.0.1.2" } else { "10.0.2.1" }),
            false => to,
        };
        let outcomes = bench.receive_octets(if upstream { ETH1 } else { ETH2 }, to, 63, &attack);
        prop_assert_eq!((bench.engine.population(), bench.held()), before);
        for outcome in &outcomes {
            let quiet = matches!(outcome, Outcome::Event(Event::Dropped { .. }));
            prop_assert!(quiet, "{:?}", outcome);
        }
    }
}
