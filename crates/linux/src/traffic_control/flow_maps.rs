//! The flows of the BPF classifier (`bpf/flow.h`): a hash map for IPv4, whose keys are short, and one for IPv6.
//!
//! A packet's entry is rarely in the processor's cache. A shorter key needs fewer cache lines: two for IPv4, and one
//! for the head of the hash bucket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use earmark_core::{Flow, InterfaceId};
use earmark_wire::ipsec;

use super::claim_resources::MAX_FLOWS;
use super::entry::{ENTRY, Entry};
use crate::sys::bpf::Map;

/// Names of our maps in the kernel.
const FLOWS_IPV4: &str = "earmark_flows4";
const FLOWS: &str = "earmark_flows";
/// Octets of `struct flow_ipv4` in the classifier.
const FLOW_IPV4: usize = 16;
/// Octets of `struct flow` in the classifier.
pub(super) const FLOW: usize = 44;
/// Largest interface index: keys of IPv4 have 24 bits for it.
const MAX_INTERFACE: u32 = (1 << 24) - 1;

/// The maps of the flows.
#[derive(Debug)]
pub(super) struct FlowMaps {
    ipv4: Map<FLOW_IPV4, ENTRY>,
    ipv6: Map<FLOW, ENTRY>,
}

impl FlowMaps {
    pub(super) fn create() -> io::Result<FlowMaps> {
        let ipv4 = Map::create(FLOWS_IPV4, MAX_FLOWS)?;
        Ok(FlowMaps { ipv4, ipv6: Map::create(FLOWS, MAX_FLOWS)? })
    }

    /// Opens the maps of an earlier daemon.
    pub(super) fn open(ipv4: Map<FLOW_IPV4, ENTRY>, ipv6: Map<FLOW, ENTRY>) -> FlowMaps {
        FlowMaps { ipv4, ipv6 }
    }

    /// Wraps a map that was found on a program, if its sizes are those of IPv4 flows.
    pub(super) fn map_of_ipv4(
        found: OwnedFd,
    ) -> io::Result<Result<Map<FLOW_IPV4, ENTRY>, OwnedFd>> {
        Map::new(found)
    }

    /// Wraps a map that was found on a program, if its sizes are those of IPv6 flows.
    pub(super) fn map_of_ipv6(found: OwnedFd) -> io::Result<Result<Map<FLOW, ENTRY>, OwnedFd>> {
        Map::new(found)
    }

    /// Returns the descriptors of the maps of IPv4 and of IPv6.
    pub(super) fn descriptors(&self) -> (i32, i32) {
        (self.ipv4.descriptor(), self.ipv6.descriptor())
    }

    pub(super) fn get(&self, on: InterfaceId, flow: &Flow) -> io::Result<Option<[u8; ENTRY]>> {
        match key_ipv4(on, flow) {
            Some(key) => self.ipv4.get(&key),
            None => self.ipv6.get(&key(on, flow)),
        }
    }

    pub(super) fn set(&self, on: InterfaceId, flow: &Flow, value: &[u8; ENTRY]) -> io::Result<()> {
        match key_ipv4(on, flow) {
            Some(key) => self.ipv4.set(&key, value),
            None => self.ipv6.set(&key(on, flow), value),
        }
    }

    pub(super) fn remove(&self, on: InterfaceId, flow: &Flow) -> io::Result<()> {
        match key_ipv4(on, flow) {
            Some(key) => self.ipv4.remove(&key).map(drop),
            None => self.ipv6.remove(&key(on, flow)).map(drop),
        }
    }

    pub(super) fn entries(&self) -> io::Result<Vec<(InterfaceId, Flow, Entry)>> {
        let mut entries = Vec::new();
        for key in self.ipv4.keys(MAX_FLOWS as usize)? {
            let (on, flow) = decode_key_ipv4(&key);
            entries.extend(self.ipv4.get(&key)?.map(|value| (on, flow, Entry::parse(&value))));
        }
        for key in self.ipv6.keys(MAX_FLOWS as usize)? {
            let (on, flow) = decode_key(&key);
            entries.extend(self.ipv6.get(&key)?.map(|value| (on, flow, Entry::parse(&value))));
        }
        Ok(entries)
    }
}

/// Checks that keys have room for the interface index.
pub(super) fn check(interface: InterfaceId) -> io::Result<()> {
    match interface.0 {
        0..=MAX_INTERFACE => Ok(()),
        index => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("interface index {index} is above {MAX_INTERFACE}; create the interface anew"),
        )),
    }
}

/// Encodes `struct flow_ipv4` of the classifier; `None` for an IPv6 flow.
fn key_ipv4(interface: InterfaceId, flow: &Flow) -> Option<[u8; FLOW_IPV4]> {
    let IpAddr::V4(destination) = flow.destination else { return None };
    let mut key = [0; FLOW_IPV4];
    key[0..4].copy_from_slice(&destination.octets());
    if let Some(IpAddr::V4(source)) = flow.source {
        key[4..8].copy_from_slice(&source.octets());
    }
    key[8..12].copy_from_slice(&selector(flow));
    let interface_and_protocol = interface.0 << 8 | u32::from(flow.protocol);
    key[12..].copy_from_slice(&interface_and_protocol.to_ne_bytes());
    Some(key)
}

