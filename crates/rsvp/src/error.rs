//! Errors: PathErr on its way to senders, ResvErr on its way to receivers (RFC 2205 sections 3.1.7 and 3.1.8;
//! RFC 2209, PERR and RERR MESSAGE ARRIVES).

use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId, Outgoing, Rate};
use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::iana::TrafficControlError;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List,
    MessageType, Path, PathErr, Resv, ResvErr, RsvpHop, Salvage, SenderTemplate, Session,
};

use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{NEIGHBOR_TTL, Rsvp, Turn, send};
use crate::refresh::to_neighbor;
use crate::state::{Index, Origin};

/// Why a reservation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResvFault {
    pub(crate) code: ErrorCode,
    pub(crate) value: u16,
    /// An older reservation still stands.
    pub(crate) in_place: bool,
    /// What could have been granted, if that was the trouble.
    pub(crate) available: Option<Rate>,
}

impl ResvFault {
    pub(crate) const fn new(code: ErrorCode, value: u16) -> ResvFault {
        ResvFault { code, value, in_place: false, available: None }
    }

    /// A limit of this node is reached.
    pub(crate) const fn too_much() -> ResvFault {
        ResvFault::new(ErrorCode::RsvpSystemError, 0)
    }

    /// What is asked for cannot be.
    pub(crate) const fn bad_flowspec() -> ResvFault {
        ResvFault::new(ErrorCode::TrafficControlError, TrafficControlError::BadFlowspec.code())
    }

    fn spec(&self, node: IpAddr) -> ErrorSpec {
        let flags = if self.in_place { ErrorSpec::IN_PLACE } else { 0 };
        ErrorSpec { node, flags, code: self.code, value: self.value }
    }
}

