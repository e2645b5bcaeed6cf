//! Tickets as an engine of a node: inputs, rows of listings, counters, and what checks ask.

use std::any::Any;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::listing::{ReservationRow, SenderName, SessionRow};
use earmark_core::{Context, Effects, Flow, RowFilter, Time};
use earmark_node::{
    Command, Counter, EngineKind, Event, HeldClaim, NodeEngine, NodeView, OtherCommand,
    ProcessInput, Rows, Slots, StateCount,
};
use serde_json::Value;

use crate::engine::{Command as TicketsCommand, ID, Input, NAME, Session, Tickets, reject};
use crate::message::PROTOCOL;

/// The kind of engine, for [`earmark_node::Engines::with`].
pub const ENGINE: EngineKind = EngineKind {
    name: NAME,
    protocol: ID,
    ip_protocol: Some(PROTOCOL),
    create: |config, random| Box::new(Tickets::new(config, random)),
};

/// Returns a command of an application as the node takes it.
pub fn command(command: &TicketsCommand) -> Command {
    let command = serde_json::to_value(command).unwrap_or_default();
    Command::Other(OtherCommand { name: NAME.into(), command })
}

impl ProcessInput for Tickets {
    fn process(
        &mut self,
        now: Time,
        input: earmark_core::Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let mut cx = Input { now, context, out };
        match input {
            earmark_core::Input::Datagram(datagram) => self.receive(&mut cx, &datagram),
            // Tickets has no connections.
            earmark_core::Input::Stream(_) => {}
            earmark_core::Input::Expire => self.expire(&mut cx),
            earmark_core::Input::Host(event) => self.host(&mut cx, event),
            earmark_core::Input::Command(Command::Other(OtherCommand { command, .. })) => {
                // A malformed command may nevertheless say which application it is about.
                let of = |body: &Value| body.get("application").and_then(Value::as_u64);
                let application = command.as_object().and_then(|named| named.values().find_map(of));
                match serde_json::from_value(command) {
                    Ok(command) => self.command(&mut cx, command),
                    Err(error) => reject(cx.out, application, &error),
                }
            }
            earmark_core::Input::Command(_) => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn engine(&self) -> &dyn Any {
        self
    }

    fn engine_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl NodeEngine for Tickets {
    fn kind(&self) -> &'static EngineKind {
        &ENGINE
    }

    fn ip_protocols(&self) -> &'static [u8] {
        &[PROTOCOL]
    }

    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow> {
        let row =
            move |flow: &Flow| Some(session_row(flow, self.listed(flow, filter, view)?, view));
        Box::new(self.blocks.range(from..).map(move |(&block, flow)| (block, row(flow))))
    }

    fn reservations<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, (Option<ClaimId>, ReservationRow)> {
        let row = move |flow: &Flow| {
            let session = self.listed(flow, filter, view)?;
            let (claim, _) = session.claim?;
            Some((Some(claim), reservation_row(flow, session, view)))
        };
        Box::new(self.blocks.range(from..).map(move |(&block, flow)| (block, row(flow))))
    }

    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow> {
        let flow = self.blocks.get(&owner.block)?;
        let session = self.sessions.get(flow)?;
        session.claim.filter(|(held, _)| *held == claim)?;
        Some(reservation_row(flow, session, view))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        Box::new(self.counters.iter().map(|(&name, &count)| (NAME, "messages", name, count)))
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        let claims = self.sessions.values().filter_map(|session| session.claim);
        Box::new(claims.map(|(claim, interface)| HeldClaim { claim, interface, locked: false }))
    }

    fn state_counts(&self) -> Rows<'_, StateCount> {
        let counts =
            [(NAME, "sessions", self.sessions.len()), (NAME, "requests", self.request_count())];
        Box::new(counts.into_iter())
    }
}

impl Tickets {
    /// Returns the session of a flow, if the filter includes it.
    fn listed(&self, flow: &Flow, filter: &RowFilter, view: NodeView<'_>) -> Option<&Session> {
        let session = self.sessions.get(flow)?;
        let source = flow.source.unwrap_or(flow.destination);
        let is_included = filter.admits_to(flow.destination, flow.destination_port)
            && filter.admits_from(source, flow.source_port)
            && view.admits_link(filter, session.claim.map(|(_, link)| link));
        is_included.then_some(session)
    }
}

fn session_row(flow: &Flow, session: &Session, view: NodeView<'_>) -> SessionRow {
    SessionRow {
        protocol: NAME.into(),
        destination: flow.destination,
        destination_port: flow.destination_port,
        ip_protocol: flow.protocol,
        dscp: None,
        source: flow.source.unwrap_or(flow.destination),
        source_port: flow.source_port,
        flow_label: None,
        spi: None,
        previous_hop: None,
        incoming: None,
        outgoing: session.claim.iter().map(|(_, link)| view.interface_name(*link)).collect(),
        here: view.is_local(flow.destination),
        rate_bps: session.demand.rate.as_bps(),
        burst_octets: session.demand.burst,
        hops: None,
        expires_in_s: view.seconds_until(session.expires_at),
        reserved: session.claim.is_some(),
        reverse_bps: None,
        prefix_lengths: None,
        waiting: false,
    }
}

fn reservation_row(flow: &Flow, session: &Session, view: NodeView<'_>) -> ReservationRow {
    let sender = flow.source.map(|address| SenderName {
        address,
        port: flow.source_port,
        flow_label: None,
        spi: None,
    });
    ReservationRow {
        protocol: NAME.into(),
        destination: flow.destination,
        destination_port: flow.destination_port,
        ip_protocol: flow.protocol,
        dscp: None,
        senders: sender.into_iter().collect(),
        style: "ticket".into(),
        service: "controlled-load".into(),
        interface: session.claim.map(|(_, link)| view.interface_name(link)),
        next_hop: None,
        user: None,
        rate_bps: session.demand.rate.as_bps(),
        burst_octets: session.demand.burst,
        expires_in_s: view.seconds_until(session.expires_at),
        age_s: None,
        traffic: None,
        enforcement: None,
    }
}
