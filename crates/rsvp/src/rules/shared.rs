//! Requests in the shared styles WF and SE: created, refreshed, changed and removed (RFC 2209, RESV and RTEAR MESSAGE
//! ARRIVES).

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    ErrorCode, FilterSpec, FlowDescriptors, List, Resv, ResvTear, Session, Style,
};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::filters::Filters;
use crate::instance::Rsvp;
use crate::neighbors::address::is_unicast;
use crate::rules::fault::ResvFault;
use crate::rules::request::Request;
use crate::rules::upstream::SendOptions;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::{ExistingRequest, NamedBlock};
use crate::state::{Block, Dropped, Extra, Filter, Holder, Index, Kept, Origin, first_end};

impl Rsvp {
    pub(crate) fn receive_shared_resv<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        expires_at: Time,
    ) {
        // Taken out and reused, so that a refresh allocates nothing.
        let mut named = core::mem::take(&mut self.sender_buffer);
        let done = self.shared_request(cx, resv, outgoing, expires_at, &mut named);
        self.sender_buffer = named;
        let Err(fault) = done else { return };
        let in_place = self.keep_shared(cx.now, resv, outgoing, expires_at);
        let fault = ResvFault { in_place, ..fault };
        let filters = filters_of(&resv.flows);
        self.refuse(cx, datagram, resv, outgoing, resv.flows, filters.into(), &fault);
    }

    /// Creates, changes or refreshes the request of a next hop. `specs` is a buffer for its senders.
    fn shared_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        expires_at: Time,
        specs: &mut Vec<FilterSpec>,
    ) -> Result<(), ResvFault> {
        let Some(session) = self.store.find_session(&resv.session) else {
            return Err(ResvFault::new(ErrorCode::NoPathInformation, 0));
        };
        mark(Checkpoint::FindSession);
        let style = resv.flows.style();
        self.discover_shared_receiver(cx, session, outgoing);
        self.check_style(session, style)?;
        mark(Checkpoint::CheckStyles);
        let Some(flowspec) = flowspec_of(&resv.flows) else {
            return Err(ResvFault::bad_flowspec());
        };
        let wanted = match resv.flows {
            FlowDescriptors::SharedExplicit(_, filters) => filters,
            _ => List::EMPTY,
        };
        self.senders_towards(session, &resv.session, style, wanted, Some(outgoing), specs)?;
        let origin = Origin::Neighbor(outgoing, resv.hop);
        let known = self.find_shared(session, Some(outgoing), origin);
        let rsb = known.rsb;
        mark(Checkpoint::FindRsb);
        if rsb.is_some_and(|rsb| self.is_overtaken(cx, self.store.rsb(rsb).message_id)) {
            return Ok(()); // a later message has set the state
        }
        if let Some(rsb) = rsb
            && resv.confirm.is_none()
            && self.is_same_shared_request(rsb, &flowspec, resv, specs)
        {
            self.refresh_shared(cx.now, rsb, specs, expires_at);
            self.store_shared_message_id(cx, rsb, wanted.len(), specs.len());
            return Ok(());
        }
        if flowspec.validate().is_err() {
            return Err(ResvFault::bad_flowspec());
        }
        let scope: Option<Vec<_>> = resv.scope.map(|scope| scope.iter().collect());
        let limit = self.config.max_senders as usize;
        if Kept::length(resv.carried) > self.config.max_kept_octets as usize
            || scope.as_ref().is_some_and(|scope| scope.len() > limit)
        {
            return Err(ResvFault::limit_reached());
        }
        let mut filters: Vec<Filter> =
            specs.iter().map(|&spec| Filter { spec, expires_at }).collect();
        let older = rsb.map_or(&[][..], |rsb| self.store.rsb(rsb).filters());
        filters.extend(older.iter().filter(|old| specs.binary_search(&old.spec).is_err()));
        filters.sort_unstable_by_key(|filter| filter.spec);
        let request = Request {
            origin,
            outgoing: Some(outgoing),
            flowspec,
            expires_at: first_end(&filters).unwrap_or(expires_at),
            extra: Extra {
                carried: Kept::of(resv.carried),
                filters,
                lacks_senders: false,
                is_unconfirmed: false,
                scope,
                grant: None,
            }
            .boxed(),
            confirm: resv.confirm.filter(|&receiver| is_unicast(receiver)),
        };
        let rsb = self.reserve_shared(cx, session, style, known, request)?;
        if cx.is_from_this_link {
            self.store.note_near(self.store.rsb(rsb).hop);
        }
        self.store_shared_message_id(cx, rsb, wanted.len(), specs.len());
        Ok(())
    }

    /// Stores the MESSAGE_ID of a message in the block of its request. The identifier can stand for the request only if the
    /// request has no other senders. It may have fewer, until one of those is announced.
    fn store_shared_message_id<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        named: usize,
        found: usize,
    ) {
        if self.store.rsb(rsb).filters().len() != found {
            cx.message_id = MessageIdKey::NONE;
        }
        if let Some(extra) = &mut self.store.rsb_mut(rsb).extra {
            extra.lacks_senders = found != named && cx.message_id.is_some();
        }
        self.store_message_id(cx, NamedBlock::new(Block::Reservation, rsb));
    }

    /// Forgets the MESSAGE_IDs of requests that name senders which were unknown, or whose data did not pass the interface, and
    /// may do so now: the answer to the next summary refresh makes their next hops send them whole.
    #[cold]
    pub(crate) fn forget_incomplete_requests(&mut self, pool: Index) {
        if self.refresh_reduction.has_no_peers() {
            return;
        }
        let tcsbs = self.store.tcsbs_of(Holder::Pool(pool));
        let requests = tcsbs.flat_map(|tcsb| self.store.rsbs_of(tcsb));
        let lacks = |&rsb: &Index| {
            let extra = self.store.rsb(rsb).extra.as_deref();
            extra.is_some_and(|extra| extra.lacks_senders)
        };
        let incomplete: Vec<Index> = requests.filter(lacks).collect();
        for rsb in incomplete {
            let named = NamedBlock::new(Block::Reservation, rsb);
            self.store.set_message_id(named, MessageIdKey::NONE);
        }
    }

    /// Creates or changes a shared reservation; returns the block of the request.
    pub(crate) fn reserve_shared<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        session: Index,
        style: Style,
        known: ExistingRequest,
        request: Request,
    ) -> Result<Index, ResvFault> {
        let found = self.store.pool_of(session);
        let pool = found.unwrap_or_else(|| self.store.insert_pool(session, style));
        let done = self.reserve(cx, Holder::Pool(pool), known, request);
        if done.is_err() && found.is_none() {
            self.store.remove_pool(pool);
        }
        done
    }

    /// Checks the style of a session, which has one at a time; the error contains that style.
    pub(crate) fn check_style(&self, session: Index, style: Style) -> Result<(), ResvFault> {
        let present = match self.store.pool_of(session) {
            Some(pool) => self.store.pool(pool).style,
            None if self.store.session(session).distinct > 0 => Style::FixedFilter,
            None => return Ok(()),
        };
        if present == style {
            return Ok(());
        }
        Err(ResvFault::new(ErrorCode::ConflictingStyle, present.option_vector()))
    }

    /// Writes into `matching` the senders that filters name and whose data uses an outgoing interface, in ascending
    /// order; none for WF if there is any sender.
    pub(crate) fn senders_towards(
        &self,
        session: Index,
        key: &Session,
        style: Style,
        filters: List<'_, FilterSpec>,
        outgoing: Option<InterfaceId>,
        matching: &mut Vec<FilterSpec>,
    ) -> Result<(), ResvFault> {
        let none = ResvFault::new(ErrorCode::NoSenderInformation, 0);
        matching.clear();
        if filters.len() > self.config.max_senders as usize {
            return Err(ResvFault::limit_reached());
        }
        if style == Style::Wildcard {
            let any =
                self.store.senders_of(session).any(|i| self.store.psb(i).leaves_through(outgoing));
            return if any { Ok(()) } else { Err(none) };
        }
        let goes = |filter: &FilterSpec| {
            let sender = self.store.find_sender(key, filter);
            sender.is_some_and(|psb| self.store.psb(psb).leaves_through(outgoing))
        };
        matching.extend(filters.iter().filter(goes));
        matching.sort_unstable();
        matching.dedup();
        if matching.is_empty() { Err(none) } else { Ok(()) }
    }

    /// Returns the existing blocks for a request in a session's shared reservation on an outgoing interface.
    pub(crate) fn find_shared(
        &self,
        session: Index,
        outgoing: Option<InterfaceId>,
        origin: Origin,
    ) -> ExistingRequest {
        let holder = self.store.pool_of(session).map(Holder::Pool);
        holder.map_or(ExistingRequest::default(), |holder| {
            self.store.find_request(holder, outgoing, origin)
        })
    }

    fn is_same_shared_request(
        &self,
        rsb: Index,
        flowspec: &FlowSpec,
        resv: &Resv<'_>,
        specs: &[FilterSpec],
    ) -> bool {
        let rsb = self.store.rsb(rsb);
        let same_scope = match (rsb.scope(), resv.scope) {
            (None, None) => true,
            (Some(old), Some(new)) => old.iter().copied().eq(new.iter()),
            _ => false,
        };
        rsb.flowspec == *flowspec
            && same_scope
            && rsb.carries(resv.carried)
            && specs.iter().all(|spec| rsb.has_filter(spec))
    }

    /// Extends the lifetime of the filters in a message, and sets that of the request to the earliest end of all
    /// filters.
    fn refresh_shared(&mut self, now: Time, rsb: Index, specs: &[FilterSpec], expires_at: Time) {
        let block = self.store.rsb_mut(rsb);
        let mut first = expires_at;
        if let Some(extra) = block.extra.as_deref_mut() {
            for filter in &mut extra.filters {
                if specs.binary_search(&filter.spec).is_ok() {
                    filter.expires_at = expires_at;
                }
            }
            first = first_end(&extra.filters).unwrap_or(expires_at);
        }
        self.refresh_reservation(now, rsb, first);
    }

    /// Handles a refused request: the reservation that its next hop has stays, and counts as refreshed.
    #[cold]
    fn keep_shared(
        &mut self,
        now: Time,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        expires_at: Time,
    ) -> bool {
        let pool = self.store.find_session(&resv.session).and_then(|i| self.store.pool_of(i));
        let Some(pool) = pool.filter(|&i| self.store.pool(i).style == resv.flows.style()) else {
            return false;
        };
        let origin = Origin::Neighbor(outgoing, resv.hop);
        let known = self.store.find_request(Holder::Pool(pool), Some(outgoing), origin);
        if let Some(rsb) = known.rsb {
            let mut specs = filters_of(&resv.flows);
            specs.sort_unstable();
            self.refresh_shared(now, rsb, &specs, expires_at);
        }
        known.tcsb.is_some()
    }

    /// Handles a ResvTear in a shared style. Returns whether there was anything to tear.
    pub(crate) fn receive_shared_tear<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tear: &ResvTear<'_>,
        outgoing: InterfaceId,
    ) -> bool {
        let origin = Origin::Neighbor(outgoing, tear.hop);
        let found = self.store.find_session(&tear.session).and_then(|session| {
            let pool = self.store.pool_of(session)?;
            Some((pool, self.find_shared(session, Some(outgoing), origin).rsb?))
        });
        let Some((pool, rsb)) = found else { return false };
        if self.is_overtaken(cx, self.store.rsb(rsb).message_id) {
            return false;
        }
        match (self.store.pool(pool).style, tear.flows) {
            (Style::Wildcard, FlowDescriptors::Wildcard(_)) => {
                self.withdraw(cx, rsb, Change::Torn);
            }
            (Style::SharedExplicit, FlowDescriptors::SharedExplicit(..)) => {
                let mut gone = filters_of(&tear.flows);
                gone.sort_unstable();
                let named = |filter: &Filter| gone.binary_search(&filter.spec).is_ok();
                if !self.drop_filters(cx, rsb, named, Change::Torn) {
                    return false;
                }
            }
            _ => return false,
        }
        let options = SendOptions { carried: tear.carried, ..SendOptions::default() };
        self.send_difference(cx, Holder::Pool(pool), &options);
        true
    }

    /// Removes some filters of a request, and the request if none remain. Returns whether there were any.
    pub(crate) fn drop_filters<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        goes: impl Fn(&Filter) -> bool,
        change: Change,
    ) -> bool {
        match self.store.rsb_mut(rsb).drop_filters(goes) {
            Dropped::None => return false,
            Dropped::Some => self.update_traffic_control(cx, self.store.rsb(rsb).tcsb),
            Dropped::All => self.withdraw(cx, rsb, change),
        }
        true
    }
}

/// Returns the filter specs of shared-explicit descriptors; none for WF.
pub(crate) fn filters_of(flows: &FlowDescriptors<'_>) -> Vec<FilterSpec> {
    match flows {
        FlowDescriptors::SharedExplicit(_, filters) => filters.iter().collect(),
        FlowDescriptors::FixedFilter(flows) => flows.iter().map(|flow| flow.filter).collect(),
        FlowDescriptors::Wildcard(_) => Vec::new(),
    }
}

/// Returns the flowspec of shared descriptors.
pub(crate) fn flowspec_of(flows: &FlowDescriptors<'_>) -> Option<FlowSpec> {
    match flows {
        FlowDescriptors::SharedExplicit(flowspec, _) | FlowDescriptors::Wildcard(flowspec) => {
            *flowspec
        }
        FlowDescriptors::FixedFilter(flows) => flows.iter().next()?.flowspec,
    }
}

/// Converts flow descriptors to the filters of an event.
pub(crate) fn event_filters(flows: &FlowDescriptors<'_>) -> Filters {
    filters_of(flows).into()
}
