//! The kernel's route of a flow, compared with the path of its packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use earmark_core::{Flow, InterfaceId, Outgoing};
use earmark_linux::frames::Frames;
use earmark_linux::netns::Namespace;
use earmark_linux::{FlowRoutes, MarkRule, SignallingSocket, link};
use earmark_wire::{ipv4, ipv6, udp};

use crate::packets::outgoing;
use crate::support::{eventually, ip, namespace, words};

/// Number of flows that are compared for each policy.
const FLOWS: usize = 200;

/// `sender` -- `router` -- two links to `left` and `right`, which lead to 10.99.0.0/16 and fd99::/16.
struct Fork {
    sender: Namespace,
    router: Namespace,
    far: [Namespace; 2],
    inward: InterfaceId,
    outward: [InterfaceId; 2],
    frames: [Frames; 2],
}

/// Identity of a test packet: addresses and ports.
type Arrival = (IpAddr, IpAddr, u16, u16);

impl Fork {
    fn new() -> Fork {
        let (sender, router, far) = (namespace(), namespace(), [namespace(), namespace()]);
        let (_, inward) = link::create_veth(&sender, "out", &router, "in").expect("a pair");
        let outward = ["one", "two"].map(|name| {
            let at = usize::from(name == "two");
            link::create_veth(&router, name, &far[at], "up").expect("a pair").0
        });
        let mut all = vec![
            (&sender, "out", "10.9.0.1/24", "fd09::1/64"),
            (&router, "in", "10.9.0.2/24", "fd09::2/64"),
            (&router, "one", "10.9.1.2/24", "fd09:1::2/64"),
            (&router, "two", "10.9.2.2/24", "fd09:2::2/64"),
        ];
        all.push((&far[0], "up", "10.9.1.1/24", "fd09:1::1/64"));
        all.push((&far[1], "up", "10.9.2.1/24", "fd09:2::1/64"));
        for (namespace, name, four, six) in all {
            ip(namespace, &["addr", "add", four, "dev", name]);
            ip(namespace, &["addr", "add", six, "dev", name, "nodad"]);
            link::set_up(namespace, name, true).expect("up");
        }
        for (key, value) in [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv6.conf.all.forwarding", "1"),
            ("net.ipv4.conf.all.rp_filter", "0"),
            ("net.ipv4.conf.default.rp_filter", "0"),
            ("net.ipv4.conf.in.rp_filter", "0"),
        ] {
            link::sysctl(&router, key, value).expect("a setting");
        }
        ip(&sender, &words("route add default via 10.9.0.2"));
        ip(&sender, &words("-6 route add default via fd09::2"));
        let frames = far.each_ref().map(|far| far.run_in(Frames::open).expect("in").expect("one"));
        let mut fork = Fork { sender, router, far, inward, outward, frames };
        fork.meet();
        fork
    }

    /// Lets all neighbours resolve each other's addresses: packets that wait for that may be lost.
    fn meet(&mut self) {
        for (at, far) in self.far.iter().enumerate() {
            for address in [format!("10.9.{}.2:9", at + 1), format!("[fd09:{}::2]:9", at + 1)] {
                let hello = || UdpSocket::bind(any(&address))?.send_to(b"hello", &address);
                eventually("a link carries packets", || far.run_in(hello).expect("inside").is_ok());
            }
        }
        for address in ["10.9.0.2:9", "[fd09::2]:9"] {
            let hello = || UdpSocket::bind(any(address))?.send_to(b"hello", address);
            eventually("packets leave", || self.sender.run_in(hello).expect("inside").is_ok());
        }
        for (gateway, name) in
            [("10.9.1.1", "one"), ("10.9.2.1", "two"), ("fd09:1::1", "one"), ("fd09:2::1", "two")]
        {
            let address: IpAddr = gateway.parse().expect("an address");
            let hello =
                || UdpSocket::bind(any(&format!("{address}:9")))?.send_to(b"x", (address, 9));
            eventually("the router sends", || self.router.run_in(hello).expect("inside").is_ok());
            eventually("the router knows its neighbour", || {
                let show = || {
                    std::process::Command::new("ip")
                        .args(["neigh", "show", gateway, "dev", name])
                        .output()
                };
                let shown = self.router.run_in(show).expect("inside").expect("ip runs").stdout;
                String::from_utf8_lossy(&shown).contains("lladdr")
            });
        }
    }

