//! YESSIR messages: RTCP compounds with an APP packet named YSSR; and plain sender reports.

use std::net::SocketAddr;

use earmark_core::Outgoing;
use earmark_linux::{InterfaceSignalling, Yessir};

use crate::interception::{assert_nothing, open_on};
use crate::packets::{
    FAMILIES, addresses, assert_forwarded, compound, ends, has_right_checksum, line, outgoing,
    program, receive_one, report, rtcp, udp,
};

const NAME: [u8; 4] = *b"YSSR";

fn settings(yessir: Yessir, sender_reports: bool) -> InterfaceSignalling {
    InterfaceSignalling { yessir, sender_reports, ..InterfaceSignalling::default() }
}

/// With router alert, or without it with that setting: intercepted, also from a program that leaves its checksum to
/// hardware, and forwarded with a greater length. At the last host it is a copy, and the application receives it, too.
pub(crate) fn message_is_intercepted_in_transit_and_copied_at_its_end() {
    let line = line();
    let [near, far] = ends(&line);
    let mut sender = open_on(&line.sender, &[near], settings(Yessir::Off, false));
    let mut receiver = open_on(&line.receiver, &[far], settings(Yessir::Always, true));
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let (source, sink) = (SocketAddr::new(from, 6_001), SocketAddr::new(to, 5_001));
        let (source_program, sink_program) =
            (program(&line.sender, source), program(&line.receiver, sink));
        let out = outgoing(17, from, to);
        let data = compound(NAME);
        let mut room = [0; 2_048];
        for (setting, alert) in [
            (Yessir::RouterAlert, true),
            (Yessir::RouterAlert, false),
            (Yessir::Always, true),
            (Yessir::Always, false),
        ] {
            let interfaces = [line.inward, line.outward];
            let mut router = open_on(&line.router, &interfaces, settings(setting, true));
            match alert {
                true => sender.send(&out, &udp(source, sink, &data)).expect("sent"),
                false => assert_eq!(source_program.send_to(&data, sink).expect("sent"), data.len()),
            }
            if alert || setting == Yessir::Always {
                let mut caught = Vec::new();
                receive_one("the router takes it", &mut router, |m| {
                    assert_eq!((m.protocol, m.is_copy), (17, false));
                    let d = m.datagram;
                    assert_eq!((d.source, d.destination), (from, to));
                    assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, alert));
                    assert!(has_right_checksum(d.payload, from, to));
                    caught = d.payload.to_vec();
                });
                assert_eq!(caught, udp(source, sink, &data));
                assert_nothing(&mut receiver);
                let longer = [&data[..], &rtcp(204, 1, &[1; 12])].concat();
                let onward = Outgoing { ttl: 63, router_alert: alert, ..out };
                router.send(&onward, &udp(source, sink, &longer)).expect("sent on");
                let length = sink_program.recv(&mut room).expect("the application has it");
                assert_eq!(room[..length], longer);
            } else {
                let length = sink_program.recv(&mut room).expect("forwarded");
                assert_eq!(room[..length], data);
                assert_nothing(&mut router);
            }
            receive_one("the receiver's daemon has it, too", &mut receiver, |m| {
                assert_eq!((m.protocol, m.is_copy), (17, true));
                assert_eq!((m.datagram.destination, m.datagram.ttl), (to, 63));
                assert_eq!(m.datagram.router_alert, alert);
            });
        }
    }
}

/// Packets with another name, or with wrong lengths, pass, with router alert and without; no router receives them.
pub(crate) fn other_packet_is_forwarded() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], settings(Yessir::Off, false));
    let interfaces = [line.inward, line.outward];
    let mut router = open_on(&line.router, &interfaces, settings(Yessir::Always, false));
    let ours = compound(NAME);
    let mut lies = ours.clone();
    lies[2] = 1; // length of the first packet beyond the compound
    let mut older = ours.clone();
    older[0] = 0x40; // version 1
    let mut endless = report();
    (0..20).for_each(|_| endless.extend(rtcp(202, 0, &[])));
    endless.extend(&ours[28..]);
    let foreign: [&[u8]; 9] = [
        b"data",
        b"",
        &report(),
        &compound(*b"YSSS"),
        &lies,
        &older,
        &endless,
        &ours[28..], // does not begin with a report
        &ours[..ours.len() - 20],
    ];
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let (source, sink) = (SocketAddr::new(from, 6_001), SocketAddr::new(to, 5_001));
        let sink_program = program(&line.receiver, sink);
        for data in foreign {
            assert_forwarded(&mut sender, [source, sink], &sink_program, data);
        }
        assert_nothing(&mut router);
    }
}

/// Reports of senders without YESSIR, to a port of their own or to that of the data, and their BYE: copied with that setting,
/// and never delayed.
pub(crate) fn sender_report_is_copied() {
    let line = line();
    let interfaces = [line.inward, line.outward];
    let mut router = open_on(&line.router, &interfaces, settings(Yessir::RouterAlert, true));
    let with_block = rtcp(200, 1, &[9; 48]);
    let with_goodbye = [report(), rtcp(203, 1, &[0, 0, 0, 7])].concat();
    let left_paused = [rtcp(201, 0, &[0, 0, 0, 7]), rtcp(203, 1, &[0, 0, 0, 7])].concat();
    let too_short = rtcp(200, 0, &[7; 20]);
    let blocks_missing = rtcp(200, 2, &[7; 48]);
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let source_program = program(&line.sender, SocketAddr::new(from, 6_001));
        for (data, port, is_copied) in [
            (&report(), 5_001, true),
            (&with_block, 5_001, true),
            (&with_goodbye, 5_001, true),
            (&compound(*b"OTHR"), 5_001, true),
            (&left_paused, 5_001, true),
            (&report(), 5_000, true),
            (&rtcp(201, 0, &[0, 0, 0, 7]), 5_001, false),
            (&too_short, 5_001, false),
            (&blocks_missing, 5_001, false),
            (&report()[..20].to_vec(), 5_001, false),
        ] {
            let sink = SocketAddr::new(to, port);
            let sink_program = program(&line.receiver, sink);
            source_program.send_to(data, sink).expect("sent");
            let mut room = [0; 2_048];
            let length = sink_program.recv(&mut room).expect("forwarded");
            assert_eq!(room[..length], data[..]);
            if is_copied {
                receive_one("a copy", &mut router, |m| {
                    assert_eq!((m.protocol, m.is_copy), (17, true));
                    assert_eq!((m.datagram.interface, m.datagram.ttl), (line.inward, 64));
                    assert_eq!(m.datagram.payload[8..], data[..]);
                    assert!(has_right_checksum(m.datagram.payload, from, to));
                });
            }
            assert_nothing(&mut router);
        }
        // With YSSR in it, but without the router alert that the setting requires: not intercepted.
        let sink = SocketAddr::new(to, 5_001);
        let sink_program = program(&line.receiver, sink);
        source_program.send_to(&compound(NAME), sink).expect("sent");
        sink_program.recv(&mut [0; 2_048]).expect("forwarded");
        assert_nothing(&mut router);
    }
}
