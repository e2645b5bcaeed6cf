//! Errors: PathErr towards senders, ResvErr towards receivers (RFC 2205 sections 3.1.7 and 3.1.8; RFC 2209, PERR and
//! RERR MESSAGE ARRIVES).

mod resv_err;

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow, FlowDescriptors, List, MessageType,
    PartialMessage, Path, PathErr, Resv, ResvErr, RsvpHop, SenderTemplate, Session, Style,
};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::filters::Filters;
use crate::instance::{ERROR_HOPS, Rsvp};
use crate::rules::fault::ResvFault;
use crate::rules::policy::{explanation, stated_reason};
use crate::rules::upstream::shared_flows;
use crate::state::applications::PROXY;
use crate::state::{Holder, Index, Kept, Origin, Peer};

impl Rsvp {
    pub(crate) fn receive_path_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        send_ttl: u8,
        error: &PathErr<'_>,
    ) {
        let found = error
            .sender
            .and_then(|(template, _)| self.store.find_sender(&error.session, &template));
        let Some(index) = found else {
            return self.drop(cx, datagram, DropReason::NoState);
        };
        if let Err(reason) = self.comes_from_downstream(cx, datagram, index) {
            return self.drop(cx, datagram, reason);
        }
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
                explanation: stated_reason(error.carried).map(Box::new),
            }),
            Origin::Neighbor(incoming, hop) => {
                let Some(hops_left) = hops_left(send_ttl) else {
                    return self.drop(cx, datagram, DropReason::TtlExpired);
                };
                let is_removed = self.follows_removal(index, &error.error);
                if let Some((_, message)) = self.message_to(cx, incoming, hop.address) {
                    let message = message.with_send_ttl(hops_left);
                    let mut error = *error;
                    // Only a node that has removed its state says so (RFC 3473 section 4.4).
                    if !is_removed {
                        error.error.flags &= !ErrorSpec::PATH_STATE_REMOVED;
                    }
                    self.send_once(cx, message, &Body::PathErr(error));
                }
                if is_removed {
                    self.forget_sender(cx, index);
                }
            }
        }
    }

    /// Returns whether the path state of a sender is removed with that of the next hop (RFC 3473 section 4.4). The next hop
    /// has no say over other branches.
    fn follows_removal(&self, index: Index, error: &ErrorSpec) -> bool {
        self.config.remove_path_state
            && error.flags & ErrorSpec::PATH_STATE_REMOVED != 0
            && self.store.psb(index).outgoing.as_slice().len() == 1
            && !self.store.psb(index).is_here()
    }

    /// Sends a PathErr for a Path that is rejected.
    pub(crate) fn send_path_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
        fault: &ResvFault,
    ) {
        let sender = (path.sender.template, Some(path.sender.tspec));
        let (interface, hop) = (datagram.interface, path.hop.address);
        if let Some(error) = self.local_spec(cx, interface, hop, fault) {
            self.notify_upstream(cx, path.carried, Some(hop), error, path.session, sender);
        }
        self.emit_path_err(cx, interface, hop, path.session, sender, fault);
    }

    fn emit_path_err<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        to: IpAddr,
        session: Session,
        sender: (SenderTemplate, Option<SenderTspec>),
        fault: &ResvFault,
    ) {
        if !self.may_send_error(cx, interface, to) {
            return;
        }
        let Some((node, message)) = self.message_to(cx, interface, to) else { return };
        let error = fault.spec(node);
        let explanation = explanation(fault);
        let carried = Carried::Objects(&explanation);
        let body = PathErr { session, error, carried, sender: Some(sender) };
        self.send_once(cx, message.with_send_ttl(ERROR_HOPS), &Body::PathErr(body));
    }

    /// Sends a ResvErr for a flow descriptor that is refused.
    #[cold]
    #[allow(clippy::too_many_arguments)] // objects that the error quotes
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
        if self.awaits_path(cx.now, fault) {
            return self.drop_unacknowledged(cx, datagram, DropReason::NoState);
        }
        let style = flows.style();
        let scope = resv.scope.filter(|_| style == Style::Wildcard);
        self.withhold_acknowledgement(cx);
        self.send_resv_err(cx, outgoing, &resv.session, resv.hop, fault, scope, flows);
        if let Some(error) = self.local_spec(cx, outgoing, resv.hop.address, fault) {
            let explanation = explanation(fault);
            let about = (resv.session, Carried::Objects(&explanation));
            self.notify_downstream(cx, resv.carried, resv.hop.address, error, about, &flows);
            cx.out.notify(Event::Refused {
                session: resv.session,
                style,
                filters,
                interface: outgoing,
                error,
                available_bps: fault.available.unwrap_or_default().as_bps(),
                explanation: fault.token.map(|error| Box::new(error.to_string())),
            });
        }
        self.drop(cx, datagram, DropReason::Refused);
    }

    /// Sends a ResvErr that originates at this node to the next hop that sent the Resv.
    #[allow(clippy::too_many_arguments)] // objects of the message
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
        if !self.may_send_error(cx, outgoing, to.address) {
            return;
        }
        let explanation = explanation(fault);
        let (session, carried) = (*session, Carried::Objects(&explanation));
        let error = ResvErr { session, hop: to, error, scope, carried, flows };
        emit_resv_err(self, cx, outgoing, to, &error, ERROR_HOPS);
    }

    /// Reports to the next hop or application of one request that its reservation was lost, or reduced to `left`.
    pub(crate) fn report_loss<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        fault: &ResvFault,
        left: Option<FlowSpec>,
    ) {
        let block = self.store.rsb(rsb);
        let holder = self.store.tcsb(block.tcsb).holder;
        if let (Peer::Local(PROXY), Holder::Sender(psb)) = (block.hop, holder) {
            return self.report_proxy_failure(cx, psb, fault);
        }
        let Some((outgoing, hop)) = self.store.neighbor_of(block.hop) else { return };
        let Some(error) = self.local_spec(cx, outgoing, hop.address, fault) else { return };
        let (flowspec, filters) = (left.or(Some(block.flowspec)), self.filters_of_request(block));
        let explanation = explanation(fault);
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
        let asked = Kept::of(Carried::Objects(self.store.rsb(rsb).carried()));
        let (asked, about) = (Carried::Objects(asked.octets()), (error.session, error.carried));
        self.notify_downstream(cx, asked, hop.address, error.error, about, &error.flows);
        emit_resv_err(self, cx, outgoing, hop, &error, ERROR_HOPS);
    }

    /// Sends an error for a message that was parsed only in part, if the receiver of the error is known.
    pub(crate) fn answer_malformed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        code: ErrorCode,
        value: u16,
    ) {
        let salvage = PartialMessage::scan(datagram.payload);
        let Some(hop) = salvage.hop else { return };
        if !crate::neighbors::address::is_neighbor(cx.context, hop.address) {
            return;
        }
        match salvage.message_type {
            MessageType::Path => {
                let interface = datagram.interface;
                let fault = ResvFault::new(code, value);
                match (salvage.session, salvage.sender_template) {
                    (Some(session), Some(template)) => {
                        let sender = (template, salvage.sender_tspec);
                        self.emit_path_err(cx, interface, hop.address, session, sender, &fault);
                    }
                    _ => self.answer_unknown_sender(cx, interface, hop.address, &fault, &salvage),
                }
            }
            MessageType::Resv => {
                let Ok(outgoing) = self.comes_from_next_hop(cx, datagram, hop) else { return };
                let fault = ResvFault::new(code, value);
                match (salvage.session, salvage.flows) {
                    (Some(session), Some(flows)) if salvage.unknown.filter.is_none() => {
                        self.send_resv_err(cx, outgoing, &session, hop, &fault, None, flows);
                    }
                    _ => self.answer_unknown_flows(cx, outgoing, hop, &fault, &salvage),
                }
            }
            // RFC 2205 defines no error messages for other messages.
            _ => {}
        }
    }

    /// Sends a PathErr for a Path whose session or sender has an unknown form, which is quoted unparsed.
    fn answer_unknown_sender<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        to: IpAddr,
        fault: &ResvFault,
        salvage: &PartialMessage<'_>,
    ) {
        let Some(error) = self.local_spec(cx, interface, to, fault) else { return };
        let mut answer = [0; PartialMessage::MAX_ANSWER];
        if let Ok(Some(length)) = salvage.emit_path_err(&error, ERROR_HOPS, &mut answer) {
            self.send_quoting(cx, interface, (error.node, to), &answer[..length]);
        }
    }

    /// Sends a ResvErr for a Resv in an unknown style, or about flows in an unknown form, which are quoted unparsed.
    fn answer_unknown_flows<E>(
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
        if let Ok(Some(length)) = salvage.emit_resv_err(&hop, &error, ERROR_HOPS, &mut answer) {
            self.send_quoting(cx, outgoing, (error.node, to.address), &answer[..length]);
        }
    }

    /// Sends an error that quotes objects unparsed, within the limit of errors.
    fn send_quoting<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        (from, to): (IpAddr, IpAddr),
        octets: &[u8],
    ) {
        if self.may_send_error(cx, interface, to) {
            let how = self.to_neighbor(interface, from, to);
            cx.out.send(how, octets.len()).copy_from_slice(octets);
            self.counters.send(MessageType::from_code(octets[1]));
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

/// Sends a ResvErr from this node to the next hop `to`.
fn emit_resv_err<E>(
    engine: &mut Rsvp,
    cx: &mut HandlerContext<'_, '_, E>,
    outgoing: InterfaceId,
    to: RsvpHop,
    error: &ResvErr<'_>,
    send_ttl: u8,
) {
    let Some((address, message)) = engine.message_to(cx, outgoing, to.address) else { return };
    let hop = RsvpHop { address, lih: engine.lih(outgoing) };
    let message = message.with_send_ttl(send_ttl);
    engine.send_once(cx, message, &Body::ResvErr(ResvErr { hop, ..*error }));
}

/// Returns the Send_TTL of a forwarded error: the number of nodes that may still forward it. If the states of two nodes
/// name each other as next hop, by a routing loop or by malice, the error would circulate forever without it. The TTL of
/// the packet cannot serve, because it shows that the sender is a neighbour.
fn hops_left(send_ttl: u8) -> Option<u8> {
    match send_ttl {
        0 => Some(ERROR_HOPS), // not set
        hops => Some(hops.min(ERROR_HOPS) - 1).filter(|&hops| hops > 0),
    }
}
