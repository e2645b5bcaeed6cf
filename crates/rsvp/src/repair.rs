//! Local repair: what follows from changed routes (RFC 2205 section 3.6; RFC 2209, ROUTE CHANGE NOTIFICATION and PATH
//! LOCAL REPAIR).
//!
//! Changes are noted, and the delay W later all senders are looked at, a bounded number at a time. Those whose way has
//! changed are announced on the new way at once. On the way that they left, a PathTear follows after another delay, and
//! what is reserved there ends: whoever is on both ways has taken the new previous hop by then and does not heed it.
//! Changes that come in bursts are swept together, and as long as no route changes nothing is walked.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Prefix, Time};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Carried, SenderTemplate, Session};

use crate::api::{Change, Event};
use crate::instance::{HandlerContext, Rsvp};
use crate::next_hops::{NextHops, SenderData};
use crate::refresh_reduction::Sending;
use crate::state::{Holder, Index, NONE, OutInterfaces, Peer, Timer, TimerKind};
use crate::tear::EndOfSender;

/// Senders that are looked at in one turn.
const SENDERS_PER_TURN: usize = 256;
/// Departures that are carried out in one turn.
const DEPARTURES_PER_TURN: usize = 256;
/// Changes that are told apart; with more of them, every sender is looked up.
const DISTINCT_CHANGES: usize = 64;

/// What has changed about routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// The way to these destinations.
    Prefix(Prefix),
    /// The way of this source's packets, or of every one's, to a group.
    Group(Option<IpAddr>, IpAddr),
    /// Who knows what.
    Anything,
}

/// What remains to be done about changed routes.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// Changes that wait for their delay to pass.
    noted: Vec<Changed>,
    /// Whether receivers are answered for otherwise than before, which waits likewise.
    answers_changed: bool,
    /// The look at all senders that is under way.
    sweep: Option<Sweep>,
    /// Whether a timer is armed for the two.
    armed: bool,
    /// Ways that senders have left, the oldest first; the timer is armed while there are any.
    departures: VecDeque<Departure>,
    /// The routers that the last Paths of senders were sent to, where these depend on the flow.
    next_hops: BTreeMap<Index, IpAddr>,
}

/// A look at all senders, some in each turn.
#[derive(Debug)]
struct Sweep {
    changes: Vec<Changed>,
    answers_changed: bool,
    /// The next place in the slab of senders.
    next: usize,
}

/// A way that a sender's data takes no more. It says all that a PathTear says, as its sender may be gone by then.
#[derive(Debug)]
struct Departure {
    at: Time,
    session: Session,
    template: SenderTemplate,
    tspec: SenderTspec,
    interface: InterfaceId,
    /// What was reserved there for this sender alone, when it left.
    reserved: Option<FlowSpec>,
    ttl: u8,
}

impl Changed {
    fn concerns(self, source: IpAddr, destination: IpAddr) -> bool {
        match self {
            Changed::Prefix(prefix) => prefix.contains(destination),
            Changed::Group(of, group) => group == destination && of.is_none_or(|of| of == source),
            Changed::Anything => true,
        }
    }
}

impl Repairs {
    /// Whether all senders have followed their routes.
    #[inline]
    pub(crate) fn are_done(&self) -> bool {
        !self.armed
    }

    /// Notes which router the Path of a sender is sent to, if that depends on its flow.
    #[inline]
    pub(crate) fn note_next_hop(&mut self, sender: Index, next_hop: Option<IpAddr>) {
        if let Some(next_hop) = next_hop {
            self.next_hops.insert(sender, next_hop);
        } else if !self.next_hops.is_empty() {
            self.next_hops.remove(&sender);
        }
    }
}

impl Rsvp {
    /// Notes a change; W later its consequences follow.
    pub(crate) fn routes_change(&mut self, now: Time, changed: Changed) {
        let noted = &mut self.repairs.noted;
        if self.store.psbs.is_empty() || noted.contains(&changed) {
            return;
        }
        if noted.len() >= DISTINCT_CHANGES {
            noted.clear();
            noted.push(Changed::Anything);
        } else if noted.first() != Some(&Changed::Anything) {
            noted.push(changed);
        }
        if !self.repairs.armed {
            self.arm_repair(now + self.config.repair_delay);
        }
    }

    /// Receivers are answered for otherwise than before: W later each sender is answered anew.
    pub(crate) fn answers_change(&mut self, now: Time) {
        self.repairs.answers_changed = !self.store.psbs.is_empty();
        if self.repairs.answers_changed && !self.repairs.armed {
            self.arm_repair(now + self.config.repair_delay);
        }
    }

