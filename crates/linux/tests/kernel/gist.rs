//! GIST messages: UDP packets to port 270 that begin with its magic number.

use std::net::{IpAddr, SocketAddr};

use earmark_core::Outgoing;
use earmark_linux::netns::Namespace;
use earmark_linux::{
    Gist, InterfaceError, InterfaceSignalling, OpenError, SignallingSocket, capabilities,
};

use crate::interception::{assert_nothing, open_on};
use crate::packets::{
    FAMILIES, addresses, assert_forwarded, ends, has_right_checksum, line, outgoing, program,
    receive_one, udp,
};
use crate::support::{Line, eventually};

const PORT: u16 = 270;
const QUERY: u8 = 0;
const RESPONSE: u8 = 1;

fn settings(gist: Gist) -> InterfaceSignalling {
    InterfaceSignalling { gist, ..InterfaceSignalling::default() }
}

/// Returns a magic number, a common header of this type, and one object.
fn message(kind: u8) -> Vec<u8> {
    let mut octets = vec![0x4e, 0x04, 0xbd, 0xa5, 1, 16, 0, 2, 0, 33, kind, 0xc0];
    octets.extend([0, 1, 0, 1, 7, 7, 7, 7]);
    octets
}

/// Addresses of a message, by family.
struct Addresses {
    from: IpAddr,
    source: SocketAddr,
    sink: SocketAddr,
    out: Outgoing,
}

fn addresses_of(from: IpAddr, to: IpAddr) -> Addresses {
    let (source, sink) = (SocketAddr::new(from, PORT), SocketAddr::new(to, PORT));
    Addresses { from, source, sink, out: outgoing(17, from, to) }
}

/// Asserts that the router intercepts exactly this message, unchanged.
fn assert_intercepted(
    what: &str,
    router: &mut SignallingSocket,
    line: &Line,
    addresses_of: &Addresses,
    data: &[u8],
    alert: bool,
) {
    receive_one(what, router, |m| {
        assert_eq!((m.protocol, m.is_copy), (17, false), "{what}");
        let d = m.datagram;
        assert_eq!(
            (d.source, d.destination),
            (addresses_of.from, addresses_of.sink.ip()),
            "{what}"
        );
        assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, alert), "{what}");
        assert!(has_right_checksum(d.payload, addresses_of.from, addresses_of.sink.ip()), "{what}");
        assert_eq!(d.payload, udp(addresses_of.source, addresses_of.sink, data), "{what}");
    });
}

/// Messages with router alert are intercepted in transit; Queries also by port alone with that setting; others are
/// forwarded.
pub(crate) fn message_in_transit_is_intercepted() {
    let line = line();
    let [near, far] = ends(&line);
    let mut sender = open_on(&line.sender, &[near], settings(Gist::Off));
    let mut receiver = open_on(&line.receiver, &[far], settings(Gist::RouterAlert));
    for setting in [Gist::Off, Gist::RouterAlert, Gist::Port] {
        let mut router = open_on(&line.router, &[line.inward, line.outward], settings(setting));
        for family in FAMILIES {
            let [from, to, _] = addresses(family);
            let addresses_of = addresses_of(from, to);
            for (kind, alert) in
                [(QUERY, true), (QUERY, false), (RESPONSE, true), (RESPONSE, false)]
            {
                let out = Outgoing { router_alert: alert, ..addresses_of.out };
                let data = message(kind);
                sender
                    .send(&out, &udp(addresses_of.source, addresses_of.sink, &data))
                    .expect("sent");
                let is_taken = match setting {
                    Gist::Off => false,
                    Gist::RouterAlert => alert,
                    Gist::Port => alert || kind == QUERY,
                };
                let what = format!("{setting:?} {kind} {alert}");
                if is_taken {
                    assert_intercepted(&what, &mut router, &line, &addresses_of, &data, alert);
                    assert_nothing(&mut receiver);
                    // Forwarded as a router does: longer, with the address of the original sender.
                    let longer = [&data[..], &[9; 40]].concat();
                    let onward = Outgoing { ttl: 63, ..out };
                    router
                        .send(&onward, &udp(addresses_of.source, addresses_of.sink, &longer))
                        .expect("sent on");
                }
                receive_one(&what, &mut receiver, |m| {
                    assert_eq!((m.protocol, m.is_copy), (17, false), "{what}");
                    let d = m.datagram;
                    assert_eq!((d.source, d.destination), (from, to), "{what}");
                    assert_eq!((d.ttl, d.router_alert), (63, alert), "{what}");
                    assert!(has_right_checksum(d.payload, from, to), "{what}");
                });
                assert_nothing(&mut router);
            }
        }
    }
}

/// Packets to other ports, or with another beginning, are forwarded with router alert and without.
pub(crate) fn other_packet_is_forwarded() {
    let line = line();
    let mut sender = open_on(&line.sender, &[ends(&line)[0]], settings(Gist::Off));
    let mut router = open_on(&line.router, &[line.inward], settings(Gist::Port));
    let query = message(QUERY);
    let mut other_magic = query.clone();
    other_magic[3] ^= 1;
    let cases: [(u16, &[u8]); 5] =
        [(271, &query), (269, &query), (PORT, &other_magic), (PORT, &query[..11]), (PORT, b"")];
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        for (port, data) in cases {
            let (source, sink) = (SocketAddr::new(from, PORT), SocketAddr::new(to, port));
            let sink_program = program(&line.receiver, sink);
            assert_forwarded(&mut sender, [source, sink], &sink_program, data);
        }
        assert_nothing(&mut router);
    }
}

