//! Teardown: senders and reservations go, because they are told to, time out, or lose what they hang on
//! (RFC 2205 sections 3.1.5 and 3.1.6; RFC 2209, PTEAR and RTEAR MESSAGE ARRIVES).

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, FixedFilterFlow, FlowDescriptors, List, PathTear, ResvTear, RsvpHop,
};

use crate::api::{Change, Event};
use crate::counters::DropReason;
use crate::instance::{Rsvp, Turn, send};
use crate::path::Way;
use crate::refresh::to_neighbor;
use crate::state::{Block, Index, Peer, Timer, TimerKind};
use crate::traffic::Remainder;

impl Rsvp {
    pub(crate) fn path_tear_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        tear: &PathTear<'_>,
    ) {
        let Some(index) = self.store.find_sender(&tear.session, &tear.template) else {
            // Where the Path was relayed, for want of RSVP on the way out, so is its end.
            return match Way::of(turn.context, tear.session.destination) {
                Way::Past => self.relay(turn, datagram),
                _ => self.drop(turn, datagram, DropReason::NoState),
            };
        };
        // RFC 2205 section 3.1.5: the state is another hop's by now; its old hop has no say in it.
        let hop = self.store.neighbor_of(self.store.psb(index).hop);
        if hop != Some((datagram.interface, tear.hop)) {
            return self.drop(turn, datagram, DropReason::OtherHop);
        }
        self.scratch.clear();
        for object in tear.carried.iter() {
            self.scratch.extend_from_slice(object.bytes);
        }
        self.forward_path_tear(turn, index);
        self.remove_sender(turn, index, Change::Torn);
    }

    pub(crate) fn resv_tear_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        tear: &ResvTear<'_>,
    ) {
        let Some(outgoing) = self.interface_of_lih(turn, tear.hop.lih) else {
            return self.drop(turn, datagram, DropReason::BadLih);
        };
        let FlowDescriptors::FixedFilter(flows) = tear.flows else {
            return self.drop(turn, datagram, DropReason::NoState);
        };
        let mut found_any = false;
        for flow in flows {
            let found = self
                .store
                .find_sender(&tear.session, &flow.filter)
                .and_then(|psb| Some((psb, self.find_rsb(psb, outgoing, tear.hop)?)));
            if let Some((psb, rsb)) = found {
                found_any = true;
                self.drop_reservation(turn, psb, rsb, Change::Torn);
            }
        }
        if !found_any {
            self.drop(turn, datagram, DropReason::NoState);
        }
    }

    /// A sender goes: tells those downstream, and takes its reservations with it. Nobody upstream has to be told,
    /// since they had it first (RFC 2205 section 3.1.5).
    pub(crate) fn drop_sender<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        self.scratch.clear();
        self.forward_path_tear(turn, index);
        self.remove_sender(turn, index, change);
    }

    /// A reservation goes: what is left of it, if anything, is what upstream gets to hear.
    pub(crate) fn drop_reservation<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        rsb: Index,
        change: Change,
    ) {
        let (outgoing, flowspec) = {
            let tcsb = self.store.tcsb(self.store.rsb(rsb).tcsb);
            (tcsb.outgoing, tcsb.flowspec)
        };
        let remainder = self.withdraw(turn, rsb, change);
        self.tell_upstream_of(turn, psb, outgoing, remainder, flowspec);
    }

    /// A reservation's timer fired: its end, or only an alarm that later refreshes have made void.
    pub(crate) fn reservation_is_due<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
    ) {
        let rsb = &mut self.store.rsbs[index as usize];
        rsb.timer = None;
        if turn.now < rsb.expires_at {
            let timer = Timer { kind: TimerKind::Reservation, block: index };
            rsb.timer = Some(self.store.timers.arm(rsb.expires_at, timer));
            return;
        }
        let psb = self.store.tcsb(self.store.rsb(index).tcsb).psb;
        self.drop_reservation(turn, psb, index, Change::Expired);
    }

    /// Tells those upstream what is left of a reservation on `outgoing` that asked for `flowspec`.
    pub(crate) fn tell_upstream_of<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        outgoing: Option<InterfaceId>,
        remainder: Remainder,
        flowspec: FlowSpec,
    ) {
        let block = self.store.psb(psb);
        // A reservation on a way that the data has left was not asked for upstream any more.
        if outgoing != block.outgoing {
            return;
        }
        if let Peer::Local(application) = block.hop {
            let (session, filter) = (self.store.session_of(psb), block.template);
            let left = self.store.find_tcsb(psb, block.outgoing);
            match (remainder, left) {
                (Remainder::Less, Some(tcsb)) => {
                    let flowspec = self.store.tcsb(tcsb).flowspec;
                    turn.out.notify(Event::Resv { application, session, filter, flowspec });
                }
                (Remainder::Nothing, _) => {
                    turn.out.notify(Event::ResvGone { application, session, filter });
                }
                _ => {}
            }
            return;
        }
        match remainder {
            Remainder::Same => {}
            Remainder::Less => self.resv_refresh(turn, psb, None),
            Remainder::Nothing => {
                self.send_resv_tear(turn, psb, flowspec);
                self.schedule_resv_refresh(turn.now, psb);
                self.rearm_sender(psb);
            }
        }
    }

    /// Sends the PathTear of a sender onward; objects to be carried lie in `scratch`.
    fn forward_path_tear<E>(&mut self, turn: &mut Turn<'_, '_, E>, index: Index) {
        let Some((hop, how, _)) = self.downstream(turn, index) else { return };
        let psb = self.store.psb(index);
        let tear = PathTear {
            session: self.store.session_of(index),
            hop,
            carried: Carried::Objects(&self.scratch),
            template: psb.template,
            tspec: Some(psb.tspec),
        };
        send(&mut self.counters, turn.out, how, Body::PathTear(tear));
    }

    fn send_resv_tear<E>(&mut self, turn: &mut Turn<'_, '_, E>, index: Index, flowspec: FlowSpec) {
        let psb = self.store.psb(index);
        let Some((incoming, hop)) = self.store.neighbor_of(psb.hop) else { return };
        let Some(interface) = turn.context.interfaces.by_id(incoming) else { return };
        let Some(address) = interface.address_like(hop.address) else { return };
        let flow = FixedFilterFlow { flowspec: Some(flowspec), filter: psb.template };
        let tear = ResvTear {
            session: self.store.session_of(index),
            hop: RsvpHop { address, lih: hop.lih },
            scope: None,
            carried: Carried::Objects(&[]),
            flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
        };
        let how = to_neighbor(address, hop.address);
        send(&mut self.counters, turn.out, how, Body::ResvTear(tear));
    }

    /// Takes a sender out with all that hangs on it.
    fn remove_sender<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        while let Some(tcsb) = self.store.first_tcsb(index) {
            self.void(turn, tcsb, Change::Orphaned);
        }
        self.notify_path_state(turn, index, change);
        self.tell_applications_of_end(turn, index);
        let psb = self.store.remove_sender(index);
        self.store.part(psb.hop, Block::Sender);
        mark(Checkpoint::TearPsb);
    }

    /// The sender is gone: its own application knows, those that receive from it must hear of it.
    fn tell_applications_of_end<E: From<Event>>(&self, turn: &mut Turn<'_, '_, E>, index: Index) {
        if self.applications.is_empty() {
            return;
        }
        let psb = self.store.psb(index);
        let session = self.store.session_of(index);
        if psb.outgoing.is_some() {
            return;
        }
        for application in self.applications.of_session(&session) {
            if psb.hop != Peer::Local(application) {
                turn.out.notify(Event::PathGone { application, session, template: psb.template });
            }
        }
    }
}
