//! Reservations are on the links that carry their data, if the kernel hashes flows over several next hops, and if policy rules
//! route them elsewhere.
//!
//! A router has two links to the receiver. Two hundred flows reserve, then send; the router's class counters must show each
//! packet in the class of its flow, on the link that the kernel chose.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use earmark_control::Client;
use earmark_control::protocols::boomerang as loops;
use earmark_control::protocols::nsis::request as nsis_request;
use earmark_control::protocols::yessir;
use earmark_control::{ListenRequest, Opened, PathRequest, Request, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::link;
use earmark_node::ReservationRow;
use libtest_mimic::Failed;

use crate::host::{Host, Outcome, await_carrier, check, until};

const FLOWS: usize = 200;
/// Packets of each flow in one comparison.
const PACKETS: u64 = 2;

/// Protocol that reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    Rsvp,
    Boomerang,
    Yessir,
    Nsis,
}

impl Speaks {
    fn name(self) -> &'static str {
        match self {
            Speaks::Rsvp => "rsvp",
            Speaks::Boomerang => "boomerang",
            Speaks::Yessir => "yessir",
            Speaks::Nsis => "nsis",
        }
    }
}

/// Source and destination of a flow.
type Ends = (SocketAddr, SocketAddr);
/// Reservations by flow: the interface of each, and the packets that it carried.
type Rows = BTreeMap<Ends, (String, u64)>;

/// `sender` -- `router` == `receiver`, with 10.0.9.0/29 behind both links.
pub(crate) struct Fork {
    pub(crate) sender: Host,
    pub(crate) router: Host,
    pub(crate) receiver: Host,
    flows: Vec<Ends>,
    sockets: Vec<UdpSocket>,
}

pub(crate) fn rsvp_is_on_the_link_of_its_flow() -> Outcome {
    each_policy(Speaks::Rsvp)
}

/// The kernel reports the next hops of IPv6 flows for the policies 0 to 2.
pub(crate) fn rsvp_is_on_the_link_of_its_ipv6_flow() -> Outcome {
    let mut fork = Fork::new()?;
    fork.add_ipv6()?;
    let route = "-6 route replace fd09::/64 nexthop via fd02::2 nexthop via fd03::2";
    fork.ip(route)?;
    fork.start(Speaks::Rsvp)?;
    fork.reserve(Speaks::Rsvp)?;
    let both = fork.compare(Speaks::Rsvp, "IPv6, policy 0")?;
    check(both.iter().all(|&count| count > FLOWS / 10), &format!("both links are used: {both:?}"))?;
    for policy in [1, 2] {
        let key = "net.ipv6.fib_multipath_hash_policy";
        link::sysctl(&fork.router.namespace, key, &policy.to_string())?;
        fork.compare(Speaks::Rsvp, &format!("IPv6, policy {policy}"))?;
    }
    fork.ip("-6 route del fd09::/64 via fd03::2")?;
    let one = fork.compare(Speaks::Rsvp, "IPv6, one is left")?;
    check(one == [FLOWS, 0], &format!("one link is used: {one:?}"))?;
    for command in [
        "-6 route add fd09::/64 via fd03::2 table 200",
        "-6 rule add iif eth0 from fd01::4/126 lookup 200",
    ] {
        fork.ip(command)?;
    }
    let both = fork.compare(Speaks::Rsvp, "IPv6, a rule")?;
    check(both.iter().all(|&count| count > 0), &format!("both links are used: {both:?}"))?;
    fork.counters()
}

