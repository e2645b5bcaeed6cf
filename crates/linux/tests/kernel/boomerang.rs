//! Boomerang messages: pings with MAGIC.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use earmark_core::Outgoing;
use earmark_linux::{Incoming, InterfaceSignalling, SignallingSocket};

use crate::interception::{assert_nothing, open_on};
use crate::packets::{
    FAMILIES, MAGIC, Pinger, addresses, echo, ends, icmp, icmp_checksum, line, outgoing,
    receive_one,
};
use crate::support::Line;

pub(crate) fn boomerang_on() -> InterfaceSignalling {
    InterfaceSignalling { boomerang: true, ..InterfaceSignalling::default() }
}

pub(crate) fn router(line: &Line) -> SignallingSocket {
    open_on(&line.router, &[line.inward, line.outward], boomerang_on())
}

/// MAGIC and 56 octets.
fn data() -> Vec<u8> {
    MAGIC.into_iter().chain(0..56).collect()
}

/// A message is sent out, changed on the way, answered by a host without Earmark, and changed again on the way back.
/// The answer has no router alert even if the request has; and without a daemon all messages are forwarded unchanged.
pub(crate) fn message_in_transit_is_intercepted_both_ways() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let mut router = router(&line);
        let protocol = icmp(from);
        let message = echo(&data(), from, to);
        sender.send(&outgoing(protocol, from, to), &message).expect("sent");
        let mut caught = Vec::new();
        receive_one("the router takes it", &mut router, |m| {
            assert_eq!((m.protocol, m.is_copy), (protocol, false));
            let d = m.datagram;
            assert_eq!((d.source, d.destination), (from, to));
            assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
            caught = d.payload.to_vec();
        });
        assert_eq!(caught, message);
        assert_nothing(&mut sender);

        let mut relay = |caught: &mut Vec<u8>, octet: u8, out: Outgoing| {
            *caught.last_mut().expect("octets") = octet;
            let sum = icmp_checksum(caught, out.source, out.destination);
            caught[2..4].copy_from_slice(&sum);
            router.send(&out, caught).expect("sent on");
        };
        let out =
            Outgoing { ttl: 63, interface: Some(line.outward), ..outgoing(protocol, from, to) };
        relay(&mut caught, 0xa1, out);
        let expected = [&data()[..59], &[0xa1]].concat();
        let mut back = Vec::new();
        receive_one("the answer passes", &mut router, |m| {
            assert_eq!((m.protocol, m.is_copy), (protocol, false));
            let d = m.datagram;
            assert_eq!((d.source, d.destination, d.interface), (to, from, line.outward));
            assert!(!d.router_alert);
            assert_eq!(&d.payload[8..], expected);
            back = d.payload.to_vec();
        });
        let out = Outgoing { router_alert: false, ..outgoing(protocol, to, from) };
        *back.last_mut().expect("octets") = 0xa2;
        let sum = icmp_checksum(&back, to, from);
        back[2..4].copy_from_slice(&sum);
        router.send(&out, &back).expect("sent on");
        receive_one("it is back", &mut sender, |m| {
            assert_eq!((m.protocol, m.datagram.source), (protocol, to));
            assert_eq!(m.datagram.payload, back);
        });

        drop(router);
        sender.send(&outgoing(protocol, from, to), &message).expect("sent");
        receive_one("it flows by itself", &mut sender, |m| {
            assert_eq!((m.datagram.source, &m.datagram.payload[8..]), (to, &data()[..]));
        });
    }
}

/// The daemon receives a message for this host, and the kernel does not answer it.
pub(crate) fn message_for_this_host_is_intercepted() {
    let line = line();
    let mut router = router(&line);
    for family in FAMILIES {
        let [from, _, own] = addresses(family);
        let mut pinger = Pinger::open(&line.sender, from.is_ipv4());
        assert!(!pinger.ping(from, own, &data()));
        receive_one("it is for the router", &mut router, |m| {
            assert_eq!((m.protocol, m.datagram.destination), (icmp(from), own));
            assert!(!m.is_copy && !m.datagram.router_alert);
        });
        let mut answer = echo(&data(), own, from);
        answer[0] = if from.is_ipv4() { 0 } else { 129 };
        let sum = icmp_checksum(&answer, own, from);
        answer[2..4].copy_from_slice(&sum);
        let out = Outgoing { router_alert: false, ..outgoing(icmp(from), own, from) };
        router.send(&out, &answer).expect("answered");
        assert!(pinger.receives_answer(&data()));
    }
}

