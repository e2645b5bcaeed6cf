//! Messages that raw sockets do not receive: to groups, and without router alert.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_core::{Datagram, InterfaceId, MulticastRoute, Outgoing};
use earmark_linux::multicast_router::MulticastRouter;
use earmark_linux::netns::Namespace;
use earmark_linux::{
    Incoming, Intercept, InterfaceSignalling, SignallingSocket, capabilities, link,
};

use crate::packets::outgoing;
use crate::signalling::open;
use crate::support::{Line, RECEIVER, SENDER, TIME_LIMIT, eventually};

/// Opens a socket that uses these interfaces.
pub(crate) fn open_on(
    namespace: &Namespace,
    interfaces: &[InterfaceId],
    how: InterfaceSignalling,
) -> SignallingSocket {
    let mut socket = open(namespace);
    let set = || {
        for &interface in interfaces {
            socket.set_interface(interface, how).expect("set");
        }
        socket
    };
    namespace.run_in(set).expect("inside")
}

fn index(namespace: &Namespace, name: &str) -> InterfaceId {
    link::index(namespace, name).expect("an answer").expect("there")
}

/// Returns a Path through an interface.
fn path(source: IpAddr, destination: IpAddr, interface: InterfaceId) -> Outgoing {
    Outgoing { interface: Some(interface), ..outgoing(46, source, destination) }
}

/// Asserts that exactly one message arrives, and checks it.
pub(crate) fn receive_rsvp(
    what: &str,
    socket: &mut SignallingSocket,
    mut check: impl FnMut(Datagram<'_>),
) {
    let mut count = 0;
    eventually(what, || {
        let each = |message: Incoming<'_>| {
            count += 1;
            assert_eq!((message.protocol, message.is_copy), (46, false), "{what}");
            check(message.datagram);
        };
        socket.receive(each).expect("received");
        count > 0
    });
    assert_nothing(socket);
    assert_eq!(count, 1, "{what}");
}

pub(crate) fn assert_nothing(socket: &mut SignallingSocket) {
    std::thread::sleep(Duration::from_millis(30));
    while socket.receive(|d| panic!("not expected: {d:?}")).expect("received") > 0 {}
}

/// Whether or not the kernel is the group's multicast router, a Path to a group reaches the router's daemon once, is
/// not forwarded by the kernel, and does not return when it is forwarded by the daemon. Data are forwarded.
pub(crate) fn path_to_a_group_is_intercepted_once() {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let interfaces = [line.inward, line.outward];
    let (outward, inward) = (index(&line.sender, "right"), index(&line.receiver, "left"));
    let mut sender = open_on(&line.sender, &[outward], InterfaceSignalling::default());
    let mut router = open_on(&line.router, &interfaces, InterfaceSignalling::default());
    let mut receiver = open_on(&line.receiver, &[inward], InterfaceSignalling::default());
    for (source, group) in
        [(SENDER.to_string(), "239.1.2.3"), ("2001:db8:1::1".to_owned(), "ff3e::1:2")]
    {
        let source: IpAddr = source.parse().expect("an address");
        let group: IpAddr = group.parse().expect("an address");
        receiver.join(group, inward).expect("joined");
        for routing in [false, true] {
            let kernel = routing.then(|| {
                let router = MulticastRouter::start(&line.router, group.is_ipv4(), &interfaces);
                let router = router.expect("a multicast router");
                let (source, incoming) = (Some(source), Some(line.inward));
                let outgoing = vec![line.outward];
                router
                    .set_route(&MulticastRoute { source, group, incoming, outgoing })
                    .expect("entered");
                router
            });
            sender.send(&path(source, group, outward), b"a path").expect("sent");
            receive_rsvp("the router sees it", &mut router, |d| {
                assert_eq!((d.source, d.destination), (source, group));
                assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
                assert_eq!(d.payload, b"a path");
            });
            assert_nothing(&mut sender);
            assert_nothing(&mut receiver);
            let onward = Outgoing { ttl: 63, ..path(source, group, line.outward) };
            router.send(&onward, b"a path").expect("sent on");
            receive_rsvp("the receiver sees it", &mut receiver, |d| {
                assert_eq!((d.source, d.destination), (source, group));
                assert_eq!((d.interface, d.ttl, d.router_alert), (inward, 63, true));
            });
            assert_nothing(&mut router);
            if kernel.is_some() {
                data_flows(&line, group);
            }
        }
        receiver.leave(group, inward).expect("left");
    }
}

