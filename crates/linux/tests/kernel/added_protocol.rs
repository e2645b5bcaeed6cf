//! A protocol that was added at run time: IP protocol 253, which is for experiments (RFC 3692).

use std::net::SocketAddr;

use earmark_core::Outgoing;
use earmark_linux::netns::Namespace;
use earmark_linux::{OpenError, SignallingSocket};

use crate::interception::assert_nothing;
use crate::packets::{FAMILIES, addresses, line, outgoing, program, receive_one, udp};
use crate::signalling::open;

const PROTOCOL: u8 = 253;

fn open_with_protocol(namespace: &Namespace) -> SignallingSocket {
    let mut socket = open(namespace);
    let outcome = namespace.run_in(|| socket.add_protocol(PROTOCOL)).expect("inside");
    outcome.expect("added");
    socket
}

/// A router intercepts the messages with router alert, and they can be sent on to the receiver, which receives those
/// without router alert too. Other packets with router alert are forwarded.
pub(crate) fn message_through_a_router_is_received_and_forwarded() {
    let line = line();
    let mut sender = open(&line.sender);
    let mut router = open_with_protocol(&line.router);
    let mut receiver = open_with_protocol(&line.receiver);
    for family in FAMILIES {
        let [from, to, own] = addresses(family);
        let out = outgoing(PROTOCOL, from, to);
        sender.send(&out, b"in transit").expect("sent");
        receive_one("the router intercepts it", &mut router, |m| {
            assert_eq!(
                (m.protocol, m.is_copy, m.datagram.payload),
                (PROTOCOL, false, &b"in transit"[..])
            );
            let d = m.datagram;
            assert_eq!((d.source, d.destination), (from, to));
            assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
        });
        assert_nothing(&mut receiver);
        router.send(&Outgoing { ttl: 63, ..out }, b"in transit").expect("sent on");
        receive_one("the receiver has it", &mut receiver, |m| {
            assert_eq!((m.protocol, m.is_copy, m.datagram.ttl), (PROTOCOL, false, 63));
            assert_eq!((m.datagram.source, m.datagram.payload), (from, &b"in transit"[..]));
        });

        sender.send(&Outgoing { router_alert: false, ..out }, b"end to end").expect("sent");
        receive_one("it passes the router", &mut receiver, |m| {
            assert_eq!((m.protocol, m.datagram.payload), (PROTOCOL, &b"end to end"[..]));
        });
        sender.send(&Outgoing { destination: own, ..out }, b"to the router").expect("sent");
        receive_one("the router has it", &mut router, |m| {
            assert_eq!((m.datagram.destination, m.datagram.payload), (own, &b"to the router"[..]));
        });

        let (source, sink) = (SocketAddr::new(from, 6_001), SocketAddr::new(to, 5_001));
        let application = program(&line.receiver, sink);
        sender.send(&outgoing(17, from, to), &udp(source, sink, b"data")).expect("sent");
        assert_nothing(&mut router);
        let mut room = [0; 64];
        let length = application.recv(&mut room).expect("it was forwarded");
        assert_eq!(room[..length], *b"data");
    }
}

/// A number of which packets are received already, or that sockets for transport protocols need, is refused.
pub(crate) fn number_in_use_is_refused() {
    let namespace = crate::support::namespace();
    let mut socket = open_with_protocol(&namespace);
    for protocol in [PROTOCOL, 46, 1, 58, 17, 6, 255] {
        let outcome = namespace.run_in(|| socket.add_protocol(protocol)).expect("inside");
        assert!(matches!(outcome, Err(OpenError::ProtocolInUse { protocol: p }) if p == protocol));
    }
}
