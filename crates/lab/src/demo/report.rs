//! Results of the demo, compared with its promises.

use std::fmt;
use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_scenario::topology::Topology;
use earmark_sim::Trace;
use serde::Serialize;

use super::firewalls::{self, FirewallStage};
use super::network::{DaemonRestart, NetworkKind};
use super::plan::BIN;
use super::protocol::{ErrorReport, Protocol};
use super::stage::{Reserver, StageResult};
use crate::protocols::PROTOCOLS;

/// Loss above which a stage without a reservation shows the need for one.
const UNRESERVED_LOSS: f64 = 0.3;
/// Limit of the 99th percentile of the delay with a reservation, milliseconds.
const RESERVED_DELAY_MS: f64 = 20.0;
/// Time of a loaded machine beyond the longest refresh interval, milliseconds: messages cross it twice, and the state
/// is checked every 10 ms.
const REFORM_SLACK_MS: f64 = 250.0;
/// Share of its rate that a stream keeps in any span, since the ends of a span cut through packets.
const KEPT: f64 = 0.98;

/// All results of the demo. Serialized, it is the object of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind of network.
    pub network: NetworkKind,
    /// The stages, in order.
    pub stages: Vec<StageResult>,
    /// Bandwidth of each protocol in the stage that all share.
    pub parts: Vec<Part>,
    /// Refused further requests of each protocol in that stage.
    pub denials: Vec<Denial>,
    /// Refusal of the second reservation; `None` if it was granted.
    pub refusal: Option<Refusal>,
    /// Result of the daemon's restart, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillResult>,
    /// Stages behind firewalls.
    pub firewalls: Vec<FirewallStage>,
    /// Rates over time.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// Bandwidth of one protocol in the stage that all share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Protocol.
    pub protocol: Protocol,
    /// Reserved rate, bits per second.
    pub reserved_bps: u64,
    /// Received rate of its stream, bits per second.
    pub received_bps: u64,
    /// Loss, 0 to 1.
    pub loss: f64,
}

/// A request that one protocol was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// Protocol.
    pub protocol: Protocol,
    /// Requested rate, bits per second.
    pub requested_bps: u64,
    /// Available rate, if the protocol reports it, bits per second.
    pub available_bps: Option<u64>,
}

/// A reservation that a ResvErr refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// Requested rate, bits per second.
    pub requested_bps: u64,
    /// Text of the error code.
    pub error: String,
    /// Error code of the ERROR_SPEC (RFC 2205 appendix B).
    pub code: u8,
    /// Error value of the ERROR_SPEC.
    pub value: u16,
    /// Name of the refusing node.
    pub node: String,
    /// Rate of the first stream from then on, bits per second.
    pub stream_bps_after: u64,
}

impl Refusal {
    /// Returns the refusal of a request for this rate.
    pub(super) fn new(requested: Rate, report: ErrorReport, topology: &Topology) -> Refusal {
        let ErrorReport { error, code, value, node } = report;
        let node = topology.owner_of(node).unwrap_or("unknown").to_owned();
        let requested_bps = requested.as_bps();
        Refusal { requested_bps, error, code, value, node, stream_bps_after: 0 }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Rate::from_bps(self.requested_bps);
        let Refusal { node, error, code, value, .. } = self;
        write!(f, "{rate} refused by {node}: {error} (code {code}, value {value})")
    }
}

/// Effect of a daemon's restart on the stream and the state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KillResult {
    /// Node of the daemon.
    pub node: String,
    /// Time without a daemon, until the next one served requests, milliseconds.
    pub down_ms: f64,
    /// Time from then until the daemon held the reservation again, milliseconds.
    pub reformed_ms: f64,
    /// Longest time between two refreshes, 1.5 R, milliseconds: the limit of `reformed_ms`, since the first Path
    /// restores the reservation.
    pub longest_refresh_ms: f64,
    /// Rate of the stream from the kill until then, bits per second.
    pub stream_bps: u64,
    /// Loss of the stream from the kill until then, 0 to 1.
    pub loss: f64,
}

impl KillResult {
    pub(super) fn new(
        node: &str,
        restart: DaemonRestart,
        longest_refresh: Duration,
        stream: &Trace,
    ) -> KillResult {
        let DaemonRestart { killed, ready, reformed } = restart;
        let figures = stream.figures(killed, reformed);
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        KillResult {
            node: node.to_owned(),
            down_ms: millis(ready.since(killed)),
            reformed_ms: millis(reformed.since(ready)),
            longest_refresh_ms: millis(longest_refresh),
            stream_bps: figures.received_bps,
            loss: figures.loss,
        }
    }
}

