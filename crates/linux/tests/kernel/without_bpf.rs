//! Boomerang and YESSIR by raw sockets alone, as on a kernel without BPF.

use std::net::SocketAddr;

use earmark_core::{InterfaceId, Outgoing};
use earmark_linux::netns::Namespace;
use earmark_linux::{InterfaceError, InterfaceSignalling, SignallingSocket, Yessir, capabilities};

use crate::interception::assert_nothing;
use crate::packets::{
    FAMILIES, MAGIC, Pinger, addresses, compound, echo, ends, icmp, line, outgoing, program,
    receive_one, udp,
};

fn both_on() -> InterfaceSignalling {
    let yessir = Yessir::RouterAlert;
    InterfaceSignalling { boomerang: true, yessir, ..InterfaceSignalling::default() }
}

/// Opens a socket without the capability to load programs.
fn open(namespace: &Namespace, interfaces: &[InterfaceId]) -> SignallingSocket {
    let open = || {
        capabilities::drop_to_network_capabilities().expect("dropped");
        let mut socket = SignallingSocket::open().expect("the sockets");
        for how in [
            InterfaceSignalling { yessir: Yessir::Always, ..both_on() },
            InterfaceSignalling { sender_reports: true, ..both_on() },
        ] {
            let outcome = socket.set_interface(interfaces[0], how);
            assert!(matches!(outcome, Err(InterfaceError::Intercept(_))), "that needs BPF");
        }
        for &interface in interfaces {
            socket.set_interface(interface, both_on()).expect("set");
        }
        socket
    };
    namespace.run_in(open).expect("inside")
}

/// Requests with router alert are intercepted, others are forwarded; a message for this host arrives as a copy, and the
/// kernel answers it.
pub(crate) fn boomerang_message_is_received_by_raw_sockets() {
    let line = line();
    let mut sender = open(&line.sender, &[ends(&line)[0]]);
    let mut router = open(&line.router, &[line.inward]);
    for family in FAMILIES {
        let [from, to, own] = addresses(family);
        let out = outgoing(icmp(from), from, to);
        let data = [&MAGIC[..], &[1; 60]].concat();
        sender.send(&out, &echo(&data, from, to)).expect("sent");
        receive_one("the router takes it", &mut router, |m| {
            assert_eq!((m.protocol, m.is_copy), (icmp(from), false));
            assert_eq!((m.datagram.source, m.datagram.destination), (from, to));
            assert_eq!((m.datagram.interface, m.datagram.ttl), (line.inward, 64));
            assert_eq!(m.datagram.payload, echo(&data, from, to));
        });
        assert_nothing(&mut sender);
        router.send(&Outgoing { ttl: 63, ..out }, &echo(&data, from, to)).expect("sent on");
        receive_one("the answer is back, the router has not seen it", &mut sender, |m| {
            assert_eq!((m.protocol, m.is_copy, m.datagram.source), (icmp(from), true, to));
            assert_eq!(&m.datagram.payload[8..], data);
        });
        assert_nothing(&mut router);

        // Another host's ping with router alert, and a Boomerang ping without it.
        let mut pinger = Pinger::open(&line.sender, from.is_ipv4());
        let before = router.counters().forwarded;
        sender.send(&out, &echo(b"foreign", from, to)).expect("sent");
        assert_nothing(&mut router);
        assert!(pinger.receives_answer(b"foreign"));
        assert_eq!(router.counters().forwarded, before + 1);
        assert!(pinger.ping(from, to, &data));
        receive_one("a copy of the answer", &mut sender, |m| assert!(m.is_copy));
        assert_nothing(&mut router);

        assert!(pinger.ping(from, own, &data), "the kernel answers");
        assert_nothing(&mut router);
        receive_one("a copy of the answer", &mut sender, |m| assert!(m.is_copy));
    }
}

/// Reports with router alert are intercepted in the same way; others pass, with correct checksums.
pub(crate) fn yessir_message_is_received_by_raw_sockets() {
    let line = line();
    let [near, far] = ends(&line);
    let mut sender = open(&line.sender, &[near]);
    let mut router = open(&line.router, &[line.inward]);
    let mut receiver = open(&line.receiver, &[far]);
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let (source, sink) = (SocketAddr::new(from, 6_001), SocketAddr::new(to, 5_001));
        let sink_program = program(&line.receiver, sink);
        let source_program = program(&line.sender, source);
        let out = outgoing(17, from, to);
        let mut room = [0; 2_048];

        let data = compound(*b"YSSR");
        sender.send(&out, &udp(source, sink, &data)).expect("sent");
        receive_one("the router takes it", &mut router, |m| {
            assert_eq!((m.protocol, m.is_copy), (17, false));
            assert_eq!((m.datagram.interface, m.datagram.ttl), (line.inward, 64));
            assert_eq!(m.datagram.payload, udp(source, sink, &data));
        });
        assert_nothing(&mut receiver);
        router.send(&Outgoing { ttl: 63, ..out }, &udp(source, sink, &data)).expect("sent on");
        assert_eq!(sink_program.recv(&mut room).expect("the application has it"), data.len());
        receive_one("the receiver's daemon has it, too", &mut receiver, |m| {
            assert_eq!((m.protocol, m.is_copy, m.datagram.ttl), (17, true, 63));
        });

        let before = router.counters().forwarded;
        let foreign = compound(*b"OTHR");
        sender.send(&out, &udp(source, sink, &foreign)).expect("sent");
        let each = |m: earmark_linux::Incoming<'_>| panic!("not expected: {m:?}");
        crate::support::eventually("it was passed on", || {
            router.receive(each).expect("received");
            router.counters().forwarded == before + 1
        });
        let length = sink_program.recv(&mut room).expect("it passes");
        assert_eq!(room[..length], foreign);
        source_program.send_to(&foreign, sink).expect("sent");
        crate::support::eventually("it passes", || {
            router.receive(each).expect("received");
            sink_program.set_nonblocking(true).expect("set");
            sink_program.recv(&mut room).is_ok()
        });
        sink_program.set_nonblocking(false).expect("set");
    }
}
