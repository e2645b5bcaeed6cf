//! Shapes of keys: which fields of a packet a rule of the packet filter gives, and their octets in a set.
//!
//! A hash set compares whole keys, so rules with different fields given are in different sets. A key is the concatenation
//! of its fields in network byte order (an SPI in that of the machine, in which `nft` shows it), each padded to four octets,
//! as nf_tables loads them into its registers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{FilteredPackets, Flow, Prefix};
use earmark_wire::ipsec;

/// IP protocol numbers of ICMP, AH and ICMPv6.
const ICMP: u8 = 1;
const AH: u8 = 51;
const ICMPV6: u8 = 58;

/// Fields that a key gives besides the addresses. The order is the one in which packets are looked up: a narrower kind
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum KeyKind {
    /// Protocol and both ports.
    BothPorts,
    /// Protocol and SPI.
    Spi,
    /// Protocol and ICMP type.
    IcmpType,
    /// Protocol and destination port.
    DestinationPort,
    /// Protocol and source port.
    SourcePort,
    /// Protocol.
    Protocol,
    /// Addresses alone.
    Addresses,
}

const KINDS: [KeyKind; 7] = [
    KeyKind::BothPorts,
    KeyKind::Spi,
    KeyKind::IcmpType,
    KeyKind::DestinationPort,
    KeyKind::SourcePort,
    KeyKind::Protocol,
    KeyKind::Addresses,
];

/// A field of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    SourceAddress,
    DestinationAddress,
    Protocol,
    SourcePort,
    DestinationPort,
    Spi,
    IcmpType,
}

/// The fields of a key. There are 28 shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KeyShape {
    pub(super) kind: KeyKind,
    /// Whether every source matches.
    pub(super) any_source: bool,
    pub(super) ipv6: bool,
}

impl KeyShape {
    /// Returns every shape, in the order in which packets are looked up.
    pub(super) fn all() -> impl Iterator<Item = KeyShape> {
        KINDS.into_iter().flat_map(|kind| {
            [false, true].into_iter().flat_map(move |any_source| {
                [false, true].map(|ipv6| KeyShape { kind, any_source, ipv6 })
            })
        })
    }

    /// Returns the shape of the key of packets; `None` if nf_tables cannot tell these packets: AH is an extension header
    /// in IPv6, so connection tracking sees the protocol behind it.
    pub(super) fn of(packets: &FilteredPackets) -> Option<KeyShape> {
        let flow = &packets.flow;
        let ipv6 = flow.destination.is_ipv6();
        let kind = match (flow.protocol, flow.source_port, flow.destination_port) {
            (0, ..) => KeyKind::Addresses,
            (AH, ..) if ipv6 => return None,
            _ if flow.spi != 0 => KeyKind::Spi,
            _ if packets.icmp_type.is_some() => KeyKind::IcmpType,
            (_, 0, 0) => KeyKind::Protocol,
            (_, 0, _) => KeyKind::DestinationPort,
            (_, _, 0) => KeyKind::SourcePort,
            _ => KeyKind::BothPorts,
        };
        Some(KeyShape { kind, any_source: flow.source.is_none(), ipv6 })
    }

    /// Returns the fields, in their order in the key.
    pub(super) fn fields(self) -> impl Iterator<Item = Field> {
        let source = (!self.any_source).then_some(Field::SourceAddress);
        let rest: &[Field] = match self.kind {
            KeyKind::BothPorts => &[Field::Protocol, Field::SourcePort, Field::DestinationPort],
            KeyKind::Spi => &[Field::Protocol, Field::Spi],
            KeyKind::IcmpType => &[Field::Protocol, Field::IcmpType],
            KeyKind::DestinationPort => &[Field::Protocol, Field::DestinationPort],
            KeyKind::SourcePort => &[Field::Protocol, Field::SourcePort],
            KeyKind::Protocol => &[Field::Protocol],
            KeyKind::Addresses => &[],
        };
        source.into_iter().chain([Field::DestinationAddress]).chain(rest.iter().copied())
    }

    /// Returns the octets of a field in the key, with padding.
    pub(super) fn width(self, field: Field) -> usize {
        match field {
            Field::SourceAddress | Field::DestinationAddress if self.ipv6 => 16,
            _ => 4,
        }
    }