/// Rates over time, for a chart. Times count from the start of the traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Width of a bin.
    pub bin: Duration,
    /// Measured spans.
    pub spans: Vec<Span>,
    /// Marked moments.
    pub marks: Vec<Mark>,
    /// Rates of the stream, then of the flood.
    pub series: Vec<Series>,
}

/// One measured span of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Name of the span.
    pub name: &'static str,
    /// Begin.
    pub from: Duration,
    /// End.
    pub until: Duration,
    /// Reserved rate, bits per second.
    pub reserved_bps: u64,
}

/// One moment of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Name of the event.
    pub name: &'static str,
    /// Time of the event.
    pub at: Duration,
}

/// Received rates of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the stream.
    pub name: &'static str,
    /// Rate in each bin, bits per second.
    pub rates_bps: Vec<u64>,
}

impl Timeline {
    /// Creates the timeline from the begin of the traffic to the end of the last span.
    pub(super) fn new(
        start: Time,
        spans: Vec<Span>,
        marks: &[(&'static str, Time)],
        [stream, flood]: [&Trace; 2],
    ) -> Timeline {
        // Only whole bins count: a cut one would look like a lower rate.
        let length = spans.last().map_or(Duration::ZERO, |last| last.until);
        let bins = length.as_nanos() / BIN.as_nanos();
        let end = start + BIN * u32::try_from(bins).unwrap_or(u32::MAX);
        let rates =
            |name, trace: &Trace| Series { name, rates_bps: trace.arrival_rates(start, end, BIN) };
        Timeline {
            bin: BIN,
            spans,
            marks: marks.iter().map(|&(name, at)| Mark { name, at: at.since(start) }).collect(),
            series: vec![rates("stream", stream), rates("flood", flood)],
        }
    }
}

impl Report {
    /// Returns a sentence for each promise that did not hold; none if all is well.
    pub fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            let number = index + 1;
            match stage.protocol {
                Reserver::Nothing if stage.loss <= UNRESERVED_LOSS => broken.push(format!(
                    "stage {number}: without a reservation the stream lost only {:.1} %: the flood is too small",
                    stage.loss * 100.0
                )),
                Reserver::Nothing => {}
                _ => broken.extend(self.broken_by_reserved(number, stage)),
            }
        }
        for part in self.parts.iter().filter(|part| part.loss > 0.0) {
            broken.push(format!(
                "while all shared, the stream of {} lost {:.2} % although its rate was reserved",
                part.protocol.name(),
                part.loss * 100.0
            ));
        }
        if self.denials.len() < PROTOCOLS.len() {
            broken.push("a protocol was granted more than was available".into());
        }
        let enough = |bps: u64| bps as f64 >= KEPT * self.reserved_bps() as f64;
        match &self.refusal {
            None => broken
                .push("the second reservation exceeds the capacity, but was not refused".into()),
            Some(refusal) if refusal.code != 1 => {
                broken.push(format!("the refusal was no admission control failure: {refusal}"));
            }
            Some(refusal) if !enough(refusal.stream_bps_after) => {
                broken.push("after the refusal the first stream did not keep its rate".into());
            }
            Some(_) => {}
        }
        if let Some(kill) = &self.kill {
            if kill.loss > 0.0 || !enough(kill.stream_bps) {
                let node = &kill.node;
                broken.push(format!("the stream did not keep its rate while {node} had no daemon"));
            }
            if kill.reformed_ms > kill.longest_refresh_ms + REFORM_SLACK_MS {
                broken.push(format!(
                    "{} took {:.0} ms to restore the reservation, longer than one refresh interval ({:.0} ms)",
                    kill.node, kill.reformed_ms, kill.longest_refresh_ms
                ));
            }
        }
        broken.extend(firewalls::broken_promises(&self.firewalls));
        broken
    }

    /// Returns the reserved rate of the stream, bits per second.
    pub fn reserved_bps(&self) -> u64 {
        self.stages.iter().map(|stage| stage.reserved_bps).max().unwrap_or(0)
    }

