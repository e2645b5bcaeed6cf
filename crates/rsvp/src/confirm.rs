//! Confirmations: ResvConf on its way to the receiver that asked for it (RFC 2205 sections 2.6 and 3.1.9; RFC 2209,
//! RESV CONFIRM ARRIVES).

use core::net::IpAddr;

use earmark_core::{Datagram, Outgoing};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow, FlowDescriptors, List, ResvConf,
};

use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{NEIGHBOR_TTL, PROTOCOL, Rsvp, Turn, send};
use crate::path::Way;
use crate::state::{Index, Peer};

impl Rsvp {
    pub(crate) fn resv_conf_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        confirmation: &ResvConf<'_>,
    ) {
        if datagram.destination != confirmation.confirm {
            return self.drop(turn, datagram, DropReason::BadHop);
        }
        if !turn.context.interfaces.is_local(confirmation.confirm) {
            return self.forward_resv_conf(turn, datagram, confirmation);
        }
        if !self.tell_applications_of_confirmation(turn, confirmation) {
            self.drop(turn, datagram, DropReason::NotForUs);
        }
    }

    /// Confirms a reservation to the receiver that asked: it stands here, and nobody upstream has a say in it.
    pub(crate) fn send_resv_conf<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        psb: Index,
        tcsb: Index,
        receiver: IpAddr,
    ) {
        let tcsb = self.store.tcsb(tcsb);
        let address = tcsb
            .outgoing
            .and_then(|outgoing| turn.context.interfaces.by_id(outgoing))
            .and_then(|interface| interface.address_like(receiver));
        // A receiver on this very host is told at once.
        let node = address.unwrap_or(receiver);
        let flow =
            FixedFilterFlow { flowspec: Some(tcsb.flowspec), filter: self.store.psb(psb).template };
        let confirmation = ResvConf {
            session: self.store.session_of(psb),
            error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
            confirm: receiver,
            carried: Carried::Objects(&[]),
            flows: FlowDescriptors::FixedFilter(List::Items(&[flow])),
        };
        if turn.context.interfaces.is_local(receiver) {
            self.tell_applications_of_confirmation(turn, &confirmation);
            return;
        }
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: None,
            source: node,
            destination: receiver,
            ttl: NEIGHBOR_TTL,
            router_alert: true,
            encapsulated: false,
        };
        send(&mut self.counters, turn.out, how, Body::ResvConf(confirmation));
    }

    /// Sends a confirmation one hop further. It is rebuilt here, so that each hop can vouch for it.
    fn forward_resv_conf<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        confirmation: &ResvConf<'_>,
    ) {
        if datagram.ttl <= 1 {
            return self.drop(turn, datagram, DropReason::TtlExpired);
        }
        let interface = match Way::of(turn.context, confirmation.confirm) {
            Way::Out(interface) => interface,
            Way::Past => return self.relay(turn, datagram),
            Way::Here | Way::None => return self.drop(turn, datagram, DropReason::NoRoute),
        };
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: Some(interface),
            source: datagram.source,
            destination: datagram.destination,
            ttl: datagram.ttl - 1,
            router_alert: true,
            encapsulated: false,
        };
        send(&mut self.counters, turn.out, how, Body::ResvConf(*confirmation));
    }

    /// RESV_CONFIRM to every application that reserved one of the flows. Gives whether there was one.
    fn tell_applications_of_confirmation<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        confirmation: &ResvConf<'_>,
    ) -> bool {
        let FlowDescriptors::FixedFilter(flows) = confirmation.flows else { return false };
        let mut told = false;
        for flow in flows {
            let Some(psb) = self.store.find_sender(&confirmation.session, &flow.filter) else {
                continue;
            };
            let Some(tcsb) = self.store.find_tcsb(psb, None) else { continue };
            for rsb in self.store.rsbs_of(tcsb) {
                if let Peer::Local(application) = self.store.rsb(rsb).hop {
                    told = true;
                    turn.out.notify(Event::Confirmed {
                        application,
                        session: confirmation.session,
                        node: confirmation.error.node,
                        filter: flow.filter,
                    });
                }
            }
        }
        told
    }
}
