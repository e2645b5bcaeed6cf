//! Requests to the receivers of flows of this node that have ended without a reservation: refused, unanswered or released.
//!
//! A QUERY with RESERVE-INIT may still be on its way when the sender gives it up, and the receiver refreshes what it has
//! reserved. A RESERVE that arrives for such a request is refused: otherwise something would be reserved after the
//! application was told that nothing is.

use alloc::collections::VecDeque;

use earmark_wire::gist::{Direction, SessionId};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use super::QosNslp;
use super::admission::Refused;
use super::received_reserve::ReceivedReserve;

/// Maximum number of ended requests that a node remembers; the oldest one is forgotten.
pub(super) const MAX_ENDED_REQUESTS: usize = 256;

/// Sessions of ended requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct EndedRequests {
    sessions: VecDeque<SessionId>,
}

impl EndedRequests {
    /// Remembers a session.
    pub(super) fn insert(&mut self, session: SessionId) {
        self.remove(session);
        if self.sessions.len() >= MAX_ENDED_REQUESTS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// Forgets a session, because it is requested again.
    pub(super) fn remove(&mut self, session: SessionId) {
        self.sessions.retain(|known| *known != session);
    }

    fn contains(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// Returns the number of sessions.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.sessions.len()
    }
}

impl QosNslp {
    /// Checks that the RESERVE of a receiver is not for an ended request of this node.
    ///
    /// # Errors
    /// The refusal, which is the same as that of a QUERY without a listener.
    pub(super) fn check_wanted(&self, received: &ReceivedReserve<'_>) -> Result<(), Refused> {
        let is_by_receiver = received.mri.direction == Direction::Upstream;
        match is_by_receiver && self.ended_requests.contains(received.message.session) {
            true => {
                let failure = TransientFailure::ReservationFailure;
                Err(Refused::of(Outcome::TransientFailure(failure)))
            }
            false => Ok(()),
        }
    }
}
