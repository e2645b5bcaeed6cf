//! The BPF classifier: one program on the egress of every planned interface, hash maps of all their flows, a map of the
//! buckets that several flows share, the ranges of flows, and the settings of each link.
//!
//! All of them stay in the kernel when the daemon ends, since the interface holds the program and the program holds the
//! maps. The next daemon lists the interface's programs, finds ours by name, and takes the maps from it; then it
//! replaces the program by its own copy, which uses the same maps. The replacement is atomic: no packet is
//! unclassified.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use earmark_core::{Flow, InterfaceId};

use super::bpf_links;
use super::bpf_ranges::Ranges;
use super::bucket::{BUCKET, Bucket};
use super::claim_resources::MAX_FLOWS;
use super::entry::{ENTRY, Entry};
use super::flow_maps::{self, FlowMaps};
use super::flow_table::FlowTable;
use super::plan::LinkSettings;
use super::{ClassifierChoice, Statistics, TcError};
use crate::bpf_object::{self, CLASSIFIER};
use crate::interface::InterfaceName;
use crate::sys::bpf::{self, Map};

/// Name of our program in the kernel; from the second layout on, the number of the layout follows as one digit of base 36.
const PROGRAM: &str = "earmark_egress";
/// Layout of the maps. Raise it when an entry of the layout before, or the class that it names, would mean something else.
const LAYOUT: u32 = 1;
/// Names of our maps in the kernel.
const BUCKETS: &str = "earmark_buckets";
const LINKS: &str = "earmark_links";
const WORK: &str = "earmark_work";
/// Names in the object: section of the program, and symbols of the maps.
const SECTION: &str = "classifier";
const FLOWS_IPV4_SYMBOL: &str = "flows_ipv4";
const FLOWS_SYMBOL: &str = "flows";
const BUCKETS_SYMBOL: &str = "buckets";
const LINKS_SYMBOL: &str = "links";
const WORK_SYMBOL: &str = "work_areas";
const RANGES_SYMBOL: &str = "ranges";
const MASKS_SYMBOL: &str = "masks";
/// Index of the loopback interface in every namespace (Linux: `LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;
/// License: one of those that the source names. The classifier uses no helper that requires another.
const LICENSE: &str = "MIT";
/// Octets of `struct work` in the classifier, with a reserve.
const WORK_AREA: u32 = 256;
/// Maximum number of links.
const MAX_LINKS: u32 = 4_096;
/// Octets of `struct bucket_name`.
const NAME: usize = 8;

/// The maps of the classifier.
#[derive(Debug)]
struct Maps {
    flows: FlowMaps,
    buckets: Map<NAME, { BUCKET }>,
    ranges: Ranges,
    links: Map<4, { bpf_links::LINK }>,
}

/// The classifier in the kernel.
#[derive(Debug)]
pub(super) struct BpfTable {
    maps: Maps,
    program: OwnedFd,
    /// ID of the program in the kernel.
    number: u32,
}

impl BpfTable {
    /// Loads the classifier, with the flows that an earlier one left on one of the interfaces.
    pub(super) fn open(interfaces: &[InterfaceId]) -> Result<BpfTable, TcError> {
        let mut found = None;
        for &interface in interfaces {
            for (_, maps) in previous_state(interface)? {
                found = found.or(maps);
            }
        }
        let maps = match found {
            Some(maps) => maps,
            None => Maps::create()?,
        };
        let (flows_ipv4, flows) = maps.flows.descriptors();
        let (ranges, masks) = maps.ranges.descriptors();
        // For this program only: an earlier one keeps its own until it is replaced.
        let work = bpf::create_work_area(WORK, WORK_AREA).map_err(failed(
            "create the scratch \
            map",
        ))?;
        let symbols = [
            (FLOWS_IPV4_SYMBOL, flows_ipv4),
            (FLOWS_SYMBOL, flows),
            (BUCKETS_SYMBOL, maps.buckets.descriptor()),
            (RANGES_SYMBOL, ranges),
            (MASKS_SYMBOL, masks),
            (LINKS_SYMBOL, maps.links.descriptor()),
            (WORK_SYMBOL, work.as_raw_fd()),
        ];
        let code = bpf_object::link(CLASSIFIER, SECTION, &symbols).map_err(|error| {
            let source = io::Error::new(io::ErrorKind::InvalidData, error);
            TcError::Bpf { doing: "read the classifier", source }
        })?;
        let program =
            bpf::load_classifier(PROGRAM, &code, LICENSE).map_err(failed("load the classifier"))?;
        let info = bpf::program_info(program.as_fd()).map_err(failed("read the classifier"))?;
        let table = BpfTable { maps, program, number: info.number };
        // A kernel before 6.6 loads the program but cannot attach it. Interfaces may appear later, loopback always
        // exists.
        let interface = interfaces.first().map_or(LOOPBACK, |interface| interface.0);
        bpf::attached(interface).map_err(failed("list the classifiers"))?;
        Ok(table)
    }

