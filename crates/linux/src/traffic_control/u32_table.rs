//! The u32 classifier, for kernels without BPF: one filter per flow, on the root of HTB.
//!
//! A u32 filter compares 32-bit words of the packet under masks. The filters form lists by priority, walked in order;
//! one list per kind of flow keeps the most specific first. So the time per packet is proportional to the number of
//! flows, and a list is limited to 4 095 filters. Filters exist as long as the root qdisc.
//!
//! A filter selects the class of the largest of the claims on its flow and on the flows that contain it. Limitations:
//! filters cannot check whether a claim has room, so a larger claim applies also while others use it up; and of two
//! flows that overlap without one containing the other, the first one applies to packets in both.
//!
//! A filter with ports does not match packets with IPv4 options or IPv6 extension headers before the ports, nor
//! fragments after the first. Without ports, an IPv6 packet with extension headers has the protocol of the first of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::{Flow, InterfaceId, Prefix};

use super::entry::Entry;
use super::flow_table::FlowTable;
use super::guarantee::BucketParameters;
use super::guarantee::Guarantee;
use super::kernel::{HEADER, KIND, OPTIONS, header, u32_at};
use super::plan::{LinkSettings, MAJOR};
use super::u32_selector::{FIRST_UNRESERVED, Selector, fixed_filters};
use super::{ClassifierChoice, TcError};
use crate::netlink::{Attribute, Connection, Message, NetlinkError, Received};

// Attributes of u32 (`TCA_U32_...`).
const CLASS: u16 = 1;
const SELECTOR: u16 = 5;
/// The bits of a filter's handle that number it in its list; without them the handle is that of a list.
const NODE: u32 = 0xfff;
/// The first priorities are those of the filters for signalling, one each; flows follow.
const FIRST_FLOWS: u16 = 10;

/// A filter in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    class: u32,
    /// Handle within its list.
    handle: u32,
}

impl Filter {
    /// Returns the filter's entry; u32 filters have no buckets.
    fn entry(&self) -> Entry {
        let own = Guarantee { bucket: BucketParameters::NONE, class: self.class, mark: None };
        Entry { own: Some(own), ..Entry::default() }
    }
}

/// The classifier in the kernel.
#[derive(Debug)]
pub(super) struct U32Table {
    netlink: Connection,
    /// Ordered. The keys are ours: local configuration and admitted flows.
    filters: BTreeMap<(InterfaceId, Flow), Filter>,
    /// Guarantee of each flow.
    wanted: BTreeMap<(InterfaceId, Flow), Guarantee>,
    /// Flows of the table that may contain other flows.
    wide: BTreeSet<(InterfaceId, Flow)>,
}

impl U32Table {
    pub(super) fn open() -> Result<U32Table, TcError> {
        let (filters, wanted, wide) = Default::default();
        Ok(U32Table { netlink: Connection::open()?, filters, wanted, wide })
    }

    /// Returns the guarantee for the packets of a flow: the largest among its own and those of the flows that contain
    /// it.
    fn best(&self, interface: InterfaceId, flow: &Flow) -> Option<Guarantee> {
        let own = self.wanted.get(&(interface, *flow)).copied();
        let on = self.wide.iter().filter(|(on, wide)| *on == interface && wide.covers(flow));
        let wider = on.filter_map(|key| self.wanted.get(key).copied());
        own.into_iter().chain(wider).min_by_key(|guarantee| guarantee.bucket.cost())
    }

    /// Returns the flows inside a wider one: their destinations are consecutive.
    fn within(&self, interface: InterfaceId, wide: &Flow) -> Vec<Flow> {
        let destinations = wide.destinations();
        let first = Flow { source: None, ..Flow::to_range(Prefix::host(destinations.address())) };
        let inside = self.wanted.range((interface, first)..).map(|(key, _)| *key);
        inside
            .take_while(|(on, flow)| *on == interface && destinations.contains(flow.destination))
            .map(|(_, flow)| flow)
            .filter(|flow| flow != wide && wide.covers(flow))
            .collect()
    }

