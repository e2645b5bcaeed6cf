//! What the demo found, and whether it is what was promised.

use std::fmt;
use std::time::Duration;

use earmark_core::Time;
use earmark_sim::{Protocol, StageResult, Trace};
use serde::Serialize;

use super::{BIN, Revival, SHARERS};

/// Loss above which a stage without a reservation shows what reservations are for.
const UNRESERVED_LOSS: f64 = 0.3;
/// The 99th percentile of the delay stays below this with a reservation, milliseconds.
const RESERVED_DELAY_MS: f64 = 20.0;
/// What a machine under load may take on top of the longest refresh interval, milliseconds: messages cross it twice, and
/// the state is looked at every 10 ms.
const REFORM_SLACK_MS: f64 = 250.0;
/// A stream that "keeps its rate" gets this share of it in any span: the ends of a span cut through packets.
const KEPT: f64 = 0.98;

/// Where the nodes ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Network namespaces of this machine: real daemons, real traffic control, real packets.
    Netns,
    /// The simulator: the same engines, modelled links, virtual time.
    Simulated,
}

impl NetworkKind {
    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            NetworkKind::Netns => "network namespaces on this machine",
            NetworkKind::Simulated => "simulated, in virtual time",
        }
    }
}

/// All that the demo found. Serialised, it is the object of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where the nodes ran.
    pub network: NetworkKind,
    /// The stages, in order.
    pub stages: Vec<StageResult>,
    /// Who had how much in the stage that all share.
    pub parts: Vec<Part>,
    /// What more each protocol asked for in it, in vain.
    pub denials: Vec<Denial>,
    /// The refusal of the second reservation; `None` where it was granted.
    pub refusal: Option<Refusal>,
    /// What came of the daemon's death, where it had to die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<KillResult>,
    /// Rates over time.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// What one protocol held while all shared the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Which.
    pub protocol: Protocol,
    /// How much it had reserved.
    pub reserved_bps: u64,
    /// How much of its stream arrived.
    pub received_bps: u64,
    /// Share that did not, 0 to 1.
    pub loss: f64,
}

/// What one protocol could not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// Which.
    pub protocol: Protocol,
    /// What was asked for.
    pub requested_bps: u64,
    /// What could have been had, where the protocol tells.
    pub available_bps: Option<u64>,
}

/// A reservation that was refused, by a ResvErr.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    /// What was asked for.
    pub requested_bps: u64,
    /// The error code in words.
    pub error: String,
    /// Error code of the ERROR_SPEC (RFC 2205 appendix B).
    pub code: u8,
    /// Its error value.
    pub value: u16,
    /// Which node refused.
    pub node: String,
    /// What the first stream got from then on.
    pub stream_bps_after: u64,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = earmark_core::Rate::from_bps(self.requested_bps);
        let Refusal { node, error, code, value, .. } = self;
        write!(f, "{rate} refused by {node}: {error} (code {code}, value {value})")
    }
}

/// What the stream and the state made of the death of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KillResult {
    /// Whose daemon died.
    pub node: String,
    /// How long there was none, from the death until the next one served.
    pub down_ms: f64,
    /// From then until the reservation was in its state again.
    pub reformed_ms: f64,
    /// The longest time between two refreshes, 1.5 R: what `reformed_ms` must keep to, since the first Path brings the
    /// reservation back.
    pub longest_refresh_ms: f64,
    /// What the stream got from the death until then.
    pub stream_bps: u64,
    /// Its loss from the death until then, 0 to 1.
    pub loss: f64,
}

impl KillResult {
    pub(super) fn new(
        node: &str,
        revival: Revival,
        longest_refresh: Duration,
        stream: &Trace,
    ) -> KillResult {
        let Revival { killed, ready, reformed } = revival;
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

/// Rates over time, for a chart. Times are since the start of the traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Width of a bin.
    pub bin: Duration,
    /// The spans that were measured.
    pub spans: Vec<Span>,
    /// Moments worth a line.
    pub marks: Vec<Mark>,
    /// The stream, then the flood.
    pub series: Vec<Series>,
}

/// One measured span of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it shows.
    pub name: &'static str,
    /// Begin.
    pub from: Duration,
    /// End.
    pub until: Duration,
    /// What was reserved in it, bits per second.
    pub reserved_bps: u64,
}

/// One moment of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What happened.
    pub name: &'static str,
    /// When.
    pub at: Duration,
}

/// Received rates of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// Rate in each bin, bits per second.
    pub rates_bps: Vec<u64>,
}

