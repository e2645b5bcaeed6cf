//! The driver: passes inputs to a [`Node`] and carries out the resulting effects.
//!
//! One input at a time is passed by [`Driver::handle`], or a batch of datagrams by [`Driver::receive`]. The effects are
//! carried out before either returns, in their order except for messages: these are sent last and together, datagrams before
//! the data of connections. The kernel is behind the trait [`Kernel`], so that everything above it runs in tests without
//! privileges. A reservation that the kernel refuses becomes an input of the node ([`HostUpdate::TrafficControlRefused`]), so
//! that the protocol sends an error message. Events of the node accumulate until [`Driver::take_events`] is called.

mod accounting;
mod kernel;
mod recorded_node;

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::IpAddr;

use earmark_core::admission::{AdmissionMethod, ClaimId, Ledger, LinkStatus};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{
    ApplicationId, Effect, Effects, FilterEvent, FlowResolver, Installation, InterfaceId,
    RowFilter, Time,
};
use earmark_node::{
    Command, EngineSlots, Event, HostUpdate, Input, LinkRow, Node, NodeConfig, Position, QueueView,
    ReservationRow,
};
use tracing::{debug, warn};

use crate::history::Accounts;
use crate::protocols;
use crate::record::Recorder;

use recorded_node::RecordedNode;

pub use kernel::{
    Arrival, FilterFailure, Kernel, LinkView, LookupFailure, SendFailure, TrafficControlFailure,
};
pub use recorded_node::DriverCounters;

/// A node, the kernel below it, and the state between them.
pub struct Driver<K> {
    inside: RecordedNode,
    kernel: K,
    events: Vec<Event>,
    /// Groups of applications with multicast sessions, by application number, which all protocols share. The messages that
    /// announce the data of such a session are addressed to the group.
    groups: BTreeMap<ApplicationId, IpAddr>,
    /// Configured interfaces that take no part, by name.
    unused_links: BTreeMap<String, LinkRow>,
    /// Times of the last samples of links whose admission control measures; `None` if none does by its settings.
    sampled: Option<BTreeMap<InterfaceId, Time>>,
    /// Accounting records, if there are any.
    accounts: Option<Box<Accounts>>,
}

/// Most batches read by one call of [`Driver::look`], enough for everything in the ring.
const BATCHES_PER_LOOK: usize = 1_024;

impl<K: Kernel> Driver<K> {
    /// Creates a driver with a new node.
    pub fn new(config: NodeConfig, kernel: K, recorder: Option<Recorder>) -> Driver<K> {
        let is_measured = config.link_admission.values().any(|m| *m != AdmissionMethod::Parameter);
        Driver {
            inside: RecordedNode {
                node: Node::new(config),
                effects: Effects::new(),
                recorder,
                counters: DriverCounters::default(),
            },
            kernel,
            events: Vec::new(),
            groups: BTreeMap::new(),
            unused_links: BTreeMap::new(),
            sampled: is_measured.then(BTreeMap::new),
            accounts: None,
        }
    }

    /// Creates a driver of a node that exists, without a recording.
    pub fn of(node: Node, kernel: K) -> Driver<K> {
        let driver = Driver::new(NodeConfig::default(), kernel, None);
        let inside = RecordedNode { node, ..driver.inside };
        Driver { inside, ..driver }
    }

    /// Sets the resolver that looks up the routes of flows on this host, for routes that do not depend on the destination alone.
    pub fn ask_for_flows(&mut self, host: Box<dyn FlowResolver>) {
        let record = self.inside.recorder.is_some();
        self.inside.node.ask_for_flows(host, record);
    }