/// A host's own packets carry a mark that a policy rule matches.
pub(crate) fn reservations_follow_the_marks_of_the_settings() -> Outcome {
    let mut fork = Fork::new()?;
    for command in [
        "route add 10.0.9.0/29 via 10.0.2.2",
        "route add 10.0.9.0/29 via 10.0.3.2 table 200",
        "rule add fwmark 7 lookup 200",
    ] {
        fork.ip(command)?;
    }
    let flows = (0..40).map(|n: u16| {
        let address = |net, last: u16| IpAddr::from([10, 0, net, last as u8]);
        ((address(1, 254), 10_000 + n).into(), (address(9, 1 + n % 6), 7_000 + n % 2).into())
    });
    fork.flows = flows.collect();
    let bind = || fork.flows.iter().map(|(from, _)| UdpSocket::bind(from)).collect();
    let sockets: std::io::Result<Vec<UdpSocket>> = fork.router.namespace.run_in(bind)?;
    fork.sockets = sockets?;
    for (socket, (_, to)) in fork.sockets.iter().zip(&fork.flows) {
        socket2::SockRef::from(socket).set_mark(if to.port() == 7_001 { 7 } else { 0 })?;
    }
    let mark = "[[mark]]\nmark = 7\nto = \"10.0.9.0/29\"\nip_protocol = 17\nport = 7001\n";
    fork.router.start(&format!("{}{mark}", settings(&["eth1", "eth2"])))?;
    fork.receiver.start(&settings(&["eth1", "eth2"]))?;
    fork.reserve_from(&fork.router, Speaks::Rsvp)?;
    let both = fork.compare(Speaks::Rsvp, "marks")?;
    check(both == [20, 20], &format!("{both:?}"))
}

pub(crate) fn boomerang_is_on_the_link_of_its_flow() -> Outcome {
    each_policy(Speaks::Boomerang)
}

pub(crate) fn yessir_is_on_the_link_of_its_flow() -> Outcome {
    each_policy(Speaks::Yessir)
}

pub(crate) fn nsis_is_on_the_link_of_its_flow() -> Outcome {
    each_policy(Speaks::Nsis)
}

/// Whether the tools that these tests need are installed.
pub(crate) fn has_iproute2() -> bool {
    Command::new("ip").arg("-V").output().is_ok()
}

