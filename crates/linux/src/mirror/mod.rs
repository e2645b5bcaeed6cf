//! A mirror of the kernel's interfaces and routes, kept by subscription and proven by dumps.
//!
//! The kernel announces changes on a netlink socket. It does not announce all of them: when a link goes down, its IPv4
//! routes vanish in silence; so do the routes that prefer an address which is removed; the paths of a route with several
//! die and revive with their links; and when announcements come faster than they are read, some are lost (`ENOBUFS`). So
//! the mirror keeps what it has told its reader, and on such occasions, and whenever [`Mirror::resync`] is called, dumps
//! the kernel's tables and tells the difference.
//!
//! What is mirrored: all interfaces, their addresses, the unicast and local routes of the tables *main* and *local*, and
//! the multicast forwarding entries of the default table, IPv4 and IPv6. Of a unicast route with several paths, the first
//! usable one. Left out: other tables and the rules that lead to them, routes to nowhere (*unreachable*, *blackhole*,
//! *prohibit*), and multicast entries for every group.

mod decode;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::{Hop, InterfaceId, MulticastRoute, Route};

use crate::link::interface_header;
use crate::netlink::{Answers, Connection, Heard, Message, NetlinkError, Received, Subscription};
use decode::{Address, KernelRoute, Link, RTNL_FAMILY_IP6MR, RTNL_FAMILY_IPMR, RouteKey};

/// Room for announcements, octets: some ten thousand routes.
const ROOM: u32 = 16 << 20;
/// Datagrams of announcements that one call takes: whoever changes routes without pause must not hold up the rest.
const MOST_AT_ONCE: usize = 10_000;
/// What is listened to (`RTNLGRP_...`).
const GROUPS: [u32; 7] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_MROUTE,
    libc::RTNLGRP_IPV6_MROUTE,
];

/// An interface as the kernel shows it; bandwidth and the like are the caller's knowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// Its index.
    pub id: InterfaceId,
    /// Its name.
    pub name: String,
    /// Its usable addresses, the primary one first: of IPv4 in the kernel's order, then of IPv6, link-local ones last.
    pub addresses: Vec<IpAddr>,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Whether packets can leave through it: administratively up, and with a carrier.
    pub up: bool,
}

/// One change of the kernel's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// An interface is new, or is now like this.
    Interface(InterfaceState),
    /// An interface is gone.
    InterfaceGone(InterfaceId),
    /// A route is new. A route that changed is first gone, then new.
    Route(Route),
    /// A route is gone; the value equals the one announced before.
    RouteGone(Route),
    /// A multicast forwarding entry is new, or is now like this.
    MulticastRoute(MulticastRoute),
    /// A multicast forwarding entry is gone.
    MulticastRouteGone {
        /// Whose packets it was for; `None` for every source.
        source: Option<IpAddr>,
        /// To which group.
        group: IpAddr,
    },
    /// The kernel was compared with the mirror as a whole; the updates before this one have put it right.
    Resynced,
}

/// The mirror.
#[derive(Debug)]
pub struct Mirror {
    subscription: Subscription,
    connection: Connection,
    tables: Tables,
}

/// What the reader has been told.
#[derive(Debug, Default)]
struct Tables {
    interfaces: BTreeMap<InterfaceId, InterfaceState>,
    /// Where each route leads. The kernel can hold several of the same key; the first is the one that counts.
    routes: BTreeMap<RouteKey, Vec<Hop>>,
    multicast: BTreeMap<MulticastKey, MulticastRoute>,
}

/// Group and source.
type MulticastKey = (IpAddr, Option<IpAddr>);

impl Mirror {
    /// Subscribes in the network namespace of the calling thread. Nothing is known before [`Mirror::initial`].
    pub fn open() -> Result<Mirror, NetlinkError> {
        Mirror::open_with_room(ROOM)
    }

    /// Subscribes with room for `room` octets of unread announcements, as the kernel counts them: about a thousand a
    /// route. The less room, the more often a dump has to make up for lost ones.
    pub fn open_with_room(room: u32) -> Result<Mirror, NetlinkError> {
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        Ok(Mirror {
            subscription: Subscription::open(&GROUPS, room)?,
            connection: Connection::open()?,
            tables: Tables::default(),
        })
    }

    /// Everything there is now: interfaces first, then routes, then [`Update::Resynced`].
    pub fn initial(&mut self) -> Result<Vec<Update>, NetlinkError> {
        let mut updates = Vec::new();
        self.resync(|update| updates.push(update))?;
        Ok(updates)
    }