    /// Handles one input and its effects.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        // Notifications of the kernel are older than the input.
        if self.kernel.has_copies()
            && let Err(error) = self.look(now)
        {
            warn!(%error, "cannot read what the kernel has done by itself");
        }
        if let Input::Command(command) = &input {
            self.follow_groups(command);
        }
        if let Input::Host(update) = &input
            && may_move_packets(update)
        {
            self.kernel.suspend_refreshes();
        }
        self.reclaim_delegated(now);
        self.note_adopted(&input);
        self.inside.take(now, input);
        self.carry_out(now);
        self.delegate(now);
    }

    /// Receives one batch of messages and handles them and their effects. Returns the number of messages.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&mut self, now: Time) -> io::Result<usize> {
        self.reclaim_delegated(now);
        let Driver { inside, kernel, .. } = self;
        let received = kernel.receive(&mut |arrival| {
            inside.take(
                now,
                match arrival {
                    Arrival::Message(protocol, datagram) => Input::Datagram(protocol, datagram),
                    Arrival::Settled(command) => Input::Command(command),
                },
            );
        });
        self.carry_out(now);
        self.delegate(now);
        received
    }

    /// Handles the events of connections and their effects.
    ///
    /// # Errors
    /// Waiting for events of connections failed.
    pub fn follow_streams(&mut self, now: Time) -> io::Result<()> {
        self.reclaim_delegated(now);
        let Driver { inside, kernel, .. } = self;
        let followed =
            kernel.follow_streams(now, &mut |event| inside.take(now, Input::Stream(event)));
        self.carry_out(now);
        self.delegate(now);
        followed
    }

    /// Time by which [`Driver::follow_streams`] must be called even without events.
    pub fn next_stream_deadline(&self) -> Option<Time> {
        self.kernel.next_stream_deadline()
    }

    /// Handles the kernel's notifications about what it has done by itself.
    ///
    /// # Errors
    /// The socket failed.
    pub fn look(&mut self, now: Time) -> io::Result<()> {
        for _ in 0..BATCHES_PER_LOOK {
            if !self.kernel.has_copies() || self.receive(now)? == 0 {
                break;
            }
        }
        if self.kernel.next_look().is_some_and(|at| at <= now) {
            self.delegate(now);
        }
        Ok(())
    }

    /// Time by which [`Driver::look`] must be called.
    pub fn next_look(&self) -> Option<Time> {
        self.kernel.next_look()
    }

    /// Takes the samples of the links whose admission control measures, as far as they are due.
    pub fn sample_links(&mut self, now: Time) {
        for (interface, at) in self.samples() {
            if at > now {
                continue;
            }
            self.sampled.get_or_insert_default().insert(interface, now);
            if let Some(octets) = self.kernel.reserved_octets(interface) {
                self.handle(now, Input::Host(HostUpdate::Measured { interface, octets }));
            }
        }
    }

    /// Time by which [`Driver::sample_links`] must be called; `None` if no link is measured.
    pub fn next_sample(&self) -> Option<Time> {
        self.samples().into_iter().map(|(_, at)| at).min()
    }

    /// Links whose admission control measures, and when the next sample of each is due.
    fn samples(&self) -> Vec<(InterfaceId, Time)> {
        let Some(sampled) = &self.sampled else { return Vec::new() };
        let ledger = self.inside.node.ledger();
        let due = |interface| {
            let interval = ledger.admission(interface)?.sample_interval()?;
            let last = sampled.get(&interface);
            Some((interface, last.map_or(Time::ZERO, |last| *last + interval)))
        };
        ledger.links().filter_map(|(interface, _)| due(interface)).collect()
    }

    /// Brings counters, and the lifetimes of the sessions in these slots, up to date for a listing.
    pub fn catch_up(&mut self, now: Time, slots: &EngineSlots) {
        if let Err(error) = self.look(now) {
            warn!(%error, "cannot read what the kernel has done by itself");
        }
        let Driver { inside, kernel, .. } = self;
        let commands = kernel.catch_up(now, &inside.node, slots);
        self.reclaim_delegated(now);
        for command in commands {
            self.inside.take(now, Input::Command(command));
        }
        self.carry_out(now);
        self.delegate(now);
    }

    /// Serves the timers that are due, if any.
    pub fn expire(&mut self, now: Time) {
        if self.inside.node.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.handle(now, Input::Expire);
        }
    }

    /// Time by which [`Driver::expire`] must be called.
    pub fn next_deadline(&self) -> Option<Time> {
        self.inside.node.next_deadline()
    }

    /// Returns the events since the last call, oldest first.
    pub fn take_events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// Reports an event that does not come from the node.
    pub fn report(&mut self, event: Event) {
        self.inside.counters.events += 1;
        self.events.push(event);
    }

    /// Whether `address` is one of this host's.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.inside.node.interfaces().is_local(address)
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.inside.node
    }

    /// Rows of all configured links, including those that take no part.
    pub fn link_rows(&self) -> impl Iterator<Item = LinkRow> {
        self.inside.node.link_rows().chain(self.unused_links.values().cloned())
    }

    /// Sets or removes the row of a configured interface that takes no part.
    pub fn set_unused_link(&mut self, name: &str, row: Option<LinkRow>) {
        match row {
            Some(row) => self.unused_links.insert(name.to_owned(), row),
            None => self.unused_links.remove(name),
        };
    }

    /// Slots of reservations from a position on, with the counters of their queues. The kernel is queried only for the rows
    /// that are taken.
    pub fn reservation_slots<'a>(
        &'a mut self,
        now: Time,
        from: Position,
        filter: &'a RowFilter,
    ) -> impl Iterator<Item = (Position, Option<ReservationRow>)> {
        let Driver { inside, kernel, .. } = self;
        inside.node.reservation_slots(now, from, filter, |claim| QueueView {
            traffic: kernel.traffic(claim),
            enforcement: kernel.enforcement(claim),
            installed_at: kernel.installed_at(claim),
        })
    }

    /// Returns the kernel.
    pub fn kernel_ref(&self) -> &K {
        &self.kernel
    }

    /// Returns the kernel for changes.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Ends the driver and returns the kernel.
    pub fn into_kernel(self) -> K {
        self.kernel
    }

    /// Returns the counters.
    pub fn counters(&self) -> DriverCounters {
        self.inside.counters
    }

    /// Withdraws the bandwidth delegated to the kernel, except for what it has granted already. Called before every input.
    fn reclaim_delegated(&mut self, now: Time) {
        for (interface, rate) in self.kernel.take_back() {
            self.inside.note_delegation(now, interface, rate);
        }
    }

    /// Delegates free bandwidth to the kernel as far as it needs it. Called after every input.
    fn delegate(&mut self, now: Time) {
        let Driver { inside, kernel, .. } = self;
        // The kernel forwards messages by their own destinations, and the flows may take other paths.
        if inside.node.routes().flows_differ() {
            return;
        }
        for (interface, rate) in kernel.delegate(now, &|link| delegable(inside.node.ledger(), link))
        {
            inside.note_delegation(now, interface, rate);
        }
        if !self.inside.effects.is_empty() {
            self.carry_out(now);
        }
    }

    /// Joins the group of a session that an application opens, and leaves it when the application is released.
    fn follow_groups(&mut self, command: &Command) {
        let mut sessions = protocols::all().filter_map(|protocol| protocol.session_of(command));
        let Some((application, destination)) = sessions.next() else {
            return;
        };
        match destination {
            // An application has one session; the node refuses another one.
            Some(_) if self.groups.contains_key(&application) => {}
            Some(group) if group.is_multicast() => {
                self.kernel.join(group);
                self.groups.insert(application, group);
            }
            Some(_) => {}
            None => {
                if let Some(group) = self.groups.remove(&application) {
                    self.kernel.leave(group);
                }
            }
        }
    }

    /// Carries out the effects. A refusal is an input with effects of its own. Each refusal removes its reservation, so that the
    /// loop ends.
    fn carry_out(&mut self, now: Time) {
        while !self.inside.effects.is_empty() {
            let mut effects = mem::take(&mut self.inside.effects);
            self.inside.node.bundle(&mut effects);
            self.note_ends(&effects);
            let (mut refused, mut answers, mut rules) = (Vec::new(), Vec::new(), Vec::new());
            for effect in effects.iter() {
                if let Effect::Notify(event) = effect
                    && protocols::all().any(|protocol| protocol.is_instruction(event))
                {
                    answers.extend(self.kernel.offload(now, event));
                    continue;
                }
                if let Effect::Write(connection, range) = effect {
                    self.kernel.write(*connection, effects.octets(range));
                    continue;
                }
                if let Effect::Filter(change) = effect {
                    rules.push(*change);
                    continue;
                }
                if let Some((claim, failure)) = self.perform(now, effect) {
                    let (on, flow) = match effect {
                        Effect::Install(of) => (Some(of.interface), Some(&of.flow)),
                        Effect::AddFlow(_, flow) => (None, Some(flow)),
                        _ => (None, None),
                    };
                    failure.log("install a reservation", on, flow);
                    self.inside.counters.refused += 1;
                    refused.push(HostUpdate::TrafficControlRefused { claim, errno: failure.errno });
                }
            }
            if !rules.is_empty() {
                for (packets, failure) in self.kernel.filter(&rules) {
                    failure.log(&packets);
                    let errno = failure.errno;
                    refused.push(HostUpdate::Filter(FilterEvent::Refused { packets, errno }));
                }
            }
            mark(Checkpoint::TrafficControl);
            self.send_all(&effects);
            mark(Checkpoint::HandOut);
            self.kernel.flush();
            self.inside.effects = effects;
            self.inside.effects.clear();
            for update in refused {
                self.inside.take(now, Input::Host(update));
            }
            for command in answers {
                self.inside.take(now, Input::Command(command));
            }
        }
        self.kernel.tidy();
        if let Some(accounts) = &mut self.accounts {
            accounts.settle(now, &self.inside.node, &self.kernel);
        }
    }

    /// Sends all messages of the effects.
    fn send_all(&mut self, effects: &Effects<Event>) {
        let (mut all, mut failed) = (0, 0);
        let mut messages = effects.iter().filter_map(|effect| match effect {
            Effect::Send(how, range) => {
                all += 1;
                Some((how, effects.octets(range)))
            }
            _ => None,
        });
        self.kernel.send(&mut messages, &mut |how, failure| {
            failed += 1;
            debug!(destination = %how.destination, "not sent: {failure}");
        });
        self.inside.counters.sent += all - failed;
        self.inside.counters.send_failed += failed;
    }

    /// Carries out one effect other than sending, writing or filtering. Returns the claim that could not be installed, with the
    /// cause.
    fn perform(
        &mut self,
        now: Time,
        effect: &Effect<Event>,
    ) -> Option<(ClaimId, TrafficControlFailure)> {
        let counters = &mut self.inside.counters;
        match effect {
            Effect::Send(..) | Effect::Write(..) | Effect::Filter(_) => None,
            Effect::Connect(connect) => {
                self.kernel.connect(now, connect);
                None
            }
            Effect::Close(connection) => {
                self.kernel.close(now, *connection);
                None
            }
            Effect::Install(installation) => {
                let owner = self.inside.node.ledger().owner(installation.claim);
                let protocol = owner.map(|owner| owner.protocol);
                let done = self.kernel.install(now, protocol, installation);
                counters.installed += u64::from(done.is_ok());
                if let (Ok(()), Some(accounts)) = (&done, &mut self.accounts) {
                    accounts.installed(installation);
                }
                // A reservation adopted for the flow has no requester any more, and its bandwidth is free.
                if let (Err(_), Installation { interface, flow, .. }) = (&done, *installation)
                    && let Err(failure) = self.kernel.drop_adopted(interface, flow, protocol)
                {
                    failure.log("remove an adopted reservation", Some(interface), Some(&flow));
                }
                done.err().map(|failure| (installation.claim, failure))
            }
            Effect::AddFlow(claim, flow) => {
                counters.flow_changes += 1;
                if let Some(accounts) = &mut self.accounts {
                    accounts.flows_changed(*claim);
                }
                self.kernel.add_flow(*claim, *flow).err().map(|failure| (*claim, failure))
            }
            // What cannot be removed has no owner in the next reconciliation, which removes it.
            Effect::RemoveFlow(claim, flow) => {
                counters.flow_changes += 1;
                if let Some(accounts) = &mut self.accounts {
                    accounts.flows_changed(*claim);
                }
                if let Err(failure) = self.kernel.remove_flow(*claim, *flow) {
                    failure.log("remove a flow", None, Some(flow));
                }
                None
            }
            Effect::Remove(claim, _) => {
                counters.removed += 1;
                if let Some(accounts) = &mut self.accounts {
                    accounts.removed(*claim);
                }
                if let Err(failure) = self.kernel.remove(*claim) {
                    failure.log("remove a reservation", None, None);
                }
                None
            }
            Effect::Notify(event) => {
                counters.events += 1;
                if let Event::NotAdopted { interface, flow, .. } = event {
                    self.note_not_adopted([(*interface, *flow)].into_iter());
                    if let Err(failure) = self.kernel.drop_adopted(*interface, *flow, None) {
                        failure.log("remove an adopted reservation", Some(*interface), Some(flow));
                    }
                }
                self.events.push(event.clone());
                None
            }
        }
    }
}

