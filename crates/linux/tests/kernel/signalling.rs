//! RSVP's sockets.

use std::net::IpAddr;

use earmark_core::Outgoing;
use earmark_linux::netns::Namespace;
use earmark_linux::{OpenError, RsvpSocket, SendError};

use crate::support::{Line, RECEIVER, SENDER, eventually};

fn open(namespace: &Namespace) -> RsvpSocket {
    namespace.run_in(RsvpSocket::open).expect("inside").expect("the sockets")
}

/// A Path on its way from the sender to the receiver.
fn path(router_alert: bool) -> Outgoing {
    Outgoing {
        protocol: 46,
        interface: None,
        source: IpAddr::V4(SENDER),
        destination: IpAddr::V4(RECEIVER),
        ttl: 64,
        router_alert,
        encapsulated: false,
    }
}

/// The router sees the Path though it is not addressed to it, the receiver does not until the router sends it on;
/// and then it still comes from the sender.
pub(crate) fn caught_and_relayed() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    sender.send(&path(true), b"a path").expect("sent");
    let mut caught = Vec::new();
    eventually("the router catches it", || {
        let each = |d: earmark_core::Datagram<'_>| {
            assert_eq!((d.source, d.destination), (SENDER.into(), RECEIVER.into()));
            assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
            caught = d.payload.to_vec();
        };
        router.receive(each).expect("received") > 0
    });
    assert_eq!(caught, b"a path");
    assert_eq!(receiver.receive(|_| ()).expect("nothing"), 0, "consumed on the way");

    let onward = Outgoing { interface: Some(line.outward), ttl: 63, ..path(true) };
    router.send(&onward, &caught).expect("sent on");
    eventually("the receiver gets it", || {
        let each = |d: earmark_core::Datagram<'_>| {
            assert_eq!((d.source, d.ttl, d.router_alert), (SENDER.into(), 63, true));
            assert_eq!(d.payload, b"a path");
        };
        receiver.receive(each).expect("received") > 0
    });
    assert_eq!((router.counters().received, router.counters().sent), (1, 1));
}

/// Resv messages are addressed to the next hop and carry no alert; in transit they are none of a router's business.
pub(crate) fn flows_on() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    sender.send(&path(false), b"a message").expect("sent");
    eventually("the receiver gets it", || {
        receiver.receive(|d| assert_eq!(d.ttl, 63)).expect("received") > 0
    });
    assert_eq!(router.receive(|_| ()).expect("nothing"), 0);
}

/// Longer than the MTU: cut by the sender, put together by the router, cut again, put together by the receiver.
pub(crate) fn long_message() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    let message: Vec<u8> = (0..9_001_u32).map(|n| n as u8).collect();
    sender.send(&path(true), &message).expect("sent");
    let mut caught = Vec::new();
    eventually("the router catches it", || {
        router.receive(|d| caught = d.payload.to_vec()).expect("received") > 0
    });
    assert!(caught == message, "whole at the router");
    router.send(&Outgoing { interface: Some(line.outward), ..path(true) }, &caught).expect("sent");
    eventually("the receiver gets it", || {
        receiver.receive(|d| assert!(d.payload == message)).expect("received") > 0
    });
    let outcome = sender.send(&path(true), &[0; 65_535]);
    assert!(matches!(outcome, Err(SendError::TooLong { length: 65_535 })));
    let nowhere =
        Outgoing { destination: "2001:db8::1".parse().expect("an address"), ..path(true) };
    assert!(matches!(sender.send(&nowhere, b""), Err(SendError::NotIpv4)));
}

/// One daemon per namespace; and again when the first has gone, however it went.
pub(crate) fn second_daemon() {
    let line = Line::new();
    let first = open(&line.router);
    let second = line.router.run_in(RsvpSocket::open).expect("inside");
    assert!(matches!(second, Err(OpenError::AlreadyRunning)));
    let _elsewhere = open(&line.sender);
    drop(first);
    let _again = open(&line.router);
}
