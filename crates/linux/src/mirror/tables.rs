//! The reported state of a mirror, and its changes by an announcement or a dump.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use earmark_core::{Hop, InterfaceId, MulticastRoute, Prefix, Route};

use super::decode::{self, Address, Decoded, KernelRoute, Link, RouteKey, Target};
use super::next_hops::{NextHopObject, RTM_DELNEXTHOP, RTM_NEWNEXTHOP};
use super::rules::Rules;
use super::update::{InterfaceState, Update};
use crate::netlink::{NetlinkError, Received};

/// Up to this many prefixes are reported one by one when a nexthop object changes.
const MAX_PREFIXES: usize = 64;

/// The reported state.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) interfaces: BTreeMap<InterfaceId, InterfaceState>,
    /// Next hops of each route. The kernel can hold several of the same key; the first one applies.
    pub(super) routes: BTreeMap<RouteKey, Vec<Target>>,
    pub(super) multicast: BTreeMap<MulticastKey, MulticastRoute>,
    /// Nexthop objects by their IDs.
    pub(super) objects: BTreeMap<u32, NextHopObject>,
    /// Routes by the objects that they refer to.
    by_object: BTreeMap<u32, BTreeSet<RouteKey>>,
    /// Rules of IPv4 and IPv6.
    pub(super) rules: [Rules; 2],
    /// Whether IPv4's table *default*, which is searched after main, has routes.
    default_table: bool,
    /// Routes that are not mirrored, by their prefixes, if rules apply: a hash of their content.
    others: BTreeMap<Prefix, u64>,
}

/// Group and source.
pub(super) type MulticastKey = (IpAddr, Option<IpAddr>);

/// Tables that must be dumped again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) everything: bool,
    pub(super) rules: bool,
}

