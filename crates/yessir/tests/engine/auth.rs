//! Signed messages: a message that fails authentication is forwarded, and has no effect.

use earmark_core::keys::Directions;
use earmark_core::{Secret, Time};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::{FailureNote, FailureReason, Flowspec, OctetRate, Style};
use earmark_yessir::auth::{Key, Settings};
use earmark_yessir::{Application, Attachment, Command, Config, DropReason, Event};

use crate::common::{Ask, DOWN, Node, address, mbps};

fn key(id: u32) -> Key {
    Key::new(id, Secret::new(vec![id as u8; 32]))
}

fn guarded() -> Node {
    node(vec![key(1), key(2)], "eth1", Directions::Accept)
}

fn node(keys: Vec<Key>, interface: &str, directions: Directions) -> Node {
    let interfaces = [(interface.to_owned(), directions)].into();
    let auth = Settings { keys, interfaces, sequence_start: 1_000 << 32 };
    Node::with(Config { auth, ..Config::default() })
}

fn signed(ask: &Ask, key: Key, sequence: u64) -> Ask {
    Ask { sign: Some((key, sequence)), ..ask.clone() }
}

/// Returns the reason why the last message was ignored.
fn ignored(node: &mut Node) -> Option<DropReason> {
    node.take_events().iter().find_map(|event| match event {
        Event::Ignored { reason, .. } => Some(*reason),
        _ => None,
    })
}

#[test]
fn unsigned_message_where_auth_is_required_is_ignored() {
    let mut node = guarded();
    let ask = Ask::new(1);
    let wrong = Key::new(1, Secret::new(vec![9; 32]));
    for (ask, reason) in [
        (ask.clone(), DropReason::MissingAuth),
        (signed(&ask, key(3), 1), DropReason::UnknownKey),
        (signed(&ask, wrong, 1), DropReason::WrongDigest),
    ] {
        let arrival = ask.arrival();
        let sent = node.pass(&arrival);
        assert_eq!(sent.octets, arrival.octets, "it goes on untouched");
        assert_eq!(ignored(&mut node), Some(reason));
        assert_eq!(node.held(DOWN), 0);
    }
    node.pass(&signed(&ask, key(2), 1).arrival());
    assert_eq!((ignored(&mut node), node.held(DOWN)), (None, 1_000_000));
    let mut open = guarded();
    let mut arrival = ask.arrival();
    arrival.interface = crate::common::SIDE;
    open.pass(&arrival);
    assert_eq!(open.held(DOWN), 1_000_000, "on other interfaces nobody asks");
}

#[test]
fn replayed_message_is_ignored() {
    let mut node = guarded();
    let ask = Ask::new(1);
    let caught = signed(&ask, key(1), 7);
    node.pass(&caught.arrival());
    node.pass(&caught.arrival());
    assert_eq!(ignored(&mut node), Some(DropReason::Replayed));
    node.pass(&signed(&ask, key(1), 6).arrival());
    assert_eq!(ignored(&mut node), Some(DropReason::Replayed));
    node.pass(&signed(&ask, key(1), 8).arrival());
    assert_eq!(ignored(&mut node), None);
    // The digest is not valid for another stream, another rate, or a release.
    let sequence = caught.sign.clone();
    let arrival = Ask { source: address("10.1.0.9"), ..caught.clone() }.with_octets(vec![]);
    let mut elsewhere =
        crate::common::Arrival { octets: caught.packet(Some(&caught.app())), ..arrival };
    elsewhere.octets[6..8].fill(0); // no checksum, so that only the digest counts
    node.pass(&elsewhere);
    assert_eq!(ignored(&mut node), Some(DropReason::WrongDigest));
    let large = Ask { flowspec: Some(mbps(4.0)), ..caught.clone() };
    let mut app = signed(&large, key(1), 9).app();
    let digest = app.len() - 16;
    app[digest..].copy_from_slice(&caught.app()[digest..]);
    node.pass(&large.with_octets(large.packet(Some(&app))));
    assert_eq!(ignored(&mut node), Some(DropReason::WrongDigest));
    assert_eq!(node.held(DOWN), 1_000_000);
    assert!(sequence.is_some());
}

