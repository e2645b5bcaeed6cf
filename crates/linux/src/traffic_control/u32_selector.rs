//! Selectors of u32 filters: words of a packet under masks, for a flow, for control traffic, for a service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Flow, Prefix};
use earmark_wire::ipsec;

use super::plan::{LinkSettings, SIGNALLING, handle};
use crate::signalling_socket::protocols::OWN_IP_PROTOCOLS;

/// `TC_U32_TERMINAL`: a match is final.
const TERMINAL: u8 = 1;

/// The words of the packet that a filter compares, from the IP header on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) ether_type: u16,
    words: Vec<Word>,
}

/// A word at an offset with its value under a mask; as numbers, the first octet is the most significant.
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
    /// Selects all IPv4 packets of a protocol.
    fn protocol(protocol: u8) -> Selector {
        let words = vec![Word { offset: 8, mask: 0x00ff_0000, value: u32::from(protocol) << 16 }];
        Selector { ether_type: IPV4, words }
    }

    /// Selects all ARP packets: address resolution must not wait behind a full queue.
    fn arp() -> Selector {
        Selector { ether_type: ARP, words: vec![Word { offset: 0, mask: 0, value: 0 }] }
    }

    /// Selects neighbour discovery (RFC 4861): ICMPv6 that no router forwards, because its hop limit is 255.
    fn neighbor_discovery() -> Selector {
        let value = u32::from(ICMPV6) << 8 | 255;
        Selector { ether_type: IPV6, words: vec![Word { offset: 4, mask: 0xffff, value }] }
    }

    /// Selects all packets of a family with a DSCP.
    fn dscp(ether_type: u16, dscp: u8) -> Selector {
        Selector { ether_type, words: vec![dscp_word(ether_type, dscp)] }
    }

    /// Selects all packets of a family with a protocol, and with these ports if they are not 0.
    fn service(ether_type: u16, protocol: u8, destination_port: u16, source_port: u16) -> Selector {
        let everywhere = match ether_type {
            IPV4 => Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            _ => Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        let all = Flow { protocol, destination_port, source_port, ..Flow::to_range(everywhere) };
        let mut selector = Selector::of(&all);
        // An address without significant bits need not be compared.
        selector.words.retain(|word| word.mask != 0);
        selector
    }

    /// Selects the packets of a flow.
    pub(super) fn of(flow: &Flow) -> Selector {
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
            if flow.dscp != 0 {
                let Word { offset, mask, value } = dscp_word(IPV4, flow.dscp);
                word(offset, mask, value);
            }
            if flow.protocol != 0 {
                word(8, 0x00ff_0000, protocol << 16);
            }
            flow.source.into_iter().for_each(|a| {
                address_words(a, 12, source_open).for_each(|w| word(w.0, w.1, w.2));
            });
            address_words(flow.destination, 16, destination_open).for_each(|w| word(w.0, w.1, w.2));
            if ports != 0 || flow.spi != 0 {
                word(0, 0x0f00_0000, 0x0500_0000); // no options
                word(4, 0x0000_1fff, 0); // no later fragment
            }
            if ports != 0 {
                word(20, mask, ports);
            }
            if flow.spi != 0 {
                word(20 + spi_offset(flow.protocol), u32::MAX, flow.spi);
            }
            Selector { ether_type: IPV4, words }
        } else {
            if flow.flow_label != 0 {
                word(0, FLOW_LABEL, flow.flow_label);
            }
            if flow.dscp != 0 {
                let Word { offset, mask, value } = dscp_word(IPV6, flow.dscp);
                word(offset, mask, value);
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
            if flow.spi != 0 {
                word(40 + spi_offset(flow.protocol), u32::MAX, flow.spi);
            }
            Selector { ether_type: IPV6, words }
        }
    }

    /// Returns the flow that this selects, if it has the form that [`Selector::of`] writes.
    pub(super) fn flow(&self) -> Option<Flow> {
        let at = |offset| self.words.iter().find(|w| w.offset == offset).map(|w| w.value);
        let open = |start: i32, end: i32| {
            let words = self.words.iter().filter(|w| (start..end).contains(&w.offset));
            words.map(|w| w.mask.count_zeros() as u8).sum::<u8>() // an address has 128 bits at most
        };
        let (protocol, source, destination, transport, opens) = match self.ether_type {
            IPV4 => {
                let address = |n: u32| IpAddr::V4(Ipv4Addr::from(n));
                let (source, destination) = (at(12).map(address), address(at(16)?));
                let opens = (open(12, 16), open(16, 20));
                (at(8).unwrap_or(0) >> 16, source, destination, 20, opens)
            }
            IPV6 => {
                let address = |start: i32| {
                    let words = (0..4).map(|n| at(start + n * 4).map(u128::from));
                    let value: Option<u128> =
                        words.into_iter().try_fold(0, |value, word| Some(value << 32 | word?));
                    value.map(|v| IpAddr::V6(Ipv6Addr::from(v)))
                };
                let opens = (open(8, 24), open(24, 40));
                (at(4).unwrap_or(0) >> 8, address(8), address(24)?, 40, opens)
            }
            _ => return None,
        };
        let protocol = protocol as u8;
        let selector = at(transport + spi_offset(protocol)).unwrap_or(0);
        let (ports, spi) = if ipsec::has_spi(protocol) { (0, selector) } else { (selector, 0) };
        let first = |mask| self.words.iter().find(|w| w.offset == 0 && w.mask == mask);
        let label = first(FLOW_LABEL).map_or(0, |w| w.value);
        let dscp = dscp_word(self.ether_type, 0);
        let dscp = first(dscp.mask).map_or(0, |w| w.value >> dscp.mask.trailing_zeros());
        let flow = Flow {
            destination,
            source,
            protocol,
            destination_port: ports as u16,
            source_port: (ports >> 16) as u16,
            flow_label: label,
            spi,
            source_open: opens.0,
            destination_open: opens.1,
            dscp: dscp as u8, // 6 bits
        };
        (Selector::of(&flow) == *self).then_some(flow)
    }

    /// Encodes `struct tc_u32_sel` and its keys.
    pub(super) fn emit(&self) -> Vec<u8> {
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

    pub(super) fn decode(octets: &[u8], ether_type: u16) -> Option<Selector> {
        let (head, keys) = octets.split_at_checked(16)?;
        let words = keys.chunks_exact(16).take(head[2].into()).map(|key| Word {
            mask: u32::from_be_bytes([key[0], key[1], key[2], key[3]]),
            value: u32::from_be_bytes([key[4], key[5], key[6], key[7]]),
            offset: i32::from_ne_bytes([key[8], key[9], key[10], key[11]]),
        });
        Some(Selector { ether_type, words: words.collect() })
    }
}

/// Bits of the flow label in the first word of an IPv6 header.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Returns the first word of packets with a DSCP.
fn dscp_word(ether_type: u16, dscp: u8) -> Word {
    let shift = if ether_type == IPV4 { 18 } else { 22 };
    Word { offset: 0, mask: 0x3f << shift, value: u32::from(dscp) << shift }
}

/// Returns the offset of the SPI behind the IP header.
fn spi_offset(protocol: u8) -> i32 {
    if protocol == ipsec::AH { 4 } else { 0 }
}

/// Returns an address, except its open last bits, as words from an offset on: offset, mask, value.
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

/// The first priority after all flows and ranges.
pub(super) const FIRST_UNRESERVED: u16 = 63_000;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// IGMP, OSPF, PIM, VRRP.
const CONTROL_PROTOCOLS: [u8; 4] = [2, 89, 103, 112];
/// BGP and LDP; one end of their sessions has another port.
const CONTROL_PORTS_OF_TCP: [u16; 2] = [179, 646];
/// RIP, RIPng, LDP, BFD, BFD echo, multihop BFD, and BFD on members of an aggregate.
const CONTROL_PORTS_OF_UDP: [u16; 7] = [520, 521, 646, 3784, 3785, 4784, 6784];
/// CS6 and CS7.
const CONTROL_DSCPS: [u8; 2] = [48, 56];

/// Returns the filters that are not for flows, each with a priority of its own and its class, by priority: signalling
/// before the flows; control traffic and services after them.
pub(super) fn fixed_filters(settings: &LinkSettings) -> Vec<(u16, Selector, u32)> {
    let own = OWN_IP_PROTOCOLS.map(Selector::protocol);
    let signalling = [Selector::arp(), Selector::neighbor_discovery()].into_iter().chain(own);
    let mut unreserved = Vec::new();
    for family in [IPV4, IPV6] {
        let of_tcp = CONTROL_PORTS_OF_TCP.into_iter().flat_map(|port| [(port, 0), (0, port)]);
        let protocols = CONTROL_PROTOCOLS.map(|protocol| (protocol, 0, 0)).into_iter();
        let control = protocols
            .chain(of_tcp.map(|(to, from)| (TCP, to, from)))
            .chain(CONTROL_PORTS_OF_UDP.map(|port| (UDP, port, 0)))
            .map(|(protocol, to, from)| Selector::service(family, protocol, to, from))
            .chain(CONTROL_DSCPS.map(|dscp| Selector::dscp(family, dscp)));
        unreserved.extend(control.map(|selector| (selector, settings.control.class)));
        for (dscps, guarantee) in &settings.services {
            let selectors = dscps.iter().map(|&dscp| Selector::dscp(family, dscp));
            unreserved.extend(selectors.map(|selector| (selector, guarantee.class)));
        }
    }
    let signalling = (1..).zip(signalling).map(|(n, s)| (n, s, handle(SIGNALLING)));
    let unreserved = (FIRST_UNRESERVED..).zip(unreserved).map(|(n, (s, class))| (n, s, class));
    signalling.chain(unreserved).collect()
}

#[cfg(test)]
mod tests {
    use super::super::u32_table::{FIRST_RANGE_OF_IPV6, priority};
    use super::*;
    use crate::traffic_control::plan::{LinkPlan, LinkProperties, ServicePlan};
    use earmark_core::{InterfaceId, Rate};

    #[test]
    fn flow_selector_is_decoded_as_the_flow() {
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
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: 0,
            };
            let selector = Selector::of(&flow);
            assert_eq!(selector.flow(), Some(flow));
            assert_eq!(Selector::decode(&selector.emit(), selector.ether_type), Some(selector));
            let portless = Flow { destination_port: 0, source_port: 0, flow_label: 0, ..flow };
            for protocol in [ipsec::ESP, ipsec::AH] {
                let flow = Flow { protocol, spi: 0x0001_0000, ..portless };
                assert_eq!(flow.check(), Ok(()));
                assert_eq!(Selector::of(&flow).flow(), Some(flow));
            }
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
            Flow::of_dscp(false, 46),
            Flow::of_dscp(true, 63),
            Flow { dscp: 1, ..range("2001:db8:8000::/33") },
        ] {
            assert_eq!(flow.check(), Ok(()));
            let selector = Selector::of(&flow);
            assert_eq!(selector.flow(), Some(flow));
            assert_eq!(Selector::decode(&selector.emit(), selector.ether_type), Some(selector));
        }
        let widest = Flow { source: None, ..range("::/0") };
        assert!(priority(&range("0.0.0.0/0")) < FIRST_RANGE_OF_IPV6);
        assert!(priority(&widest) > priority(&range("2001:db8::/32")));
        assert!(widest.openness() < u32::from(FIRST_UNRESERVED - FIRST_RANGE_OF_IPV6));
    }
    #[test]
    fn control_traffic_and_services_are_selected_by_protocol_port_and_dscp() {
        let services = vec![ServicePlan { dscps: vec![46], rate: Rate::from_mbps(1) }];
        let plan = LinkPlan::new(InterfaceId(1), Rate::from_mbps(10), Rate::from_mbps(5));
        let properties = LinkProperties { mtu: 1_500, overhead: 14, queues: 1 };
        let settings = LinkPlan { services, ..plan }.settings(properties);
        let filters = fixed_filters(&settings);
        assert!(filters.is_sorted_by_key(|(priority, ..)| *priority));
        // The first words of packets: version, DSCP and length; fragments; TTL and protocol; addresses; ports.
        let classes = |words: &[u32], ether_type| {
            let matches = |selector: &Selector| {
                selector.ether_type == ether_type
                    && selector
                        .words
                        .iter()
                        .all(|word| words[word.offset as usize / 4] & word.mask == word.value)
            };
            let found = filters.iter().filter(|(_, selector, _)| matches(selector));
            found.map(|(_, _, class)| *class).collect::<Vec<_>>()
        };
        let packet = |dscp: u32, protocol: u32, ports: u32| {
            [0x4500_0054 | dscp << 18, 0, 0x4000_0000 | protocol << 16, 1, 2, ports]
        };
        let control = settings.control.class;
        assert_eq!(classes(&packet(0, 89, 0), IPV4), [control]);
        assert_eq!(classes(&packet(48, 89, 0), IPV4), [control, control]);
        assert_eq!(classes(&packet(0, 6, 179 << 16 | 9), IPV4), [control]);
        assert_eq!(classes(&packet(0, 17, 9 << 16 | 3_784), IPV4), [control]);
        assert_eq!(classes(&packet(46, 17, 9), IPV4), [settings.services[0].1.class]);
        assert_eq!(classes(&packet(0, 17, 179), IPV4), [0; 0]);
        assert_eq!(classes(&packet(0, 46, 0), IPV4), [handle(SIGNALLING)]);
        let to_port = 546;
        assert_eq!(
            classes(&[0x6000_0000, 0x0000_0640, 0, 0, 0, 0, 0, 0, 0, 0, to_port], IPV6),
            [0; 0]
        );
        assert_eq!(
            classes(&[0x6b80_0000, 0x0000_1140, 0, 0, 0, 0, 0, 0, 0, 0, 9], IPV6),
            [settings.services[0].1.class]
        );
    }
}
