//! Admission: claims of sessions on their outgoing links in the ledger, and their installation in traffic control.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Displaced, Owner, Reason, Refusal, Service};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Rate};
use earmark_token::{TokenError, Verified};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{MessageType, PermanentFailure, TransientFailure};
use earmark_wire::qspec::iana::ParameterId;

use super::QosNslp;
use super::api::{Change, Event};
use super::flow::{flow_of, packets_of};
use super::policy::Requester;
use super::qspec::{self, Resources};
use super::rmf::{self, Fault, Wanted};
use super::state::{Flags, Index};
use crate::nslp::HandlerContext;

/// A request for admission.
pub(super) struct AdmissionRequest<'a> {
    /// Block that holds, or will hold, the claim.
    pub(super) block: Index,
    pub(super) flow: Flow,
    pub(super) interface: Option<InterfaceId>,
    /// Aggregate that carries the flow.
    pub(super) aggregate: Option<usize>,
    /// Whether the request came over a secured channel.
    pub(super) secure: bool,
    /// User whose name a token proves.
    pub(super) verified: Option<Box<Verified>>,
    /// Claim that the session already holds, and the policy rule of the claim.
    pub(super) held: Option<ClaimId>,
    pub(super) rule: Option<u16>,
    pub(super) qspec: &'a [u8],
}

impl AdmissionRequest<'_> {
    /// Returns what policy rules examine of the requester.
    pub(super) fn requester(&self) -> Requester<'_> {
        let verified = self.verified.as_ref().map(|verified| verified.name.as_str());
        Requester { secure: self.secure, verified }
    }
}

/// Result of a granted request.
pub(super) struct Granted {
    /// The claim; `None` if the packets end here.
    pub(super) claim: Option<ClaimId>,
    pub(super) rule: Option<u16>,
    /// QSPEC for the next node.
    pub(super) qspec: Vec<u8>,
}

/// A refusal, for the response.
pub(super) struct Refused {
    pub(super) fault: Fault,
    /// What would be granted now.
    pub(super) available: Option<Resources>,
    /// Reason for refusing the token.
    pub(super) token: Option<TokenError>,
}

impl Refused {
    /// Creates a refusal without additional information.
    pub(super) fn of(outcome: Outcome) -> Refused {
        Refused::from(Fault { outcome, object: None, parameter: None })
    }

    /// Returns the rate that would be granted now, if known.
    pub(super) fn available_rate(&self) -> Option<Rate> {
        self.available.map(|resources| resources.available)
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused { fault, available: None, token: None }
    }
}

impl QosNslp {
    /// Evaluates the QSPEC of a RESERVE, and claims the requested resources. Part of them is granted if the link lacks
    /// the rest and the QSPEC allows it.
    ///
    /// # Errors
    /// The reason of the refusal; a claim held before is kept.
    pub(super) fn admit(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        asked: &AdmissionRequest<'_>,
    ) -> Result<Granted, Refused> {
        let wanted = rmf::evaluate(asked.qspec, MessageType::Reserve)?;
        let held = asked.held.and_then(|claim| cx.context.ledger.demand(claim));
        let held_rate = held.map_or(Rate::ZERO, |held| held.rate);
        let verdict = self.policy.evaluate(&asked.flow, asked.requester(), (asked.rule, held_rate));
        let Some(verdict) = verdict else {
            let failure = PermanentFailure::Authorization;
            return Err(Refused::of(Outcome::PermanentFailure(failure)));
        };
        let latency_us = latency_of_link(cx, asked.interface);
        if latency_us.is_some_and(|added| added > wanted.latency_left_us) {
            return Err(rmf::latency_exceeded().into());
        }
        let (claim, rate) = match asked.interface {
            None => (None, wanted.demand.rate),
            Some(interface) => {
                let (claim, rate) = self.claim(cx, asked, interface, &wanted, verdict.most)?;
                (Some(claim), rate)
            }
        };
        mark(Checkpoint::Admission);
        let mut qspec = asked.qspec.to_vec();
        if wanted.is_edited {
            let link = link_resources(cx, asked.interface);
            let resources = Resources { available: rate, ..link };
            qspec::compose(&mut qspec, MessageType::Reserve, resources);
        }
        if claim.is_some() {
            self.policy.account(asked.rule, held_rate, Rate::ZERO);
            self.policy.account(verdict.rule, Rate::ZERO, rate);
        }
        Ok(Granted { claim, rule: verdict.rule, qspec })
    }

