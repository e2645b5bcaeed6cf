//! Messages to a group: one copy leaves on each branch, and each branch has a claim of its own.
//!
//! There is no merging, because there are no receivers' wishes: the sender says what its data needs, and each branch that
//! has room reserves it. Where one has not, the copy that leaves there says so (NACK), and the others know nothing of it.
//! Nobody answers (NO_ECHO), so nobody is told; receivers that care can look at what comes in.

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId};
use earmark_wire::boomerang::View;

use crate::admission::Grant;
use crate::api::{Change, Direction, Event};
use crate::counters::{DropReason, RefusalReason};
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Edits, Origin, Passing, Refused};
use crate::state::Index;
use crate::store::Key;
use crate::transit::takes_part;

impl Boomerang {
    /// A message to a group, on its way through this node.
    pub(crate) fn spread<E: From<Event>>(
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
        let passing = Passing {
            view: *view,
            direction: Direction::Forward,
            initiator: datagram.source,
            toward: datagram.destination,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        let edits = self.treat_branches(cx, &passing, &branches);
        for (&branch, edits) in branches.iter().zip(&edits) {
            let Some(how) = self.onward(cx, datagram, Some(branch)) else { return };
            let message = cx.out.send_copy(how, datagram.payload);
            edits.apply(message, view);
        }
        mark(Checkpoint::Forward);
    }

    /// What cannot be read goes on as it is, on each branch.
    pub(crate) fn spread_as_it_is<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let Some(branches) = self.branches(cx, datagram) else { return };
        for branch in branches {
            let Some(how) = self.onward(cx, datagram, Some(branch)) else { return };
            self.counters.relayed += 1;
            cx.out.send_copy(how, datagram.payload);
        }
    }

    /// Where copies of a message leave; `None` where it has come in astray.
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

    /// The rules for each branch of a group: how the copies change, in the order of the branches.
    pub(crate) fn treat_branches<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        branches: &[InterfaceId],
    ) -> Vec<Edits> {
        let all = |edits| branches.iter().map(|_| edits).collect();
        let mut grant = match self.look_up(passing) {
            Ok(grant) => grant,
            Err(_) if passing.is_release() => return all(Edits::NONE),
            Err(refused) => return all(self.refuse(passing, refused)),
        };
        if let Grant::Known(index) = grant {
            let may = self.may_speak(passing, index);
            let may = may.and_then(|()| match passing.is_release() {
                true => self.is_credible(passing),
                false => Ok(()),
            });
            if let Err(refused) = may {
                return all(self.refuse(passing, refused));
            }
            if passing.is_release() {
                self.release_session(cx, index, Change::Released);
                return all(Edits::NONE);
            }
            self.prune(cx, index, branches);
        } else if passing.is_release() {
            return all(Edits::NONE);
        }
        let mut edits = Vec::with_capacity(branches.len());
        for &branch in branches {
            edits.push(self.treat_branch(cx, passing, branch, &mut grant));
        }
        if let Grant::Known(index) = grant {
            self.remove_if_empty(cx, index);
        }
        edits
    }

    /// The rules for one branch.
    fn treat_branch<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        branch: InterfaceId,
        grant: &mut Grant,
    ) -> Edits {
        if !takes_part(cx, branch) {
            return Edits::NONE;
        }
        let slot = match *grant {
            Grant::Known(index) => self.slot_of(index, branch),
            Grant::New { .. } => 0,
        };
        if slot > usize::from(self.config.limits.branches) {
            return self.refuse(passing, Refused::flatly(RefusalReason::Limit));
        }
        self.settle(cx, passing, slot, branch, grant)
    }

    /// Where a session has what it has on a branch, or the first place where it has nothing.
    fn slot_of(&self, index: Index, branch: InterfaceId) -> usize {
        let session = self.store.session(index);
        // The reverse half is none of a group's.
        let mut slots = (0..=session.slots()).filter(|&slot| slot != 1);
        let on_branch = |&slot: &usize| {
            let half = session.half_at(slot);
            half.is_there() && half.interface == branch
        };
        slots.clone().find(on_branch).unwrap_or_else(|| {
            slots.find(|&slot| !session.half_at(slot).is_there()).unwrap_or(session.slots())
        })
    }

    /// Gives back what a session has on branches that are none any more, or whose link has gone.
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

    /// The session of a message, or the place of a new one.
    pub(crate) fn look_up(&mut self, passing: &Passing<'_>) -> Result<Grant, Refused> {
        let view = &passing.view;
        let number = match self.store.masks.find(view.mask_octets()) {
            Some(number) => number,
            None => {
                let shape = view.shape().map_err(|error| {
                    self.counters.malform(error.kind.name());
                    Refused::flatly(RefusalReason::Mask)
                })?;
                let entered =
                    self.store.masks.enter(view.family(), shape, self.config.limits.masks);
                entered.ok_or(Refused::flatly(RefusalReason::Limit))?
            }
        };
        let key = Key::new(number, self.store.masks.mask(number), view.classifier_octets());
        let found = self.store.look_up(&key);
        mark(Checkpoint::FindSession);
        Ok(match found {
            Ok(index) => Grant::Known(index),
            Err(place) => Grant::New { key, place, prime: 0 },
        })
    }
}
