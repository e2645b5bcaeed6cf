//! The u32 classifier, for kernels where BPF is not to be had: one filter per flow, on the root of HTB.
//!
//! A u32 filter compares 32-bit words of the packet under masks. The filters form lists by priority, walked in order;
//! one list per kind of flow keeps the most specific first. So a packet costs time in proportion to the number of
//! flows, and a list ends at 4 095 filters. Filters live and die with the root qdisc.
//!
//! What a filter with ports cannot see: packets with IPv4 options or IPv6 extension headers in front of the ports, and
//! fragments after the first. Without ports, an IPv6 packet with extension headers has the protocol of the first of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Flow, InterfaceId};

use super::flow_table::FlowTable;
use super::kernel::{HEADER, KIND, OPTIONS, header, u32_at};
use super::plan::{MARK, SIGNALLING, handle};
use super::{ClassifierChoice, TcError};
use crate::netlink::{Attribute, Connection, Message, NetlinkError, Received};

// Attributes of u32 (`TCA_U32_...`).
const CLASS: u16 = 1;
const SELECTOR: u16 = 5;
/// `TC_U32_TERMINAL`: a match decides.
const TERMINAL: u8 = 1;
/// The bits of a filter's handle that number it in its list; without them it is a list itself.
const NODE: u32 = 0xfff;
/// The first priorities are those of the filters for signalling, one each; flows follow.
const SIGNALLING_FILTERS: u16 = 4;
const RSVP: u8 = 46;
/// RSVP that only the edges of a core look at (RFC 3175).
const RSVP_E2E_IGNORE: u8 = 134;

/// A filter as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    class: u32,
    /// Handle within its list.
    handle: u32,
}

/// The classifier.
#[derive(Debug)]
pub(super) struct U32Table {
    netlink: Connection,
    interfaces: BTreeSet<InterfaceId>,
    /// Ours is the key: local configuration and what was admitted. Ordered, so that the hasher is no question.
    filters: BTreeMap<(InterfaceId, Flow), Filter>,
}

impl U32Table {
    pub(super) fn open() -> Result<U32Table, TcError> {
        let (interfaces, filters) = (BTreeSet::new(), BTreeMap::new());
        Ok(U32Table { netlink: Connection::open()?, interfaces, filters })
    }

    /// Adds a filter; returns the handle that the kernel gave it.
    fn add(
        &mut self,
        interface: InterfaceId,
        priority: u16,
        selector: &Selector,
        class: u32,
    ) -> Result<u32, TcError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ECHO;
        let message = Message::new(libc::RTM_NEWTFILTER, flags as u16)
            .fixed(&filter_header(interface, 0, priority, selector.ether_type))
            .text(KIND, "u32")
            .nested(OPTIONS, |m| m.u32(CLASS, class).attribute(SELECTOR, &selector.emit()));
        let answers = self.netlink.ask("add a u32 filter", message)?;
        for message in &answers {
            let message = message?;
            if message.kind == libc::RTM_NEWTFILTER {
                return Ok(u32_at(message.fixed(HEADER, "filter")?, 8));
            }
        }
        Err(NetlinkError::Malformed { field: "echo of a filter", offset: 0 }.into())
    }

    fn delete(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        filter: Filter,
    ) -> Result<(), TcError> {
        let selector = Selector::of(flow);
        let fixed = filter_header(interface, filter.handle, priority(flow), selector.ether_type);
        let message = Message::new(libc::RTM_DELTFILTER, 0).fixed(&fixed).text(KIND, "u32");
        match self.netlink.request("delete a u32 filter", message) {
            Err(error) if error.is(libc::ENOENT) || error.is(libc::EINVAL) => Ok(()),
            outcome => Ok(outcome?),
        }
    }

    /// Learns the filters of an interface from the kernel. Returns whether those for signalling are among them.
    fn refresh(&mut self, interface: InterfaceId) -> Result<bool, TcError> {
        let listed = self.listed(interface)?;
        self.filters.retain(|(on, _), _| *on != interface);
        let mut signalling = 0;
        for Listed { handle: number, class, flow } in listed {
            let Some(flow) = flow else {
                signalling += u16::from(class == handle(SIGNALLING));
                continue;
            };
            let filter = Filter { class, handle: number };
            // Two for one flow: an earlier change was cut short. The later one is what was meant.
            if let Some(earlier) = self.filters.insert((interface, flow), filter) {
                self.delete(interface, &flow, earlier)?;
            }
        }
        Ok(signalling >= SIGNALLING_FILTERS)
    }

    /// The filters on our root of an interface, as the kernel lists them; none where there is no such root.
    fn listed(&mut self, interface: InterfaceId) -> Result<Vec<Listed>, TcError> {
        let fixed = filter_header(interface, 0, 0, 0);
        let message = Message::new(libc::RTM_GETTFILTER, 0).fixed(&fixed);
        let answers = match self.netlink.dump("list the filters", message) {
            Err(error) if error.is(libc::EINVAL) || error.is(libc::ENOENT) => return Ok(Vec::new()),
            answers => answers?,
        };
        let mut listed = Vec::new();
        for message in &answers {
            listed.extend(Listed::decode(&message?)?);
        }
        Ok(listed)
    }
}

