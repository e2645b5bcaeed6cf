//! Boomerang as an engine of a node.

use alloc::boxed::Box;
use core::any::Any;

use earmark_boomerang::{self as boomerang, Boomerang};
use earmark_core::admission::{ClaimId, Ledger, Owner, Protocol};
use earmark_core::{Context, Datagram, Effects, Engine, HostEvent, Input, Time};
use earmark_wire::boomerang::iana::MAGIC;
use earmark_wire::icmp;

use super::listing;
use crate::api::{Command, Event};
use crate::engine::{Arrival, Counter, HeldClaim, Interception, NodeEngine, NodeView, Rows};
use earmark_core::listing::{ReservationRow, SessionRow};

impl NodeEngine for Boomerang {
    fn protocol(&self) -> Protocol {
        boomerang::ID
    }

    fn name(&self) -> &'static str {
        "boomerang"
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

    fn receive(
        &mut self,
        now: Time,
        datagram: Datagram<'_>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        self.handle(now, Input::Datagram(datagram), context, out);
    }

    fn expire(&mut self, now: Time, context: &mut Context<'_>, out: &mut Effects<Event>) {
        self.handle(now, Input::Expire, context, out);
    }

    fn host(
        &mut self,
        now: Time,
        event: HostEvent,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        self.handle(now, Input::Host(event), context, out);
    }

    fn command(
        &mut self,
        now: Time,
        command: Command,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let Command::Boomerang(command) = command else { return };
        if let boomerang::Command::Settled(settled) = &command {
            update_delegated_bandwidth(context.ledger, settled);
        }
        self.handle(now, Input::Command(command), context, out);
    }

    fn next_deadline(&self) -> Option<Time> {
        Engine::next_deadline(self).map(|(at, _)| at)
    }

    fn sessions<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, SessionRow> {
        Box::new(self.sessions().map(move |session| listing::session_row(&session, view)))
    }

    fn reservations<'a>(
        &'a self,
        view: NodeView<'a>,
    ) -> Rows<'a, (Option<ClaimId>, ReservationRow)> {
        Box::new(self.sessions().flat_map(move |session| listing::reservation_rows(&session, view)))
    }

    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow> {
        let (session, direction, half) = self.reservation_of(claim, owner)?;
        Some(listing::reservation_row(&session.selector, direction, half, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        let counters = self.counters().iter();
        Box::new(counters.map(|(group, name, count)| ("boomerang", group, name, count)))
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        Box::new(self.sessions().flat_map(|session| {
            let halves = [session.forward, session.reverse].into_iter().flatten();
            halves.map(move |half| HeldClaim {
                claim: half.claim,
                interface: half.interface,
                locked: session.locked,
            })
        }))
    }

    fn state_counts(&self) -> Rows<'_, (&'static str, usize)> {
        let (transit, own) = self.population();
        Box::new([("sessions of Boomerang", transit), ("loops of Boomerang", own)].into_iter())
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn engine_mut(&mut self) -> &mut dyn Any {
        self
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
