//! Resv messages: new, refreshed and changed reservations (RFC 2209, RESV MESSAGE ARRIVES).

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    ErrorCode, FilterSpec, FixedFilterFlow, FlowDescriptors, List, Resv, Session, Style,
};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::filters::Filters;
use crate::instance::{EFFECTS_PER_MESSAGE, Rsvp};
use crate::neighbors::address::is_unicast;
use crate::rules::fault::ResvFault;
use crate::rules::request::Request;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::NamedBlock;
use crate::state::{Block, Extra, Holder, Index, Kept, Origin};

impl Rsvp {
    pub(crate) fn receive_resv<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        resv: &Resv<'_>,
    ) {
        if resv.refresh_ms == 0 {
            return self.drop_unacknowledged(cx, datagram, DropReason::ZeroRefreshPeriod);
        }
        let outgoing = match self.comes_from_next_hop(cx, datagram, resv.hop) {
            Ok(outgoing) => outgoing,
            Err(reason) => return self.drop_unacknowledged(cx, datagram, reason),
        };
        self.note_encapsulation(datagram, outgoing, resv.hop.address);
        let expires_at = cx.now + self.lifetime(cx, datagram.interface, resv.refresh_ms);
        let FlowDescriptors::FixedFilter(flows) = resv.flows else {
            return self.receive_shared_resv(cx, datagram, resv, outgoing, expires_at);
        };
        let is_joint = cx.message_id.is_some() && flows.iter().nth(1).is_some();
        let (mut requests, mut is_complete) = (Vec::new(), true);
        let budget = cx.out.len() + EFFECTS_PER_MESSAGE;
        for flow in flows {
            if cx.out.len() >= budget {
                self.drop_unacknowledged(cx, datagram, DropReason::Limit);
                is_complete = false;
                break;
            }
            let fault = match self.receive_flow(cx, resv, outgoing, expires_at, &flow) {
                Ok(None) => {
                    is_complete = false; // a later message has set this state
                    continue;
                }
                Ok(Some(rsb)) if is_joint => {
                    requests.push(rsb);
                    continue;
                }
                Ok(Some(rsb)) => {
                    self.store_message_id(cx, NamedBlock::new(Block::Reservation, rsb));
                    continue;
                }
                Err(fault) => fault,
            };
            is_complete = false;
            let in_place = self.keep_reservation(cx.now, resv, outgoing, expires_at, &flow);
            let fault = ResvFault { in_place, ..fault };
            let flows = FlowDescriptors::FixedFilter(List::Items(core::slice::from_ref(&flow)));
            let filters = Filters::One(flow.filter);
            self.refuse(cx, datagram, resv, outgoing, flows, filters, &fault);
            if fault.code == ErrorCode::NoPathInformation {
                break; // the error concerns the whole session, so one ResvErr is enough
            }
        }
        if is_joint {
            let name = if is_complete { cx.message_id } else { MessageIdKey::NONE };
            self.store.set_joint_message_id(&requests, name);
        }
    }

    /// Handles one fixed-filter flow descriptor: creates, changes or refreshes its reservation. Returns the request, or `None`
    /// if a later message has set the state.
    fn receive_flow<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        expires_at: Time,
        flow: &FixedFilterFlow,
    ) -> Result<Option<Index>, ResvFault> {
        let psb = self.sender_for(&resv.session, &flow.filter, Some(outgoing))?;
        let Some(flowspec) = flow.flowspec else {
            return Err(ResvFault::bad_flowspec());
        };
        let (holder, origin) = (Holder::Sender(psb), Origin::Neighbor(outgoing, resv.hop));
        let known = self.store.find_request(holder, Some(outgoing), origin);
        if known.rsb.is_some_and(|rsb| self.is_overtaken(cx, self.store.rsb(rsb).message_id)) {
            return Ok(None);
        }
        if resv.confirm.is_none()
            && let Some(rsb) = known.rsb
            && self.is_same_request(rsb, &flowspec, resv)
        {
            self.refresh_reservation(cx.now, rsb, expires_at);
            mark(Checkpoint::Refresh);
            return Ok(Some(rsb));
        }
        if flowspec.validate().is_err() {
            return Err(ResvFault::bad_flowspec());
        }
        if Kept::length(resv.carried) > self.config.max_kept_octets as usize {
            return Err(ResvFault::limit_reached());
        }
        let request = Request {
            origin,
            outgoing: Some(outgoing),
            flowspec,
            extra: Extra::carrying(resv.carried),
            // RESV_CONFIRM is not verified; only its form is checked.
            confirm: resv.confirm.filter(|&receiver| is_unicast(receiver)),
            expires_at,
        };
        mark(Checkpoint::FindRsb);
        self.check_style(self.store.psb(psb).session, Style::FixedFilter)?;
        mark(Checkpoint::CheckStyles);
        let rsb = match self.config.proxies.receivers.is_empty() {
            true => self.reserve(cx, holder, known, request)?,
            false => self.reserve_in_place_of_proxy(cx, psb, known, request)?,
        };
        if cx.is_from_this_link {
            self.store.note_near(self.store.rsb(rsb).hop);
        }
        Ok(Some(rsb))
    }

    /// Handles a refused request: an existing reservation of the next hop stays, and the attempt refreshes it (RFC 2209
    /// restarts the cleanup timer before it tries). Returns whether any reservation exists for the sender.
    #[cold]
    fn keep_reservation(
        &mut self,
        now: Time,
        resv: &Resv<'_>,
        outgoing: InterfaceId,
        expires_at: Time,
        flow: &FixedFilterFlow,
    ) -> bool {
        let psb = self.store.find_sender(&resv.session, &flow.filter);
        let Some(holder) = psb.map(Holder::Sender) else { return false };
        let origin = Origin::Neighbor(outgoing, resv.hop);
        let known = self.store.find_request(holder, Some(outgoing), origin);
        if let Some(rsb) = known.rsb {
            self.refresh_reservation(now, rsb, expires_at);
        }
        known.tcsb.is_some()
    }

    /// Returns the sender that a filter spec names, if its data leaves through `outgoing` (`None`: ends on this host).
    #[inline]
    pub(crate) fn sender_for(
        &self,
        session: &Session,
        filter: &FilterSpec,
        outgoing: Option<InterfaceId>,
    ) -> Result<Index, ResvFault> {
        let found = self.store.find_sender(session, filter);
        mark(Checkpoint::FindSession);
        match found {
            Some(psb) if self.store.psb(psb).leaves_through(outgoing) => Ok(psb),
            Some(_) => Err(ResvFault::new(ErrorCode::NoSenderInformation, 0)),
            None if self.store.find_session(session).is_some() => {
                Err(ResvFault::new(ErrorCode::NoSenderInformation, 0))
            }
            None => Err(ResvFault::new(ErrorCode::NoPathInformation, 0)),
        }
    }

    /// Returns whether a Resv requests what is reserved already.
    #[inline]
    fn is_same_request(&self, rsb: Index, flowspec: &FlowSpec, resv: &Resv<'_>) -> bool {
        let rsb = self.store.rsb(rsb);
        rsb.flowspec == *flowspec && rsb.carries(resv.carried)
    }

    /// Extends the lifetime of a reservation.
    #[inline]
    pub(crate) fn refresh_reservation(&mut self, now: Time, index: Index, expires_at: Time) {
        let rsb = &mut self.store.rsbs[index as usize];
        let nearer = expires_at < rsb.expires_at;
        rsb.expires_at = expires_at;
        if nearer && let Some(timer) = rsb.timer {
            self.store.timers.rearm(timer, expires_at);
        }
        let peer = rsb.hop;
        self.store.note_refresh(peer, now);
    }
}