impl FlowTable for U32Table {
    fn choice(&self) -> ClassifierChoice {
        ClassifierChoice::U32
    }

    fn attach(&mut self, interface: InterfaceId) -> Result<bool, TcError> {
        self.interfaces.insert(interface);
        let signalling = self.refresh(interface)?;
        if !signalling {
            let selectors = [
                Selector::arp(),
                Selector::neighbor_discovery(),
                Selector::protocol(RSVP),
                Selector::protocol(RSVP_E2E_IGNORE),
            ];
            for (selector, priority) in selectors.iter().zip(1..=SIGNALLING_FILTERS) {
                self.add(interface, priority, selector, handle(SIGNALLING))?;
            }
        }
        Ok(!signalling)
    }

    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        self.interfaces.remove(&interface);
        self.filters.retain(|(on, _), _| *on != interface);
        // All filters of a root at once: no priority, no handle.
        let fixed = filter_header(interface, 0, 0, 0);
        let message = Message::new(libc::RTM_DELTFILTER, 0).fixed(&fixed);
        match self.netlink.request("delete the u32 filters", message) {
            Err(error)
                if [libc::ENOENT, libc::EINVAL, libc::ENODEV].iter().any(|e| error.is(*e)) =>
            {
                Ok(())
            }
            outcome => Ok(outcome?),
        }
    }

    fn set(&mut self, interface: InterfaceId, flow: &Flow, class: u32) -> Result<(), TcError> {
        let old = self.filters.get(&(interface, *flow)).copied();
        if old.is_some_and(|filter| filter.class == class) {
            return Ok(());
        }
        let handle = self.add(interface, priority(flow), &Selector::of(flow), class)?;
        self.filters.insert((interface, *flow), Filter { class, handle });
        // The new one stands behind the old one in its list: until this, packets took the old class.
        old.map_or(Ok(()), |old| self.delete(interface, flow, old))
    }

    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError> {
        let Some(&filter) = self.filters.get(&(interface, *flow)) else {
            return Ok(());
        };
        self.delete(interface, flow, filter)?;
        self.filters.remove(&(interface, *flow));
        Ok(())
    }

    fn entries(&mut self) -> Result<Vec<(InterfaceId, Flow, u32)>, TcError> {
        for interface in self.interfaces.clone() {
            self.refresh(interface)?;
        }
        let entries = self.filters.iter();
        Ok(entries.map(|(&(interface, flow), filter)| (interface, flow, filter.class)).collect())
    }
}

/// A filter in a dump.
#[derive(Clone, Debug)]
struct Listed {
    handle: u32,
    class: u32,
    /// `None` where it is not one that we write for a flow.
    flow: Option<Flow>,
}

