//! The mirror of interfaces and routes.

use std::collections::BTreeMap;

use earmark_core::{InterfaceId, Prefix, Route};
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::{InterfaceState, Mirror, Update, link};

use crate::support::{Line, eventually};

/// What a reader of the updates knows.
#[derive(Debug, Default, PartialEq)]
struct Known {
    interfaces: BTreeMap<InterfaceId, InterfaceState>,
    routes: Vec<Route>,
    resyncs: u32,
}

impl Known {
    /// Every update must make sense after those before it.
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
            Update::Resynced => self.resyncs += 1,
        }
    }

    fn route(&self, prefix: &str) -> Option<&Route> {
        let prefix: Prefix = prefix.parse().expect("a prefix");
        self.routes.iter().find(|route| route.prefix == prefix)
    }
}

fn open(line: &Line) -> (Mirror, Known) {
    open_with_room(line, 1 << 20)
}

fn open_with_room(line: &Line, room: u32) -> (Mirror, Known) {
    let open = || Mirror::open_with_room(room);
    let mut mirror = line.router.run_in(open).expect("inside").expect("a mirror");
    let mut known = Known::default();
    mirror.initial().expect("a dump").into_iter().for_each(|update| known.take(update));
    (mirror, known)
}

fn take(mirror: &mut Mirror, known: &mut Known) {
    mirror.receive(|update| known.take(update)).expect("announcements");
}

/// A dump finds nothing that the announcements did not tell.
fn assert_complete(mirror: &mut Mirror) {
    let mut updates = Vec::new();
    mirror.resync(|update| updates.push(update)).expect("a dump");
    assert_eq!(updates, [Update::Resynced]);
}

pub(crate) fn follows() {
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
    eventually("the dust has settled", || mirror.receive(|u| known.take(u)).expect("fine") == 0);
    assert_complete(&mut mirror);
}

/// The kernel flushes the routes of the link without a word.
pub(crate) fn link_down() {
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
    assert!(known.resyncs > 1, "by a dump, since nothing else tells");
    assert_complete(&mut mirror);
}

/// More announcements than the socket holds: some are lost, and the mirror is right nevertheless.
pub(crate) fn burst() {
    let line = Line::new();
    let (mut mirror, mut known) = open_with_room(&line, 64 << 10);
    let add = |n: u32| {
        let destination = (0x0b00_0000 + n).to_be_bytes();
        let header = [2, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        Message::new(24, 0x600) // RTM_NEWROUTE, to be created
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
    assert_complete(&mut mirror);
}
