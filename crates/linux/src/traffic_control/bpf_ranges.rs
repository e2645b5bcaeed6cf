//! Ranges of the BPF classifier: a hash map of ranges under their masks, and the list of the masks in use.
//!
//! The classifier walks the list until it finds a range, so the list must be in order at any moment: a change passes
//! through states that contain a mask twice, and never through one without it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use earmark_core::{Flow, InterfaceId, Prefix};

use super::claim_resources::MAX_FLOWS;
use super::entry::{ENTRY, Entry};
use super::flow_maps::{FLOW, decode_key, key};
use crate::sys::bpf::Map;

/// Maximum number of different masks; the classifier examines no more.
const MAX_MASKS: usize = 32;
/// Maximum number of ranges of all interfaces together.
const MAX_RANGES: u32 = 65_536;
/// Names of our maps in the kernel.
const RANGES: &str = "earmark_ranges";
const MASKS: &str = "earmark_masks";
/// Octets of the encoded form of a mask.
const NAME: usize = 4;
/// Octets of `struct range`, and of `struct mask`, in the classifier.
const RANGE: usize = FLOW + NAME;
/// Octet of the DSCP in a range: the first of the flow label, which ranges do not have.
const DSCP: usize = 41;
/// Octets of an index in the list.
const NUMBER: usize = 4;

/// The maps of the ranges.
#[derive(Debug)]
pub(super) struct Ranges {
    ranges: Map<RANGE, ENTRY>,
    masks: Map<NUMBER, RANGE>,
    /// The masks in order, and the number of ranges of each.
    in_use: BTreeMap<Mask, u32>,
    /// Length of the list in the kernel.
    listed: usize,
}

/// A mask: the common part of ranges that differ only in their values. Ordered as in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mask {
    openness: u32,
    is_ipv4: bool,
    destination_open: u8,
    /// 128 if every source matches.
    source_open: u8,
    has_port: bool,
    has_protocol: bool,
    has_dscp: bool,
}

impl Ranges {
    pub(super) fn create() -> io::Result<Ranges> {
        let ranges = Map::create(RANGES, MAX_RANGES.min(MAX_FLOWS))?;
        let masks = Map::create(MASKS, MAX_MASKS as u32)?;
        Ok(Ranges { ranges, masks, in_use: BTreeMap::new(), listed: 0 })
    }

    /// Opens the maps of an earlier daemon.
    pub(super) fn open(ranges: Map<RANGE, ENTRY>, masks: Map<NUMBER, RANGE>) -> io::Result<Ranges> {
        let listed = masks.keys(MAX_MASKS)?.len();
        let mut found = Ranges { ranges, masks, in_use: BTreeMap::new(), listed };
        for (_, flow, _) in found.entries()? {
            *found.in_use.entry(Mask::of(&flow)).or_default() += 1;
        }
        found.list()?;
        Ok(found)
    }

    /// Wraps a map that was found on a program, if its sizes are those of the ranges.
    pub(super) fn map_of_ranges(found: OwnedFd) -> io::Result<Result<Map<RANGE, ENTRY>, OwnedFd>> {
        Map::new(found)
    }

    /// Wraps a map that was found on a program, if its sizes are those of the masks.
    pub(super) fn map_of_masks(found: OwnedFd) -> io::Result<Result<Map<NUMBER, RANGE>, OwnedFd>> {
        Map::new(found)
    }

    /// Returns the descriptors of the ranges and of the masks.
    pub(super) fn descriptors(&self) -> (i32, i32) {
        (self.ranges.descriptor(), self.masks.descriptor())
    }

