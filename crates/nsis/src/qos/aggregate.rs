//! Aggregates: one reservation for many flows that cross a domain (RFC 5974 sections 3.2.10.3 and 4.5).
//!
//! At the ingress of the domain the RESERVE of a flow continues at the next level of aggregation. Interior nodes do not
//! serve that level, so the next QNE of the flow is at the egress of the domain. The ingress node, the *aggregator*, is
//! the QNI of a second session for all packets to a prefix, which interior nodes do serve; its QNR is the
//! *deaggregator*. Flows are bound to that session (BOUND-SESSION-ID, "aggregate sessions").
//!
//! The aggregate has the claim on the link. Its flows have claims on a *lane*, a link of the ledger without an
//! interface, whose capacity is what the path has granted the aggregate, so that no rate counts twice. In traffic
//! control each flow still has its own class. A RESERVE that exceeds the lane waits while the aggregate grows
//! ("increase the aggregate first", section 4.6), by whole steps. The aggregate shrinks when a step was unused for some
//! time, and ends when it has had no flows for that time.

use earmark_core::admission::LinkCapacity;
use earmark_core::{InterfaceId, Rate};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::{BindingCode, MessageType, TransientFailure};
use earmark_wire::qos_nslp::{BoundSessionId, Outcome};

use super::QosNslp;
use super::admission::AdmissionRequest;
use super::aggregate_state::{Aggregate, AggregateView};
use super::api::{Change, Request, RequestedQos};
use super::flow::flow_of;
use super::initiator::Initiation;
use super::qspec::Purpose;
use super::received_reserve::ReceivedReserve;
use super::request::qspec_of;
use super::rmf;
use super::state::{Flags, Index};
use super::store::Ended;
use super::stored_reserve::StoredReserve;
use super::wait::Wait;
use crate::nslp::{HandlerContext, Received};
use crate::route;

/// Burst of an aggregate, as a fraction of a second of its rate.
const BURST: u32 = 10;

/// Position of this node relative to the domain.
impl QosNslp {
    /// Returns whether an interface leads into a domain that flows cross in aggregates.
    pub(super) fn is_inner(&self, cx: &HandlerContext<'_, '_>, interface: InterfaceId) -> bool {
        if self.config.inner.is_empty() {
            return false;
        }
        let link = cx.context.interfaces.by_id(interface);
        link.is_some_and(|link| self.config.inner.contains(&link.name))
    }

    /// Returns whether messages of the next level that arrived on an interface end here, at the egress of a domain.
    pub(super) fn ends_domain(
        &self,
        cx: &HandlerContext<'_, '_>,
        interface: InterfaceId,
        mri: &PathCoupled,
    ) -> bool {
        if !self.is_inner(cx, interface) {
            return false;
        }
        let end = match mri.direction {
            Direction::Downstream => mri.destination,
            Direction::Upstream => mri.source,
        };
        let onwards = route::hop(cx.context, &Mri::PathCoupled(*mri));
        cx.context.interfaces.is_local(end)
            || onwards.is_some_and(|hop| !self.is_inner(cx, hop.interface))
    }

    /// Returns whether this node is the QNR of an aggregate: of a session for a prefix that leaves the domain here.
    pub(super) fn is_deaggregator(
        &self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
    ) -> bool {
        let earmark_wire::gist::Mri::PathCoupled(mri) = &message.mri else { return false };
        is_range(mri) && self.ends_domain(cx, message.interface, mri)
    }

    /// Returns the aggregate that carries a flow.
    #[inline(always)]
    pub(super) fn aggregate_of(
        &self,
        cx: &HandlerContext<'_, '_>,
        mri: &PathCoupled,
        interface: Option<InterfaceId>,
    ) -> Option<usize> {
        match self.aggregates.list.is_empty() {
            true => None,
            false => self.find_aggregate_of(cx, mri, interface),
        }
    }

