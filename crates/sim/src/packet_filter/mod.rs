//! The packet filter of a node: pinholes and translations of forwarded packets, with connection tracking.
//!
//! Rules are looked up by the packets of the original direction of a connection, before translation; replies belong to the
//! connection that they answer. Denied packets are dropped, allowed ones are forwarded; else a packet of the original
//! direction that arrives through a guarded interface is dropped, and so is a reply that leaves through one. All else is
//! forwarded. A connection is translated as the narrowest rule said at its first packet, and ends with that rule.

mod connection_table;
mod header;
mod rule_table;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;

use earmark_core::{FilterChange, FilterRule, FilteredPackets, InterfaceId, Time};

use crate::packet::Packet;
use connection_table::ConnectionTable;
use rule_table::RuleTable;

/// `ENOSPC`: error number of a rule above the limit.
const NO_SPACE: u16 = 28;
/// `EINVAL`: error number of a rule that no packet filter can keep.
const INVALID: u16 = 22;
/// Limit of rules, unless a test sets another one.
const RULES: usize = 1_000_000;

/// Rules and connections of one node.
#[derive(Debug)]
pub(crate) struct PacketFilter {
    guarded: BTreeSet<InterfaceId>,
    rules: RuleTable,
    connections: ConnectionTable,
    pub(crate) limit: usize,
    /// Error number with which every installation is refused, if any.
    pub(crate) refuse: Option<u16>,
    /// Number of packets that were dropped.
    pub(crate) dropped: u64,
}

/// What a packet filter says about a packet that is to be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The packet is forwarded.
    Forward,
    /// The packet is a reply without a rule, which is forwarded unless it leaves through a guarded interface.
    UnguardedOnly,
    /// The packet is dropped.
    Drop,
}

impl Default for PacketFilter {
    fn default() -> PacketFilter {
        PacketFilter {
            guarded: BTreeSet::new(),
            rules: RuleTable::default(),
            connections: ConnectionTable::default(),
            limit: RULES,
            refuse: None,
            dropped: 0,
        }
    }
}

impl PacketFilter {
    /// Guards an interface from now on.
    pub(crate) fn guard(&mut self, interface: InterfaceId) {
        self.guarded.insert(interface);
    }

    /// Returns whether an interface is guarded.
    pub(crate) fn guards(&self, interface: InterfaceId) -> bool {
        self.guarded.contains(&interface)
    }

    /// Guards an interface that has another index now.
    pub(crate) fn renumber(&mut self, from: InterfaceId, to: InterfaceId) {
        if self.guarded.remove(&from) {
            self.guarded.insert(to);
        }
    }

    /// Removes all rules and connections; what is guarded stays so.
    pub(crate) fn clear(&mut self) {
        self.rules = RuleTable::default();
        self.connections = ConnectionTable::default();
    }

    /// Returns the rules with their ends, those left out that have ended.
    pub(crate) fn rules(&self, now: Time) -> impl Iterator<Item = (FilterRule, Time)> + '_ {
        self.rules.iter().filter(move |(_, until)| *until > now)
    }

    /// Installs, replaces or removes a rule.
    ///
    /// # Errors
    /// The error number of a refused rule; nothing is installed for its packets.
    pub(crate) fn change(&mut self, now: Time, change: &FilterChange) -> Result<(), u16> {
        self.end_rules(now);
        match change {
            FilterChange::Install(rule, until) => {
                let known = self.rules.get(&rule.packets).copied();
                let is_full = known.is_none() && self.rules.len() >= self.limit;
                let errno = self
                    .refuse
                    .or_else(|| rule.check().is_err().then_some(INVALID))
                    .or(is_full.then_some(NO_SPACE));
                if let Some(errno) = errno {
                    self.remove(rule.packets);
                    return Err(errno);
                }
                let translation = |rule: FilterRule| (rule.source, rule.destination);
                if known.map_or((None, None), translation) != translation(*rule) {
                    self.connections.forget_matching(&rule.packets);
                }
                self.rules.insert(*rule, *until);
            }
            FilterChange::Remove(packets) => self.remove(*packets),
        }
        Ok(())
    }

    /// Returns whether a packet to an address of the node is translated to one of another node.
    pub(crate) fn redirects(&mut self, now: Time, packet: &Packet) -> bool {
        self.end_rules(now);
        let header = packet.header();
        if let Some(first) = self.connections.first_of(now, &header.tuple) {
            return first.tuple.source.address != packet.destination;
        }
        match self.connections.translated(now, &header.tuple) {
            Some(translated) => translated.destination.address != packet.destination,
            None => {
                let translation = self.rules.decide(&header).translation;
                let to = translation.and_then(|rule| rule.destination);
                to.is_some_and(|to| to.address != packet.destination)
            }
        }
    }

    /// Returns what happens to a packet that is to be forwarded, and translates it.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        incoming: InterfaceId,
        packet: &mut Packet,
    ) -> Passage {
        self.end_rules(now);
        let header = packet.header();
        if let Some(first) = self.connections.first_of(now, &header.tuple) {
            let decision = self.rules.decide(&first);
            if decision.denied {
                return Passage::Drop;
            }
            self.connections.touch(now, &first.tuple);
            packet.rewrite(&header.tuple, &first.tuple.inverted());
            return match decision.allowed {
                true => Passage::Forward,
                false => Passage::UnguardedOnly,
            };
        }
        let decision = self.rules.decide(&header);
        if decision.denied || !decision.allowed && self.guards(incoming) {
            return Passage::Drop;
        }
        let known = self.connections.translated(now, &header.tuple);
        let translated = match known {
            Some(translated) => {
                self.connections.touch(now, &header.tuple);
                Some(translated)
            }
            None => self.connections.begin(now, header, decision.translation.as_ref()),
        };
        let Some(translated) = translated else { return Passage::Drop };
        packet.rewrite(&header.tuple, &translated);
        Passage::Forward
    }

    fn remove(&mut self, packets: FilteredPackets) {
        if self.rules.remove(&packets) {
            self.connections.forget_translated_by(packets);
        }
    }

    fn end_rules(&mut self, now: Time) {
        while let Some(packets) = self.rules.pop_ended(now) {
            self.connections.forget_translated_by(packets);
        }
    }
}