impl Rsvp {
    pub(crate) fn path_err_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &PathErr<'_>,
    ) {
        let found = error
            .sender
            .and_then(|(template, _)| self.store.find_sender(&error.session, &template));
        let Some(index) = found else {
            return self.drop(turn, datagram, DropReason::NoState);
        };
        let psb = self.store.psb(index);
        match self.store.origin(psb.hop) {
            Origin::Local(application) => turn.out.notify(Event::PathError {
                application,
                session: error.session,
                error: error.error,
                template: psb.template,
            }),
            Origin::Neighbor(incoming, hop) => {
                let interface = turn.context.interfaces.by_id(incoming);
                let Some(source) = interface.and_then(|i| i.address_like(hop.address)) else {
                    return;
                };
                let Some(ttl) = ttl_onward(datagram) else {
                    return self.drop(turn, datagram, DropReason::TtlExpired);
                };
                let how = Outgoing { ttl, ..to_neighbor(source, hop.address) };
                send(&mut self.counters, turn.out, how, Body::PathErr(*error));
            }
        }
    }

    pub(crate) fn resv_err_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
    ) {
        let FlowDescriptors::FixedFilter(flows) = error.flows else {
            return self.drop(turn, datagram, DropReason::NoState);
        };
        let Some(ttl) = ttl_onward(datagram) else {
            return self.drop(turn, datagram, DropReason::TtlExpired);
        };
        let mut found_any = false;
        for flow in flows {
            let Some(psb) = self.store.find_sender(&error.session, &flow.filter) else { continue };
            // Errors come from upstream: through the interface that the sender's data comes through.
            let block = self.store.psb(psb);
            let incoming = self.store.neighbor_of(block.hop).map(|(interface, _)| interface);
            if incoming != Some(datagram.interface) {
                continue;
            }
            let Some(tcsb) = self.store.find_tcsb(psb, block.outgoing) else { continue };
            let mut next = self.store.first_rsb(tcsb);
            while let Some(rsb) = next {
                found_any = true;
                next = self.store.next_rsb(rsb);
                self.pass_resv_err(turn, rsb, error.error, &flow, error.carried, ttl);
            }
        }
        if !found_any {
            self.drop(turn, datagram, DropReason::NoState);
        }
    }

    /// Passes an error on to one next hop, with this TTL, or to one application.
    fn pass_resv_err<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        rsb: Index,
        error: ErrorSpec,
        flow: &FixedFilterFlow,
        carried: Carried<'_>,
        ttl: u8,
    ) {
        let block = self.store.rsb(rsb);
        let tcsb = self.store.tcsb(block.tcsb);
        let session = self.store.session_of(tcsb.psb);
        match self.store.origin(block.hop) {
            Origin::Local(application) => {
                // NotGuilty: this receiver asked for less than what failed (RFC 2205 section 3.11.1).
                let guilty = flow.flowspec.is_none_or(|failed| !exceeds(&failed, &block.flowspec));
                let flags = error.flags | if guilty { 0 } else { ErrorSpec::NOT_GUILTY };
                turn.out.notify(Event::ResvError {
                    application,
                    session,
                    error: ErrorSpec { flags, ..error },
                    filter: flow.filter,
                    flowspec: flow.flowspec,
                });
            }
            Origin::Neighbor(outgoing, hop) => {
                let flows = FlowDescriptors::FixedFilter(List::Items(core::slice::from_ref(flow)));
                emit_resv_err(self, turn, outgoing, &session, hop, error, carried, flows, ttl);
            }
        }
    }

    /// Answers a Path that is not accepted.
    pub(crate) fn send_path_err<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
        code: ErrorCode,
        value: u16,
    ) {
        let sender = (path.sender.template, Some(path.sender.tspec));
        self.emit_path_err(
            turn,
            datagram.interface,
            path.hop.address,
            path.session,
            sender,
            code,
            value,
        );
    }

    #[allow(clippy::too_many_arguments)] // they are the objects of the message
    fn emit_path_err<E>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        interface: InterfaceId,
        to: IpAddr,
        session: Session,
        sender: (SenderTemplate, Option<SenderTspec>),
        code: ErrorCode,
        value: u16,
    ) {
        let Some(interface) = turn.context.interfaces.by_id(interface) else { return };
        let Some(node) = interface.address_like(to) else { return };
        let error = ErrorSpec { node, flags: 0, code, value };
        let carried = Carried::Objects(&[]);
        let body = PathErr { session, error, carried, sender: Some(sender) };
        send(&mut self.counters, turn.out, to_neighbor(node, to), Body::PathErr(body));
    }

    /// Answers one flow descriptor of a Resv that is refused.
    #[cold]
    pub(crate) fn refuse<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        flow: &FixedFilterFlow,
        fault: &ResvFault,
    ) {
        let flows = FlowDescriptors::FixedFilter(List::Items(core::slice::from_ref(flow)));
        self.send_resv_err(turn, outgoing, &resv.session, resv.hop, fault, flows);
        if let Some(error) = self.local_spec(turn, outgoing, resv.hop.address, fault) {
            turn.out.notify(Event::Refused {
                session: resv.session,
                filter: flow.filter,
                interface: outgoing,
                error,
                available_bps: fault.available.unwrap_or_default().as_bps(),
            });
        }
        self.drop(turn, datagram, DropReason::Refused);
    }

    /// Sends a ResvErr that begins at this node, to the next hop that the Resv came from.
    pub(crate) fn send_resv_err<E>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        outgoing: InterfaceId,
        session: &Session,
        hop: RsvpHop,
        fault: &ResvFault,
        flows: FlowDescriptors<'_>,
    ) {
        let Some(error) = self.local_spec(turn, outgoing, hop.address, fault) else { return };
        let carried = Carried::Objects(&[]);
        let ttl = NEIGHBOR_TTL;
        emit_resv_err(self, turn, outgoing, session, hop, error, carried, flows, ttl);
    }

    /// Tells the next hop or application of one request that its reservation is lost.
    pub(crate) fn report_loss<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        rsb: Index,
        fault: &ResvFault,
    ) {
        let block = self.store.rsb(rsb);
        let tcsb = self.store.tcsb(block.tcsb);
        let filter: FilterSpec = self.store.psb(tcsb.psb).template;
        let flow = FixedFilterFlow { flowspec: Some(block.flowspec), filter };
        let Some((outgoing, hop)) = self.store.neighbor_of(block.hop) else { return };
        let Some(error) = self.local_spec(turn, outgoing, hop.address, fault) else { return };
        self.pass_resv_err(turn, rsb, error, &flow, Carried::NONE, NEIGHBOR_TTL);
    }

    /// Answers a message that could be read only in part, as far as it tells whom to answer.
    pub(crate) fn answer_malformed<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        code: ErrorCode,
        value: u16,
    ) {
        let salvage = Salvage::scan(datagram.payload);
        let (Some(session), Some(hop)) = (salvage.session, salvage.hop) else { return };
        if !crate::path::is_neighbor(turn.context, hop.address) {
            return;
        }
        match salvage.message_type {
            MessageType::Path => {
                let Some(template) = salvage.sender_template else { return };
                let sender = (template, salvage.sender_tspec);
                let interface = datagram.interface;
                self.emit_path_err(turn, interface, hop.address, session, sender, code, value);
            }
            MessageType::Resv => {
                let Some(outgoing) = self.interface_of_lih(turn, hop.lih) else { return };
                let fault = ResvFault::new(code, value);
                match salvage.flows {
                    Some(flows) => {
                        self.send_resv_err(turn, outgoing, &session, hop, &fault, flows);
                    }
                    None => self.answer_unknown_style(turn, outgoing, hop, &fault, &salvage),
                }
            }
            // RFC 2205 knows no error messages about other messages.
            _ => {}
        }
    }

    /// Answers a Resv in a style that can be quoted but not understood.
    fn answer_unknown_style<E>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        outgoing: InterfaceId,
        to: RsvpHop,
        fault: &ResvFault,
        salvage: &Salvage<'_>,
    ) {
        let Some(error) = self.local_spec(turn, outgoing, to.address, fault) else { return };
        let hop = RsvpHop { address: error.node, lih: self.lih(outgoing) };
        let mut answer = [0; Salvage::MAX_ANSWER];
        let how = to_neighbor(error.node, to.address);
        if let Ok(Some(length)) = salvage.emit_resv_err(&hop, &error, how.ttl, &mut answer) {
            turn.out.send(how, length).copy_from_slice(&answer[..length]);
            self.counters.send(MessageType::ResvErr);
        }
    }

    fn local_spec<E>(
        &self,
        turn: &Turn<'_, '_, E>,
        outgoing: InterfaceId,
        like: IpAddr,
        fault: &ResvFault,
    ) -> Option<ErrorSpec> {
        let node = turn.context.interfaces.by_id(outgoing)?.address_like(like)?;
        Some(fault.spec(node))
    }
}