    fn find_aggregate_of(
        &self,
        cx: &HandlerContext<'_, '_>,
        mri: &PathCoupled,
        interface: Option<InterfaceId>,
    ) -> Option<usize> {
        if mri.direction != Direction::Downstream || is_range(mri) || !self.is_inner(cx, interface?)
        {
            return None;
        }
        let covers = |aggregate: &Aggregate| {
            let to = aggregate.rule.to;
            to.covers(earmark_core::Prefix::host(mri.destination))
        };
        self.aggregates.list.iter().position(covers)
    }

    /// Returns the session of an aggregate, for flows that are bound to it.
    pub(super) fn aggregate_session(&self, number: usize) -> Option<SessionId> {
        self.aggregates.list.get(number)?.session
    }

    /// Returns views of the aggregates of this node.
    pub fn aggregates(
        &self,
        ledger: &earmark_core::admission::Ledger,
    ) -> impl Iterator<Item = AggregateView> {
        self.aggregates.list.iter().map(|aggregate| {
            let lane = ledger.link(aggregate.lane);
            AggregateView {
                to: aggregate.rule.to,
                session: aggregate.session,
                members: lane.map_or(0, |lane| lane.claims),
                held: lane.map_or(Rate::ZERO, |lane| lane.held),
                granted: aggregate.granted,
                waiting: aggregate.waiting.len(),
            }
        })
    }
}

/// Returns whether an MRI covers more than one host.
fn is_range(mri: &PathCoupled) -> bool {
    mri.destination_prefix < if mri.destination.is_ipv4() { 32 } else { 128 }
}

/// Growing and shrinking of aggregates.
impl QosNslp {
    /// Returns whether a RESERVE must wait until its aggregate has grown. If so, it was queued.
    #[inline(always)]
    pub(super) fn waits_for_growth(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        asked: &AdmissionRequest<'_>,
    ) -> bool {
        let aggregate = asked.aggregate.filter(|_| !self.aggregates.is_resuming);
        aggregate.is_some_and(|number| self.exceeds_aggregate(cx, received, asked, number))
    }

