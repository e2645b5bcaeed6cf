//! Bindings of the translator: which external address and port stands for an internal one.
//!
//! An internal address and port has one external one, whatever it talks to, so that a peer that has learned the external
//! one can answer (RFC 4787 section 4.1). The search for a free port begins at a place that depends on the internal
//! address and port, so that a node that has lost its state usually chooses the same one again.

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::{Endpoint, Time, growth};
use slab::Slab;

use super::config::Translator;
use super::state::Index;

/// Limit of ports that are tried for one binding on each address.
const TRIES: u32 = 256;

/// The bindings of a node.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    slab: Slab<Binding>,
    by_internal: BTreeMap<(u8, Endpoint), Index>,
    /// Each port of a binding.
    by_external: BTreeMap<(u8, Endpoint), Index>,
}

/// One binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) protocol: u8,
    pub(super) internal: Endpoint,
    pub(super) external: Endpoint,
    /// Whether the next port belongs to it, on both sides.
    pub(super) next_port: bool,
    /// Sessions that need it.
    holders: u32,
    /// Until when an earlier run of this node has promised it.
    promised_until: Time,
}

impl Binding {
    /// Returns whether an earlier run of this node has promised it.
    pub(super) fn is_promised(&self, now: Time) -> bool {
        self.promised_until > now
    }

    /// Returns whether an external address and port belong to it.
    pub(super) fn has_external(&self, external: Endpoint) -> bool {
        external == self.external || self.next_port && external == following(self.external)
    }

    /// Returns the internal address and port that external ones of the binding stand for.
    pub(super) fn inside_of(&self, external: Endpoint) -> Endpoint {
        match self.next_port && external == following(self.external) {
            true => following(self.internal),
            false => self.internal,
        }
    }
}

/// The port after that of an endpoint.
pub(super) fn following(endpoint: Endpoint) -> Endpoint {
    Endpoint { port: endpoint.port.wrapping_add(1), ..endpoint }
}

