//! Raw results of the demo, stage by stage, and their summary as a report.

use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_sim::Trace;

use super::{
    DaemonRestart, Denial, KillResult, NetworkKind, Part, Plan, Protocol, ROUTER, Refusal, Report,
    SHARERS, StageResult, StageSpan, Timeline,
};

/// Raw results of the demo.
pub(super) struct RawResults {
    pub(super) start: Time,
    /// Spans of the stages with RSVP and without.
    pub(super) spans: [(Time, Time); 3],
    /// Spans of the stages of Boomerang, of YESSIR and of NSIS.
    pub(super) others: [StageSpan; 3],
    /// Span of the stage that all protocols share.
    pub(super) shared: StageSpan,
    /// Refused request of each protocol in that stage.
    pub(super) parts: Vec<Denial>,
    /// Traces of the streams beside the measured one, in the order of [`SHARERS`].
    pub(super) sharers: [Trace; SHARERS.len()],
    pub(super) setup: Duration,
    pub(super) refusal: Option<Refusal>,
    pub(super) refused: Time,
    pub(super) restart: Option<DaemonRestart>,
    pub(super) longest_refresh: Duration,
    pub(super) stream: Trace,
    pub(super) flood: Trace,
}

impl RawResults {
    /// Returns the report.
    pub(super) fn report(self, network: NetworkKind, plan: &Plan) -> Report {
        let [before, during, after] = self.spans;
        let stream = &self.stream;
        let reserved_bps = plan.stream.rate.as_bps();
        let stage = |protocol, reserved_bps, setup, (from, until)| {
            StageResult::new(protocol, reserved_bps, setup, &stream.figures(from, until))
        };
        let mut marks = Vec::new();
        marks.extend(self.refusal.as_ref().map(|_| ("second one refused", self.refused)));
        marks.extend(self.restart.map(|restart| ("daemon killed", restart.killed)));
        marks.extend(self.restart.map(|restart| ("state formed again", restart.reformed)));
        let streams = [stream, &self.flood];
        let [boomerang, yessir, nsis] = self.others;
        let spans = [before, during, after, boomerang.0, yessir.0, nsis.0, self.shared.0];
        let reserved =
            |protocol, (span, setup): StageSpan| stage(protocol, reserved_bps, Some(setup), span);
        Report {
            network,
            stages: vec![
                stage(Protocol::None, 0, None, before),
                reserved(Protocol::Rsvp, (during, self.setup)),
                stage(Protocol::None, 0, None, after),
                reserved(Protocol::Boomerang, boomerang),
                reserved(Protocol::Yessir, yessir),
                reserved(Protocol::Nsis, nsis),
                reserved(Protocol::Shared, self.shared),
            ],
            parts: {
                let (from, until) = self.shared.0;
                let part = |(protocol, rate, trace): (Protocol, Rate, &Trace)| {
                    let figures = trace.figures(from, until);
                    Part {
                        protocol,
                        reserved_bps: rate.as_bps(),
                        received_bps: figures.received_bps,
                        loss: figures.loss,
                    }
                };
                let measured = (Protocol::Rsvp, plan.stream.rate, stream);
                let sharers = SHARERS.iter().zip(&self.sharers);
                let sharers = sharers.map(|((by, _), trace)| (*by, plan.sharer.rate, trace));
                [measured].into_iter().chain(sharers).map(part).collect()
            },
            denials: self.parts,
            refusal: self.refusal.map(|refusal| Refusal {
                stream_bps_after: stream.figures(self.refused, during.1).received_bps,
                ..refusal
            }),
            kill: self
                .restart
                .map(|restart| KillResult::new(ROUTER, restart, self.longest_refresh, stream)),
            timeline: Timeline::new(self.start, &spans, &marks, reserved_bps, streams),
        }
    }
}
