//! Admission of RSVP requests to an aggregate, before RSVP processes them: requests that do not fit wait.

use earmark_core::admission::{Demand, Ledger, LinkStatus};
use earmark_core::{Datagram, InterfaceId, Prefix, Rate, Time};
use earmark_rsvp::Rsvp;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{Body, FlowDescriptors, Message, Resv, SenderTemplate, Session};

use super::Aggregation;

impl Aggregation {
    /// Holds a request back if the aggregate lacks bandwidth and may grow; returns whether it waits.
    pub(super) fn hold_back(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        rsvp: Option<&Rsvp>,
        ledger: &Ledger,
    ) -> bool {
        if !self.core_interfaces.contains_key(&datagram.interface) {
            return false;
        }
        let Ok(message) = Message::parse(datagram.payload) else { return false };
        match message.body {
            Body::Resv(resv) => self.hold_back_resv(now, datagram, &resv, rsvp, ledger),
            Body::ResvTear(tear) => {
                for aggregate in &mut self.aggregates {
                    aggregate.remove_waiting(&tear.session, datagram.source);
                }
                false
            }
            // The whole Bundle waits if a request in it has to.
            Body::Bundle(bundle) => bundle.iter().any(|octets| match Message::parse(octets) {
                Ok(Message { body: Body::Resv(resv), .. }) => {
                    self.hold_back_resv(now, datagram, &resv, rsvp, ledger)
                }
                _ => false,
            }),
            _ => false,
        }
    }

    fn hold_back_resv(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        resv: &Resv<'_>,
        rsvp: Option<&Rsvp>,
        ledger: &Ledger,
    ) -> bool {
        if resv.session.is_aggregate() {
            return false; // a reservation of the core itself
        }
        let destination = Prefix::host(resv.session.destination);
        let Some(link) = ledger.lane_to(datagram.interface, destination) else {
            return false;
        };
        let Some(LinkStatus { held, reservable, .. }) = ledger.link(link) else { return false };
        let claims = PresentClaims { rsvp, ledger, interface: datagram.interface, lane: link };
        let extra = claims.additional_demand(&resv.session, &resv.flows);
        if extra == Rate::ZERO || extra <= reservable.saturating_sub(held) {
            return false;
        }
        let Some(aggregate) = self.aggregates.iter_mut().find(|aggregate| aggregate.link == link)
        else {
            return false;
        };
        let may_wait = aggregate.may_wait(now, held, extra);
        if may_wait {
            aggregate.add_waiting(now, resv.session, datagram, extra);
        }
        may_wait
    }
}

/// What requests have on a lane of an interface.
struct PresentClaims<'a> {
    rsvp: Option<&'a Rsvp>,
    ledger: &'a Ledger,
    interface: InterfaceId,
    lane: InterfaceId,
}

impl PresentClaims<'_> {
    /// Returns the demand of a request beyond its present claim, with the overhead of the lane; zero if no Path exists for it.
    fn additional_demand(&self, session: &Session, flows: &FlowDescriptors<'_>) -> Rate {
        match flows {
            FlowDescriptors::FixedFilter(flows) => flows.iter().fold(Rate::ZERO, |sum, flow| {
                sum + self.additional(session, flow.flowspec, Some(&flow.filter))
            }),
            FlowDescriptors::Wildcard(flowspec) | FlowDescriptors::SharedExplicit(flowspec, _) => {
                self.additional(session, *flowspec, None)
            }
        }
    }

    fn additional(
        &self,
        session: &Session,
        flowspec: Option<FlowSpec>,
        sender: Option<&SenderTemplate>,
    ) -> Rate {
        let overhead = self.ledger.overhead(self.lane);
        let on_lane = |demand: Option<Demand>| {
            demand.map_or(Rate::ZERO, |demand| demand.rate_on_link(overhead))
        };
        let claim = self.rsvp.and_then(|rsvp| rsvp.claim_for(session, sender, self.interface));
        let held = claim.and_then(|claim| self.ledger.demand(claim));
        let wanted = flowspec.map(|flowspec| Demand::from_flowspec(&flowspec));
        on_lane(wanted).saturating_sub(on_lane(held))
    }
}