    /// Takes what the kernel has announced and hands out what it changed; returns how many changes that were. Never
    /// waits for announcements; lost ones, and links that went down, cost a dump. Where very many wait, some are left
    /// for the next call, and the descriptor stays readable.
    pub fn receive(&mut self, mut each: impl FnMut(Update)) -> Result<usize, NetlinkError> {
        let mut changes = Vec::new();
        let mut dump = false;
        let mut outcome = Ok(());
        for _ in 0..MOST_AT_ONCE {
            match self.subscription.receive() {
                Ok(Heard::Nothing) => break,
                Ok(Heard::Lost) => dump = true,
                Err(error) => {
                    // What was heard before is entered already, so that it has to be handed out.
                    outcome = Err(error);
                    break;
                }
                Ok(Heard::Messages(messages)) => {
                    for message in messages {
                        let tables = &mut self.tables;
                        let entered = message.and_then(|m| tables.apply(&m, &mut changes));
                        // What cannot be read is as good as lost.
                        dump |= entered.unwrap_or_else(|error| {
                            tracing::warn!(%error, "unreadable announcement");
                            true
                        });
                    }
                }
            }
        }
        let count = changes.len();
        changes.into_iter().for_each(&mut each);
        outcome?;
        Ok(count + if dump { self.resync(each)? } else { 0 })
    }

    /// Dumps everything and hands out the differences and [`Update::Resynced`]; returns how many these were. Call it
    /// now and then: the kernel forgets to tell.
    pub fn resync(&mut self, each: impl FnMut(Update)) -> Result<usize, NetlinkError> {
        let now = Tables {
            interfaces: self.dump_interfaces()?,
            routes: self.dump_routes()?,
            multicast: self.dump_multicast()?,
        };
        let before = std::mem::replace(&mut self.tables, now);
        let mut changes = Vec::new();
        self.tables.differences(&before, &mut changes);
        changes.push(Update::Resynced);
        let count = changes.len();
        changes.into_iter().for_each(each);
        Ok(count)
    }

    fn dump_interfaces(&mut self) -> Result<BTreeMap<InterfaceId, InterfaceState>, NetlinkError> {
        let links = Message::new(libc::RTM_GETLINK, 0).fixed(&interface_header(0, 0, 0));
        let links = self.connection.dump("list the interfaces", links)?;
        let mut interfaces = BTreeMap::new();
        for message in &links {
            if let Some(link) = Link::decode(&message?)? {
                interfaces.insert(link.id, with_addresses(link, Vec::new()));
            }
        }
        let addresses = Message::new(libc::RTM_GETADDR, 0).fixed(&[0; 8]);
        for message in &self.connection.dump("list the addresses", addresses)? {
            let Some(found) = Address::decode(&message?)? else {
                continue;
            };
            // An interface that came between the two dumps is announced, and then heard of.
            if let (true, Some(state)) = (found.usable, interfaces.get_mut(&found.interface)) {
                enter_address(&mut state.addresses, found.address);
            }
        }
        Ok(interfaces)
    }

    fn dump_routes(&mut self) -> Result<BTreeMap<RouteKey, Vec<Hop>>, NetlinkError> {
        let mut routes: BTreeMap<RouteKey, Vec<Hop>> = BTreeMap::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            for message in &self.dump_family(family)? {
                if let Some(route) = KernelRoute::decode(&message?)? {
                    routes.entry(route.key).or_default().push(route.hop);
                }
            }
        }
        Ok(routes)
    }

    fn dump_multicast(&mut self) -> Result<BTreeMap<MulticastKey, MulticastRoute>, NetlinkError> {
        let mut entries = BTreeMap::new();
        for family in [RTNL_FAMILY_IPMR, RTNL_FAMILY_IP6MR] {
            for message in &self.dump_family(family)? {
                if let Some(route) = decode::multicast_route(&message?)? {
                    entries.insert((route.group, route.source), route);
                }
            }
        }
        Ok(entries)
    }

    /// All routes of a family; none where the kernel does without that family.
    fn dump_family(&mut self, family: i32) -> Result<Answers, NetlinkError> {
        let mut header = [0; 12];
        header[0] = family as u8;
        let message = Message::new(libc::RTM_GETROUTE, 0).fixed(&header);
        match self.connection.dump("list the routes", message) {
            Err(error) if error.is(libc::EOPNOTSUPP) || error.is(libc::EAFNOSUPPORT) => {
                Ok(Answers::default())
            }
            answers => answers,
        }
    }
}

impl AsFd for Mirror {
    /// The descriptor that becomes readable when the kernel has announced something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}

impl Tables {
    /// What leads from `before` to here.
    fn differences(&self, before: &Tables, changes: &mut Vec<Update>) {
        // Routes go before the interfaces that they lead through, and come after them.
        let keys: BTreeSet<_> = before.routes.keys().chain(self.routes.keys()).copied().collect();
        let mut new = Vec::new();
        for key in keys {
            let (old, now) = (effective(&before.routes, key), effective(&self.routes, key));
            if old != now {
                changes.extend(old.map(Update::RouteGone));
                new.extend(now.map(Update::Route));
            }
        }
        for &(group, source) in before.multicast.keys() {
            if !self.multicast.contains_key(&(group, source)) {
                changes.push(Update::MulticastRouteGone { source, group });
            }
        }
        for id in before.interfaces.keys().filter(|id| !self.interfaces.contains_key(id)) {
            changes.push(Update::InterfaceGone(*id));
        }
        for (id, state) in &self.interfaces {
            if before.interfaces.get(id) != Some(state) {
                changes.push(Update::Interface(state.clone()));
            }
        }
        changes.extend(new);
        for (key, route) in &self.multicast {
            if before.multicast.get(key) != Some(route) {
                changes.push(Update::MulticastRoute(route.clone()));
            }
        }
    }

