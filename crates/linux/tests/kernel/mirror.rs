//! The mirror of interfaces and routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use earmark_core::{Flow, InterfaceId, MulticastRoute, Prefix, Route};
use earmark_linux::multicast_router::MulticastRouter;
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::{FlowRoutes, InterfaceState, Mirror, Update, link};

use crate::support::{Line, TIME_LIMIT, eventually, flow, ip, words};

/// State of a reader that applies the updates.
#[derive(Debug, Default)]
struct Known {
    interfaces: BTreeMap<InterfaceId, InterfaceState>,
    routes: Vec<Route>,
    multicast: Vec<MulticastRoute>,
    several: BTreeSet<Prefix>,
    rules: [bool; 2],
    /// Prefixes of flows that may have moved.
    moved: Vec<Prefix>,
    resyncs: u32,
}

impl Known {
    /// Applies an update, which must be consistent with those before it.
    fn take(&mut self, update: Update) {
        match update {
            Update::Interface(state) => {
                self.interfaces.insert(state.id, state);
            }
            Update::InterfaceGone(id) => assert!(self.interfaces.remove(&id).is_some()),
            Update::Route(route) => {
                assert!(!self.routes.contains(&route), "announced twice: {route:?}");
                self.routes.push(route);
            }
            Update::RouteGone(route) => {
                let at = self.routes.iter().position(|r| *r == route);
                self.routes.remove(at.unwrap_or_else(|| panic!("never announced: {route:?}")));
            }
            Update::MulticastRoute(route) => {
                let key = (route.source, route.group);
                self.multicast.retain(|r| (r.source, r.group) != key);
                self.multicast.push(route);
            }
            Update::MulticastRouteGone { source, group } => {
                let at = self.multicast.iter().position(|r| (r.source, r.group) == (source, group));
                self.multicast.remove(at.expect("announced before"));
            }
            Update::NextHops { prefix, several: true } => _ = self.several.insert(prefix),
            Update::NextHops { prefix, several: false } => {
                assert!(self.several.remove(&prefix), "never announced: {prefix}");
            }
            Update::Rules { ipv6, apply } => self.rules[usize::from(ipv6)] = apply,
            Update::FlowRoutes(prefix) => self.moved.push(prefix),
            Update::Resynced => self.resyncs += 1,
        }
    }

    /// Whether both have the same state, in any order of the updates.
    fn agrees_with(&self, other: &Known) -> bool {
        fn same<T: PartialEq>(ours: &[T], theirs: &[T]) -> bool {
            ours.len() == theirs.len() && ours.iter().all(|one| theirs.contains(one))
        }
        self.interfaces == other.interfaces
            && same(&self.routes, &other.routes)
            && same(&self.multicast, &other.multicast)
            && (&self.several, self.rules) == (&other.several, other.rules)
    }

    fn route(&self, prefix: &str) -> Option<&Route> {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        self.routes.iter().find(|route| route.prefix == prefix)
    }
}

fn open(line: &Line) -> (Mirror, Known) {
    open_with_buffer(line, 1 << 20)
}

fn open_with_buffer(line: &Line, buffer_size: u32) -> (Mirror, Known) {
    let open = || Mirror::open_with_buffer(buffer_size);
    let mut mirror = line.router.run_in(open).expect("inside").expect("a mirror");
    let mut known = Known::default();
    mirror.initial().expect("a dump").into_iter().for_each(|update| known.take(update));
    (mirror, known)
}

fn take(mirror: &mut Mirror, known: &mut Known) {
    mirror.receive(|update| known.take(update)).expect("announcements");
}