    /// Claims the requested rate, or what is available down to the minimum.
    fn claim(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        asked: &AdmissionRequest<'_>,
        interface: InterfaceId,
        wanted: &Wanted,
        most: Rate,
    ) -> Result<(ClaimId, Rate), Refused> {
        let place = asked.aggregate.and_then(|number| self.aggregates.lane(number));
        let place = place.unwrap_or(interface);
        let ledger = &mut cx.context.ledger;
        let owner = Owner { protocol: crate::ID, block: asked.block };
        let mut attempt = |demand: Demand| {
            if demand.rate > most {
                return Err(Refusal { reason: Reason::Bandwidth, available: most });
            }
            match asked.held {
                Some(claim) => ledger
                    .change_with_priority(claim, demand, wanted.priority)
                    .map(|()| (claim, demand)),
                None => ledger
                    .claim_with_priority(place, owner, &asked.flow, demand, wanted.priority)
                    .map(|claim| (claim, demand)),
            }
        };
        let granted = attempt(wanted.demand).or_else(|refusal| {
            let least = wanted.minimum.filter(|_| refusal.reason == Reason::Bandwidth);
            match least {
                // A TMOD cannot express less than one octet a second.
                Some(least) if refusal.available >= least.max(Rate::from_bps(8)) => {
                    let available = refusal.available.min(most);
                    attempt(Demand { rate: available, ..wanted.demand })
                }
                _ => Err(refusal),
            }
        });
        let (claim, demand) = granted.map_err(|refusal| Refused {
            fault: rmf::reservation_failure(Some((wanted.from, ParameterId::Tmod1))),
            available: Some(Resources {
                available: refusal.available.min(most),
                latency_us: None,
                mtu: link_resources(cx, Some(interface)).mtu,
            }),
            token: None,
        })?;
        Ok((claim, demand.rate))
    }

    /// Installs the claim of a session in traffic control. With `reinstall`, the packets of the claim have changed.
    pub(super) fn install(&self, cx: &mut HandlerContext<'_, '_>, index: Index, reinstall: bool) {
        let session = self.store.session(index);
        if let Some(flow) = flow_of(&session.mri, session.classifier) {
            self.install_flow(cx, index, flow, reinstall);
        }
    }

    /// Installs the claim of a session whose flow is known.
    pub(super) fn install_flow(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        flow: Flow,
        reinstall: bool,
    ) {
        let session = self.store.session(index);
        let (Some(claim), Some(interface)) = (session.claim, session.interface) else { return };
        if session.is_aggregate() {
            return;
        }
        let Some(demand) = cx.context.ledger.demand(claim) else { return };
        if reinstall {
            cx.out.remove(claim);
        }
        cx.out.install(Installation { claim, interface, flow, demand });
        let sharing = session.sharing();
        for (place, other) in sharing.iter().enumerate() {
            // Two peers may have the same flow.
            let is_known = other.mri == session.mri
                || sharing.iter().take(place).any(|known| known.mri == other.mri);
            if !is_known && let Some(other) = flow_of(&other.mri, session.classifier) {
                cx.out.add_flow(claim, other);
            }
        }
    }

    /// Removes a claim of a session from traffic control, which knows no aggregates that begin here.
    pub(super) fn uninstall(&self, cx: &mut HandlerContext<'_, '_>, index: Index, claim: ClaimId) {
        if !self.store.session(index).is_aggregate() {
            cx.out.remove(claim);
        }
    }

    /// Releases the resources of a session; the session stays.
    pub(super) fn release_claim(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        change: Change,
    ) {
        self.set_verified(index, None);
        let session = self.store.session_mut(index);
        let rule = session.rule.take();
        session.flags.set(Flags::REMOVED, true);
        let Some(claim) = session.claim.take() else { return };
        let demand = cx.context.ledger.release(claim).unwrap_or(NO_DEMAND);
        self.uninstall(cx, index, claim);
        self.policy.account(rule, demand.rate, Rate::ZERO);
        self.report_change(cx, index, change, demand);
    }

