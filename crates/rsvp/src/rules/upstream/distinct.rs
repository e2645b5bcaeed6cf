//! The request for one sender to its previous hop (FF).
//!
//! Of the last request only a digest is kept, because a session with fixed filters is to be small.

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::Time;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{FixedFilterFlow, FlowDescriptors, List, Style};

use super::SendOptions;
use super::message::{RequestObjects, merge_carried};
use crate::api::{Application, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::SendReason;
use crate::rules::marking::code_points;
use crate::state::{Holder, Index, NONE, Peer};

impl Rsvp {
    /// Sends the request for a sender if it differs from the last one, or reports it to the sending application. Returns
    /// whether RESV_CONFIRM was forwarded.
    pub(super) fn send_distinct_difference<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        options: &SendOptions<'_>,
    ) -> bool {
        let Some(flowspec) = self.requested_flowspec(cx.now, index) else {
            self.end_distinct_request(cx, index, options);
            return false;
        };
        self.merge_distinct_objects(index);
        let new = Some(self.store.digest(&flowspec, &self.scratch));
        let psb = self.store.psb_mut(index);
        let hop = psb.hop;
        let is_new = core::mem::replace(&mut psb.sent_resv, new) != new;
        if let Peer::Local(application) = hop {
            if is_new {
                self.notify_sender(cx, index, application, flowspec);
            }
            return false;
        }
        let confirm = options.confirm.filter(|confirm| {
            let failures = self.failures(cx.now, Holder::Sender(index), hop);
            self.is_largest_request(&failures, confirm.request, index)
        });
        let is_changed = is_new || confirm.is_some();
        // Refreshes stop while a request is kept until its old path ends.
        let psb = self.store.psb(index);
        let was_kept = psb.resv_refresh_at == Time::MAX;
        let may_be_unknown = was_kept && psb.resv_message_id != NONE;
        let is_due = is_changed
            || (options.include_unchanged || may_be_unknown) && !self.is_in_summaries(index);
        let is_sent = is_due && !options.would_fail(&flowspec);
        if is_sent {
            let reason = if is_changed { SendReason::Trigger } else { SendReason::Refresh };
            let receiver = confirm.map(|confirm| confirm.receiver);
            self.send_distinct_resv(cx, index, flowspec, receiver, reason);
        }
        if is_sent || was_kept {
            self.schedule_resv_refresh(cx.now, index);
        }
        confirm.is_some()
    }

    /// Ends the request for a sender, if there is one.
    fn end_distinct_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        options: &SendOptions<'_>,
    ) {
        let psb = self.store.psb_mut(index);
        if psb.sent_resv.is_none() {
            return;
        }
        let (hop, template) = (psb.hop, psb.template);
        psb.resv_refresh_at = Time::MAX;
        if psb.keeps_request() {
            return;
        }
        psb.sent_resv = None;
        let session = self.store.session_of(index);
        if let Peer::Local(application) = hop {
            return cx.out.notify(Event::ResvGone { application, session, filter: template });
        }
        self.forget_resv_message_id(index);
        if let Some(previous) = self.previous_hop(cx, hop) {
            let flow = [FixedFilterFlow { flowspec: options.ended, filter: template }];
            let flows = FlowDescriptors::FixedFilter(List::Items(&flow));
            let objects = RequestObjects { session, scope: None, flows };
            self.send_resv_tear(cx, &previous, &objects, options.carried);
        }
        self.rearm_sender(index);
    }

    /// Sends the Resv for a sender again.
    pub(crate) fn resend_distinct_resv<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) {
        let Some(flowspec) = self.requested_flowspec(cx.now, index) else {
            // A request that is kept until its old path ends is sent then.
            self.store.psb_mut(index).resv_refresh_at = Time::MAX;
            return;
        };
        self.merge_distinct_objects(index);
        self.store.psb_mut(index).sent_resv = Some(self.store.digest(&flowspec, &self.scratch));
        self.send_distinct_resv(cx, index, flowspec, confirm, reason);
        self.schedule_resv_refresh(cx.now, index);
    }

    /// Sends the Resv for a sender. `scratch` holds the objects to be forwarded.
    fn send_distinct_resv<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        flowspec: FlowSpec,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) {
        let psb = self.store.psb(index);
        let Some(previous) = self.previous_hop(cx, psb.hop) else { return };
        let flow = [FixedFilterFlow { flowspec: Some(flowspec), filter: psb.template }];
        let session = self.store.session(psb.session).session;
        let peer = previous.message.receiver();
        let message_id = self.assign_resv_message_id(cx.now, index, peer, confirm, reason);
        let flows = FlowDescriptors::FixedFilter(List::Items(&flow));
        let objects = RequestObjects { session, scope: None, flows };
        self.send_resv(cx, &previous, &objects, confirm, message_id);
        mark(Checkpoint::ResvRefresh);
    }

    /// Writes the objects of all requests for a sender into `scratch`.
    fn merge_distinct_objects(&mut self, index: Index) {
        self.scratch.clear();
        let has_objects = |rsb: Index| self.store.rsb(rsb).extra.is_some();
        let mut tcsbs = self.store.tcsbs_of(Holder::Sender(index));
        if !tcsbs.any(|tcsb| self.store.rsbs_of(tcsb).any(has_objects)) {
            return;
        }
        let psb = self.store.psb(index);
        let requests = self
            .store
            .tcsbs_of(Holder::Sender(index))
            .filter(|&tcsb| psb.leaves_through(self.store.tcsb(tcsb).outgoing))
            .flat_map(|tcsb| self.store.rsbs_of(tcsb))
            .map(|rsb| self.store.rsb(rsb).carried());
        merge_carried(&mut self.scratch, requests, self.config.max_kept_octets as usize);
    }

    /// Returns whether summary refreshes include the Resv for a sender.
    #[inline]
    fn is_in_summaries(&self, index: Index) -> bool {
        self.refresh_reduction.is_listed(self.store.psb(index).resv_message_id)
    }

    /// Schedules the refresh of the Resv for a sender, unless summary refreshes suffice or nothing is requested.
    pub(crate) fn schedule_resv_refresh(&mut self, now: Time, index: Index) {
        let psb = self.store.psb(index);
        let is_due = psb.sent_resv.is_some()
            && (!self.is_in_summaries(index)
                || self.unconfirmed_request(Holder::Sender(index)).is_some());
        let at = match self.store.neighbor_of(psb.hop) {
            Some((incoming, _)) if is_due => self.next_refresh(now, incoming),
            _ => Time::MAX,
        };
        self.store.psb_mut(index).resv_refresh_at = at;
        self.rearm_sender(index);
    }

    /// Sends RESV_EVENT to a sending application about its current reservation.
    fn notify_sender<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        psb: Index,
        application: Application,
        flowspec: FlowSpec,
    ) {
        let (session, filter) = (self.store.session_of(psb), self.store.psb(psb).template);
        let requests = self.store.tcsbs_of(Holder::Sender(psb));
        let requests = requests.flat_map(|tcsb| self.store.rsbs_of(tcsb));
        let dscp = code_points(requests.map(|rsb| self.store.rsb(rsb).carried()));
        let style = Style::FixedFilter;
        let reach = Box::new(self.reach_of_sender(cx, Holder::Sender(psb), &filter));
        let event = Event::Resv { application, session, filter, style, flowspec, dscp, reach };
        cx.out.notify(event);
    }
}
