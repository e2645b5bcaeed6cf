//! Errors: PathErr on its way to senders, ResvErr on its way to receivers (RFC 2205 sections 3.1.7 and 3.1.8;
//! RFC 2209, PERR and RERR MESSAGE ARRIVES).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::Priority;
use earmark_core::{Datagram, InterfaceId, Outgoing, Rate};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::iana::TrafficControlError;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List,
    MessageType, PartialMessage, Path, PathErr, Resv, ResvErr, RsvpHop, SenderTemplate, Session,
    Style,
};

use crate::api::{Application, Event, Filters};
use crate::blockade::{concerns, flags_for};
use crate::counters::DropReason;
use crate::instance::{HandlerContext, NEIGHBOR_TTL, Rsvp};
use crate::merge::is_greater;
use crate::policy::explanation;
use crate::pool::shared_flows;
use crate::refresh_reduction::OutgoingMessage;
use crate::shared::{filters_of, flowspec_of, told};
use crate::state::{Blocked, Holder, Index, Origin, Peer};

/// Why a reservation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResvFault {
    pub(crate) code: ErrorCode,
    pub(crate) value: u16,
    /// An older reservation still stands.
    pub(crate) in_place: bool,
    /// What could have been granted, if that was the trouble.
    pub(crate) available: Option<Rate>,
    /// Whose importance it is that it gave way to.
    pub(crate) preempted_by: Option<Priority>,
}

impl ResvFault {
    pub(crate) const fn new(code: ErrorCode, value: u16) -> ResvFault {
        ResvFault { code, value, in_place: false, available: None, preempted_by: None }
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
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &PathErr<'_>,
    ) {
        let found = error
            .sender
            .and_then(|(template, _)| self.store.find_sender(&error.session, &template));
        let Some(index) = found else {
            return self.drop(cx, datagram, DropReason::NoState);
        };
        if error.error.node == datagram.source {
            self.refuse_path(cx, datagram, index);
        }
        let psb = self.store.psb(index);
        match self.store.origin(psb.hop) {
            Origin::Local(application) => cx.out.notify(Event::PathError {
                application,
                session: error.session,
                error: error.error,
                template: psb.template,
            }),
            Origin::Neighbor(incoming, hop) => {
                let interface = cx.context.interfaces.by_id(incoming);
                let Some(source) = interface.and_then(|i| i.address_like(hop.address)) else {
                    return;
                };
                let Some(ttl) = ttl_onward(datagram) else {
                    return self.drop(cx, datagram, DropReason::TtlExpired);
                };
                let how = Outgoing { ttl, ..self.to_neighbor(incoming, source, hop.address) };
                let outgoing_message = OutgoingMessage::new(how)
                    .to(self.refresh_reduction.peer(incoming, hop.address));
                self.send_once(cx, outgoing_message, &Body::PathErr(*error));
            }
        }
    }

