//! YESSIR as an engine of a node.

use alloc::boxed::Box;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{Context, RowFilter};
use earmark_wire::rtcp::PacketType;
use earmark_wire::udp;
use earmark_wire::yessir::has_message;
use earmark_yessir::{self as yessir, SessionView, Yessir};

use super::listing;
use crate::engine::{
    Counter, EngineKind, HeldClaim, NodeEngine, NodeView, OwnCommands, Rows, Slots, StateCount,
    rows_of_slot,
};
use crate::interception::{Arrival, Interception};
use crate::protocols::Command;
use earmark_core::listing::{ReservationRow, SessionRow};

/// YESSIR as a kind of engine.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "yessir",
    protocol: yessir::ID,
    ip_protocol: None,
    create: |config, random| Box::new(Yessir::new(config.yessir.clone(), random)),
};

impl OwnCommands for Yessir {
    fn own_command(command: Command, _context: &mut Context<'_>) -> Option<yessir::Command> {
        match command {
            Command::Yessir(command) => Some(command),
            _ => None,
        }
    }
}

impl NodeEngine for Yessir {
    fn kind(&self) -> &'static EngineKind {
        &KIND
    }

    fn ip_protocols(&self) -> &'static [u8] {
        &[yessir::PROTOCOL]
    }

    /// Reports with a message are copied at their destination, whose application must receive them too. Sender reports
    /// without one are copied if their streams are measured.
    fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        let Ok(packet) = udp::Packet::parse(arrival.payload) else { return Interception::Left };
        match has_message(packet.payload) {
            true if arrival.here => Interception::Copied,
            true if arrival.is_alert_in_transit() => Interception::Taken,
            false if self.measures() && begins_with_sender_report(packet.payload) => {
                Interception::Copied
            }
            _ => Interception::Left,
        }
    }

    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow> {
        let row = move |session: SessionView| {
            let is_included =
                view.admits_link(filter, session.legs.iter().map(|leg| leg.interface));
            is_included.then(|| listing::session_row(&session, view))
        };
        let slots = from..self.session_slots();
        Box::new(slots.map(move |slot| (slot, self.session_at(slot, filter).and_then(row))))
    }

    fn reservations<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, (Option<ClaimId>, ReservationRow)> {
        Box::new((from..self.session_slots()).flat_map(move |slot| {
            let session = self.session_at(slot, filter);
            let rows = session.map(|session| listing::reservation_rows(&session, filter, view));
            rows_of_slot(slot, rows.into_iter().flatten())
        }))
    }

    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow> {
        let (session, leg) = self.reservation_of(claim, owner)?;
        Some(listing::reservation_row(&session, session.legs.get(leg)?, claim, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        let counters = listing::counters(self.counters());
        Box::new(counters.map(|(group, name, count)| ("yessir", group, name, count)))
    }

    fn table_octets(&self) -> Rows<'_, (&'static str, usize)> {
        Box::new([("yessir", self.table_octets())].into_iter())
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        let legs = self.sessions().flat_map(|session| session.legs);
        Box::new(legs.filter_map(|leg| {
            Some(HeldClaim { claim: leg.claim?, interface: leg.interface, locked: false })
        }))
    }

    fn state_counts(&self) -> Rows<'_, StateCount> {
        let counts = [
            ("yessir", "streams", self.session_count()),
            ("yessir", "applications", self.applications().count()),
        ];
        Box::new(counts.into_iter())
    }
}

/// RTP version (RFC 3550 section 6.4.1).
const RTP_VERSION: u8 = 2;

/// Returns whether an RTCP compound begins with a sender report.
fn begins_with_sender_report(compound: &[u8]) -> bool {
    let is_report = |code| PacketType::from_code(code) == PacketType::SenderReport;
    compound.first().is_some_and(|first| first >> 6 == RTP_VERSION)
        && compound.get(1).is_some_and(|&code| is_report(code))
}