/// Asserts that a data packet to a group passes the router.
fn data_flows(line: &Line, group: IpAddr) {
    let bound = |namespace: &Namespace, port| {
        let any: IpAddr = match group {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let bind = || UdpSocket::bind((any, port));
        namespace.run_in(bind).expect("inside").expect("a socket")
    };
    let (source, sink) = (bound(&line.sender, 0), bound(&line.receiver, 5_000));
    sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    let (outward, inward) = (index(&line.sender, "right"), index(&line.receiver, "left"));
    let source = socket2::Socket::from(source);
    match group {
        IpAddr::V4(group) => {
            source.set_multicast_ttl_v4(8).expect("set");
            let sink = socket2::SockRef::from(&sink);
            sink.join_multicast_v4_n(&group, &socket2::InterfaceIndexOrAddress::Index(inward.0))
                .expect("joined");
            source.set_multicast_if_v4(&SENDER).expect("set");
        }
        IpAddr::V6(group) => {
            source.set_multicast_hops_v6(8).expect("set");
            source.set_multicast_if_v6(outward.0).expect("set");
            sink.join_multicast_v6(&group, inward.0).expect("joined");
        }
    }
    source.send_to(b"data", &SocketAddr::from((group, 5_000)).into()).expect("sent");
    assert_eq!(sink.recv(&mut [0; 9]).expect("received"), 4);
}

/// Without the option a message is intercepted only with that setting; and after the daemon has ended, it is forwarded.
pub(crate) fn message_without_router_alert_is_intercepted() {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let outward = index(&line.sender, "right");
    let all = InterfaceSignalling { intercept: Intercept::Protocol, ..Default::default() };
    let mut sender = open(&line.sender);
    let mut receiver = open(&line.receiver);
    for (source, destination) in [
        (SENDER.to_string(), RECEIVER.to_string()),
        ("2001:db8:1::1".to_owned(), "2001:db8:2::1".to_owned()),
    ] {
        let (source, destination): (IpAddr, IpAddr) =
            (source.parse().expect("an address"), destination.parse().expect("an address"));
        let plain = Outgoing { router_alert: false, ..path(source, destination, outward) };
        let mut router = open_on(&line.router, &[line.inward], InterfaceSignalling::default());
        sender.send(&plain, b"unseen").expect("sent");
        receive_rsvp("the receiver gets it", &mut receiver, |d| assert_eq!(d.ttl, 63));
        assert_nothing(&mut router);

        // Later changes need only the capabilities that the daemon keeps.
        let set = || {
            capabilities::drop_to_network_capabilities().expect("dropped");
            router.set_interface(line.inward, all).expect("set");
            router
        };
        let mut router = line.router.run_in(set).expect("inside");
        for (length, alert) in [(20, false), (20, true), (512, false), (1_400, true)] {
            let message = vec![length as u8; length];
            sender.send(&Outgoing { router_alert: alert, ..plain }, &message).expect("sent");
            receive_rsvp("the router takes it", &mut router, |d| {
                assert_eq!((d.source, d.destination), (source, destination));
                assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, alert));
                assert_eq!(d.payload, message);
            });
        }
        // To the router itself; and too long for one packet, so that the kernel reassembles it.
        let own: IpAddr = match source {
            IpAddr::V4(_) => [10, 77, 1, 2].into(),
            IpAddr::V6(_) => "2001:db8:1::2".parse().expect("an address"),
        };
        for length in [100, 9_001] {
            let message = vec![7; length];
            sender.send(&Outgoing { destination: own, ..plain }, &message).expect("sent");
            receive_rsvp("the router gets it", &mut router, |d| assert_eq!(d.payload, message));
        }
        assert_nothing(&mut receiver);
        drop(router);
        sender.send(&plain, b"unseen").expect("sent");
        receive_rsvp("the receiver gets it", &mut receiver, |d| assert_eq!(d.payload, b"unseen"));
    }
}

/// Messages beyond the capacity of the ring are lost and counted; the others are received whole, also around its end.
pub(crate) fn message_for_a_full_ring_is_counted() {
    let line = Line::new();
    let outward = index(&line.sender, "right");
    let all = InterfaceSignalling { intercept: Intercept::Protocol, ..Default::default() };
    let mut sender = open(&line.sender);
    let mut router = open_on(&line.router, &[line.inward], all);
    let plain = Outgoing { router_alert: false, ..path(SENDER.into(), RECEIVER.into(), outward) };
    let mut next = 0_u32;
    for count in [9_000_u32, 9_000, 24_000] {
        for number in 0..count {
            let mut message = [0_u8; 300];
            message[..4].copy_from_slice(&number.to_be_bytes());
            while sender.send(&plain, &message).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        next = 0;
        let mut idle = 0;
        while idle < 20 {
            let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
                assert_eq!(d.payload.len(), 300);
                assert_eq!(d.payload[..4], next.to_be_bytes(), "in order");
                next += 1;
            };
            match router.receive(each).expect("received") {
                0 => {
                    idle += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => idle = 0,
            }
        }
        assert!(next == count || count == 24_000, "{next} of {count}");
    }
    assert!((9_000..24_000).contains(&next), "{next} fitted");
    assert_eq!(router.counters().overflowed, u64::from(24_000 - next));
}