    fn ip(&self, command: &str) {
        ip(&self.router, &words(command));
    }

    /// Asserts that one packet of each flow takes the route that the kernel reports; returns the flows per link.
    fn compare(&mut self, what: &str, flows: &[Flow], asker: &mut FlowRoutes) -> [usize; 2] {
        let answers: Vec<InterfaceId> = flows
            .iter()
            .map(|flow| {
                let hop = asker.find(flow, Some(self.inward)).expect("an answer");
                hop.unwrap_or_else(|| panic!("{what}: no route for {flow:?}")).interface
            })
            .collect();
        self.send(flows);
        let taken = self.arrivals(flows.len());
        let mut counts = [0; 2];
        for (flow, answer) in flows.iter().zip(&answers) {
            let source = flow.source.expect("each has one");
            let key = (source, flow.destination, flow.source_port, flow.destination_port);
            let link = *taken.get(&key).unwrap_or_else(|| panic!("{what}: lost {flow:?}"));
            assert_eq!(*answer, self.outward[link], "{what}: {flow:?}");
            counts[link] += 1;
        }
        counts
    }

    fn send(&self, flows: &[Flow]) {
        let open = || SignallingSocket::open();
        let mut socket = self.sender.run_in(open).expect("inside").expect("a socket");
        for flow in flows {
            let source = flow.source.expect("each has one");
            let header = udp::Repr {
                source,
                destination: flow.destination,
                source_port: flow.source_port,
                destination_port: flow.destination_port,
            };
            let mut packet = [0; udp::HEADER + 8];
            header.emit(&mut packet).expect("room");
            let how = Outgoing {
                router_alert: false,
                interface: None,
                ttl: 64,
                ..outgoing(17, source, flow.destination)
            };
            socket.send(&how, &packet).expect("sent");
        }
    }

    /// Returns the link on which each packet arrived, once all have arrived.
    fn arrivals(&mut self, count: usize) -> BTreeMap<Arrival, usize> {
        let mut taken = BTreeMap::new();
        let start = Instant::now();
        while taken.len() < count && start.elapsed() < Duration::from_secs(10) {
            for (link, frames) in self.frames.iter_mut().enumerate() {
                while frames
                    .receive(|_, frame| {
                        if let Some(key) = ours(frame) {
                            taken.insert(key, link);
                        }
                    })
                    .expect("frames")
                    > 0
                {}
            }
        }
        taken
    }
}

/// Returns the wildcard address of the family of `address`.
fn any(address: &str) -> &'static str {
    if address.contains("::") { "[::]:0" } else { "0.0.0.0:0" }
}

/// Parses a UDP packet behind the fork, in a frame.
fn ours(frame: &[u8]) -> Option<Arrival> {
    let (packet, kind) = (frame.get(14..)?, frame.get(12..14)?);
    let (source, destination, payload): (IpAddr, IpAddr, &[u8]) = match kind {
        [0x08, 0x00] => {
            let packet = ipv4::Packet::parse(packet).ok()?;
            (packet.source().into(), packet.destination().into(), packet.payload())
        }
        [0x86, 0xdd] => {
            let packet = ipv6::Packet::parse(packet).ok()?;
            (packet.source.into(), packet.destination.into(), packet.payload)
        }
        _ => return None,
    };
    let behind = match destination {
        IpAddr::V4(a) => a.octets()[1] == 99,
        IpAddr::V6(a) => a.segments()[0] == 0xfd99,
    };
    let udp = udp::Packet::parse(payload).ok().filter(|_| behind)?;
    Some((source, destination, udp.source_port, udp.destination_port))
}

