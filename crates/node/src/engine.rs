//! Contract of a protocol engine as a part of a node.
//!
//! A node is composed of engines. It asks each of them which IP packets are its own, when its next deadline is, and what
//! it lists, and knows no protocol beyond that.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Demand, Ledger, Owner, Protocol};
use earmark_core::listing::{
    AggregateRow, AssociationRow, NeighborRow, PinholeRow, ReservationRow, RoutingStateRow,
    SessionRow, TranslationRow, UserRow,
};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effects, Engine, Input, Interface, InterfaceId, Interfaces, RowFilter, Time,
};
use earmark_token::User;

use crate::edge::Edge;
use crate::interception::{Arrival, Interception};
use crate::protocols::{Command, Event, NodeConfig};

/// Rows of a listing.
pub type Rows<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

/// Slots of a listing in ascending order, each with a row, and again for each further row; `None` for a slot without one, so
/// that the caller can stop anywhere. State stays in its slot as long as it exists.
pub type Slots<'a, T> = Box<dyn Iterator<Item = (u32, Option<T>)> + 'a>;

/// A counter: part of the node, group, name, count.
pub type Counter = (&'static str, &'static str, &'static str, u64);

/// A number of soft states: part of the node, kind of state in the plural, number.
pub type StateCount = (&'static str, &'static str, usize);

/// A protocol engine in a node.
///
/// The contract of [`earmark_core::Engine`] applies: an engine does no I/O and no unbounded work, all effects of an
/// input are in `out` when a method returns, and `now` never goes back.
pub trait NodeEngine: ProcessInput + fmt::Debug {
    /// Returns the kind of the engine.
    fn kind(&self) -> &'static EngineKind;

    /// Returns the numbers of the IP protocols whose packets may be messages of this engine.
    fn ip_protocols(&self) -> &'static [u8];

    /// Returns whether a packet of one of these IP protocols is a message of this engine.
    fn accepts(&self, _datagram: &Datagram<'_>) -> bool {
        true
    }

    /// Returns what the host does with a packet of one of these IP protocols. By default messages for the host are taken,
    /// and on a router those in transit with router alert.
    fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        match arrival.here || arrival.is_alert_in_transit() {
            true => Interception::Taken,
            false => Interception::Left,
        }
    }

    /// Returns whether this engine has connections. The first engine that has them gets the events of all.
    fn has_streams(&self) -> bool {
        false
    }

    /// Returns whether the node calls [`NodeEngine::follow_up`].
    fn has_follow_up(&self) -> bool {
        false
    }

    /// Reacts to the effects of an input of the node, of all engines and from effect `from` on; returns whether
    /// anything was done.
    fn follow_up(
        &mut self,
        _now: Time,
        _from: usize,
        _context: &mut Context<'_>,
        _out: &mut Effects<Event>,
    ) -> bool {
        false
    }

    /// Creates the edge of the node towards cores, if the settings want one and the engine supports it.
    fn edge(&self, _config: &NodeConfig) -> Option<Box<dyn Edge>> {
        None
    }

    /// Combines messages to one neighbour, as a last step before the driver carries out the effects.
    fn bundle(&mut self, _interfaces: &Interfaces, _out: &mut Effects<Event>) {}

    /// Notes an added or changed interface, before an [`Input::Host`] reports it.
    fn set_interface(&mut self, _interface: &Interface) {}

    /// Notes a removed interface.
    fn remove_interface(&mut self, _interface: InterfaceId) {}

    /// Lists the senders of sessions from a slot on, as far as the filter includes them.
    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow>;

    /// Lists the reservations from a slot on, as far as the filter includes them, each with its claim; those of receivers on
    /// this host have none.
    fn reservations<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, (Option<ClaimId>, ReservationRow)>;

    /// Returns the reservation of a claim of this engine, without a walk over all. Of several reservations that share
    /// the claim, the first. `None` if the claim has ended.
    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow>;

    /// Returns why packets of a reservation of another engine leave this node otherwise than the reservation says, if this
    /// engine changes them.
    fn obstacle(&self, _row: &ReservationRow, _view: NodeView<'_>) -> Option<String> {
        None
    }

    /// Lists the neighbours.
    fn neighbors<'a>(&'a self, _view: NodeView<'a>) -> Rows<'a, NeighborRow> {
        Box::new(core::iter::empty())
    }

    /// Lists the aggregates that begin at this node.
    fn aggregates<'a>(&'a self, _view: NodeView<'a>) -> Rows<'a, AggregateRow> {
        Box::new(core::iter::empty())
    }

    /// Lists the associations with neighbours, the connections over which messages of several sessions pass.
    fn associations<'a>(&'a self, _view: NodeView<'a>) -> Rows<'a, AssociationRow> {
        Box::new(core::iter::empty())
    }

    /// Lists the routing state from a slot on: for each session and direction, the neighbour that it leads to.
    fn routing_states<'a>(
        &'a self,
        _from: u32,
        _filter: &'a RowFilter,
        _view: NodeView<'a>,
    ) -> Slots<'a, RoutingStateRow> {
        Box::new(core::iter::empty())
    }

    /// Lists the rules of sessions for the packet filter from a slot on, installed or remembered.
    fn pinholes<'a>(&'a self, _from: u32, _view: NodeView<'a>) -> Slots<'a, PinholeRow> {
        Box::new(core::iter::empty())
    }

    /// Lists the addresses and ports that sessions have reserved for data from outside, from a slot on.
    fn translations<'a>(&'a self, _from: u32, _view: NodeView<'a>) -> Slots<'a, TranslationRow> {
        Box::new(core::iter::empty())
    }

    /// Lists all counters, zeros included.
    fn counters(&self) -> Rows<'_, Counter>;

    /// Lists the octets of the engine's tables on the heap by part of the node, unused places included. O(1).
    fn table_octets(&self) -> Rows<'_, (&'static str, usize)> {
        Box::new(core::iter::empty())
    }

    /// Lists the claims that the engine holds, for checks against the ledger. A shared claim may be listed several
    /// times.
    fn claims(&self) -> Rows<'_, HeldClaim>;

    /// Lists the kinds of soft state and their numbers, which are all zero once every session has ended.
    fn state_counts(&self) -> Rows<'_, StateCount>;
}