    fn get(&self, interface: InterfaceId, flow: &Flow) -> io::Result<Option<[u8; ENTRY]>> {
        match flow.is_range() {
            true => self.maps.ranges.get(interface, flow),
            false => self.maps.flows.get(interface, flow),
        }
    }

    fn put(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        value: &[u8; ENTRY],
    ) -> Result<(), TcError> {
        match flow.is_range() {
            true => self.maps.ranges.set(interface, flow, value).map_err(failed("insert a range")),
            false => self.maps.flows.set(interface, flow, value).map_err(failed("insert a flow")),
        }
    }

    /// Whether a program is another one than the loaded one.
    fn is_another(&self, program: BorrowedFd<'_>) -> bool {
        bpf::program_info(program).is_ok_and(|info| info.number != self.number)
    }
}

impl FlowTable for BpfTable {
    fn choice(&self) -> ClassifierChoice {
        ClassifierChoice::Bpf
    }

    fn attach(
        &mut self,
        interface: InterfaceId,
        settings: &LinkSettings,
        kinds: [u32; 2],
    ) -> Result<bool, TcError> {
        flow_maps::check(interface).map_err(failed("attach the classifier"))?;
        let name = interface.0.to_ne_bytes();
        let wanted = bpf_links::emit(settings, kinds);
        let found = self.maps.links.get(&name).map_err(failed("read a link's settings"))?;
        let is_like = found.is_some_and(|found| bpf_links::is_like(&found, &wanted));
        if !is_like || found.is_some_and(|found| found[..8] != wanted[..8]) {
            let value = match found.filter(|_| is_like) {
                Some(mut found) => {
                    bpf_links::set_kinds(&mut found, kinds);
                    found
                }
                None => wanted,
            };
            self.maps.links.set(&name, &value).map_err(failed("insert a link's settings"))?;
        }
        let there = bpf::attached(interface.0).map_err(failed("list the classifiers"))?;
        let is_new = !there.contains(&self.number);
        if !is_new && there.len() == 1 {
            return Ok(false);
        }
        let mut old = previous_state(interface)?;
        old.retain(|(program, _)| self.is_another(program.as_fd()));
        let mut old = old.iter().map(|(program, _)| program.as_fd());
        if is_new {
            bpf::attach(self.program.as_fd(), interface.0, old.next())
                .map_err(failed("attach the classifier"))?;
        }
        // Several of ours, from two daemons that started at the same moment: the last one to run would decide.
        for program in old {
            bpf::detach(program, interface.0).map_err(failed("detach another classifier"))?;
        }
        Ok(is_new)
    }

    fn set_kinds(&mut self, interface: InterfaceId, kinds: [u32; 2]) -> Result<(), TcError> {
        let name = interface.0.to_ne_bytes();
        let link = self.maps.links.get(&name).map_err(failed("read a link's settings"))?;
        if let Some(mut link) = link {
            bpf_links::set_kinds(&mut link, kinds);
            self.maps.links.set(&name, &link).map_err(failed("change a link's settings"))?;
        }
        Ok(())
    }

