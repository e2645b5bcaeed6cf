//! NSIS as an engine of a node.

use alloc::boxed::Box;
use core::any::Any;

use earmark_core::admission::{ClaimId, Owner, Protocol};
use earmark_core::{Context, Datagram, Effects, Engine, HostEvent, Input, StreamEvent, Time};
use earmark_nsis::{self as nsis, Nsis};
use earmark_wire::udp;

use super::listing;
use crate::api::{Command, Event};
use crate::engine::{Arrival, Counter, HeldClaim, Interception, NodeEngine, NodeView, Rows};
use earmark_core::listing::{AggregateRow, ReservationRow, SessionRow};

impl NodeEngine for Nsis {
    fn protocol(&self) -> Protocol {
        nsis::ID
    }

    fn name(&self) -> &'static str {
        "nsis"
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

    fn receive(
        &mut self,
        now: Time,
        datagram: Datagram<'_>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        self.handle(now, Input::Datagram(datagram), context, out);
    }

    fn stream(
        &mut self,
        now: Time,
        event: StreamEvent<'_>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        self.handle(now, Input::Stream(event), context, out);
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
        let Command::Nsis(command) = command else { return };
        self.handle(now, Input::Command(command), context, out);
    }

    fn next_deadline(&self) -> Option<Time> {
        Engine::next_deadline(self).map(|(at, _)| at)
    }

    fn sessions<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, SessionRow> {
        let sessions = self.qos().sessions(0);
        Box::new(sessions.map(move |(_, session)| listing::session_row(self, &session, view)))
    }

    fn reservations<'a>(
        &'a self,
        view: NodeView<'a>,
    ) -> Rows<'a, (Option<ClaimId>, ReservationRow)> {
        Box::new(self.qos().sessions(0).filter_map(move |(_, session)| {
            let claim = session.claim?;
            Some((Some(claim), listing::reservation_row(self, &session, claim, view)?))
        }))
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

    fn aggregates<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, AggregateRow> {
        Box::new(listing::aggregate_rows(self, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        Box::new(listing::counters(self))
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        Box::new(self.qos().sessions(0).filter_map(|(_, session)| {
            Some(HeldClaim { claim: session.claim?, interface: session.interface?, locked: false })
        }))
    }

    fn state_counts(&self) -> Rows<'_, (&'static str, usize)> {
        let gist = self.gist();
        let counts = [
            ("sessions of QoS NSLP", self.qos().session_count()),
            ("routing states of GIST", gist.routing_state_count()),
            ("associations of GIST", gist.associations().count()),
            ("peers of GIST", gist.peers().len()),
        ];
        Box::new(counts.into_iter())
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn engine_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn is_gist(udp: &[u8]) -> bool {
    udp.get(2..4) == Some(&nsis::PORT.to_be_bytes())
}
