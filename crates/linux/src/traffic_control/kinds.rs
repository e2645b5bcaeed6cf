//! Kinds of flows, by the packet fields that they compare (`bpf/flow.h`): the classifier looks up only the kinds of a
//! link.

use std::collections::BTreeMap;

use earmark_core::{Flow, InterfaceId};

use super::bpf_ranges::Mask;

/// Number of kinds with a source; those of any source follow, in the same order.
const KINDS_OF_ANY_SOURCE: u32 = 6;
/// The kind of all ranges.
const RANGE: u32 = 12;

/// Returns the number of a flow's kind, the most specific first. An SPI counts as both ports.
fn kind(flow: &Flow) -> u32 {
    if flow.is_range() {
        return RANGE;
    }
    if flow.spi != 0 {
        return if flow.source.is_none() { KINDS_OF_ANY_SOURCE } else { 0 };
    }
    let named = match (flow.destination_port != 0, flow.source_port != 0, flow.flow_label != 0) {
        (true, true, _) => 0,
        (true, false, true) => 1,
        (true, false, false) => 2,
        (false, true, _) => 3,
        (false, false, true) => 4,
        (false, false, false) => 5,
    };
    named + if flow.source.is_none() { KINDS_OF_ANY_SOURCE } else { 0 }
}

/// Number of flows of each kind on each link.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// By link, family (0 for IPv4) and kind.
    counts: BTreeMap<(InterfaceId, usize, u32), u32>,
    /// Number of ranges of each mask: a search for the ranges of a flow looks up one for each mask.
    masks: BTreeMap<(InterfaceId, Mask), u32>,
}

impl Kinds {
    /// Counts a new flow; returns whether it is the first of its kind.
    pub(super) fn enter(&mut self, interface: InterfaceId, flow: &Flow) -> bool {
        if flow.is_range() {
            *self.masks.entry((interface, Mask::of(flow))).or_default() += 1;
        }
        let count = self.counts.entry(Kinds::key(interface, flow)).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a flow from the count.
    pub(super) fn leave(&mut self, interface: InterfaceId, flow: &Flow) {
        let mask = flow.is_range().then(|| (interface, Mask::of(flow)));
        if let Some(key) = mask
            && let Some(count) = self.masks.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                self.masks.remove(&key);
            }
        }
        let key = Kinds::key(interface, flow);
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// Returns the kinds of a link, one bit each: of IPv4 and of IPv6.
    pub(super) fn of(&self, interface: InterfaceId) -> [u32; 2] {
        let mut kinds = [0; 2];
        let all = (interface, 0, 0)..=(interface, 1, RANGE);
        for &(_, family, kind) in self.counts.range(all).map(|(key, _)| key) {
            kinds[family] |= 1 << kind;
        }
        kinds
    }

    /// Returns the flows of a link that the packets of a flow may match, in the classifier's order: the most specific
    /// first. One for each kind and mask of the link.
    pub(super) fn around(&self, interface: InterfaceId, packets: &Flow) -> Vec<Flow> {
        let Flow { destination_port: to, source_port: from, flow_label: label, spi, .. } = *packets;
        let kinds = self.of(interface)[usize::from(!packets.destination.is_ipv4())];
        let named = [
            (to, from, 0, spi),
            (to, 0, label, 0),
            (to, 0, 0, 0),
            (0, from, 0, 0),
            (0, 0, label, 0),
            (0, 0, 0, 0),
        ];
        let flows = [packets.source, None].into_iter().flat_map(|source| {
            named.map(|(destination_port, source_port, flow_label, spi)| Flow {
                source,
                destination_port,
                source_port,
                flow_label,
                spi,
                ..*packets
            })
        });
        // Kinds that differ only in fields that the packet lacks give the same flow.
        let mut around: Vec<Flow> = Vec::new();
        for flow in flows {
            if kinds & 1 << kind(&flow) != 0 && !around.contains(&flow) {
                around.push(flow);
            }
        }
        let all = (interface, Mask::FIRST)..=(interface, Mask::LAST);
        let masks = self.masks.range(all).map(|((_, mask), _)| mask);
        around.extend(masks.filter_map(|mask| mask.range_around(packets)));
        around
    }

    /// Removes a link.
    pub(super) fn forget(&mut self, interface: InterfaceId) {
        self.masks.retain(|(on, _), _| *on != interface);
        self.counts.retain(|(on, ..), _| *on != interface);
    }

