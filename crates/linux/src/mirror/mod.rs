//! A mirror of the kernel's interfaces and routes, updated by subscription and verified by dumps.
//!
//! The kernel announces changes on a netlink socket, but not all of them: when a link goes down, its IPv4 routes
//! disappear without announcement; so do the routes that prefer an address which is removed; the next hops of a
//! multipath route fail and recover with their links; and if announcements arrive faster than they are read, some are
//! lost (`ENOBUFS`). So the mirror stores what it has reported, and on such occasions, and whenever [`Mirror::resync`]
//! is called, dumps the kernel's tables and reports the difference.
//!
//! Mirrored are all interfaces, their addresses, the unicast and local routes of the tables *main* and *local*, and the
//! multicast forwarding entries of the default table, IPv4 and IPv6. Of a unicast route with several next hops, the
//! mirror has the first usable one, and the fact that there are several: only the kernel knows which one a flow takes
//! ([`crate::FlowRoutes`]). The same holds if policy rules select other tables. The content of rules is not mirrored;
//! a change of it is reported, with the affected destinations. Left out: routes of the types *unreachable*, *blackhole*
//! and *prohibit*, and multicast entries for every group.
//!
//! The kernel does not announce that it spreads flows differently: after a change of a setting
//! (`fib_multipath_hash_policy`), or because buckets of a resilient group have moved. [`Mirror::poll`] checks for it.

mod decode;
mod hash_policy;
mod next_hops;
mod rules;
mod tables;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

use earmark_core::{InterfaceId, MulticastRoute, Prefix};

use crate::link::interface_header;
use crate::netlink::{Announcements, Answers, Connection, Message, NetlinkError, Subscription};
use decode::{Address, Link, RTNL_FAMILY_IP6MR, RTNL_FAMILY_IPMR};
pub(crate) use decode::{NEXT_HOP_UNUSABLE, gateway_in, ip_address, next_hop, route_answer, via};
use hash_policy::HashPolicy;
pub(crate) use hash_policy::multipath_policy;
pub(crate) use next_hops::{NEXT_HOP_HEADER, NHA_ID, NextHopObject, RTM_GETNEXTHOP};
use next_hops::{RTM_GETNEXTHOPBUCKET, bucket_hash};
pub(crate) use rules::RULE_HEADER;
use rules::Rules;
use tables::{MulticastKey, Stale, Tables, enter_address, with_addresses};
pub use update::{InterfaceState, Update};

/// Receive buffer for announcements, octets: some ten thousand routes.
const RECEIVE_BUFFER: u32 = 16 << 20;
/// Maximum number of datagrams per call, so that continuous route changes do not block the rest.
const MAX_BATCHES: usize = 10_000;
/// Multicast groups of the subscription (`RTNLGRP_...`).
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

/// A mirror of one network namespace.
#[derive(Debug)]
pub struct Mirror {
    subscription: Subscription,
    connection: Connection,
    tables: Tables,
    hash_policy: HashPolicy,
    /// Prefixes with several next hops.
    several: BTreeSet<Prefix>,
    /// Hash of the buckets of each resilient group at the last check.
    buckets: BTreeMap<u32, u64>,
}

impl Mirror {
    /// Subscribes in the network namespace of the calling thread. The mirror is empty before [`Mirror::initial`].
    pub fn open() -> Result<Mirror, NetlinkError> {
        Mirror::open_with_buffer(RECEIVE_BUFFER)
    }

    /// Subscribes with a buffer of `buffer_size` octets of unread announcements, as the kernel counts them: about a
    /// thousand per route. The smaller the buffer, the more often a dump is needed because announcements were lost.
    pub fn open_with_buffer(buffer_size: u32) -> Result<Mirror, NetlinkError> {
        let buffer_size = i32::try_from(buffer_size).unwrap_or(i32::MAX);
        Ok(Mirror {
            subscription: Subscription::open(&GROUPS, buffer_size)?,
            connection: Connection::open()?,
            tables: Tables::default(),
            hash_policy: HashPolicy::open(),
            several: BTreeSet::new(),
            buckets: BTreeMap::new(),
        })
    }

    /// Returns the current state: interfaces first, then routes, then [`Update::Resynced`].
    pub fn initial(&mut self) -> Result<Vec<Update>, NetlinkError> {
        let mut updates = Vec::new();
        self.resync(|update| updates.push(update))?;
        Ok(updates)
    }

    /// Reads the announcements and passes the resulting changes to `each`; returns their number. Never waits for
    /// announcements; lost ones, and links that went down, cost a dump. If very many wait, some are left for the next
    /// call, and the descriptor stays readable.
    pub fn receive(&mut self, mut each: impl FnMut(Update)) -> Result<usize, NetlinkError> {
        let mut changes = Vec::new();
        let mut stale = Stale::default();
        let mut outcome = Ok(());
        for _ in 0..MAX_BATCHES {
            match self.subscription.receive() {
                Ok(Announcements::None) => break,
                Ok(Announcements::Lost) => stale.everything = true,
                Err(error) => {
                    // Earlier announcements are entered already, so their changes must be reported.
                    outcome = Err(error);
                    break;
                }
                Ok(Announcements::Messages(messages)) => {
                    for message in messages {
                        let tables = &mut self.tables;
                        let entered = message.and_then(|m| tables.apply(&m, &mut changes));
                        // A malformed announcement counts as lost.
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

    /// Whether periodic calls of [`Mirror::poll`] are useful: whether the kernel selects next hops for each flow.
    pub fn flows_differ(&self) -> bool {
        !self.several.is_empty() || self.tables.rules_apply(false) || self.tables.rules_apply(true)
    }

    /// Whether the kernel reports the next hop of an IPv6 flow correctly: not if the hash uses chosen fields
    /// (`fib_multipath_hash_policy` 3), because its answers then use another hash than its forwarding. Settings are as
    /// of the last [`Mirror::poll`].
    pub fn reports_ipv6_hops(&self) -> bool {
        !self.hash_policy.is_ipv6_by_fields()
    }

    /// Records the reported changes.
    fn note(&mut self, changes: &[Update]) {
        for change in changes {
            match change {
                Update::NextHops { prefix, several: true } => _ = self.several.insert(*prefix),
                Update::NextHops { prefix, several: false } => _ = self.several.remove(prefix),
                _ => {}
            }
        }
    }

    /// Checks whether the kernel spreads flows over several next hops differently than at the last call, and reports
    /// the resulting changes.
    ///
    /// # Errors
    /// The resilient groups cannot be dumped.
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

    /// Dumps the policy rules again.
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

    /// Dumps everything and reports the differences and [`Update::Resynced`]; returns the number of differences. Call
    /// it periodically: the kernel does not announce every change.
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
            // An interface created between the two dumps is announced later.
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

    /// Dumps all routes of a family; empty if the kernel does not support that family.
    fn dump_family(&mut self, family: i32) -> Result<Answers, NetlinkError> {
        let mut header = [0; 12];
        header[0] = family as u8;
        let message = Message::new(libc::RTM_GETROUTE, 0).fixed(&header);
        self.dump_if_known("list the routes", message)
    }

    /// Dumps a table; empty if the kernel has no such table.
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
    /// Returns the descriptor that becomes readable when announcements wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.as_fd()
    }
}
