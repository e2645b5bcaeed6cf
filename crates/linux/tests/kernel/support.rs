//! Shared parts of the tests: time limits, namespaces connected by veth pairs, UDP inside them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::{Flow, Installation, InterfaceId, Rate};
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::netns::Namespace;
use earmark_linux::{ClassifierChoice, LinkPlan, Mirror, TrafficControl, Update, link};
use libtest_mimic::Failed;

/// Time limit of a test, sufficient even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Time limit of a wait for an expected event.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Runs a test on a thread of its own; a test that panics or exceeds its time limit fails.
pub(crate) fn with_time_limit(test: impl FnOnce() + Send + 'static) -> Result<(), Failed> {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(catch_unwind(AssertUnwindSafe(test))));
    match outcome.recv_timeout(LIMIT) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&t| t.to_owned()));
            Err(text.unwrap_or_else(|| "panicked".into()).into())
        }
        Err(_) => Err(format!("not done within {LIMIT:?}").into()),
    }
}

/// Returns a namespace that the kernel deletes with this process, however that ends.
pub(crate) fn namespace() -> Namespace {
    Namespace::unnamed().expect("a namespace")
}

/// `sender` 10.77.1.1 -- 10.77.1.2 `router` 10.77.2.2 -- 10.77.2.1 `receiver`, all interfaces up, all routes set.
pub(crate) struct Line {
    pub(crate) sender: Namespace,
    pub(crate) router: Namespace,
    pub(crate) receiver: Namespace,
    /// The router's interfaces towards the sender and the receiver.
    pub(crate) inward: InterfaceId,
    pub(crate) outward: InterfaceId,
}

pub(crate) const SENDER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
pub(crate) const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);

impl Line {
    pub(crate) fn new() -> Line {
        let (sender, router, receiver) = (namespace(), namespace(), namespace());
        let (_, inward) =
            link::create_veth(&sender, "right", &router, "left").expect("a veth pair");
        let (outward, _) =
            link::create_veth(&router, "right", &receiver, "left").expect("a veth pair");
        for (namespace, name, address) in [
            (&sender, "right", [10, 77, 1, 1]),
            (&router, "left", [10, 77, 1, 2]),
            (&router, "right", [10, 77, 2, 2]),
            (&receiver, "left", [10, 77, 2, 1]),
        ] {
            link::add_address(namespace, name, address.into(), 24).expect("an address");
            link::set_up(namespace, name, true).expect("an interface that is up");
        }
        link::sysctl(&router, "net.ipv4.ip_forward", "1").expect("forwarding");
        let everywhere = "0.0.0.0/0".parse().expect("a prefix");
        link::add_route(&sender, everywhere, [10, 77, 1, 2].into()).expect("a route");
        link::add_route(&receiver, everywhere, [10, 77, 2, 2].into()).expect("a route");
        // The kernel takes a moment to detect a carrier.
        for (namespace, name) in
            [(&sender, "right"), (&router, "left"), (&router, "right"), (&receiver, "left")]
        {
            eventually("the interfaces are up", || is_up(namespace, name));
        }
        Line { sender, router, receiver, inward, outward }
    }

    /// Adds IPv6 addresses to the line: 2001:db8:1::/64 on the sender's side, 2001:db8:2::/64 on the receiver's.
    pub(crate) fn add_ipv6(&self) {
        for (namespace, name, address) in [
            (&self.sender, "right", "2001:db8:1::1"),
            (&self.router, "left", "2001:db8:1::2"),
            (&self.router, "right", "2001:db8:2::2"),
            (&self.receiver, "left", "2001:db8:2::1"),
        ] {
            let address = address.parse().expect("an address");
            link::add_address(namespace, name, address, 64).expect("added");
        }
        link::sysctl(&self.router, "net.ipv6.conf.all.forwarding", "1").expect("forwarding");
        for (namespace, gateway) in
            [(&self.sender, "2001:db8:1::2"), (&self.receiver, "2001:db8:2::2")]
        {
            let gateway = gateway.parse().expect("an address");
            link::add_route(namespace, "::/0".parse().expect("a prefix"), gateway)
                .expect("a route");
        }
    }

