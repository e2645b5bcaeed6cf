//! The BPF classifier: one program in the way out of every planned interface, and one hash map of all their flows.
//!
//! Both stay in the kernel without us, since the interface holds the program and the program holds the map. The next
//! daemon asks the interface for its programs, knows ours by name, and takes the map from it; then it puts its own copy
//! of the program, which uses the same map, in the place of the old one. That is one step for the kernel: no packet
//! goes unclassified.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::{Flow, InterfaceId};

use super::flow_table::FlowTable;
use super::{ClassifierChoice, TcError};
use crate::bpf_object::{self, CLASSIFIER};
use crate::sys::bpf::{self, Map, MapShape};

/// Names by which we know what is ours.
const PROGRAM: &str = "earmark_egress";
const MAP: &str = "earmark_flows";
/// What the object calls the section of the program, and the map.
const SECTION: &str = "classifier";
const SYMBOL: &str = "flows";
/// One of those that the source names. The classifier uses no helper that asks for another.
const LICENSE: &str = "MIT";
/// Octets of `struct flow` in the classifier.
const KEY: usize = 44;
/// Most flows at a time, on all interfaces together.
const MOST_FLOWS: u32 = 131_072;

/// The classifier.
#[derive(Debug)]
pub(super) struct BpfTable {
    flows: Map<KEY>,
    program: OwnedFd,
    /// The kernel's number of the program.
    number: u32,
}

impl BpfTable {
    /// Loads the classifier, with the flows that an earlier one left on one of the interfaces.
    pub(super) fn open(interfaces: &[InterfaceId]) -> Result<BpfTable, TcError> {
        let mut found = None;
        for &interface in interfaces {
            for (_, map) in left_behind(interface)? {
                found = found.or(map);
            }
        }
        let flows = match found {
            Some(flows) => flows,
            None => new_map()?,
        };
        let maps = [(SYMBOL, flows.descriptor())];
        let code = bpf_object::link(CLASSIFIER, SECTION, &maps).map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidData, error);
            TcError::Bpf { doing: "read the classifier", source }
        })?;
        let program =
            bpf::load_classifier(PROGRAM, &code, LICENSE).map_err(failed("load the classifier"))?;
        let info = bpf::program_info(program.as_fd()).map_err(failed("read the classifier"))?;
        let table = BpfTable { flows, program, number: info.number };
        // A kernel before 6.6 loads the program, but has no place to attach it.
        if let Some(&interface) = interfaces.first() {
            bpf::attached(interface.0).map_err(failed("look for classifiers"))?;
        }
        Ok(table)
    }

    /// Whether a program is not the one that we have loaded.
    fn is_another(&self, program: BorrowedFd<'_>) -> bool {
        bpf::program_info(program).is_ok_and(|info| info.number != self.number)
    }
}

impl FlowTable for BpfTable {
    fn choice(&self) -> ClassifierChoice {
        ClassifierChoice::Bpf
    }

    fn attach(&mut self, interface: InterfaceId) -> Result<bool, TcError> {
        let there = bpf::attached(interface.0).map_err(failed("look for classifiers"))?;
        let is_new = !there.contains(&self.number);
        if !is_new && there.len() == 1 {
            return Ok(false);
        }
        let mut old = left_behind(interface)?;
        old.retain(|(program, _)| self.is_another(program.as_fd()));
        let mut old = old.iter().map(|(program, _)| program.as_fd());
        if is_new {
            bpf::attach(self.program.as_fd(), interface.0, old.next())
                .map_err(failed("attach the classifier"))?;
        }
        // More than one of ours, by two daemons that came at the same moment: the last to run would have the say.
        for program in old {
            bpf::detach(program, interface.0).map_err(failed("detach another classifier"))?;
        }
        Ok(is_new)
    }

    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        for (on, flow, _) in self.entries()? {
            if on == interface {
                self.remove(on, &flow)?;
            }
        }
        let there = bpf::attached(interface.0).map_err(failed("look for classifiers"))?;
        if there.contains(&self.number) {
            bpf::detach(self.program.as_fd(), interface.0)
                .map_err(failed("detach the classifier"))?;
        }
        detach_left_behind(interface)
    }

    fn set(&mut self, interface: InterfaceId, flow: &Flow, class: u32) -> Result<(), TcError> {
        self.flows.set(&key(interface, flow), class).map_err(failed("enter a flow"))
    }

    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError> {
        self.flows.remove(&key(interface, flow)).map(drop).map_err(failed("take a flow out"))
    }

    fn entries(&mut self) -> Result<Vec<(InterfaceId, Flow, u32)>, TcError> {
        let keys = self.flows.keys(MOST_FLOWS as usize).map_err(failed("list the flows"))?;
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(class) = self.flows.get(&key).map_err(failed("read a flow"))? {
                let (interface, flow) = unkey(&key);
                entries.push((interface, flow, class));
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(entries)
    }
}