/// Asserts that a new mirror finds nothing that this one has not reported. IPv6 changes follow for some seconds after a
/// link is up, so the two need not agree at once.
fn assert_complete(line: &Line, mirror: &mut Mirror, known: &mut Known) {
    let mut found = Known::default();
    let start = Instant::now();
    while start.elapsed() < TIME_LIMIT {
        take(mirror, known);
        (_, found) = open(line);
        if known.agrees_with(&found) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("known: {known:#?}, there: {found:#?}");
}

pub(crate) fn changed_addresses_and_routes_are_reported() {
    let line = Line::new();
    let (mut mirror, mut known) = open(&line);
    let state = &known.interfaces[&line.outward];
    assert_eq!((state.name.as_str(), state.mtu, state.up), ("right", 1_500, true));
    assert_eq!(state.addresses.first(), Some(&[10, 77, 2, 2].into()));
    let connected = known.route("10.77.2.0/24").expect("the connected subnet");
    assert_eq!((connected.hop.interface, connected.hop.gateway), (line.outward, None));
    assert!(known.route("10.77.2.2/32").is_some(), "the local table");

    let prefix: Prefix = "10.88.0.0/16".parse().expect("a prefix");
    link::add_route(&line.router, prefix, [10, 77, 2, 1].into()).expect("a route");
    eventually("the route is announced", || {
        take(&mut mirror, &mut known);
        known.route("10.88.0.0/16").is_some_and(|r| r.hop.gateway == Some([10, 77, 2, 1].into()))
    });
    link::remove_route(&line.router, prefix).expect("removed");
    eventually("the route is gone", || {
        take(&mut mirror, &mut known);
        known.route("10.88.0.0/16").is_none()
    });
    let six = "2001:db8:77::2".parse().expect("an address");
    link::add_address(&line.router, "right", six, 64).expect("an address");
    link::set_mtu(&line.router, "right", 1_400).expect("an MTU");
    eventually("the address and the MTU are announced", || {
        take(&mut mirror, &mut known);
        let state = &known.interfaces[&line.outward];
        state.mtu == 1_400 && state.addresses.contains(&six)
    });
    eventually("the IPv6 subnet is announced", || {
        take(&mut mirror, &mut known);
        known.route("2001:db8:77::/64").is_some()
    });
    link::delete(&line.router, "left").expect("deleted");
    eventually("the interface is gone", || {
        take(&mut mirror, &mut known);
        !known.interfaces.contains_key(&line.inward) && known.route("10.77.1.0/24").is_none()
    });
    assert_complete(&line, &mut mirror, &mut known);
}

/// The kernel flushes the routes of the link without an announcement.
pub(crate) fn link_that_goes_down_removes_its_routes() {
    let line = Line::new();
    for n in 0..50 {
        let prefix = Prefix::new([10, 99, n, 0].into(), 24);
        link::add_route(&line.router, prefix, [10, 77, 2, 1].into()).expect("a route");
    }
    let (mut mirror, mut known) = open(&line);
    assert!(known.route("10.99.49.0/24").is_some());
    link::set_up(&line.router, "right", false).expect("down");
    eventually("the link and its routes are gone", || {
        take(&mut mirror, &mut known);
        !known.interfaces[&line.outward].up
            && !known
                .routes
                .iter()
                .any(|r| r.hop.interface == line.outward && r.prefix.length() == 24)
    });
    assert!(known.resyncs > 1, "by a dump: nothing was announced");
    assert_complete(&line, &mut mirror, &mut known);
}

/// More announcements than the socket holds: some are lost, and the mirror is correct nevertheless.
pub(crate) fn burst_that_overflows_the_socket_is_resynchronized() {
    let line = Line::new();
    let (mut mirror, mut known) = open_with_buffer(&line, 64 << 10);
    let add = |n: u32| {
        let destination = (0x0b00_0000 + n).to_be_bytes();
        let header = [2, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        Message::new(24, 0x600) // RTM_NEWROUTE with create flags
            .fixed(&header)
            .attribute(1, &destination)
            .attribute(5, &[10, 77, 2, 1])
    };
    const COUNT: u32 = 2_000;
    let all = || Connection::open()?.request_all("add routes", (0..COUNT).map(add));
    line.router.run_in(all).expect("inside").expect("added");
    let resyncs = known.resyncs;
    eventually("all routes are known", || {
        take(&mut mirror, &mut known);
        known.routes.len() > COUNT as usize
    });
    assert!(known.resyncs > resyncs, "announcements were lost");
    assert_complete(&line, &mut mirror, &mut known);
}

/// Multicast forwarding entries of both families are added, changed and removed; those of a router that ends are
/// removed.
pub(crate) fn multicast_forwarding_entry_is_reported() {
    let line = Line::new();
    line.add_ipv6();
    for (source, group) in [("10.77.1.1", "239.1.2.3"), ("2001:db8:1::1", "ff3e::1:2")] {
        let (source, group): (IpAddr, IpAddr) =
            (source.parse().expect("an address"), group.parse().expect("an address"));
        let (mut mirror, mut known) = open(&line);
        let interfaces = [line.inward, line.outward];
        let router = MulticastRouter::start(&line.router, group.is_ipv4(), &interfaces);
        let router = router.expect("a multicast router");
        let mut route = MulticastRoute {
            source: Some(source),
            group,
            incoming: Some(line.inward),
            outgoing: vec![line.outward],
        };
        router.set_route(&route).expect("entered");
        eventually("the entry is announced", || {
            take(&mut mirror, &mut known);
            known.multicast == [route.clone()]
        });
        let (_, later) = open(&line);
        assert_eq!(later.multicast, [route.clone()], "dumped as it was announced");
        route.outgoing.clear();
        router.set_route(&route).expect("changed");
        eventually("the change is announced", || {
            take(&mut mirror, &mut known);
            known.multicast == [route.clone()]
        });
        router.remove_route(&route).expect("removed");
        eventually("its end is announced", || {
            take(&mut mirror, &mut known);
            known.multicast.is_empty()
        });
        router.set_route(&route).expect("entered again");
        drop(router);
        eventually("nothing is left", || {
            take(&mut mirror, &mut known);
            let (_, later) = open(&line);
            known.multicast.is_empty() && later.multicast.is_empty()
        });
        assert_complete(&line, &mut mirror, &mut known);
    }
}

/// A route that prefers an address is removed with it, and one of two next hops fails with its link and recovers:
/// neither is announced as a change of routes.
pub(crate) fn unannounced_change_is_found() {
    let line = Line::new();
    let second = [10, 77, 2, 99].into();
    link::add_address(&line.router, "right", second, 24).expect("an address");
    let (prefix, preferred) = ([10, 88, 0, 0], [10, 77, 2, 99]);
    // RTM_NEWROUTE with create flags: RTA_DST, RTA_GATEWAY, RTA_PREFSRC.
    let message = Message::new(24, 0x600)
        .fixed(&[2, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0])
        .attribute(1, &prefix)
        .attribute(5, &[10, 77, 2, 1])
        .attribute(7, &preferred);
    crate::support::request_as_other_program(&line.router, message);
    let mut paths = Vec::new();
    for (interface, gateway) in [(line.outward, [10, 77, 2, 1]), (line.inward, [10, 77, 1, 1])] {
        paths.extend([16, 0, 0, 0]);
        paths.extend(interface.0.to_ne_bytes());
        paths.extend([8, 0, 5, 0]);
        paths.extend(gateway);
    }
    let message = Message::new(24, 0x600)
        .fixed(&[2, 16, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0])
        .attribute(1, &[10, 89, 0, 0])
        .attribute(9, &paths); // RTA_MULTIPATH
    crate::support::request_as_other_program(&line.router, message);
    let (mut mirror, mut known) = open(&line);
    let interface_of = |known: &Known| known.route("10.89.0.0/16").map(|route| route.hop.interface);
    assert!(known.route("10.88.0.0/16").is_some());
    assert_eq!(interface_of(&known), Some(line.outward));

    // RTM_DELADDR: IFA_LOCAL.
    let [a, b, c, d] = line.outward.0.to_ne_bytes();
    let message = Message::new(21, 0).fixed(&[2, 24, 0, 0, a, b, c, d]).attribute(2, &preferred);
    crate::support::request_as_other_program(&line.router, message);
    eventually("the address takes its route along", || {
        take(&mut mirror, &mut known);
        known.route("10.88.0.0/16").is_none()
            && !known.interfaces[&line.outward].addresses.contains(&second)
    });
    link::set_up(&line.receiver, "left", false).expect("down");
    eventually("the other path is taken", || {
        take(&mut mirror, &mut known);
        interface_of(&known) == Some(line.inward)
    });
    link::set_up(&line.receiver, "left", true).expect("up");
    eventually("the first path is taken again", || {
        take(&mut mirror, &mut known);
        interface_of(&known) == Some(line.outward)
    });
    assert_complete(&line, &mut mirror, &mut known);
}

/// Several next hops, as a multipath route and as nexthop objects: each change is reported, also those that the kernel
/// announces for no route; and so are changes of rules, other tables, and settings.
pub(crate) fn several_next_hops_rules_and_tables_are_reported() {
    let line = Line::new();
    let (mut mirror, mut known) = open(&line);
    assert!(!mirror.flows_differ() && known.several.is_empty() && known.rules == [false; 2]);
    let (own, objects): (Prefix, Prefix) =
        ("10.88.0.0/16".parse().expect("one"), "10.89.0.0/16".parse().expect("another"));
    let two = ["nexthop", "via", "10.77.2.1", "nexthop", "via", "10.77.1.1"];
    ip(&line.router, &[&["route", "add", "10.88.0.0/16"], &two[..]].concat());
    for command in [
        "nexthop add id 1 via 10.77.2.1 dev right",
        "nexthop add id 2 via 10.77.1.1 dev left",
        "nexthop add id 3 via 10.77.1.7 dev left",
        "nexthop add id 10 group 1/2/3",
        "route add 10.89.0.0/16 nhid 10",
    ] {
        ip(&line.router, &words(command));
    }
    eventually("both routes are known to have several", || {
        take(&mut mirror, &mut known);
        known.several == BTreeSet::from([own, objects])
    });
    assert!(mirror.flows_differ());
    let mut change = |mirror: &mut Mirror, command: &str, prefix: Prefix| {
        known.moved.clear();
        known.several.remove(&prefix);
        ip(&line.router, &words(command));
        eventually(command, || {
            take(mirror, &mut known);
            known.several.contains(&prefix) || known.moved.contains(&prefix)
        });
        known.several.insert(prefix);
    };
    change(&mut mirror, "nexthop del id 3", objects);
    change(&mut mirror, "nexthop replace id 10 group 1,5/2", objects);
    change(&mut mirror, "nexthop replace id 2 via 10.77.1.8 dev left", objects);
    change(
        &mut mirror,
        "route replace 10.88.0.0/16 nexthop via 10.77.2.1 weight 3 nexthop via 10.77.1.1",
        own,
    );
    // The rule makes other tables relevant; a route there is reported.
    let everything = Prefix::everything(false);
    ip(&line.router, &words("rule add from 10.77.1.1 lookup 100"));
    eventually("the rule is known", || {
        take(&mut mirror, &mut known);
        known.rules == [true, false]
    });
    known.moved.clear();
    ip(&line.router, &words("route add 10.90.0.0/16 via 10.77.2.1 table 100"));
    eventually("a route of another table is reported", || {
        take(&mut mirror, &mut known);
        known.moved == ["10.90.0.0/16".parse().expect("a prefix")]
    });
    ip(&line.router, &words("rule del from 10.77.1.1 lookup 100"));
    ip(&line.router, &words("nexthop flush"));
    ip(&line.router, &words("route del 10.88.0.0/16"));
    eventually("all is as it was", || {
        take(&mut mirror, &mut known);
        known.several.is_empty()
            && known.rules == [false; 2]
            && known.route("10.89.0.0/16").is_none()
    });
    known.moved.clear();
    mirror.poll(|update| known.take(update)).expect("polled");
    assert!(known.moved.is_empty());
    link::sysctl(&line.router, "net.ipv4.fib_multipath_hash_policy", "1").expect("a policy");
    mirror.poll(|update| known.take(update)).expect("polled");
    assert_eq!(known.moved, [everything]);
    assert_complete(&line, &mut mirror, &mut known);
}

/// A resilient group moves its buckets without an announcement.
pub(crate) fn moved_resilient_buckets_are_found() {
    let line = Line::new();
    let (mut mirror, mut known) = open(&line);
    for command in [
        "nexthop add id 1 via 10.77.2.1 dev right",
        "nexthop add id 2 via 10.77.1.1 dev left",
        "nexthop add id 11 group 1,1/2,1 type resilient buckets 32 idle_timer 1",
        "route add 10.88.0.0/16 nhid 11",
    ] {
        ip(&line.router, &words(command));
    }
    let prefix = "10.88.0.0/16".parse().expect("a prefix");
    eventually("the route is known", || {
        take(&mut mirror, &mut known);
        known.several.contains(&prefix)
    });
    mirror.poll(|update| known.take(update)).expect("polled");
    // Buckets without recent use would move at once. The kernel counts in jiffies, and a bucket that was filled and used
    // in the same jiffy counts as never used.
    std::thread::sleep(Duration::from_millis(50));
    let mut asker =
        line.router.run_in(|| FlowRoutes::open(Vec::new())).expect("inside").expect("a socket");
    for last in 1..=200 {
        let destination = [10, 88, 0, last].into();
        asker.find(&Flow { destination, source: None, ..flow(1, 2) }, None).expect("an answer");
    }
    ip(&line.router, &words("nexthop replace id 11 group 1,7/2,1 type resilient idle_timer 1"));
    take(&mut mirror, &mut known);
    mirror.poll(|update| known.take(update)).expect("polled");
    known.moved.clear();
    // The others move when their timer ends.
    eventually("the moved buckets are reported", || {
        mirror.poll(|update| known.take(update)).expect("polled");
        known.moved.contains(&prefix)
    });
}