/// A host receives every message for it, and does not report its port as closed, also not for other packets to the
/// port. No other program can bind the port.
pub(crate) fn message_for_this_host_is_intercepted() {
    let line = line();
    for without_bpf in [false, true] {
        let mut router = match without_bpf {
            false => open_on(&line.router, &[line.inward], settings(Gist::RouterAlert)),
            true => open_without_bpf(&line.router, &line),
        };
        for family in FAMILIES {
            let [from, _, own] = addresses(family);
            let neighbor = program(&line.sender, SocketAddr::new(from, 6_001));
            let sink = SocketAddr::new(own, PORT);
            neighbor.connect(sink).expect("connected");
            neighbor.set_read_timeout(Some(std::time::Duration::from_millis(100))).expect("set");
            for kind in [QUERY, RESPONSE] {
                let data = message(kind);
                neighbor.send(&data).expect("sent");
                receive_one("taken", &mut router, |m| {
                    assert_eq!((m.protocol, m.is_copy), (17, false));
                    let d = m.datagram;
                    assert_eq!((d.source, d.destination, d.ttl), (from, own, 64));
                    assert_eq!(d.interface, line.inward);
                    assert!(has_right_checksum(d.payload, from, own));
                    assert_eq!(d.payload[8..], data);
                });
            }
            neighbor.send(b"no message").expect("sent");
            assert_nothing(&mut router);
            let error = neighbor.recv(&mut [0; 64]).expect_err("no answer");
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "not refused: {error}");
            let second = line.router.run_in(|| std::net::UdpSocket::bind(sink)).expect("inside");
            assert_eq!(second.expect_err("taken").kind(), std::io::ErrorKind::AddrInUse);
        }
    }
}

/// Raw sockets replace BPF: the same in transit with router alert; Queries by port alone are unavailable. Other packets
/// with router alert are forwarded.
pub(crate) fn message_without_bpf_is_received_by_raw_sockets() {
    let line = line();
    let [near, far] = ends(&line);
    let mut sender = open_on(&line.sender, &[near], settings(Gist::Off));
    let mut receiver = open_on(&line.receiver, &[far], settings(Gist::RouterAlert));
    let mut router = open_without_bpf(&line.router, &line);
    for family in FAMILIES {
        let [from, to, _] = addresses(family);
        let addresses_of = addresses_of(from, to);
        let data = message(QUERY);
        sender
            .send(&addresses_of.out, &udp(addresses_of.source, addresses_of.sink, &data))
            .expect("sent");
        assert_intercepted("in transit", &mut router, &line, &addresses_of, &data, true);
        assert_nothing(&mut receiver);
        let plain = Outgoing { router_alert: false, ..addresses_of.out };
        sender.send(&plain, &udp(addresses_of.source, addresses_of.sink, &data)).expect("sent");
        receive_one("forwarded", &mut receiver, |m| assert_eq!(m.datagram.ttl, 63));
        let before = router.counters().forwarded;
        let foreign = SocketAddr::new(to, 271);
        let foreign_program = program(&line.receiver, foreign);
        sender.send(&addresses_of.out, &udp(addresses_of.source, foreign, &data)).expect("sent");
        eventually("it was passed on", || {
            router.receive(|m| panic!("not expected: {m:?}")).expect("received");
            router.counters().forwarded == before + 1
        });
        let length = foreign_program.recv(&mut [0; 64]).expect("it passes");
        assert_eq!(length, data.len());
    }
}

/// A daemon that has dropped all but two capabilities can add interfaces, as long as BPF intercepts.
pub(crate) fn interface_set_without_privilege_is_served() {
    let line = line();
    let open = || {
        let mut socket = SignallingSocket::open().expect("opened");
        capabilities::drop_to_network_capabilities().expect("dropped");
        socket.set_interface(line.inward, settings(Gist::RouterAlert)).expect("it can do without");
        socket
    };
    let mut router = line.router.run_in(open).expect("inside");
    let [from, _, own] = addresses(FAMILIES[0]);
    program(&line.sender, SocketAddr::new(from, 6_001))
        .send_to(&message(QUERY), SocketAddr::new(own, PORT))
        .expect("sent");
    receive_one("taken", &mut router, |m| assert_eq!(m.datagram.destination, own));
}

fn open_without_bpf(namespace: &Namespace, line: &Line) -> SignallingSocket {
    let open = || {
        // The port needs a capability that the process drops together with that for BPF.
        std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "270").expect("set");
        capabilities::drop_to_network_capabilities().expect("dropped");
        let mut socket = SignallingSocket::open().expect("opened");
        let outcome = socket.set_interface(line.inward, settings(Gist::Port));
        assert!(matches!(outcome, Err(InterfaceError::Intercept(_))), "that needs BPF");
        socket.set_interface(line.inward, settings(Gist::RouterAlert)).expect("set");
        socket
    };
    namespace.run_in(open).expect("inside")
}

/// If another program has bound the port, an error reports it.
pub(crate) fn port_in_use_is_refused() {
    let line = Line::new();
    let [from, _, own] = addresses(FAMILIES[0]);
    assert_ne!(from, own);
    let held = program(&line.router, SocketAddr::new(own, PORT));
    let set = || {
        let mut socket = SignallingSocket::open().expect("opened");
        socket.set_interface(line.inward, settings(Gist::RouterAlert))
    };
    let outcome = line.router.run_in(set).expect("inside");
    let Err(InterfaceError::Open(OpenError::System { source, .. })) = outcome else {
        panic!("not refused: {outcome:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::AddrInUse);
    drop(held);
}