    fn broken_by_reserved(&self, number: usize, stage: &StageResult) -> Vec<String> {
        let mut broken = Vec::new();
        if stage.loss > 0.0 {
            broken.push(format!(
                "stage {number}: the stream lost {:.2} % although its rate was reserved",
                stage.loss * 100.0
            ));
        }
        if (stage.offered_bps as f64) < KEPT * stage.reserved_bps as f64 {
            broken.push(format!("stage {number}: the source did not keep its rate"));
        }
        match stage.delay_p99_ms {
            Some(delay) if delay < RESERVED_DELAY_MS => {}
            Some(delay) => broken.push(format!(
                "stage {number}: 99 % of the delays stay below {delay:.1} ms, not below {RESERVED_DELAY_MS} ms"
            )),
            None => broken.push(format!("stage {number}: nothing arrived")),
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(protocol: Reserver, loss: f64, delay: f64) -> StageResult {
        StageResult {
            protocol,
            reserved_bps: if protocol == Reserver::Nothing { 0 } else { 2_000_000 },
            offered_bps: 2_000_000,
            received_bps: 1_000_000,
            loss,
            delay_p50_ms: Some(delay / 2.0),
            delay_p99_ms: Some(delay),
            setup_ms: None,
        }
    }

    fn good() -> Report {
        let none = stage(Reserver::Nothing, 0.5, 60.0);
        Report {
            network: NetworkKind::Simulated,
            stages: vec![none, stage(Reserver::Protocol(PROTOCOLS[0]), 0.0, 3.0), none],
            parts: Vec::new(),
            denials: PROTOCOLS
                .map(|protocol| Denial { protocol, requested_bps: 5_000_000, available_bps: None })
                .into(),
            refusal: Some(Refusal {
                requested_bps: 8_000_000,
                error: "admission control failure".into(),
                code: 1,
                value: 2,
                node: "r1".into(),
                stream_bps_after: 1_999_000,
            }),
            kill: None,
            firewalls: Vec::new(),
            timeline: Timeline::default(),
        }
    }

    /// A restart without an effect on the stream.
    fn harmless() -> KillResult {
        KillResult {
            node: "r1".to_owned(),
            down_ms: 1_200.0,
            reformed_ms: 3_000.0,
            longest_refresh_ms: 3_000.0,
            stream_bps: 2_000_000,
            loss: 0.0,
        }
    }

    /// Each promise can fail alone, and is then named.
    #[test]
    fn each_broken_promise_is_named() {
        assert_eq!(good().broken_promises(), [""; 0]);
        assert_eq!(Report { kill: Some(harmless()), ..good() }.broken_promises(), [""; 0]);
        type BreakPromise = fn(&mut Report);
        let cases: [(BreakPromise, &str); 11] = [
            (
                |r| {
                    let protocol = PROTOCOLS[0];
                    let (reserved_bps, received_bps) = (1_000_000, 900_000);
                    r.parts.push(Part { protocol, reserved_bps, received_bps, loss: 0.1 });
                },
                "lost 10.00 % although",
            ),
            (|r| _ = r.denials.pop(), "more than was available"),
            (|r| r.stages[0].loss = 0.3, "stage 1: without a reservation"),
            (|r| r.stages[1].loss = 0.001, "stage 2: the stream lost 0.10 %"),
            (|r| r.stages[1].delay_p99_ms = Some(20.0), "not below 20 ms"),
            (|r| r.stages[1].delay_p99_ms = None, "nothing arrived"),
            (|r| r.stages[1].offered_bps = 1_900_000, "did not keep its rate"),
            (|r| r.refusal = None, "was not refused"),
            (
                |r| r.refusal.as_mut().unwrap().stream_bps_after = 1_000_000,
                "the first stream did not keep its rate",
            ),
            (|r| r.kill = Some(KillResult { loss: 0.01, ..harmless() }), "while r1 had no daemon"),
            (
                |r| r.kill = Some(KillResult { reformed_ms: 3_251.0, ..harmless() }),
                "longer than one refresh interval (3000 ms)",
            ),
        ];
        for (spoil, reason) in cases {
            let mut report = good();
            spoil(&mut report);
            let broken = report.broken_promises();
            assert_eq!(broken.len(), 1, "{broken:?}");
            assert!(broken[0].contains(reason), "{broken:?}");
        }
    }

    /// Programs rely on the keys and their order.
    #[test]
    fn json_has_the_documented_shape() {
        let json = serde_json::to_string(&good()).unwrap();
        assert!(json.starts_with(
            r#"{"network":"simulated","stages":[{"protocol":"none","reserved_bps":0,"offered_bps":2000000,"received_bps":1000000,"loss":0.5,"delay_p50_ms":30.0,"delay_p99_ms":60.0,"setup_ms":null},"#
        ), "{json}");
        assert!(json.ends_with(
            r#""refusal":{"requested_bps":8000000,"error":"admission control failure","code":1,"value":2,"node":"r1","stream_bps_after":1999000},"firewalls":[]}"#
        ), "{json}");
    }
}
