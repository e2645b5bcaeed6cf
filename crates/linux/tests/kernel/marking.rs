//! The DSCP of packets towards a core: those of claims on an aggregate get it, others lose it.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

use earmark_core::admission::{Demand, Protocol};
use earmark_core::{Flow, Installation, Marking, Markings, Rate, Time};
use earmark_linux::netns::Namespace;
use earmark_linux::{ClassifierChoice, LinkPlan, Queues, TcError, TrafficControl, link};
use socket2::{Domain, Socket, Type};

use crate::support::{Line, flow, installation};

/// `ETH_P_ALL` of the kernel.
const ALL_PROTOCOLS: u16 = 3;
/// Protocol whose claims are marked, and another one.
const EDGE: Protocol = Protocol::new(1);
const OTHER: Protocol = Protocol::new(4);
/// Expedited forwarding, and another one that is no mark.
const EF: u8 = 46;
const AF41: u8 = 34;
/// ECN bits of a packet that has met congestion: they must stay.
const CONGESTION: u8 = 3;
const RATE: Rate = Rate::from_mbps(1);
const SOURCE_PORT: u16 = 6_000;
/// Destination ports of flows: claimed by the one protocol, by the other, and by none.
const EDGE_PORT: u16 = 7_001;
const OTHER_PORT: u16 = 7_002;
const UNCLAIMED_PORT: u16 = 7_003;

/// Returns the plan of the line, with EF for the claims of [`EDGE`] to the receiver's networks.
fn plan(line: &Line, queues: Queues) -> LinkPlan {
    let marking = |range: &str| {
        let range = range.parse().expect("a prefix");
        Marking { range, protocol: EDGE, dscp: Some(EF) }
    };
    let markings = Markings::new([marking("10.77.2.0/24"), marking("2001:db8:2::/64")]);
    LinkPlan { queues, markings, ..line.plan() }
}

/// Opens a socket that receives the IP packets of all interfaces of a namespace.
fn capture(namespace: &Namespace) -> Socket {
    let protocol = socket2::Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let open = || Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol));
    let socket = namespace.run_in(open).expect("inside").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    socket
}

/// Returns the traffic class of the next UDP packet to a port: IPv4 without options, or IPv6.
fn next_class(mut capture: &Socket, port: u16) -> u8 {
    let mut octets = [0; 2_048];
    loop {
        let length = capture.read(&mut octets).expect("a packet");
        let (class, protocol, transport) = match octets[0] >> 4 {
            4 => (octets[1], octets[9], 20),
            _ => (octets[0] << 4 | octets[1] >> 4, octets[6], 40),
        };
        if protocol == 17
            && length > transport
            && octets[transport + 2..][..2] == port.to_be_bytes()
        {
            return class;
        }
    }
}

/// Opens the sender's and the receiver's socket of a flow.
fn sockets(line: &Line, (source, destination): (&str, &str), port: u16) -> (UdpSocket, UdpSocket) {
    let bind = |namespace: &Namespace, address: &str, port| {
        let address = SocketAddr::new(address.parse().expect("an address"), port);
        namespace.run_in(|| UdpSocket::bind(address)).expect("inside").expect("a socket")
    };
    let source = bind(&line.sender, source, SOURCE_PORT);
    let sink = bind(&line.receiver, destination, port);
    sink.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    source.connect(sink.local_addr().expect("bound")).expect("connected");
    (source, sink)
}

/// Sets the traffic class of a socket's packets.
fn set_class(socket: &UdpSocket, class: u8) {
    let socket = socket2::SockRef::from(socket);
    if socket.local_addr().expect("bound").is_ipv4() {
        socket.set_tos_v4(class.into()).expect("set");
    } else {
        socket.set_tclass_v6(class.into()).expect("set");
    }
}

fn install(control: &mut TrafficControl, line: &Line, slot: u32, protocol: Protocol, flow: Flow) {
    let installation = installation(line, slot, flow, RATE);
    control.install_for(Some(protocol), &installation, Time::ZERO).expect("installed");
}

