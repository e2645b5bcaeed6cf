//! Admission of RSVP requests to an aggregate, before RSVP processes them: requests that do not fit wait.

use earmark_core::admission::{Demand, Ledger};
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
        let extra = additional_demand(&resv.session, &resv.flows, datagram.interface, rsvp, ledger);
        if extra == Rate::ZERO || extra <= ledger.available(link) {
            return false;
        }
        let held = ledger.link(link).map_or(Rate::ZERO, |status| status.held);
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

/// Returns the demand of a request beyond its present claim; zero if no Path exists for it.
fn additional_demand(
    session: &Session,
    flows: &FlowDescriptors<'_>,
    interface: InterfaceId,
    rsvp: Option<&Rsvp>,
    ledger: &Ledger,
) -> Rate {
    let more = |flowspec: Option<FlowSpec>, sender: Option<&SenderTemplate>| {
        let wanted = flowspec.map_or(Rate::ZERO, |flowspec| Demand::from_flowspec(&flowspec).rate);
        let claim = rsvp.and_then(|rsvp| rsvp.claim_for(session, sender, interface));
        let held = claim.and_then(|claim| ledger.demand(claim));
        wanted.saturating_sub(held.map_or(Rate::ZERO, |held| held.rate))
    };
    match flows {
        FlowDescriptors::FixedFilter(flows) => {
            flows.iter().fold(Rate::ZERO, |sum, flow| sum + more(flow.flowspec, Some(&flow.filter)))
        }
        FlowDescriptors::Wildcard(flowspec) | FlowDescriptors::SharedExplicit(flowspec, _) => {
            more(*flowspec, None)
        }
    }
}