/// Returns random flows of a family, the same in each run.
fn flows(ipv6: bool, seed: u64) -> Vec<Flow> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut number = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u16
    };
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    while all.len() < FLOWS {
        let [a, b] = number().to_be_bytes();
        let (source, destination): (IpAddr, IpAddr) = match ipv6 {
            false => {
                (Ipv4Addr::new(10, 9, 0, 3 + a % 200).into(), Ipv4Addr::new(10, 99, a, b).into())
            }
            true => (
                Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, number() | 4).into(),
                Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, number(), number()).into(),
            ),
        };
        let flow = Flow {
            destination,
            source: Some(source),
            protocol: 17,
            destination_port: 1_024 | number(),
            source_port: 1_024 | number(),
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        };
        if seen.insert(flow) {
            all.push(flow);
        }
    }
    all
}

fn asker(fork: &Fork, marks: Vec<MarkRule>) -> FlowRoutes {
    fork.router.run_in(|| FlowRoutes::open(marks)).expect("inside").expect("a socket")
}

/// Each policy, for routes with two next hops, groups and resilient groups; and again after one next hop is gone.
pub(crate) fn multipath_route_is_that_of_the_packets() {
    let mut fork = Fork::new();
    let mut asker = asker(&fork, Vec::new());
    for command in [
        "nexthop add id 1 via 10.9.1.1 dev one",
        "nexthop add id 2 via 10.9.2.1 dev two",
        "nexthop add id 10 group 1/2",
        "nexthop add id 11 group 1/2 type resilient buckets 64 idle_timer 3600",
        "nexthop add id 21 via fd09:1::1 dev one",
        "nexthop add id 22 via fd09:2::1 dev two",
        "nexthop add id 30 group 21/22",
        "nexthop add id 31 group 21/22 type resilient buckets 64 idle_timer 3600",
    ] {
        fork.ip(command);
    }
    for (route, ipv6) in [
        ("10.99.0.0/16 nexthop via 10.9.1.1 nexthop via 10.9.2.1", false),
        ("10.99.0.0/16 nhid 10", false),
        ("10.99.0.0/16 nhid 11", false),
        ("fd99::/16 nexthop via fd09:1::1 nexthop via fd09:2::1", true),
        ("fd99::/16 nhid 30", true),
        ("fd99::/16 nhid 31", true),
    ] {
        let family = if ipv6 { "ipv6" } else { "ipv4" };
        fork.ip(&format!("{} route replace {route}", if ipv6 { "-6" } else { "-4" }));
        // For IPv6 with policy 3 the kernel reports the hop by another hash than that of forwarded packets.
        for policy in 0..if ipv6 { 3 } else { 4 } {
            let key = format!("net.{family}.fib_multipath_hash_policy");
            link::sysctl(&fork.router, &key, &policy.to_string()).expect("a policy");
            let counts = fork.compare(
                &format!("{route}, policy {policy}"),
                &flows(ipv6, 7 + policy),
                &mut asker,
            );
            assert!(counts.iter().all(|&count| count > FLOWS / 10), "{route} {policy}: {counts:?}");
        }
    }
    for (command, kind) in [
        ("route replace 10.99.0.0/16 nexthop via 10.9.1.1", "a route"),
        ("route replace 10.99.0.0/16 nhid 10", "a group"),
        ("route replace 10.99.0.0/16 nhid 11", "a resilient group"),
    ] {
        fork.ip("nexthop replace id 2 via 10.9.2.1 dev two");
        fork.ip("nexthop replace id 10 group 1/2");
        fork.ip("nexthop replace id 11 group 1/2 type resilient idle_timer 1");
        fork.ip(command);
        fork.ip("nexthop del id 2");
        let counts = fork.compare(kind, &flows(false, 77), &mut asker);
        assert_eq!(counts, [FLOWS, 0], "one of {kind} is left");
    }
}

