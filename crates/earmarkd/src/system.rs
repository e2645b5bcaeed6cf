//! The Linux kernel as the driver's [`Kernel`]: the signalling socket, connections and traffic control.

mod counters;
mod error;
mod packet_filter;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use earmark_core::admission::{ClaimId, LinkStatus, Protocol};
use earmark_core::{
    Connect, ConnectionId, FilterChange, FilteredPackets, Flow, Installation, InterfaceId,
    Outgoing, Rate, StreamEvent, Time,
};
use earmark_history::Counts;
use earmark_linux::{
    Adopted, Deviation, Enforcement, FlowClaim, FlowPath, FlowRouteCounters, InterfaceError,
    InterfaceName, InterfaceSignalling, MarkRule, Monitor, Offload, PathQuestion, Reconciliation,
    SignallingSocket, TcError, TrafficControl,
};
use earmark_node::{Command, EnforcementRow, EngineSlots, Event, Node, TrafficRow};
use tracing::{debug, warn};

use crate::config::{Capacity, InterfaceConfig};
use crate::driver::{
    Arrival, FilterFailure, Kernel, LinkView, LookupFailure, SendFailure, TrafficControlFailure,
};
use crate::protocol::KernelOffload;
use crate::protocols;
use crate::streams::Streams;
use counters::{TrafficControlCounters, counts};
use earmark_control::command::with_cause;
use error::failure;
use packet_filter::NodeFilter;
pub(crate) use plan::plan;

/// Most flows checked by one audit.
const FLOWS_PER_AUDIT: usize = 2_000;

/// The Linux kernel that carries out the driver's effects.
pub(crate) struct System {
    pub(crate) socket: SignallingSocket,
    traffic_control: TrafficControl,
    /// What the kernel does by itself for an engine, if anything.
    pub(crate) offload: Option<Box<dyn KernelOffload>>,
    pub(crate) streams: Streams,
    /// Interfaces whose queues the daemon manages.
    planned: BTreeSet<InterfaceId>,
    /// Interfaces that take part, but whose queues must be left alone (`queues = "none"`).
    hands_off: BTreeSet<InterfaceId>,
    /// Claims on the interfaces in `hands_off`, which are not passed to traffic control.
    accounted: BTreeMap<ClaimId, Time>,
    /// Interfaces that signal.
    signalling: BTreeSet<InterfaceId>,
    /// Groups of applications, each with its number of applications.
    groups: BTreeMap<IpAddr, u32>,
    /// Counters of lookups of the routes of flows.
    flow_routes: Arc<FlowRouteCounters>,
    /// Configured marks of packets.
    marks: Vec<MarkRule>,
    counters: TrafficControlCounters,
    pub(crate) packet_filter: NodeFilter,
}

impl System {
    pub(crate) fn new(
        socket: SignallingSocket,
        traffic_control: TrafficControl,
        streams: Streams,
        planned: BTreeSet<InterfaceId>,
        hands_off: BTreeSet<InterfaceId>,
        adopted: u64,
    ) -> System {
        let counters = TrafficControlCounters { adopted, ..TrafficControlCounters::default() };
        System {
            socket,
            traffic_control,
            offload: None,
            streams,
            planned,
            hands_off,
            signalling: BTreeSet::new(),
            groups: BTreeMap::new(),
            accounted: BTreeMap::new(),
            flow_routes: Arc::default(),
            marks: Vec::new(),
            counters,
            packet_filter: NodeFilter::default(),
        }
    }

    /// Sets the counters of route lookups for listings, and the marks for lookups by users.
    pub(crate) fn show_flow_routes(
        &mut self,
        counters: Arc<FlowRouteCounters>,
        marks: Vec<MarkRule>,
    ) {
        (self.flow_routes, self.marks) = (counters, marks);
    }

    /// Starts signalling on an interface with its settings.
    pub(crate) fn signal_through(
        &mut self,
        interface: InterfaceId,
        config: &InterfaceConfig,
    ) -> Result<(), InterfaceError> {
        let mut how = InterfaceSignalling::default();
        for protocol in protocols::all() {
            protocol.intercept(config, &mut how);
        }
        self.socket.set_interface(interface, how)?;
        for &group in self.groups.keys() {
            membership(group, interface, self.socket.join(group, interface));
        }
        self.signalling.insert(interface);
        Ok(())
    }

