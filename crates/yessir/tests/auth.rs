//! Signed messages: a message that fails authentication is forwarded, and has no effect.

mod common;

use common::{Ask, DOWN, Node, address, mbps};
use earmark_core::Secret;
use earmark_wire::yessir::{FailureNote, FailureReason, Flowspec, OctetRate, Style};
use earmark_yessir::auth::{Key, Settings};
use earmark_yessir::{Application, Attachment, Command, Config, DropReason, Event};

fn key(id: u32) -> Key {
    Key { id, secret: Secret::new(vec![id as u8; 32]) }
}

fn guarded() -> Node {
    let auth =
        Settings { keys: vec![key(1), key(2)], required_on: vec!["eth1".into()], started: 1_000 };
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
    let wrong = Key { id: 1, secret: Secret::new(vec![9; 32]) };
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
    arrival.interface = common::SIDE;
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
    let mut elsewhere = common::Arrival { octets: caught.packet(Some(&caught.app())), ..arrival };
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
    second.pass(&sent.arrival(common::UP));
    assert_eq!(second.held(DOWN), 1_000_000);
}

#[test]
fn sequence_numbers_grow_over_restarts() {
    let attachment = |key| Attachment {
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
        key,
        token: None,
    };
    let mut router = guarded();
    // The host has the usual address.
    router.set_link(common::UP, &["10.0.0.254"], 5);
    for (started, expected) in [(1_000, 3), (1_001, 3)] {
        let auth = Settings { keys: vec![key(1)], required_on: vec![], started };
        let mut host = Node::with(Config { auth, ..Config::default() });
        let application = Application(1);
        host.command(Command::Attach { application, attachment: attachment(Some(1)) });
        host.advance(2.0);
        let sent = std::mem::take(&mut host.sent);
        assert!(sent.len() >= 2 && sent.len() <= expected, "{}", sent.len());
        for sent in sent {
            router.pass(&sent.arrival(common::UP));
            assert_eq!(ignored(&mut router), None);
        }
        assert_eq!(router.held(DOWN), 80_000);
    }
    let host = Node::new();
    assert!(host.engine.session_count() == 0);
}

/// Checks the digest of the library against a router.
#[test]
fn appended_packet_is_signed() {
    use earmark_wire::yessir::Command as Wire;
    use earmark_yessir::library;
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
    let app = library::app_packet(&wanted, Some((&key(1), &stream, 9))).expect("it fits");
    let mut node = guarded();
    node.pass(&ask.with_octets(ask.packet(Some(&app))));
    assert_eq!((ignored(&mut node), node.held(DOWN)), (None, 1_000_000));
    let unsigned = library::app_packet(&wanted, None).expect("it fits");
    node.pass(&ask.with_octets(ask.packet(Some(&unsigned))));
    assert_eq!(ignored(&mut node), Some(DropReason::MissingAuth));
}