/// Rules by source, by port and by incoming interface that lead to tables of their own.
pub(crate) fn rule_by_source_and_interface_selects_the_route() {
    let mut fork = Fork::new();
    let mut asker = asker(&fork, Vec::new());
    for (table, at) in [("100", 1), ("200", 2)] {
        fork.ip(&format!("route add 10.99.0.0/16 via 10.9.{at}.1 table {table}"));
        fork.ip(&format!("-6 route add fd99::/16 via fd09:{at}::1 table {table}"));
    }
    fork.ip("route add 10.99.0.0/16 via 10.9.1.1");
    fork.ip("-6 route add fd99::/16 via fd09:1::1");
    for rule in [
        "rule add from 10.9.0.64/26 lookup 200",
        "-6 rule add to fd99::8000/113 lookup 200",
        "rule add ipproto udp dport 1024-30000 lookup 200",
        "rule add from 10.9.0.128/26 iif in lookup 100 pref 5",
    ] {
        fork.ip(rule);
        for ipv6 in [false, true] {
            fork.compare(rule, &flows(ipv6, 5), &mut asker);
        }
    }
    let counts = fork.compare("all rules", &flows(false, 6), &mut asker);
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    // Rules with goto and nop end somewhere: the kernel refuses a backward goto.
    fork.ip("rule add pref 1 goto 50");
    fork.ip("rule add pref 50 goto 90");
    fork.ip("rule add pref 90 iif in lookup 200");
    assert_eq!(fork.compare("jumps", &flows(false, 8), &mut asker), [0, FLOWS]);
}

/// A rule by mark: packets of this host with a mark, and a flow that is marked according to the settings.
pub(crate) fn rule_by_mark_selects_the_route() {
    let mut fork = Fork::new();
    fork.ip("route add 10.99.0.0/16 via 10.9.1.1");
    fork.ip("route add 10.99.0.0/16 via 10.9.2.1 table 200");
    fork.ip("rule add fwmark 7 lookup 200");
    let rule = MarkRule { mark: 7, port: Some(7_000), ..MarkRule::default() };
    let mut asker = asker(&fork, vec![rule]);
    for (port, mark, link) in [(7_000, 7, 1), (7_001, 0, 0), (7_000, 7, 1)] {
        let socket =
            fork.router.run_in(|| UdpSocket::bind("10.9.0.2:0")).expect("in").expect("one");
        socket2::SockRef::from(&socket).set_mark(mark).expect("a mark");
        let source_port = socket.local_addr().expect("bound").port();
        let flow = Flow {
            destination: [10, 99, 0, 9].into(),
            source: Some([10, 9, 0, 2].into()),
            source_port,
            destination_port: port,
            ..flows(false, 1)[0]
        };
        let hop = asker.find(&flow, None).expect("an answer").expect("a route");
        assert_eq!(hop.interface, fork.outward[link], "{port}");
        socket.send_to(b"12345678", (flow.destination, port)).expect("sent");
        let came = fork.arrivals(1);
        assert_eq!(came.values().collect::<Vec<_>>(), [&link], "{came:?}");
    }
}