    /// Leads a flow, and those inside it, to the best class for each.
    fn set_filter(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError> {
        let narrower = match is_wide(flow) {
            true => self.within(interface, flow),
            false => Vec::new(),
        };
        for flow in narrower.iter().chain([flow]) {
            if let (Some(best), true) =
                (self.best(interface, flow), self.wanted.contains_key(&(interface, *flow)))
            {
                self.replace_filter(interface, flow, best.class)?;
            }
        }
        Ok(())
    }

    fn replace_filter(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        class: u32,
    ) -> Result<(), TcError> {
        let old = self.filters.get(&(interface, *flow)).copied();
        if old.is_some_and(|filter| filter.class == class) {
            return Ok(());
        }
        let handle = self.add(interface, priority(flow), &Selector::of(flow), class)?;
        self.filters.insert((interface, *flow), Filter { class, handle });
        // The new filter comes after the old one in its list: until this deletion, packets take the old class.
        old.map_or(Ok(()), |old| self.delete(interface, flow, old))
    }

    /// Adds a filter; returns the handle that the kernel assigned.
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

    /// Removes the guarantee of a flow.
    fn forget(&mut self, interface: InterfaceId, flow: &Flow) {
        self.wanted.remove(&(interface, *flow));
        self.wide.remove(&(interface, *flow));
    }

    /// Deletes all filters of a priority that is not for flows.
    fn delete_list(
        &mut self,
        interface: InterfaceId,
        priority: u16,
        class: u32,
    ) -> Result<(), TcError> {
        let message =
            Message::new(libc::RTM_DELTFILTER, 0).fixed(&filter_header(interface, 0, priority, 0));
        match self.netlink.request("delete a list of u32 filters", message) {
            Err(error) if error.is(libc::ENOENT) || error.is(libc::EINVAL) => {
                tracing::debug!(priority, class, "the filters were deleted already");
                Ok(())
            }
            outcome => Ok(outcome?),
        }
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

    /// Reads the filters of an interface from the kernel. Returns the priorities and classes of those that are not for
    /// flows.
    fn refresh(&mut self, interface: InterfaceId) -> Result<BTreeSet<(u16, u32)>, TcError> {
        let listed = self.listed(interface)?;
        self.filters.retain(|(on, _), _| *on != interface);
        let mut fixed = BTreeSet::new();
        for Listed { handle: number, class, priority, flow } in listed {
            let Some(flow) = flow else {
                fixed.insert((priority, class));
                continue;
            };
            let filter = Filter { class, handle: number };
            // Two for one flow: an earlier change was interrupted. The later one is the intended one.
            if let Some(earlier) = self.filters.insert((interface, flow), filter) {
                self.delete(interface, &flow, earlier)?;
            }
        }
        Ok(fixed)
    }

    /// Returns the filters on our root of an interface, as the kernel lists them; empty if there is no such root.
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

    fn port(&self) -> Result<Option<u32>, TcError> {
        Ok(Some(self.netlink.port()?))
    }

    fn attach(
        &mut self,
        interface: InterfaceId,
        settings: &LinkSettings,
        _: [u32; 2],
    ) -> Result<bool, TcError> {
        let there = self.refresh(interface)?;
        let wanted = fixed_filters(settings);
        if wanted.iter().map(|(priority, _, class)| (*priority, *class)).eq(there.iter().copied()) {
            return Ok(false);
        }
        for (priority, class) in there {
            self.delete_list(interface, priority, class)?;
        }
        for (priority, selector, class) in &wanted {
            self.add(interface, *priority, selector, *class)?;
        }
        Ok(true)
    }

    fn is_attached(&mut self, _: InterfaceId) -> Result<bool, TcError> {
        // Filters exist as long as the root qdisc, and the kernel announces their changes.
        Ok(true)
    }

    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        self.filters.retain(|(on, _), _| *on != interface);
        self.wanted.retain(|(on, _), _| *on != interface);
        self.wide.retain(|(on, _)| *on != interface);
        // All filters of a root at once: no priority, no handle.
        let fixed = filter_header(interface, 0, 0, 0);
        let message = Message::new(libc::RTM_DELTFILTER, 0).fixed(&fixed);
        match self.netlink.request("delete the u32 filters", message) {
            // No such qdisc, interface or filters, or a qdisc that supports none.
            Err(error)
                if [libc::ENOENT, libc::EINVAL, libc::ENODEV, libc::EOPNOTSUPP]
                    .iter()
                    .any(|e| error.is(*e)) =>
            {
                Ok(())
            }
            outcome => Ok(outcome?),
        }
    }

    fn set(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry) -> Result<(), TcError> {
        let Some(own) = entry.own else {
            return self.remove(interface, flow);
        };
        let before = self.wanted.insert((interface, *flow), own);
        if is_wide(flow) {
            self.wide.insert((interface, *flow));
        }
        self.set_filter(interface, flow).inspect_err(|_| {
            match before {
                Some(before) => _ = self.wanted.insert((interface, *flow), before),
                None => self.forget(interface, flow),
            };
        })
    }

    fn change(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        entry: &Entry,
    ) -> Result<(), TcError> {
        self.set(interface, flow, entry)
    }

    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError> {
        self.forget(interface, flow);
        // The flows inside it keep a class that still exists.
        let led = self.set_filter(interface, flow);
        let Some(&filter) = self.filters.get(&(interface, *flow)) else {
            return led;
        };
        self.delete(interface, flow, filter)?;
        self.filters.remove(&(interface, *flow));
        led
    }

    fn entries(
        &mut self,
        interfaces: &[InterfaceId],
    ) -> Result<Vec<(InterfaceId, Flow, Entry)>, TcError> {
        for &interface in interfaces {
            self.refresh(interface)?;
        }
        let entries = self.filters.iter();
        Ok(entries.map(|(&(on, flow), filter)| (on, flow, filter.entry())).collect())
    }

    fn entry(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Option<Entry>, TcError> {
        Ok(self.filters.get(&(interface, *flow)).map(Filter::entry))
    }

    fn is_right(&self, interface: InterfaceId, flow: &Flow, _: &Entry, found: &Entry) -> bool {
        let class = |guarantee: Option<Guarantee>| guarantee.map(|guarantee| guarantee.class);
        class(self.best(interface, flow)) == class(found.own)
    }

    fn is_in_place(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        _: &Entry,
    ) -> Result<bool, TcError> {
        // The kernel cannot look up a filter by its selector: comparisons of all filters find changes.
        Ok(self.filters.contains_key(&(interface, *flow)))
    }
}

/// Whether other flows may be inside a flow.
fn is_wide(flow: &Flow) -> bool {
    let is_whole = flow.spi != 0 || flow.source_port != 0 && flow.destination_port != 0;
    flow.is_range() || flow.source.is_none() || !is_whole
}

/// A filter in a dump.
#[derive(Clone, Debug)]
struct Listed {
    handle: u32,
    class: u32,
    priority: u16,
    /// `None` if the filter is not in the form that we write for a flow.
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
        let priority = (information >> 16) as u16; // the upper half
        let flow = selector
            .and_then(|s| s.flow())
            .filter(|_| (FIRST_FLOWS..FIRST_UNRESERVED).contains(&priority));
        Ok(Some(Listed { handle, class, priority, flow }))
    }
}

/// Returns the priority of a flow. One list per kind of flow, most specific first, as in the BPF classifier; two
/// families cannot share a list. Ranges come after all flows, the narrowest first.
pub(super) fn priority(flow: &Flow) -> u16 {
    if flow.is_range() {
        // For IPv6 3 * 129 * 129 at most; the order of the two families is irrelevant.
        let family = if flow.destination.is_ipv4() { 100 } else { FIRST_RANGE_OF_IPV6 };
        return family + flow.openness() as u16;
    }
    let ports = match (flow.destination_port, flow.source_port) {
        (0, 0) if flow.spi != 0 => 0, // as both ports
        (0, 0) => 3,
        (0, _) => 2,
        (_, 0) => 1,
        _ => 0,
    };
    // A label takes precedence over none, and a source port over a label.
    let kind = ports * 2 + u16::from(flow.flow_label == 0);
    let any_source = if flow.source.is_none() { 8 } else { 0 };
    let family = if flow.destination.is_ipv4() { 10 } else { 30 };
    family + any_source + kind
}

/// First priority after all of IPv4: 100 + 33 * 129 * 3.
pub(super) const FIRST_RANGE_OF_IPV6: u16 = 13_000;

/// Returns the fixed part of messages about filters on our root qdisc.
fn filter_header(
    interface: InterfaceId,
    handle: u32,
    priority: u16,
    ether_type: u16,
) -> [u8; HEADER] {
    let information = u32::from(priority) << 16 | u32::from(ether_type.to_be());
    header(interface, handle, u32::from(MAJOR) << 16, information)
}