    fn exceeds_aggregate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        asked: &AdmissionRequest<'_>,
        number: usize,
    ) -> bool {
        let Ok(wanted) = rmf::evaluate(asked.qspec, MessageType::Reserve) else { return false };
        let held = asked.held.and_then(|claim| cx.context.ledger.demand(claim));
        let held = held.map_or(Rate::ZERO, |held| held.rate);
        let verdict = self.policy.evaluate(&asked.flow, asked.requester(), (asked.rule, held));
        let most = verdict.map_or(Rate::ZERO, |verdict| verdict.most);
        let more = wanted.demand.rate.min(most).saturating_sub(held);
        let aggregate = &mut self.aggregates.list[number];
        if more <= cx.context.ledger.available(aggregate.lane) {
            return false;
        }
        let stored = StoredReserve::of(received.message, cx.nslpid, false);
        let waiting = &mut aggregate.waiting;
        match waiting.iter().position(|(_, other)| other.session == stored.session) {
            Some(place) => waiting[place] = (more, stored),
            None if waiting.len() >= self.config.limits.waiting as usize => return false,
            None => waiting.push((more, stored)),
        }
        if aggregate.asked.is_none() {
            self.grow(cx, number);
        }
        true
    }

    /// Requests the rate that the flows of an aggregate and the waiting RESERVEs need.
    fn grow(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        let aggregate = &self.aggregates.list[number];
        let held = cx.context.ledger.link(aggregate.lane).map_or(Rate::ZERO, |lane| lane.held);
        let waiting = aggregate.waiting.iter().map(|(more, _)| *more);
        let need = waiting.fold(held, Rate::saturating_add);
        let width = aggregate.rule.width_for(need);
        if width <= aggregate.granted || !self.request_width(cx, number, width) {
            self.resume_all(cx, number);
        }
    }

    /// Sends a RESERVE with this rate for an aggregate; returns whether that was possible.
    fn request_width(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        number: usize,
        width: Rate,
    ) -> bool {
        let octets = width.as_bps() / 8 / u64::from(BURST);
        let burst = u32::try_from(octets).unwrap_or(u32::MAX).max(3_000);
        let qos = RequestedQos { burst, ..RequestedQos::of(width) };
        let Ok(qspec) = qspec_of(&qos, Purpose::Reserve) else { return false };
        self.aggregates.list[number].asked = Some(width);
        let session = self.aggregates.list[number].session.and_then(|id| self.store.find(id));
        let asked = match session {
            None => self.create_aggregate(cx, number, &qspec, qos),
            Some(index) => {
                let before = self.store.session(index).qspec.clone();
                let asked = self.change_reservation(cx, index, &qspec).is_ok();
                if asked {
                    self.store.session_mut(index).extra().before.get_or_insert(before);
                }
                asked
            }
        };
        if !asked {
            self.aggregates.list[number].asked = None;
        }
        asked
    }

    /// Creates the session of an aggregate: of all packets from this node to its prefix.
    fn create_aggregate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        number: usize,
        qspec: &[u8],
        qos: RequestedQos,
    ) -> bool {
        let to = self.aggregates.list[number].rule.to;
        let Some(hop) = cx.context.routes.lookup(to.address()) else { return false };
        let link = cx.context.interfaces.by_id(hop.interface);
        let Some(source) = link.and_then(|link| link.address_like(to.address())) else {
            return false;
        };
        let mri = PathCoupled {
            source,
            destination: to.address(),
            source_prefix: 0,
            destination_prefix: to.length(),
            protocol: None,
            ds_field: None,
            flow_label: None,
            spi: None,
            source_port: None,
            destination_port: None,
            direction: Direction::Downstream,
        };
        let session = self.ids.draw();
        let Err(place) = self.store.look_up(session) else { return false };
        let Some(flow) = flow_of(&mri, None) else { return false };
        self.aggregates.list[number].session = Some(session);
        let (application, classifier, breaks) = (None, None, false);
        let initiation =
            Initiation { application, session, mri, place, qspec, classifier, breaks, auth: &[] };
        let begun = self.initiate(cx, &initiation, &Request::new(flow, qos)).is_ok();
        if !begun {
            self.aggregates.list[number].session = None;
        }
        begun
    }

    /// Handles the response to the RESERVE of an aggregate, or its timeout.
    pub(super) fn handle_aggregate_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        granted: bool,
    ) {
        let session = self.store.session_mut(index);
        let before = session.extra().before.take();
        session.trim();
        let Some(number) = self.aggregates.of_session(session.id) else { return };
        let aggregate = &mut self.aggregates.list[number];
        match (aggregate.asked.take(), granted) {
            (Some(width), true) => self.set_width(cx, number, width),
            (None, true) => {}
            // The rate granted before is lost as well.
            (None, false) => return self.handle_aggregate_loss(cx, index),
            (Some(_), false) if aggregate.granted == Rate::ZERO => {
                aggregate.session = None;
                self.release(cx, index);
            }
            (Some(_), false) => {
                let back =
                    before.is_some_and(|qspec| self.change_reservation(cx, index, &qspec).is_ok());
                if !back {
                    return self.handle_aggregate_loss(cx, index);
                }
            }
        }
        self.resume_all(cx, number);
        self.check_aggregates(cx);
    }

    fn set_width(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize, width: Rate) {
        let session = self.aggregate_session(number).and_then(|session| self.store.find(session));
        let link = session.and_then(|index| self.store.session(index).interface);
        let link = link.and_then(|link| cx.context.ledger.link(link));
        let aggregate = &mut self.aggregates.list[number];
        aggregate.granted = width;
        let (bandwidth, mtu) = (aggregate.rule.highest, link.map_or(0, |link| link.mtu));
        let capacity = LinkCapacity { bandwidth, reservable: width, mtu };
        cx.context.ledger.set_link(aggregate.lane, capacity);
    }

    /// Handles the waiting RESERVEs again; those that still exceed the lane are refused.
    fn resume_all(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        let waiting = core::mem::take(&mut self.aggregates.list[number].waiting);
        self.aggregates.is_resuming = true;
        for (_, stored) in &waiting {
            self.resume(cx, stored);
        }
        self.aggregates.is_resuming = false;
    }

    /// Starts or stops the shrink timers of the aggregates; a few comparisons for each.
    pub(super) fn check_aggregates(&mut self, cx: &HandlerContext<'_, '_>) {
        for number in 0..self.aggregates.list.len() {
            let spare = self.spare(cx, number);
            let aggregate = &mut self.aggregates.list[number];
            match (aggregate.shrink_timer, spare) {
                (None, Some(_)) => {
                    let at = cx.now + self.config.shrink_after;
                    aggregate.shrink_timer = Some(self.waits.arm(at, Wait::Aggregate(number)));
                }
                (Some(timer), None) => {
                    self.waits.cancel(timer);
                    aggregate.shrink_timer = None;
                }
                _ => {}
            }
        }
    }

    /// Returns the smaller rate that would suffice for an aggregate, if it is at least one step wider than needed.
    fn spare(&self, cx: &HandlerContext<'_, '_>, number: usize) -> Option<Rate> {
        let aggregate = &self.aggregates.list[number];
        if aggregate.granted == Rate::ZERO || aggregate.asked.is_some() {
            return None;
        }
        let held = cx.context.ledger.link(aggregate.lane).map_or(Rate::ZERO, |lane| lane.held);
        let width = aggregate.rule.width_for(held);
        (width < aggregate.granted).then_some(width)
    }

    /// Shrinks an aggregate that was wider than needed for long enough. This node stops using the rate before it
    /// releases it.
    pub(super) fn shrink_aggregate(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        self.aggregates.list[number].shrink_timer = None;
        let Some(width) = self.spare(cx, number) else { return };
        self.set_width(cx, number, width);
        if width > Rate::ZERO {
            self.request_width(cx, number, width);
            return;
        }
        let session = self.aggregates.list[number].session.take();
        if let Some(index) = session.and_then(|session| self.store.find(session)) {
            self.release(cx, index);
        }
    }

    /// Handles the loss of an aggregate: its flows have lost their reservations, and their QNIs are notified.
    pub(super) fn handle_aggregate_loss(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let id = self.store.session(index).id;
        let Some(number) = self.aggregates.of_session(id) else { return };
        let aggregate = &mut self.aggregates.list[number];
        (aggregate.session, aggregate.asked) = (None, None);
        self.set_width(cx, number, Rate::ZERO);
        self.note_ended(cx.now, Ended::Aggregate(id, number));
    }

    /// Handles the loss of the aggregate that carries a session.
    pub(super) fn leave_aggregate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        member: Index,
        aggregate: SessionId,
    ) {
        if !self.store.session(member).flags.has(Flags::IN_AGGREGATE) {
            return;
        }
        self.store.unbind(member);
        self.store.session_mut(member).extra().bound.retain(|bound| bound.session != aggregate);
        self.store.bind(member);
        self.release_claim(cx, member, Change::Failed);
        let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
        self.notify_qni(cx, member, failure);
    }

    /// Releases a lost aggregate that its flows have left, and handles the RESERVEs that wait for it.
    pub(super) fn finish_aggregate_loss(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        aggregate: SessionId,
        number: usize,
    ) {
        if let Some(index) = self.store.find(aggregate) {
            self.release(cx, index);
        }
        self.resume_all(cx, number);
    }

    /// Binds a session to the aggregate that carries it.
    pub(super) fn bind_to_aggregate(&mut self, index: Index, number: usize) {
        let Some(session) = self.aggregate_session(number) else { return };
        let binding = BindingCode::Aggregate;
        let bound = BoundSessionId { binding, session };
        let extra = self.store.session_mut(index).extra();
        if !extra.bound.contains(&bound) {
            extra.bound.push(bound);
            self.store.bind(index);
        }
    }
}