/// Whether packets may leave by another interface after this update, or not at all.
fn may_move_packets(update: &HostUpdate) -> bool {
    matches!(
        update,
        HostUpdate::Interface(_)
            | HostUpdate::InterfaceGone(_)
            | HostUpdate::QueuesTaken(_)
            | HostUpdate::Route(_)
            | HostUpdate::RouteGone(_)
            | HostUpdate::NextHops { .. }
            | HostUpdate::PolicyRules { .. }
            | HostUpdate::FlowRoutes(_)
    )
}

/// Returns the status of a link whose bandwidth the kernel may grant by itself. It knows neither a limit of one reservation
/// nor the overhead of a link.
fn delegable(ledger: &Ledger, link: InterfaceId) -> Option<LinkStatus> {
    ledger.link(link).filter(|_| ledger.largest(link).is_none() && ledger.overhead(link) == 0)
}

#[cfg(test)]
mod tests {
    use earmark_core::Rate;
    use earmark_core::admission::LinkCapacity;

    use super::*;

    #[test]
    fn link_with_a_limit_of_one_reservation_or_an_overhead_is_not_delegated() {
        let (mut ledger, link) = (Ledger::new(), InterfaceId(1));
        let (bandwidth, reservable) = (Rate::from_mbps(10), Rate::from_mbps(7));
        ledger.set_link(link, LinkCapacity { bandwidth, reservable, mtu: 1_500 });
        assert_eq!(delegable(&ledger, link), ledger.link(link));
        ledger.set_largest(link, Some(Rate::from_mbps(2)));
        assert_eq!(delegable(&ledger, link), None);
        ledger.set_largest(link, None);
        ledger.set_overhead(link, 24);
        assert_eq!(delegable(&ledger, link), None);
    }
}
