//! Confirmations: ResvConf towards the receiver that requested it (RFC 2205 sections 2.6 and 3.1.9; RFC 2209, RESV
//! CONFIRM ARRIVES).

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::{Context, Datagram, Outgoing};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List,
    ResvConf, Style,
};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::filters::Filters;
use crate::instance::{PROTOCOL, Rsvp};
use crate::neighbors::outgoing::to_neighbor;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::rules::blockade::Failures;
use crate::rules::merge::least_upper_bound;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::request::ConfirmRequest;
use crate::rules::shared::event_filters as told_filters;
use crate::rules::upstream::shared_flows;
use crate::state::{Extra, Holder, Index, Peer};

impl Rsvp {
    /// Returns whether a request is larger than all others for a sender, so that the confirmation must come from
    /// upstream. A request that others in place equal or exceed is not forwarded (RFC 2205 section 2.6). Requests in
    /// blockade state are neither larger nor in place.
    pub(crate) fn is_largest_request(
        &self,
        failures: &Failures,
        request: Index,
        sender: Index,
    ) -> bool {
        let holder = self.store.tcsb(self.store.rsb(request).tcsb).holder;
        let (mut own, mut others) = (None, None);
        for rsb in self.requests_for(holder, self.store.psb(sender)) {
            let flowspec = self.store.rsb(rsb).flowspec;
            if failures.block(&flowspec) {
                continue;
            }
            if rsb == request {
                own = Some(flowspec);
            } else {
                others =
                    others.map_or(Some(flowspec), |so_far| least_upper_bound(&so_far, &flowspec));
            }
        }
        match (own, others) {
            (Some(own), Some(others)) => least_upper_bound(&others, &own) != Some(others),
            (own, _) => own.is_some(),
        }
    }

