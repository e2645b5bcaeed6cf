//! Local repair after route changes (RFC 2205 section 3.6; RFC 2209, ROUTE CHANGE NOTIFICATION and PATH LOCAL REPAIR).
//!
//! Route changes are recorded, and after the delay W all senders are examined, a limited number at a time. A sender
//! whose next hops have changed gets a Path on the new path at once. After another delay a PathTear follows on the old
//! path and the reservations there end; a node on both paths has the new previous hop by then and ignores the PathTear.
//! Changes in bursts are handled in one sweep, and no sender is examined unless a route changes.

mod former_hops;
mod pending;

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Time};

use self::pending::{Departure, Pending, Sweep};
use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::SendReason;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::tear::PathTearContent;
use crate::state::{Holder, Index, NONE, OutInterfaces, Psb, Timer, TimerKind};

/// Limit of senders examined in one timer event.
const SENDERS_PER_TURN: usize = 256;
/// Limit of departures handled in one timer event.
const DEPARTURES_PER_TURN: usize = 256;
/// Limit of distinct recorded changes; beyond it every sender is examined.
const MAX_DISTINCT_CHANGES: usize = 64;

pub(crate) use self::pending::{RepairCause, Repairs};

impl Rsvp {
    /// Records a change, which is handled after the delay W of its interface. Later changes with the same delay join it.
    pub(crate) fn note_change<E>(&mut self, cx: &HandlerContext<'_, '_, E>, cause: RepairCause) {
        if self.store.psbs.is_empty() {
            return;
        }
        let delay = self.repair_delay(cx, cause);
        let pending = &mut self.repairs.pending;
        if let Some(joined) = pending.iter_mut().find(|pending| pending.delay == delay) {
            if joined.causes.contains(&cause) {
                return;
            }
            // Senders that are examined for any route are not checked against the proxies by that.
            let is_recorded =
                cause == RepairCause::ReceiverProxies || joined.causes.len() < MAX_DISTINCT_CHANGES;
            match is_recorded {
                true => joined.causes.push(cause),
                false => joined.is_overfull = true,
            }
            return;
        }
        let due = cx.now + delay;
        pending.push(Pending { delay, due, causes: [cause].into(), is_overfull: false });
        self.arm_repair(due);
    }

    /// Returns W of the interface that a change concerns; that of all interfaces if it concerns none in particular.
    fn repair_delay<E>(&self, cx: &HandlerContext<'_, '_, E>, cause: RepairCause) -> Duration {
        let interface = match cause {
            RepairCause::Interface(interface) => Some(interface),
            RepairCause::Prefix(prefix) => {
                cx.context.routes.lookup(prefix.address()).map(|hop| hop.interface)
            }
            RepairCause::Group(..) | RepairCause::ReceiverProxies => None,
        };
        interface.map_or(self.config.timing, |id| self.config.timing(id)).repair_delay
    }

