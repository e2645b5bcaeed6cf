//! Aggregates that begin at this node, each with its lane.

use alloc::vec::Vec;

use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Rate};
use earmark_wire::gist::SessionId;
use serde::Serialize;

use super::config::AggregateRule;
use super::stored_reserve::StoredReserve;

/// First interface number of lanes, which count down: far from the numbers of interfaces, and from those of the lanes
/// of other protocols.
const LANES: u32 = u32::MAX / 2;

/// Aggregates that begin at this node.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    /// One aggregate for each rule, in their order.
    pub(super) list: Vec<Aggregate>,
    /// Whether waiting RESERVEs are being handled again, and must not wait once more.
    pub(super) is_resuming: bool,
}

#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) rule: AggregateRule,
    pub(super) lane: InterfaceId,
    /// Session of the aggregate, if there is one.
    pub(super) session: Option<SessionId>,
    /// Rate that the path has granted: the capacity of the lane.
    pub(super) granted: Rate,
    /// Rate of the pending RESERVE of the aggregate.
    pub(super) asked: Option<Rate>,
    /// RESERVEs that wait for the aggregate to grow, each with the rate that it needs in addition.
    pub(super) waiting: Vec<(Rate, StoredReserve)>,
    /// Runs while the aggregate is wider than needed.
    pub(super) shrink_timer: Option<TimerId>,
}

/// State of an aggregate, for listings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AggregateView {
    /// Destinations of its flows.
    pub to: earmark_core::Prefix,
    /// Session of the aggregate, if there is one.
    pub session: Option<SessionId>,
    /// Number of flows.
    pub members: u32,
    /// Sum of the rates of the flows.
    pub held: Rate,
    /// Rate that the path has granted.
    pub granted: Rate,
    /// Number of RESERVEs that wait for the aggregate to grow.
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
            shrink_timer: None,
        };
        Aggregates { list: rules.iter().zip(lanes).map(aggregate).collect(), is_resuming: false }
    }

    /// Returns the lane on which the flows of an aggregate have claims.
    pub(super) fn lane(&self, number: usize) -> Option<InterfaceId> {
        self.list.get(number).map(|aggregate| aggregate.lane)
    }

    pub(super) fn of_session(&self, session: SessionId) -> Option<usize> {
        self.list.iter().position(|aggregate| aggregate.session == Some(session))
    }
}

impl AggregateRule {
    /// Returns the smallest number of whole steps that covers `need`, up to the limit.
    pub(super) fn width_for(&self, need: Rate) -> Rate {
        let step = self.step.as_bps().max(1);
        let steps = need.as_bps().div_ceil(step);
        Rate::from_bps(steps.saturating_mul(step)).min(self.highest)
    }
}