impl Timeline {
    pub(super) fn new(
        start: Time,
        spans: &[(Time, Time); 7],
        marks: &[(&'static str, Time)],
        reserved_bps: u64,
        [stream, flood]: [&Trace; 2],
    ) -> Timeline {
        // Whole bins only: a cut one would look like a lower rate.
        let bins = spans[6].1.since(start).as_nanos() / BIN.as_nanos();
        let end = start + BIN * u32::try_from(bins).unwrap_or(u32::MAX);
        let names = [
            "nothing reserved",
            "reserved with RSVP",
            "released",
            "reserved with Boomerang",
            "reserved with YESSIR",
            "reserved with NSIS",
            "shared by all",
        ];
        let span = |(index, &(from, until)): (usize, &(Time, Time))| Span {
            name: names[index],
            from: from.since(start),
            until: until.since(start),
            reserved_bps: if [0, 2].contains(&index) { 0 } else { reserved_bps },
        };
        let rates =
            |name, trace: &Trace| Series { name, rates_bps: trace.arrival_rates(start, end, BIN) };
        Timeline {
            bin: BIN,
            spans: spans.iter().enumerate().map(span).collect(),
            marks: marks.iter().map(|&(name, at)| Mark { name, at: at.since(start) }).collect(),
            series: vec![rates("stream", stream), rates("flood", flood)],
        }
    }
}

impl Report {
    /// What was promised and did not hold, one sentence each. Empty: all is well.
    pub fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            let number = index + 1;
            match stage.protocol {
                Protocol::None if stage.loss <= UNRESERVED_LOSS => broken.push(format!(
                    "stage {number}: without a reservation the stream lost only {:.1} %, so the flood was none",
                    stage.loss * 100.0
                )),
                Protocol::None => {}
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
        if self.denials.len() <= SHARERS.len() {
            broken.push("a protocol could have more than was left".into());
        }
        let enough = |bps: u64| bps as f64 >= KEPT * self.reserved_bps() as f64;
        match &self.refusal {
            None => broken.push("the second reservation does not fit, but was not refused".into()),
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
                    "the state of {} took {:.0} ms to form again, longer than one refresh interval ({:.0} ms)",
                    kill.node, kill.reformed_ms, kill.longest_refresh_ms
                ));
            }
        }
        broken
    }

    /// What the stream had reserved.
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

    fn stage(protocol: Protocol, loss: f64, delay: f64) -> StageResult {
        StageResult {
            protocol,
            reserved_bps: if protocol == Protocol::Rsvp { 2_000_000 } else { 0 },
            offered_bps: 2_000_000,
            received_bps: 1_000_000,
            loss,
            delay_p50_ms: Some(delay / 2.0),
            delay_p99_ms: Some(delay),
            setup_ms: None,
        }
    }

    fn good() -> Report {
        let none = stage(Protocol::None, 0.5, 60.0);
        Report {
            network: NetworkKind::Simulated,
            stages: vec![none, stage(Protocol::Rsvp, 0.0, 3.0), none],
            parts: Vec::new(),
            denials: [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis]
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
            timeline: Timeline::default(),
        }
    }

    /// A death as it should be.
    fn unnoticed() -> KillResult {
        KillResult {
            node: "r1".to_owned(),
            down_ms: 1_200.0,
            reformed_ms: 3_000.0,
            longest_refresh_ms: 3_000.0,
            stream_bps: 2_000_000,
            loss: 0.0,
        }
    }

    /// Each promise can be broken by itself, and is then named.
    #[test]
    fn every_promise_is_watched() {
        assert_eq!(good().broken_promises(), [""; 0]);
        assert_eq!(Report { kill: Some(unnoticed()), ..good() }.broken_promises(), [""; 0]);
        type Spoil = fn(&mut Report);
        let cases: [(Spoil, &str); 11] = [
            (
                |r| {
                    let protocol = Protocol::Yessir;
                    let (reserved_bps, received_bps) = (1_000_000, 900_000);
                    r.parts.push(Part { protocol, reserved_bps, received_bps, loss: 0.1 });
                },
                "the stream of yessir lost 10.00 %",
            ),
            (|r| _ = r.denials.pop(), "more than was left"),
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
            (|r| r.kill = Some(KillResult { loss: 0.01, ..unnoticed() }), "while r1 had no daemon"),
            (
                |r| r.kill = Some(KillResult { reformed_ms: 3_251.0, ..unnoticed() }),
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

    /// The keys and their order are what programs rely on.
    #[test]
    fn json_has_the_documented_shape() {
        let json = serde_json::to_string(&good()).unwrap();
        assert!(json.starts_with(
            r#"{"network":"simulated","stages":[{"protocol":"none","reserved_bps":0,"offered_bps":2000000,"received_bps":1000000,"loss":0.5,"delay_p50_ms":30.0,"delay_p99_ms":60.0,"setup_ms":null},"#
        ), "{json}");
        assert!(json.ends_with(
            r#""refusal":{"requested_bps":8000000,"error":"admission control failure","code":1,"value":2,"node":"r1","stream_bps_after":1999000}}"#
        ), "{json}");
    }
}
