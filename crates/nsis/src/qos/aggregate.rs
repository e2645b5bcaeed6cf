//! Aggregates: one reservation for many flows that cross a domain (RFC 5974 sections 3.2.10.3 and 4.5).
//!
//! Where a flow enters the domain its RESERVE goes on at the next level of aggregation, which the nodes inside do not
//! serve, so that it meets the next node of ours where the flow leaves the domain. This node, the *aggregator*, is the QNI of
//! another session, of all packets to a range, which the nodes inside do serve; its QNR is the *deaggregator*. Flows are bound
//! to that session (BOUND-SESSION-ID, "aggregate sessions").
//!
//! The aggregate claims on the link. Its flows claim on a *lane*, a link of the ledger that is no interface and has what the
//! path has granted the aggregate, so that nothing counts twice; in traffic control each has its own class as ever. A RESERVE
//! that finds no room there waits while the aggregate grows ("increase the aggregate first", section 4.6), by whole steps;
//! it shrinks when a step has been to spare for some time, and ends when it has no flows for as long.

use alloc::vec::Vec;

use earmark_core::admission::LinkCapacity;
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Rate};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::{BindingCode, MessageType, TransientFailure};
use earmark_wire::qos_nslp::{BoundSessionId, Outcome};
use serde::Serialize;

use super::QosNslp;
use super::admission::AdmissionRequest;
use super::api::{Change, Request, ReservationRequest};
use super::application::Initiation;
use super::binding::Kept;
use super::config::AggregateRule;
use super::own_queries::Wait;
use super::request::qspec_of;
use super::reserve::Arrival;
use super::rmf::{self, Purpose};
use super::state::{Flags, Index};
use crate::nslp::{HandlerContext, Received};
use crate::route;

/// Lanes count down from here: far from the numbers of interfaces, and from those of the lanes of other protocols.
const LANES: u32 = u32::MAX / 2;
/// How much of its traffic an aggregate may send at once, as a part of a second.
const BURST: u32 = 10;

/// The aggregates that begin at this node.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    /// One for each rule, in their order.
    list: Vec<Aggregate>,
    /// What has waited is treated again, and waits no more.
    is_resuming: bool,
}

#[derive(Debug)]
struct Aggregate {
    rule: AggregateRule,
    lane: InterfaceId,
    /// Its session, while there is one.
    session: Option<SessionId>,
    /// What the path has granted: the width of the lane.
    granted: Rate,
    /// What it is being asked for.
    asked: Option<Rate>,
    /// RESERVEs that wait for it to grow, with what they want more than they have.
    waiting: Vec<(Rate, Kept)>,
    /// Runs while it is wider than it need be.
    shrinks: Option<TimerId>,
}

/// How an aggregate stands, for listings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateView {
    /// Destinations of its flows.
    pub to: earmark_core::Prefix,
    /// Its session, while there is one.
    pub session: Option<SessionId>,
    /// How many flows are in it.
    pub members: u32,
    /// What these hold together.
    pub held: Rate,
    /// What the path has granted.
    pub granted: Rate,
    /// RESERVEs that wait for it to grow.
    pub waiting: usize,
}

impl Aggregates {
    pub(super) fn new(rules: &[AggregateRule]) -> Aggregates {
        let lanes = (0..).map(|number| InterfaceId(LANES - number));
        let aggregate = |(rule, lane): (&AggregateRule, InterfaceId)| Aggregate {
            rule: *rule,
            lane,
            session: None,
            granted: Rate::ZERO,
            asked: None,
            waiting: Vec::new(),
            shrinks: None,
        };
        Aggregates { list: rules.iter().zip(lanes).map(aggregate).collect(), is_resuming: false }
    }

    /// Where the flows of an aggregate claim.
    pub(super) fn lane(&self, number: usize) -> Option<InterfaceId> {
        self.list.get(number).map(|aggregate| aggregate.lane)
    }

    fn of_session(&self, session: SessionId) -> Option<usize> {
        self.list.iter().position(|aggregate| aggregate.session == Some(session))
    }
}

impl AggregateRule {
    /// The smallest number of whole steps that has room, no more than the most.
    fn width_for(&self, need: Rate) -> Rate {
        let step = self.step.as_bps().max(1);
        let steps = need.as_bps().div_ceil(step);
        Rate::from_bps(steps.saturating_mul(step)).min(self.highest)
    }
}

/// Which side of this node the domain is on.
impl QosNslp {
    /// Whether an interface faces a domain that flows cross in aggregates.
    pub(super) fn is_inner(&self, cx: &HandlerContext<'_, '_>, interface: InterfaceId) -> bool {
        if self.config.inner.is_empty() {
            return false;
        }
        let link = cx.context.interfaces.by_id(interface);
        link.is_some_and(|link| self.config.inner.contains(&link.name))
    }

