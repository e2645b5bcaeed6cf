//! YESSIR's encoding as properties: messages round-trip, routers edit only what they may, and arbitrary octets do not
//! panic.

use earmark_testkit::messages::yessir::*;
use earmark_wire::udp::{self, Checksum};
use earmark_wire::yessir::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// BYE of the reporting source.
const BYE: [u8; 8] = [0x81, 203, 0, 1, 0x12, 0x34, 0x56, 0x78];

fn read(compound: &[u8]) -> (Message<'_>, EditOffsets) {
    let report = Report::parse(compound).expect("it was emitted");
    assert_eq!((report.ssrc, report.goodbye), (SSRC, false));
    assert_eq!(report.sender.map(|sender| sender.octets), Some(4));
    report.message.expect("there is one")
}

proptest! {
    #[test]
    fn messages_round_trip(owned in message()) {
        let compound = owned.compound();
        let (message, places) = read(&compound);
        owned.with(|expected| assert_eq!(message, *expected));
        let mut again = vec![0x5a; message.buffer_len()];
        prop_assert_eq!(message.emit(&mut again), Ok(again.len()));
        prop_assert_eq!(&again, &owned.app(), "and so do canonical octets");
        prop_assert_eq!(places.data(&compound), &again[12..]);
        prop_assert!(has_message(&compound));
        let notes: Vec<FailureNote> = message.failures.iter().collect();
        prop_assert_eq!(notes.len(), message.failures.len());
        prop_assert_eq!(notes, owned.notes);
    }

    /// Fast and general parser agree, and the fingerprint distinguishes requests.
    #[test]
    fn common_form_parses_as_in_general_parser(owned in message(), other in message(), behind in prop_oneof![Just(vec![]), Just(vec![0x81, 203, 0, 1, 0, 0, 0, 9]), Just(BYE.to_vec())]) {
        let described = |owned: &Owned| {
            [report(), vec![0x81, 202, 0, 2, 0x12, 0x34, 0x56, 0x78, 1, 1, b'a', 0], owned.app(), behind.clone()].concat()
        };
        let is_common_form = |owned: &Owned| {
            owned.flowspec.is_some() && owned.notes.is_empty() && owned.auth.is_none() && owned.others.is_empty()
        };
        let compound = described(&owned);
        let common_form = CommonForm::read(&compound);
        let goodbye = behind == BYE;
        prop_assert_eq!(common_form.is_some(), is_common_form(&owned) && (behind.is_empty() || goodbye));
        let Some(common_form) = common_form else { return Ok(()) };
        let report = Report::parse(&compound).expect("it was emitted");
        let (message, places) = report.message.expect("there is one");
        prop_assert_eq!(common_form.report(), Some(report));
        prop_assert_eq!((common_form.goodbye(), report.goodbye), (goodbye, goodbye));
        prop_assert_eq!((common_form.ssrc, common_form.edit_offsets()), (SSRC, &places));
        prop_assert_eq!(common_form.link_info(), message.link_info);
        prop_assert_eq!(common_form.multiplexed(), message.generic.multiplexed);
        let same = Owned { link_info: other.link_info, ..owned.clone() };
        let number = CommonForm::read(&described(&same)).map(|common_form| common_form.fingerprint());
        prop_assert_eq!(number, Some(common_form.fingerprint()), "whatever LINK_INFO contains");
        let different = Owned { generic: other.generic, flowspec: other.flowspec.or(owned.flowspec), ..same };
        if (different.generic, different.flowspec) != (owned.generic, owned.flowspec) {
            let number = CommonForm::read(&described(&different)).map(|common_form| common_form.fingerprint());
            prop_assert_ne!(number, Some(common_form.fingerprint()));
        }
    }

    /// Octets of the common form parse in the general parser, too, or have an unknown value.
    #[test]
    fn damaged_common_form_is_refused_as_in_general_parser(owned in message(), leaves in any::<bool>(), damage in vec(any::<(u16, u8)>(), 0..3)) {
        let plain = Owned { notes: vec![], auth: None, others: vec![], ..owned };
        let behind = if leaves { BYE.to_vec() } else { vec![] };
        let mut compound = [report(), vec![0x81, 202, 0, 2, 0x12, 0x34, 0x56, 0x78, 1, 1, b'a', 0], plain.app(), behind].concat();
        let length = compound.len();
        for (at, octet) in damage {
            compound[usize::from(at) % length] = octet;
        }
        if let Some(common_form) = CommonForm::read(&compound) {
            prop_assert_eq!(common_form.report(), Report::parse(&compound).ok());
        }
    }

    /// An edited message equals the emitted changed message, checksum included, with any packets behind it.
    #[test]
    fn edited_message_equals_message_emitted_with_the_change(
        owned in message(),
        info in link_info(),
        note in option::of(note()),
        behind in prop_oneof![Just(vec![]), Just(vec![0x81, 203, 0, 1, 0, 0, 0, 9])],
    ) {
        let packet = owned.packet(&behind);
        let (_, places) = read(&packet[udp::HEADER..]);
        // Without LINK_INFO nothing is written.
        let info = LinkInfo { send_ttl: owned.link_info.map_or(0, |old| old.send_ttl), ..info };
        let edit = Edit { link_info: Some(info), note };
        let mut target = vec![0xa5; packet.len() + edit.growth(&places)];
        prop_assert_eq!(edit.write(&packet, &places, &mut target), Ok(()));
        let mut expected = owned.clone();
        expected.link_info = owned.link_info.map(|_| info);
        expected.notes.extend(note);
        let new = udp::Packet::parse(&target).expect("it is still a packet");
        prop_assert_eq!(new.verify(SOURCE, DESTINATION), Checksum::Valid);
        let (message, places) = read(new.payload);
        expected.with(|expected| assert_eq!(message, *expected));
        prop_assert_eq!(&new.payload[new.payload.len() - behind.len()..], &behind[..]);
        // A new FAILURE is the last fragment; otherwise all fragments are in a sender's order.
        if note.is_none() || !owned.notes.is_empty() {
            prop_assert_eq!(&target, &expected.packet(&behind));
        }
        let covered_before: Vec<&[u8]> = covered(places.data(new.payload)).collect();
        let old = owned.compound();
        let (_, places) = read(&old);
        prop_assert_eq!(covered_before, covered(places.data(&old)).collect::<Vec<_>>());
    }

    /// A wrong checksum stays wrong, and an absent one absent.
    #[test]
    fn edited_message_keeps_wrong_checksum_wrong(owned in message(), note in note(), damage in 1_u16..0xffff) {
        let mut packet = owned.packet(&[]);
        let right = u16::from_be_bytes([packet[6], packet[7]]);
        let wrong = right ^ damage;
        prop_assume!(wrong != 0 && wrong != right && (wrong ^ right) != 0xffff);
        packet[6..8].copy_from_slice(&wrong.to_be_bytes());
        let (_, places) = read(&packet[udp::HEADER..]);
        let edit = Edit { link_info: None, note: Some(note) };
        let mut target = vec![0; packet.len() + edit.growth(&places)];
        edit.write(&packet, &places, &mut target).expect("it fits");
        let verify = |octets: &[u8]| udp::Packet::parse(octets).expect("one").verify(SOURCE, DESTINATION);
        prop_assume!(verify(&packet) == Checksum::Invalid);
        prop_assert_ne!(verify(&target), Checksum::Valid);
        packet[6..8].fill(0);
        edit.write(&packet, &places, &mut target).expect("it fits");
        prop_assert_eq!(verify(&target), Checksum::Absent);
    }

    #[test]
    fn arbitrary_octets_do_not_panic(owned in message(), damage in vec(any::<(u16, u8)>(), 1..4), cut in any::<u16>()) {
        let mut compound = owned.compound();
        let length = compound.len();
        for (at, octet) in damage {
            compound[usize::from(at) % length] = octet;
        }
        compound.truncate(length - usize::from(cut) % 8);
        match Report::parse(&compound) {
            Ok(Report { message: Some((message, places)), .. }) => {
                prop_assert!(has_message(&compound));
                prop_assert!(message.buffer_len() <= compound.len());
                prop_assert!(covered(places.data(&compound)).count() <= compound.len());
                let note = FailureNote { reason: FailureReason::Limit, hop: 1, available: OctetRate(0.0), node: SOURCE };
                let edit = Edit { link_info: Some(LinkInfo::unknown(1)), note: Some(note) };
                let packet = [&[0; udp::HEADER], &compound[..]].concat();
                let mut target = vec![0; packet.len() + edit.growth(&places)];
                let _ = edit.write(&packet, &places, &mut target);
            }
            Ok(_) => {}
            Err(error) => prop_assert!(error.offset <= compound.len(), "{}", error),
        }
    }
}

#[test]
fn a_message_holds_255_notes() {
    let note = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 1,
        available: OctetRate(1.0),
        node: SOURCE,
    };
    let generic = Generic {
        command: Command::Active,
        style: Style::Shared,
        interval: 1,
        reservation: 1,
        multiplexed: true,
    };
    let mut owned = Owned {
        generic,
        flowspec: None,
        link_info: None,
        notes: vec![note; 254],
        auth: None,
        others: vec![],
    };
    let edit = Edit { link_info: None, note: Some(note) };
    let write = |owned: &Owned| {
        let packet = owned.packet(&[]);
        let (_, places) = read(&packet[udp::HEADER..]);
        let mut target = vec![0; packet.len() + edit.growth(&places)];
        edit.write(&packet, &places, &mut target).map(|()| target)
    };
    let full = write(&owned).expect("one more fits");
    owned.notes.push(note);
    assert_eq!(full, owned.packet(&[]));
    assert_eq!(write(&owned), Err(earmark_wire::EmitError::TooLong));
}
