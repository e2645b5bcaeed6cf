//! Routes of flows, if a destination alone does not decide: several next hops share it, or policy rules apply.
//!
//! The host decides for each flow, by a hash of its addresses and ports, or by its source, its mark and its incoming
//! interface. So the host is asked ([`FlowResolver`]), once for each flow: answers are cached, and asked for again
//! after a change that may concern them. The last [`DISTINCT_CHANGES`] changes are told apart by their prefixes, so
//! that a change elsewhere costs nothing; no change walks the answers.
//!
//! Answers are cached in two halves. A lookup moves its answer into the younger half; when that is full it becomes
//! the older half, and answers not used since are dropped. So the flows of live state stay, as each refresh looks
//! them up, and the number of answers is bounded whatever peers send.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::mem;
use core::net::IpAddr;

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::hops::Hop;
use crate::hash::KeyedHash;
use crate::random::RandomStreams;
use crate::{Flow, InterfaceId, Prefix};

/// Number of answers in each half: some 60 MB at most, on a router whose routes all have several next hops.
const HALF: usize = 1 << 18;
/// Number of changes that are told apart by their prefixes; older answers count as changed.
const DISTINCT_CHANGES: usize = 64;

/// Resolves the route of a flow by asking the host.
///
/// An answer may change only when [`RouteTable`](super::RouteTable) is notified of a change.
pub trait FlowResolver: fmt::Debug + Send {
    /// Returns the hop of `flow`, whose packets arrive through `incoming`; `None` for this host's own.
    fn resolve(&mut self, flow: &Flow, incoming: Option<InterfaceId>) -> Resolution;
}

/// The host's answer for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolution {
    /// The packets of the flow leave by this hop.
    Through(Hop),
    /// The flow has no route.
    Nowhere,
    /// The host gave no answer: the route of the destination is used.
    Unknown,
}

/// A recorded answer of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowAnswer {
    /// The flow.
    pub flow: Flow,
    /// Incoming interface; `None` for this host's own packets.
    pub incoming: Option<InterfaceId>,
    /// The answer.
    pub resolution: Resolution,
}

/// Flows that the host has to be asked for, and its answers.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Prefixes whose route has several next hops.
    multipath: BTreeSet<Prefix>,
    /// Whether policy rules, or other tables, apply to packets of IPv4 and IPv6.
    rules: [bool; 2],
    /// Whether either of the two applies at all.
    any: bool,
    answers: RefCell<Answers>,
}

impl Flows {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any
    }

    pub(super) fn rules_apply(&self, destination: IpAddr) -> bool {
        self.rules[usize::from(destination.is_ipv6())]
    }

    pub(super) fn is_multipath(&self, prefix: Prefix) -> bool {
        self.multipath.contains(&prefix)
    }

    pub(super) fn set_multipath(&mut self, prefix: Prefix, multipath: bool) {
        if multipath {
            self.multipath.insert(prefix);
        } else {
            self.multipath.remove(&prefix);
        }
        self.update_any();
        self.change(prefix);
    }

    pub(super) fn set_rules(&mut self, all: Prefix, apply: bool) {
        self.rules[usize::from(all.address().is_ipv6())] = apply;
        self.update_any();
        self.change(all);
    }

    fn update_any(&mut self) {
        self.any = self.rules != [false; 2] || !self.multipath.is_empty();
        if !self.any {
            self.answers.get_mut().clear();
        }
    }

    /// Records that flows to these destinations may take another route.
    pub(super) fn change(&mut self, prefix: Prefix) {
        if self.any {
            self.answers.get_mut().changes.note(prefix);
        }
    }

    pub(super) fn answers(&mut self) -> &mut Answers {
        self.answers.get_mut()
    }

    /// Returns the hop of a flow; inner `None` if it has no route, outer `None` if the host gave no answer.
    pub(super) fn hop(&self, flow: &Flow, incoming: Option<InterfaceId>) -> Option<Option<Hop>> {
        let mut answers = self.answers.borrow_mut();
        let key = Key { flow: *flow, incoming };
        if let Some(hop) = answers.cached(&key) {
            return Some(hop);
        }
        let hop = match answers.ask(flow, incoming) {
            Resolution::Through(hop) => Some(hop),
            Resolution::Nowhere => None,
            Resolution::Unknown => return None,
        };
        answers.keep(key, hop);
        Some(hop)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    flow: Flow,
    incoming: Option<InterfaceId>,
}