    pub(super) fn set(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        value: &[u8; ENTRY],
    ) -> io::Result<()> {
        let mask = Mask::of(flow);
        let range = mask.range(interface, flow);
        if self.ranges.get(&range)?.is_some() {
            return self.ranges.set(&range, value);
        }
        if !self.in_use.contains_key(&mask) && self.in_use.len() >= MAX_MASKS {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.ranges.set(&range, value)?;
        let count = self.in_use.entry(mask).or_default();
        *count += 1;
        if *count == 1 { self.list() } else { Ok(()) }
    }

    /// Returns the kernel's entry of a range.
    pub(super) fn get(
        &self,
        interface: InterfaceId,
        flow: &Flow,
    ) -> io::Result<Option<[u8; ENTRY]>> {
        self.ranges.get(&Mask::of(flow).range(interface, flow))
    }

    pub(super) fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> io::Result<()> {
        let mask = Mask::of(flow);
        if !self.ranges.remove(&mask.range(interface, flow))? {
            return Ok(());
        }
        let Some(count) = self.in_use.get_mut(&mask) else { return Ok(()) };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.in_use.remove(&mask);
        self.list()
    }

    pub(super) fn entries(&self) -> io::Result<Vec<(InterfaceId, Flow, Entry)>> {
        let mut entries = Vec::new();
        for range in self.ranges.keys(MAX_RANGES as usize)? {
            let Some(value) = self.ranges.get(&range)? else { continue };
            let (values, name) = range.split_at(FLOW);
            if let (Some(values), Some(name)) = (values.first_chunk(), name.first_chunk()) {
                let (interface, flow) = decode_name(*name, decode_key(values));
                entries.push((interface, flow, Entry::parse(&value)));
            }
        }
        Ok(entries)
    }

    /// Writes the list again. A longer one is written from its end, a shorter one from its beginning, so that masks in
    /// both are in the list all the time.
    fn list(&mut self) -> io::Result<()> {
        let masks: Vec<[u8; RANGE]> = self.in_use.keys().map(Mask::entry).collect();
        let number = |number: usize| (number as u32).to_ne_bytes();
        let mut order: Vec<usize> = (0..masks.len()).collect();
        if masks.len() > self.listed {
            order.reverse();
        }
        for index in order {
            if self.masks.get(&number(index))? != Some(masks[index]) {
                self.masks.set(&number(index), &masks[index])?;
            }
        }
        for surplus in (masks.len()..self.listed).rev() {
            self.masks.remove(&number(surplus))?;
        }
        self.listed = masks.len();
        Ok(())
    }
}

impl Mask {
    /// First mask in the order; [`Mask::LAST`] is the last one.
    pub(super) const FIRST: Mask = Mask {
        openness: 0,
        is_ipv4: false,
        destination_open: 0,
        source_open: 0,
        has_port: false,
        has_protocol: false,
        has_dscp: false,
    };
    pub(super) const LAST: Mask = Mask { openness: u32::MAX, ..Mask::FIRST };

    /// Returns the mask of a range.
    pub(super) fn of(flow: &Flow) -> Mask {
        Mask {
            openness: flow.openness(),
            is_ipv4: flow.destination.is_ipv4(),
            destination_open: flow.destination_open,
            source_open: if flow.source.is_some() { flow.source_open } else { 128 },
            has_port: flow.destination_port != 0,
            has_protocol: flow.protocol != 0,
            has_dscp: flow.dscp != 0,
        }
    }

    /// Returns the range under this mask that contains the packets of a flow; `None` if they lack a field that the mask
    /// compares.
    pub(super) fn range_around(&self, flow: &Flow) -> Option<Flow> {
        if flow.destination.is_ipv4() != self.is_ipv4
            || (self.has_port && flow.destination_port == 0)
            || (self.has_dscp && flow.dscp == 0)
        {
            return None;
        }
        let all = if self.is_ipv4 { 32 } else { 128 };
        let masked = |address, open: u8| Prefix::new(address, all - open);
        let source = match self.source_open {
            128 => None,
            open => Some(masked(flow.source?, open).address()),
        };
        Some(Flow {
            source,
            source_open: if source.is_some() { self.source_open } else { 0 },
            protocol: if self.has_protocol { flow.protocol } else { 0 },
            destination_port: if self.has_port { flow.destination_port } else { 0 },
            dscp: if self.has_dscp { flow.dscp } else { 0 },
            ..Flow::to_range(masked(flow.destination, self.destination_open))
        })
    }