    /// Returns the octets of a key.
    pub(super) fn key_length(self) -> usize {
        self.fields().map(|field| self.width(field)).sum()
    }

    /// Returns the data type of the key by the numbers of nft (six bits for each field), so that `nft list` can show it.
    pub(super) fn data_type(self) -> u32 {
        self.fields().fold(0, |types, field| {
            let one = match field {
                Field::SourceAddress | Field::DestinationAddress if self.ipv6 => 8, // ipv6_addr
                Field::SourceAddress | Field::DestinationAddress => 7,              // ipv4_addr
                Field::Protocol => 12,                                              // inet_proto
                Field::SourcePort | Field::DestinationPort => 13,                   // inet_service
                Field::Spi => 19,                                                   // mark
                Field::IcmpType if self.ipv6 => 29,                                 // icmpv6_type
                Field::IcmpType => 14,                                              // icmp_type
            };
            types << 6 | one
        })
    }

    /// Returns the key of packets of this shape.
    pub(super) fn key(self, packets: &FilteredPackets) -> Vec<u8> {
        let flow = &packets.flow;
        let mut key = Vec::with_capacity(self.key_length());
        for field in self.fields() {
            match field {
                // A shape with a source is only that of packets with one.
                Field::SourceAddress => key.extend(flow.source.map(octets).unwrap_or_default()),
                Field::DestinationAddress => key.extend(octets(flow.destination)),
                Field::Protocol => key.push(flow.protocol),
                Field::SourcePort => key.extend(flow.source_port.to_be_bytes()),
                Field::DestinationPort => key.extend(flow.destination_port.to_be_bytes()),
                Field::Spi => key.extend(flow.spi.to_ne_bytes()),
                Field::IcmpType => key.extend(packets.icmp_type),
            }
            key.resize(key.len().next_multiple_of(4), 0);
        }
        key
    }

    /// Returns the packets of a key; `None` if no packets of this shape have it.
    pub(super) fn packets(self, key: &[u8]) -> Option<FilteredPackets> {
        let mut flow = Flow::to_range(Prefix::host(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let mut icmp_type = None;
        let mut rest = key;
        for field in self.fields() {
            let octets;
            (octets, rest) = rest.split_at_checked(self.width(field))?;
            let start = || octets.first_chunk::<2>().copied().map(u16::from_be_bytes);
            match field {
                Field::SourceAddress => flow.source = Some(address(octets)?),
                Field::DestinationAddress => flow.destination = address(octets)?,
                Field::Protocol => flow.protocol = octets[0],
                Field::SourcePort => flow.source_port = start()?,
                Field::DestinationPort => flow.destination_port = start()?,
                Field::Spi => flow.spi = u32::from_ne_bytes(octets.try_into().ok()?),
                Field::IcmpType => icmp_type = Some(octets[0]),
            }
        }
        let packets = FilteredPackets { flow, icmp_type };
        (rest.is_empty() && KeyShape::of(&packets) == Some(self)).then_some(packets)
    }

    /// Returns ICMP's protocol number for the family.
    pub(super) fn icmp(self) -> u8 {
        if self.ipv6 { ICMPV6 } else { ICMP }
    }

    /// Returns the protocols with an SPI, each with the offset of the SPI in its header.
    pub(super) fn protocols_with_spi(self) -> Vec<(u8, u32)> {
        let protocols: &[u8] = if self.ipv6 { &[50] } else { &[50, AH] };
        debug_assert!(protocols.iter().all(|&protocol| ipsec::has_spi(protocol)));
        protocols.iter().map(|&protocol| (protocol, if protocol == AH { 4 } else { 0 })).collect()
    }
}

/// Displays the fields by nft's names: `ip4_saddr_daddr_proto_dport`.
impl fmt::Display for KeyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ipv6 { "ip6" } else { "ip4" })?;
        self.fields().try_for_each(|field| {
            f.write_str(match field {
                Field::SourceAddress => "_saddr",
                Field::DestinationAddress => "_daddr",
                Field::Protocol => "_proto",
                Field::SourcePort => "_sport",
                Field::DestinationPort => "_dport",
                Field::Spi => "_spi",
                Field::IcmpType => "_type",
            })
        })
    }
}

