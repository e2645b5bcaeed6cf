//! A mirror of the kernel's interfaces and routes, kept by subscription and proven by dumps.
//!
//! The kernel announces changes on a netlink socket. It does not announce all of them: when a link goes down, its IPv4
//! routes vanish in silence; so do the routes that prefer an address which is removed; the paths of a route with several
//! die and revive with their links; and when announcements come faster than they are read, some are lost (`ENOBUFS`). So
//! the mirror keeps what it has told its reader, and on such occasions, and whenever [`Mirror::resync`] is called, dumps
//! the kernel's tables and tells the difference.
//!
//! What is mirrored: all interfaces, their addresses, the unicast and local routes of the tables *main* and *local*, and
//! the multicast forwarding entries of the default table, IPv4 and IPv6. Of a unicast route with several next hops, the
//! first usable one, and that there are several: which one a flow takes, the kernel has to be asked
//! ([`crate::FlowRoutes`]). The same holds where policy rules lead to other tables. What they say is not mirrored; that it
//! has changed is told, with the destinations concerned. Left out: routes to nowhere (*unreachable*, *blackhole*,
//! *prohibit*), and multicast entries for every group.
//!
//! Nobody announces that the kernel spreads flows otherwise than before: after a change of a setting
//! (`fib_multipath_hash_policy`), or because buckets of a resilient group have moved. [`Mirror::poll`] looks.

mod decode;
mod hash_policy;
mod next_hops;
mod rules;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::{InterfaceId, MulticastRoute, Prefix, Route};

use crate::link::interface_header;
use crate::netlink::{Answers, Connection, Heard, Message, NetlinkError, Subscription};
use decode::{Address, Link, RTNL_FAMILY_IP6MR, RTNL_FAMILY_IPMR};
pub(crate) use decode::{NEXT_HOP_UNUSABLE, ip_address, next_hop, route_answer, via};
use hash_policy::HashPolicy;
pub(crate) use hash_policy::multipath_policy;
pub(crate) use next_hops::{NEXT_HOP_HEADER, NHA_ID, NextHopObject, RTM_GETNEXTHOP};
use next_hops::{RTM_GETNEXTHOPBUCKET, bucket_hash};
pub(crate) use rules::RULE_HEADER;
use rules::Rules;
use tables::{MulticastKey, Stale, Tables, enter_address, with_addresses};

/// Room for announcements, octets: some ten thousand routes.
const ROOM: u32 = 16 << 20;
/// Datagrams of announcements that one call takes: whoever changes routes without pause must not hold up the rest.
const MOST_AT_ONCE: usize = 10_000;
/// What is listened to (`RTNLGRP_...`).
const GROUPS: [u32; 10] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV4_MROUTE,
    libc::RTNLGRP_IPV6_MROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_NEXTHOP,
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
    /// A prefix has a route with several next hops, among which the kernel chooses for each flow; or has none any more; or
    /// they are not what they were.
    NextHops {
        /// To these destinations.
        prefix: Prefix,
        /// Whether there are several.
        several: bool,
    },
    /// Policy rules lead to other tables than main and local, or do no longer; or they say something else.
    Rules {
        /// For packets of IPv6, or of IPv4.
        ipv6: bool,
        /// Whether they do.
        apply: bool,
    },
    /// Flows to these destinations may take other next hops than before.
    FlowRoutes(Prefix),
    /// The kernel was compared with the mirror as a whole; the updates before this one have put it right.
    Resynced,
}