    /// Encodes family, open bits, and further compared fields.
    fn name(&self) -> [u8; NAME] {
        let family = if self.is_ipv4 { 4 } else { 6 };
        let also = [self.has_protocol, self.has_port, self.has_dscp];
        let also = also.iter().rev().fold(0, |bits, &has| bits << 1 | u8::from(has));
        [family, self.destination_open, self.source_open, also]
    }

    /// Encodes `struct mask`.
    fn entry(&self) -> [u8; RANGE] {
        let mut octets = [0; RANGE];
        let address = |open: u8| u128::MAX.checked_shl(open.into()).unwrap_or(0).to_be_bytes();
        octets[0..16].copy_from_slice(&address(self.destination_open));
        octets[16..32].copy_from_slice(&address(self.source_open));
        octets[32..36].fill(0xff);
        octets[36..38].fill(if self.has_port { 0xff } else { 0 });
        octets[40] = if self.has_protocol { 0xff } else { 0 };
        octets[DSCP] = if self.has_dscp { 0xff } else { 0 };
        octets[FLOW..].copy_from_slice(&self.name());
        octets
    }

    /// Encodes `struct range`; the bits that the mask leaves open are zero in a flow.
    fn range(&self, interface: InterfaceId, flow: &Flow) -> [u8; RANGE] {
        let mut octets = [0; RANGE];
        octets[..FLOW].copy_from_slice(&key(interface, flow));
        octets[DSCP] = flow.dscp;
        octets[FLOW..].copy_from_slice(&self.name());
        octets
    }
}

/// Adds the fields of the encoded mask to those of a key.
fn decode_name(
    [family, destination_open, source_open, _]: [u8; NAME],
    (interface, flow): (InterfaceId, Flow),
) -> (InterfaceId, Flow) {
    let [_, dscp, ..] = flow.flow_label.to_be_bytes();
    let any = source_open == 128;
    // A range can have the unspecified address, too.
    let unspecified = match family {
        4 => core::net::Ipv4Addr::UNSPECIFIED.into(),
        _ => core::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = (!any).then(|| flow.source.unwrap_or(unspecified));
    let source_open = if any { 0 } else { source_open };
    (interface, Flow { source, destination_open, source_open, dscp, flow_label: 0, ..flow })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_decoded_as_encoded_and_is_under_its_mask() {
        for (destination, source, protocol, destination_port) in [
            ("10.0.9.0/24", Some("10.0.0.0/16"), 17, 5_000),
            ("10.0.9.0/24", None, 0, 0),
            ("0.0.0.0/0", Some("0.0.0.0/1"), 6, 0),
            ("10.0.9.1/32", None, 0, 0),
            ("2001:db8::/32", Some("::/1"), 0, 0),
            ("::/0", None, 17, 0),
        ] {
            let source = source.map(|s| Flow::to_range(s.parse().expect("a prefix")));
            let flow = Flow {
                source: source.map(|s| s.destination),
                source_open: source.map_or(0, |s| s.destination_open),
                protocol,
                destination_port,
                ..Flow::to_range(destination.parse().expect("a prefix"))
            };
            assert_eq!(flow.check(), Ok(()));
            let mask = Mask::of(&flow);
            let range = mask.range(InterfaceId(3), &flow);
            let (values, name) = (range.first_chunk().expect("there"), mask.name());
            assert_eq!(decode_name(name, decode_key(values)), (InterfaceId(3), flow));
            let masked = range.iter().zip(mask.entry()).take(FLOW).all(|(v, m)| v & m == *v);
            assert!(masked, "{flow:?}");
            let inside = Flow {
                source: flow.source.or(Some(flow.destination)),
                protocol: if protocol == 0 { 17 } else { protocol },
                destination_port: if destination_port == 0 { 9 } else { destination_port },
                source_port: 7,
                ..flow
            };
            assert_eq!(mask.range_around(&inside), Some(flow), "of a packet in it");
        }
    }
}
