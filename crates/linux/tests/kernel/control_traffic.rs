//! Control traffic during a flood: messages of neighbours and routing pass, and marking of other packets has no
//! advantage.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_core::Rate;
use earmark_linux::{ClassifierChoice, LinkPlan, ServicePlan, SignallingSocket};
use socket2::{Domain, Protocol, Socket, Type};

use crate::flood::{PAYLOAD, RATE, STREAM, drain, run, send};
use crate::support::{Line, RECEIVER, SENDER};

/// Opens a raw socket of an IP protocol.
fn raw(namespace: &earmark_linux::netns::Namespace, protocol: i32) -> Socket {
    let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(protocol)));
    namespace.run_in(open).expect("inside").expect("a socket")
}

/// Returns the number of packets that wait at a raw socket.
fn waiting(socket: &Socket) -> u32 {
    socket.set_nonblocking(true).expect("set");
    let mut count = 0;
    while socket.recv(&mut [std::mem::MaybeUninit::uninit(); 256]).is_ok() {
        count += 1;
    }
    count
}

fn marked(socket: UdpSocket, dscp: u32) -> UdpSocket {
    let socket = Socket::from(socket);
    socket.set_tos_v4(dscp << 2).expect("marked");
    socket.into()
}

/// The router's own hellos (OSPF's protocol, CS6) pass the flood, while a second flood is marked CS6 to precede it; the
/// marked flood gets no more than its small share beyond best effort.
pub(crate) fn hello_passes_a_flood(choice: ClassifierChoice) {
    let line = Line::new();
    let (_control, _) = line.open(&line.plan(), choice);
    let (router, receiver) = (raw(&line.router, 89), raw(&line.receiver, 89));
    router.set_tos_v4(48 << 2).expect("marked");
    let marked = marked(line.source(6_009), 48);
    let sink = line.sink(5_009);
    const HELLOS: u32 = 40;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let octets = std::thread::scope(|scope| {
        // Filters cannot distinguish the router's own packets from forwarded ones: there the marked flood is smaller.
        let rate = if choice == ClassifierChoice::Bpf { 20_000_000 } else { 50_000 };
        let (marked, stop) = (&marked, &stop);
        scope.spawn(move || send(marked, 5_009, PAYLOAD, rate, Duration::from_secs(3), stop));
        let received = scope.spawn(|| drain(&sink));
        run(&line, Duration::from_secs(2), || {
            for number in 0..HELLOS {
                let to = SocketAddr::from((RECEIVER, 0));
                router.send_to(&number.to_be_bytes(), &to.into()).expect("sent");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        received.join().expect("the sink ends").1
    });
    assert_eq!(waiting(&receiver), HELLOS, "{choice:?}");
    if choice == ClassifierChoice::Bpf {
        // 1 % of 10 Mbit/s for 3 s is 37.5 kB; beyond that it is one of two floods in best effort, which has 10 Mbit/s.
        assert!(octets < 3_000_000, "{octets}");
    }
}

/// Forwarded BGP and BFD pass a flood, up to their share.
pub(crate) fn forwarded_control_traffic_is_limited() {
    let line = Line::new();
    let (_control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let (source, sink) = (line.source(49_200), line.sink(3_784));
    let mut sent = 0;
    let received = std::thread::scope(|scope| {
        let received = scope.spawn(|| drain(&sink).0);
        run(&line, Duration::from_secs(1), || {
            for _ in 0..50 {
                source.send_to(&[0; 24], SocketAddr::from((RECEIVER, 3_784))).expect("sent");
                sent += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        received.join().expect("the sink ends")
    });
    assert_eq!(received, sent);
}

/// A stream whose DSCP has a service keeps its rate in a flood, without a reservation; an unmarked one does not.
pub(crate) fn unreserved_packet_is_served_by_its_dscp(choice: ClassifierChoice) {
    let line = Line::new();
    let services = vec![ServicePlan { dscps: vec![46], rate: Rate::from_bps(RATE * 11 / 10) }];
    let plan = LinkPlan { services, reservable: Rate::from_mbps(5), ..line.plan() };
    let (_control, _) = line.open(&plan, choice);
    let (source, sink) = (marked(line.source(6_010), 46), line.sink(5_010));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let ((unmarked, sent), received) = std::thread::scope(|scope| {
        let received = scope.spawn(|| drain(&sink).0);
        let mut sent = 0;
        let unmarked = run(&line, Duration::from_secs(2), || {
            sent = send(&source, 5_010, PAYLOAD, RATE, Duration::from_secs(2), &stop);
        });
        ((unmarked, sent), received.join().expect("the sink ends"))
    });
    assert_eq!(received, sent, "{choice:?}: the marked stream");
    assert!(unmarked.received < unmarked.sent * 9 / 10, "{choice:?}: {unmarked:?} {STREAM:?}");
}

/// The router's own RSVP messages are sent in the signalling class whatever their ports and marks; those of protocol 46
/// by others have the share of forwarded control traffic.
pub(crate) fn foreign_rsvp_is_limited() {
    let line = Line::new();
    let (_control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let mut own = line.router.run_in(SignallingSocket::open).expect("inside").expect("sockets");
    let other = raw(&line.sender, 46);
    let receiver = raw(&line.receiver, 46);
    receiver.set_recv_buffer_size(8 << 20).expect("a buffer");
    let message = earmark_core::Outgoing {
        protocol: 46,
        interface: Some(line.outward),
        next_hop: None,
        source: SENDER.into(),
        destination: RECEIVER.into(),
        ttl: 9,
        router_alert: false,
        encapsulated: false,
        neighbor: None,
    };
    let flood = [7; 1_000];
    let to = SocketAddr::from((RECEIVER, 0));
    let mut sent = 0;
    run(&line, Duration::from_secs(1), || {
        for _ in 0..40 {
            for _ in 0..50 {
                let _ = other.send_to(&flood, &to.into());
            }
            own.send(&message, &[1; 64]).expect("sent");
            sent += 1;
            std::thread::sleep(Duration::from_millis(25));
        }
    });
    receiver.set_nonblocking(true).expect("set");
    let (mut ours, mut foreign) = (0, 0);
    let mut room = [std::mem::MaybeUninit::uninit(); 2_048];
    while let Ok(length) = receiver.recv(&mut room) {
        if length < 200 { ours += 1 } else { foreign += 1 }
    }
    assert_eq!(ours, sent);
    assert!(foreign < 1_500, "most of 2 000 went with best effort and were lost: {foreign}");
}