    /// Handles the repair timer: starts or continues a sweep.
    pub(crate) fn repair_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let mut sweep = match self.repairs.sweep.take() {
            Some(sweep) => sweep,
            None => {
                let due = |pending: &mut Pending| pending.due <= cx.now;
                Sweep { of: self.repairs.pending.extract_if(.., due).collect(), next: 0 }
            }
        };
        if sweep.of.is_empty() {
            return; // handled by the sweep that was in progress
        }
        let proxies_changed =
            sweep.of.iter().any(|of| of.causes.contains(&RepairCause::ReceiverProxies));
        let end = (sweep.next + SENDERS_PER_TURN).min(self.store.psbs.capacity());
        for index in sweep.next..end {
            let Some(psb) = self.store.psbs.get(index) else { continue };
            let destination = self.store.session(psb.session).session.destination;
            let source = psb.template.source;
            if sweep.of.iter().any(|of| of.concerns(source, destination)) {
                self.repair_sender(cx, index as Index);
            }
            if proxies_changed && self.store.psbs.contains(index) {
                self.recheck_receiver_proxy(cx, index as Index);
            }
        }
        if end < self.store.psbs.capacity() {
            sweep.next = end;
            self.repairs.sweep = Some(sweep);
            // One millisecond later, so that other timers are served in between.
            self.arm_repair(cx.now + Duration::from_millis(1));
        } else if self.repairs.pending.iter().any(|pending| pending.due <= cx.now) {
            // Their timers have continued this sweep.
            self.arm_repair(cx.now);
        }
    }

    fn arm_repair(&mut self, at: Time) {
        self.store.timers.arm(at, Timer { kind: TimerKind::Repair, block: 0 });
    }

    /// Updates the next hops of a sender, and sends a Path to new ones.
    fn repair_sender<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let before = self.store.psb(index).outgoing.clone();
        if !self.follow_route(cx, index) {
            if self.has_another_next_hop(cx, index) || self.is_listed_for_another_peer(cx, index) {
                self.path_refresh(cx, index);
            }
            return;
        }
        self.notify_path_state(cx, index, Change::Changed);
        for interface in self.store.psb(index).outgoing.clone().as_slice() {
            if !before.contains(*interface) {
                self.path_message_through(cx, index, *interface, SendReason::Trigger);
            }
        }
        self.update_requests_for(cx, index);
    }

    /// Returns whether the next hop of a sender on the same link differs from the router that its last Path was sent
    /// to.
    fn has_another_next_hop<E>(&self, cx: &HandlerContext<'_, '_, E>, index: Index) -> bool {
        let OutInterfaces::One(interface) = self.store.psb(index).outgoing else { return false };
        let next_hop = self.sender_data(index).next_hop(cx.context, interface);
        next_hop != self.repairs.sent_next_hops.get(&index).copied()
    }

    /// Updates the next hops of a sender from the current routes. Returns whether they have changed.
    pub(crate) fn follow_route<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let psb = self.store.psb(index);
        let destination = self.store.session(psb.session).session.destination;
        let (next_hops, incoming) = self.current_next_hops(cx, index);
        // Without a route the old next hops stay, since routing may be converging. A sender whose Path must be relayed
        // is handled by the next Path.
        let known = !matches!(next_hops, NextHops::None | NextHops::WithoutRsvp);
        let here = match next_hops {
            NextHops::Here => true,
            NextHops::Out(_) if !destination.is_multicast() => false,
            _ => psb.is_here(),
        };
        let stays =
            next_hops.has_outgoing(cx.context, incoming, &psb.outgoing) && here == psb.is_here();
        self.store.psb_mut(index).set_unrouted(!known);
        if !known || stays {
            return false;
        }
        let outgoing = next_hops.outgoing(cx.context, incoming);
        self.change_next_hops(cx, index, outgoing, here);
        self.rearm_sender(index);
        true
    }

    /// Returns the current next hops of a sender's data, and its incoming interface.
    fn current_next_hops<'r, E>(
        &self,
        cx: &HandlerContext<'_, 'r, E>,
        index: Index,
    ) -> (NextHops<'r>, Option<InterfaceId>) {
        let data = self.sender_data(index);
        (NextHops::of_sender(cx.context, &data), data.incoming)
    }

    /// Returns the properties of a sender's data that its route depends on.
    pub(crate) fn sender_data(&self, index: Index) -> SenderData {
        let psb = self.store.psb(index);
        let hop = self.store.neighbor_of(psb.hop);
        let incoming = hop.map(|(interface, _)| interface);
        let previous = hop.map(|(_, hop)| hop.address);
        let (session, template) = (self.store.session_of(index), psb.template);
        SenderData { session, template, incoming, previous }
    }

    /// Replaces the next hops of a sender. The caller updates the request upstream.
    pub(crate) fn change_next_hops<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        mut outgoing: OutInterfaces,
        here: bool,
    ) {
        let path_refresh_at = self.next_path_refresh(cx.now, &mut outgoing);
        let psb = self.store.psb_mut(index);
        psb.path_refresh_at = path_refresh_at;
        let left = core::mem::replace(&mut psb.outgoing, outgoing);
        let entry = core::mem::replace(&mut psb.path_message_id, NONE);
        self.refresh_reduction.forget(entry);
        for &interface in left.as_slice() {
            if !self.store.psb(index).outgoing.contains(interface) {
                self.note_departure(cx.now, index, interface);
            }
        }
        if here != self.store.psb(index).is_here() {
            self.set_here(cx, index, here);
        }
        if let Some(pool) = self.store.pool_of(self.store.psb(index).session) {
            self.forget_incomplete_requests(pool);
            self.update_all_traffic_control(cx, Holder::Pool(pool));
        }
        self.update_receiver_proxy(cx, index);
    }

    /// Records that a sender's data has left an interface.
    fn note_departure(&mut self, now: Time, index: Index, interface: InterfaceId) {
        let psb = self.store.psb(index);
        let at = now + self.config.departure_delay;
        let (session, template) = (self.store.session_of(index), psb.template);
        let tspec = psb.tspec;
        if self.repairs.departures.is_empty() {
            self.store.timers.arm(at, Timer { kind: TimerKind::Departure, block: 0 });
        }
        let ttl = self.ttl_downstream(index);
        self.store.psb_mut(index).flags |= Psb::MOVING;
        let departure = Departure { at, session, template, tspec, interface, ttl };
        self.repairs.departures.push_back(departure);
    }

    /// Returns the next hops with reservations for a sender behind an interface.
    fn reserving_next_hops(&self, psb: Index, interface: InterfaceId) -> Vec<IpAddr> {
        let pool = self.store.pool_of(self.store.psb(psb).session).map(Holder::Pool);
        let holders = [Some(Holder::Sender(psb)), pool].into_iter().flatten();
        let tcsbs = holders.filter_map(|holder| self.store.find_tcsb(holder, Some(interface)));
        let rsbs = tcsbs.flat_map(|tcsb| self.store.rsbs_of(tcsb));
        rsbs.filter_map(|rsb| self.store.neighbor_of(self.store.rsb(rsb).hop))
            .map(|(_, hop)| hop.address)
            .collect()
    }

    /// Handles the departure timer: ends old paths, unless the data has returned to them.
    pub(crate) fn departures_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..DEPARTURES_PER_TURN {
            let due = self.repairs.departures.front().is_some_and(|first| first.at <= cx.now);
            let Some(old) = due.then(|| self.repairs.departures.pop_front()).flatten() else {
                break;
            };
            let sender = self.store.find_sender(&old.session, &old.template);
            if let Some(psb) = sender {
                let is_back = self.store.psb(psb).outgoing.contains(old.interface);
                let is_to_return = || {
                    let (next_hops, incoming) = self.current_next_hops(cx, psb);
                    next_hops.outgoing(cx.context, incoming).contains(old.interface)
                };
                if !is_back && is_to_return() {
                    // The sweep has not reached the sender yet.
                    let at = cx.now + self.config.departure_delay;
                    self.repairs.departures.push_back(Departure { at, ..old });
                    continue;
                }
                self.store.psb_mut(psb).flags &= !Psb::MOVING;
                if is_back {
                    self.update_requests_for(cx, psb);
                    continue;
                }
            }
            self.scratch.clear();
            let Departure { session, template, tspec, interface, ttl, .. } = old;
            let end = PathTearContent { session, template, tspec, incoming: None };
            let known = sender.map_or(Vec::new(), |psb| self.reserving_next_hops(psb, interface));
            // Unicast routes have changed, so next hops on the old path are addressed directly. Only those with
            // reservations are known; others are reached by the destination address.
            if known.is_empty() || session.destination.is_multicast() {
                self.send_path_tear(cx, interface, session.destination, &end, ttl);
            } else {
                for hop in known {
                    self.send_path_tear(cx, interface, hop, &end, ttl);
                }
            }
            if let Some(psb) = sender {
                self.remove_from_interface(cx, psb, Some(interface));
            }
        }
        if let Some(first) = self.repairs.departures.front() {
            let at = first.at.max(cx.now + Duration::from_millis(1));
            self.store.timers.arm(at, Timer { kind: TimerKind::Departure, block: 0 });
        }
    }
}
