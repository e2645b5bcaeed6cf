//! Listings of a node.

use core::ops::Range;

use earmark_core::admission::ClaimId;
use earmark_core::listing::{
    AdmissionRow, AggregateRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow,
    PinholeRow, ReservationRow, RoutingStateRow, SessionRow, TrafficRow, TranslationRow,
};
use earmark_core::{Rate, RowFilter, Time};

use crate::engine::{Counter, NodeEngine, NodeView, Slots};
use crate::node::Node;

/// Position in a listing of state that has slots: sessions, reservations and routing state. State that exists throughout a
/// listing is passed once, whatever begins and ends meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Engine, by its place in [`Node::engines`].
    pub engine: usize,
    /// Slot of the engine's table.
    pub slot: u64,
}

impl Position {
    /// Start of a listing.
    pub const START: Position = Position { engine: 0, slot: 0 };
}

/// Slots of the table of an engine, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSlots {
    /// Name of the engine.
    pub engine: &'static str,
    /// The slots.
    pub slots: Range<u64>,
}

/// Traffic control's view of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Counters of its queue.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement.
    pub enforcement: Option<EnforcementRow>,
    /// When this daemon has installed it.
    pub installed_at: Option<Time>,
}

impl Node {
    /// Returns the node as its engines see it for listings.
    pub fn view(&self, now: Time) -> NodeView<'_> {
        NodeView {
            now,
            interfaces: &self.interfaces,
            removed: &self.removed_interfaces,
            ledger: &self.ledger,
        }
    }

    /// Iterates over the senders of all sessions, protocol by protocol.
    pub fn session_rows(&self, now: Time) -> impl Iterator<Item = SessionRow> {
        let slots = self.session_slots(now, Position::START, &RowFilter::ALL);
        slots.filter_map(|(_, row)| row)
    }

    /// Iterates over the slots of the senders of sessions from a position on, protocol by protocol.
    pub fn session_slots<'a>(
        &'a self,
        now: Time,
        from: Position,
        filter: &'a RowFilter,
    ) -> impl Iterator<Item = (Position, Option<SessionRow>)> {
        self.slots(from, filter, move |engine, slot| engine.sessions(slot, filter, self.view(now)))
    }

    /// Iterates over the reservations, including those of receivers on this host, protocol by protocol. `queue` returns
    /// the driver's view of a queue, and is called only for rows that are used.
    pub fn reservation_rows(
        &self,
        now: Time,
        queue: impl FnMut(ClaimId) -> QueueView,
    ) -> impl Iterator<Item = ReservationRow> {
        let slots = self.reservation_slots(now, Position::START, &RowFilter::ALL, queue);
        slots.filter_map(|(_, row)| row)
    }

    /// Iterates over the slots of the reservations from a position on, protocol by protocol. `queue` returns the driver's
    /// view of a queue, and is called only for rows that are used.
    pub fn reservation_slots<'a>(
        &'a self,
        now: Time,
        from: Position,
        filter: &'a RowFilter,
        mut queue: impl FnMut(ClaimId) -> QueueView,
    ) -> impl Iterator<Item = (Position, Option<ReservationRow>)> {
        let slots = self.slots(from, filter, move |engine, slot| {
            engine.reservations(slot, filter, self.view(now))
        });
        slots.map(move |(position, found)| {
            let row = found.map(|(claim, row)| {
                let QueueView { traffic, enforcement, installed_at } =
                    claim.map(&mut queue).unwrap_or_default();
                let age_s = installed_at.map(|at| (now - at).as_secs_f64());
                self.with_obstacle(ReservationRow { age_s, traffic, enforcement, ..row }, now)
            });
            (position, row)
        })
    }

    /// Iterates over the slots that engines list from a position on.
    fn slots<'a, T: 'a>(
        &'a self,
        from: Position,
        filter: &'a RowFilter,
        list: impl Fn(&'a dyn NodeEngine, u32) -> Slots<'a, T> + 'a,
    ) -> impl Iterator<Item = (Position, Option<T>)> {
        let engines = self.engines().enumerate().skip(from.engine);
        let included = engines
            .filter(|(_, it)| filter.protocol.is_none_or(|protocol| it.kind().name == protocol));
        included.flat_map(move |(engine, it)| {
            let first = if engine == from.engine { from.slot } else { 0 };
            let slots = list(it, u32::try_from(first).unwrap_or(u32::MAX));
            slots.map(move |(slot, row)| (Position { engine, slot: slot.into() }, row))
        })
    }

    /// Returns the row of a reservation as unenforced if an engine changes its packets, although traffic control has it.
    pub fn with_obstacle(&self, row: ReservationRow, now: Time) -> ReservationRow {
        let is_enforced = row.enforcement.as_ref().is_some_and(|found| found.state == "enforced");
        let obstacle = || self.engines().find_map(|it| it.obstacle(&row, self.view(now)));
        let Some(reason) = is_enforced.then(obstacle).flatten() else { return row };
        let enforcement = row.enforcement.clone().map(|found| EnforcementRow {
            state: "unenforced".into(),
            reason: Some(reason),
            ..found
        });
        ReservationRow { enforcement, ..row }
    }

    /// Returns the reservation that a claim belongs to, as [`Node::reservation_rows`] shows it but without its queue,
    /// without a walk over all. `None` if the claim has ended.
    pub fn reservation_of(&self, claim: ClaimId, now: Time) -> Option<ReservationRow> {
        let owner = self.ledger.owner(claim)?;
        let mut engines = self.engines();
        let engine = engines.find(|engine| engine.kind().protocol == owner.protocol)?;
        engine.reservation_of(claim, owner, self.view(now))
    }

    /// Iterates over the links that take part.
    pub fn link_rows(&self) -> impl Iterator<Item = LinkRow> {
        self.interfaces.iter().filter(|interface| interface.takes_part()).map(|interface| {
            let status = self.ledger.link(interface.id);
            LinkRow {
                interface: interface.name.clone(),
                index: interface.id.0,
                up: interface.up,
                state: if interface.up { LinkState::Up } else { LinkState::Down },
                addresses: interface.addresses.clone(),
                bandwidth_bps: interface.bandwidth,
                reservable_bps: interface.reservable,
                held_bps: status.map_or(Rate::ZERO, |status| status.held),
                claims: status.map_or(0, |status| status.claims),
                adopted: status.map_or(0, |status| status.adopted),
                admission: self.ledger.admission(interface.id).map(|control| AdmissionRow {
                    method: control.name().into(),
                    measured_bps: control.measured_load(),
                }),
                sent_octets: None,
            }
        })
    }

    /// Iterates over the neighbors with state.
    pub fn neighbor_rows(&self, now: Time) -> impl Iterator<Item = NeighborRow> {
        self.engines().flat_map(move |engine| engine.neighbors(self.view(now)))
    }

    /// Iterates over the aggregates across cores.
    pub fn aggregate_rows(&self) -> impl Iterator<Item = AggregateRow> {
        let engines = self.engines();
        let of_engines = engines.flat_map(move |engine| engine.aggregates(self.view(Time::ZERO)));
        let of_edge = self.edge().into_iter().flat_map(|edge| edge.aggregate_rows(&self.ledger));
        of_edge.chain(of_engines)
    }

    /// Iterates over the associations with neighbours.
    pub fn association_rows(&self, now: Time) -> impl Iterator<Item = AssociationRow> {
        self.engines().flat_map(move |engine| engine.associations(self.view(now)))
    }

    /// Iterates over the slots of the routing state from a position on.
    pub fn routing_state_slots<'a>(
        &'a self,
        now: Time,
        from: Position,
        filter: &'a RowFilter,
    ) -> impl Iterator<Item = (Position, Option<RoutingStateRow>)> {
        self.slots(from, filter, move |engine, slot| {
            engine.routing_states(slot, filter, self.view(now))
        })
    }

    /// Iterates over the slots of the rules of sessions for the packet filter from a position on.
    pub fn pinhole_slots(
        &self,
        now: Time,
        from: Position,
    ) -> impl Iterator<Item = (Position, Option<PinholeRow>)> {
        self.slots(from, &RowFilter::ALL, move |engine, slot| engine.pinholes(slot, self.view(now)))
    }

    /// Iterates over the slots of the addresses and ports that sessions have reserved for data from outside.
    pub fn translation_slots(
        &self,
        now: Time,
        from: Position,
    ) -> impl Iterator<Item = (Position, Option<TranslationRow>)> {
        self.slots(from, &RowFilter::ALL, move |engine, slot| {
            engine.translations(slot, self.view(now))
        })
    }

    /// Returns the slots that a listing examines next: at most `most` of them, of one engine.
    pub fn next_slots(&self, from: Position, most: u64) -> EngineSlots {
        let engine = self.engines().nth(from.engine);
        let name = engine.map_or("", |engine| engine.kind().name);
        EngineSlots { engine: name, slots: from.slot..from.slot.saturating_add(most) }
    }

    /// Iterates over all counters: part of the node, group, name, count.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        self.engines().flat_map(|engine| engine.counters())
    }
}