    /// Whether messages of the next level end here that have come through an interface: out of a domain that they leave.
    pub(super) fn ends_the_domain(
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

    /// Whether this is the QNR of an aggregate: a session of a range that leaves the domain here.
    pub(super) fn is_deaggregator(
        &self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
    ) -> bool {
        let earmark_wire::gist::Mri::PathCoupled(mri) = &message.mri else { return false };
        is_range(mri) && self.ends_the_domain(cx, message.interface, mri)
    }

    /// The aggregate that a flow is to travel in.
    pub(super) fn aggregate_of(
        &self,
        cx: &HandlerContext<'_, '_>,
        mri: &PathCoupled,
        interface: Option<InterfaceId>,
    ) -> Option<usize> {
        if self.aggregates.list.is_empty()
            || mri.direction != Direction::Downstream
            || is_range(mri)
            || !self.is_inner(cx, interface?)
        {
            return None;
        }
        let covers = |aggregate: &Aggregate| {
            let to = aggregate.rule.to;
            to.covers(earmark_core::Prefix::host(mri.destination))
        };
        self.aggregates.list.iter().position(covers)
    }

    /// The session of an aggregate, for those who are bound to it.
    pub(super) fn aggregate_session(&self, number: usize) -> Option<SessionId> {
        self.aggregates.list.get(number)?.session
    }

    /// How the aggregates of this node stand.
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

/// Whether it is of more than the packets of one host.
fn is_range(mri: &PathCoupled) -> bool {
    mri.destination_prefix < if mri.destination.is_ipv4() { 32 } else { 128 }
}

/// Growing and shrinking.
impl QosNslp {
    /// Whether a RESERVE has to wait until its aggregate has room for it. Then it has been seen to.
    pub(super) fn waits_for_room(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        arrival: &Arrival<'_>,
        asked: &AdmissionRequest<'_>,
    ) -> bool {
        let Some(number) = asked.aggregate.filter(|_| !self.aggregates.is_resuming) else {
            return false;
        };
        let Ok(wanted) = rmf::judge(asked.qspec, MessageType::Reserve) else { return false };
        let held = asked.held.and_then(|claim| cx.context.ledger.demand(claim));
        let held = held.map_or(Rate::ZERO, |held| held.rate);
        let verdict = self.policy.judge(&asked.flow, asked.attributes, (asked.rule, held));
        let most = verdict.map_or(Rate::ZERO, |verdict| verdict.most);
        let more = wanted.demand.rate.min(most).saturating_sub(held);
        let aggregate = &mut self.aggregates.list[number];
        if more <= cx.context.ledger.available(aggregate.lane) {
            return false;
        }
        let kept = Kept::of(arrival.message, cx.nslpid, false);
        let waiting = &mut aggregate.waiting;
        match waiting.iter().position(|(_, other)| other.session == kept.session) {
            Some(place) => waiting[place] = (more, kept),
            None if waiting.len() >= self.config.limits.waiting as usize => return false,
            None => waiting.push((more, kept)),
        }
        if aggregate.asked.is_none() {
            self.grow(cx, number);
        }
        true
    }

    /// Has an aggregate ask for what its flows need, and those that wait.
    fn grow(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        let aggregate = &self.aggregates.list[number];
        let held = cx.context.ledger.link(aggregate.lane).map_or(Rate::ZERO, |lane| lane.held);
        let waiting = aggregate.waiting.iter().map(|(more, _)| *more);
        let need = waiting.fold(held, Rate::saturating_add);
        let width = aggregate.rule.width_for(need);
        if width <= aggregate.granted || !self.ask_for_width(cx, number, width) {
            self.resume_all(cx, number);
        }
    }

    /// Asks the path for an aggregate of this rate; whether that could be asked.
    fn ask_for_width(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        number: usize,
        width: Rate,
    ) -> bool {
        let octets = width.as_bps() / 8 / u64::from(BURST);
        let burst = u32::try_from(octets).unwrap_or(u32::MAX).max(3_000);
        let wish = ReservationRequest { burst, ..ReservationRequest::of(width) };
        let Ok(qspec) = qspec_of(&wish, Purpose::Reserve) else { return false };
        self.aggregates.list[number].asked = Some(width);
        let session = self.aggregates.list[number].session.and_then(|id| self.store.find(id));
        let asked = match session {
            None => self.begin_aggregate(cx, number, &qspec, wish),
            Some(index) => {
                let before = self.store.session(index).qspec.clone();
                let asked = self.ask_for(cx, index, &qspec).is_ok();
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

    /// Makes the session of an aggregate: of all packets to its range, from this node.
    fn begin_aggregate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        number: usize,
        qspec: &[u8],
        wish: ReservationRequest,
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
        let Some(flow) = super::admission::flow_of(&mri, None) else { return false };
        self.aggregates.list[number].session = Some(session);
        let (application, classifier, breaks) = (None, None, false);
        let initiation = Initiation { application, session, mri, place, qspec, classifier, breaks };
        let begun = self.initiate(cx, &initiation, &Request::new(flow, wish)).is_ok();
        if !begun {
            self.aggregates.list[number].session = None;
        }
        begun
    }

    /// The path has answered what an aggregate has asked for, or is silent.
    pub(super) fn aggregate_is_answered(
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
            // What it had is gone as well.
            (None, false) => return self.aggregate_is_lost(cx, index),
            (Some(_), false) if aggregate.granted == Rate::ZERO => {
                aggregate.session = None;
                self.release(cx, index);
            }
            (Some(_), false) => {
                let back = before.is_some_and(|qspec| self.ask_for(cx, index, &qspec).is_ok());
                if !back {
                    return self.aggregate_is_lost(cx, index);
                }
            }
        }
        self.resume_all(cx, number);
        self.look_at_aggregates(cx);
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

    /// What has waited is treated, and refused if there is no room.
    fn resume_all(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        let waiting = core::mem::take(&mut self.aggregates.list[number].waiting);
        self.aggregates.is_resuming = true;
        for (_, kept) in &waiting {
            self.resume(cx, kept);
        }
        self.aggregates.is_resuming = false;
    }

    /// What is left for the end of a turn.
    pub(super) fn turn_ends(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.look_at_aggregates(cx);
        self.send_summary_tears(cx);
    }

    /// Looks whether an aggregate has been wider than it need be; a few comparisons for each.
    pub(super) fn look_at_aggregates(&mut self, cx: &HandlerContext<'_, '_>) {
        for number in 0..self.aggregates.list.len() {
            let spare = self.spare(cx, number);
            let aggregate = &mut self.aggregates.list[number];
            match (aggregate.shrinks, spare) {
                (None, Some(_)) => {
                    let at = cx.now + self.config.shrink_after;
                    aggregate.shrinks = Some(self.waits.arm(at, Wait::Aggregate(number)));
                }
                (Some(timer), None) => {
                    self.waits.cancel(timer);
                    aggregate.shrinks = None;
                }
                _ => {}
            }
        }
    }

    /// How wide an aggregate could be that has a step to spare.
    fn spare(&self, cx: &HandlerContext<'_, '_>, number: usize) -> Option<Rate> {
        let aggregate = &self.aggregates.list[number];
        if aggregate.granted == Rate::ZERO || aggregate.asked.is_some() {
            return None;
        }
        let held = cx.context.ledger.link(aggregate.lane).map_or(Rate::ZERO, |lane| lane.held);
        let width = aggregate.rule.width_for(held);
        (width < aggregate.granted).then_some(width)
    }

    /// It has been wider than it need be for long enough. What this node gives up it gives up first.
    pub(super) fn aggregate_shrinks(&mut self, cx: &mut HandlerContext<'_, '_>, number: usize) {
        self.aggregates.list[number].shrinks = None;
        let Some(width) = self.spare(cx, number) else { return };
        self.set_width(cx, number, width);
        if width > Rate::ZERO {
            self.ask_for_width(cx, number, width);
            return;
        }
        let session = self.aggregates.list[number].session.take();
        if let Some(index) = session.and_then(|session| self.store.find(session)) {
            self.release(cx, index);
        }
    }

    /// The path does not have an aggregate any more: its flows have lost their reservations, and their QNIs hear of it.
    pub(super) fn aggregate_is_lost(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let id = self.store.session(index).id;
        let Some(number) = self.aggregates.of_session(id) else { return };
        let aggregate = &mut self.aggregates.list[number];
        (aggregate.session, aggregate.asked) = (None, None);
        self.set_width(cx, number, Rate::ZERO);
        let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
        for member in self.store.bound_to(id) {
            if !self.store.session(member).flags.has(Flags::IN_AGGREGATE) {
                continue;
            }
            self.store.unbind(member);
            self.store.session_mut(member).extra().bound.retain(|bound| bound.session != id);
            self.store.bind(member);
            self.give_back(cx, member, Change::Failed);
            self.notify_qni(cx, member, failure);
        }
        self.release(cx, index);
        self.resume_all(cx, number);
    }

    /// Binds a session to the aggregate that it travels in.
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
