//! Outcomes of the flows of a run.

use earmark_core::admission::Attempt;
use earmark_core::outcome::Outcome;
use earmark_core::{Endpoint, Rate, Time};
use earmark_sim::NodeId;

use super::ScenarioRun;
use crate::data::Stream;
use crate::outcome::{Attempted, FlowOutcome, PathOutcome, Received, Reported};
use crate::path_request::PathRequest;
use crate::pending_reservation::PendingReservation;

impl ScenarioRun<'_> {
    pub(super) fn path_request(&self, number: usize) -> PathRequest {
        let flow = &self.schedule[number];
        PathRequest {
            application: number as u64 + 1,
            source: self.addresses[flow.from],
            destination: Endpoint { address: self.addresses[flow.to], port: flow.port },
            source_port: flow.port,
            proxy: self.scenario.flows[flow.flows].proxy,
        }
    }

    fn path_outcome(&self, number: usize) -> Option<PathOutcome> {
        let flow = &self.schedule[number];
        let application = self.path_request(number).application;
        let of = |place: usize| self.path_tracker.get(self.nodes[place], application);
        let path = of(flow.from).or_else(|| of(flow.to))?;
        let Some(Stream::Packets(stream)) = self.streams[number] else { return None };
        let trace = self.network.trace(stream);
        let end = path.ended.unwrap_or(flow.ends);
        let granted = path.granted.unwrap_or(end);
        let lost = |from, until| trace.figures(from, until).loss;
        Some(PathOutcome {
            asked: path.asked.as_secs_f64(),
            granted: path.granted.map(Time::as_secs_f64),
            ended: path.ended.map(Time::as_secs_f64),
            lost_before: lost(flow.starts, granted),
            lost_while_open: lost(granted, end),
            lost_after: lost(end, flow.ends),
        })
    }

    pub(super) fn flow_outcome(
        &self,
        number: usize,
        reservation: Option<PendingReservation>,
    ) -> FlowOutcome {
        let flow = &self.schedule[number];
        let reservation = reservation.unwrap_or_default();
        let name = |place: usize| self.topology.nodes[place].name.clone();
        let named = |node: NodeId| self.network.name(node).to_owned();
        let attempt = |(at, node, attempt): &(Time, NodeId, Attempt)| Attempted {
            at: at.as_secs_f64(),
            node: named(*node),
            granted: attempt.granted,
            available: attempt.available.map(Rate::as_bps),
        };
        let reports = self.reports.of(number as u64 + 1);
        let report = |(at, node, outcome): &(Time, NodeId, Outcome)| Reported {
            at: at.as_secs_f64(),
            node: named(*node),
            outcome: outcome.clone(),
        };
        FlowOutcome {
            flows: self.scenario.flows[flow.flows].name.clone(),
            from: name(flow.from),
            to: name(flow.to),
            reserves: flow.reserves.map(Time::as_secs_f64),
            completed_after: reservation
                .completed
                .map(|completed| completed.since(reservation.since).as_secs_f64()),
            retries: reservation.retries,
            attempts: reservation.attempts.iter().map(attempt).collect(),
            reports: reports.iter().map(report).collect(),
            path: self.path_outcome(number),
            received: self.received(number),
        }
    }

    fn received(&self, number: usize) -> Received {
        let stream = self.streams[number];
        stream.map_or_else(Received::default, |stream| stream.received(&self.network, self.end()))
    }
}
