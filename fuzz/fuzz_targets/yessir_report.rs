//! Any octets as a compound RTCP packet, with or without YESSIR in it: no panic, what parses survives being written and
//! read again, and a router's edit leaves a packet that parses.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use earmark_wire::rtcp::{self, Compound, Packet};
use earmark_wire::udp;
use earmark_wire::yessir::*;
use libfuzzer_sys::fuzz_target;

const NODE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fuzz_target!(|octets: &[u8]| {
    // The report in front holds a fuzzer up for long; with one that is right it gets to what is behind.
    read(octets);
    let words = u16::try_from(octets.len() / 4 + 2).unwrap_or(u16::MAX).to_be_bytes();
    let data = &octets[..octets.len() / 4 * 4];
    let front = [0x80, 201, 0, 1, 0, 0, 0, 7, 0x81, 204, words[0], words[1], 0, 0, 0, 7];
    read(&[&front[..], b"YSSR", data].concat());
});

fn read_compound(octets: &[u8]) {
    let compound = match Compound::parse(octets) {
        Ok(compound) => compound,
        Err(error) => {
            return assert!(error.offset <= octets.len() && !error.to_string().is_empty());
        }
    };
    let packets: Vec<Packet<'_>> = compound.packets().collect();
    for packet in &packets {
        if let Packet::SourceDescription(chunks) = packet {
            let items = chunks.iter().map(|chunk| chunk.items().count());
            assert!(items.sum::<usize>() <= octets.len());
        }
    }
    let mut wire = vec![0xa5; rtcp::buffer_len(&packets)];
    assert_eq!(rtcp::emit(&packets, &mut wire), Ok(wire.len()));
    let again = Compound::parse(&wire).expect("it was emitted");
    assert_eq!(again.packets().collect::<Vec<_>>(), packets);
}

fn read(compound: &[u8]) {
    read_compound(compound);
    let covered: usize = covered(compound).map(<[u8]>::len).sum();
    assert!(covered <= compound.len() + 16);
    let _ = Failures::of(compound).map(|notes| notes.iter().count());
    let report = match Report::parse(compound) {
        Ok(report) => report,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Some((message, places)) = report.message else { return };
    if let Some(usual) = CommonForm::read(compound) {
        assert_eq!((usual.ssrc, usual.edit_offsets()), (report.ssrc, &places));
        assert_eq!(
            (usual.link_info(), usual.multiplexed()),
            (message.link_info, message.generic.multiplexed)
        );
    }
    assert!(has_message(compound));
    let mut app = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut app), Ok(app.len()));
    let note =
        FailureNote { reason: FailureReason::Limit, hop: 1, available: OctetRate(1.0), node: NODE };
    let edit = Edit { link_info: message.link_info, note: Some(note) };
    let mut packet = [&[0; udp::HEADER], compound].concat();
    let header = udp::Repr { source: NODE, destination: NODE, source_port: 1, destination_port: 2 };
    if header.emit(&mut packet).is_err() {
        return;
    }
    let mut edited = vec![0xa5; packet.len() + edit.growth(&places)];
    if edit.write(&packet, &places, &mut edited).is_err() {
        return;
    }
    let after = udp::Packet::parse(&edited).expect("lengths follow");
    assert_eq!(after.verify(NODE, NODE), udp::Checksum::Valid);
    let (after, _) = Report::parse(after.payload).expect("it parses").message.expect("it is there");
    assert_eq!(after.failures.len(), message.failures.len() + 1);
    assert_eq!(
        (after.generic, after.flowspec, after.link_info),
        (message.generic, message.flowspec, message.link_info)
    );
}