    pub(crate) fn resv_err_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
    ) {
        let Some(ttl) = ttl_onward(datagram) else {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        };
        let found_any = match error.flows {
            FlowDescriptors::FixedFilter(flows) => {
                let mut found_any = false;
                for flow in flows {
                    found_any |= self.distinct_err_arrives(cx, datagram, error, &flow, ttl);
                }
                found_any
            }
            _ => self.shared_err_arrives(cx, datagram, error, ttl),
        };
        if !found_any {
            self.drop(cx, datagram, DropReason::NoState);
        }
    }

    /// An error about a fixed-filter reservation. Gives whether there is such a reservation.
    fn distinct_err_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
        flow: &FixedFilterFlow,
        ttl: u8,
    ) -> bool {
        let Some(psb) = self.store.find_sender(&error.session, &flow.filter) else { return false };
        // Errors come from upstream: through the interface that the sender's data comes through.
        let incoming = self.store.neighbor_of(self.store.psb(psb).hop).map(|(id, _)| id);
        if incoming != Some(datagram.interface) {
            return false;
        }
        let before = self.asked_for(cx.now, psb);
        let blocked = Blocked::Sender(psb);
        self.note_failure(cx.now, datagram.interface, &error.error, blocked, flow.flowspec);
        self.refresh_resv_by_itself(cx.now, psb);
        if let Some(asked) = self.asked_for(cx.now, psb)
            && before != Some(asked)
            && flow.flowspec.is_none_or(|failed| is_greater(&failed, &asked))
        {
            self.resv_refresh(cx, psb, None);
        }
        let flows = FlowDescriptors::FixedFilter(List::Items(core::slice::from_ref(flow)));
        let mut found_any = false;
        let tcsbs: Vec<Index> = self.store.tcsbs_of(Holder::Sender(psb)).collect();
        for tcsb in tcsbs {
            if self.store.tcsb(tcsb).outgoing == incoming {
                continue;
            }
            let mut next = self.store.first_rsb(tcsb);
            while let Some(rsb) = next {
                next = self.store.next_rsb(rsb);
                found_any = true;
                let passed = ResvErr { flows, ..*error };
                self.pass_resv_err(cx, rsb, &passed, flow.flowspec, ttl);
            }
        }
        found_any
    }

    /// An error about a shared reservation. Gives whether there is such a reservation.
    fn shared_err_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
        ttl: u8,
    ) -> bool {
        let style = error.flows.style();
        let session = self.store.find_session(&error.session);
        let pool = session.and_then(|session| self.store.pool_of(session));
        let Some(pool) = pool.filter(|&pool| self.store.pool(pool).style == style) else {
            return false;
        };
        let failed = flowspec_of(&error.flows);
        let incoming = datagram.interface;
        let named = filters_of(&error.flows);
        if style == Style::Wildcard {
            let Some(hop) = self.store.find_neighbor(incoming, error.hop.address) else {
                return false;
            };
            self.note_failure(cx.now, incoming, &error.error, Blocked::Hop(pool, hop), failed);
        } else {
            for filter in &named {
                let Some(psb) = self.store.find_sender(&error.session, filter) else { continue };
                let hop = self.store.neighbor_of(self.store.psb(psb).hop);
                if hop.is_some_and(|(interface, _)| interface == incoming) {
                    let blocked = Blocked::Sender(psb);
                    self.note_failure(cx.now, incoming, &error.error, blocked, failed);
                }
            }
        }
        self.forget_shared(pool);
        self.spread_past_failure(cx, pool, failed);
        let mut found_any = false;
        let tcsbs: Vec<Index> = self.store.tcsbs_of(Holder::Pool(pool)).collect();
        for tcsb in tcsbs {
            let outgoing = self.store.tcsb(tcsb).outgoing;
            let scope = self.scope_beyond(pool, outgoing, error.scope);
            if outgoing == Some(incoming) || scope.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let mut next = self.store.first_rsb(tcsb);
            while let Some(rsb) = next {
                next = self.store.next_rsb(rsb);
                let wanted = self.store.rsb(rsb).filters();
                let common = |filter: &&FilterSpec| wanted.iter().any(|f| f.spec == **filter);
                let common: Vec<FilterSpec> = named.iter().filter(common).copied().collect();
                if style == Style::SharedExplicit && common.is_empty() {
                    continue;
                }
                found_any = true;
                let flows = shared_flows(style, failed, &common);
                let scope = scope.as_deref().map(List::Items);
                self.pass_resv_err(cx, rsb, &ResvErr { flows, scope, ..*error }, failed, ttl);
            }
        }
        found_any
    }

    /// The senders of a SCOPE whose data goes a way; `None` without a SCOPE.
    fn scope_beyond(
        &self,
        pool: Index,
        outgoing: Option<InterfaceId>,
        scope: Option<List<'_, IpAddr>>,
    ) -> Option<Vec<IpAddr>> {
        let session = self.store.pool(pool).session;
        let goes = |source: &IpAddr| {
            self.store
                .senders_of(session)
                .map(|psb| self.store.psb(psb))
                .any(|psb| psb.template.source == *source && psb.goes(outgoing))
        };
        Some(scope?.iter().filter(goes).collect())
    }

    /// Passes an error about `failed` on to one next hop, with this TTL, or to one application, if it is of concern
    /// there.
    fn pass_resv_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        error: &ResvErr<'_>,
        failed: Option<FlowSpec>,
        ttl: u8,
    ) {
        let block = self.store.rsb(rsb);
        if !concerns(&error.error, failed.as_ref(), &block.flowspec) {
            return;
        }
        match self.store.origin(block.hop) {
            Origin::Local(Application::PROXY) => {
                if let Holder::Sender(psb) = self.store.tcsb(block.tcsb).holder {
                    let ErrorSpec { code, value, flags, .. } = error.error;
                    self.pass_failure_to_sender(cx, psb, code, value, flags);
                }
            }
            Origin::Local(application) => {
                let flags = flags_for(&error.error, failed.as_ref(), &block.flowspec);
                cx.out.notify(Event::ResvError {
                    application,
                    session: error.session,
                    error: ErrorSpec { flags, ..error.error },
                    style: error.flows.style(),
                    filters: told(&error.flows),
                    flowspec: failed,
                });
            }
            Origin::Neighbor(outgoing, hop) => emit_resv_err(self, cx, outgoing, hop, error, ttl),
        }
    }

    /// Answers a Path that is not accepted.
    pub(crate) fn send_path_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
        code: ErrorCode,
        value: u16,
    ) {
        let sender = (path.sender.template, Some(path.sender.tspec));
        self.emit_path_err(
            cx,
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
        cx: &mut HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        to: IpAddr,
        session: Session,
        sender: (SenderTemplate, Option<SenderTspec>),
        code: ErrorCode,
        value: u16,
    ) {
        let Some(interface) = cx.context.interfaces.by_id(interface) else { return };
        let Some(node) = interface.address_like(to) else { return };
        let error = ErrorSpec { node, flags: 0, code, value };
        let explanation = explanation(code, None);
        let carried = Carried::Objects(&explanation);
        let body = PathErr { session, error, carried, sender: Some(sender) };
        let how = self.to_neighbor(interface.id, node, to);
        let outgoing_message =
            OutgoingMessage::new(how).to(self.refresh_reduction.peer(interface.id, to));
        self.send_once(cx, outgoing_message, &Body::PathErr(body));
    }

    /// Answers a flow descriptor of a Resv that is refused.
    #[cold]
    #[allow(clippy::too_many_arguments)] // they are what the answer quotes
    pub(crate) fn refuse<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        flows: FlowDescriptors<'_>,
        filters: Filters,
        fault: &ResvFault,
    ) {
        let style = flows.style();
        let scope = resv.scope.filter(|_| style == Style::Wildcard);
        self.withhold_acknowledgement(cx);
        self.send_resv_err(cx, outgoing, &resv.session, resv.hop, fault, scope, flows);
        if let Some(error) = self.local_spec(cx, outgoing, resv.hop.address, fault) {
            cx.out.notify(Event::Refused {
                session: resv.session,
                style,
                filters,
                interface: outgoing,
                error,
                available_bps: fault.available.unwrap_or_default().as_bps(),
            });
        }
        self.drop(cx, datagram, DropReason::Refused);
    }

    /// Sends a ResvErr that begins at this node, to the next hop that the Resv came from.
    #[allow(clippy::too_many_arguments)] // they are the objects of the message
    fn send_resv_err<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        outgoing: InterfaceId,
        session: &Session,
        to: RsvpHop,
        fault: &ResvFault,
        scope: Option<List<'_, IpAddr>>,
        flows: FlowDescriptors<'_>,
    ) {
        let Some(error) = self.local_spec(cx, outgoing, to.address, fault) else { return };
        let explanation = explanation(fault.code, fault.preempted_by);
        let (session, carried) = (*session, Carried::Objects(&explanation));
        let error = ResvErr { session, hop: to, error, scope, carried, flows };
        emit_resv_err(self, cx, outgoing, to, &error, NEIGHBOR_TTL);
    }

    /// Tells the next hop or application of one request that its reservation is lost, or cannot be what it was, but
    /// (where that is given) `left`.
    pub(crate) fn report_loss<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        fault: &ResvFault,
        left: Option<FlowSpec>,
    ) {
        let block = self.store.rsb(rsb);
        let holder = self.store.tcsb(block.tcsb).holder;
        if let (Peer::Local(Application::PROXY), Holder::Sender(psb)) = (block.hop, holder) {
            return self.tell_sender_of_failure(cx, psb, fault);
        }
        let Some((outgoing, hop)) = self.store.neighbor_of(block.hop) else { return };
        let Some(error) = self.local_spec(cx, outgoing, hop.address, fault) else { return };
        let (flowspec, filters) = (left.or(Some(block.flowspec)), self.filters_of_request(block));
        let explanation = explanation(fault.code, fault.preempted_by);
        let scope: Option<Vec<IpAddr>> = block.scope().map(<[IpAddr]>::to_vec);
        let flow = filters.as_slice().first().map(|&filter| FixedFilterFlow { flowspec, filter });
        let error = ResvErr {
            session: self.store.session_key(holder),
            hop,
            error,
            scope: scope.as_deref().map(List::Items),
            carried: Carried::Objects(&explanation),
            flows: match self.store.style(holder) {
                Style::FixedFilter => FlowDescriptors::FixedFilter(List::Items(flow.as_slice())),
                style => shared_flows(style, flowspec, filters.as_slice()),
            },
        };
        emit_resv_err(self, cx, outgoing, hop, &error, NEIGHBOR_TTL);
    }

    /// Answers a message that could be read only in part, as far as it tells whom to answer.
    pub(crate) fn answer_malformed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        code: ErrorCode,
        value: u16,
    ) {
        let salvage = PartialMessage::scan(datagram.payload);
        let (Some(session), Some(hop)) = (salvage.session, salvage.hop) else { return };
        if !crate::path::is_neighbor(cx.context, hop.address) {
            return;
        }
        match salvage.message_type {
            MessageType::Path => {
                let Some(template) = salvage.sender_template else { return };
                let sender = (template, salvage.sender_tspec);
                let interface = datagram.interface;
                self.emit_path_err(cx, interface, hop.address, session, sender, code, value);
            }
            MessageType::Resv => {
                let Some(outgoing) = self.interface_of_lih(cx, hop.lih) else { return };
                let fault = ResvFault::new(code, value);
                match salvage.flows {
                    Some(flows) => {
                        self.send_resv_err(cx, outgoing, &session, hop, &fault, None, flows);
                    }
                    None => self.answer_unknown_style(cx, outgoing, hop, &fault, &salvage),
                }
            }
            // RFC 2205 knows no error messages about other messages.
            _ => {}
        }
    }

    /// Answers a Resv in a style that can be quoted but not understood.
    fn answer_unknown_style<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        outgoing: InterfaceId,
        to: RsvpHop,
        fault: &ResvFault,
        salvage: &PartialMessage<'_>,
    ) {
        let Some(error) = self.local_spec(cx, outgoing, to.address, fault) else { return };
        let hop = RsvpHop { address: error.node, lih: self.lih(outgoing) };
        let mut answer = [0; PartialMessage::MAX_ANSWER];
        let how = self.to_neighbor(outgoing, error.node, to.address);
        if let Ok(Some(length)) = salvage.emit_resv_err(&hop, &error, how.ttl, &mut answer) {
            cx.out.send(how, length).copy_from_slice(&answer[..length]);
            self.counters.send(MessageType::ResvErr);
        }
    }

    fn local_spec<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        outgoing: InterfaceId,
        like: IpAddr,
        fault: &ResvFault,
    ) -> Option<ErrorSpec> {
        let node = cx.context.interfaces.by_id(outgoing)?.address_like(like)?;
        Some(fault.spec(node))
    }
}

