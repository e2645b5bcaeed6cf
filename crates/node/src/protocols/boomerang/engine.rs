//! Boomerang as an engine of a node.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_boomerang::{self as boomerang, Boomerang, HalfView, SessionView};
use earmark_core::admission::{ClaimId, Ledger, Owner};
use earmark_core::{Context, RowFilter};
use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::icmp;

use super::listing;
use crate::engine::{
    Counter, EngineKind, HeldClaim, NodeEngine, NodeView, OwnCommands, Rows, Slots, StateCount,
    rows_of_slot,
};
use crate::interception::{Arrival, Interception};
use crate::protocols::Command;
use earmark_core::listing::{ReservationRow, SessionRow};

/// Boomerang as a kind of engine.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "boomerang",
    protocol: boomerang::ID,
    ip_protocol: None,
    create: |config, random| Box::new(Boomerang::new(config.boomerang.clone(), random)),
};

impl OwnCommands for Boomerang {
    fn own_command(command: Command, context: &mut Context<'_>) -> Option<boomerang::Command> {
        let Command::Boomerang(command) = command else { return None };
        if let boomerang::Command::Settled(settled) = &command {
            update_delegated_bandwidth(context.ledger, settled);
        }
        Some(command)
    }
}

impl NodeEngine for Boomerang {
    fn kind(&self) -> &'static EngineKind {
        &KIND
    }

    fn ip_protocols(&self) -> &'static [u8] {
        &[icmp::PROTOCOL_V4, icmp::PROTOCOL_V6]
    }

    /// Pings whose data begin with MAGIC are messages.
    fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        let data = arrival.payload.get(icmp::HEADER..).unwrap_or_default();
        let is_message = data.starts_with(&MAGIC.to_be_bytes());
        match is_message && (arrival.here || arrival.forwards) {
            true => Interception::Taken,
            false => Interception::Left,
        }
    }

    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow> {
        let row = move |session: SessionView| {
            let interfaces = session.halves().map(|(_, half)| half.interface);
            let is_included = view.admits_link(filter, interfaces);
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
        let (session, direction, half) = self.reservation_of(claim, owner)?;
        Some(listing::reservation_row(&session, direction, half, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        let counters = self.counters().iter();
        Box::new(counters.map(|(group, name, count)| ("boomerang", group, name, count)))
    }

    fn table_octets(&self) -> Rows<'_, (&'static str, usize)> {
        Box::new([("boomerang", self.table_octets())].into_iter())
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        Box::new(self.sessions().flat_map(|session| {
            let held = |(_, HalfView { claim, interface, .. })| HeldClaim {
                claim,
                interface,
                locked: session.locked,
            };
            session.halves().map(held).collect::<Vec<_>>()
        }))
    }

    fn state_counts(&self) -> Rows<'_, StateCount> {
        let (transit, own) = self.population();
        let counts = [("boomerang", "sessions", transit), ("boomerang", "loops", own)];
        Box::new(counts.into_iter())
    }
}

/// Updates the delegated bandwidth: a granted part is no longer delegated, and will be claimed; a released part is delegated again.
fn update_delegated_bandwidth(ledger: &mut Ledger, settled: &boomerang::Settled) {
    match settled.outcome {
        boomerang::Settlement::Reserved(share) => {
            let delegated = ledger.rate_set_aside(share.interface);
            ledger.set_aside(share.interface, delegated.saturating_sub(share.rate));
        }
        boomerang::Settlement::Released(shares) => {
            for share in shares.into_iter().flatten() {
                let delegated = ledger.rate_set_aside(share.interface);
                ledger.set_aside(share.interface, delegated + share.rate);
            }
        }
    }
}