    fn key(interface: InterfaceId, flow: &Flow) -> (InterfaceId, usize, u32) {
        (interface, usize::from(!flow.destination.is_ipv4()), kind(flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(destination: &str, source: Option<&str>, ports: (u16, u16), label: u32) -> Flow {
        Flow {
            destination: destination.parse().expect("an address"),
            source: source.map(|source| source.parse().expect("an address")),
            protocol: 17,
            destination_port: ports.0,
            source_port: ports.1,
            flow_label: label,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }

    #[test]
    fn flows_around_packets_are_limited_to_kinds_of_the_link() {
        let link = InterfaceId(3);
        let packets = flow("10.0.0.9", Some("10.0.0.1"), (5, 6), 0);
        let range = Flow::to_range("10.0.0.0/8".parse().expect("a prefix"));
        let narrow = Flow {
            source: packets.source,
            ..Flow::to_range("10.0.0.9/32".parse().expect("a prefix"))
        };
        let claimed = [
            packets,
            flow("10.0.0.9", Some("10.0.0.1"), (5, 0), 0),
            flow("10.0.0.9", None, (5, 0), 0),
            flow("10.0.0.9", None, (0, 0), 0),
            narrow,
            range,
        ];
        let mut kinds = Kinds::default();
        for flow in claimed.iter().rev() {
            kinds.enter(link, flow);
        }
        kinds.enter(InterfaceId(4), &Flow::to_range("10.0.0.0/9".parse().expect("a prefix")));
        assert_eq!(kinds.around(link, &packets), claimed);
        let portless = Flow { destination_port: 0, source_port: 0, ..packets };
        let encrypted = Flow { spi: 7, protocol: 50, ..portless };
        let any_spi = Flow { spi: 0, source: None, ..encrypted };
        for flow in [any_spi, encrypted] {
            kinds.enter(InterfaceId(5), &flow);
        }
        assert_eq!(kinds.around(InterfaceId(5), &encrypted), [encrypted, any_spi]);
        let other = Flow { spi: 8, ..encrypted };
        assert_eq!(kinds.around(InterfaceId(5), &other), [other, any_spi]);
        assert_eq!(kinds.around(link, &portless), claimed[3..], "no kind that names a port");
        kinds.leave(link, &range);
        assert_eq!(kinds.around(link, &packets), claimed[..5]);
        kinds.forget(link);
        assert_eq!(kinds.around(link, &packets), []);
        assert_eq!(kinds.around(InterfaceId(4), &packets).len(), 1);
    }

    #[test]
    fn every_kind_has_its_bit() {
        let (v4, from4) = ("10.0.0.9", Some("10.0.0.1"));
        let (v6, from6) = ("2001:db8::9", Some("2001:db8::1"));
        for (flow, family, bit) in [
            (flow(v4, from4, (5, 6), 0), 0, 0),
            (flow(v6, from6, (5, 0), 7), 1, 1),
            (flow(v4, from4, (5, 0), 0), 0, 2),
            (flow(v4, from4, (0, 6), 0), 0, 3),
            (flow(v6, from6, (0, 0), 7), 1, 4),
            (flow(v4, from4, (0, 0), 0), 0, 5),
            (flow(v4, None, (5, 6), 0), 0, 6),
            (flow(v6, None, (5, 0), 7), 1, 7),
            (flow(v4, None, (0, 0), 0), 0, 11),
            (Flow::to_range("10.0.0.0/8".parse().expect("a prefix")), 0, 12),
            (Flow::to_range("2001:db8::/32".parse().expect("a prefix")), 1, 12),
        ] {
            let mut kinds = Kinds::default();
            assert!(kinds.enter(InterfaceId(3), &flow), "the first of its kind");
            assert!(!kinds.enter(InterfaceId(3), &flow));
            let mut expected = [0; 2];
            expected[family] = 1 << bit;
            assert_eq!(kinds.of(InterfaceId(3)), expected, "{flow:?}");
            assert_eq!(kinds.of(InterfaceId(2)), [0; 2]);
            kinds.leave(InterfaceId(3), &flow);
            assert_eq!(kinds.of(InterfaceId(3)), expected);
            kinds.leave(InterfaceId(3), &flow);
            assert_eq!(kinds.of(InterfaceId(3)), [0; 2]);
        }
    }
}