impl Listed {
    fn decode(message: &Received<'_>) -> Result<Option<Listed>, NetlinkError> {
        let fixed = message.fixed(HEADER, "filter")?;
        let (handle, information) = (u32_at(fixed, 8), u32_at(fixed, 16));
        let ether_type = u16::from_be(information as u16);
        if handle & NODE == 0 {
            return Ok(None);
        }
        let (mut kind, mut options): (_, Option<Attribute<'_>>) = (String::new(), None);
        for attribute in message.attributes(HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                KIND => kind = attribute.text(),
                OPTIONS => options = Some(attribute),
                _ => {}
            }
        }
        let ("u32", Some(options)) = (kind.as_str(), options) else {
            return Ok(None);
        };
        let (mut class, mut selector) = (0, None);
        for attribute in options.nested() {
            let attribute = attribute?;
            match attribute.kind {
                CLASS => class = attribute.u32("class of a filter")?,
                SELECTOR => selector = Selector::decode(attribute.value, ether_type),
                _ => {}
            }
        }
        let flow = selector
            .and_then(|s| s.flow())
            .filter(|_| information >> 16 > SIGNALLING_FILTERS.into());
        Ok(Some(Listed { handle, class, flow }))
    }
}

/// One list per kind of flow, most specific first, as in the BPF classifier; two families cannot share a list. Ranges come
/// behind all flows, the narrowest first.
fn priority(flow: &Flow) -> u16 {
    if flow.is_range() {
        // Of IPv6 3 * 129 * 129 at most; the two families need not be in any order.
        let family = if flow.destination.is_ipv4() { 100 } else { FIRST_RANGE_OF_IPV6 };
        return family + flow.openness() as u16;
    }
    let ports = match (flow.destination_port, flow.source_port) {
        (0, 0) => 3,
        (0, _) => 2,
        (_, 0) => 1,
        _ => 0,
    };
    // A label counts more than none, and less than a source port.
    let kind = ports * 2 + u16::from(flow.flow_label == 0);
    let any_source = if flow.source.is_none() { 8 } else { 0 };
    let family = if flow.destination.is_ipv4() { 10 } else { 30 };
    family + any_source + kind
}

/// Behind all of IPv4: 100 + 33 * 129 * 3.
const FIRST_RANGE_OF_IPV6: u16 = 13_000;

/// The fixed part of messages about filters on our root qdisc.
fn filter_header(
    interface: InterfaceId,
    handle: u32,
    priority: u16,
    ether_type: u16,
) -> [u8; HEADER] {
    let information = u32::from(priority) << 16 | u32::from(ether_type.to_be());
    header(interface, handle, u32::from(MARK) << 16, information)
}

/// What a filter compares: words of the packet, from the IP header on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector {
    ether_type: u16,
    words: Vec<Word>,
}

/// The word at an offset must have this value under this mask; as numbers, the first octet the most significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    offset: i32,
    mask: u32,
    value: u32,
}

const IPV4: u16 = libc::ETH_P_IP as u16;
const IPV6: u16 = libc::ETH_P_IPV6 as u16;
const ARP: u16 = libc::ETH_P_ARP as u16;
const ICMPV6: u8 = 58;

impl Selector {
    /// All IPv4 packets of a protocol.
    fn protocol(protocol: u8) -> Selector {
        let words = vec![Word { offset: 8, mask: 0x00ff_0000, value: u32::from(protocol) << 16 }];
        Selector { ether_type: IPV4, words }
    }

    /// All of ARP: what neighbours ask about addresses must not wait behind a full queue.
    fn arp() -> Selector {
        Selector { ether_type: ARP, words: vec![Word { offset: 0, mask: 0, value: 0 }] }
    }

    /// The same in IPv6 (RFC 4861): ICMPv6 that no router sends on, because its hop limit is 255.
    fn neighbor_discovery() -> Selector {
        let value = u32::from(ICMPV6) << 8 | 255;
        Selector { ether_type: IPV6, words: vec![Word { offset: 4, mask: 0xffff, value }] }
    }

