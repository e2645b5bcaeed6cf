//! NSIS as an engine of a node.

use alloc::boxed::Box;
use alloc::string::String;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{Context, Datagram, RowFilter};
use earmark_nsis::qos::SessionView;
use earmark_nsis::{self as nsis, Nsis};
use earmark_wire::udp;

use super::{listing, natfw, routing_state};
use crate::engine::{
    Counter, EngineKind, HeldClaim, NodeEngine, NodeView, OwnCommands, Rows, Slots, StateCount,
};
use crate::interception::{Arrival, Interception};
use crate::protocols::Command;
use earmark_core::listing::{
    AggregateRow, AssociationRow, NeighborRow, PinholeRow, ReservationRow, RoutingStateRow,
    SessionRow, TranslationRow,
};

/// NSIS as a kind of engine.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "nsis",
    protocol: nsis::ID,
    ip_protocol: None,
    create: |config, random| Box::new(Nsis::new(config.nsis.clone(), random)),
};

impl OwnCommands for Nsis {
    fn own_command(command: Command, _context: &mut Context<'_>) -> Option<nsis::Command> {
        match command {
            Command::Nsis(command) => Some(command),
            _ => None,
        }
    }
}

impl NodeEngine for Nsis {
    fn kind(&self) -> &'static EngineKind {
        &KIND
    }

    fn ip_protocols(&self) -> &'static [u8] {
        &[udp::PROTOCOL]
    }

    /// Returns whether a UDP packet is for GIST, by its destination port.
    fn accepts(&self, datagram: &Datagram<'_>) -> bool {
        is_gist(datagram.payload)
    }

    fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        let is_message = udp::Packet::parse(arrival.payload).is_ok() && is_gist(arrival.payload);
        match is_message && (arrival.here || arrival.is_alert_in_transit()) {
            true => Interception::Taken,
            false => Interception::Left,
        }
    }

    fn has_streams(&self) -> bool {
        true
    }

    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow> {
        let row = move |session: SessionView| listing::session_row(self, &session, filter, view);
        let slots = from..self.qos().session_slots();
        Box::new(slots.map(move |slot| (slot, self.qos().session_at(slot, filter).and_then(row))))
    }

    fn reservations<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, (Option<ClaimId>, ReservationRow)> {
        let row = move |session: SessionView| {
            let claim = session.claim?;
            let is_included = view.admits_link(filter, session.interface);
            let row = || listing::reservation_row(self, &session, claim, view);
            Some((Some(claim), is_included.then(row).flatten()?))
        };
        let slots = from..self.qos().session_slots();
        Box::new(slots.map(move |slot| (slot, self.qos().session_at(slot, filter).and_then(row))))
    }

    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow> {
        let session = self.qos().reservation_of(claim, owner)?;
        listing::reservation_row(self, &session, claim, view)
    }

    fn obstacle(&self, row: &ReservationRow, view: NodeView<'_>) -> Option<String> {
        natfw::obstacle(self, row, view)
    }

    fn aggregates<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, AggregateRow> {
        Box::new(listing::aggregate_rows(self, view))
    }

    fn neighbors<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, NeighborRow> {
        Box::new(routing_state::neighbor_rows(self, view))
    }

    fn associations<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, AssociationRow> {
        Box::new(routing_state::association_rows(self, view))
    }

    fn routing_states<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, RoutingStateRow> {
        Box::new(routing_state::routing_state_rows(self, from, filter, view))
    }

    fn pinholes<'a>(&'a self, from: u32, view: NodeView<'a>) -> Slots<'a, PinholeRow> {
        Box::new(natfw::pinhole_rows(self.natfw(), from, view))
    }

    fn translations<'a>(&'a self, from: u32, view: NodeView<'a>) -> Slots<'a, TranslationRow> {
        Box::new(natfw::translation_rows(self.natfw(), from, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        Box::new(listing::counters(self))
    }

    fn table_octets(&self) -> Rows<'_, (&'static str, usize)> {
        Box::new(
            [
                ("gist", self.gist().table_octets()),
                ("qos_nslp", self.qos().table_octets()),
                ("natfw_nslp", self.natfw().table_octets()),
            ]
            .into_iter(),
        )
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        Box::new(self.qos().sessions().filter_map(|session| {
            Some(HeldClaim { claim: session.claim?, interface: session.interface?, locked: false })
        }))
    }

    fn state_counts(&self) -> Rows<'_, StateCount> {
        let gist = self.gist();
        let counts = [
            ("qos_nslp", "sessions", self.qos().session_count()),
            ("natfw_nslp", "sessions", self.natfw().session_count()),
            ("gist", "routing_states", gist.routing_state_count()),
            ("gist", "associations", gist.associations().count()),
            ("gist", "peers", gist.peers().len()),
        ];
        Box::new(counts.into_iter())
    }
}

fn is_gist(udp: &[u8]) -> bool {
    udp.get(2..4) == Some(&nsis::PORT.to_be_bytes())
}