#[allow(clippy::too_many_arguments)] // they are the objects of the message
fn emit_resv_err<E>(
    engine: &mut Rsvp,
    turn: &mut Turn<'_, '_, E>,
    outgoing: InterfaceId,
    session: &Session,
    to: RsvpHop,
    error: ErrorSpec,
    carried: Carried<'_>,
    flows: FlowDescriptors<'_>,
    ttl: u8,
) {
    let Some(interface) = turn.context.interfaces.by_id(outgoing) else { return };
    let Some(address) = interface.address_like(to.address) else { return };
    let hop = RsvpHop { address, lih: engine.lih(outgoing) };
    let body = ResvErr { session: *session, hop, error, scope: None, carried, flows };
    let how = Outgoing { ttl, ..to_neighbor(address, to.address) };
    send(&mut engine.counters, turn.out, how, Body::ResvErr(body));
}

/// The TTL with which an error goes on. It shrinks from hop to hop, although each hop addresses it anew: where the hops
/// of two nodes' states point at each other, be it by a routing loop or by malice, it would go round for ever.
fn ttl_onward(datagram: &Datagram<'_>) -> Option<u8> {
    datagram.ttl.checked_sub(1).filter(|&ttl| ttl > 0).map(|ttl| ttl.min(NEIGHBOR_TTL))
}

/// Whether `failed` asks for strictly more than `asked`.
fn exceeds(
    failed: &earmark_wire::intserv::FlowSpec,
    asked: &earmark_wire::intserv::FlowSpec,
) -> bool {
    failed != asked && crate::merge::least_upper_bound(failed, asked).as_ref() == Some(failed)
}