/// Tests each hash policy with existing reservations; then groups of nexthop objects, the loss of one, and rules.
fn each_policy(protocol: Speaks) -> Outcome {
    let mut fork = Fork::new()?;
    let route = "route replace 10.0.9.0/29 nexthop via 10.0.2.2 nexthop via 10.0.3.2";
    fork.ip(route)?;
    fork.start(protocol)?;
    fork.reserve(protocol)?;
    let both = fork.compare(protocol, "policy 0")?;
    check(both.iter().all(|&count| count > FLOWS / 10), &format!("both links are used: {both:?}"))?;
    for policy in 1..4 {
        let key = "net.ipv4.fib_multipath_hash_policy";
        link::sysctl(&fork.router.namespace, key, &policy.to_string())?;
        fork.compare(protocol, &format!("policy {policy}"))?;
    }
    for command in [
        "nexthop add id 1 via 10.0.2.2 dev eth1",
        "nexthop add id 2 via 10.0.3.2 dev eth2",
        "nexthop add id 10 group 1,1/2,3",
        "nexthop add id 11 group 1/2 type resilient buckets 32 idle_timer 3600",
    ] {
        fork.ip(command)?;
    }
    for group in [10, 11] {
        fork.ip(&format!("route replace 10.0.9.0/29 nhid {group}"))?;
        let both = fork.compare(protocol, &format!("group {group}"))?;
        check(both.iter().all(|&count| count > 0), &format!("both links are used: {both:?}"))?;
    }
    fork.ip("nexthop del id 2")?;
    let one = fork.compare(protocol, "one is left")?;
    check(one == [FLOWS, 0], &format!("one link is used: {one:?}"))?;
    fork.ip(route)?;
    fork.compare(protocol, "both again")?;
    // A next hop changes ten times a second for two seconds.
    for turn in 0..20 {
        let weight = 1 + turn % 2;
        fork.ip(&format!(
            "route replace 10.0.9.0/29 nexthop via 10.0.2.2 nexthop via 10.0.3.2 weight {weight}"
        ))?;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    fork.compare(protocol, "after it flapped")?;
    for command in [
        "route add 10.0.9.0/29 via 10.0.2.2 table 100",
        "route add 10.0.9.0/29 via 10.0.3.2 table 200",
        "rule add iif eth0 from 10.0.1.0/30 lookup 100",
        "rule add iif eth0 from 10.0.1.4/30 lookup 200",
    ] {
        fork.ip(command)?;
    }
    let both = fork.compare(protocol, "rules")?;
    check(both.iter().all(|&count| count > 0), &format!("both links are used: {both:?}"))?;
    fork.ip("route replace 10.0.9.0/29 via 10.0.2.2 table 200")?;
    let one = fork.compare(protocol, "a route of another table")?;
    check(one == [FLOWS, 0], &format!("one link is used: {one:?}"))?;
    fork.ip("rule del iif eth0 from 10.0.1.4/30 lookup 200")?;
    fork.compare(protocol, "a rule less")?;
    fork.counters()
}

impl Fork {
    pub(crate) fn new() -> Result<Fork, Failed> {
        let (sender, router, receiver) = (Host::new("s")?, Host::new("r")?, Host::new("t")?);
        for host in [&sender, &router, &receiver] {
            for (key, value) in [
                ("net.ipv6.conf.default.disable_ipv6", "1"),
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.default.rp_filter", "0"),
            ] {
                link::sysctl(&host.namespace, key, value)?;
            }
        }
        link::create_veth(&sender.namespace, "eth0", &router.namespace, "eth0")?;
        link::create_veth(&router.namespace, "eth1", &receiver.namespace, "eth1")?;
        link::create_veth(&router.namespace, "eth2", &receiver.namespace, "eth2")?;
        for (host, name, address) in [
            (&router, "eth0", "10.0.1.254"),
            (&router, "eth1", "10.0.2.1"),
            (&receiver, "eth1", "10.0.2.2"),
            (&router, "eth2", "10.0.3.1"),
            (&receiver, "eth2", "10.0.3.2"),
        ] {
            link::add_address(&host.namespace, name, address.parse()?, 24)?;
            link::set_up(&host.namespace, name, true)?;
        }
        for last in 1..=7 {
            link::add_address(&sender.namespace, "eth0", Ipv4Addr::new(10, 0, 1, last).into(), 24)?;
        }
        link::set_up(&sender.namespace, "eth0", true)?;
        link::set_up(&receiver.namespace, "lo", true)?;
        for last in 1..=6 {
            link::add_address(&receiver.namespace, "lo", Ipv4Addr::new(10, 0, 9, last).into(), 32)?;
        }
        link::sysctl(&router.namespace, "net.ipv4.ip_forward", "1")?;
        link::add_route(&sender.namespace, "0.0.0.0/0".parse()?, "10.0.1.254".parse()?)?;
        link::add_route(&receiver.namespace, "10.0.1.0/24".parse()?, "10.0.2.1".parse()?)?;
        for (host, names) in [
            (&sender, &["eth0"][..]),
            (&router, &["eth0", "eth1", "eth2"]),
            (&receiver, &["eth1", "eth2"]),
        ] {
            names.iter().try_for_each(|name| await_carrier(host, name))?;
        }
        let flows: Vec<Ends> = (0..FLOWS as u16)
            .map(|n| {
                let (from, to) = (1 + n % 7, 1 + (n / 7) % 6);
                // Even ports, as for RTP, in irregular order.
                let (a, b) = (10_000 + n.wrapping_mul(7_919) % 20_000 * 2, 6_000 + n * 2);
                let address = |net, last: u16| IpAddr::from([10, 0, net, last as u8]);
                ((address(1, from), a).into(), (address(9, to), b).into())
            })
            .collect();
        let bind = || flows.iter().map(|(from, _)| UdpSocket::bind(from)).collect();
        let sockets: std::io::Result<Vec<UdpSocket>> = sender.namespace.run_in(bind)?;
        Ok(Fork { sender, router, receiver, flows, sockets: sockets? })
    }

    /// Runs `ip` in the router.
    pub(crate) fn ip(&self, command: &str) -> Outcome {
        let run = || Command::new("ip").args(command.split_whitespace()).output();
        let output = self.router.namespace.run_in(run)??;
        let said = String::from_utf8_lossy(&output.stderr);
        check(output.status.success(), &format!("ip {command}: {said}"))
    }

    /// Adds IPv6 flows: fd01::/64 at the sender, fd02::/64 and fd03::/64 on the links, fd09::/64 behind them.
    pub(crate) fn add_ipv6(&mut self) -> Outcome {
        for (host, name, addresses) in [
            (&self.sender, "eth0", &(1..=7).map(|n| format!("fd01::{n}")).collect::<Vec<_>>()),
            (&self.router, "eth0", &vec!["fd01::ff".into()]),
            (&self.router, "eth1", &vec!["fd02::1".into()]),
            (&self.receiver, "eth1", &vec!["fd02::2".into()]),
            (&self.router, "eth2", &vec!["fd03::1".into()]),
            (&self.receiver, "eth2", &vec!["fd03::2".into()]),
            (&self.receiver, "lo", &(1..=6).map(|n| format!("fd09::{n}")).collect::<Vec<_>>()),
        ] {
            let key = format!("net.ipv6.conf.{name}.disable_ipv6");
            link::sysctl(&host.namespace, &key, "0")?;
            for address in addresses {
                let length = if name == "lo" { 128 } else { 64 };
                link::add_address(&host.namespace, name, address.parse()?, length)?;
            }
        }
        link::sysctl(&self.router.namespace, "net.ipv6.conf.all.forwarding", "1")?;
        // The kernel's hash of policy 0 includes the flow label, which by default a host generates for each socket.
        link::sysctl(&self.sender.namespace, "net.ipv6.auto_flowlabels", "0")?;
        link::add_route(&self.sender.namespace, "::/0".parse()?, "fd01::ff".parse()?)?;
        link::add_route(&self.receiver.namespace, "fd01::/64".parse()?, "fd02::1".parse()?)?;
        let six = |end: SocketAddr| match end.ip() {
            IpAddr::V4(address) => {
                let [_, _, net, last] = address.octets();
                let address = format!("fd{net:02}::{last}").parse().unwrap_or(end.ip());
                SocketAddr::from((address, end.port()))
            }
            IpAddr::V6(_) => end,
        };
        self.flows = self.flows.iter().map(|&(from, to)| (six(from), six(to))).collect();
        let bind = || self.flows.iter().map(|(from, _)| UdpSocket::bind(from)).collect();
        let sockets: std::io::Result<Vec<UdpSocket>> = self.sender.namespace.run_in(bind)?;
        self.sockets = sockets?;
        Ok(())
    }

    fn start(&mut self, protocol: Speaks) -> Outcome {
        self.sender.start(&settings(&["eth0"]))?;
        self.router.start(&settings(&["eth0", "eth1", "eth2"]))?;
        // The far end of a loop need not speak Boomerang.
        if protocol != Speaks::Boomerang {
            self.receiver.start(&settings(&["eth1", "eth2"]))?;
        }
        Ok(())
    }

    fn reserve(&self, protocol: Speaks) -> Outcome {
        self.reserve_from(&self.sender, protocol)
    }

    fn reserve_from(&self, host: &Host, protocol: Speaks) -> Outcome {
        let rate = Rate::from_bps(100_000);
        let mut sender = host.client()?;
        let mut listener: Option<Client> = match protocol {
            Speaks::Boomerang | Speaks::Yessir => None,
            _ => Some(self.receiver.client()?),
        };
        for &(from, to) in &self.flows {
            let request = match protocol {
                Speaks::Rsvp => {
                    if let Some(listener) = &mut listener {
                        listener.listen(ListenRequest::new(to))?;
                    }
                    Request::Reserve(ReservationRequest {
                        from: Some(from),
                        ..ReservationRequest::new(to, rate)
                    })
                }
                Speaks::Boomerang => Request::Reserve(ReservationRequest {
                    from: Some(from),
                    ..loops::request(to, rate, Rate::ZERO)
                }),
                Speaks::Yessir => {
                    let options = yessir::ReserveOptions {
                        class: Some(46),
                        interval_s: Some(1),
                        ..yessir::ReserveOptions::default()
                    };
                    let request = yessir::request(from, to, &options);
                    Request::Reserve(ReservationRequest { rate_bps: Some(rate), ..request })
                }
                Speaks::Nsis => {
                    if let Some(listener) = &mut listener {
                        listener.listen(ListenRequest::of("nsis", to))?;
                    }
                    let establish =
                        ReservationRequest { from: Some(from), ..nsis_request(to, rate) };
                    Request::Reserve(establish)
                }
            };
            let _: Opened = sender.call(&request)?;
        }
        Ok(())
    }

    /// The router's reservations of the flows with the packets of their classes: one for each flow, or `None` if a flow has none
    /// or two.
    fn rows(&self, protocol: Speaks) -> Result<Option<Rows>, Failed> {
        let mut rows = BTreeMap::new();
        for row in self.router.client()?.show_reservations()?.rows {
            let Some((ends, interface, packets)) = of_flow(&row, protocol) else { continue };
            if rows.insert(ends, (interface, packets)).is_some() {
                return Ok(None);
            }
        }
        let all = self.flows.iter().all(|flow| rows.contains_key(flow));
        Ok((all && rows.len() == self.flows.len()).then_some(rows))
    }

    /// Waits until the class of its reservation counts each packet of each flow. Returns the number of flows on each link.
    fn compare(&self, protocol: Speaks, what: &str) -> Result<[usize; 2], Failed> {
        let what =
            format!("{}, {what}: all packets are in the classes of their flows", protocol.name());
        let carried = until(&what, || {
            let Some(before) = self.rows(protocol)? else { return Ok(None) };
            for (socket, (_, to)) in self.sockets.iter().zip(&self.flows) {
                for _ in 0..PACKETS {
                    socket.send_to(&[0; 100], to)?;
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            let Some(after) = self.rows(protocol)? else { return Ok(None) };
            let grown = before.iter().zip(&after).all(|((_, before), (_, after))| {
                before.0 == after.0 && after.1 == before.1 + PACKETS
            });
            Ok(grown.then_some(after))
        })?;
        self.check_paths(protocol, &carried, &what)?;
        Ok(["eth1", "eth2"].map(|name| carried.values().filter(|(link, _)| link == name).count()))
    }

    /// Checks that the daemon reports the link of some flows, and the reservation that their packets get there.
    fn check_paths(&self, protocol: Speaks, carried: &Rows, what: &str) -> Outcome {
        let mut client = self.router.client()?;
        for (&(from, to), (link, _)) in carried.iter().step_by(FLOWS / 8) {
            let asked = PathRequest { from: Some(from), ..PathRequest::new(to) };
            let answer = client.path(asked)?;
            let governing = answer.claims.first().and_then(|claim| claim.reservation.as_ref());
            let is_it = governing.is_some_and(|row| {
                of_flow(row, protocol)
                    .is_some_and(|(ends, on, _)| (ends, &on) == ((from, to), link))
            });
            let is_reserved =
                answer.packets.as_ref().is_some_and(|packets| packets.get == "reserved");
            let told = format!("{what}, {from} -> {to}: {answer:#?}");
            check(answer.interface.as_ref() == Some(link) && is_it && is_reserved, &told)?;
        }
        Ok(())
    }

    /// Checks that the kernel was queried about as often as something changed, and without errors.
    fn counters(&self) -> Outcome {
        let counters = self.router.client()?.show_counters()?;
        let routes = &counters["flow_routes"];
        let count = |name: &str| routes[name].as_u64().ok_or(format!("no {name}: {counters}"));
        check(count("malformed")? == 0 && count("refused")? == 0, &routes.to_string())?;
        let asked = count("asked")?;
        check(asked >= FLOWS as u64 && asked < 100 * FLOWS as u64, &routes.to_string())
    }
}

/// Settings of a daemon that takes part on these interfaces.
pub(crate) fn settings(names: &[&str]) -> String {
    let mut text = String::from(
        "[boomerang]\nrefresh = \"1s\"\n[yessir]\nrefresh = \"1s\"\n[nsis]\nrefresh = \"1s\"\n",
    );
    // Packets come from the other side through any of several links.
    let protocols = "role = \"core\"\nprotocols = [\"rsvp\", \"boomerang\", \"yessir\", \"nsis\"]";
    for name in names {
        text += &format!(
            "[[interface]]\nname = \"{name}\"\nbandwidth = \"1Gbit\"\nclasses = 256\n{protocols}\n"
        );
    }
    text
}

fn of_flow(row: &ReservationRow, protocol: Speaks) -> Option<(Ends, String, u64)> {
    let backwards = row.style == "reverse";
    if row.protocol != protocol.name() || backwards {
        return None;
    }
    let sender = row.senders.first()?;
    let ends = (
        SocketAddr::from((sender.address, sender.port)),
        SocketAddr::from((row.destination, row.destination_port)),
    );
    Some((ends, row.interface.clone()?, row.traffic?.packets))
}
