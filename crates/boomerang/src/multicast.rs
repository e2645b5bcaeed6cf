//! Messages to a group: one copy leaves on each branch, and each branch has a claim of its own.
//!
//! There is no merging, because receivers make no requests: the sender states what its data needs, and each branch
//! that has room reserves it. The copy on a branch without room carries a NACK; the copies on other branches do not.
//! Nobody replies (NO_ECHO), so nobody is notified; receivers can inspect the messages that arrive.

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId};
use earmark_wire::boomerang::View;

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::{DropReason, RefusalReason};
use crate::instance::Boomerang;
use crate::message::{Edits, Origin, Refused, TransitMessage};
use crate::selector::Direction;
use crate::state::Index;
use crate::store::Grant;

impl Boomerang {
    /// Forwards a message to a group on each branch.
    pub(crate) fn transit_multicast<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        view: &View<'_>,
    ) {
        if datagram.ttl <= 1 {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        }
        let Some(branches) = self.branches(cx, datagram) else { return };
        self.counters.requests += 1;
        let transit = TransitMessage {
            view: *view,
            direction: Direction::Forward,
            initiator: datagram.source,
            far_end: datagram.destination,
            is_reply: false,
            arrival: datagram.interface,
            from_core: cx.context.is_core(datagram.interface),
            differs_by_flow: cx.context.routes.differs_by_flow(datagram.destination),
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        let found = self.store.find(view.classifier_octets(), view.mask_octets());
        if let Err(reason) = self.check_origin(cx.context, &transit, found) {
            return self.drop(cx, datagram, reason);
        }
        let edits = self.process_branches(cx, &transit, &branches);
        for (&branch, edits) in branches.iter().zip(&edits) {
            let Some(how) = self.transit_outgoing(cx, datagram, Some(branch)) else { return };
            let message = cx.out.send_copy(how, datagram.payload);
            edits.apply(message, view);
        }
        mark(Checkpoint::Forward);
    }

    /// Forwards a malformed message unchanged on each branch.
    pub(crate) fn relay_multicast<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let Some(branches) = self.branches(cx, datagram) else { return };
        for branch in branches {
            let Some(how) = self.transit_outgoing(cx, datagram, Some(branch)) else { return };
            if !cx.context.may_forward_request(cx.now, (datagram.interface, branch), 1) {
                self.drop(cx, datagram, DropReason::Limit);
                continue;
            }
            self.counters.relayed += 1;
            cx.out.send_copy(how, datagram.payload);
        }
    }

    /// Returns the outgoing branches of a message; `None` if it arrived on the wrong interface.
    fn branches<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) -> Option<Vec<InterfaceId>> {
        let branches = cx.context.routes.multicast(datagram.source, datagram.destination);
        mark(Checkpoint::Route);
        let Some(branches) = branches else {
            self.drop(cx, datagram, DropReason::NoRoute);
            return None;
        };
        if branches.incoming.is_some_and(|incoming| incoming != datagram.interface) {
            self.drop(cx, datagram, DropReason::WrongInterface);
            return None;
        }
        let others = branches.outgoing.iter().copied();
        Some(others.filter(|&branch| branch != datagram.interface).collect())
    }

    /// Processes a message for each branch of a group. Returns the changes to the copies, in the order of the
    /// branches.
    pub(crate) fn process_branches<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        branches: &[InterfaceId],
    ) -> Vec<Edits> {
        let all = |edits| branches.iter().map(|_| edits).collect();
        let mut grant = match self.find_or_vacant(transit) {
            Ok(grant) => grant,
            Err(_) if transit.is_release() => return all(Edits::NONE),
            Err(refused) => return all(self.refuse(transit, refused)),
        };
        if let Grant::Known(index) = grant {
            let may = self.check_initiator(transit, index);
            let may = may.and_then(|()| match transit.is_release() {
                true => self.check_credential(cx.now, cx.context, cx.out, transit, Some(index)),
                false => Ok(()),
            });
            if let Err(refused) = may {
                return all(self.refuse(transit, refused));
            }
            if transit.is_release() {
                self.release_session(cx, index, Change::Released);
                return all(Edits::NONE);
            }
            self.store.record_origin(transit, index);
            self.prune(cx, index, branches);
        } else if transit.is_release() {
            return all(Edits::NONE);
        }
        let mut edits = Vec::with_capacity(branches.len());
        for &branch in branches {
            edits.push(self.process_branch(cx, transit, branch, &mut grant));
        }
        if let Grant::Known(index) = grant {
            self.remove_if_empty(cx, index);
        }
        edits
    }

    /// Processes a message for one branch.
    fn process_branch<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        branch: InterfaceId,
        grant: &mut Grant,
    ) -> Edits {
        if !cx.context.interfaces.takes_part(branch) {
            return Edits::NONE;
        }
        let slot = match *grant {
            Grant::Known(index) => self.slot_of(index, branch),
            Grant::New { .. } => 0,
        };
        if slot > usize::from(self.config.limits.branches) {
            return self.refuse(transit, Refused::without_offer(RefusalReason::Limit));
        }
        self.apply_request(cx, transit, slot, branch, grant)
    }

    /// Returns the slot of a session on a branch, or else the first free one.
    fn slot_of(&self, index: Index, branch: InterfaceId) -> usize {
        let session = self.store.session(index);
        // A group has no reverse half.
        let mut slots = (0..=session.slots()).filter(|&slot| slot != 1);
        let on_branch = |&slot: &usize| {
            let half = session.half_at(slot);
            half.is_there() && half.interface == branch
        };
        slots.clone().find(on_branch).unwrap_or_else(|| {
            slots.find(|&slot| !session.half_at(slot).is_there()).unwrap_or(session.slots())
        })
    }

    /// Releases what a session holds on branches that no longer exist, or whose link was removed.
    fn prune<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        branches: &[InterfaceId],
    ) {
        for slot in 0..self.store.session(index).slots() {
            let half = self.store.session(index).half_at(slot);
            let gone = !branches.contains(&half.interface)
                || cx.context.ledger.owner(half.claim).is_none();
            if half.is_there() && gone {
                self.release_half(cx, index, slot, Change::Moved);
            }
        }
    }
}
