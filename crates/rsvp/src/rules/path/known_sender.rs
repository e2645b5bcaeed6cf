//! Path messages of known senders.
//!
//! Most of them are refreshes without changes: they are compared with the state and only extend its lifetime. Changes
//! are first checked as a whole, then stored, then reported, so that a rejected Path changes nothing.

use earmark_core::Time;
use earmark_wire::rsvp::Path;

use super::{
    PathFault, ReceivedPath, bad_tspec, check_previous_hop, limit_reached, next_hops_of,
    policy_refused, too_large,
};
use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::origin::may_be_previous_hop;
use crate::rules::next_hops::NextHops;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::NamedBlock;
use crate::state::{Block, Index, Kept, NONE, Origin, Peer, Psb, Timer, TimerKind};

/// Changes in a Path of a known sender. If all fields are empty, only TTL or flags differ.
#[derive(Default)]
struct PathChanges<'r> {
    /// Whether the previous hop differs.
    hop: bool,
    tspec: bool,
    adspec: bool,
    carried: bool,
    /// New next hops of the data, if they differ.
    next_hops: Option<NextHops<'r>>,
}

impl PathChanges<'_> {
    /// Returns whether the Path itself says something new, which is forwarded at once, and not only routes have changed.
    fn are_announced(&self) -> bool {
        self.next_hops.is_none() || self.hop || self.tspec || self.adspec || self.carried
    }
}