    /// The delay has passed, or a sweep goes on.
    pub(crate) fn repair_is_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        self.repairs.armed = false;
        let Repairs { noted, answers_changed, sweep, .. } = &mut self.repairs;
        let mut sweep = sweep.take().unwrap_or_else(|| Sweep {
            changes: core::mem::take(noted),
            answers_changed: core::mem::take(answers_changed),
            next: 0,
        });
        let end = (sweep.next + SENDERS_PER_TURN).min(self.store.psbs.capacity());
        for index in sweep.next..end {
            let Some(psb) = self.store.psbs.get(index) else { continue };
            let destination = self.store.session(psb.session).session.destination;
            let source = psb.template.source;
            if sweep.changes.iter().any(|changed| changed.concerns(source, destination)) {
                self.repair_sender(cx, index as Index);
            }
            if sweep.answers_changed && self.store.psbs.contains(index) {
                self.answer_anew(cx, index as Index);
            }
        }
        if end < self.store.psbs.capacity() {
            sweep.next = end;
            self.repairs.sweep = Some(sweep);
            // The next millisecond is another turn, so that others have theirs in between.
            self.arm_repair(cx.now + Duration::from_millis(1));
        } else if !self.repairs.noted.is_empty() || self.repairs.answers_changed {
            self.arm_repair(cx.now + self.config.repair_delay);
        }
    }

    fn arm_repair(&mut self, at: Time) {
        self.repairs.armed = true;
        self.store.timers.arm(at, Timer { kind: TimerKind::Repair, block: 0 });
    }

    /// Has a sender's state follow its route, and announces it where it is new.
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
                self.path_message_through(cx, index, *interface, Sending::News);
            }
        }
    }

    /// Whether another router on the same link takes a sender's data than the one that its last Path was sent to.
    fn has_another_next_hop<E>(&self, cx: &HandlerContext<'_, '_, E>, index: Index) -> bool {
        let OutInterfaces::One(interface) = self.store.psb(index).outgoing else { return false };
        let next_hop = self.data_of(index).next_hop(cx.context, interface);
        next_hop != self.repairs.next_hops.get(&index).copied()
    }

    /// A sender's data may have to go elsewhere since the last look. Gives whether it does.
    pub(crate) fn follow_route<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let psb = self.store.psb(index);
        let destination = self.store.session(psb.session).session.destination;
        let (way, incoming) = self.way_of(cx, index);
        // Without a route the old way is kept: routing may only be between two answers. And what is to be passed on
        // unseen is for the next Path to do.
        let known = !matches!(way, NextHops::None | NextHops::Past);
        let here = match way {
            NextHops::Here => true,
            NextHops::Out(_) if !destination.is_multicast() => false,
            _ => psb.is_here(),
        };
        let stays = way.leads_through(cx.context, incoming, &psb.outgoing) && here == psb.is_here();
        self.store.psb_mut(index).set_unrouted(!known);
        if !known || stays {
            return false;
        }
        let outgoing = way.outgoing(cx.context, incoming);
        self.change_way(cx, index, outgoing, here);
        self.rearm_sender(index);
        true
    }

    /// Where the routes lead a sender's data now, and where it comes from.
    fn way_of<'r, E>(
        &self,
        cx: &HandlerContext<'_, 'r, E>,
        index: Index,
    ) -> (NextHops<'r>, Option<InterfaceId>) {
        let data = self.data_of(index);
        (NextHops::of_sender(cx.context, &data), data.incoming)
    }

    /// The data of a sender, as far as its way depends on it.
    pub(crate) fn data_of(&self, index: Index) -> SenderData {
        let psb = self.store.psb(index);
        let incoming = self.store.neighbor_of(psb.hop).map(|(interface, _)| interface);
        SenderData { session: self.store.session_of(index), template: psb.template, incoming }
    }

    /// The data of a sender takes another way now. Upstream is told at once if something else is reserved on it. If
    /// nothing is, upstream is left alone until the old way ends, for the new one is likely to be reserved soon.
    pub(crate) fn change_way<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: OutInterfaces,
        here: bool,
    ) {
        let before = self.asked_for(cx.now, index);
        let path_refresh_at = match outgoing.as_slice() {
            [] => Time::MAX,
            [first, ..] => self.next_refresh(cx.now, *first),
        };
        let psb = self.store.psb_mut(index);
        psb.path_refresh_at = path_refresh_at;
        let left = core::mem::replace(&mut psb.outgoing, outgoing);
        let told = core::mem::replace(&mut psb.path_message_id, NONE);
        self.refresh_reduction.forget(told);
        for &interface in left.as_slice() {
            if !self.store.psb(index).outgoing.contains(interface) {
                self.depart(cx.now, index, interface);
            }
        }
        if here != self.store.psb(index).is_here() {
            self.set_here(cx, index, here);
        }
        let psb = self.store.psb(index);
        let (hop, session) = (psb.hop, psb.session);
        let after = self.asked_for(cx.now, index);
        if before != after {
            match hop {
                Peer::Local(application) => self.tell_sender(cx, index, application, after),
                Peer::Neighbor { .. } => {
                    let at = if after.is_some() { cx.now } else { Time::MAX };
                    self.store.psb_mut(index).resv_refresh_at = at;
                    if after.is_some() {
                        self.forget_resv(index);
                    }
                }
            }
        }
        if let Some(pool) = self.store.pool_of(session) {
            self.settle_pool(cx, pool);
            self.spread_patiently(cx, pool);
        }
        self.answer_for_receivers(cx, index);
    }

    /// Notes that a sender has left an interface.
    fn depart(&mut self, now: Time, index: Index, interface: InterfaceId) {
        let psb = self.store.psb(index);
        let at = now + self.config.departure_delay;
        let (session, template) = (self.store.session_of(index), psb.template);
        let tspec = psb.tspec;
        if self.repairs.departures.is_empty() {
            self.store.timers.arm(at, Timer { kind: TimerKind::Departure, block: 0 });
        }
        let ttl = self.ttl_downstream(index);
        let tcsb = self.store.find_tcsb(Holder::Sender(index), Some(interface));
        let reserved = tcsb.map(|tcsb| self.store.tcsb(tcsb).flowspec);
        let departure = Departure { at, session, template, tspec, interface, reserved, ttl };
        self.repairs.departures.push_back(departure);
    }

    /// Who reserved for a sender's data behind an interface.
    fn next_hops(&self, psb: Index, interface: InterfaceId) -> Vec<IpAddr> {
        let pool = self.store.pool_of(self.store.psb(psb).session).map(Holder::Pool);
        let holders = [Some(Holder::Sender(psb)), pool].into_iter().flatten();
        let tcsbs = holders.filter_map(|holder| self.store.find_tcsb(holder, Some(interface)));
        let rsbs = tcsbs.flat_map(|tcsb| self.store.rsbs_of(tcsb));
        rsbs.filter_map(|rsb| self.store.neighbor_of(self.store.rsb(rsb).hop))
            .map(|(_, hop)| hop.address)
            .collect()
    }

    /// What was reserved on an old way may have been given back before that way ended. Upstream was not told then, for the
    /// new way might have taken its place, and is told now if there is none.
    fn give_back_late<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        psb: Index,
        reserved: Option<FlowSpec>,
    ) {
        let is_ours = matches!(self.store.psb(psb).hop, Peer::Local(_)); // it was told at once
        if reserved.is_some() && !is_ours && self.store.first_tcsb(Holder::Sender(psb)).is_none() {
            self.tell_upstream_of(cx, psb, reserved, Carried::NONE);
        }
    }

    /// The old ways of some senders end, unless their data came back to them.
    pub(crate) fn departures_are_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
    ) {
        for _ in 0..DEPARTURES_PER_TURN {
            let due = self.repairs.departures.front().is_some_and(|first| first.at <= cx.now);
            let Some(old) = due.then(|| self.repairs.departures.pop_front()).flatten() else {
                break;
            };
            let sender = self.store.find_sender(&old.session, &old.template);
            if let Some(psb) = sender {
                self.give_back_late(cx, psb, old.reserved);
                if self.store.psb(psb).outgoing.contains(old.interface) {
                    continue;
                }
                // The data is back already, only the sender's turn to be looked at has not come yet.
                let (way, incoming) = self.way_of(cx, psb);
                if way.outgoing(cx.context, incoming).contains(old.interface) {
                    let at = cx.now + self.config.departure_delay;
                    self.repairs.departures.push_back(Departure { at, ..old });
                    continue;
                }
            }
            self.scratch.clear();
            let Departure { session, template, tspec, interface, ttl, .. } = old;
            let end = EndOfSender { session, template, tspec, incoming: None };
            let known = sender.map_or(Vec::new(), |psb| self.next_hops(psb, interface));
            // Unicast routes lead elsewhere by now, so who is known on the old way is written to by name. Only who
            // reserved is known; for the others the way to the destination has to do.
            if known.is_empty() || session.destination.is_multicast() {
                self.send_path_tear(cx, interface, session.destination, &end, ttl);
            } else {
                for hop in known {
                    self.send_path_tear(cx, interface, hop, &end, ttl);
                }
            }
            if let Some(psb) = sender {
                self.leave(cx, psb, Some(interface));
            }
        }
        if let Some(first) = self.repairs.departures.front() {
            let at = first.at.max(cx.now + Duration::from_millis(1));
            self.store.timers.arm(at, Timer { kind: TimerKind::Departure, block: 0 });
        }
    }
}