/// In both families, with each kind of queue: what arrives with any DSCP leaves with EF if it has a claim on the aggregate,
/// without EF if it has not, and otherwise as it came. ECN stays, and the receiver's kernel finds the checksum right.
pub(crate) fn only_packets_of_claims_on_an_aggregate_have_its_dscp() {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let families = [("10.77.1.1", "10.77.2.1"), ("2001:db8:1::1", "2001:db8:2::1")];
    for queues in [Queues::PerFlow, Queues::Aggregate, Queues::Priority] {
        let (mut control, _) = line.open(&plan(&line, queues), ClassifierChoice::Bpf);
        for (addresses, slot) in families.into_iter().zip([0, 10]) {
            let [source, destination] =
                [addresses.0, addresses.1].map(|address| address.parse().expect("an address"));
            let flow = |port| Flow { source: Some(source), destination, ..flow(SOURCE_PORT, port) };
            install(&mut control, &line, slot, EDGE, flow(EDGE_PORT));
            install(&mut control, &line, slot + 1, OTHER, flow(OTHER_PORT));
            for (port, arriving, leaving) in [
                (EDGE_PORT, 0, EF),
                (EDGE_PORT, AF41, EF),
                (EDGE_PORT, EF, EF),
                (OTHER_PORT, EF, 0),
                (OTHER_PORT, AF41, AF41),
                (UNCLAIMED_PORT, EF, 0),
                (UNCLAIMED_PORT, AF41, AF41),
                (UNCLAIMED_PORT, 0, 0),
            ] {
                let (source, sink) = sockets(&line, addresses, port);
                let captured = capture(&line.receiver);
                for ecn in [0, CONGESTION] {
                    set_class(&source, arriving << 2 | ecn);
                    source.send(&[7; 100]).expect("sent");
                    assert_eq!(sink.recv(&mut [0; 200]).expect("intact"), 100);
                    let class = next_class(&captured, port);
                    let context = format!("{queues:?} {destination}:{port} {arriving} {ecn}");
                    assert_eq!((class >> 2, class & 3), (leaving, ecn), "{context}");
                }
            }
            // A claim on all packets with a DSCP, as of an aggregate that only passes here: they keep it.
            install(&mut control, &line, slot + 2, EDGE, Flow::of_dscp(destination.is_ipv6(), EF));
            let (source, _sink) = sockets(&line, addresses, UNCLAIMED_PORT);
            let captured = capture(&line.receiver);
            set_class(&source, EF << 2);
            source.send(&[7; 100]).expect("sent");
            assert_eq!(next_class(&captured, UNCLAIMED_PORT) >> 2, EF, "{queues:?} {destination}");
        }
    }
}

/// Packets beyond the bucket of a claim have best effort here, and so in the core.
pub(crate) fn excess_packets_are_not_marked() {
    for queues in [Queues::Aggregate, Queues::Priority] {
        let line = Line::new();
        let (mut control, _) = line.open(&plan(&line, queues), ClassifierChoice::Bpf);
        let small = installation(&line, 0, flow(SOURCE_PORT, EDGE_PORT), Rate::from_bps(8_000));
        control.install_for(Some(EDGE), &small, Time::ZERO).expect("installed");
        let Demand { burst, .. } = small.demand;
        let (source, _sink) = sockets(&line, ("10.77.1.1", "10.77.2.1"), EDGE_PORT);
        let captured = capture(&line.receiver);
        set_class(&source, EF << 2);
        const COUNT: u32 = 20;
        (0..COUNT).for_each(|_| assert_eq!(source.send(&[7; 972]).expect("sent"), 972));
        let classes: Vec<u8> = (0..COUNT).map(|_| next_class(&captured, EDGE_PORT) >> 2).collect();
        let marked = classes.iter().filter(|&&dscp| dscp == EF).count() as u32;
        assert!((1..=burst / 1_000 + 2).contains(&marked), "{queues:?}: {classes:?}");
        assert_eq!(classes.iter().filter(|&&dscp| dscp == 0).count() as u32, COUNT - marked);
    }
}