/// Processes the inputs of a node that concern one engine.
pub trait ProcessInput {
    /// Processes an input. The [`Command::protocol`] of a command is the name of this engine.
    fn process(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    );

    /// Returns when [`Input::Expire`] is due next. O(1). `None` if no deadline is set.
    fn next_deadline(&self) -> Option<Time>;

    /// Returns the engine itself, for callers that know its type.
    fn engine(&self) -> &dyn Any;

    /// Returns the engine itself, for callers that know its type and change it.
    fn engine_mut(&mut self) -> &mut dyn Any;
}

/// An engine of the contract [`Engine`], which selects its own commands among those of a node. It thereby processes the
/// inputs of a node.
pub trait OwnCommands: Engine {
    /// Returns the engine's own command; `None` for one of another engine.
    fn own_command(command: Command, context: &mut Context<'_>) -> Option<Self::Command>;
}

impl<T: OwnCommands + 'static> ProcessInput for T
where
    Event: From<T::Event>,
{
    fn process(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let own = input.filter_map_command(|command| T::own_command(command, context));
        if let Some(input) = own {
            self.handle(now, input, context, out);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Engine::next_deadline(self).map(|(at, _)| at)
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn engine_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Kind of engine that a node can be composed of.
#[derive(Clone, Copy, Debug)]
pub struct EngineKind {
    /// Name of the protocol in listings, settings and commands: lower case, one word.
    pub name: &'static str,
    /// Number of the engine's claims in the ledger.
    pub protocol: Protocol,
    /// IP protocol that is the engine's alone; `None` for messages inside UDP or ICMP.
    pub ip_protocol: Option<u8>,
    /// Creates an engine from the settings of its node and the random streams.
    pub create: fn(&NodeConfig, &RandomStreams) -> Box<dyn NodeEngine>,
}

/// The engines that a node is composed of, in the order in which they process changes of the host; by default those of
/// this project. Of several engines for an IP protocol, the last one is asked first whether it accepts a packet.
#[derive(Clone, Debug)]
pub struct Engines {
    /// Whether the engines of this project take part.
    pub(crate) own: bool,
    /// Engines that a program adds.
    pub(crate) added: Vec<EngineKind>,
}

impl Engines {
    /// No engines: a node that only forwards.
    pub const fn none() -> Engines {
        Engines { own: false, added: Vec::new() }
    }
}

impl Default for Engines {
    fn default() -> Engines {
        Engines { own: true, added: Vec::new() }
    }
}

/// Engines are equal if they have the same names and numbers.
impl PartialEq for Engines {
    fn eq(&self, other: &Engines) -> bool {
        let key = |kind: &EngineKind| (kind.name, kind.protocol);
        self.own == other.own && self.added.iter().map(key).eq(other.added.iter().map(key))
    }
}

/// A claim that an engine holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// The claim.
    pub claim: ClaimId,
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Whether the packets do not get the bandwidth yet, because the initiator has not confirmed.
    pub locked: bool,
}

/// The node as its engines see it for listings.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Time of the listing.
    pub now: Time,
    pub(crate) interfaces: &'a Interfaces,
    pub(crate) removed: &'a VecDeque<(InterfaceId, String)>,
    pub(crate) ledger: &'a Ledger,
}

impl NodeView<'_> {
    /// Returns the name of an interface, or of the interface of a lane; the last name of a removed one, or its index if
    /// the name is no longer kept.
    pub fn interface_name(&self, id: InterfaceId) -> String {
        let id = self.ledger.link_of_lane(id).unwrap_or(id);
        if let Some(interface) = self.interfaces.by_id(id) {
            return interface.name.clone();
        }
        let removed = self.removed.iter().rev().find(|(removed, _)| *removed == id);
        removed.map_or_else(|| id.0.to_string(), |(_, name)| name.clone())
    }

    /// Returns whether a filter includes rows of these interfaces, as far as the link decides.
    pub fn admits_link(
        &self,
        filter: &RowFilter,
        interfaces: impl IntoIterator<Item = InterfaceId>,
    ) -> bool {
        let link_of = |id| self.ledger.link_of_lane(id).unwrap_or(id);
        filter.link.is_none_or(|link| interfaces.into_iter().any(|id| link_of(id) == link))
    }

    /// Returns whether an address is one of this node's.
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.interfaces.is_local(address)
    }

    /// Returns the demand of a claim.
    pub fn demand(&self, claim: ClaimId) -> Option<Demand> {
        self.ledger.demand(claim)
    }

    /// Returns the seconds from now to `at`; `None` if that is never.
    pub fn seconds_until(&self, at: Time) -> Option<f64> {
        (at < Time::MAX).then(|| (at - self.now).as_secs_f64())
    }
}

/// Returns the user of a row.
pub(crate) fn user_row(user: &User) -> UserRow {
    UserRow { name: user.name.clone(), proof: user.proof().into() }
}

/// Returns a slot of a listing with its rows, or once without one.
pub(crate) fn rows_of_slot<T>(
    slot: u32,
    rows: impl Iterator<Item = T>,
) -> impl Iterator<Item = (u32, Option<T>)> {
    let mut rows = rows.peekable();
    let vacant = rows.peek().is_none().then_some((slot, None));
    vacant.into_iter().chain(rows.map(move |row| (slot, Some(row))))
}