/// Sends an error to the next hop `to`, as from this node.
fn emit_resv_err<E>(
    engine: &mut Rsvp,
    cx: &mut HandlerContext<'_, '_, E>,
    outgoing: InterfaceId,
    to: RsvpHop,
    error: &ResvErr<'_>,
    ttl: u8,
) {
    let Some(interface) = cx.context.interfaces.by_id(outgoing) else { return };
    let Some(address) = interface.address_like(to.address) else { return };
    let hop = RsvpHop { address, lih: engine.lih(outgoing) };
    let how = Outgoing { ttl, ..engine.to_neighbor(outgoing, address, to.address) };
    let outgoing_message =
        OutgoingMessage::new(how).to(engine.refresh_reduction.peer(outgoing, to.address));
    engine.send_once(cx, outgoing_message, &Body::ResvErr(ResvErr { hop, ..*error }));
}

/// The TTL with which an error goes on. It shrinks from hop to hop, although each hop addresses it anew: where the hops
/// of two nodes' states point at each other, be it by a routing loop or by malice, it would go round for ever.
fn ttl_onward(datagram: &Datagram<'_>) -> Option<u8> {
    datagram.ttl.checked_sub(1).filter(|&ttl| ttl > 0).map(|ttl| ttl.min(NEIGHBOR_TTL))
}
