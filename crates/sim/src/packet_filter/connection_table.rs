//! Tracked connections: which packets answer which, and the translation that a connection got with its first packet.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::{Endpoint, FilterRule, FilteredPackets, Time};

use super::header::{Header, Tuple};

/// Time after which a connection without packets is forgotten: that of a UDP stream in Linux.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Limit of the connections of a node; packets of more are dropped.
const LIMIT: usize = 65_536;
/// Minimum time between two searches for connections that have timed out.
const SWEEP: Duration = Duration::from_secs(1);
/// Limit of source ports that are tried for a connection whose translation another one has.
const PORTS_TRIED: u16 = 64;

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// First packet, before translation.
    first: Header,
    /// Packets of its original direction, after translation.
    translated: Tuple,
    /// Rule by which it is translated.
    rule: Option<FilteredPackets>,
    /// Time of its last packet.
    last: Time,
}

/// The connections of a node.
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    /// Connections by their packets before translation.
    connections: BTreeMap<Tuple, Connection>,
    /// Packets before translation, by those of the replies.
    replies: BTreeMap<Tuple, Tuple>,
    /// Connections by the rule that translates them.
    translated_by: BTreeSet<(FilteredPackets, Tuple)>,
    next_sweep: Time,
}

impl ConnectionTable {
    /// Returns the first packet of the connection that a packet is a reply of, before translation.
    pub(super) fn first_of(&self, now: Time, reply: &Tuple) -> Option<Header> {
        let connection = self.connections.get(self.replies.get(reply)?)?;
        (connection.last + TIMEOUT > now).then_some(connection.first)
    }

    /// Returns the packets of the original direction of a connection after translation.
    pub(super) fn translated(&self, now: Time, original: &Tuple) -> Option<Tuple> {
        let connection = self.connections.get(original)?;
        (connection.last + TIMEOUT > now).then_some(connection.translated)
    }

    /// Records a packet of a connection.
    pub(super) fn touch(&mut self, now: Time, original: &Tuple) {
        if let Some(connection) = self.connections.get_mut(original) {
            connection.last = now;
        }
    }

    /// Begins a connection, translated by a rule or not. Returns its packets after translation; `None` if there is no room.
    pub(super) fn begin(
        &mut self,
        now: Time,
        first: Header,
        rule: Option<&FilterRule>,
    ) -> Option<Tuple> {
        let original = first.tuple;
        self.forget(&original);
        if self.connections.len() >= LIMIT {
            self.sweep(now);
            if self.connections.len() >= LIMIT {
                return None;
            }
        }
        let wanted = rule.map_or(original, |rule| Tuple {
            source: translated_end(original, original.source, rule.source),
            destination: translated_end(original, original.destination, rule.destination),
            ..original
        });
        let translated = match rule {
            Some(_) => self.find_free(now, wanted)?,
            None => wanted,
        };
        let rule = rule.map(|rule| rule.packets);
        if let Some(before) = self.replies.insert(translated.inverted(), original) {
            self.forget(&before);
            self.replies.insert(translated.inverted(), original);
        }
        self.translated_by.extend(rule.map(|packets| (packets, original)));
        self.connections.insert(original, Connection { first, translated, rule, last: now });
        Some(translated)
    }

    /// Forgets the connections that a rule translates.
    pub(super) fn forget_translated_by(&mut self, packets: FilteredPackets) {
        let first = Tuple::lowest(Ipv4Addr::UNSPECIFIED.into());
        let own = self.translated_by.range((packets, first)..);
        let own = own.take_while(|(of, _)| *of == packets).map(|(_, original)| *original);
        for original in own.collect::<Vec<_>>() {
            self.forget(&original);
        }
    }

    /// Forgets the connections of these packets, which get another translation with their next packet.
    pub(super) fn forget_matching(&mut self, packets: &FilteredPackets) {
        let first = Tuple::lowest(packets.flow.source.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        let source = packets.flow.source;
        let from = self.connections.range(first..).map(|(original, _)| *original);
        let from =
            from.take_while(|original| source.is_none_or(|it| original.source.address == it));
        for original in from.filter(|original| original.is_of(packets)).collect::<Vec<_>>() {
            self.forget(&original);
        }
    }

    /// Returns the first of these packets after translation, with another source port if need be, whose replies no other
    /// connection expects.
    fn find_free(&self, now: Time, wanted: Tuple) -> Option<Tuple> {
        let ports = if wanted.has_ports() { PORTS_TRIED } else { 1 };
        let candidates = (0..ports).map(|more| Tuple {
            source: Endpoint { port: wanted.source.port.wrapping_add(more), ..wanted.source },
            ..wanted
        });
        candidates
            .filter(|it| !it.has_ports() || it.source.port != 0)
            .find(|it| self.first_of(now, &it.inverted()).is_none())
    }

    fn forget(&mut self, original: &Tuple) {
        let Some(connection) = self.connections.remove(original) else { return };
        let reply = connection.translated.inverted();
        if self.replies.get(&reply) == Some(original) {
            self.replies.remove(&reply);
        }
        if let Some(rule) = connection.rule {
            self.translated_by.remove(&(rule, *original));
        }
    }

    fn sweep(&mut self, now: Time) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        let idle = self.connections.iter().filter(|(_, it)| it.last + TIMEOUT <= now);
        for original in idle.map(|(original, _)| *original).collect::<Vec<_>>() {
            self.forget(&original);
        }
    }
}

impl Tuple {
    /// Returns the first tuple in order of those from a source address.
    fn lowest(source: IpAddr) -> Tuple {
        let end = |address| Endpoint { address, port: 0 };
        Tuple { source: end(source), destination: end(Ipv4Addr::UNSPECIFIED.into()), protocol: 0 }
    }
}

/// Returns an end of a connection after its translation.
fn translated_end(of: Tuple, own: Endpoint, to: Option<Endpoint>) -> Endpoint {
    match to {
        None => own,
        Some(to) if to.port == 0 || !of.has_ports() => Endpoint { port: own.port, ..to },
        Some(to) => to,
    }
}
