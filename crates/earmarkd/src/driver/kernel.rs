//! The system that the driver needs, as a trait, so that everything above it runs in tests without privileges.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use earmark_core::admission::{ClaimId, LinkStatus, Protocol};
use earmark_core::{
    Connect, ConnectionId, Datagram, FilterChange, FilteredPackets, Flow, Installation,
    InterfaceId, Outgoing, Rate, StreamEvent, Time,
};
use earmark_history::Counts;
use earmark_linux::{FlowClaim, FlowOnLink, FlowPath, InterfaceName, PathQuestion};
use earmark_node::{Command, EnforcementRow, EngineSlots, Event, Node, TrafficRow};
use tracing::warn;

use crate::describe::flow_text;
use crate::log::kind;

/// Operations of the system that effects need.
pub trait Kernel {
    /// Receives one batch of messages and passes each to `each`. Returns their number.
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize>;
    /// Carries out an instruction of an engine about offload. Returns the answer to a query. Never called if the engine's
    /// settings disable offload.
    fn offload(&mut self, _now: Time, _event: &Event) -> Option<Command> {
        None
    }
    /// Stops refreshes and set-ups by the kernel until the engine allows them again.
    fn suspend_refreshes(&mut self) {}
    /// Withdraws the bandwidth delegated to the kernel for setting up sessions. Returns, for each link, the rate that the kernel
    /// may have granted already.
    fn take_back(&mut self) -> Vec<(InterfaceId, Rate)> {
        Vec::new()
    }
    /// Delegates free bandwidth of links to the kernel. Returns the delegated rate of each link.
    fn delegate(
        &mut self,
        _now: Time,
        _link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        Vec::new()
    }
    /// Time by which the kernel's notifications must be read; `None` if no bandwidth is delegated.
    fn next_look(&self) -> Option<Time> {
        None
    }
    /// Whether the kernel has notifications about what it has done.
    fn has_copies(&self) -> bool {
        false
    }
    /// Commands that bring the counters of the engine with offload, and the lifetimes of the sessions in these slots, up to
    /// date.
    fn catch_up(&mut self, _now: Time, _node: &Node, _slots: &EngineSlots) -> Vec<Command> {
        Vec::new()
    }
    /// Sends messages in their order; `failed` is called for each one that the kernel fails to send.
    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        failed: &mut dyn FnMut(&Outgoing, SendFailure),
    );
    /// Starts a connection. [`Kernel::follow_streams`] reports the outcome.
    fn connect(&mut self, _now: Time, _connect: &Connect) {}
    /// Queues octets for a connection until [`Kernel::flush`] is called.
    fn write(&mut self, _connection: ConnectionId, _octets: &[u8]) {}
    /// Closes a connection after sending its queued octets.
    fn close(&mut self, _now: Time, _connection: ConnectionId) {}
    /// Sends the octets queued for connections.
    fn flush(&mut self) {}
    /// Passes events of connections to `each`, a bounded number of them.
    fn follow_streams(
        &mut self,
        _now: Time,
        _each: &mut dyn FnMut(StreamEvent<'_>),
    ) -> io::Result<()> {
        Ok(())
    }
    /// Time by which [`Kernel::follow_streams`] must be called even without events.
    fn next_stream_deadline(&self) -> Option<Time> {
        None
    }
    /// Installs a reservation of a protocol in traffic control, or changes it.
    fn install(
        &mut self,
        now: Time,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TrafficControlFailure>;
    /// Adds a flow to a reservation.
    fn add_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure>;
    /// Removes a flow from a reservation.
    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) -> Result<(), TrafficControlFailure>;
    /// Removes an adopted reservation that the node cannot keep; with a protocol, only one of this protocol or of an unknown
    /// one.
    fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure>;
    /// Removes a reservation.
    fn remove(&mut self, claim: ClaimId) -> Result<(), TrafficControlFailure>;
    /// Changes the packet filter, in the order of the changes. Returns the rules that it has refused, with the cause.
    fn filter(&mut self, changes: &[FilterChange]) -> Vec<(FilteredPackets, FilterFailure)> {
        FilterFailure::of_all(changes).collect()
    }
    /// Completes the work that [`Kernel::remove`] has deferred until the resulting messages are sent.
    fn tidy(&mut self) {}
    /// Counters of the queue of a reservation; `None` if it has no queue.
    fn traffic(&mut self, claim: ClaimId) -> Option<TrafficRow>;
    /// What the queue of a reservation has counted since the kernel created it; `None` if it has no queue.
    fn counted(&mut self, _claim: ClaimId) -> Option<Counts> {
        None
    }
    /// What the queue of a reservation had counted when it was installed. Asks nobody.
    fn counted_before(&self, _claim: ClaimId) -> Counts {
        Counts::default()
    }
    /// What the queue of an adopted flow has counted; `None` if it is unknown, or a claim has continued the flow.
    fn adopted_counted(&mut self, _interface: InterfaceId, _flow: Flow) -> Option<Counts> {
        None
    }
    /// Link and flow that a reservation was installed with; `None` if it has no queue.
    fn installed_flow(&self, _claim: ClaimId) -> Option<(InterfaceId, Flow)> {
        None
    }
    /// Count of IP octets that the reservations of a link have sent; `None` if it is unknown.
    fn reserved_octets(&mut self, _interface: InterfaceId) -> Option<u64> {
        None
    }
    /// When a reservation was installed on its link; `None` if it was not, or the time is unknown.
    fn installed_at(&self, _claim: ClaimId) -> Option<Time> {
        None
    }
    /// Whether the packets of a reservation get it; `None` if it has no queue.
    fn enforcement(&self, _claim: ClaimId) -> Option<EnforcementRow> {
        None
    }
    /// Looks up the path of a flow without changing any state.
    ///
    /// # Errors
    /// The system cannot answer.
    fn flow_path(&mut self, _asked: &PathQuestion) -> Result<FlowPath, LookupFailure> {
        Err(LookupFailure("this system cannot be asked for the route of a flow".to_owned()))
    }
    /// Looks up the service of a flow on a link, with at most `limit` of the claims that its packets match.
    ///
    /// # Errors
    /// The system cannot answer.
    fn flow_on_link(
        &mut self,
        _interface: InterfaceId,
        _packets: &Flow,
        _limit: usize,
    ) -> Result<LinkView, LookupFailure> {
        Ok(LinkView::TakesNoPart)
    }
    /// Claims on other links that packets of a flow would match there, each with its link, at most as many as requested.
    fn claims_elsewhere(
        &self,
        _interface: Option<InterfaceId>,
        _packets: &Flow,
        _limit: usize,
    ) -> Vec<(InterfaceId, FlowClaim)> {
        Vec::new()
    }
    /// Joins a group on all interfaces that take part, until [`Kernel::leave`] has been called as often.
    fn join(&mut self, group: IpAddr);
    /// Undoes one [`Kernel::join`].
    fn leave(&mut self, group: IpAddr);
    /// Whether messages can be sent for sessions with this destination.
    fn can_signal(&self, destination: IpAddr) -> bool;
    /// Counters of the system: part, name, count.
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)>;
    /// Messages that were dropped because too many of their port waited, by interface.
    fn shed(&self) -> BTreeMap<InterfaceId, u64> {
        BTreeMap::new()
    }
}

