//! The trait of a signalling application: the calls that it gets.

use alloc::vec::Vec;
use core::fmt;

use earmark_core::outcome::Translation;
use earmark_core::{HostEvent, InterfaceId, Time};
use earmark_wire::gist::{Mri, SessionId};

use super::context::HandlerContext;
use super::message::{MessageHandle, Received, SendFailure, SendMessage};
use super::notification::NetworkNotification;

/// A signalling application.
pub trait Nslp: fmt::Debug {
    /// Returns the NSLPID of the application (IANA: NSLP Identifiers).
    fn id(&self) -> u16;

    /// Returns whether the application handles messages with this NSLPID. An application with several NSLPIDs overrides
    /// this method, as QoS NSLP does with one NSLPID for each level of aggregation; [`HandlerContext::nslpid`] is the
    /// one that a call is about.
    fn serves(&self, nslpid: u16) -> bool {
        nslpid == self.id()
    }

    /// Returns whether messages are about the packets of their flow, so that a translator refuses them if it has no
    /// translation for these packets (RFC 5971 section 7.2.2). The path of a flow can be examined without.
    fn is_about_packets(&self) -> bool {
        true
    }

    /// Decides on a received Query whether this node becomes the peer of its sender, or forwards the Query. `answer` is
    /// empty; octets written there go into the Response, or replace the data of the Query that is forwarded. The
    /// application must keep no state for the Query: its sender has not yet proved its address.
    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        answer: &mut Vec<u8>,
    ) -> Peering;

    /// Handles a received message. Messages that were sent reliably arrive in order.
    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>);

    /// Handles the failure to send or to deliver a message that had a [`MessageHandle`].
    fn status(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: MessageHandle,
        failure: SendFailure,
    );

    /// Handles the failure to send or to deliver a message whose data GIST still has; `data` are those passed to
    /// [`HandlerContext::send`]. An application without state can use them to do something else. GIST calls this method
    /// also for messages without a handle.
    fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &SendMessage,
        _data: &[u8],
        failure: SendFailure,
    ) {
        if let Some(handle) = message.handle {
            self.status(cx, handle, failure);
        }
    }

    /// Handles a change of routing state of this application.
    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification);

    /// Handles the translation of addresses of a flow, or of the node that signals for it, on the path (RFC 5971
    /// section 7.2.1), which prevents routing state.
    fn translated(
        &mut self,
        _cx: &mut HandlerContext<'_, '_>,
        _flow: (SessionId, Mri),
        _translation: Translation,
    ) {
    }

    /// Handles the end of a session of another application at this node. `arrival` is the interface through which the session
    /// was asked for; `None` if this node asked.
    fn other_session_ended(
        &mut self,
        _cx: &mut HandlerContext<'_, '_>,
        _session: SessionId,
        _arrival: Option<InterfaceId>,
    ) {
    }

    /// Handles a change of the host: routes, interfaces, reservations.
    fn host_changes(&mut self, _cx: &mut HandlerContext<'_, '_>, _event: &HostEvent) {}

    /// Handles the deadline of [`Nslp::next_deadline`]. The work is bounded; the rest is due again at once.
    fn expire(&mut self, _cx: &mut HandlerContext<'_, '_>) {}

    /// Returns when [`Nslp::expire`] is due. O(1).
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Decision of an application about the sender of a Query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peering {
    /// Become its peer: a Response is sent.
    Accept,
    /// Forward the Query along the path.
    Pass,
}
