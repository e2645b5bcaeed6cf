//! RSVP inside udp_on() (RFC 2205 appendix C), between a host without raw sockets and a router.

use std::net::IpAddr;

use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_linux::{Access, InterfaceSignalling, SendError, SignallingSocket, link};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::interception::{assert_nothing, open_on, receive_rsvp};
use crate::support::Line;

/// A common header with Send_TTL 17, and some octets after it.
const MESSAGE: [u8; 12] = [0x10, 1, 0, 0, 17, 0, 0, 12, 1, 2, 3, 4];

fn udp_on() -> InterfaceSignalling {
    InterfaceSignalling { udp: true, ..InterfaceSignalling::default() }
}

/// Opens a socket on the sender's host as a program without any privilege can.
fn host(line: &Line, interface: InterfaceId) -> SignallingSocket {
    let open = || {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).expect("given up");
        assert!(SignallingSocket::open().is_err(), "that takes raw sockets");
        let mut socket = SignallingSocket::open_with(Access::UdpOnly).expect("the sockets");
        socket.set_interface(interface, InterfaceSignalling::default()).expect("set");
        socket
    };
    line.sender.run_in(open).expect("inside")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Host and router behave as in appendix C's tables for a host without raw sockets (on its link) and for a router.
pub(crate) fn host_without_raw_sockets_signals_through_its_router() {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let outward = link::index(&line.sender, "right").expect("an answer").expect("there");
    let mut host = host(&line, outward);
    let mut router = open_on(&line.router, &[line.inward], udp_on());
    for (own, next, far, group, reached) in [
        ("10.77.1.1", "10.77.1.2", "10.77.2.1", "239.1.2.3", "224.0.0.14"),
        ("2001:db8:1::1", "2001:db8:1::2", "2001:db8:2::1", "ff3e::1:2", "ff02::e"),
    ] {
        let [own, next, far, group, reached] = [own, next, far, group, reached].map(address);
        let path = |destination, interface| Outgoing {
            protocol: 46,
            interface: Some(interface),
            source: own,
            destination,
            ttl: 17,
            router_alert: true,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        let to_neighbor = |destination, interface, encapsulated| Outgoing {
            router_alert: false,
            encapsulated,
            ..path(destination, interface)
        };
        let comes = |to: IpAddr, on| {
            move |d: Datagram<'_>| {
                assert_eq!((d.destination, d.interface, d.encapsulated), (to, on, true));
                assert_eq!((d.ttl, d.payload), (17, &MESSAGE[..]), "its TTL is what it says");
            }
        };
        // The host to its router: for a remote receiver, for a group, and to the router itself.
        host.send(&path(far, outward), &MESSAGE).expect("sent");
        receive_rsvp("a Path for a receiver", &mut router, comes(next, line.inward));
        host.send(&path(group, outward), &MESSAGE).expect("sent");
        receive_rsvp("a Path for a group", &mut router, comes(reached, line.inward));
        host.send(&to_neighbor(next, outward, false), &MESSAGE).expect("sent");
        receive_rsvp("a Resv for the router", &mut router, comes(next, line.inward));
        assert_nothing(&mut host);

        // The router to the host: messages that follow the data are sent raw and inside udp_on(), so the host receives
        // one.
        router.send(&path(own, line.inward), &MESSAGE).expect("sent");
        receive_rsvp("a Path for the host", &mut host, comes(own, outward));
        host.join(group, outward).expect("joined");
        router.send(&path(group, line.inward), &MESSAGE).expect("sent");
        receive_rsvp("a Path for the host's group", &mut host, comes(group, outward));
        router.send(&to_neighbor(own, line.inward, true), &MESSAGE).expect("sent");
        receive_rsvp("a Resv for the host", &mut host, comes(own, outward));
        router.send(&to_neighbor(own, line.inward, false), &MESSAGE).expect("sent");
        assert_nothing(&mut host);
        host.leave(group, outward).expect("left");
        router.send(&path(group, line.inward), &MESSAGE).expect("sent");
        assert_nothing(&mut host);
    }
}

/// An interface without the setting neither receives nor sends inside udp_on(); and nodes with raw sockets receive only
/// one copy.
pub(crate) fn interface_without_udp_ignores_messages_inside_udp() {
    let line = Line::new();
    let outward = link::index(&line.sender, "right").expect("an answer").expect("there");
    let mut host = host(&line, outward);
    // On, but on another interface.
    let mut router = open_on(&line.router, &[line.outward], udp_on());
    let mut receiver = crate::signalling::open(&line.receiver);
    let path = Outgoing {
        protocol: 46,
        interface: Some(outward),
        source: crate::support::SENDER.into(),
        destination: crate::support::RECEIVER.into(),
        ttl: 17,
        router_alert: true,
        encapsulated: false,
        neighbor: None,
        next_hop: None,
    };
    host.send(&path, &MESSAGE).expect("sent");
    assert_nothing(&mut router);
    assert_eq!(router.counters().malformed, 1, "seen and left alone");
    let onward = Outgoing { interface: Some(line.outward), ..path };
    router.send(&onward, &MESSAGE).expect("sent");
    receive_rsvp("the raw one", &mut receiver, |d| {
        assert!(!d.encapsulated && d.router_alert && d.source == path.source);
    });
    let inside = Outgoing { encapsulated: true, router_alert: false, ..onward };
    assert!(matches!(receiver.send(&inside, &MESSAGE), Err(SendError::NoEncapsulation)));
}