#[test]
fn unsigned_bye_is_ignored() {
    let mut node = guarded();
    let ask = Ask::new(1);
    node.pass(&signed(&ask, key(1), 1).arrival());
    node.pass(&ask.release().arrival());
    node.pass(&Ask { goodbye: true, ..ask.clone() }.arrival());
    assert_eq!(node.held(DOWN), 1_000_000);
    node.pass(&signed(&ask.release(), key(1), 2).arrival());
    assert_eq!(node.held(DOWN), 0);
}

/// Routers edit LINK_INFO and FAILURE in transit; the digest stays valid.
#[test]
fn signature_survives_router_edits() {
    let mut first = Node::new();
    first.pass(&Ask::rate(9, 5.0).arrival());
    let sent = first.pass(&signed(&Ask::new(1), key(1), 1).arrival());
    let notes: Vec<FailureNote> = sent.notes();
    assert_eq!((notes[0].reason, notes[0].available), (FailureReason::Bandwidth, OctetRate(0.0)));
    let mut second = guarded();
    second.pass(&sent.arrival(crate::common::UP));
    assert_eq!(second.held(DOWN), 1_000_000);
}

/// A stream of this host.
fn attachment() -> Attachment {
    Attachment {
        stream: earmark_yessir::Stream {
            source: address("10.0.0.1"),
            destination: address("10.9.0.2"),
            source_port: 4_000,
            destination_port: 5_000,
        },
        ssrc: Some(5),
        cname: "a@b".into(),
        multiplexed: false,
        flowspec: Flowspec::Codec { payload_type: 0, frames: 1 },
        style: Style::Individual,
        passive: false,
        interval: 1,
        ttl: 64,
        token: None,
    }
}

/// Returns the number of the key in each report.
fn signers(sent: &[crate::common::Sent]) -> Vec<Option<u32>> {
    sent.iter().map(|sent| sent.message().auth.map(|auth| auth.key)).collect()
}

#[test]
fn sequence_numbers_grow_over_restarts() {
    let mut router = guarded();
    // The host has the usual address.
    router.set_link(crate::common::UP, &["10.0.0.254"], 5);
    for (started, expected) in [(1_000, 3), (1_003, 3)] {
        let interfaces = [("eth2".to_owned(), Directions::Send)].into();
        let auth = Settings { keys: vec![key(1)], interfaces, sequence_start: started << 32 };
        let mut host = Node::with(Config { auth, ..Config::default() });
        let application = Application(1);
        host.command(Command::Attach { application, attachment: attachment() });
        host.advance(2.0);
        let sent = std::mem::take(&mut host.sent);
        assert!(sent.len() >= 2 && sent.len() <= expected, "{}", sent.len());
        for sent in sent {
            router.pass(&sent.arrival(crate::common::UP));
            assert_eq!(ignored(&mut router), None);
        }
        assert_eq!(router.held(DOWN), 80_000);
    }
}

/// Checks the digest of the library against a router.
#[test]
fn appended_packet_is_signed() {
    use earmark_wire::yessir::Command as Wire;
    use earmark_yessir::library::{self, Signing};
    let ask = Ask::new(1);
    let wanted = library::AppRequest {
        command: Wire::Active,
        ssrc: ask.ssrc,
        flowspec: mbps(1.0),
        style: Style::Individual,
        interval: 5,
        reservation: 1,
        multiplexed: false,
        send_ttl: 64,
    };
    let stream = ask.stream();
    let key = key(1);
    let sign =
        Signing { key: &key, stream: &stream, sequence: 9, sender: ask.sent, goodbye: false };
    let app = library::app_packet(&wanted, Some(&sign)).expect("it fits");
    let mut node = guarded();
    node.pass(&ask.with_octets(ask.packet(Some(&app))));
    assert_eq!((ignored(&mut node), node.held(DOWN)), (None, 1_000_000));
    let unsigned = library::app_packet(&wanted, None).expect("it fits");
    node.pass(&ask.with_octets(ask.packet(Some(&unsigned))));
    assert_eq!(ignored(&mut node), Some(DropReason::MissingAuth));
}

fn dated(id: u32, start: u64, end: u64) -> Key {
    Key { start: Time::from_secs(start), end: Time::from_secs(end), ..key(id) }
}

