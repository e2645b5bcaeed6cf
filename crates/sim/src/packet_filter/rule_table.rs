//! The rules of a packet filter: by their packets, and by their ends.

use alloc::collections::{BTreeMap, BTreeSet};

use earmark_core::{FilterAction, FilterRule, FilteredPackets, Flow, Prefix, Time};

use super::header::Header;

/// The rules of a node.
#[derive(Debug, Default)]
pub(super) struct RuleTable {
    rules: BTreeMap<FilteredPackets, (FilterRule, Time)>,
    ends: BTreeSet<(Time, FilteredPackets)>,
}

/// What the rules of a packet say, of all that match it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decision {
    /// A rule drops it.
    pub(super) denied: bool,
    /// A rule forwards it.
    pub(super) allowed: bool,
    /// The narrowest rule that translates it.
    pub(super) translation: Option<FilterRule>,
}

impl RuleTable {
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FilterRule, Time)> + '_ {
        self.rules.values().copied()
    }

    pub(super) fn get(&self, packets: &FilteredPackets) -> Option<&FilterRule> {
        self.rules.get(packets).map(|(rule, _)| rule)
    }

    /// Installs a rule until a time, or replaces that of the same packets.
    pub(super) fn insert(&mut self, rule: FilterRule, until: Time) {
        self.remove(&rule.packets);
        self.rules.insert(rule.packets, (rule, until));
        self.ends.insert((until, rule.packets));
    }

    /// Removes the rule of these packets; returns whether there was one.
    pub(super) fn remove(&mut self, packets: &FilteredPackets) -> bool {
        let Some((_, until)) = self.rules.remove(packets) else { return false };
        self.ends.remove(&(until, *packets));
        true
    }

    /// Removes a rule that has ended, and returns its packets.
    pub(super) fn pop_ended(&mut self, now: Time) -> Option<FilteredPackets> {
        let (until, packets) = *self.ends.first()?;
        if until > now {
            return None;
        }
        self.remove(&packets);
        Some(packets)
    }

    /// Returns what the rules say about a packet of the original direction of its connection.
    pub(super) fn decide(&self, header: &Header) -> Decision {
        let mut decision = Decision::default();
        for packets in keys(header) {
            let Some((rule, _)) = self.rules.get(&packets) else { continue };
            match rule.action {
                FilterAction::Deny => decision.denied = true,
                FilterAction::Allow => decision.allowed = true,
            }
            if rule.translates() && decision.translation.is_none() {
                decision.translation = Some(*rule);
            }
        }
        decision
    }
}

/// Returns the packets of all rules that can match a packet, narrower ones first.
fn keys(header: &Header) -> impl Iterator<Item = FilteredPackets> {
    let Header { tuple, spi, icmp_type } = *header;
    let (from, to) = (tuple.source, tuple.destination);
    // Protocol, source port, destination port, SPI and ICMP type.
    let fields = [
        (tuple.has_ports()).then_some((true, from.port, to.port, 0, None)),
        (spi != 0).then_some((true, 0, 0, spi, None)),
        icmp_type.map(|_| (true, 0, 0, 0, icmp_type)),
        (tuple.has_ports()).then_some((true, 0, to.port, 0, None)),
        (tuple.has_ports()).then_some((true, from.port, 0, 0, None)),
        Some((true, 0, 0, 0, None)),
        Some((false, 0, 0, 0, None)),
    ];
    fields.into_iter().flatten().flat_map(
        move |(has_protocol, source_port, destination_port, spi, icmp_type)| {
            [Some(from.address), None].into_iter().map(move |source| FilteredPackets {
                flow: Flow {
                    source,
                    protocol: if has_protocol { tuple.protocol } else { 0 },
                    destination_port,
                    source_port,
                    spi,
                    ..Flow::to_range(Prefix::host(to.address))
                },
                icmp_type,
            })
        },
    )
}