impl Bindings {
    /// Returns a binding that a session holds.
    pub(super) fn get(&self, index: Index) -> &Binding {
        &self.slab[index as usize]
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns the binding of an internal address and port, and the external ones that stand for them.
    pub(super) fn of_internal(
        &self,
        protocol: u8,
        internal: Endpoint,
    ) -> Option<(&Binding, Endpoint)> {
        let find = |endpoint| self.by_internal.get(&(protocol, endpoint)).map(|at| self.get(*at));
        if let Some(binding) = find(internal) {
            return Some((binding, binding.external));
        }
        let before = Endpoint { port: internal.port.wrapping_sub(1), ..internal };
        let pair = find(before).filter(|binding| binding.next_port)?;
        Some((pair, following(pair.external)))
    }

    /// Returns the binding of an external address and port, and the internal ones that they stand for.
    pub(super) fn of_external(
        &self,
        protocol: u8,
        external: Endpoint,
    ) -> Option<(&Binding, Endpoint)> {
        let binding = self.get(*self.by_external.get(&(protocol, external))?);
        Some((binding, binding.inside_of(external)))
    }

    /// Takes the binding of an internal address and port, and makes it if there is none. `None` if no port is free.
    pub(super) fn take(
        &mut self,
        now: Time,
        (protocol, internal): (u8, Endpoint),
        next_port: bool,
        (settings, addresses): (&Translator, &[Ipv4Addr]),
    ) -> Option<Index> {
        if let Some(index) = self.by_internal.get(&(protocol, internal)).copied() {
            let known = *self.get(index);
            let serves = addresses.iter().any(|one| known.external.address == IpAddr::V4(*one));
            if serves && (known.next_port || !next_port || self.extend(now, index, settings)) {
                self.slab[index as usize].holders += 1;
                return Some(index);
            }
            if known.holders > 0 {
                return None;
            }
            self.remove(index);
        }
        let external =
            self.find_free(now, (protocol, internal), next_port, (settings, addresses))?;
        Some(self.insert(Binding {
            protocol,
            internal,
            external,
            next_port,
            holders: 1,
            promised_until: Time::ZERO,
        }))
    }

    /// Adds the hold of another session.
    pub(super) fn hold(&mut self, index: Index) {
        self.slab[index as usize].holders += 1;
    }

    /// Releases the hold of a session. The binding is removed with the last one.
    pub(super) fn release(&mut self, now: Time, index: Index) {
        let binding = &mut self.slab[index as usize];
        binding.holders -= 1;
        if binding.holders == 0 && binding.promised_until <= now {
            self.remove(index);
        }
    }

    /// Keeps a binding of an earlier run of this node until a time. One that contradicts another binding is left out.
    pub(super) fn adopt(
        &mut self,
        protocol: u8,
        internal: Endpoint,
        external: Endpoint,
        until: Time,
    ) {
        if let Some(index) = self.by_internal.get(&(protocol, internal)).copied() {
            let known = &mut self.slab[index as usize];
            if known.external == external {
                known.promised_until = known.promised_until.max(until);
            }
            return;
        }
        if !self.by_external.contains_key(&(protocol, external)) {
            let next_port = false;
            let binding = Binding {
                protocol,
                internal,
                external,
                next_port,
                holders: 0,
                promised_until: until,
            };
            self.insert(binding);
        }
    }

    fn find_free(
        &mut self,
        now: Time,
        (protocol, internal): (u8, Endpoint),
        next_port: bool,
        (settings, addresses): (&Translator, &[Ipv4Addr]),
    ) -> Option<Endpoint> {
        let ports = u32::from(settings.last_port).checked_sub(settings.first_port.into())? + 1;
        let start = place_of(internal);
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        for turn in 0..count {
            let address = *addresses.get(((start / ports + turn) % count) as usize)?;
            for offset in 0..ports.min(TRIES) {
                let port = settings.first_port + ((start + offset) % ports) as u16;
                // RTP and RTCP have an even and the following odd port.
                if next_port && (port % 2 != internal.port % 2 || port == settings.last_port) {
                    continue;
                }
                let external = Endpoint { address: address.into(), port };
                let free = self.is_free(now, (protocol, external))
                    && (!next_port || self.is_free(now, (protocol, following(external))));
                if free {
                    return Some(external);
                }
            }
        }
        None
    }

    /// Returns whether an external address and port is free. A promise that has ended is forgotten.
    fn is_free(&mut self, now: Time, key: (u8, Endpoint)) -> bool {
        let Some(index) = self.by_external.get(&key).copied() else { return true };
        let known = self.get(index);
        if known.holders > 0 || known.promised_until > now {
            return false;
        }
        self.remove(index);
        true
    }

    /// Adds the next port to a binding; returns whether it was free.
    fn extend(&mut self, now: Time, index: Index, settings: &Translator) -> bool {
        let Binding { protocol, external, .. } = *self.get(index);
        let key = (protocol, following(external));
        if external.port == settings.last_port || !self.is_free(now, key) {
            return false;
        }
        self.by_external.insert(key, index);
        self.slab[index as usize].next_port = true;
        true
    }

    #[cfg(test)]
    pub(super) fn assert_empty(&self) {
        assert!(self.slab.is_empty() && self.by_internal.is_empty() && self.by_external.is_empty());
    }

    fn insert(&mut self, binding: Binding) -> Index {
        let Binding { protocol, internal, external, next_port, .. } = binding;
        let index = growth::insert(&mut self.slab, binding);
        self.by_internal.insert((protocol, internal), index);
        self.by_external.insert((protocol, external), index);
        if next_port {
            self.by_external.insert((protocol, following(external)), index);
        }
        index
    }

    fn remove(&mut self, index: Index) {
        let Binding { protocol, internal, external, next_port, .. } =
            self.slab.remove(index as usize);
        self.by_internal.remove(&(protocol, internal));
        self.by_external.remove(&(protocol, external));
        if next_port {
            self.by_external.remove(&(protocol, following(external)));
        }
    }
}

/// Returns the place where the search for a free port begins: the port itself for the first host of a network, and others
/// for other hosts.
fn place_of(internal: Endpoint) -> u32 {
    let host = match internal.address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => u128::from(address) as u32,
    };
    u32::from(internal.port).wrapping_add(host.wrapping_mul(0x9e37_79b1) >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: [Ipv4Addr; 1] = [Ipv4Addr::new(203, 0, 113, 1)];
    const UDP: u8 = 17;

    fn inside(host: u8, port: u16) -> Endpoint {
        Endpoint { address: [10, 0, 0, host].into(), port }
    }

    fn narrow(first_port: u16, last_port: u16) -> Translator {
        Translator { addresses: PUBLIC.into(), first_port, last_port, ..Translator::default() }
    }

    #[test]
    fn one_internal_endpoint_has_one_external_one_until_the_last_release() {
        let (mut bindings, settings) = (Bindings::default(), narrow(5_000, 5_999));
        let take = |bindings: &mut Bindings, host, port| {
            bindings.take(Time::ZERO, (UDP, inside(host, port)), false, (&settings, &PUBLIC))
        };
        let first = take(&mut bindings, 1, 700).expect("a port is free");
        assert_eq!(take(&mut bindings, 1, 700), Some(first));
        let other = take(&mut bindings, 2, 700).expect("a port is free");
        assert_ne!(bindings.get(first).external, bindings.get(other).external);
        let external = bindings.get(first).external;
        bindings.release(Time::ZERO, first);
        assert_eq!(bindings.get(first).external, external, "another session needs it");
        bindings.release(Time::ZERO, first);
        bindings.release(Time::ZERO, other);
        bindings.assert_empty();
    }

    #[test]
    fn ports_run_out_and_never_repeat() {
        let (mut bindings, settings) = (Bindings::default(), narrow(1_024, 1_123));
        let mut seen = alloc::collections::BTreeSet::new();
        for host in 1..=100 {
            let taken =
                bindings.take(Time::ZERO, (UDP, inside(host, 9)), false, (&settings, &PUBLIC));
            assert!(seen.insert(bindings.get(taken.expect("a port is free")).external.port));
        }
        let (last, full) = (inside(101, 9), (&settings, &PUBLIC[..]));
        assert_eq!(bindings.take(Time::ZERO, (UDP, last), false, full), None);
        assert!(bindings.take(Time::ZERO, (6, last), false, full).is_some(), "ports of TCP");
        assert_eq!((seen.first(), seen.last()), (Some(&1_024), Some(&1_123)));
    }

    #[test]
    fn pair_of_ports_keeps_its_parity() {
        let (mut bindings, settings) = (Bindings::default(), narrow(5_000, 5_009));
        for host in 1..=5 {
            let taken =
                bindings.take(Time::ZERO, (UDP, inside(host, 400)), true, (&settings, &PUBLIC));
            assert_eq!(bindings.get(taken.expect("a pair is free")).external.port % 2, 0);
        }
        let single = bindings.take(Time::ZERO, (UDP, inside(9, 400)), false, (&settings, &PUBLIC));
        assert_eq!(single, None, "each second port belongs to a pair");
    }

    #[test]
    fn next_port_is_added_if_it_is_free() {
        let (mut bindings, settings) = (Bindings::default(), narrow(5_000, 5_001));
        let take = |bindings: &mut Bindings, host, next_port| {
            let internal = (UDP, inside(host, 400));
            bindings.take(Time::ZERO, internal, next_port, (&settings, &PUBLIC))
        };
        let one = take(&mut bindings, 1, false).expect("a port is free");
        let external = bindings.get(one).external.port;
        let extended = take(&mut bindings, 1, true);
        assert_eq!(extended.is_some(), external == 5_000, "the last port has no next one");
        assert_eq!(bindings.get(one).next_port, external == 5_000);
        // Another host has the next port.
        let (mut bindings, settings) = (Bindings::default(), narrow(5_000, 5_003));
        let hosts = (1..=4).map(|host| {
            let internal = (UDP, inside(host, 400));
            bindings.take(Time::ZERO, internal, false, (&settings, &PUBLIC)).expect("four ports")
        });
        let taken: alloc::vec::Vec<_> = hosts.collect();
        for (host, index) in (1..=4).zip(taken) {
            let internal = (UDP, inside(host, 400));
            let extended = bindings.take(Time::ZERO, internal, true, (&settings, &PUBLIC));
            assert_eq!(extended, None, "the binding is in use as it is");
            assert!(!bindings.get(index).next_port);
        }
    }

    #[test]
    fn promise_of_an_earlier_run_is_kept_for_its_host_until_it_ends() {
        let (mut bindings, settings) = (Bindings::default(), narrow(5_000, 5_000));
        let external = Endpoint { address: PUBLIC[0].into(), port: 5_000 };
        let until = Time::from_secs(10);
        bindings.adopt(UDP, inside(1, 700), external, until);
        let take = |bindings: &mut Bindings, at, host| {
            bindings.take(
                Time::from_secs(at),
                (UDP, inside(host, 700)),
                false,
                (&settings, &PUBLIC),
            )
        };
        assert_eq!(take(&mut bindings, 5, 2), None, "it is promised to another host");
        let taken = take(&mut bindings, 5, 1).expect("it is its own");
        assert_eq!(bindings.get(taken).external, external);
        bindings.release(Time::from_secs(6), taken);
        assert_eq!(take(&mut bindings, 9, 2), None);
        assert!(take(&mut bindings, 10, 2).is_some());
    }
}
