//! Sessions of CREATE that this node, the responder, has admitted because an application exposes their port. When the
//! application stops, the responder ends them: "NFs and the NR can also tear down the CREATE session at any time by
//! generating a NOTIFY message" (RFC 5973 section 3.7.1).

use alloc::vec::Vec;

use earmark_wire::gist::SessionId;

use super::instance::NatfwNslp;
use super::state::{Index, Kind};
use super::store::Wait;
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

    /// Ends the sessions that depend on an EXTERNAL of an application that has stopped.
    pub(super) fn end_dependents(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        (kind, reservation): (Kind, SessionId),
    ) {
        if kind == Kind::External && !self.first_dependents(reservation, 1).is_empty() {
            self.ended_reservations.insert(reservation);
            self.end_some_dependents(cx);
        }
    }

    /// Ends a bounded number of the sessions that depend on ended ones; the timer is due again at once for the rest.
    pub(super) fn end_some_dependents(&mut self, cx: &mut HandlerContext<'_, '_>) {
        let Some(reservation) = self.ended_reservations.first().copied() else { return };
        let dependents = self.first_dependents(reservation, ENDS_PER_CALL);
        let is_last = dependents.len() < ENDS_PER_CALL;
        for index in dependents {
            // The end of one session may end another one.
            if self.store.get(index).is_some() {
                self.terminate(cx, index);
            }
        }
        if is_last {
            self.ended_reservations.remove(&reservation);
        }
        if !self.ended_reservations.is_empty() {
            self.store.timers.arm(cx.now, Wait::Dependents);
        }
    }

    fn first_dependents(&self, reservation: SessionId, most: usize) -> Vec<Index> {
        let range = (reservation, Index::MIN)..=(reservation, Index::MAX);
        self.store.dependents.range(range).take(most).map(|(_, index)| *index).collect()
    }

    fn reservation_of(&self, index: Index) -> Option<SessionId> {
        self.store.session(index).extra.as_ref()?.reservation
    }
}