/// Flows that the kernel would not forward have no route; queries that it does not support are counted.
pub(crate) fn flow_without_route_has_none() {
    use earmark_core::{FlowResolver, Resolution};
    let fork = Fork::new();
    let mut asker = asker(&fork, Vec::new());
    let counters = asker.counters();
    let known = Flow { destination: [10, 9, 1, 1].into(), ..flows(false, 1)[0] };
    let nowhere = Flow { destination: [192, 0, 2, 1].into(), ..known };
    // A kernel without support for flow labels returns an error, which does not mean that there is no route.
    fork.ip("-6 route add fd99::/16 via fd09:1::1");
    let labelled = Flow { flow_label: 5, source_port: 0, ..flows(true, 1)[0] };
    assert_ne!(asker.resolve(&labelled, Some(fork.inward)), Resolution::Nowhere);
    // The incoming interface of a flow of another host may be unknown.
    assert!(matches!(asker.resolve(&known, None), Resolution::Through(_)));
    fork.ip("route add blackhole 10.98.0.0/16");
    let blackhole = Flow { destination: [10, 98, 0, 1].into(), ..known };
    // A packet with our own address as its source is dropped.
    let martian = Flow { source: Some([10, 9, 1, 2].into()), ..known };
    for flow in [nowhere, blackhole, martian] {
        assert_eq!(asker.resolve(&flow, Some(fork.inward)), Resolution::Nowhere, "{flow:?}");
    }
    assert!(matches!(asker.resolve(&known, Some(fork.inward)), Resolution::Through(_)));
    let esp = Flow { protocol: 50, source_port: 0, destination_port: 0, ..known };
    assert!(matches!(asker.resolve(&esp, Some(fork.inward)), Resolution::Through(_)));
    // A missing interface.
    assert_eq!(asker.resolve(&known, Some(InterfaceId(9_999))), Resolution::Unknown);
    let read =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    let seen = [&counters.asked, &counters.no_route, &counters.other_protocol, &counters.refused];
    assert_eq!(seen.map(read), [8, 3, 1, 1]);
    assert_eq!(read(&counters.malformed), 0);
}

/// A message leaves by the given next hop, whatever the routes to its destination are: on two links, and with two
/// routers on one link.
pub(crate) fn message_is_sent_to_the_chosen_next_hop() {
    let mut fork = Fork::new();
    fork.ip("route add 10.99.0.0/16 via 10.9.1.1");
    fork.ip("-6 route add fd99::/16 via fd09:1::1");
    for (gateway, mac) in [("10.9.1.7", "02:00:00:00:00:07"), ("fd09:1::7", "02:00:00:00:00:07")] {
        fork.ip(&format!("neigh add {gateway} lladdr {mac} dev one"));
    }
    let open = || SignallingSocket::open();
    let mut socket = fork.router.run_in(open).expect("inside").expect("a socket");
    for flow in [flows(false, 3)[0], flows(true, 3)[0]] {
        let source = flow.source.expect("each has one");
        let to = |four: &str, six: &str| -> Option<IpAddr> {
            let text = if source.is_ipv4() { four } else { six };
            (!text.is_empty()).then(|| text.parse().expect("an address"))
        };
        for (link, next_hop, last_of_mac) in [
            (0, to("", ""), None),
            (0, to("10.9.1.1", "fd09:1::1"), None),
            (0, to("10.9.1.7", "fd09:1::7"), Some(7)),
            (1, to("10.9.2.1", "fd09:2::1"), None),
        ] {
            let how = Outgoing {
                router_alert: true,
                interface: Some(fork.outward[link]),
                next_hop,
                ttl: 9,
                ..outgoing(46, source, flow.destination)
            };
            let payload = [link as u8; 12];
            // Alone, and together with another.
            socket.send(&how, &payload).expect("sent");
            socket.send_all([(&how, &payload[..]), (&how, &payload[..])], |_, error| {
                panic!("not sent: {error}");
            });
            let mut came = Vec::new();
            eventually("three packets", || {
                for (at, frames) in fork.frames.iter_mut().enumerate() {
                    frames
                        .receive(|_, frame| came.extend(signalling(frame).map(|mac| (at, mac))))
                        .expect("frames");
                }
                came.len() >= 3
            });
            for (at, mac) in came {
                assert_eq!(at, link, "{how:?}");
                assert_eq!(mac == [2, 0, 0, 0, 0, 7], last_of_mac.is_some(), "{how:?}");
            }
        }
    }
}

/// Returns the destination of a frame with RSVP in it.
fn signalling(frame: &[u8]) -> Option<[u8; 6]> {
    let mac = *frame.first_chunk::<6>()?;
    let packet = frame.get(14..)?;
    let protocol = match frame.get(12..14)? {
        [0x08, 0x00] => ipv4::Packet::parse(packet).ok()?.protocol(),
        [0x86, 0xdd] => ipv6::Packet::parse(packet).ok()?.protocol(),
        _ => return None,
    };
    (protocol == 46).then_some(mac)
}
