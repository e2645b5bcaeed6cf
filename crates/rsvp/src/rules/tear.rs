//! Teardown of senders and reservations: by message, by timeout, or with the state they depend on (RFC 2205 sections
//! 3.1.5 and 3.1.6; RFC 2209, PTEAR and RTEAR MESSAGE ARRIVES).

use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::{
    Body, Carried, FlowDescriptors, PathTear, ResvTear, SenderTemplate, Session,
};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::upstream::SendOptions;
use crate::state::store::Place;
use crate::state::{Block, Holder, Index, Origin, OutInterfaces, Peer, Psb, Timer, TimerKind};

/// Content of a PathTear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathTearContent {
    pub(crate) session: Session,
    pub(crate) template: SenderTemplate,
    pub(crate) tspec: SenderTspec,
    /// Incoming interface of the data; `None` for a sender on this host.
    pub(crate) incoming: Option<InterfaceId>,
}

impl Rsvp {
    pub(crate) fn receive_path_tear<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        tear: &PathTear<'_>,
    ) {
        let place = self.store.place_of_sender(&tear.session, &tear.template);
        let found = self.store.sender_at(place, &tear.session, &tear.template);
        mark(Checkpoint::SearchPsb);
        let Some(index) = found else {
            // A Path relayed to a link without RSVP had no state here, so its PathTear is relayed, too.
            let (session, template) = (tear.session, tear.template);
            let data = SenderData::new(session, template, Some(datagram.interface));
            return match NextHops::of_sender(cx.context, &data) {
                NextHops::WithoutRsvp => self.relay(cx, datagram),
                _ => self.drop(cx, datagram, DropReason::NoState),
            };
        };
        // RFC 2205 section 3.1.5: if the previous hop has changed, the PathTear of the old one is ignored.
        let hop = self.store.neighbor_of(self.store.psb(index).hop);
        let from = (datagram.interface, tear.hop);
        if hop != Some(from) {
            self.repairs.former_hops.note_tear(index, from);
            return self.drop(cx, datagram, DropReason::OtherHop);
        }
        if self.is_overtaken(cx, self.store.psb(index).message_id) {
            return self.drop(cx, datagram, DropReason::Overtaken);
        }
        if self.return_to_former_hop(cx, index) {
            return;
        }
        self.scratch.clear();
        for object in tear.carried.iter() {
            self.scratch.extend_from_slice(object.bytes);
        }
        self.forward_path_tear(cx, index);
        mark(Checkpoint::PathRefresh);
        self.remove_sender(cx, place, index, Change::Torn);
    }

    pub(crate) fn receive_resv_tear<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        tear: &ResvTear<'_>,
    ) {
        let outgoing = match self.comes_from_next_hop(cx, datagram, tear.hop) {
            Ok(outgoing) => outgoing,
            Err(reason) => return self.drop(cx, datagram, reason),
        };
        let FlowDescriptors::FixedFilter(flows) = tear.flows else {
            if !self.receive_shared_tear(cx, tear, outgoing) {
                self.drop(cx, datagram, DropReason::NoState);
            }
            return;
        };
        let mut found_any = false;
        let origin = Origin::Neighbor(outgoing, tear.hop);
        for flow in flows {
            let sender = self.store.find_sender(&tear.session, &flow.filter).map(Holder::Sender);
            let found = sender
                .and_then(|holder| self.store.find_request(holder, Some(outgoing), origin).rsb);
            mark(Checkpoint::FindRsb);
            if let Some(rsb) = found {
                found_any = true;
                if self.is_overtaken(cx, self.store.rsb(rsb).message_id) {
                    self.drop(cx, datagram, DropReason::Overtaken);
                    continue;
                }
                self.drop_reservation(cx, rsb, Change::Torn, tear.carried);
                mark(Checkpoint::ResvRefresh);
            }
        }
        if !found_any {
            self.drop(cx, datagram, DropReason::NoState);
        }
    }

    /// Removes a sender and its reservations, and sends a PathTear downstream. Upstream nodes had the sender first and
    /// get no message (RFC 2205 section 3.1.5).
    pub(crate) fn drop_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        self.scratch.clear();
        self.forward_path_tear(cx, index);
        let (session, template) = (self.store.session_of(index), self.store.psb(index).template);
        let place = self.store.place_of_sender(&session, &template);
        self.remove_sender(cx, place, index, change);
    }

    /// Removes a sender that the next hop has removed, so that nobody downstream needs a PathTear.
    pub(crate) fn forget_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let (session, template) = (self.store.session_of(index), self.store.psb(index).template);
        let place = self.store.place_of_sender(&session, &template);
        self.remove_sender(cx, place, index, Change::Torn);
    }

    /// Removes a reservation request and updates the request upstream. `carried` are the unknown objects of the
    /// ResvTear that caused it, which are forwarded (RFC 2205 section 3.10).
    pub(crate) fn drop_reservation<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        change: Change,
        carried: Carried<'_>,
    ) {
        let tcsb = self.store.tcsb(self.store.rsb(rsb).tcsb);
        let (holder, ended) = (tcsb.holder, Some(tcsb.flowspec));
        self.withdraw(cx, rsb, change);
        let options = SendOptions { carried, ended, ..SendOptions::default() };
        self.send_difference(cx, holder, &options);
    }

    /// Removes the reservations for a sender on an interface (`None`: on this host) that its data no longer uses, and
    /// updates the request upstream.
    pub(crate) fn remove_from_interface<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        psb: Index,
        outgoing: Option<InterfaceId>,
    ) {
        if outgoing.is_some() {
            self.forget_discovered(psb, outgoing);
        }
        if let Some(tcsb) = self.store.find_tcsb(Holder::Sender(psb), outgoing) {
            self.lose_reservation(cx, tcsb, Change::Orphaned);
        }
        let (session, template) = (self.store.psb(psb).session, self.store.psb(psb).template);
        let pool = self.store.pool_of(session).map(Holder::Pool);
        if let Some(tcsb) = pool.and_then(|pool| self.store.find_tcsb(pool, outgoing)) {
            self.remove_sender_from_tcsb(cx, tcsb, &template);
        }
        // Its own reservation there may have ended earlier, while the request upstream stayed.
        self.update_requests_for(cx, psb);
    }

    /// Handles the timer of a reservation: removes it if expired, else arms the timer again, since refreshes do not
    /// move it.
    pub(crate) fn reservation_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let rsb = &mut self.store.rsbs[index as usize];
        rsb.timer = None;
        if cx.now < rsb.expires_at {
            return self.arm_reservation(index);
        }
        let now = cx.now;
        if let Some(until) = self.held_until(now, self.store.rsb(index).hop) {
            return self.keep_expired_request(index, now, until);
        }
        let Holder::Pool(pool) = self.store.tcsb(self.store.rsb(index).tcsb).holder else {
            return self.drop_reservation(cx, index, Change::Expired, Carried::NONE);
        };
        // Of a shared-explicit request only the filters expire that were not refreshed.
        if self.store.rsb(index).filters().iter().all(|filter| filter.expires_at <= now) {
            return self.drop_reservation(cx, index, Change::Expired, Carried::NONE);
        }
        self.drop_filters(cx, index, |filter| filter.expires_at <= now, Change::Expired);
        self.arm_reservation(index);
        self.update_upstream(cx, Holder::Pool(pool));
    }

    /// Arms the timer of a reservation, which has fired, for its end.
    pub(crate) fn arm_reservation(&mut self, index: Index) {
        let rsb = &mut self.store.rsbs[index as usize];
        let timer = Timer { kind: TimerKind::Reservation, block: index };
        rsb.timer = Some(self.store.timers.arm(rsb.expires_at, timer));
    }

    /// Sends the PathTear of a sender to all next hops. `scratch` holds the unknown objects to be forwarded.
    fn forward_path_tear<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        match self.store.psb(index).outgoing {
            OutInterfaces::None => {}
            OutInterfaces::One(interface) => self.tear_branch(cx, index, interface),
            OutInterfaces::Many(ref branches) => {
                for interface in branches.interfaces.clone() {
                    self.tear_branch(cx, index, interface);
                }
            }
        }
    }

    /// Sends the PathTear of a sender through one interface, unless its Path ends at a proxy there.
    #[inline]
    fn tear_branch<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
    ) {
        if !self.sinks_path(cx.context, index, outgoing) {
            self.send_path_tear_of(cx, index, outgoing);
        }
    }

    /// Sends the PathTear of a sender through one interface. `scratch` holds the unknown objects to be forwarded.
    pub(crate) fn send_path_tear_of<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        outgoing: InterfaceId,
    ) {
        let psb = self.store.psb(index);
        let (template, tspec) = (psb.template, psb.tspec);
        let (session, ttl) = (self.store.session_of(index), self.ttl_downstream(index));
        let incoming = self.sender_data(index).incoming;
        let end = PathTearContent { session, template, tspec, incoming };
        self.send_path_tear(cx, outgoing, session.destination, &end, ttl);
    }

    /// Sends a PathTear through one interface to the RSVP nodes on the path to an address. `scratch` holds the unknown
    /// objects to be forwarded.
    pub(crate) fn send_path_tear<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        outgoing: InterfaceId,
        destination: IpAddr,
        end: &PathTearContent,
        ttl: u8,
    ) {
        let &PathTearContent { session, template, tspec, incoming } = end;
        let data = SenderData::new(session, template, incoming);
        let Some((hop, how, _)) = self.downstream(cx, outgoing, &session, &template, ttl) else {
            return;
        };
        let follows_data = destination == session.destination;
        let by_flow = follows_data && cx.context.routes.differs_by_flow(destination);
        let next_hop = by_flow.then(|| data.next_hop(cx.context, outgoing)).flatten();
        let how = Outgoing { destination, next_hop, ..how };
        let carried = Carried::Objects(&self.scratch);
        let tspec = Some(tspec);
        let body = Body::PathTear(PathTear { session, hop, carried, template, tspec });
        if self.encapsulating.contains(&outgoing) {
            let outgoing_message = OutgoingMessage::new(Outgoing { encapsulated: true, ..how });
            self.refresh_reduction.send(&mut self.counters, cx.out, outgoing_message, &body);
        }
        let peer =
            self.refresh_reduction.peer_towards(cx, Some(outgoing), destination, |context| {
                match follows_data {
                    true => data.hop(context),
                    false => context.routes.lookup(destination),
                }
            });
        let outgoing_message = OutgoingMessage::new(how).via(peer);
        let timers = &mut self.store.timers;
        self.refresh_reduction.send_reliably(
            timers,
            &mut self.counters,
            cx,
            outgoing_message,
            &body,
        );
    }

    /// Removes the sender at a place with all state that depends on it.
    fn remove_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        place: Place,
        index: Index,
        change: Change,
    ) {
        self.notify_path_gone(cx, index);
        while let Some(tcsb) = self.store.first_tcsb(Holder::Sender(index)) {
            self.remove_from_traffic_control(cx, tcsb, Change::Orphaned);
        }
        if let Some(pool) = self.store.pool_of(self.store.psb(index).session) {
            self.remove_from_pool(cx, index, pool);
        }
        self.notify_path_state(cx, index, change);
        self.forget_discovered(index, None);
        self.repairs.forget(index);
        let psb = self.store.remove_sender(place, index);
        self.refresh_reduction.forget(psb.path_message_id);
        self.refresh_reduction.forget(psb.resv_message_id);
        self.store.release_neighbor(psb.hop, Block::Sender);
        mark(Checkpoint::TearPsb);
    }

    /// Removes a sender from the shared reservations of its session before it ends.
    fn remove_from_pool<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        pool: Index,
    ) {
        self.forget_sent_requests(index);
        let psb = self.store.psb_mut(index);
        let template = psb.template;
        psb.flags &= !Psb::HERE;
        psb.outgoing = OutInterfaces::None;
        let mut next = self.store.first_tcsb(Holder::Pool(pool));
        while let Some(tcsb) = next {
            next = self.store.next_tcsb(tcsb);
            self.remove_sender_from_tcsb(cx, tcsb, &template);
        }
        self.update_upstream(cx, Holder::Pool(pool));
    }

    /// Notifies applications of this host that a sender has ended, except its own application.
    pub(crate) fn notify_path_gone<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if self.applications.is_empty() {
            return;
        }
        let psb = self.store.psb(index);
        let session = self.store.session_of(index);
        if !psb.is_here() {
            return;
        }
        for application in self.applications.of_session(&session) {
            if psb.hop != Peer::Local(application) {
                cx.out.notify(Event::PathGone { application, session, template: psb.template });
            }
        }
    }
}