    /// Returns RESV_CONFIRM for the next refresh of a request whose application waits for a confirmation: it may have failed and
    /// succeed by then, or the ResvConf may be lost, and the application would not know.
    pub(crate) fn confirm_again<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        holder: Holder,
    ) -> Option<ConfirmRequest> {
        let request = self.unconfirmed_request(holder)?;
        let filters = self.filters_of_request(self.store.rsb(request));
        let session = self.store.session_index(holder);
        let receiver = self.own_address(cx, session, filters.as_slice())?;
        Some(ConfirmRequest { receiver, request })
    }

    /// Returns a request whose application waits for a confirmation.
    #[inline]
    pub(crate) fn unconfirmed_request(&self, holder: Holder) -> Option<Index> {
        if self.applications.is_empty() {
            return None;
        }
        let mut requests = self.store.rsbs_of(self.store.find_tcsb(holder, None)?);
        let is_unconfirmed = |rsb: &Index| {
            let extra = self.store.rsb(*rsb).extra.as_deref();
            extra.is_some_and(|extra| extra.is_unconfirmed)
        };
        requests.find(is_unconfirmed)
    }

    /// Returns the address of this host for confirmations: the destination of a unicast session; for a group, the
    /// address of the incoming interface of the first of some senders, or of any.
    pub(crate) fn own_address<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        session: Index,
        filters: &[FilterSpec],
    ) -> Option<IpAddr> {
        let destination = self.store.session(session).session.destination;
        if !destination.is_multicast() {
            return Some(destination);
        }
        self.store.senders_of(session).map(|psb| self.store.psb(psb)).find_map(|psb| {
            if !psb.is_here() || !(filters.is_empty() || filters.contains(&psb.template)) {
                return None;
            }
            match self.store.neighbor_of(psb.hop) {
                None => Some(psb.template.source),
                Some((interface, hop)) => {
                    cx.context.interfaces.by_id(interface)?.address_like(hop.address)
                }
            }
        })
    }

    pub(crate) fn receive_resv_conf<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        confirmation: &ResvConf<'_>,
    ) {
        let mut datagram = *datagram;
        if datagram.encapsulated {
            // Addressed to this router, which forwards it to the receiver (RFC 2205 appendix C).
            datagram.destination = confirmation.confirm;
        }
        let datagram = &datagram;
        if datagram.destination != confirmation.confirm {
            return self.drop(cx, datagram, DropReason::BadHop);
        }
        if !cx.context.interfaces.is_local(confirmation.confirm) {
            return self.forward_resv_conf(cx, datagram, confirmation);
        }
        if let Err(reason) = self.comes_from_upstream(cx, datagram, &confirmation.session) {
            return self.drop(cx, datagram, reason);
        }
        if !self.notify_confirmed(cx, confirmation) {
            self.drop(cx, datagram, DropReason::NotForUs);
        }
    }

    /// Sends a ResvConf from this node: the reservation is in place here and no node upstream has to confirm it.
    pub(crate) fn send_resv_conf<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        ConfirmRequest { receiver, request }: ConfirmRequest,
    ) {
        let filters = self.filters_of_request(self.store.rsb(request));
        let tcsb = self.store.tcsb(self.store.rsb(request).tcsb);
        let address = tcsb
            .outgoing
            .and_then(|outgoing| cx.context.interfaces.by_id(outgoing))
            .and_then(|interface| interface.address_like(receiver));
        // A receiver on this host is notified at once.
        let node = address.unwrap_or(receiver);
        let flowspec = Some(tcsb.flowspec);
        let flow = filters.as_slice().first().map(|&filter| FixedFilterFlow { flowspec, filter });
        let confirmation = ResvConf {
            session: self.store.session_key(tcsb.holder),
            error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
            confirm: receiver,
            carried: Carried::Objects(&[]),
            flows: match self.store.style(tcsb.holder) {
                Style::FixedFilter => FlowDescriptors::FixedFilter(List::Items(flow.as_slice())),
                style => shared_flows(style, flowspec, filters.as_slice()),
            },
        };
        if let Peer::Local(application) = self.store.rsb(request).hop {
            self.note_confirmed(request);
            // Other applications of this host have not requested a confirmation, or have requested more.
            let (session, style) = (confirmation.session, confirmation.flows.style());
            let reach = Box::new(self.reach_of_receiver(cx, &session, &filters, node));
            let event = Event::Confirmed { application, session, node, style, filters, reach };
            cx.out.notify(event);
            return;
        }
        if cx.context.interfaces.is_local(receiver) {
            self.notify_confirmed(cx, &confirmation);
            return;
        }
        let data = self.data_confirmed(cx.context, &confirmation);
        let by_flow = data.and_then(|data| data.hop(cx.context));
        let how = Outgoing {
            interface: by_flow.map(|hop| hop.interface),
            router_alert: true,
            next_hop: by_flow.and_then(|hop| hop.gateway),
            ..to_neighbor(node, receiver)
        };
        let peer = self.refresh_reduction.peer_towards(cx, None, receiver, |context| {
            by_flow.or_else(|| context.routes.lookup(receiver))
        });
        self.send_once(cx, OutgoingMessage::new(how).via(peer), &Body::ResvConf(confirmation));
    }

    /// Forwards a ResvConf by one hop. The message is rebuilt, so that each hop can sign it.
    fn forward_resv_conf<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        confirmation: &ResvConf<'_>,
    ) {
        if datagram.ttl <= 1 {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        }
        let data = self.data_confirmed(cx.context, confirmation);
        let next_hops = match &data {
            Some(data) => NextHops::of_sender(cx.context, data),
            None => NextHops::of(cx.context, confirmation.confirm),
        };
        let interface = match next_hops {
            NextHops::Out(interface) => interface,
            NextHops::WithoutRsvp => return self.relay(cx, datagram),
            NextHops::Here | NextHops::None | NextHops::Branches(_) | NextHops::WrongInterface => {
                return self.drop(cx, datagram, DropReason::NoRoute);
            }
        };
        let receiver = confirmation.confirm;
        let peer = self.refresh_reduction.peer_towards(cx, Some(interface), receiver, |context| {
            data.map_or_else(|| context.routes.lookup(receiver), |data| data.hop(context))
        });
        let link = cx.context.interfaces.by_id(interface);
        let own = link.and_then(|link| link.address_like(confirmation.confirm));
        let how = Outgoing {
            interface: Some(interface),
            // A receiver that gets a MESSAGE_ID must know the address to acknowledge it to.
            source: peer.and(own).unwrap_or(datagram.source),
            router_alert: true,
            next_hop: data.and_then(|data| data.next_hop(cx.context, interface)),
            ..datagram.forwarded(PROTOCOL)
        };
        self.send_once(cx, OutgoingMessage::new(how).via(peer), &Body::ResvConf(*confirmation));
    }

    /// Returns the data of the first known sender in a ResvConf, if the ResvConf goes to the destination of the data
    /// and the route there depends on the flow.
    fn data_confirmed(
        &self,
        context: &Context<'_>,
        confirmation: &ResvConf<'_>,
    ) -> Option<SenderData> {
        let session = confirmation.session;
        if confirmation.confirm != session.destination
            || !context.routes.differs_by_flow(session.destination)
        {
            return None;
        }
        let known = |filter: &FilterSpec| self.store.find_sender(&session, filter);
        let sender = match confirmation.flows {
            FlowDescriptors::FixedFilter(flows) => {
                flows.into_iter().find_map(|flow| known(&flow.filter))
            }
            FlowDescriptors::SharedExplicit(_, filters) => {
                filters.into_iter().find_map(|filter| known(&filter))
            }
            FlowDescriptors::Wildcard(_) => {
                let session = self.store.find_session(&session)?;
                self.store.senders_of(session).next()
            }
        };
        sender.map(|sender| self.sender_data(sender))
    }

    /// Sends RESV_CONFIRM to every application that has reserved one of the flows. Returns whether there was one.
    fn notify_confirmed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        confirmation: &ResvConf<'_>,
    ) -> bool {
        let session = confirmation.session;
        let mut is_notified = false;
        if let FlowDescriptors::FixedFilter(flows) = confirmation.flows {
            for flow in flows {
                if let Some(psb) = self.store.find_sender(&session, &flow.filter) {
                    let filters = Filters::One(flow.filter);
                    let holder = Holder::Sender(psb);
                    is_notified |= self.notify_confirmed_in(cx, holder, confirmation, &filters);
                }
            }
        } else if let Some(pool) =
            self.store.find_session(&session).and_then(|index| self.store.pool_of(index))
            && self.store.pool(pool).style == confirmation.flows.style()
        {
            let filters = told_filters(&confirmation.flows);
            is_notified = self.notify_confirmed_in(cx, Holder::Pool(pool), confirmation, &filters);
        }
        is_notified
    }

    /// Sends RESV_CONFIRM to the applications of this host with a request in a reservation. Returns whether there was one.
    fn notify_confirmed_in<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        confirmation: &ResvConf<'_>,
        filters: &Filters,
    ) -> bool {
        let Some(tcsb) = self.store.find_tcsb(holder, None) else { return false };
        let (session, node) = (confirmation.session, confirmation.error.node);
        let mut is_notified = false;
        let mut next = self.store.first_rsb(tcsb);
        while let Some(rsb) = next {
            next = self.store.next_rsb(rsb);
            let Peer::Local(application) = self.store.rsb(rsb).hop else { continue };
            self.note_confirmed(rsb);
            is_notified = true;
            let (style, filters) = (confirmation.flows.style(), filters.clone());
            let reach = Box::new(self.reach_of_receiver(cx, &session, &filters, node));
            let event = Event::Confirmed { application, session, node, style, filters, reach };
            cx.out.notify(event);
        }
        is_notified
    }

    /// Records that the application of a request was told of its confirmation.
    fn note_confirmed(&mut self, request: Index) {
        let request = self.store.rsb_mut(request);
        if let Some(extra) = request.extra.take() {
            request.extra = Extra { is_unconfirmed: false, ..*extra }.boxed();
        }
    }
}