impl Key {
    fn hash(&self, hash: &KeyedHash) -> u64 {
        let words = |address: IpAddr| match address {
            IpAddr::V4(a) => [u64::from(a.to_bits()), 0],
            IpAddr::V6(a) => [a.to_bits() as u64, (a.to_bits() >> 64) as u64],
        };
        let Flow { destination, source, protocol, destination_port, source_port, .. } = self.flow;
        let ([a, b], [c, d]) = (words(destination), source.map_or([0; 2], words));
        // A flow with an SPI has no ports.
        let ports = u64::from(destination_port) << 16 | u64::from(source_port);
        let ports = ports | u64::from(self.flow.spi);
        let incoming = self.incoming.map_or(0, |interface| u64::from(interface.0) + 1);
        let rest = incoming << 20 | u64::from(self.flow.flow_label);
        hash.of_six([a, b, c, d, u64::from(protocol) << 32 | ports, rest])
    }
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    key: Key,
    hop: Option<Hop>,
    /// Number of the last change up to which the answer is known to be valid.
    valid: u64,
}

/// Cached answers of the host; see the module documentation.
#[derive(Debug)]
pub(super) struct Answers {
    /// Keyed, since peers choose the flows.
    hash: KeyedHash,
    young: HashTable<Answer>,
    old: HashTable<Answer>,
    changes: Changes,
    resolver: Option<Box<dyn FlowResolver>>,
    /// Answers of a recording, which replace the resolver's.
    recorded: VecDeque<FlowAnswer>,
    /// The resolver's answers, if they are recorded.
    log: Option<Vec<FlowAnswer>>,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers {
            hash: KeyedHash::draw(&mut RandomStreams::new(0).stream("routes/flows")),
            young: HashTable::new(),
            old: HashTable::new(),
            changes: Changes::default(),
            resolver: None,
            recorded: VecDeque::new(),
            log: None,
        }
    }
}

impl Answers {
    pub(super) fn set_hash(&mut self, hash: KeyedHash) {
        self.clear();
        self.hash = hash;
    }

    pub(super) fn set_resolver(&mut self, resolver: Box<dyn FlowResolver>) {
        self.clear();
        self.resolver = Some(resolver);
    }

    pub(super) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    pub(super) fn take_log(&mut self) -> Vec<FlowAnswer> {
        self.log.as_mut().map(mem::take).unwrap_or_default()
    }

    pub(super) fn add_recorded(&mut self, answers: Vec<FlowAnswer>) {
        self.recorded.extend(answers);
    }

    /// Drops all answers.
    fn clear(&mut self) {
        (self.young, self.old) = (HashTable::new(), HashTable::new());
    }

    /// Returns the cached answer of a flow, if it is still valid.
    fn cached(&mut self, key: &Key) -> Option<Option<Hop>> {
        let hash = key.hash(&self.hash);
        if let Some(answer) = self.young.find_mut(hash, |answer| answer.key == *key) {
            return self.changes.is_valid(answer).then_some(answer.hop);
        }
        let entry = self.old.find_entry(hash, |answer| answer.key == *key).ok()?;
        let (mut answer, _) = entry.remove();
        if !self.changes.is_valid(&mut answer) {
            return None;
        }
        self.keep(*key, answer.hop);
        Some(answer.hop)
    }