/// Each setting of an interface with each state of a key. The time is 1000 s after the engine's start.
#[test]
fn received_reports_by_setting_and_key() {
    const NOW: u64 = 1_000;
    let valid = dated(1, 0, NOW + 1);
    let keys = || {
        vec![
            valid.clone(),
            dated(2, 0, NOW),
            dated(3, NOW + 1, NOW + 2),
            Key { purpose: Directions::Send, ..key(4) },
            Key { interfaces: vec!["eth2".into()], ..key(5) },
            Key { secret: Secret::default(), ..key(6) },
        ]
    };
    let signers = [
        (None, Some(DropReason::MissingAuth)),
        (Some(key(1)), None),
        (Some(key(2)), Some(DropReason::KeyNotValid)),
        (Some(key(3)), Some(DropReason::KeyNotValid)),
        (Some(key(4)), Some(DropReason::UnknownKey)),
        (Some(key(5)), Some(DropReason::UnknownKey)),
        (Some(key(6)), Some(DropReason::UnknownKey)),
        (Some(key(7)), Some(DropReason::UnknownKey)),
    ];
    for directions in [Directions::Both, Directions::Send, Directions::Accept] {
        for (signer, refused) in &signers {
            let mut node = node(keys(), "eth1", directions);
            node.now = Time::from_secs(NOW);
            let ask = Ask { sign: signer.clone().map(|key| (key, 1)), ..Ask::new(1) };
            node.pass(&ask.arrival());
            let expected = refused.filter(|_| directions.accepts());
            let case = format!("{directions:?} {signer:?}");
            assert_eq!(ignored(&mut node), expected, "{case}");
            assert_eq!(node.held(DOWN) > 0, expected.is_none(), "{case}");
        }
    }
}

/// The key changes in the middle of the overlap, 75 s, and the last one stays in use after 200 s, which is reported once at
/// either end.
#[test]
fn key_rollover_keeps_streams_reserved() {
    let keys = || vec![dated(1, 0, 100), dated(2, 50, 200)];
    let mut host = node(keys(), "eth2", Directions::Send);
    let mut router = node(keys(), "eth1", Directions::Accept);
    for node in [&mut host, &mut router] {
        node.now = Time::ZERO;
    }
    router.set_link(crate::common::UP, &["10.0.0.254"], 5);
    host.command(Command::Attach { application: Application(1), attachment: attachment() });
    let mut seen = Vec::new();
    let mut expired = [0, 0];
    for second in 0..250 {
        host.advance(1.0);
        router.advance(1.0);
        let sent = std::mem::take(&mut host.sent);
        for (sent, signer) in sent.iter().zip(signers(&sent)) {
            seen.push((second, signer));
            router.pass(&sent.arrival(crate::common::UP));
        }
        for (node, expired) in [&mut host, &mut router].into_iter().zip(&mut expired) {
            for event in node.take_events() {
                assert!(!matches!(event, Event::Ignored { .. }), "{second} s: {event:?}");
                *expired += usize::from(event == Event::LastKeyExpired { key: 2 });
            }
        }
        assert_eq!(router.held(DOWN), 80_000, "{second} s");
    }
    assert!(seen.len() > 150, "{}", seen.len());
    for (second, signer) in seen {
        let expected = if second < 75 { 1 } else { 2 };
        // A report in the second of the change has either key.
        assert!(signer == Some(expected) || second == 74 || second == 75, "{second} {signer:?}");
    }
    assert_eq!(expired, [1, 1]);
}

#[test]
fn sent_reports_by_setting_and_key() {
    let accept = Key { purpose: Directions::Accept, ..key(1) };
    let elsewhere = Key { interfaces: vec!["eth1".into()], ..key(1) };
    let first = |directions, key: Key| {
        let mut host = node(vec![key], "eth2", directions);
        host.command(Command::Attach { application: Application(1), attachment: attachment() });
        let not_signed = host.engine.counters().ignored.get(&DropReason::NotSigned).copied();
        (signers(&host.sent), not_signed)
    };
    for directions in [Directions::Both, Directions::Send] {
        assert_eq!(first(directions, key(1)), (vec![Some(1)], None));
        // Nothing leaves unsigned.
        assert_eq!(first(directions, accept.clone()), (vec![], Some(1)));
        assert_eq!(first(directions, elsewhere.clone()), (vec![], Some(1)));
    }
    assert_eq!(first(Directions::Accept, key(1)), (vec![None], None));
}