    /// The packets of a flow.
    fn of(flow: &Flow) -> Selector {
        let protocol = u32::from(flow.protocol);
        let ports = u32::from(flow.source_port) << 16 | u32::from(flow.destination_port);
        let all = |port: u16| if port == 0 { 0 } else { u32::from(u16::MAX) };
        let mask = all(flow.source_port) << 16 | all(flow.destination_port);
        let mut words = Vec::new();
        let mut word = |offset, mask, value| {
            words.push(Word { offset, mask, value });
        };
        let (source_open, destination_open) = (flow.source_open, flow.destination_open);
        if flow.destination.is_ipv4() {
            if flow.protocol != 0 {
                word(8, 0x00ff_0000, protocol << 16);
            }
            flow.source.into_iter().for_each(|a| {
                address_words(a, 12, source_open).for_each(|w| word(w.0, w.1, w.2));
            });
            address_words(flow.destination, 16, destination_open).for_each(|w| word(w.0, w.1, w.2));
            if ports != 0 {
                word(0, 0x0f00_0000, 0x0500_0000); // no options
                word(4, 0x0000_1fff, 0); // no later fragment
                word(20, mask, ports);
            }
            Selector { ether_type: IPV4, words }
        } else {
            if flow.flow_label != 0 {
                word(0, 0x000f_ffff, flow.flow_label);
            }
            if flow.protocol != 0 {
                word(4, 0x0000_ff00, protocol << 8);
            }
            flow.source.into_iter().for_each(|a| {
                address_words(a, 8, source_open).for_each(|w| word(w.0, w.1, w.2));
            });
            address_words(flow.destination, 24, destination_open).for_each(|w| word(w.0, w.1, w.2));
            if ports != 0 {
                word(40, mask, ports & mask);
            }
            Selector { ether_type: IPV6, words }
        }
    }

    /// The flow that this selects, where it is one that [`Selector::of`] writes.
    fn flow(&self) -> Option<Flow> {
        let at = |offset| self.words.iter().find(|w| w.offset == offset).map(|w| w.value);
        let open = |start: i32, end: i32| {
            let words = self.words.iter().filter(|w| (start..end).contains(&w.offset));
            words.map(|w| w.mask.count_zeros() as u8).sum::<u8>() // an address has 128 bits at most
        };
        let (protocol, source, destination, ports, opens) = match self.ether_type {
            IPV4 => {
                let address = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
                let (source, destination) = (at(12).map(address), address(at(16)?));
                let opens = (open(12, 16), open(16, 20));
                (at(8).unwrap_or(0) >> 16, source, destination, at(20), opens)
            }
            IPV6 => {
                let address = |start: i32| {
                    let words = (0..4).map(|n| at(start + n * 4).map(u128::from));
                    let value: Option<u128> =
                        words.into_iter().try_fold(0, |value, word| Some(value << 32 | word?));
                    value.map(|v| IpAddr::V6(Ipv6Addr::from(v)))
                };
                let opens = (open(8, 24), open(24, 40));
                (at(4).unwrap_or(0) >> 8, address(8), address(24)?, at(40), opens)
            }
            _ => return None,
        };
        let ports = ports.unwrap_or(0);
        let label = at(0).filter(|_| self.ether_type == IPV6).unwrap_or(0);
        let flow = Flow {
            destination,
            source,
            protocol: protocol as u8,
            destination_port: ports as u16,
            source_port: (ports >> 16) as u16,
            flow_label: label,
            source_open: opens.0,
            destination_open: opens.1,
        };
        (Selector::of(&flow) == *self).then_some(flow)
    }

    /// `struct tc_u32_sel` and its keys.
    fn emit(&self) -> Vec<u8> {
        let mut octets = vec![0; 16];
        octets[0] = TERMINAL;
        octets[2] = self.words.len() as u8; // at most 12
        for word in &self.words {
            octets.extend(word.mask.to_be_bytes());
            octets.extend(word.value.to_be_bytes());
            octets.extend(word.offset.to_ne_bytes());
            octets.extend([0; 4]);
        }
        octets
    }