    fn is_attached(&mut self, interface: InterfaceId) -> Result<bool, TcError> {
        let there = bpf::attached(interface.0).map_err(failed("list the classifiers"))?;
        Ok(there.contains(&self.number))
    }

    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        for (on, flow, _) in self.entries(&[interface])? {
            if on == interface {
                self.remove(on, &flow)?;
            }
        }
        for number in self.bucket_numbers(interface)? {
            self.remove_bucket(interface, number)?;
        }
        let name = interface.0.to_ne_bytes();
        self.maps.links.remove(&name).map_err(failed("remove a link's settings"))?;
        let there = bpf::attached(interface.0).map_err(failed("list the classifiers"))?;
        if there.contains(&self.number) {
            bpf::detach(self.program.as_fd(), interface.0)
                .map_err(failed("detach the classifier"))?;
        }
        detach_previous(interface).map(drop)
    }

    fn set(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry) -> Result<(), TcError> {
        self.put(interface, flow, &entry.emit())
    }

    fn change(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        entry: &Entry,
    ) -> Result<(), TcError> {
        // A packet between reading and writing may go uncounted.
        match self.get(interface, flow).map_err(failed("read a flow"))? {
            Some(before) => self.put(interface, flow, &entry.emit_after(&before)),
            None => self.put(interface, flow, &entry.emit()),
        }
    }

    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError> {
        if flow.is_range() {
            let removed = self.maps.ranges.remove(interface, flow);
            return removed.map_err(failed("remove a range"));
        }
        self.maps.flows.remove(interface, flow).map_err(failed("remove a flow"))
    }

    fn entries(&mut self, _: &[InterfaceId]) -> Result<Vec<(InterfaceId, Flow, Entry)>, TcError> {
        let mut entries = self.maps.flows.entries().map_err(failed("list the flows"))?;
        entries.extend(self.maps.ranges.entries().map_err(failed("list the ranges"))?);
        entries.sort_unstable_by_key(|(interface, flow, _)| (*interface, *flow));
        entries.dedup_by_key(|(interface, flow, _)| (*interface, *flow));
        Ok(entries)
    }

    fn is_right(&self, _: InterfaceId, _: &Flow, wanted: &Entry, found: &Entry) -> bool {
        wanted == found
    }

    fn entry(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Option<Entry>, TcError> {
        let found = self.get(interface, flow).map_err(failed("read a flow"))?;
        Ok(found.map(|found| Entry::parse(&found)))
    }

    fn counters(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Statistics, TcError> {
        let found = self.get(interface, flow).map_err(failed("read a flow"))?;
        Ok(found.map(|found| Entry::counters(&found)).unwrap_or_default())
    }

    fn set_bucket(
        &mut self,
        interface: InterfaceId,
        number: u32,
        bucket: &Bucket,
    ) -> Result<(), TcError> {
        let name = bucket_name(interface, number);
        self.maps.buckets.set(&name, &bucket.emit()).map_err(failed("insert a bucket"))
    }

    fn bucket(&mut self, interface: InterfaceId, number: u32) -> Result<Option<Bucket>, TcError> {
        let found = self.maps.buckets.get(&bucket_name(interface, number));
        Ok(found.map_err(failed("read a bucket"))?.map(|octets| Bucket::parse(&octets)))
    }

    fn remove_bucket(&mut self, interface: InterfaceId, number: u32) -> Result<(), TcError> {
        let removed = self.maps.buckets.remove(&bucket_name(interface, number));
        removed.map(drop).map_err(failed("remove a bucket"))
    }

    fn bucket_numbers(&mut self, interface: InterfaceId) -> Result<Vec<u32>, TcError> {
        let names = self.maps.buckets.keys(MAX_FLOWS as usize);
        let names = names.map_err(failed("list the buckets"))?;
        let ours = names.iter().filter(|name| name[..4] == interface.0.to_ne_bytes());
        let mut numbers: Vec<u32> =
            ours.map(|name| u32::from_ne_bytes([name[4], name[5], name[6], name[7]])).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}

/// Detaches the classifier of an earlier daemon from an interface, for a daemon without BPF. The reason why BPF is
/// unavailable may apply to this too; then there is no classifier to detach.
pub(super) fn retire(interface: InterfaceId) {
    if let Err(error) = detach_previous(interface) {
        tracing::debug!(%error, interface = %InterfaceName(interface), "no BPF classifier to \
            retire");
    }
}

/// Checks that this program knows the layout of a classifier on an interface, if there is one. Without BPF there is none.
pub(super) fn check_layout(interface: InterfaceId) -> Result<(), TcError> {
    let Ok(programs) = programs(interface) else { return Ok(()) };
    for program in programs {
        let info = bpf::program_info(program.as_fd()).map_err(failed("read a classifier"))?;
        if let Some(layout) = layout_of(&info.name).filter(|&layout| layout > LAYOUT) {
            return Err(TcError::NewerLayout { interface, layout, known: LAYOUT });
        }
    }
    Ok(())
}

/// Returns the layout of a classifier of ours by its name; `None` for a program of others.
fn layout_of(name: &str) -> Option<u32> {
    let mut digits = name.strip_prefix(PROGRAM)?.chars();
    match (digits.next(), digits.next()) {
        (None, _) => Some(1),
        (Some(digit), None) => digit.to_digit(36),
        _ => None,
    }
}

/// Detaches the classifiers of earlier daemons from an interface; returns their number.
pub(super) fn detach_previous(interface: InterfaceId) -> Result<usize, TcError> {
    let programs = previous_state(interface)?;
    for (program, _) in &programs {
        bpf::detach(program.as_fd(), interface.0).map_err(failed("detach the classifier"))?;
    }
    Ok(programs.len())
}

/// Returns the programs on an interface's egress.
fn programs(interface: InterfaceId) -> Result<Vec<OwnedFd>, TcError> {
    let numbers = bpf::attached(interface.0).map_err(failed("list the classifiers"))?;
    let mut programs = Vec::new();
    for number in numbers {
        match bpf::program_by_id(number) {
            Ok(program) => programs.push(program),
            // Detached since it was listed.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            // Another program's, or an earlier daemon's, which cannot be identified without the privilege.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                tracing::warn!(
                    interface = %InterfaceName(interface),
                    "a classifier is attached that cannot be read; start with CAP_SYS_ADMIN to \
                     adopt the queues of an earlier daemon"
                );
            }
            Err(source) => {
                return Err(TcError::Bpf { doing: "open a classifier", source });
            }
        }
    }
    Ok(programs)
}