    fn keep(&mut self, key: Key, hop: Option<Hop>) {
        let answer = Answer { key, hop, valid: self.changes.last };
        let hash = key.hash(&self.hash);
        if let Some(known) = self.young.find_mut(hash, |known| known.key == key) {
            *known = answer;
            return;
        }
        if self.young.len() >= HALF {
            self.old = mem::take(&mut self.young);
        }
        let keyed = &self.hash;
        self.young.insert_unique(hash, answer, |answer| answer.key.hash(keyed));
    }

    fn ask(&mut self, flow: &Flow, incoming: Option<InterfaceId>) -> Resolution {
        let same = |answer: &FlowAnswer| answer.flow == *flow && answer.incoming == incoming;
        let resolution = match (&mut self.resolver, self.recorded.iter().position(same)) {
            (_, Some(at)) => self.recorded.remove(at).map(|answer| answer.resolution),
            (Some(resolver), None) => Some(resolver.resolve(flow, incoming)),
            (None, None) => None,
        };
        let resolution = resolution.unwrap_or(Resolution::Unknown);
        if let Some(log) = &mut self.log {
            log.push(FlowAnswer { flow: *flow, incoming, resolution });
        }
        resolution
    }
}

/// The last changes, by number.
#[derive(Debug, Default)]
struct Changes {
    /// Number of changes.
    last: u64,
    /// Prefixes of the last changes, the youngest first.
    prefixes: VecDeque<Prefix>,
}

impl Changes {
    fn note(&mut self, prefix: Prefix) {
        self.last += 1;
        self.prefixes.truncate(DISTINCT_CHANGES - 1);
        self.prefixes.push_front(prefix);
    }

    /// Returns whether an answer is still valid, and marks it as checked up to the last change.
    fn is_valid(&self, answer: &mut Answer) -> bool {
        let since = self.last - answer.valid;
        if since > self.prefixes.len() as u64 {
            return false;
        }
        let destination = answer.key.flow.destination;
        let holds = self.prefixes.iter().take(since as usize).all(|p| !p.contains(destination));
        if holds {
            answer.valid = self.last;
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Route, RouteTable, Routes};
    use super::*;
    use crate::hash::KeyedHash;
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicU32, Ordering};

    /// Sends even source ports through interface 1 and odd ones through 2, plus ten once `moved` is set; counts
    /// questions.
    #[derive(Debug, Default)]
    struct Host {
        asked: Arc<AtomicU32>,
        moved: Arc<AtomicU32>,
    }

    impl FlowResolver for Host {
        fn resolve(&mut self, flow: &Flow, _incoming: Option<InterfaceId>) -> Resolution {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let moved = self.moved.load(Ordering::Relaxed);
            match flow.source_port {
                9 => Resolution::Nowhere,
                10 => Resolution::Unknown,
                port => Resolution::Through(hop(1 + u32::from(port % 2) + moved)),
            }
        }
    }