    /// Sends packets in both directions until the neighbours are resolved: the kernel drops packets that wait too long
    /// for that.
    pub(crate) fn meet_in_ipv6(&self) {
        let [a, b] = [(&self.sender, "[2001:db8:1::1]:9"), (&self.receiver, "[2001:db8:2::1]:9")]
            .map(|(namespace, address)| {
                let bind = || UdpSocket::bind(address);
                namespace.run_in(bind).expect("inside").expect("a socket")
            });
        for socket in [&a, &b] {
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        }
        for (from, to) in [(&a, &b), (&b, &a)] {
            eventually("packets pass", || {
                let _ = from.send_to(b"hello", to.local_addr().expect("bound"));
                to.recv(&mut [0; 16]).is_ok()
            });
        }
    }

    /// Returns a plan for the router's link to the receiver: 10 Mbit/s, of which 8 can be reserved.
    pub(crate) fn plan(&self) -> LinkPlan {
        plan(self.outward)
    }

    /// Opens traffic control in the router; returns also the adopted flows.
    pub(crate) fn open(
        &self,
        plan: &LinkPlan,
        choice: ClassifierChoice,
    ) -> (TrafficControl, Vec<Flow>) {
        let (control, adopted) = self
            .router
            .run_in(|| TrafficControl::open(std::slice::from_ref(plan), choice))
            .expect("inside")
            .expect("traffic control");
        assert_eq!(control.classifier(), choice);
        (control, adopted.into_iter().map(|adopted| adopted.flow).collect())
    }

    /// Opens a socket of the sender from `port` to the receiver.
    pub(crate) fn source(&self, port: u16) -> UdpSocket {
        let address = SocketAddr::from((SENDER, port));
        self.sender.run_in(|| UdpSocket::bind(address)).expect("inside").expect("a socket")
    }

    /// Opens a socket of the receiver on `port`, with a large receive buffer.
    pub(crate) fn sink(&self, port: u16) -> UdpSocket {
        let address = SocketAddr::from((RECEIVER, port));
        let socket =
            self.receiver.run_in(|| UdpSocket::bind(address)).expect("inside").expect("a socket");
        let socket = socket2::Socket::from(socket);
        socket.set_recv_buffer_size(8 << 20).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        socket.into()
    }
}

/// Whether packets can leave through an interface.
fn is_up(namespace: &Namespace, name: &str) -> bool {
    // A query for one interface makes the kernel check its carrier now (Linux 6.8 and later), not within a second.
    link::index(namespace, name).expect("an answer");
    let dump = || Mirror::open()?.initial();
    let updates = namespace.run_in(dump).expect("inside").expect("a dump");
    updates.iter().any(|u| matches!(u, Update::Interface(state) if state.name == name && state.up))
}

/// Returns UDP from the sender's `source_port` to the receiver's `port`.
pub(crate) fn flow(source_port: u16, port: u16) -> Flow {
    Flow {
        destination: IpAddr::V4(RECEIVER),
        source: Some(IpAddr::V4(SENDER)),
        protocol: 17,
        destination_port: port,
        source_port,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}

/// Returns a plan of 10 Mbit/s, of which 8 can be reserved.
pub(crate) fn plan(interface: InterfaceId) -> LinkPlan {
    LinkPlan::new(interface, Rate::from_mbps(10), Rate::from_mbps(8))
}

/// Returns a demand with a bucket of two packets at a rate.
pub(crate) fn demand(rate: Rate) -> Demand {
    Demand {
        service: Service::ControlledLoad,
        rate,
        burst: 3_000,
        max_packet: 1_500,
        min_packet: 0,
    }
}

/// Returns a reservation on the router's link to the receiver.
pub(crate) fn installation(line: &Line, slot: u32, flow: Flow, rate: Rate) -> Installation {
    let claim = ClaimId { slot, generation: 0 };
    Installation { claim, interface: line.outward, flow, demand: demand(rate) }
}

/// Repeats a check until it succeeds; panics with `what` after the time limit.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIME_LIMIT, "not within {TIME_LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a netlink request in a namespace, as another program would.
pub(crate) fn request_as_other_program(namespace: &Namespace, message: Message) {
    let request = || Connection::open()?.request("change traffic control", message);
    namespace.run_in(request).expect("inside").expect("the kernel agrees");
}

/// Returns the fixed part of a traffic-control message (`struct tcmsg`).
pub(crate) fn tc_header(interface: InterfaceId, handle: u32, parent: u32) -> Vec<u8> {
    let words = [0, interface.0, handle, parent, 0];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Runs `ip` in a namespace.
pub(crate) fn ip(namespace: &Namespace, arguments: &[&str]) {
    let run = || Command::new("ip").args(arguments).output();
    let output = namespace.run_in(run).expect("inside").expect("ip runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments:?}: {said}");
}

/// Returns the words of a command.
pub(crate) fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}