/// A program behind a device of its own, `tun0`: prints the traffic class of each UDP packet that leaves through it. Arguments:
/// `TUN` or `TAP`, and the device's hardware type (0: the kernel's choice).
const FAR_END: &str = "\
import fcntl, os, socket, struct, sys
is_tap, hardware = sys.argv[1] == 'TAP', int(sys.argv[2])
device = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1002 if is_tap else 0x1001))
if hardware:
    fcntl.ioctl(device, 0x400454cd, hardware)
    no_arp = struct.pack('16sH22x', b'tun0', 0x80)
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, no_arp)
print('ready', flush=True)
while True:
    packet = os.read(device, 2048)[14 if is_tap else 0:]
    if packet[0] == 0x45 and packet[9] == 17:
        print(packet[1], flush=True)
    if packet[0] >> 4 == 6 and packet[6] == 17:
        print((packet[0] << 4 | packet[1] >> 4) & 0xff, flush=True)
";
/// `ARPHRD_IEEE802` of the kernel: a link layer with a header that is not Ethernet's.
const IEEE802: u16 = 6;

/// A tunnel has no link header before the packets.
pub(crate) fn packets_into_a_tunnel_are_marked() {
    packets_to_a_device_are_marked("TUN", 0);
}

/// The length of the link header is unknown here.
pub(crate) fn packets_to_another_link_layer_are_marked() {
    packets_to_a_device_are_marked("TAP", IEEE802);
}

fn packets_to_a_device_are_marked(kind: &str, hardware: u16) {
    let line = Line::new();
    let mut python = line.router.command("python3").expect("a namespace");
    python.args(["-c", FAR_END, kind, &hardware.to_string()]);
    let mut far_end = FarEnd(python.stdout(Stdio::piped()).spawn().expect("python3 runs"));
    let mut printed = BufReader::new(far_end.0.stdout.take().expect("piped")).lines();
    let mut next = || printed.next().expect("a line").expect("text");
    assert_eq!(next(), "ready");
    let families = [("10.77.9.2", 24, "10.77.9.1"), ("2001:db8:9::2", 64, "2001:db8:9::1")];
    for (own, length, _) in families {
        let own = own.parse().expect("an address");
        link::add_address(&line.router, "tun0", own, length).expect("added");
    }
    link::set_up(&line.router, "tun0", true).expect("up");
    let device = link::index(&line.router, "tun0").expect("an answer").expect("the device");
    let markings = ["10.77.9.0/24", "2001:db8:9::/64"].map(|range| Marking {
        range: range.parse().expect("a prefix"),
        protocol: EDGE,
        dscp: Some(EF),
    });
    let plan = LinkPlan { interface: device, markings: Markings::new(markings), ..line.plan() };
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    for ((own, _, far), slot) in families.into_iter().zip(0..) {
        let [own, far] = [own, far].map(|address| address.parse().expect("an address"));
        let flow = Flow { source: Some(own), destination: far, ..flow(SOURCE_PORT, EDGE_PORT) };
        let installation =
            Installation { interface: device, ..installation(&line, slot, flow, RATE) };
        control.install_for(Some(EDGE), &installation, Time::ZERO).expect("installed");
        let bind = || UdpSocket::bind((own, SOURCE_PORT));
        let source = line.router.run_in(bind).expect("inside").expect("a socket");
        for (port, leaving) in [(EDGE_PORT, EF), (UNCLAIMED_PORT, AF41)] {
            set_class(&source, AF41 << 2 | CONGESTION);
            source.send_to(&[7; 100], (far, port)).expect("sent");
            assert_eq!(next(), (leaving << 2 | CONGESTION).to_string(), "{far}:{port}");
        }
    }
}

/// The program behind a device, which ends with the test.
struct FarEnd(Child);

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Filters cannot change packets: a link whose packets must be marked needs the program.
pub(crate) fn marking_without_bpf_is_refused() {
    let line = Line::new();
    let plan = plan(&line, Queues::PerFlow);
    let open = || TrafficControl::open(std::slice::from_ref(&plan), ClassifierChoice::U32);
    let error = line.router.run_in(open).expect("inside").expect_err("refused");
    assert!(
        matches!(error, TcError::NoMarks { interface } if interface == line.outward),
        "{error}"
    );
}