/// A captured message does not bring back a stream that was released or has expired, and the sender goes on.
#[test]
fn replay_does_not_bring_back_an_ended_stream() {
    for released in [true, false] {
        let mut node = guarded();
        let ask = Ask::new(1);
        let captured = signed(&ask, key(1), 7).arrival();
        node.pass(&captured);
        assert_eq!(node.held(DOWN), 1_000_000);
        match released {
            true => _ = node.pass(&signed(&ask.release(), key(1), 8).arrival()),
            false => node.advance(200.0),
        }
        assert_eq!(node.held(DOWN), 0);
        node.take_events();
        node.pass(&captured);
        assert_eq!((ignored(&mut node), node.held(DOWN)), (Some(DropReason::Replayed), 0));
        // The same sender with another stream, too.
        let other = Ask { ports: (6_000, 7_000), ..ask.clone() };
        node.pass(&signed(&other, key(1), 6).arrival());
        assert_eq!(ignored(&mut node), Some(DropReason::Replayed));
        node.pass(&signed(&Ask::new(2), key(1), 6).arrival());
        assert_eq!(ignored(&mut node), None, "another source counts by itself");
        node.pass(&signed(&ask, key(1), 9).arrival());
        assert_eq!((ignored(&mut node), node.held(DOWN)), (None, 2_000_000));
    }
}

/// The counts by which a rate is measured, and a BYE, are signed.
#[test]
fn changed_counts_and_added_bye_are_ignored() {
    let flowspec = Some(Flowspec::Measured { window: 60, headroom: 20 });
    let sent = SenderInfo { ntp: 9 << 32, rtp_timestamp: 8_000, packets: 50, octets: 8_000 };
    let ask = signed(&Ask { flowspec, sent, ..Ask::new(1) }, key(1), 7);
    let app = ask.app();
    let changed = [
        Ask { sent: SenderInfo { octets: 80_000, ..sent }, ..ask.clone() },
        Ask { sent: SenderInfo { packets: 51, ..sent }, ..ask.clone() },
        Ask { sent: SenderInfo { ntp: 1 << 32, ..sent }, ..ask.clone() },
        Ask { sent: SenderInfo { rtp_timestamp: 1, ..sent }, ..ask.clone() },
        Ask { goodbye: true, ..ask.clone() },
    ];
    let mut node = guarded();
    for other in changed {
        node.pass(&other.with_octets(other.packet(Some(&app))));
        assert_eq!(ignored(&mut node), Some(DropReason::WrongDigest), "{other:?}");
    }
    node.pass(&ask.arrival());
    assert_eq!(ignored(&mut node), None);
}

#[test]
fn replaced_keys_are_used_at_once() {
    let mut node = guarded();
    node.command(Command::Keys { keys: vec![key(3)] });
    node.pass(&signed(&Ask::new(1), key(1), 1).arrival());
    assert_eq!(ignored(&mut node), Some(DropReason::UnknownKey));
    node.pass(&signed(&Ask::new(1), key(3), 1).arrival());
    assert_eq!((ignored(&mut node), node.held(DOWN)), (None, 1_000_000));
}

/// A listener answers signed reports only, where they must be signed.
#[test]
fn unsigned_announcement_is_not_answered() {
    let mut node = guarded();
    node.set_link(crate::common::UP, &["10.0.0.254"], 5);
    let (destination, port) = (address("10.0.0.254"), 5_000);
    node.command(Command::Listen {
        application: Application(1),
        destination,
        port,
        cname: "c@d".into(),
    });
    let ask = Ask { destination, ..Ask::new(1) };
    let announced = |node: &mut Node, ask: &Ask| {
        node.arrive(&ask.arrival());
        let events = node.take_events();
        let found = events.iter().any(|event| matches!(event, Event::Announced { .. }));
        let ignored = events.iter().find_map(|event| match event {
            Event::Ignored { reason, .. } => Some(*reason),
            _ => None,
        });
        (found, ignored)
    };
    assert_eq!(announced(&mut node, &ask), (false, Some(DropReason::MissingAuth)));
    assert_eq!(
        announced(&mut node, &signed(&ask, key(3), 1)),
        (false, Some(DropReason::UnknownKey))
    );
    assert_eq!(announced(&mut node, &signed(&ask, key(1), 1)), (true, None));
}