    /// Starts signalling on an interface and takes over its queues, for the first time or with changed settings.
    ///
    /// # Errors
    /// The kernel's first error as text. The queues of an interface that was not used before are left alone if it cannot signal.
    pub(crate) fn use_interface(
        &mut self,
        interface: InterfaceId,
        config: &InterfaceConfig,
        capacity: Capacity,
    ) -> Result<Vec<Adopted>, String> {
        let signals = self.signal_through(interface, config).map_err(|error| with_cause(&error));
        if signals.is_err() && !self.knows(interface) {
            return signals.map(|()| Vec::new());
        }
        let adopted = self.take_over(interface, config, capacity);
        signals.and(adopted.map_err(|error| with_cause(&error)))
    }

    /// Returns whether the queues of an interface were taken over, or are left alone as configured.
    pub(crate) fn knows(&self, interface: InterfaceId) -> bool {
        self.planned.contains(&interface) || self.hands_off.contains(&interface)
    }

    /// Takes over the queues of an interface, unless they are to be left alone.
    pub(crate) fn take_over(
        &mut self,
        interface: InterfaceId,
        config: &InterfaceConfig,
        capacity: Capacity,
    ) -> Result<Vec<Adopted>, TcError> {
        let Some(plan) = plan(interface, config, capacity) else {
            self.hands_off.insert(interface);
            return Ok(Vec::new());
        };
        let adopted = self.traffic_control.add_link(&plan)?;
        self.planned.insert(interface);
        self.counters.adopted += adopted.len() as u64;
        Ok(adopted)
    }

    /// Compares traffic control with the plan and corrects it; see [`TrafficControl::reconcile`].
    pub(crate) fn reconcile(&mut self) -> Result<Reconciliation, TcError> {
        let found = self.traffic_control.reconcile()?;
        self.counters.reconciliations += 1;
        self.count(&found);
        Ok(found)
    }

    fn count(&mut self, found: &Reconciliation) {
        self.counters.removed += u64::from(found.removed);
        self.counters.restored += u64::from(found.restored);
    }

    /// Compares the queues of some links with the plan and corrects them; see [`TrafficControl::reconcile_queues`].
    pub(crate) fn reconcile_queues(
        &mut self,
        links: &BTreeSet<InterfaceId>,
    ) -> Result<Reconciliation, TcError> {
        let found = self.traffic_control.reconcile_queues(links)?;
        self.count(&found);
        Ok(found)
    }

    /// Checks the classifier and a part of the flows; see [`TrafficControl::audit`].
    pub(crate) fn audit(&mut self) -> Result<Vec<Deviation>, TcError> {
        let found = self.traffic_control.audit(FLOWS_PER_AUDIT)?;
        self.counters.restored += found.len() as u64;
        Ok(found)
    }

    /// Counts what was found not to be enforced, and what is enforced again.
    pub(crate) fn count_deviations(&mut self, unenforced: u64, enforced_again: u64) {
        self.counters.unenforced += unenforced;
        self.counters.enforced_again += enforced_again;
    }

    /// Opens a monitor of changes of traffic control by other programs.
    pub(crate) fn monitor(&mut self) -> Result<Monitor, TcError> {
        self.traffic_control.monitor()
    }

    /// Removes adopted reservations that were not claimed. Returns the number of their flows.
    pub(crate) fn reap_adopted(&mut self) -> Result<u32, TcError> {
        let count = self.traffic_control.reap_adopted()?;
        self.tidy();
        self.counters.reaped += u64::from(count);
        Ok(count)
    }

    /// Removes all of the daemon's traffic control from the kernel.
    pub(crate) fn teardown(self) -> Result<(), TcError> {
        self.traffic_control.teardown()
    }

    /// Forgets an interface that has gone.
    pub(crate) fn forget(&mut self, interface: InterfaceId) {
        if self.planned.remove(&interface) {
            self.traffic_control.forget_link(interface);
        }
        self.stop_signalling(interface);
    }

    /// Stops using an existing interface: the kernel manages its queues again.
    pub(crate) fn release(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        self.stop_signalling(interface);
        match self.planned.remove(&interface) {
            true => self.traffic_control.remove_link(interface),
            false => Ok(()),
        }
    }

    /// Returns the offload with the kernel's maps.
    fn offload_parts(&mut self) -> Option<(&mut dyn KernelOffload, &mut Offload)> {
        Some((self.offload.as_deref_mut()?, self.socket.offload_mut()?))
    }

    fn stop_signalling(&mut self, interface: InterfaceId) {
        self.hands_off.remove(&interface);
        if let Some((offload, path)) = self.offload_parts() {
            offload.forget(path, interface);
        }
        self.signalling.remove(&interface);
        self.socket.remove_interface(interface);
    }
}

