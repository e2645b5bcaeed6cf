//! Raw results of the demo, stage by stage, and their summary as a report.

use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_sim::Trace;

use super::network::{DaemonRestart, NetworkKind};
use super::plan::{Plan, ROUTER};
use super::protocol::Protocol;
use super::report::{Denial, KillResult, Part, Refusal, Report, Span, Timeline};
use super::stage::{Reserver, StageResult};
use crate::protocols::PROTOCOLS;

/// A stage that has been run.
#[derive(Clone, Copy)]
pub(super) struct MeasuredStage {
    pub(super) name: &'static str,
    pub(super) reserver: Reserver,
    pub(super) from: Time,
    pub(super) until: Time,
    /// Set-up time of the stream's reservation, if there is one.
    pub(super) setup: Option<Duration>,
}

/// Raw results of the demo.
pub(super) struct RawResults {
    pub(super) start: Time,
    /// Stages in order; the last one is the one that all protocols share.
    pub(super) stages: Vec<MeasuredStage>,
    /// Refused request of each protocol in the shared stage.
    pub(super) denials: Vec<Denial>,
    /// Refusal of the second reservation, its time, and the end of its stage.
    pub(super) refusal: Option<Refusal>,
    pub(super) refused: Time,
    pub(super) refused_until: Time,
    pub(super) restart: Option<DaemonRestart>,
    pub(super) stream: Trace,
    pub(super) flood: Trace,
    /// Traces of the streams beside the measured one, in the order of the protocols after the first.
    pub(super) sharers: [Trace; PROTOCOLS.len() - 1],
}

impl RawResults {
    /// Returns the report.
    pub(super) fn report(self, network: NetworkKind, plan: &Plan) -> Report {
        let stream = &self.stream;
        let reserved_bps =
            |stage: &MeasuredStage| stage.setup.map_or(0, |_| plan.stream.rate.as_bps());
        let result = |stage: &MeasuredStage| {
            let figures = stream.figures(stage.from, stage.until);
            StageResult::new(stage.reserver, reserved_bps(stage), stage.setup, &figures)
        };
        let span = |stage: &MeasuredStage| Span {
            name: stage.name,
            from: stage.from.since(self.start),
            until: stage.until.since(self.start),
            reserved_bps: reserved_bps(stage),
        };
        let mut marks = Vec::new();
        marks.extend(self.refusal.as_ref().map(|_| ("second request refused", self.refused)));
        marks.extend(self.restart.map(|restart| ("daemon killed", restart.killed)));
        marks.extend(self.restart.map(|restart| ("reservation restored", restart.reformed)));
        let spans = self.stages.iter().map(span).collect();
        Report {
            network,
            stages: self.stages.iter().map(result).collect(),
            parts: self.parts(plan),
            denials: self.denials,
            refusal: self.refusal.map(|refusal| Refusal {
                stream_bps_after: stream.figures(self.refused, self.refused_until).received_bps,
                ..refusal
            }),
            kill: self
                .restart
                .map(|restart| KillResult::new(ROUTER, restart, plan.longest_refresh(), stream)),
            firewalls: Vec::new(),
            timeline: Timeline::new(self.start, spans, &marks, [stream, &self.flood]),
        }
    }

    /// Returns the bandwidth of each protocol in the last stage.
    fn parts(&self, plan: &Plan) -> Vec<Part> {
        let Some(shared) = self.stages.last() else { return Vec::new() };
        let part = |(protocol, (rate, trace)): (Protocol, (Rate, &Trace))| {
            let figures = trace.figures(shared.from, shared.until);
            Part {
                protocol,
                reserved_bps: rate.as_bps(),
                received_bps: figures.received_bps,
                loss: figures.loss,
            }
        };
        let measured = (plan.stream.rate, &self.stream);
        let sharers = self.sharers.iter().map(|trace| (plan.sharer.rate, trace));
        PROTOCOLS.into_iter().zip([measured].into_iter().chain(sharers)).map(part).collect()
    }
}