/// Pings without MAGIC, or with it elsewhere, are answered as usual, also during a flood of pings with MAGIC that
/// nobody reads.
pub(crate) fn other_ping_is_answered() {
    let line = line();
    let [own, far] = ends(&line);
    let mut sockets = [
        open_on(&line.sender, &[own], boomerang_on()),
        router(&line),
        open_on(&line.receiver, &[far], boomerang_on()),
    ];
    let others: [&[u8]; 5] =
        [b"", &MAGIC[..3], &[0, 0x47, 0x11, 0x47, 0x11], &[0x47, 0x11, 0x47, 0x12], &[0x5a; 1_000]];
    let ping_all = |from: IpAddr, to: IpAddr| {
        let mut pinger = Pinger::open(&line.sender, from.is_ipv4());
        for data in others {
            assert!(pinger.ping(from, to, data), "{from} {data:?}");
        }
    };
    for [from, to, own] in FAMILIES.map(addresses) {
        ping_all(from, to);
        ping_all(from, own);
    }
    sockets.iter_mut().for_each(assert_nothing);
    let [sender, router, _] = &mut sockets;
    let [from, to, _] = addresses(FAMILIES[0]);
    let message = echo(&data(), from, to);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let out = outgoing(1, from, to);
            let mut sent = 0_u32;
            while !done.load(Ordering::Relaxed) || sent < 60_000 {
                let batch = std::iter::repeat_n((&out, &message[..]), 32);
                sender.send_all(batch, |_, error| panic!("{error}"));
                sent += 32;
            }
        });
        for [from, to, _] in FAMILIES.map(addresses) {
            ping_all(from, to);
        }
        done.store(true, Ordering::Relaxed);
    });
    let sent = sender.counters().sent;
    let mut received = 0;
    while router.receive(|_| received += 1).expect("received") > 0 {}
    let lost = router.counters().overflowed;
    assert!(received >= 30_000, "{received}");
    assert!(lost > 0, "the ring was full");
    assert_eq!(received + lost, sent, "each is handed out, or counted");
}

/// Number of loops per second through a router that only forwards; without a loss, in bursts that its ring holds.
pub(crate) fn ten_thousand_sessions_lose_no_message() {
    const BURSTS: u64 = 20;
    const BURST: u64 = 1_000;
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], boomerang_on());
    let mut router = router(&line);
    let [from, to, _] = addresses(FAMILIES[0]);
    let message = echo(&data(), from, to);
    let out = outgoing(1, from, to);
    let (start, mut returned) = (Instant::now(), 0);
    for burst in 1..=BURSTS {
        let batch = std::iter::repeat_n((&out, &message[..]), BURST as usize);
        sender.send_all(batch, |_, error| panic!("{error}"));
        while returned < burst * BURST {
            let mut messages: Vec<(Outgoing, Vec<u8>)> = Vec::new();
            let relay = |Incoming { protocol, datagram: d, .. }: Incoming<'_>| {
                let out =
                    Outgoing { ttl: d.ttl - 1, ..outgoing(protocol, d.source, d.destination) };
                messages.push((out, d.payload.to_vec()));
            };
            if router.receive(relay).expect("received") > 0 {
                let batch = messages.iter().map(|(out, message)| (out, &message[..]));
                router.send_all(batch, |_, error| panic!("{error}"));
            }
            sender.receive(|_| returned += 1).expect("received");
            let passed = start.elapsed();
            assert!(passed.as_secs() < 20, "{returned} of {} after {passed:?}", burst * BURST);
        }
    }
    let rate = (BURSTS * BURST) as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} loops/s through one router, sender and router in one thread");
    assert!(rate > 1_000.0, "{rate:.0} a second");
    assert_eq!(router.counters().overflowed, 0);
}