impl Tables {
    /// Appends the changes from `before` to this state.
    pub(super) fn differences(&self, before: &Tables, changes: &mut Vec<Update>) {
        // Routes are removed before the interfaces that they use, and added after them.
        let keys: BTreeSet<_> = before.routes.keys().chain(self.routes.keys()).copied().collect();
        let mut new = Vec::new();
        let mut prefix = None;
        for key in keys {
            let (old, now) = (before.effective(key), self.effective(key));
            if old != now {
                changes.extend(old.map(Update::RouteGone));
                new.extend(now.map(Update::Route));
            }
            if prefix.replace(key.prefix) != Some(key.prefix) {
                let (old, now) = (before.several(key.prefix), self.several(key.prefix));
                let told = Update::NextHops { prefix: key.prefix, several: now.is_some() };
                new.extend((old != now).then_some(told));
            }
        }
        for prefix in before.others.keys().chain(self.others.keys()) {
            if before.others.get(prefix) != self.others.get(prefix) {
                new.push(Update::FlowRoutes(*prefix));
            }
        }
        self.differences_of_rules(before, &mut new);
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

    /// Appends the changes of the rules since `before`.
    pub(super) fn differences_of_rules(&self, before: &Tables, changes: &mut Vec<Update>) {
        for ipv6 in [false, true] {
            let number =
                |tables: &Tables| (tables.rules[usize::from(ipv6)], tables.rules_apply(ipv6));
            if number(before) != number(self) {
                changes.push(Update::Rules { ipv6, apply: self.rules_apply(ipv6) });
            }
        }
    }

    /// Whether other tables than main and local can apply to packets of a family.
    pub(super) fn rules_apply(&self, ipv6: bool) -> bool {
        self.rules[usize::from(ipv6)].apply || (self.default_table && !ipv6)
    }

    /// Returns the prefixes of routes that refer to a nexthop object if they are few; all of a family if they are many.
    pub(super) fn prefixes_of(&self, object: u32) -> BTreeSet<Prefix> {
        let keys = self.by_object.get(&object);
        let all: BTreeSet<Prefix> = keys.into_iter().flatten().map(|key| key.prefix).collect();
        if all.len() <= MAX_PREFIXES {
            return all;
        }
        all.iter().map(|prefix| Prefix::everything(prefix.address().is_ipv6())).collect()
    }

    /// Enters a dumped route.
    pub(super) fn enter_dumped(&mut self, message: &Received<'_>) -> Result<(), NetlinkError> {
        match KernelRoute::decode(message)? {
            Decoded::Kept(KernelRoute { key, target }) => {
                self.routes.entry(key).or_default().push(target);
                if let Some(id) = target.object {
                    self.by_object.entry(id).or_default().insert(key);
                }
            }
            Decoded::Other(prefix, table) => {
                self.default_table |= is_default(prefix, table);
                if self.rules_apply(prefix.address().is_ipv6()) {
                    let sum = self.others.entry(prefix).or_default();
                    *sum = sum.wrapping_add(number_of(message)?);
                }
            }
            Decoded::Ignored => {}
        }
        Ok(())
    }

    /// Enters one announcement. Returns what must be dumped again: side effects that are not announced.
    pub(super) fn apply(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<Stale, NetlinkError> {
        let everything = |everything| Stale { everything, rules: false };
        match message.kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                self.apply_link(message, changes).map(everything)
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                self.apply_address(message, changes).map(everything)
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let stale = self.apply_route(message, changes)?;
                self.apply_multicast(message, changes)?;
                Ok(stale)
            }
            RTM_NEWNEXTHOP | RTM_DELNEXTHOP => self.apply_next_hop(message, changes),
            libc::RTM_NEWRULE | libc::RTM_DELRULE => Ok(Stale { everything: false, rules: true }),
            _ => Ok(Stale::default()),
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

    /// Adds or removes a route.
    fn apply_route(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<Stale, NetlinkError> {
        let route = match KernelRoute::decode(message)? {
            Decoded::Kept(route) => route,
            Decoded::Other(prefix, table) => {
                if self.rules_apply(prefix.address().is_ipv6()) {
                    changes.push(Update::FlowRoutes(prefix));
                }
                // A dump finds out whether it is the first, or was the last, of its table.
                return Ok(Stale { everything: is_default(prefix, table), rules: false });
            }
            Decoded::Ignored => return Ok(Stale::default()),
        };
        let gone = message.kind == libc::RTM_DELROUTE;
        let several = |targets: &Vec<Target>| targets.iter().any(|target| target.several);
        let had_several = self.routes.get(&route.key).is_some_and(several);
        self.change(&[route.key].into(), changes, |tables| {
            tables.enter_route(message, route);
        });
        // IPv6 announces the loss of one of several next hops like that of a whole route.
        let is_part = gone && had_several && !route.target.several;
        Ok(Stale { everything: is_part, rules: false })
    }

    /// Adds or removes a nexthop object.
    fn apply_next_hop(
        &mut self,
        message: &Received<'_>,
        changes: &mut Vec<Update>,
    ) -> Result<Stale, NetlinkError> {
        let Some(object) = NextHopObject::decode(message)? else { return Ok(Stale::default()) };
        let gone = message.kind == RTM_DELNEXTHOP;
        if !gone && self.objects.get(&object.id) == Some(&object) {
            return Ok(Stale::default());
        }
        // The routes that refer to it disappear without announcement.
        if gone && self.by_object.contains_key(&object.id) {
            self.objects.remove(&object.id);
            return Ok(Stale { everything: true, rules: false });
        }
        let groups = self.objects.values().filter(|group| group.has_member(object.id));
        let names: Vec<u32> = groups.map(|group| group.id).chain([object.id]).collect();
        let keys = names.iter().filter_map(|id| self.by_object.get(id)).flatten();
        let keys: BTreeSet<RouteKey> = keys.take(MAX_PREFIXES + 1).copied().collect();
        if keys.len() > MAX_PREFIXES {
            let families = keys.iter().map(|key| key.prefix.address().is_ipv6());
            let families: BTreeSet<bool> = families.collect();
            changes.extend(
                families.into_iter().map(|six| Update::FlowRoutes(Prefix::everything(six))),
            );
        }
        let keys = if keys.len() > MAX_PREFIXES { BTreeSet::new() } else { keys };
        self.change(&keys, changes, |tables| {
            if gone {
                tables.objects.remove(&object.id);
            } else {
                tables.objects.insert(object.id, object);
            }
        });
        Ok(Stale::default())
    }

    /// Makes a change that affects routes of these keys, and appends the resulting updates.
    fn change(
        &mut self,
        keys: &BTreeSet<RouteKey>,
        changes: &mut Vec<Update>,
        make: impl FnOnce(&mut Tables),
    ) {
        let seen = |tables: &Tables| -> Vec<_> {
            keys.iter().map(|&key| (tables.effective(key), tables.several(key.prefix))).collect()
        };
        let before = seen(self);
        make(self);
        for (key, (old, now)) in keys.iter().zip(before.into_iter().zip(seen(self))) {
            if old.0 != now.0 {
                changes.extend(old.0.map(Update::RouteGone));
                changes.extend(now.0.map(Update::Route));
            }
            if old.1 != now.1 {
                changes.push(Update::NextHops { prefix: key.prefix, several: now.1.is_some() });
            }
        }
    }

    /// Applies the kernel's change to the list of targets of one key.
    fn enter_route(&mut self, message: &Received<'_>, route: KernelRoute) {
        let flag = |flag: i32| message.flags & flag as u16 != 0;
        let KernelRoute { key, target } = route;
        let targets = self.routes.entry(key).or_default();
        let new = message.kind == libc::RTM_NEWROUTE;
        if flag(libc::NLM_F_REPLACE) && !targets.is_empty() {
            targets.remove(0);
        }
        // IPv6 has one route with all next hops of a key, and announces all of them.
        if new && target.several && key.prefix.address().is_ipv6() {
            targets.clear();
        }
        targets.retain(|known| {
            let same = known.hop == target.hop && known.object == target.object;
            !(same || known.several && target.several)
        });
        if new {
            let at = if flag(libc::NLM_F_APPEND) { targets.len() } else { 0 };
            targets.insert(at, target);
        }
        let used: BTreeSet<u32> = targets.iter().filter_map(|target| target.object).collect();
        if targets.is_empty() {
            self.routes.remove(&key);
        }
        for id in used {
            self.by_object.entry(id).or_default().insert(key);
        }
        if let Some(id) = target.object.filter(|_| !new)
            && let Some(users) = self.by_object.get_mut(&id)
        {
            let is_used = |targets: &Vec<Target>| targets.iter().any(|t| t.object == Some(id));
            if !self.routes.get(&key).is_some_and(is_used) {
                users.remove(&key);
            }
            if users.is_empty() {
                self.by_object.remove(&id);
            }
        }
    }

    /// Returns the route that applies among those of a key.
    fn effective(&self, key: RouteKey) -> Option<Route> {
        let target = self.routes.get(&key)?.first()?;
        let object = || {
            let object = self.objects.get(&target.object?)?;
            Some(Hop { source: target.source, ..object.hop(&self.objects)? })
        };
        let hop = target.hop.or_else(object)?;
        Some(Route { prefix: key.prefix, metric: key.metric, hop })
    }

    /// Returns a hash of all next hops to a prefix, if any route to it has several.
    fn several(&self, prefix: Prefix) -> Option<u64> {
        let key =
            |metric, table, type_of_service| RouteKey { prefix, metric, table, type_of_service };
        let all = self.routes.range(key(0, 0, 0)..=key(u32::MAX, u32::MAX, u8::MAX));
        let targets: Vec<&Target> = all.flat_map(|(_, targets)| targets).collect();
        let object = |target: &Target| target.object.and_then(|id| self.objects.get(&id));
        let any = targets
            .iter()
            .any(|target| target.several || object(target).is_some_and(NextHopObject::is_group));
        let mut number = DefaultHasher::new();
        for target in targets.iter().filter(|_| any) {
            (target.hop, target.detail).hash(&mut number);
            if let Some(object) = object(target) {
                object.hash(&mut number);
                let members = self.objects.values().filter(|member| object.has_member(member.id));
                members.for_each(|member| member.hash(&mut number));
            }
        }
        any.then(|| number.finish())
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

fn is_default(prefix: Prefix, table: u32) -> bool {
    table == u32::from(libc::RT_TABLE_DEFAULT) && prefix.address().is_ipv4()
}

/// Returns a hash of a route's content, except its usage data.
fn number_of(message: &Received<'_>) -> Result<u64, NetlinkError> {
    let mut number = DefaultHasher::new();
    message.fixed(decode::ROUTE_HEADER, "route")?.hash(&mut number);
    for attribute in message.attributes(decode::ROUTE_HEADER) {
        let attribute = attribute?;
        if attribute.kind != libc::RTA_CACHEINFO {
            (attribute.kind, attribute.value).hash(&mut number);
        }
    }
    Ok(number.finish())
}

/// Inserts an address in the order of [`InterfaceState::addresses`]. The kernel lists IPv6 addresses with the newest
/// first, so that each new one would change the address that neighbours see: here they are sorted.
pub(super) fn enter_address(addresses: &mut Vec<IpAddr>, address: IpAddr) {
    addresses.push(address);
    addresses.sort_by_key(|address| match address {
        IpAddr::V4(_) => (0, 0), // a stable sort keeps their order
        IpAddr::V6(a) => (1 + u8::from(a.is_unicast_link_local()), a.to_bits()),
    });
}

pub(super) fn with_addresses(link: Link, addresses: Vec<IpAddr>) -> InterfaceState {
    InterfaceState { id: link.id, name: link.name, addresses, mtu: link.mtu, up: link.up }
}
