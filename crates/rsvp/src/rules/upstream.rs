//! Requests upstream: what each previous hop is asked to reserve (RFC 2209, RESV REFRESH).
//!
//! After each change the requests for a sender (FF), or of a pool (WF, SE), are computed anew and compared with the last
//! ones, and the difference is sent: a Resv for what is new, a ResvTear for what has ended. No rule has to know which
//! change causes which message. An application of this host that sends gets the same difference as events.

mod demands;
mod distinct;
mod message;
mod shared;

use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::Carried;

use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::merge::is_greater;
use crate::rules::request::ConfirmRequest;
use crate::state::{Holder, Index};

pub(crate) use self::message::shared_flows;

/// Options for sending the difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOptions<'c> {
    /// Send unchanged requests as well.
    pub(crate) include_unchanged: bool,
    /// Flowspec that has just failed upstream; requests as large are not repeated at once.
    pub(crate) failed: Option<FlowSpec>,
    /// RESV_CONFIRM of a receiver, to be forwarded.
    pub(crate) confirm: Option<ConfirmRequest>,
    /// Flowspec of a distinct reservation that has just ended, for its ResvTear, where it may be omitted.
    pub(crate) ended: Option<FlowSpec>,
    /// Unknown objects that a ResvTear forwards (RFC 2205 section 3.10).
    pub(crate) carried: Carried<'c>,
}

impl Default for SendOptions<'_> {
    fn default() -> Self {
        SendOptions {
            include_unchanged: false,
            failed: None,
            confirm: None,
            ended: None,
            carried: Carried::NONE,
        }
    }
}

impl SendOptions<'_> {
    /// Returns whether a request would fail at once, because it is as large as what has just failed.
    fn would_fail(&self, flowspec: &FlowSpec) -> bool {
        self.failed.is_some_and(|failed| !is_greater(&failed, flowspec))
    }
}

impl Rsvp {
    /// Sends requests that have changed to previous hops.
    #[inline]
    pub(crate) fn update_upstream<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
    ) {
        self.send_difference(cx, holder, &SendOptions::default());
    }

    /// Sends the difference between the requests that are wanted and the last ones. Returns whether RESV_CONFIRM was
    /// forwarded to any previous hop.
    pub(crate) fn send_difference<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        options: &SendOptions<'_>,
    ) -> bool {
        match holder {
            Holder::Sender(psb) => self.send_distinct_difference(cx, psb, options),
            Holder::Pool(pool) => self.send_shared_difference(cx, pool, options),
        }
    }

    /// Sends all requests upstream, changed or not, with RESV_CONFIRM of an application that waits for a confirmation.
    pub(crate) fn refresh_requests<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
    ) {
        let confirm = self.confirm_again(cx, holder);
        self.send_requests(cx, holder, confirm, true);
    }

    /// Sends the requests upstream for all reservations that a sender takes part in: its own, and the shared one of its
    /// session.
    pub(crate) fn update_requests_for<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        sender: Index,
    ) {
        self.update_upstream(cx, Holder::Sender(sender));
        if let Some(pool) = self.store.pool_of(self.store.psb(sender).session) {
            self.update_upstream(cx, Holder::Pool(pool));
        }
    }

    /// Sends what a granted request changes upstream, with its RESV_CONFIRM. If others request as much this node
    /// confirms instead, unless the request is known to fail upstream.
    pub(crate) fn report_reservation<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        confirm: Option<ConfirmRequest>,
    ) {
        self.send_requests(cx, holder, confirm, false);
    }

    fn send_requests<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        confirm: Option<ConfirmRequest>,
        include_unchanged: bool,
    ) {
        let options = SendOptions { confirm, include_unchanged, ..SendOptions::default() };
        let is_forwarded = self.send_difference(cx, holder, &options);
        if let Some(confirm) = confirm
            && !is_forwarded
            && !self.is_blocked(cx.now, holder, &self.store.rsb(confirm.request).flowspec)
        {
            self.send_resv_conf(cx, confirm);
        }
    }
}