/// The mirror.
#[derive(Debug)]
pub struct Mirror {
    subscription: Subscription,
    connection: Connection,
    tables: Tables,
    hash_policy: HashPolicy,
    /// Prefixes with several next hops.
    several: BTreeSet<Prefix>,
    /// What the buckets of resilient groups were when they were last looked at.
    buckets: BTreeMap<u32, u64>,
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
            tables: Tables::default(),
            hash_policy: HashPolicy::open(),
            several: BTreeSet::new(),
            buckets: BTreeMap::new(),
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
        let mut stale = Stale::default();
        let mut outcome = Ok(());
        for _ in 0..MOST_AT_ONCE {
            match self.subscription.receive() {
                Ok(Heard::Nothing) => break,
                Ok(Heard::Lost) => stale.everything = true,
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
                        let found = entered.unwrap_or_else(|error| {
                            tracing::warn!(%error, "unreadable announcement");
                            Stale { everything: true, rules: false }
                        });
                        stale.everything |= found.everything;
                        stale.rules |= found.rules;
                    }
                }
            }
        }
        let read =
            if stale.rules && !stale.everything { self.read_rules(&mut changes) } else { Ok(()) };
        let count = changes.len();
        self.note(&changes);
        changes.into_iter().for_each(&mut each);
        outcome.and(read)?;
        Ok(count + if stale.everything { self.resync(each)? } else { 0 })
    }

    /// Whether [`Mirror::poll`] is worth a call now and then: whether the kernel chooses between next hops for each flow.
    pub fn flows_differ(&self) -> bool {
        !self.several.is_empty() || self.tables.rules_apply(false) || self.tables.rules_apply(true)
    }

    /// Whether the kernel tells which next hop an IPv6 flow takes: not where the hash is made of chosen fields
    /// (`fib_multipath_hash_policy` 3), as its answers are then made by another hash than its choices. Settings are as of
    /// the last [`Mirror::poll`].
    pub fn tells_ipv6_hops(&self) -> bool {
        !self.hash_policy.is_ipv6_by_fields()
    }

    /// Notes what is handed out.
    fn note(&mut self, changes: &[Update]) {
        for change in changes {
            match change {
                Update::NextHops { prefix, several: true } => _ = self.several.insert(*prefix),
                Update::NextHops { prefix, several: false } => _ = self.several.remove(prefix),
                _ => {}
            }
        }
    }

    /// Looks whether the kernel spreads flows over several next hops otherwise than at the last call, and hands out what
    /// that changes.
    ///
    /// # Errors
    /// The kernel does not tell its resilient groups.
    pub fn poll(&mut self, mut each: impl FnMut(Update)) -> Result<(), NetlinkError> {
        let changed = self.hash_policy.changes();
        for (ipv6, _) in [false, true].into_iter().zip(changed).filter(|(_, changed)| *changed) {
            each(Update::FlowRoutes(Prefix::everything(ipv6)));
        }
        let resilient = self.tables.objects.values().filter(|object| object.buckets.is_some());
        let groups: Vec<u32> = resilient.map(|object| object.id).collect();
        self.buckets.retain(|id, _| groups.contains(id));
        for id in groups {
            let prefixes = self.tables.prefixes_of(id);
            if prefixes.is_empty() {
                continue;
            }
            let message = Message::new(RTM_GETNEXTHOPBUCKET, 0).fixed(&[0; NEXT_HOP_HEADER]);
            let message = message.u32(NHA_ID, id);
            let now = bucket_hash(&self.connection.dump("list nexthop buckets", message)?)?;
            if self.buckets.insert(id, now).is_some_and(|before| before != now) {
                prefixes.into_iter().map(Update::FlowRoutes).for_each(&mut each);
            }
        }
        Ok(())
    }

    /// Reads the policy rules again.
    fn read_rules(&mut self, changes: &mut Vec<Update>) -> Result<(), NetlinkError> {
        let rules = [self.dump_rules(false)?, self.dump_rules(true)?];
        for (ipv6, now) in [false, true].into_iter().zip(rules) {
            let before = std::mem::replace(&mut self.tables.rules[usize::from(ipv6)], now);
            if before != now {
                changes.push(Update::Rules { ipv6, apply: self.tables.rules_apply(ipv6) });
            }
        }
        Ok(())
    }

    fn dump_rules(&mut self, ipv6: bool) -> Result<Rules, NetlinkError> {
        let mut header = [0; RULE_HEADER];
        header[0] = if ipv6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let message = Message::new(libc::RTM_GETRULE, 0).fixed(&header);
        Rules::decode(&self.dump_if_known("list the policy rules", message)?, ipv6)
    }

    fn dump_objects(&mut self) -> Result<BTreeMap<u32, NextHopObject>, NetlinkError> {
        let message = Message::new(RTM_GETNEXTHOP, 0).fixed(&[0; NEXT_HOP_HEADER]);
        let mut objects = BTreeMap::new();
        for message in &self.dump_if_known("list the nexthop objects", message)? {
            if let Some(object) = NextHopObject::decode(&message?)? {
                objects.insert(object.id, object);
            }
        }
        Ok(objects)
    }

    /// Dumps everything and hands out the differences and [`Update::Resynced`]; returns how many these were. Call it
    /// now and then: the kernel forgets to tell.
    pub fn resync(&mut self, each: impl FnMut(Update)) -> Result<usize, NetlinkError> {
        let mut now = Tables::default();
        now.interfaces = self.dump_interfaces()?;
        now.multicast = self.dump_multicast()?;
        now.objects = self.dump_objects()?;
        now.rules = [self.dump_rules(false)?, self.dump_rules(true)?];
        for family in [libc::AF_INET, libc::AF_INET6] {
            for message in &self.dump_family(family)? {
                now.enter_dumped(&message?)?;
            }
        }
        let before = std::mem::replace(&mut self.tables, now);
        let mut changes = Vec::new();
        self.tables.differences(&before, &mut changes);
        changes.push(Update::Resynced);
        self.note(&changes);
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
        self.dump_if_known("list the routes", message)
    }

    /// A table; nothing where the kernel has no such table.
    fn dump_if_known(
        &mut self,
        doing: &'static str,
        message: Message,
    ) -> Result<Answers, NetlinkError> {
        match self.connection.dump(doing, message) {
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