/// Returns the octets of an address.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the address of four or sixteen octets.
pub(super) fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(octets).into());
    }
    <[u8; 16]>::try_from(octets).ok().map(|octets| Ipv6Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn packets(
        source: Option<&str>,
        destination: &str,
        protocol: u8,
    ) -> FilteredPackets {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let any = Flow::to_range(earmark_core::Prefix::new(address(destination), 128));
        let any = Flow { destination: address(destination), destination_open: 0, ..any };
        let flow = Flow { source: source.map(address), protocol, ..any };
        FilteredPackets { flow, icmp_type: None }
    }

    #[test]
    fn key_has_the_fields_in_network_order() {
        let mut udp = packets(Some("10.0.0.1"), "10.0.0.2", 17);
        (udp.flow.source_port, udp.flow.destination_port) = (0x1234, 0x5678);
        let mut ping = packets(None, "2001:db8::1", 58);
        ping.icmp_type = Some(128);
        let mut esp = packets(None, "10.0.0.2", 50);
        esp.flow.spi = 0x0102_0304;
        let addressed = packets(Some("10.0.0.1"), "10.0.0.2", 0);
        let mut ping_key = "2001:db8::1".parse::<Ipv6Addr>().expect("an address").octets().to_vec();
        ping_key.extend([58, 0, 0, 0, 128, 0, 0, 0]);
        let mut esp_key = vec![10, 0, 0, 2, 50, 0, 0, 0];
        esp_key.extend(0x0102_0304_u32.to_ne_bytes());
        for (packets, name, key) in [
            (
                udp,
                "ip4_saddr_daddr_proto_sport_dport",
                vec![10, 0, 0, 1, 10, 0, 0, 2, 17, 0, 0, 0, 0x12, 0x34, 0, 0, 0x56, 0x78, 0, 0],
            ),
            (ping, "ip6_daddr_proto_type", ping_key),
            (esp, "ip4_daddr_proto_spi", esp_key),
            (addressed, "ip4_saddr_daddr", vec![10, 0, 0, 1, 10, 0, 0, 2]),
        ] {
            let shape = KeyShape::of(&packets).expect("it can be matched");
            assert_eq!(shape.to_string(), name);
            assert_eq!(shape.key(&packets), key);
            assert_eq!(shape.key_length(), key.len());
            assert_eq!(shape.packets(&key), Some(packets), "read back");
            assert_eq!(shape.packets(&key[1..]), None, "too short");
        }
    }

    proptest::proptest! {
        /// Packets that a rule can have are read back from their key.
        #[test]
        fn packets_of_any_shape_are_read_back(
            ipv6: bool,
            source in proptest::option::of(1_u8..),
            protocol in proptest::sample::select(&[0_u8, 1, 6, 17, 47, 50, 51, 58, 132][..]),
            ports: [u16; 2],
            spi: u32,
            icmp_type: Option<u8>,
        ) {
            let of = |last: u8| if ipv6 { format!("2001:db8::{last:x}") } else { format!("10.0.0.{last}") };
            let source = source.map(of);
            let mut packets = packets(source.as_deref(), &of(1), protocol);
            match protocol {
                6 | 17 | 132 => [packets.flow.source_port, packets.flow.destination_port] = ports,
                50 | 51 => packets.flow.spi = spi,
                1 if !ipv6 => packets.icmp_type = icmp_type,
                58 if ipv6 => packets.icmp_type = icmp_type,
                _ => {}
            }
            match KeyShape::of(&packets) {
                None => assert_eq!((protocol, ipv6), (51, true)),
                Some(shape) => {
                    let key = shape.key(&packets);
                    assert_eq!(key.len(), shape.key_length());
                    assert_eq!(shape.packets(&key), Some(packets));
                }
            }
        }
    }

    #[test]
    fn shapes_are_distinct_and_narrow_ones_come_first() {
        let all: Vec<KeyShape> = KeyShape::all().collect();
        assert_eq!(all.len(), 28);
        assert!(all.is_sorted() && all.windows(2).all(|pair| pair[0] < pair[1]));
        let mut names: Vec<String> = all.iter().map(KeyShape::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 28);
    }

    #[test]
    fn authentication_header_of_ipv6_has_no_shape() {
        assert!(KeyShape::of(&packets(None, "10.0.0.2", 51)).is_some());
        assert_eq!(KeyShape::of(&packets(None, "2001:db8::1", 51)), None);
    }
}
