//! The context of a call of an application, and its requests to GIST.

use core::time::Duration;

use earmark_core::{Context, InterfaceId, Time};
use earmark_wire::gist::{Mri, SessionId};

use super::message::{PeerHandle, SendMessage};
use super::notification::Validity;
use super::requests::{Request, Requests};
use super::sink::Sink;
use crate::Tolerated;
use crate::api::Event;

/// The context of one call of an application: the time, the node, and the receiver of the effects.
pub struct HandlerContext<'t, 'c> {
    /// The time of the call.
    pub now: Time,
    /// The node: routes, interfaces, ledger.
    pub context: &'t mut Context<'c>,
    /// Receiver of all effects except requests to GIST.
    pub out: &'t mut dyn Sink,
    /// NSLPID for which the application is called, and of its requests. An application with several may set another one
    /// of its own.
    pub nslpid: u16,
    pub(crate) requests: &'t mut Requests,
}

impl<'t, 'c> HandlerContext<'t, 'c> {
    /// Creates a context without GIST, for tests and measurements; `requests` receives the requests.
    pub fn new(
        now: Time,
        context: &'t mut Context<'c>,
        out: &'t mut dyn Sink,
        nslpid: u16,
        requests: &'t mut Requests,
    ) -> HandlerContext<'t, 'c> {
        HandlerContext { now, context, out, nslpid, requests }
    }
}

impl HandlerContext<'_, '_> {
    /// Requests to send a message of `length` octets, whole words. The caller fills the returned buffer, which may hold
    /// old octets.
    #[inline(always)] // the request is written in place
    pub fn send(&mut self, message: SendMessage, length: usize) -> &mut [u8] {
        let octets = &mut self.requests.octets;
        let start = octets.len();
        octets.resize(start + length, 0);
        self.requests.list.push_back((self.nslpid, Request::Send(message, start..start + length)));
        &mut octets[start..]
    }

    /// Acts for another NSLPID of the application, if one is given.
    #[inline]
    pub(crate) fn for_nslpid(&mut self, nslpid: Option<u16>, act: impl FnOnce(&mut Self)) {
        let nslpid = nslpid.unwrap_or(self.nslpid);
        let previous_nslpid = core::mem::replace(&mut self.nslpid, nslpid);
        act(self);
        self.nslpid = previous_nslpid;
    }

    /// Removes the last message, because it could not be written.
    pub fn take_back(&mut self) {
        if let Some((_, Request::Send(_, range))) = self.requests.list.back() {
            self.requests.octets.truncate(range.start);
            self.requests.list.pop_back();
        }
    }

    /// Sets how long routing state of the called application is kept; zero releases it.
    pub fn set_state_lifetime(&mut self, mri: Mri, session: SessionId, lifetime: Duration) {
        let request = Request::SetStateLifetime { mri, session, lifetime };
        self.requests.list.push_back((self.nslpid, request));
    }

    /// Releases routing state of the called application, in both directions along the flow.
    pub fn forget(&mut self, mri: Mri, session: SessionId) {
        self.requests.list.push_back((self.nslpid, Request::Forget { mri, session }));
    }

    /// Reports that the next hop of this flow, in the direction of the MRI, may have changed.
    pub fn invalidate_routing_state(&mut self, mri: Mri, status: Validity, urgent: bool) {
        self.requests.list.push_back((self.nslpid, Request::Invalidate { mri, status, urgent }));
    }

    /// Requests a notification of the peer in the direction of the MRI, if there is good routing state.
    pub fn report_routing_status(&mut self, mri: Mri, session: SessionId) {
        self.requests.list.push_back((self.nslpid, Request::ReportStatus { mri, session }));
    }

    /// Reports the end of a session to the other applications of this node, whose sessions may depend on it.
    pub fn report_session_end(&mut self, session: SessionId, arrival: Option<InterfaceId>) {
        self.requests.list.push_back((self.nslpid, Request::SessionEnded { session, arrival }));
    }

    /// Counts a deviation from the RFCs in a message of a peer that was accepted; the view of the peer shows it.
    pub fn count_tolerated(&mut self, peer: PeerHandle, tolerated: Tolerated) {
        self.requests.list.push_back((self.nslpid, Request::Tolerated { peer, tolerated }));
    }

    /// Reports an event of an application.
    pub(crate) fn report(&mut self, event: impl Into<Event>) {
        self.out.notify(event.into());
    }
}
