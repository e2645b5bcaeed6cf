//! The edge of a core, as the node sees it: a part of the node that receives some messages before the engines, and reads
//! the effects of every input after them.
//!
//! Flows of one protocol cross the core in one aggregate for each range of destinations. An engine that supports this
//! creates the edge ([`crate::NodeEngine::edge`]); its actions are carried out by the node.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::net::IpAddr;

use earmark_core::admission::{Ledger, Protocol};
use earmark_core::listing::AggregateRow;
use earmark_core::{Datagram, Effects, InterfaceId, Prefix, Rate, Time};

use crate::change::AggregateChange;
use crate::interception::{Arrival, Interception};
use crate::protocols::{Command, Event};

/// The edge of a node towards cores.
pub trait Edge: fmt::Debug {
    /// Returns whether messages of an IP protocol pass the edge before an engine receives them.
    fn examines(&self, ip_protocol: u8) -> bool;

    /// Returns what the host does with a packet for the sake of the edge, which no engine takes.
    fn interception(&self, arrival: &Arrival<'_>) -> Interception;

    /// Examines a message. Returns it with its IP protocol in the form for the engine; `None` if it waits or is dropped.
    /// `engine` is the engine that has created the edge, as [`crate::NodeEngine::engine`] returns it.
    fn receive<'a>(
        &mut self,
        now: Time,
        ip_protocol: u8,
        datagram: Datagram<'a>,
        engine: &dyn Any,
        ledger: &Ledger,
    ) -> Option<(u8, Datagram<'a>)>;

    /// Opens the aggregates of an interface whose link is in the ledger.
    fn add_interface(&mut self, name: &str, id: InterfaceId, ledger: &mut Ledger);

    /// Marks that an interface no longer takes part. Its aggregates wait until the interface returns.
    fn remove_interface(&mut self, id: InterfaceId);

    /// Returns the lanes of the aggregates behind an interface.
    fn lanes_behind(&self, id: InterfaceId) -> Vec<InterfaceId>;

    /// Iterates over the aggregates.
    fn aggregate_rows<'a>(
        &'a self,
        ledger: &'a Ledger,
    ) -> Box<dyn Iterator<Item = AggregateRow> + 'a>;

    /// Returns when [`Edge::actions`] has actions without any effect before. `None` if no deadline is set.
    fn next_deadline(&self) -> Option<Time>;

    /// Reads the effects from `from` on, removes those that are internal to the edge, and returns the actions that
    /// follow.
    fn actions(
        &mut self,
        now: Time,
        from: usize,
        ledger: &mut Ledger,
        out: &mut Effects<Event>,
    ) -> Vec<EdgeAction>;

    /// Removes the effects that are internal to the edge, from `from` on, without consequences.
    fn filter_effects(&mut self, from: usize, out: &mut Effects<Event>);
}

/// An action of the edge, carried out by the node.
#[derive(Debug)]
pub enum EdgeAction {
    /// Carry out a command of the edge.
    Command(Command),
    /// Set the rate of a lane.
    SetRate(InterfaceId, Rate),
    /// Pass a message of an IP protocol to its engine.
    Deliver(u8, StoredDatagram),
    /// Report a change of an aggregate.
    Notify(AggregateNotice),
    /// End the reservations on a lane, and open it again.
    Reopen(Lane),
}

/// A lane of an aggregate; see [`Ledger::open_lane`].
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Interface of the link.
    pub interface: InterfaceId,
    /// Destinations of its flows.
    pub range: Prefix,
    /// Protocol of its flows.
    pub protocol: Protocol,
    /// Number of the lane, which no interface has.
    pub lane: InterfaceId,
    /// Highest rate.
    pub highest: Rate,
    /// Whether its claims count with the overhead of the interface.
    pub has_overhead: bool,
}

impl Lane {
    /// Opens the lane.
    pub fn open(&self, ledger: &mut Ledger) {
        ledger.open_lane(self.interface, self.range, self.protocol, self.lane, self.highest);
        self.set_overhead(ledger);
    }

    /// Sets the overhead of the open lane to that of its interface.
    pub fn set_overhead(&self, ledger: &mut Ledger) {
        let overhead = if self.has_overhead { ledger.overhead(self.interface) } else { 0 };
        ledger.set_overhead(self.lane, overhead);
    }
}

/// Change of an aggregate, for an event.
#[derive(Clone, Copy, Debug)]
pub struct AggregateNotice {
    /// Kind of change.
    pub change: AggregateChange,
    /// Far edge.
    pub to: IpAddr,
    /// Destinations behind the far edge.
    pub range: Prefix,
    /// Rate that the core has granted.
    pub granted: Rate,
    /// Lane of the aggregate.
    pub lane: InterfaceId,
}

impl AggregateNotice {
    /// Returns the event, with the present demand of the flows.
    pub fn event(self, ledger: &Ledger) -> Event {
        let AggregateNotice { change, to, range, granted, lane } = self;
        let need = ledger.link(lane).map_or(Rate::ZERO, |status| status.held);
        Event::Aggregate { change, to, range, granted, need }
    }
}

/// A message that is kept.
#[derive(Clone, Debug)]
pub struct StoredDatagram {
    /// The message without its octets.
    header: Datagram<'static>,
    payload: Vec<u8>,
}

impl StoredDatagram {
    /// Copies a message.
    pub fn new(datagram: &Datagram<'_>) -> StoredDatagram {
        let Datagram { interface, source, destination, ttl, router_alert, encapsulated, payload } =
            *datagram;
        let header = Datagram {
            interface,
            source,
            destination,
            ttl,
            router_alert,
            encapsulated,
            payload: &[],
        };
        StoredDatagram { header, payload: payload.to_vec() }
    }

    /// Returns the message.
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram { payload: &self.payload, ..self.header }
    }

    /// Returns the source address of the message.
    pub fn source(&self) -> IpAddr {
        self.header.source
    }
}

/// Events of an aggregate's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoreEvent {
    /// The core has granted a rate.
    Granted(Rate),
    /// The core refuses a rate.
    Refused,
    /// The core offers less than it was asked for.
    Offered,
    /// The core has withdrawn the reservation, or is silent.
    Lost,
    /// The reservation was released.
    Released,
    /// The request is invalid.
    Rejected,
}
