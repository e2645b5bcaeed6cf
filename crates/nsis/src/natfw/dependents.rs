//! Sessions that end because what they depend on has ended: the peer that their paths lead through, or the application that
//! exposes the port of a CREATE session of this node, the responder. "NFs and the NR can also tear down the CREATE session at
//! any time by generating a NOTIFY message" (RFC 5973 section 3.7.1).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use earmark_wire::gist::SessionId;

use super::instance::NatfwNslp;
use super::state::Index;
use super::store::{Ended, Wait};
use crate::nslp::HandlerContext;

/// Limit of the sessions that end in one call.
const ENDS_PER_CALL: usize = 64;

impl NatfwNslp {
    /// Enters a CREATE session as one that depends on an EXTERNAL.
    pub(super) fn enter_dependent(&mut self, index: Index) {
        if let Some(reservation) = self.reservation_of(index) {
            self.store.dependents.insert((reservation, index));
        }
    }

    /// Removes a CREATE session from those that depend on an EXTERNAL.
    pub(super) fn remove_dependent(&mut self, index: Index) {
        if let Some(reservation) = self.reservation_of(index) {
            self.store.dependents.remove(&(reservation, index));
        }
    }

    /// Ends the sessions that depend on what has ended, a bounded number of them; the timer is due again at once for the rest.
    pub(super) fn end_dependents(&mut self, cx: &mut HandlerContext<'_, '_>, ended: Ended) {
        let dependents = self.first_dependents(ended);
        let is_last = dependents.len() < ENDS_PER_CALL;
        for index in dependents {
            // The end of one session may end another one.
            if self.store.get(index).is_none() {
                continue;
            }
            match ended {
                Ended::Peer(_) => self.end_with_peer(cx, index),
                Ended::External(_) => self.terminate(cx, index),
            }
        }
        if is_last {
            self.ended.remove(&ended);
        } else if self.ended.insert(ended) {
            self.store.timers.arm(cx.now, Wait::Dependents);
        }
    }

    /// Ends some more of the sessions that depend on what has ended.
    pub(super) fn end_more_dependents(&mut self, cx: &mut HandlerContext<'_, '_>) {
        if let Some(ended) = self.ended.pop_first() {
            self.end_dependents(cx, ended);
        }
    }

    fn first_dependents(&self, ended: Ended) -> Vec<Index> {
        match ended {
            Ended::Peer(peer) => first_of(&self.store.by_next, peer),
            Ended::External(session) => first_of(&self.store.dependents, session),
        }
    }

    fn reservation_of(&self, index: Index) -> Option<SessionId> {
        self.store.session(index).extra.as_ref()?.reservation
    }
}

/// Returns the first sessions of a key, no more than end in one call.
fn first_of<K: Copy + Ord>(index: &BTreeSet<(K, Index)>, key: K) -> Vec<Index> {
    let range = (key, Index::MIN)..=(key, Index::MAX);
    index.range(range).take(ENDS_PER_CALL).map(|(_, index)| *index).collect()
}