/// Decodes an IPv4 key.
fn decode_key_ipv4(key: &[u8; FLOW_IPV4]) -> (InterfaceId, Flow) {
    let address = |at: usize| Ipv4Addr::new(key[at], key[at + 1], key[at + 2], key[at + 3]);
    let source = address(4);
    let interface_and_protocol = u32::from_ne_bytes(address(12).octets());
    let flow = Flow {
        destination: address(0).into(),
        source: (!source.is_unspecified()).then_some(source.into()),
        protocol: interface_and_protocol as u8,
        destination_port: 0,
        source_port: 0,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let flow = with_selector(flow, [key[8], key[9], key[10], key[11]]);
    (InterfaceId(interface_and_protocol >> 8), flow)
}

/// Encodes `struct flow` of the classifier.
pub(super) fn key(interface: InterfaceId, flow: &Flow) -> [u8; FLOW] {
    let mut key = [0; FLOW];
    key[0..16].copy_from_slice(&mapped(flow.destination));
    if let Some(source) = flow.source {
        key[16..32].copy_from_slice(&mapped(source));
    }
    key[32..36].copy_from_slice(&interface.0.to_ne_bytes());
    key[36..40].copy_from_slice(&selector(flow));
    key[40] = flow.protocol;
    key[41..44].copy_from_slice(&flow.flow_label.to_be_bytes()[1..]);
    key
}

/// Decodes a key.
pub(super) fn decode_key(key: &[u8; FLOW]) -> (InterfaceId, Flow) {
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&key[at..at + 16]);
        Ipv6Addr::from(octets)
    };
    let plain = |a: Ipv6Addr| a.to_ipv4_mapped().map_or(IpAddr::V6(a), IpAddr::V4);
    let source = address(16);
    let flow = Flow {
        destination: plain(address(0)),
        source: (!source.is_unspecified()).then(|| plain(source)),
        protocol: key[40],
        destination_port: 0,
        source_port: 0,
        flow_label: u32::from_be_bytes([0, key[41], key[42], key[43]]),
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let flow = with_selector(flow, [key[36], key[37], key[38], key[39]]);
    (InterfaceId(u32::from_ne_bytes([key[32], key[33], key[34], key[35]])), flow)
}

/// Returns the ports of a flow as a key has them: of the destination and of the source. An SPI is in their place.
fn selector(flow: &Flow) -> [u8; 4] {
    let ports = u32::from(flow.destination_port) << 16 | u32::from(flow.source_port);
    (ports | flow.spi).to_be_bytes()
}

/// Returns a flow with the ports, or the SPI, of a key.
fn with_selector(flow: Flow, octets: [u8; 4]) -> Flow {
    let selector = u32::from_be_bytes(octets);
    if ipsec::has_spi(flow.protocol) {
        return Flow { spi: selector, ..flow };
    }
    let (destination_port, source_port) = ((selector >> 16) as u16, selector as u16);
    Flow { destination_port, source_port, ..flow }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(flow_label: u32) -> Flow {
        Flow {
            destination: IpAddr::from([10, 0, 9, 9]),
            source: Some(IpAddr::from([10, 0, 0, 1])),
            protocol: 17,
            destination_port: 0x1234,
            source_port: 0x5678,
            flow_label,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }

    #[test]
    fn ipv4_key_has_the_layout_of_the_classifier() {
        let flow = flow(0);
        let key = key_ipv4(InterfaceId(7), &flow).expect("a flow of IPv4");
        assert_eq!(key[..12], [10, 0, 9, 9, 10, 0, 0, 1, 0x12, 0x34, 0x56, 0x78]);
        assert_eq!(key[12..], (7_u32 << 8 | 17).to_ne_bytes());
        let encrypted = Flow {
            protocol: ipsec::ESP,
            destination_port: 0,
            source_port: 0,
            spi: 0x1234_5678,
            ..flow
        };
        let same = key_ipv4(InterfaceId(7), &encrypted).expect("a flow of IPv4");
        assert_eq!(same[..12], key[..12], "the SPI is in the place of the ports");
        for flow in [flow, Flow { source: None, ..flow }, encrypted] {
            for interface in [InterfaceId(0), InterfaceId(7), InterfaceId(MAX_INTERFACE)] {
                let key = key_ipv4(interface, &flow).expect("a flow of IPv4");
                assert_eq!(decode_key_ipv4(&key), (interface, flow));
            }
        }
    }

    #[test]
    fn interface_index_without_room_in_keys_is_refused() {
        assert!(check(InterfaceId(MAX_INTERFACE)).is_ok());
        let error = check(InterfaceId(MAX_INTERFACE + 1)).expect_err("no room");
        assert!(error.to_string().contains("16777216"), "{error}");
    }

    #[test]
    fn key_has_the_layout_of_the_classifier() {
        let flow = flow(0x9_abcd);
        let key = key(InterfaceId(7), &flow);
        assert_eq!(key[0..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 9, 9]);
        assert_eq!(key[16..32], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(key[32..36], 7_u32.to_ne_bytes());
        assert_eq!(key[36..44], [0x12, 0x34, 0x56, 0x78, 17, 0x09, 0xab, 0xcd]);
    }

    #[test]
    fn key_is_decoded_as_encoded() {
        for (destination, source, flow_label) in [
            ("10.0.9.9", Some("10.0.0.1"), 0),
            ("239.1.2.3", None, 0),
            ("2001:db8::9", Some("2001:db8::1"), 0xf_ffff),
            ("ff3e::1", None, 0),
        ] {
            let flow = Flow {
                destination: destination.parse().expect("an address"),
                source: source.map(|s| s.parse().expect("an address")),
                protocol: 6,
                destination_port: 80,
                source_port: 0,
                flow_label,
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: 0,
            };
            let with_spi =
                Flow { protocol: ipsec::AH, destination_port: 0, spi: 0x1234_5678, ..flow };
            for flow in [flow, with_spi] {
                assert_eq!(decode_key(&key(InterfaceId(3), &flow)), (InterfaceId(3), flow));
            }
        }
    }
}
