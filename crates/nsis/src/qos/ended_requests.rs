//! Requests to the receivers of flows of this node that have ended without a reservation: refused, unanswered or released.
//!
//! A QUERY with RESERVE-INIT may still be on its way when the sender gives it up, and the receiver refreshes what it has
//! reserved. A RESERVE that arrives for such a request is refused: otherwise something would be reserved after the
//! application was told that nothing is.

use alloc::collections::VecDeque;

use earmark_wire::gist::SessionId;

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

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// Returns the number of sessions.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.sessions.len()
    }
}