/// Takes the classifier of an earlier daemon out of an interface, for one that does without BPF. What stands in the way of
/// BPF may stand in the way of this too, and then there is no classifier to be taken out.
pub(super) fn retire(interface: InterfaceId) {
    if let Err(error) = detach_left_behind(interface) {
        tracing::debug!(%error, interface = interface.0, "no BPF classifier to retire");
    }
}

fn detach_left_behind(interface: InterfaceId) -> Result<(), TcError> {
    for (program, _) in left_behind(interface)? {
        bpf::detach(program.as_fd(), interface.0).map_err(failed("detach the classifier"))?;
    }
    Ok(())
}

/// The programs in an interface's way out.
fn programs(interface: InterfaceId) -> Result<Vec<OwnedFd>, TcError> {
    let numbers = bpf::attached(interface.0).map_err(failed("look for classifiers"))?;
    let mut programs = Vec::new();
    for number in numbers {
        match bpf::program_by_id(number) {
            Ok(program) => programs.push(program),
            // Detached since it was listed.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            // Somebody else's, or an earlier daemon's that cannot be told apart without the right to look.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                tracing::warn!(
                    interface = interface.0,
                    "a classifier is attached that cannot be examined; to take over what an earlier daemon left, \
                     start with CAP_SYS_ADMIN"
                );
            }
            Err(source) => {
                return Err(TcError::Bpf { doing: "open a classifier", source });
            }
        }
    }
    Ok(programs)
}

/// The classifiers of ours on an interface, one in the usual case, each with its map if that has the shape that we use.
fn left_behind(interface: InterfaceId) -> Result<Vec<(OwnedFd, Option<Map<KEY>>)>, TcError> {
    let mut found = Vec::new();
    for program in programs(interface)? {
        let info = bpf::program_info(program.as_fd()).map_err(failed("read a classifier"))?;
        if info.name == PROGRAM {
            let map = match info.maps.as_slice() {
                [number] => {
                    let map = bpf::map_by_id(*number).and_then(Map::new);
                    map.map_err(failed("open the flow map"))?
                }
                _ => None,
            };
            found.push((program, map));
        }
    }
    Ok(found)
}

fn new_map() -> Result<Map<KEY>, TcError> {
    let shape = MapShape { key: KEY as u32, value: 4, entries: MOST_FLOWS };
    let map = bpf::create_map(MAP, shape).and_then(Map::new);
    let wrong = io::Error::from(io::ErrorKind::InvalidData);
    map.and_then(|map| map.ok_or(wrong)).map_err(failed("make the flow map"))
}

/// `struct flow` of the classifier.
fn key(interface: InterfaceId, flow: &Flow) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[0..16].copy_from_slice(&mapped(flow.destination));
    if let Some(source) = flow.source {
        key[16..32].copy_from_slice(&mapped(source));
    }
    key[32..36].copy_from_slice(&interface.0.to_ne_bytes());
    key[36..38].copy_from_slice(&flow.destination_port.to_be_bytes());
    key[38..40].copy_from_slice(&flow.source_port.to_be_bytes());
    key[40] = flow.protocol;
    key[41..44].copy_from_slice(&flow.flow_label.to_be_bytes()[1..]);
    key
}

/// What a key says.
fn unkey(key: &[u8; KEY]) -> (InterfaceId, Flow) {
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
        destination_port: u16::from_be_bytes([key[36], key[37]]),
        source_port: u16::from_be_bytes([key[38], key[39]]),
        flow_label: u32::from_be_bytes([0, key[41], key[42], key[43]]),
    };
    (InterfaceId(u32::from_ne_bytes([key[32], key[33], key[34], key[35]])), flow)
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        IpAddr::V6(a) => a.octets(),
    }
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> TcError {
    move |source| TcError::Bpf { doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_laid_out_as_the_classifier_reads_it() {
        let flow = Flow {
            destination: IpAddr::from([10, 0, 9, 9]),
            source: Some(IpAddr::from([10, 0, 0, 1])),
            protocol: 17,
            destination_port: 0x1234,
            source_port: 0x5678,
            flow_label: 0x9_abcd,
        };
        let key = key(InterfaceId(7), &flow);
        assert_eq!(key[0..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 9, 9]);
        assert_eq!(key[16..32], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(key[32..36], 7_u32.to_ne_bytes());
        assert_eq!(key[36..44], [0x12, 0x34, 0x56, 0x78, 17, 0x09, 0xab, 0xcd]);
    }

    #[test]
    fn a_key_is_read_as_it_was_written() {
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
            };
            assert_eq!(unkey(&key(InterfaceId(3), &flow)), (InterfaceId(3), flow));
        }
    }
}