    fn decode(octets: &[u8], ether_type: u16) -> Option<Selector> {
        let (head, keys) = octets.split_at_checked(16)?;
        let words = keys.chunks_exact(16).take(head[2].into()).map(|key| Word {
            mask: u32::from_be_bytes([key[0], key[1], key[2], key[3]]),
            value: u32::from_be_bytes([key[4], key[5], key[6], key[7]]),
            offset: i32::from_ne_bytes([key[8], key[9], key[10], key[11]]),
        });
        Some(Selector { ether_type, words: words.collect() })
    }
}

/// An address, but for its last bits that are open, as words from an offset on: where, under which mask, and what.
fn address_words(address: IpAddr, start: i32, open: u8) -> impl Iterator<Item = (i32, u32, u32)> {
    let octets = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let words: Vec<u32> =
        octets.chunks_exact(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]])).collect();
    let bits = words.len() as u32 * 32;
    words.into_iter().zip(0..).map(move |(word, n)| {
        let behind = bits - (n as u32 + 1) * 32;
        let open = u32::from(open).saturating_sub(behind).min(32);
        (start + n * 4, u32::MAX.checked_shl(open).unwrap_or(0), word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_says_which_flow_it_is_for() {
        for (destination, source, (destination_port, source_port), flow_label) in [
            ("10.0.9.9", Some("10.0.0.1"), (5_000, 6_000), 0),
            ("10.0.9.9", Some("10.0.0.1"), (5_000, 0), 0),
            ("10.0.9.9", Some("10.0.0.1"), (0, 6_000), 0),
            ("10.0.9.9", None, (0, 0), 0),
            ("2001:db8::9", Some("2001:db8::1"), (5_000, 6_000), 0),
            ("2001:db8::9", Some("2001:db8::1"), (5_000, 0), 0x1_2345),
            ("2001:db8::9", Some("2001:db8::1"), (0, 6_000), 0),
            ("2001:db8::9", None, (0, 0), 0xf_ffff),
            ("ff3e::1", None, (5_000, 0), 0),
        ] {
            let flow = Flow {
                destination: destination.parse().expect("an address"),
                source: source.map(|s| s.parse().expect("an address")),
                protocol: 17,
                destination_port,
                source_port,
                flow_label,
                destination_open: 0,
                source_open: 0,
            };
            let selector = Selector::of(&flow);
            assert_eq!(selector.flow(), Some(flow));
            assert_eq!(Selector::decode(&selector.emit(), selector.ether_type), Some(selector));
        }
        for signalling in [Selector::protocol(46), Selector::arp(), Selector::neighbor_discovery()]
        {
            assert_eq!(signalling.flow(), None);
        }
        let range = |text: &str| Flow::to_range(text.parse().expect("a prefix"));
        let ports = Flow { protocol: 17, destination_port: 5_000, ..range("10.0.8.0/21") };
        let half = Some("8000::".parse().expect("an address"));
        for flow in [
            range("10.0.9.1/32"),
            range("0.0.0.0/0"),
            ports,
            Flow { source: Some(IpAddr::from([10, 1, 0, 0])), source_open: 16, ..ports },
            range("2001:db8:8000::/33"),
            Flow { source: half, source_open: 127, protocol: 6, ..range("::/0") },
        ] {
            assert_eq!(flow.check(), Ok(()));
            let selector = Selector::of(&flow);
            assert_eq!(selector.flow(), Some(flow));
            assert_eq!(Selector::decode(&selector.emit(), selector.ether_type), Some(selector));
        }
        let widest = Flow { source: None, ..range("::/0") };
        assert!(priority(&range("0.0.0.0/0")) < FIRST_RANGE_OF_IPV6);
        assert!(priority(&widest) > priority(&range("2001:db8::/32")));
        assert!(widest.openness() < u32::from(u16::MAX - FIRST_RANGE_OF_IPV6));
    }
}
