//! Listings of a node.

use earmark_core::admission::ClaimId;
use earmark_core::listing::{
    AdmissionRow, AggregateRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow,
    PinholeRow, ReservationRow, RoutingStateRow, SessionRow, TrafficRow, TranslationRow,
};
use earmark_core::{Rate, Time};

use crate::engine::{Counter, NodeView};
use crate::node::Node;

/// Traffic control's view of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Counters of its queue.
    pub traffic: Option<TrafficRow>,
    /// State of its enforcement.
    pub enforcement: Option<EnforcementRow>,
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
        self.engines().flat_map(move |engine| engine.sessions(self.view(now)))
    }

    /// Iterates over the reservations, including those of receivers on this host, protocol by protocol. `queue` returns
    /// the driver's view of a queue, and is called only for rows that are used.
    pub fn reservation_rows(
        &self,
        now: Time,
        mut queue: impl FnMut(ClaimId) -> QueueView,
    ) -> impl Iterator<Item = ReservationRow> {
        let rows = self.engines().flat_map(move |engine| engine.reservations(self.view(now)));
        rows.map(move |(claim, row)| {
            let QueueView { traffic, enforcement } = claim.map(&mut queue).unwrap_or_default();
            self.with_obstacle(ReservationRow { traffic, enforcement, ..row }, now)
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

    /// Iterates over the routing state.
    pub fn routing_state_rows(&self, now: Time) -> impl Iterator<Item = RoutingStateRow> {
        self.engines().flat_map(move |engine| engine.routing_states(self.view(now)))
    }

    /// Iterates over the rules of sessions for the packet filter, installed or remembered.
    pub fn pinhole_rows(&self, now: Time) -> impl Iterator<Item = PinholeRow> {
        self.engines().flat_map(move |engine| engine.pinholes(self.view(now)))
    }

    /// Iterates over the addresses and ports that sessions have reserved for data from outside.
    pub fn translation_rows(&self, now: Time) -> impl Iterator<Item = TranslationRow> {
        self.engines().flat_map(move |engine| engine.translations(self.view(now)))
    }

    /// Iterates over all counters: part of the node, group, name, count.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        self.engines().flat_map(|engine| engine.counters())
    }
}
