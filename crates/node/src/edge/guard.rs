//! What messages of RSVP want of an aggregate, before RSVP sees them: those for which there is no room wait.

use earmark_core::admission::Demand;
use earmark_core::{Datagram, Effects, Input as EngineInput, InterfaceId, Prefix, Rate, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{Body, FlowDescriptors, Message, Resv, SenderTemplate, Session};

use crate::api::Event;
use crate::node::Node;

impl Node {
    /// A message of RSVP, or one that was hidden from a core, at a node that faces one.
    pub(crate) fn rsvp_at_edge(
        &mut self,
        now: Time,
        protocol: u8,
        datagram: Datagram<'_>,
        out: &mut Effects<Event>,
    ) {
        let Some(datagram) = self.reveal(protocol, datagram) else { return };
        if !self.waits(now, &datagram) {
            self.rsvp(now, EngineInput::Datagram(datagram), out);
        }
    }

    /// Lets a request wait that an aggregate has no room for, but may have soon.
    fn waits(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        if !self.edges.facing.contains_key(&datagram.interface) {
            return false;
        }
        let Ok(message) = Message::parse(datagram.payload) else { return false };
        match message.body {
            Body::Resv(resv) => self.resv_waits(now, datagram, &resv),
            Body::ResvTear(tear) => {
                for lane in &mut self.edges.lanes {
                    lane.forget(&tear.session, datagram.source);
                }
                false
            }
            // All of a Bundle waits for the first request in it that has to.
            Body::Bundle(bundle) => bundle.iter().any(|octets| match Message::parse(octets) {
                Ok(Message { body: Body::Resv(resv), .. }) => self.resv_waits(now, datagram, &resv),
                _ => false,
            }),
            _ => false,
        }
    }

    fn resv_waits(&mut self, now: Time, datagram: &Datagram<'_>, resv: &Resv<'_>) -> bool {
        let destination = Prefix::host(resv.session.destination);
        let Some(link) = self.ledger.lane_to(datagram.interface, destination) else {
            return false;
        };
        let extra = self.extra(&resv.session, &resv.flows, datagram.interface);
        if extra == Rate::ZERO || extra <= self.ledger.available(link) {
            return false;
        }
        let held = self.ledger.link(link).map_or(Rate::ZERO, |status| status.held);
        let Some(lane) = self.edges.lanes.iter_mut().find(|lane| lane.link == link) else {
            return false;
        };
        let waits = lane.may_wait(now, held, extra);
        if waits {
            lane.park(now, resv.session, datagram, extra);
        }
        waits
    }

    /// What a request wants beside what is held for it already; nothing where nobody announced what it is for.
    fn extra(
        &self,
        session: &Session,
        flows: &FlowDescriptors<'_>,
        interface: InterfaceId,
    ) -> Rate {
        let more = |flowspec: Option<FlowSpec>, sender: Option<&SenderTemplate>| {
            let wanted =
                flowspec.map_or(Rate::ZERO, |flowspec| Demand::from_flowspec(&flowspec).rate);
            let claim = self.rsvp.claim_for(session, sender, interface);
            let held = claim.and_then(|claim| self.ledger.demand(claim));
            wanted.saturating_sub(held.map_or(Rate::ZERO, |held| held.rate))
        };
        match flows {
            FlowDescriptors::FixedFilter(flows) => flows
                .iter()
                .fold(Rate::ZERO, |sum, flow| sum + more(flow.flowspec, Some(&flow.filter))),
            FlowDescriptors::Wildcard(flowspec) | FlowDescriptors::SharedExplicit(flowspec, _) => {
                more(*flowspec, None)
            }
        }
    }
}
