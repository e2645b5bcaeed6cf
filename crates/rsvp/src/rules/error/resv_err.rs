//! ResvErr of the previous hop: its effect here, and its way to the receivers (RFC 2205 section 3.1.8).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, List, ResvErr, Style,
};

use super::{emit_resv_err, hops_left};
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::rules::blockade::{concerns, flags_for};
use crate::rules::merge::is_greater;
use crate::rules::policy::stated_reason;
use crate::rules::shared::{event_filters, filters_of, flowspec_of};
use crate::rules::upstream::{SendOptions, shared_flows};
use crate::state::applications::PROXY;
use crate::state::{Blocked, Holder, Index, Origin, Peer};

impl Rsvp {
    pub(crate) fn receive_resv_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        send_ttl: u8,
        error: &ResvErr<'_>,
    ) {
        let Some(hops_left) = hops_left(send_ttl) else {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        };
        let verdict = match error.flows {
            FlowDescriptors::FixedFilter(flows) => {
                let mut verdict = Err(DropReason::NoState);
                for flow in flows {
                    let outcome = self.receive_distinct_err(cx, datagram, error, &flow, hops_left);
                    if verdict.is_err() {
                        verdict = outcome;
                    }
                }
                verdict
            }
            _ => self.receive_shared_err(cx, datagram, error, hops_left),
        };
        if let Err(reason) = verdict {
            self.drop(cx, datagram, reason);
        }
    }

    /// Handles an error about a fixed-filter reservation. Only the previous hop of its sender is believed.
    fn receive_distinct_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
        flow: &FixedFilterFlow,
        hops_left: u8,
    ) -> Result<(), DropReason> {
        let sender = self.store.find_sender(&error.session, &flow.filter);
        let psb = sender.ok_or(DropReason::NoState)?;
        let incoming = self.comes_from_previous_hop(cx, datagram, psb, error.hop.address)?;
        self.note_failure(cx, incoming, &error.error, Blocked::Sender(psb), flow.flowspec);
        // A summary refresh would repeat the request that has failed.
        self.forget_resv_message_id(psb);
        let options = SendOptions { failed: flow.flowspec, ..SendOptions::default() };
        self.send_difference(cx, Holder::Sender(psb), &options);
        let flows = FlowDescriptors::FixedFilter(List::Items(core::slice::from_ref(flow)));
        let mut found_any = false;
        let tcsbs: Vec<Index> = self.store.tcsbs_of(Holder::Sender(psb)).collect();
        for tcsb in tcsbs {
            let outgoing = self.store.tcsb(tcsb).outgoing;
            if outgoing == Some(incoming) && !self.store.psb(psb).leaves_through(outgoing) {
                continue;
            }
            let mut next = self.store.first_rsb(tcsb);
            while let Some(rsb) = next {
                next = self.store.next_rsb(rsb);
                found_any = true;
                let passed = ResvErr { flows, ..*error };
                self.forward_resv_err(cx, rsb, &passed, flow.flowspec, hops_left);
            }
        }
        if found_any { Ok(()) } else { Err(DropReason::NoState) }
    }

    /// Handles an error about a shared reservation. Only previous hops of its senders are believed.
    fn receive_shared_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ResvErr<'_>,
        hops_left: u8,
    ) -> Result<(), DropReason> {
        let style = error.flows.style();
        let session = self.store.find_session(&error.session).ok_or(DropReason::NoState)?;
        let pool = self.store.pool_of(session).ok_or(DropReason::NoState)?;
        if self.store.pool(pool).style != style {
            return Err(DropReason::NoState);
        }
        let failed = flowspec_of(&error.flows);
        let named = filters_of(&error.flows);
        let concerned: Vec<Index> = match style {
            Style::Wildcard => self.store.senders_of(session).collect(),
            _ => named
                .iter()
                .filter_map(|spec| self.store.find_sender(&error.session, spec))
                .collect(),
        };
        let mut verdict = Err(DropReason::NoState);
        let mut hops: Vec<Peer> = Vec::new();
        for &psb in &concerned {
            let incoming = self.comes_from_previous_hop(cx, datagram, psb, error.hop.address);
            if let Ok(incoming) = incoming {
                let peer = self.store.psb(psb).hop;
                if !hops.contains(&peer) {
                    hops.push(peer);
                }
                let hop = self.store.neighbor_index(peer);
                let blocked = match (style, hop) {
                    (Style::Wildcard, Some(hop)) => Blocked::Hop(pool, hop),
                    _ => Blocked::Sender(psb),
                };
                self.note_failure(cx, incoming, &error.error, blocked, failed);
                verdict = Ok(incoming);
                if style == Style::Wildcard {
                    break; // one hop, whatever the number of senders behind it
                }
            } else if verdict.is_err() {
                verdict = incoming;
            }
        }
        let incoming = verdict?;
        self.forget_shared_message_ids(pool);
        let options = SendOptions { failed, ..SendOptions::default() };
        self.send_difference(cx, Holder::Pool(pool), &options);
        let mut found_any = false;
        let tcsbs: Vec<Index> = self.store.tcsbs_of(Holder::Pool(pool)).collect();
        for tcsb in tcsbs {
            let outgoing = self.store.tcsb(tcsb).outgoing;
            let scope = self.scope_through(pool, outgoing, error.scope);
            // RFC 2209 forwards nothing through the incoming interface; the data of a hub leave by it.
            let leaves = |&psb: &Index| self.store.psb(psb).leaves_through(outgoing);
            let is_back = outgoing == Some(incoming) && !concerned.iter().any(leaves);
            if is_back || scope.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let mut next = self.store.first_rsb(tcsb);
            while let Some(rsb) = next {
                next = self.store.next_rsb(rsb);
                let wanted = self.store.rsb(rsb).filters();
                let common = |filter: &&FilterSpec| wanted.iter().any(|f| f.spec == **filter);
                let mut common: Vec<FilterSpec> = named.iter().filter(common).copied().collect();
                if style == Style::SharedExplicit && common.is_empty() {
                    common = self.senders_blocked_with(rsb, &error.error, failed.as_ref(), &hops);
                    if common.is_empty() {
                        continue;
                    }
                }
                found_any = true;
                let flows = shared_flows(style, failed, &common);
                let scope = scope.as_deref().map(List::Items);
                self.forward_resv_err(
                    cx,
                    rsb,
                    &ResvErr { flows, scope, ..*error },
                    failed,
                    hops_left,
                );
            }
        }
        if found_any { Ok(()) } else { Err(DropReason::NoState) }
    }

    /// Returns the senders of a shared-explicit request that are behind these previous hops, if the request is blocked there
    /// by the failure for another sender.
    fn senders_blocked_with(
        &self,
        rsb: Index,
        error: &ErrorSpec,
        failed: Option<&FlowSpec>,
        hops: &[Peer],
    ) -> Vec<FilterSpec> {
        let block = self.store.rsb(rsb);
        let is_failure = error.code == ErrorCode::AdmissionControlFailure;
        if !is_failure || failed.is_none_or(|failed| is_greater(failed, &block.flowspec)) {
            return Vec::new();
        }
        let session = self.store.session_key(self.store.tcsb(block.tcsb).holder);
        let is_behind = |spec: &FilterSpec| {
            let sender = self.store.find_sender(&session, spec);
            sender.is_some_and(|sender| hops.contains(&self.store.psb(sender).hop))
        };
        block.filters().iter().map(|filter| filter.spec).filter(is_behind).collect()
    }

    /// Returns the senders of a SCOPE object whose data uses an interface; `None` without SCOPE.
    fn scope_through(
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
                .any(|psb| psb.template.source == *source && psb.leaves_through(outgoing))
        };
        Some(scope?.iter().filter(goes).collect())
    }

    /// Forwards an error about `failed` to one next hop, with this Send_TTL, or to one application, if it is concerned.
    fn forward_resv_err<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        error: &ResvErr<'_>,
        failed: Option<FlowSpec>,
        hops_left: u8,
    ) {
        let block = self.store.rsb(rsb);
        if !concerns(&error.error, failed.as_ref(), &block.flowspec) {
            return;
        }
        match self.store.origin(block.hop) {
            Origin::Local(PROXY) => {
                if let Holder::Sender(psb) = self.store.tcsb(block.tcsb).holder {
                    self.report_proxy_error(cx, psb, &error.error);
                }
            }
            Origin::Local(application) => {
                let flags = flags_for(&error.error, failed.as_ref(), &block.flowspec);
                let open = self.applications.open.get(&application);
                if flags & ErrorSpec::IN_PLACE == 0
                    && open.is_some_and(|open| open.wants_confirmation)
                {
                    self.store.rsb_mut(rsb).extra.get_or_insert_default().is_unconfirmed = true;
                }
                cx.out.notify(Event::ResvError {
                    application,
                    session: error.session,
                    error: ErrorSpec { flags, ..error.error },
                    style: error.flows.style(),
                    filters: event_filters(&error.flows),
                    flowspec: failed,
                    explanation: stated_reason(error.carried).map(Box::new),
                });
            }
            Origin::Neighbor(outgoing, hop) => {
                emit_resv_err(self, cx, outgoing, hop, error, hops_left);
            }
        }
    }
}