/// Returns our classifiers on an interface, normally one, each with its maps if they have the current layout.
fn previous_state(interface: InterfaceId) -> Result<Vec<(OwnedFd, Option<Maps>)>, TcError> {
    let mut found = Vec::new();
    for program in programs(interface)? {
        let info = bpf::program_info(program.as_fd()).map_err(failed("read a classifier"))?;
        let Some(layout) = layout_of(&info.name) else { continue };
        let maps = match layout == LAYOUT {
            true => Maps::open(&info.maps).map_err(failed("open the flow map"))?,
            false => None,
        };
        found.push((program, maps));
    }
    Ok(found)
}

impl Maps {
    fn create() -> Result<Maps, TcError> {
        let flows = FlowMaps::create().map_err(failed("make the maps of flows"))?;
        let buckets = Map::create(BUCKETS, MAX_FLOWS).map_err(failed("make the bucket map"))?;
        let ranges = Ranges::create().map_err(failed("make the maps of ranges"))?;
        let links = Map::create(LINKS, MAX_LINKS).map_err(failed("make the map of links"))?;
        Ok(Maps { flows, buckets, ranges, links })
    }

    /// Identifies the maps of a program by their shapes; `None` if it is another version's and lacks one.
    fn open(numbers: &[u32]) -> io::Result<Option<Maps>> {
        let (mut ipv4, mut flows, mut buckets) = (None, None, None);
        let (mut ranges, mut masks, mut links) = (None, None, None);
        for &number in numbers {
            let mut found = bpf::map_by_id(number)?;
            for take in [
                &mut |map| Ok(FlowMaps::map_of_ipv4(map)?.map(|map| ipv4 = Some(map))),
                &mut |map| Ok(FlowMaps::map_of_ipv6(map)?.map(|map| flows = Some(map))),
                &mut |map| Ok(Map::new(map)?.map(|map| buckets = Some(map))),
                &mut |map| Ok(Map::new(map)?.map(|map| links = Some(map))),
                &mut |map| Ok(Ranges::map_of_ranges(map)?.map(|map| ranges = Some(map))),
                &mut |map| Ok(Ranges::map_of_masks(map)?.map(|map| masks = Some(map))),
            ]
                as [&mut dyn FnMut(OwnedFd) -> io::Result<Result<(), OwnedFd>>; 6]
            {
                match take(found)? {
                    Ok(()) => break,
                    Err(other) => found = other,
                }
            }
        }
        let (Some(ipv4), Some(flows), Some(buckets)) = (ipv4, flows, buckets) else {
            return Ok(None);
        };
        let (Some(ranges), Some(masks), Some(links)) = (ranges, masks, links) else {
            return Ok(None);
        };
        let (flows, ranges) = (FlowMaps::open(ipv4, flows), Ranges::open(ranges, masks)?);
        Ok(Some(Maps { flows, buckets, ranges, links }))
    }
}

/// Encodes `struct bucket_name` of the classifier.
fn bucket_name(interface: InterfaceId, number: u32) -> [u8; NAME] {
    let mut name = [0; NAME];
    name[..4].copy_from_slice(&interface.0.to_ne_bytes());
    name[4..].copy_from_slice(&number.to_ne_bytes());
    name
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> TcError {
    move |source| TcError::Bpf { doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_in_the_name_of_the_program() {
        for (name, layout) in [
            ("earmark_egress", Some(1)),
            ("earmark_egress2", Some(2)),
            ("earmark_egressz", Some(35)),
            ("earmark_egress-", None),
            ("earmark_egress22", None),
            ("earmark_ingress", None),
            ("", None),
        ] {
            assert_eq!(layout_of(name), layout, "{name}");
        }
        assert_eq!(layout_of(PROGRAM), Some(LAYOUT), "the program is named by its layout");
    }
}