    /// Handles a claim that was preempted, at least in part (RFC 5975 section 4.3.5): the QNI is notified.
    pub(super) fn handle_preemption(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        displaced: &Displaced,
    ) {
        let Some(index) = self.session_of_claim(displaced.claim, displaced.owner) else { return };
        self.counters.preempted += 1;
        let rule = self.store.session(index).rule;
        let was = self.granted_rate(index);
        if displaced.kept > Rate::ZERO
            && let Some(demand) = cx.context.ledger.demand(displaced.claim)
        {
            self.install(cx, index, false);
            self.policy.account(rule, was, demand.rate);
            self.report_change(cx, index, Change::Preempted, demand);
        } else {
            self.set_verified(index, None);
            // The ledger has already removed the claim.
            let session = self.store.session_mut(index);
            session.claim = None;
            session.rule = None;
            session.flags.set(Flags::REMOVED, true);
            self.uninstall(cx, index, displaced.claim);
            self.policy.account(rule, was, Rate::ZERO);
            self.report_change(cx, index, Change::Preempted, NO_DEMAND);
        }
        let outcome = Outcome::TransientFailure(TransientFailure::Preempted);
        self.notify_qni(cx, index, outcome);
    }

    /// Handles a failure of traffic control to install a claim, or the loss of its link.
    pub(super) fn handle_control_failure(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some(index) = self.session_of_claim(claim, owner) else { return };
        let interface = self.store.session(index).interface;
        if interface.is_some_and(|interface| cx.context.ledger.link(interface).is_none()) {
            return self.lose_link(cx, index, claim);
        }
        self.release_claim(cx, index, Change::Failed);
        self.notify_qni(cx, index, Outcome::PermanentFailure(PermanentFailure::System));
    }

    /// Handles the loss of the link of a claim. The session stays, as when a link fails: its claim moves to where the route leads
    /// now, or once there is a route again.
    fn lose_link(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, claim: ClaimId) {
        // The ledger has already removed the claim.
        self.policy.account(self.store.session(index).rule, self.granted_rate(index), Rate::ZERO);
        self.uninstall(cx, index, claim);
        self.report_change(cx, index, Change::Failed, NO_DEMAND);
        let session = self.store.session_mut(index);
        (session.claim, session.interface) = (None, None);
        session.flags.set(Flags::CONFIRMED, false);
        self.follow_route(cx, index);
    }

    /// Returns the session of a claim, if it is one of NSIS and still exists.
    pub(super) fn session_of_claim(&self, claim: ClaimId, owner: Owner) -> Option<Index> {
        let session = self.store.sessions.get(owner.block as usize)?;
        (owner.protocol == crate::ID && session.claim == Some(claim)).then_some(owner.block)
    }

    /// Returns the rate of the granted QSPEC, which was held until preemption.
    fn granted_rate(&self, index: Index) -> Rate {
        let qspec = &self.store.session(index).qspec;
        rmf::evaluate(qspec, MessageType::Reserve).map_or(Rate::ZERO, |wanted| wanted.demand.rate)
    }

    /// Reports a change of a session as an event.
    pub(super) fn report_change(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        change: Change,
        demand: Demand,
    ) {
        let session = self.store.session(index);
        if let Some(flow) = packets_of(&session.mri, session.classifier) {
            self.report_flow_change(cx, index, change, demand, flow);
        }
    }

    /// Reports a change of a session whose flow is known.
    pub(super) fn report_flow_change(
        &self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        change: Change,
        demand: Demand,
        flow: Flow,
    ) {
        let session = self.store.session(index);
        let Some(interface) = session.interface else { return };
        let user = session.user().map(Box::new);
        let session = session.id;
        let event = Event::Reservation { change, session, flow, interface, demand, user };
        cx.report(event);
    }
}

/// Returns the latency of the link behind an interface, microseconds, 0 if unknown; `None` if packets end here.
fn latency_of_link(cx: &HandlerContext<'_, '_>, interface: Option<InterfaceId>) -> Option<u32> {
    interface.map(|id| cx.context.interfaces.by_id(id).map_or(0, |link| link.latency_us))
}

/// Returns the resources of this node for packets that leave through an interface, or end here.
pub(super) fn link_resources(
    cx: &HandlerContext<'_, '_>,
    interface: Option<InterfaceId>,
) -> Resources {
    let Some(id) = interface else {
        return Resources { available: Rate::MAX, latency_us: None, mtu: u32::MAX };
    };
    Resources {
        available: cx.context.ledger.available(id),
        latency_us: latency_of_link(cx, interface),
        mtu: cx.context.ledger.link(id).map_or(u32::MAX, |link| link.mtu),
    }
}

/// Demand of a session without resources.
pub(super) const NO_DEMAND: Demand = Demand {
    service: Service::ControlledLoad,
    rate: Rate::ZERO,
    burst: 0,
    max_packet: 0,
    min_packet: 0,
};