impl Kernel for System {
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        let offload = &mut self.offload;
        // The engines recognize copies themselves and forward only the messages that were intercepted.
        self.socket.receive(|message| {
            each(match (message.share_change, offload.as_deref_mut()) {
                (Some(done), Some(offload)) => {
                    Arrival::Settled(offload.settled(&message.datagram, done))
                }
                _ => Arrival::Message(message.protocol, message.datagram),
            });
        })
    }

    fn offload(&mut self, now: Time, event: &Event) -> Option<Command> {
        let (offload, path) = self.offload_parts()?;
        offload.carry_out(path, now, event)
    }

    fn take_back(&mut self) -> Vec<(InterfaceId, Rate)> {
        self.offload_parts().map_or_else(Vec::new, |(offload, path)| offload.take_back(path))
    }

    fn delegate(
        &mut self,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        let offload = self.offload_parts();
        offload.map_or_else(Vec::new, |(offload, path)| offload.delegate(path, now, link))
    }

    fn next_look(&self) -> Option<Time> {
        self.offload.as_ref()?.next_look()
    }

    fn has_copies(&self) -> bool {
        self.socket.has_copies()
    }

    fn catch_up(&mut self, now: Time, node: &Node, slots: &EngineSlots) -> Vec<Command> {
        let offload = self.offload_parts();
        offload.map_or_else(Vec::new, |(offload, path)| offload.catch_up(path, now, node, slots))
    }

    fn suspend_refreshes(&mut self) {
        if let Some((offload, path)) = self.offload_parts() {
            offload.suspend(path);
        }
    }

    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        failed: &mut dyn FnMut(&Outgoing, SendFailure),
    ) {
        self.socket.send_all(messages, |out, error| failed(out, SendFailure(with_cause(&error))));
    }

    fn connect(&mut self, now: Time, connect: &Connect) {
        self.streams.connect(now, connect);
    }

    fn write(&mut self, connection: ConnectionId, octets: &[u8]) {
        self.streams.write(connection, octets);
    }

    fn close(&mut self, now: Time, connection: ConnectionId) {
        self.streams.close(now, connection);
    }

    fn flush(&mut self) {
        self.streams.flush();
    }

    fn follow_streams(
        &mut self,
        now: Time,
        each: &mut dyn FnMut(StreamEvent<'_>),
    ) -> io::Result<()> {
        self.streams.serve(now, each)
    }

    fn next_stream_deadline(&self) -> Option<Time> {
        self.streams.next_deadline()
    }

    fn install(
        &mut self,
        now: Time,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TrafficControlFailure> {
        if self.hands_off.contains(&installation.interface) {
            self.accounted.entry(installation.claim).or_insert(now);
            return Ok(());
        }
        let installed = self.traffic_control.install_for(protocol, installation, now);
        installed.map_err(|error| failure(error.on(installation.interface)))
    }

    fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure> {
        if self.accounted.contains_key(&claim) {
            return Ok(());
        }
        self.traffic_control.add_flow(claim, flow).map_err(failure)
    }

    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure> {
        if self.accounted.contains_key(&claim) {
            return Ok(());
        }
        self.traffic_control.remove_flow(claim, flow).map_err(failure)
    }

    fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure> {
        self.traffic_control.drop_adopted(interface, flow, protocol).map_err(failure)
    }

    fn remove(&mut self, claim: ClaimId) -> Result<(), TrafficControlFailure> {
        if self.accounted.remove(&claim).is_some() {
            return Ok(());
        }
        self.traffic_control.remove(claim).map_err(failure)
    }

    fn filter(&mut self, changes: &[FilterChange]) -> Vec<(FilteredPackets, FilterFailure)> {
        self.packet_filter.change(changes)
    }

    fn tidy(&mut self) {
        if let Err(error) = self.traffic_control.park_released() {
            debug!("left for the next reconciliation: {}", with_cause(&error));
        }
    }

    fn traffic(&mut self, claim: ClaimId) -> Option<TrafficRow> {
        if self.accounted.contains_key(&claim) {
            return None;
        }
        match self.traffic_control.statistics(claim) {
            Ok(statistics) => Some(TrafficRow {
                packets: statistics.packets,
                octets: statistics.octets,
                drops: statistics.drops,
                backlog_packets: statistics.backlog_packets,
                backlog_octets: statistics.backlog_octets,
            }),
            // The listing shows that nothing is known; the next reconciliation finds errors, if any.
            Err(error) => {
                debug!(?claim, "no statistics: {}", with_cause(&error));
                None
            }
        }
    }

    fn counted(&mut self, claim: ClaimId) -> Option<Counts> {
        if self.accounted.contains_key(&claim) {
            return None;
        }
        let counted = self.traffic_control.counted(claim);
        let failed = |error: &TcError| debug!(?claim, "no statistics: {}", with_cause(error));
        counted.inspect_err(failed).ok().map(counts)
    }

    fn counted_before(&self, claim: ClaimId) -> Counts {
        counts(self.traffic_control.counted_before(claim))
    }

    fn adopted_counted(&mut self, interface: InterfaceId, flow: Flow) -> Option<Counts> {
        let counted = self.traffic_control.adopted_counted(interface, flow);
        let failed = |error: &TcError| debug!("no statistics: {}", with_cause(error));
        counted.inspect_err(failed).ok().flatten().map(counts)
    }

    fn installed_flow(&self, claim: ClaimId) -> Option<(InterfaceId, Flow)> {
        self.traffic_control.installed_flow(claim)
    }

    fn reserved_octets(&mut self, interface: InterfaceId) -> Option<u64> {
        if self.hands_off.contains(&interface) {
            return None;
        }
        let counted = self.traffic_control.reserved_octets(interface);
        counted.inspect_err(|error| debug!("no sample: {}", with_cause(error))).ok().flatten()
    }

    fn installed_at(&self, claim: ClaimId) -> Option<Time> {
        self.accounted.get(&claim).copied().or_else(|| self.traffic_control.installed_at(claim))
    }

    fn enforcement(&self, claim: ClaimId) -> Option<EnforcementRow> {
        if self.accounted.contains_key(&claim) {
            return None;
        }
        let (state, reason) = match self.traffic_control.enforcement(claim) {
            Some(Enforcement::Enforced) => ("enforced", None),
            Some(Enforcement::Standby) => ("standby", None),
            Some(Enforcement::Unenforced(reason)) => ("unenforced", Some(reason)),
            None => ("unenforced", Some("traffic control does not have it".to_owned())),
        };
        let claims = self.traffic_control.other_claims(claim);
        Some(EnforcementRow { state: state.into(), reason, claims })
    }

    fn flow_path(&mut self, asked: &PathQuestion) -> Result<FlowPath, LookupFailure> {
        FlowPath::find(asked, &self.marks).map_err(|error| LookupFailure(with_cause(&error)))
    }

    fn flow_on_link(
        &mut self,
        interface: InterfaceId,
        packets: &Flow,
        limit: usize,
    ) -> Result<LinkView, LookupFailure> {
        if self.hands_off.contains(&interface) {
            return Ok(LinkView::LeftAlone);
        }
        match self.traffic_control.flow_on_link(interface, packets, limit) {
            Ok(on_link) => Ok(LinkView::Planned(on_link)),
            Err(TcError::UnknownLink { .. }) => Ok(LinkView::TakesNoPart),
            Err(error) => Err(LookupFailure(with_cause(&error))),
        }
    }

    fn claims_elsewhere(
        &self,
        interface: Option<InterfaceId>,
        packets: &Flow,
        limit: usize,
    ) -> Vec<(InterfaceId, FlowClaim)> {
        self.traffic_control.claims_elsewhere(interface, packets, limit)
    }

    fn join(&mut self, group: IpAddr) {
        *self.groups.entry(group).or_insert(0) += 1;
        if self.groups[&group] == 1 {
            for &interface in &self.signalling {
                membership(group, interface, self.socket.join(group, interface));
            }
        }
    }

    fn leave(&mut self, group: IpAddr) {
        match self.groups.get_mut(&group) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.groups.remove(&group);
                for &interface in &self.signalling {
                    membership(group, interface, self.socket.leave(group, interface));
                }
            }
            None => {}
        }
    }

    fn can_signal(&self, destination: IpAddr) -> bool {
        self.socket.can_signal(destination)
    }

    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let streams = self.streams.counters();
        let mut list = self.counters.list(&self.socket.counters(), &streams, &self.flow_routes);
        list.extend(self.packet_filter.counters());
        list
    }

    fn shed(&self) -> BTreeMap<InterfaceId, u64> {
        self.socket.shed()
    }
}

/// Logs a failed membership. A failure, for instance on an interface without this address family, affects no other one.
fn membership(group: IpAddr, interface: InterfaceId, outcome: io::Result<()>) {
    let Err(error) = outcome else { return };
    let interface = InterfaceName(interface);
    // The only error that a user can act on.
    match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::NOBUFS) => warn!(
            %group, %interface,
            "cannot join the group on so many interfaces; raise the sysctl net.ipv4.igmp_max_memberships"
        ),
        _ => debug!(%error, %group, %interface, "group membership"),
    }
}