    fn hop(interface: u32) -> Hop {
        Hop { interface: InterfaceId(interface), gateway: None, source: None }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn flow(destination: &str, source_port: u16) -> Flow {
        Flow {
            destination: destination.parse().expect("an address"),
            source: None,
            protocol: 17,
            destination_port: 5_001,
            source_port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }

    /// Creates a table in which 10.0.0.0/8 has several next hops and 10.1.0.0/16 has one.
    fn table() -> (RouteTable, Arc<AtomicU32>, Arc<AtomicU32>) {
        let mut table = RouteTable::new();
        for (text, interface) in [("10.0.0.0/8", 1), ("10.1.0.0/16", 3), ("10.2.0.0/16", 4)] {
            table.insert(Route { prefix: prefix(text), metric: 0, hop: hop(interface) });
        }
        table.set_multipath(prefix("10.0.0.0/8"), true);
        let host = Host::default();
        let counts = (host.asked.clone(), host.moved.clone());
        table.set_resolver(Box::new(host));
        (table, counts.0, counts.1)
    }

    fn through(table: &RouteTable, destination: &str, port: u16) -> u32 {
        table.lookup_flow(&flow(destination, port), None).map_or(0, |hop| hop.interface.0)
    }

    #[test]
    fn flow_with_several_next_hops_is_resolved_once() {
        let (table, asked, _) = table();
        for _ in 0..3 {
            assert_eq!(through(&table, "10.3.0.1", 4), 1);
            assert_eq!(through(&table, "10.3.0.1", 5), 2);
            assert_eq!(through(&table, "10.3.0.1", 9), 0, "the host has no route");
            assert_eq!(through(&table, "10.1.0.1", 5), 3, "one next hop");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert_eq!(through(&table, "10.3.0.1", 10), 1, "by the destination");
        assert!(table.differs_by_flow([10, 3, 0, 1].into()));
        assert!(!table.differs_by_flow([10, 1, 0, 1].into()));
    }

    #[test]
    fn change_of_prefix_resolves_its_flows_again() {
        let (mut table, asked, moved) = table();
        table.set_rules(false, true);
        assert_eq!(through(&table, "10.1.0.1", 4), 1, "rules apply to every destination");
        assert_eq!(through(&table, "10.2.0.1", 4), 1);
        moved.store(10, Ordering::Relaxed);
        table.flows_changed(prefix("10.2.0.0/16"));
        assert_eq!(through(&table, "10.1.0.1", 4), 1);
        assert_eq!(through(&table, "10.2.0.1", 4), 11);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        table.insert(Route { prefix: prefix("10.1.0.0/24"), metric: 0, hop: hop(7) });
        assert_eq!(through(&table, "10.1.0.1", 4), 11, "a route has changed");
        for _ in 0..DISTINCT_CHANGES + 1 {
            table.flows_changed(prefix("192.0.2.0/24"));
        }
        moved.store(20, Ordering::Relaxed);
        assert_eq!(through(&table, "10.1.0.1", 4), 21, "too many changes to tell apart");
        table.set_rules(false, false);
        assert_eq!(through(&table, "10.1.0.1", 4), 7);
    }

    #[test]
    fn number_of_answers_is_bounded_and_live_ones_stay() {
        let (table, asked, _) = table();
        let all = || (0..u16::MAX).filter(|port| port % 4 != 1 && *port != 10);
        for network in 3..=20_u8 {
            for port in all() {
                let live = flow("10.250.0.1", 4);
                table.lookup_flow(&live, None);
                let destination = IpAddr::from([10, network, 0, 1]);
                table.lookup_flow(&Flow { destination, ..flow("10.0.0.0", port) }, None);
            }
        }
        let expected = 1 + 18 * all().count() as u32;
        assert_eq!(asked.load(Ordering::Relaxed), expected, "the live flow is asked for once");
        let answers = table.flows.answers.borrow();
        assert!(answers.young.len() <= HALF && answers.old.len() <= HALF);
    }

    #[test]
    fn recorded_answers_replace_the_host() {
        let (mut live, _, _) = table();
        live.keep_flow_answers();
        let asked = [("10.3.0.1", 5), ("10.4.0.1", 9), ("10.3.0.1", 10), ("10.3.0.1", 5)];
        let seen = asked.map(|(to, port)| through(&live, to, port));
        let log = live.take_flow_answers();
        assert_eq!(log.len(), 3);
        assert!(live.take_flow_answers().is_empty());
        let text = serde_json::to_string(&log).expect("serialisable");

        let mut again = RouteTable::new();
        again.set_flow_hash(KeyedHash::draw(&mut RandomStreams::new(7).stream("other")));
        again.insert(Route { prefix: prefix("10.0.0.0/8"), metric: 0, hop: hop(1) });
        again.set_multipath(prefix("10.0.0.0/8"), true);
        again.add_recorded_answers(serde_json::from_str(&text).expect("what was written"));
        assert_eq!(asked.map(|(to, port)| through(&again, to, port)), seen);
    }
}
