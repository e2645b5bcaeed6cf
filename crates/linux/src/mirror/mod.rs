//! A mirror of the kernel's interfaces and routes, kept by subscription and proven by dumps.
//!
//! The kernel announces changes on a netlink socket. It does not announce all of them: when a link goes down, its IPv4
//! routes vanish in silence, and when announcements come faster than they are read, some are lost (`ENOBUFS`). So the
//! mirror keeps what it has told its reader, and on such occasions, and whenever [`Mirror::resync`] is called, dumps
//! the kernel's tables and tells the difference.
//!
//! What is mirrored: all interfaces, their addresses, and the unicast and local routes of the tables *main* and *local*,
//! IPv4 and IPv6. Of a route with several paths, the first usable one. Left out: other tables and the rules that lead to
//! them, and routes to nowhere (*unreachable*, *blackhole*, *prohibit*).

mod decode;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::{Hop, InterfaceId, Route};

use crate::link::interface_header;
use crate::netlink::{Answers, Connection, Heard, Message, NetlinkError, Received, Subscription};
use decode::{Address, KernelRoute, Link, RouteKey};

/// Room for announcements, octets: some ten thousand routes.
const ROOM: u32 = 16 << 20;
/// Datagrams of announcements that one call takes: whoever changes routes without pause must not hold up the rest.
const MOST_AT_ONCE: usize = 10_000;
/// What is listened to (`RTNLGRP_...`).
const GROUPS: [u32; 5] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];

/// An interface as the kernel shows it; bandwidth and the like are the caller's knowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// Its index.
    pub id: InterfaceId,
    /// Its name.
    pub name: String,
    /// Its usable addresses, the primary one first.
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
    /// The kernel was compared with the mirror as a whole; the updates before this one have put it right.
    Resynced,
}

/// The mirror.
#[derive(Debug)]
pub struct Mirror {
    subscription: Subscription,
    connection: Connection,
    interfaces: BTreeMap<InterfaceId, InterfaceState>,
    /// Where each route leads. The kernel can hold several of the same key; the first is the one that counts.
    routes: BTreeMap<RouteKey, Vec<Hop>>,
}

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
            interfaces: BTreeMap::new(),
            routes: BTreeMap::new(),
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
        let mut changes = Changes::default();
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
                        let tables = (&mut self.interfaces, &mut self.routes);
                        let entered = message.and_then(|m| apply(&m, tables, &mut changes));
                        // What cannot be read is as good as lost.
                        dump |= entered.unwrap_or_else(|error| {
                            tracing::warn!(%error, "unreadable announcement");
                            true
                        });
                    }
                }
            }
        }
        let count = changes.list.len();
        changes.list.into_iter().for_each(&mut each);
        outcome?;
        Ok(count + if dump { self.resync(each)? } else { 0 })
    }

    /// Dumps everything and hands out the differences and [`Update::Resynced`]; returns how many these were. Call it
    /// now and then: the kernel forgets to tell.
    pub fn resync(&mut self, each: impl FnMut(Update)) -> Result<usize, NetlinkError> {
        let mut changes = Changes::default();
        let interfaces = self.dump_interfaces()?;
        let routes = self.dump_routes()?;
        let before = std::mem::replace(&mut self.routes, routes);
        // Routes go before the interfaces that they lead through, and come after them.
        let keys: BTreeSet<RouteKey> = before.keys().chain(self.routes.keys()).copied().collect();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for key in keys {
            let (old, now) = (effective(&before, key), effective(&self.routes, key));
            if old != now {
                gone.extend(old.map(Update::RouteGone));
                new.extend(now.map(Update::Route));
            }
        }
        changes.list.extend(gone);
        for id in self.interfaces.keys().filter(|id| !interfaces.contains_key(id)) {
            changes.list.push(Update::InterfaceGone(*id));
        }
        for (id, state) in &interfaces {
            if self.interfaces.get(id) != Some(state) {
                changes.list.push(Update::Interface(state.clone()));
            }
        }
        changes.list.extend(new);
        changes.list.push(Update::Resynced);
        self.interfaces = interfaces;
        let count = changes.list.len();
        changes.list.into_iter().for_each(each);
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
                state.addresses.push(found.address);
            }
        }
        Ok(interfaces)
    }

    fn dump_routes(&mut self) -> Result<BTreeMap<RouteKey, Vec<Hop>>, NetlinkError> {
        let mut routes: BTreeMap<RouteKey, Vec<Hop>> = BTreeMap::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = [0; 12];
            header[0] = family as u8;
            let message = Message::new(libc::RTM_GETROUTE, 0).fixed(&header);
            let answers: Answers = match self.connection.dump("list the routes", message) {
                // A kernel without this family has no routes of it.
                Err(error) if error.is(libc::EOPNOTSUPP) || error.is(libc::EAFNOSUPPORT) => {
                    continue;
                }
                answers => answers?,
            };
            for message in &answers {
                if let Some(route) = KernelRoute::decode(&message?)? {
                    routes.entry(route.key).or_default().push(route.hop);
                }
            }
        }
        Ok(routes)
    }
}

impl AsFd for Mirror {
    /// The descriptor that becomes readable when the kernel has announced something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}

/// What is to be told.
#[derive(Debug, Default)]
struct Changes {
    list: Vec<Update>,
}

impl Changes {
    fn interface(&mut self, state: &InterfaceState) {
        self.list.push(Update::Interface(state.clone()));
    }
}

type Tables<'a> =
    (&'a mut BTreeMap<InterfaceId, InterfaceState>, &'a mut BTreeMap<RouteKey, Vec<Hop>>);

/// Enters one announcement. Returns whether it makes a dump necessary: a link that can no longer send has lost routes
/// that nobody announces.
fn apply(
    message: &Received<'_>,
    (interfaces, routes): Tables<'_>,
    changes: &mut Changes,
) -> Result<bool, NetlinkError> {
    match message.kind {
        libc::RTM_NEWLINK => {
            let Some(link) = Link::decode(message)? else {
                return Ok(false);
            };
            let before = interfaces.get(&link.id);
            let lost_link = before.is_some_and(|b| b.up) && !link.up;
            let state = with_addresses(link, before.map_or(Vec::new(), |b| b.addresses.clone()));
            if before != Some(&state) {
                changes.interface(&state);
                interfaces.insert(state.id, state);
            }
            return Ok(lost_link);
        }
        libc::RTM_DELLINK => {
            let Some(link) = Link::decode(message)? else {
                return Ok(false);
            };
            if interfaces.remove(&link.id).is_some() {
                changes.list.push(Update::InterfaceGone(link.id));
                return Ok(true);
            }
        }
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            let Some(announced) = Address::decode(message)? else {
                return Ok(false);
            };
            let Some(state) = interfaces.get_mut(&announced.interface) else {
                return Ok(false);
            };
            let there = message.kind == libc::RTM_NEWADDR && announced.usable;
            let known = state.addresses.contains(&announced.address);
            if there != known {
                if there {
                    state.addresses.push(announced.address);
                } else {
                    state.addresses.retain(|a| *a != announced.address);
                }
                changes.interface(state);
            }
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            let Some(route) = KernelRoute::decode(message)? else {
                return Ok(false);
            };
            let before = effective(routes, route.key);
            enter_route(message, route, routes);
            let now = effective(routes, route.key);
            if before != now {
                changes.list.extend(before.map(Update::RouteGone));
                changes.list.extend(now.map(Update::Route));
            }
        }
        _ => {}
    }
    Ok(false)
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