/// A message or notification from the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival<'a> {
    /// A message, with its IP protocol.
    Message(u8, Datagram<'a>),
    /// A notification about a message that the kernel has handled.
    Settled(Command),
}

/// Why a message was not sent. The failure is only counted, because soft state recovers by the next refresh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SendFailure(pub String);

/// Why an operation of traffic control failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct TrafficControlFailure {
    /// The system's error number.
    pub errno: u16,
    /// The error in words.
    pub text: String,
}

impl TrafficControlFailure {
    /// Logs what traffic control could not do, on which interface and for which flow.
    pub(super) fn log(&self, doing: &str, interface: Option<InterfaceId>, flow: Option<&Flow>) {
        warn!(
            kind = kind::TRAFFIC_CONTROL_REFUSED.name,
            interface = interface.map(|id| tracing::field::display(InterfaceName(id))),
            flow = flow.map(flow_text),
            errno = self.errno,
            "traffic control could not {doing}: {self}"
        );
    }
}

/// Why the packet filter has refused a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FilterFailure {
    /// The system's error number.
    pub errno: u16,
    /// The error in words.
    pub text: String,
}

impl FilterFailure {
    /// Logs that the packet filter has refused a rule for these packets.
    pub(super) fn log(&self, packets: &FilteredPackets) {
        warn!(
            target: "earmark::packet-filter",
            kind = kind::PACKET_FILTER_REFUSED.name,
            ?packets,
            errno = self.errno,
            "the packet filter refused: {self}"
        );
    }

    /// Returns the failures of all rules on a system without packet filter.
    pub fn of_all(
        changes: &[FilterChange],
    ) -> impl Iterator<Item = (FilteredPackets, FilterFailure)> + '_ {
        changes.iter().filter_map(|change| match change {
            FilterChange::Install(rule, _) => Some((rule.packets, FilterFailure::unsupported())),
            FilterChange::Remove(_) => None,
        })
    }

    /// Creates the failure of a system without packet filter.
    pub fn unsupported() -> FilterFailure {
        FilterFailure {
            errno: libc::EOPNOTSUPP as u16,
            text: "this system has no packet filter that can be changed".to_owned(),
        }
    }
}

/// Why the system could not look up a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupFailure(pub String);

/// Service of a flow on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkView {
    /// The daemon manages the link's queues.
    Planned(FlowOnLink),
    /// The link takes part, but its queues are left alone: reservations are only accounted for.
    LeftAlone,
    /// The link takes no part, so that nothing is reserved there.
    TakesNoPart,
}