    /// Enters one announcement. Returns whether it makes a dump necessary: whether it takes routes along, or revives some,
    /// that nobody announces.
    fn apply(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<bool, NetlinkError> {
        match message.kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => self.apply_link(message, changes),
            libc::RTM_NEWADDR | libc::RTM_DELADDR => self.apply_address(message, changes),
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                self.apply_route(message, changes)?;
                self.apply_multicast(message, changes)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn apply_link(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<bool, NetlinkError> {
        let Some(link) = Link::decode(message)? else {
            return Ok(false);
        };
        if message.kind == libc::RTM_DELLINK {
            let was_there = self.interfaces.remove(&link.id).is_some();
            changes.extend(was_there.then_some(Update::InterfaceGone(link.id)));
            return Ok(was_there);
        }
        let before = self.interfaces.get(&link.id);
        let other_state = before.is_some_and(|before| before.up != link.up);
        let state = with_addresses(link, before.map_or(Vec::new(), |b| b.addresses.clone()));
        if before != Some(&state) {
            changes.push(Update::Interface(state.clone()));
            self.interfaces.insert(state.id, state);
        }
        Ok(other_state)
    }

    fn apply_address(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<bool, NetlinkError> {
        let Some(announced) = Address::decode(message)? else {
            return Ok(false);
        };
        let Some(state) = self.interfaces.get_mut(&announced.interface) else {
            return Ok(false);
        };
        let there = message.kind == libc::RTM_NEWADDR && announced.usable;
        if there == state.addresses.contains(&announced.address) {
            return Ok(false);
        }
        if there {
            enter_address(&mut state.addresses, announced.address);
        } else {
            state.addresses.retain(|a| *a != announced.address);
        }
        changes.push(Update::Interface(state.clone()));
        Ok(!there)
    }

    fn apply_route(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<(), NetlinkError> {
        if let Some(route) = KernelRoute::decode(message)? {
            let before = effective(&self.routes, route.key);
            enter_route(message, route, &mut self.routes);
            let now = effective(&self.routes, route.key);
            if before != now {
                changes.extend(before.map(Update::RouteGone));
                changes.extend(now.map(Update::Route));
            }
        }
        Ok(())
    }

    fn apply_multicast(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<(), NetlinkError> {
        let Some(route) = decode::multicast_route(message)? else {
            return Ok(());
        };
        let (group, source) = (route.group, route.source);
        if message.kind == libc::RTM_DELROUTE {
            let was_there = self.multicast.remove(&(group, source)).is_some();
            changes.extend(was_there.then_some(Update::MulticastRouteGone { source, group }));
        } else if self.multicast.get(&(group, source)) != Some(&route) {
            changes.push(Update::MulticastRoute(route.clone()));
            self.multicast.insert((group, source), route);
        }
        Ok(())
    }
}

/// Enters an address where [`InterfaceState::addresses`] wants it. The kernel lists those of IPv6 in the order of their
/// arrival, the youngest first, so that what neighbours see would change with each of them: here they are sorted.
fn enter_address(addresses: &mut Vec<IpAddr>, address: IpAddr) {
    addresses.push(address);
    addresses.sort_by_key(|address| match address {
        IpAddr::V4(_) => (0, 0), // a stable sort keeps their order
        IpAddr::V6(a) => (1 + u8::from(a.is_unicast_link_local()), a.to_bits()),
    });
}

/// Does to the list of hops of one key what the kernel did to its own.
fn enter_route(
    message: &Received<'_>,
    route: KernelRoute,
    routes: &mut BTreeMap<RouteKey, Vec<Hop>>,
) {
    let flag = |flag: i32| message.flags & flag as u16 != 0;
    let hops = routes.entry(route.key).or_default();
    if flag(libc::NLM_F_REPLACE) && !hops.is_empty() {
        hops.remove(0);
    }
    hops.retain(|hop| *hop != route.hop);
    if message.kind == libc::RTM_NEWROUTE {
        let at = if flag(libc::NLM_F_APPEND) { hops.len() } else { 0 };
        hops.insert(at, route.hop);
    }
    if hops.is_empty() {
        routes.remove(&route.key);
    }
}

/// The route that counts among those of a key.
fn effective(routes: &BTreeMap<RouteKey, Vec<Hop>>, key: RouteKey) -> Option<Route> {
    let hop = *routes.get(&key)?.first()?;
    Some(Route { prefix: key.prefix, metric: key.metric, hop })
}

fn with_addresses(link: Link, addresses: Vec<IpAddr>) -> InterfaceState {
    InterfaceState { id: link.id, name: link.name, addresses, mtu: link.mtu, up: link.up }
}
