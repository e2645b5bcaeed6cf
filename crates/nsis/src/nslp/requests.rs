//! Requests of applications to GIST.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Mri, SessionId};

use super::message::{PeerHandle, SendMessage};
use super::notification::Validity;
use crate::Tolerated;

/// Requests of applications that are not yet executed. Reused for each input, so that nothing is allocated in steady
/// state.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests, each with the NSLPID of its application.
    pub(crate) list: VecDeque<(u16, Request)>,
    pub(crate) octets: Vec<u8>,
}

impl Requests {
    /// Returns all requests with the NSLPIDs of their applications, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(u16, Request)> {
        self.list.iter()
    }

    /// Returns the data of a [`Request::Send`].
    pub fn octets(&self, range: &Range<usize>) -> &[u8] {
        self.octets.get(range.clone()).unwrap_or_default()
    }

    /// Removes all requests, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
    }
}

/// One request of an application to GIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`HandlerContext::send`](super::HandlerContext::send); the data are this range of [`Requests::octets`].
    Send(SendMessage, Range<usize>),
    /// [`HandlerContext::set_state_lifetime`](super::HandlerContext::set_state_lifetime).
    SetStateLifetime {
        /// Flow, and the direction along the flow.
        mri: Mri,
        /// Session of the routing state.
        session: SessionId,
        /// New lifetime; zero releases the state.
        lifetime: Duration,
    },
    /// [`HandlerContext::forget`](super::HandlerContext::forget).
    Forget {
        /// Flow, and the direction that is released first.
        mri: Mri,
        /// Session of the routing state.
        session: SessionId,
    },
    /// [`HandlerContext::invalidate_routing_state`](super::HandlerContext::invalidate_routing_state).
    Invalidate {
        /// Flow, and the direction along the flow.
        mri: Mri,
        /// New validity.
        status: Validity,
        /// Whether to check the route at once.
        urgent: bool,
    },
    /// [`HandlerContext::report_routing_status`](super::HandlerContext::report_routing_status).
    ReportStatus {
        /// Flow, and the direction along the flow.
        mri: Mri,
        /// Session of the routing state.
        session: SessionId,
    },
    /// [`HandlerContext::report_session_end`](super::HandlerContext::report_session_end).
    SessionEnded {
        /// The session.
        session: SessionId,
        /// Interface through which it was asked for; `None` if this node asked.
        arrival: Option<InterfaceId>,
    },
    /// [`HandlerContext::count_tolerated`](super::HandlerContext::count_tolerated).
    Tolerated {
        /// The peer.
        peer: PeerHandle,
        /// The deviation in its message.
        tolerated: Tolerated,
    },
}