impl Rsvp {
    /// Handles a Path of a known sender: checks and stores its changes, and reports them.
    #[inline]
    pub(super) fn refresh_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        path: &Path<'_>,
        received: &ReceivedPath<'_>,
    ) -> Result<(), PathFault> {
        let changes = self.changes_of_sender(cx, index, path, received)?;
        if let Some(changes) = &changes {
            if (changes.hop || changes.tspec || changes.carried) && self.policy.is_some() {
                self.check_sender(cx, received.interface, path).map_err(policy_refused)?;
            }
            if !cx.context.is_core(received.interface) && changes.are_announced() {
                let outgoing = self.store.psb(index).outgoing.clone();
                let neighbor = path.hop.address;
                if !self.may_forward(cx, received.interface, neighbor, outgoing.as_slice()) {
                    return Err(limit_reached());
                }
            }
            let ended = self.ended_paths(cx.context, index);
            self.store_changes(cx, index, path, received, changes);
            if changes.carried || changes.tspec {
                self.tear_ended_paths(cx, index, &ended);
            }
        }
        let next_hops_changed = changes.as_ref().is_some_and(|changes| changes.next_hops.is_some());
        self.extend_sender(cx, index, received, next_hops_changed);
        if let Some(changes) = &changes {
            self.report_changes(cx, index, changes);
        }
        Ok(())
    }

    /// Returns the changes in a Path, or the reason for rejecting it.
    #[inline]
    fn changes_of_sender<'r, E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        path: &Path<'_>,
        received: &ReceivedPath<'r>,
    ) -> Result<Option<PathChanges<'r>>, PathFault> {
        let psb = self.store.psb(index);
        if matches!(psb.hop, Peer::Local(_)) {
            // Data of a sender on this host does not arrive from the network.
            return Err(PathFault::Silent(DropReason::OtherHop));
        }
        // A known hop needs no check; a new one is checked before anything is sent to it.
        let old_origin = self.store.origin(psb.hop);
        let hop = old_origin != received.origin(path);
        if hop
            && received.next_hops == Some(NextHops::WrongInterface)
            && !matches!(old_origin, Origin::Neighbor(old, _) if old == received.interface)
        {
            // Multicast routing expects the sender on another interface; state from there is not replaced by this Path.
            return Err(PathFault::Silent(DropReason::WrongInterface));
        }
        if hop {
            check_previous_hop(cx.context, path, received.interface)?;
            if received.next_hops.is_none()
                && next_hops_of(cx.context, path, received.interface) == NextHops::None
            {
                // The data goes there, and does not come from there.
                return Err(PathFault::Silent(DropReason::NoRoute));
            }
        }
        if !hop && self.is_overtaken(cx, psb.message_id) {
            return Err(PathFault::Silent(DropReason::Overtaken));
        }
        let tspec = psb.tspec != path.sender.tspec;
        if tspec && path.sender.tspec.validate().is_err() {
            return Err(bad_tspec());
        }
        let adspec = psb.adspec.as_deref() != path.sender.adspec;
        let carried = !psb.carried.is(path.carried);
        if adspec {
            self.check_adspec(path.sender.adspec)?;
        }
        if (adspec || carried) && !self.fits_object_limit(path) {
            return Err(too_large());
        }
        let next_hops = received.next_hops.filter(|next_hops| {
            received.is_here() != psb.is_here()
                || !next_hops.has_outgoing(cx.context, Some(received.interface), &psb.outgoing)
        });
        let marks = (psb.ttl, psb.flags & !Psb::OWN) != (received.ttl, received.flags & !Psb::OWN);
        let any = hop || tspec || adspec || carried || marks || next_hops.is_some();
        Ok(any.then_some(PathChanges { hop, tspec, adspec, carried, next_hops }))
    }

    /// Stores the changes of a Path in the state of its sender.
    fn store_changes<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        path: &Path<'_>,
        received: &ReceivedPath<'_>,
        changes: &PathChanges<'_>,
    ) {
        if changes.hop {
            self.change_hop(cx, index, received.origin(path));
        }
        if changes.adspec || changes.hop {
            let adspec = self.keep_adspec(self.store.psb(index).hop, path.sender.adspec);
            self.store.psb_mut(index).adspec = adspec;
        }
        let psb = self.store.psb_mut(index);
        if changes.carried {
            psb.carried = Kept::of(path.carried);
        }
        psb.tspec = path.sender.tspec;
        psb.ttl = received.ttl;
        // `change_next_hops` sets its own flags.
        psb.flags = received.flags & !Psb::OWN | psb.flags & Psb::OWN;
        if let Some(next_hops) = changes.next_hops {
            let outgoing = next_hops.outgoing(cx.context, Some(received.interface));
            self.change_next_hops(cx, index, outgoing, received.is_here());
        }
    }

    /// Extends the lifetime of a sender. The timer changes only if the end comes nearer or the next hops differ.
    #[inline]
    fn extend_sender<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        index: Index,
        received: &ReceivedPath<'_>,
        next_hops_changed: bool,
    ) {
        let psb = self.store.psb_mut(index);
        let nearer = received.expires_at < psb.expires_at;
        psb.expires_at = received.expires_at;
        let (peer, is_same) = (psb.hop, psb.message_id == cx.message_id);
        self.store.note_refresh(peer, cx.now);
        if !is_same {
            self.store_path_message_id(cx, index);
        }
        if nearer || next_hops_changed {
            self.rearm_sender(index);
        }
    }

    /// Handles the PathTear of the previous hop of a sender whose Path may have been a refresh on a path that the data had
    /// left: returns to the previous hop before it. Returns whether there is one.
    pub(crate) fn return_to_former_hop<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let former = self.repairs.former_hops.take_alive(index, cx.now);
        let source = self.store.psb(index).template.source;
        let Some(((interface, hop), expires_at)) = former.filter(|&((interface, hop), _)| {
            may_be_previous_hop(cx.context, interface, hop.address, source).is_ok()
        }) else {
            return false;
        };
        self.change_hop(cx, index, Origin::Neighbor(interface, hop));
        self.repairs.former_hops.forget(index);
        self.store.psb_mut(index).expires_at = expires_at;
        self.rearm_sender(index);
        let changes = PathChanges { hop: true, ..PathChanges::default() };
        self.report_changes(cx, index, &changes);
        true
    }

    /// Ends what is known of former previous hops.
    pub(crate) fn former_hops_due(&mut self, now: Time) {
        if let Some(next) = self.repairs.former_hops.end(now) {
            self.arm_former_hops(next);
        }
    }

    fn arm_former_hops(&mut self, at: Time) {
        self.store.timers.arm(at, Timer { kind: TimerKind::FormerHop, block: 0 });
    }

    /// Records which previous hop another one replaces, as long as a PathTear on the path that the data has left may follow.
    fn note_former_hop(&mut self, now: Time, index: Index, origin: Origin) {
        let psb = self.store.psb(index);
        let old = self.store.neighbor_of(psb.hop);
        let (Some(old), Origin::Neighbor(interface, hop)) = (old, origin) else { return };
        let (replaced, by) = ((old, psb.expires_at), (interface, hop));
        let duration = self.config.departure_delay * 2;
        if let Some(at) = self.repairs.former_hops.note(index, replaced, by, now, duration) {
            self.arm_former_hops(at);
        }
    }

    /// Replaces the previous hop of a sender; Resv messages go to the new one from now on.
    fn change_hop<E>(&mut self, cx: &HandlerContext<'_, '_, E>, index: Index, origin: Origin) {
        self.note_former_hop(cx.now, index, origin);
        self.forget_sent_requests(index);
        self.store.unblock_sender(index);
        self.store.set_message_id(NamedBlock::new(Block::Sender, index), MessageIdKey::NONE);
        let old = self.store.psb(index).hop;
        self.store.psb_mut(index).hop =
            self.store.find_or_insert_hop(origin, Block::Sender, cx.now);
        self.store.release_neighbor(old, Block::Sender);
        self.store.psb_mut(index).sent_resv = None;
        self.forget_resv_message_id(index);
    }

    /// Reports the changes of a Path to next hops, previous hops and applications.
    fn report_changes<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        changes: &PathChanges<'_>,
    ) {
        if !(changes.hop || changes.tspec || changes.next_hops.is_some() || changes.carried) {
            if changes.adspec {
                self.notify_applications_of_sender(cx, index);
            }
            if self.store.psb(index).path_message_id != NONE {
                // The next refresh would do, but state in summary refreshes has none.
                self.path_refresh(cx, index);
            }
            return;
        }
        self.notify_path_state(cx, index, Change::Changed);
        self.notify_applications_of_sender(cx, index);
        self.path_refresh(cx, index);
        self.update_receiver_proxy(cx, index);
        self.update_reservations(cx, index);
    }
}
