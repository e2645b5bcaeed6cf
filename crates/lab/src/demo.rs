//! The demo: a stream beside a flood, without and with a reservation, on any network that implements the [`Stage`]
//! trait.
//!
//! Four nodes in a row, h1 - r1 - r2 - h2, with 10 Mbit/s between the routers. A stream of 2 Mbit/s and a flood of
//! 20 Mbit/s go from h1 to h2 all the time. The script, the same for namespaces and for the simulator:
//!
//! 1. *none*: nothing is reserved; the stream loses packets like the flood.
//! 2. *rsvp*: the stream's 2 Mbit/s are reserved. In the middle of it a second request for 8 Mbit/s does not fit and
//!    is refused; optionally, the daemon of r1 is killed and restarted. Neither may affect the stream, and the new
//!    daemon must restore the reservation with the first Path, within one refresh interval.
//! 3. *none*: the reservation is released, and the stream loses packets again.
//! 4. *boomerang*: a loop reserves the same. The daemon of h2 is stopped meanwhile: its kernel answers the ping.
//! 5. *yessir*: reports of the stream reserve the same.
//! 6. *nsis*: h1 discovers the nodes on the path by GIST, and reserves the same at each by QoS NSLP.
//! 7. *shared*: the stream by RSVP, and a stream of 1 Mbit/s each by Boomerang, YESSIR and NSIS. Then each of the
//!    four requests 5 Mbit/s more; no more than 2.5 are left, so all four must be refused, and no stream may be
//!    affected.
//!
//! Between stages the network gets a moment to settle, which belongs to no stage: queues fill or empty.

mod namespaces;
mod raw_results;
mod report;
mod simulated;
mod stage;

use std::time::Duration;

use anyhow::{Result, bail};
use earmark_core::{Rate, Time};
use earmark_sim::Trace;

pub use namespaces::OnNamespaces;
use raw_results::RawResults;
pub use report::{
    Denial, KillResult, Mark, NetworkKind, Part, Refusal, Report, Series, Span, Timeline,
};
pub use simulated::OnSimulator;
pub use stage::{Protocol, StageResult};

use crate::traffic::Shape;

/// Width of a bin of the rate over time.
pub const BIN: Duration = Duration::from_millis(100);
/// Timeout until a reservation is in place or refused.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time in which a packet of a reserved stream arrives.
const ARRIVAL: Duration = Duration::from_millis(50);
/// The node whose daemon is killed, and whose signalling is captured: the router before the bottleneck.
pub const ROUTER: &str = "r1";
/// Number of streams that are sent.
const SENT: usize = 5;
/// Protocol and stream of each reservation beside the measured stream in the last stage.
const SHARERS: [(Protocol, Stream); 3] = [
    (Protocol::Boomerang, Stream::ByBoomerang),
    (Protocol::Yessir, Stream::ByYessir),
    (Protocol::Nsis, Stream::ByNsis),
];
/// Node that needs no daemon of its own for Boomerang.
const FAR_END: &str = "h2";

/// Parameters of the demo.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Length of each stage.
    pub stage: Duration,
    /// Uncounted time between stages.
    pub settle: Duration,
    /// Traffic of the measured stream.
    pub stream: Shape,
    /// Traffic of the flood.
    pub flood: Shape,
    /// Traffic of each further stream of the last stage.
    pub sharer: Shape,
    /// Rate that each protocol requests in the last stage and must be refused.
    pub too_much: Rate,
    /// Rate of the second reservation, which must be refused.
    pub second: Rate,
    /// Refresh period R of all nodes.
    pub refresh: Duration,
    /// Whether the daemon of r1 is killed while the reservation exists.
    pub kill: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            stage: Duration::from_secs(7),
            settle: Duration::from_millis(500),
            stream: Shape { rate: Rate::from_mbps(2), packet_octets: 1_000, bucket_octets: 32_000 },
            flood: Shape { rate: Rate::from_mbps(20), packet_octets: 1_400, bucket_octets: 64_000 },
            sharer: Shape { rate: Rate::from_mbps(1), packet_octets: 1_000, bucket_octets: 32_000 },
            too_much: Rate::from_mbps(5),
            second: Rate::from_mbps(8),
            refresh: Duration::from_secs(2),
            kill: false,
        }
    }
}

impl Plan {
    /// Longest time between two refreshes, 1.5 R (RFC 2205 section 3.7).
    pub fn longest_refresh(&self) -> Duration {
        self.refresh * 3 / 2
    }
}

/// A traffic stream of the demo; each has a port of its own at h2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The stream that is measured.
    Measured,
    /// The flood.
    Flood,
    /// A stream that is not sent, but for which a reservation is requested.
    Second,
    /// The stream that Boomerang reserves for in the last stage.
    ByBoomerang,
    /// The stream that YESSIR reserves for in the last stage.
    ByYessir,
    /// The stream that NSIS reserves for in the last stage.
    ByNsis,
}

impl Stream {
    /// Streams that are sent, in the order of [`Stage::stop_traffic`].
    pub const SENT: [Stream; SENT] =
        [Stream::Measured, Stream::Flood, Stream::ByBoomerang, Stream::ByYessir, Stream::ByNsis];

    /// Returns the traffic of the stream.
    fn shape(self, plan: &Plan) -> Shape {
        match self {
            Stream::Measured | Stream::Second => plan.stream,
            Stream::Flood => plan.flood,
            Stream::ByBoomerang | Stream::ByYessir | Stream::ByNsis => plan.sharer,
        }
    }

    /// Returns the port, destination and source alike.
    pub const fn port(self) -> u16 {
        match self {
            Stream::Measured => 5_001,
            Stream::Flood => 5_002,
            Stream::Second => 5_003,
            Stream::ByBoomerang => 5_004,
            Stream::ByYessir => 5_005,
            Stream::ByNsis => 5_006,
        }
    }
}

/// Answer to a reservation request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The reservation is in place on the whole path, this long after the sender's call.
    InPlace(Duration),
    /// RSVP refused it.
    Refused(Refusal),
    /// Another protocol refused it, and offers this rate.
    Offered(Rate),
}

/// Times of a daemon's restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonRestart {
    /// The first daemon ended.
    pub killed: Time,
    /// The second daemon serves its control socket.
    pub ready: Time,
    /// The second daemon holds the reservation.
    pub reformed: Time,
}

/// A network that can run the demo; see [`OnNamespaces`] and [`OnSimulator`].
pub trait Stage {
    /// Returns the kind of network.
    fn kind(&self) -> NetworkKind;
    /// Returns the current time of the network's clock.
    fn now(&self) -> Time;
    /// Lets time pass.
    fn wait(&mut self, how_long: Duration) -> Result<()>;
    /// Starts stream and flood.
    fn start_traffic(&mut self) -> Result<()>;
    /// Returns the octets of the measured stream that have arrived so far.
    fn received_octets(&self) -> u64;
    /// Reserves from h1 to h2, by one of the protocols.
    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<Answer>;
    /// Releases the reservation of a stream, at both ends.
    fn release(&mut self, stream: Stream) -> Result<()>;
    /// Kills the daemon of a node, starts another after `pause`, and waits until it holds the reservation.
    fn restart_daemon(
        &mut self,
        node: &str,
        pause: Duration,
        within: Duration,
    ) -> Result<DaemonRestart>;
    /// Stops the daemon of a node.
    fn stop_daemon(&mut self, node: &str) -> Result<()>;
    /// Starts the daemon of a node again, and waits until it serves requests.
    fn start_daemon(&mut self, node: &str) -> Result<()>;
    /// Ends all traffic; returns the traces in the order of [`Stream::SENT`].
    fn stop_traffic(&mut self) -> Result<[Trace; SENT]>;
}

/// Receives the progress of the demo.
pub trait Progress {
    /// Begins a part, described in words, of about `steps` steps.
    fn begin(&mut self, what: &str, steps: u64);
    /// Reports a step, with the stream's current rate, bits per second.
    fn step(&mut self, stream_bps: u64);
    /// Reports an event.
    fn note(&mut self, what: &str);
}

/// Runs the demo.
///
/// # Errors
/// The network could not carry out the script. A promise that did not hold is not an error but part of the report.
pub fn play(stage: &mut dyn Stage, plan: &Plan, progress: &mut dyn Progress) -> Result<Report> {
    let network = stage.kind();
    let start = stage.now();
    stage.start_traffic()?;
    let mut player = Player { stage, progress, received: 0 };
    player.pass(plan.settle, "traffic starts")?;
    let before = player.span(plan.stage, "nothing reserved")?;

    let setup = reserve(&mut player, Protocol::Rsvp, Stream::Measured, plan.stream.rate)?;
    player.pass(plan.settle, "queues settle")?;
    let from = player.stage.now();
    player.span(plan.stage / 2, "reserved with RSVP")?;
    let refusal = refuse(&mut player, plan)?;
    let refused = player.stage.now();
    let restart = if plan.kill { Some(restart_daemon(&mut player, plan)?) } else { None };
    player.span(plan.stage / 2, "reserved with RSVP")?;
    let during = (from, player.stage.now());

    player.arrive()?;
    player.stage.release(Stream::Measured)?;
    player.progress.note("released");
    player.pass(plan.settle, "queues settle")?;
    let after = player.span(plan.stage, "released")?;
    let others = other_stages(&mut player, plan)?;
    let (shared, parts) = share(&mut player, plan)?;
    let [stream, flood, sharers @ ..] = player.stage.stop_traffic()?;
    let raw_results = RawResults {
        start,
        spans: [before, during, after],
        others,
        shared,
        parts,
        sharers,
        setup,
        refusal,
        refused,
        restart,
        longest_refresh: plan.longest_refresh(),
        stream,
        flood,
    };
    Ok(raw_results.report(network, plan))
}

/// Begin and end of a stage, and the set-up time of its reservation.
type StageSpan = ((Time, Time), Duration);

/// Runs the stages of Boomerang, of YESSIR and of NSIS.
fn other_stages(player: &mut Player<'_>, plan: &Plan) -> Result<[StageSpan; 3]> {
    player.stage.stop_daemon(FAR_END)?;
    player.progress.note(&format!("{FAR_END} has no daemon now: its kernel answers pings"));
    let boomerang = other_stage(player, plan, Protocol::Boomerang, "reserved with Boomerang")?;
    player.stage.start_daemon(FAR_END)?;
    let yessir = other_stage(player, plan, Protocol::Yessir, "reserved with YESSIR")?;
    let nsis = other_stage(player, plan, Protocol::Nsis, "reserved with NSIS")?;
    Ok([boomerang, yessir, nsis])
}

fn other_stage(
    player: &mut Player<'_>,
    plan: &Plan,
    by: Protocol,
    what: &'static str,
) -> Result<StageSpan> {
    let setup = reserve(player, by, Stream::Measured, plan.stream.rate)?;
    player.pass(plan.settle, "queues settle")?;
    let span = player.span(plan.stage, what)?;
    player.arrive()?;
    player.stage.release(Stream::Measured)?;
    player.pass(plan.settle, "queues settle")?;
    Ok((span, setup))
}

/// Runs the stage with all protocols: returns its span, the set-up time of the measured stream, and each refusal.
fn share(player: &mut Player<'_>, plan: &Plan) -> Result<(StageSpan, Vec<Denial>)> {
    let setup = reserve(player, Protocol::Rsvp, Stream::Measured, plan.stream.rate)?;
    for (by, stream) in SHARERS {
        reserve(player, by, stream, plan.sharer.rate)?;
    }
    player.pass(plan.settle, "queues settle")?;
    let from = player.stage.now();
    player.span(plan.stage / 2, "shared by all")?;
    let mut denials = Vec::new();
    for by in [Protocol::Rsvp].into_iter().chain(SHARERS.map(|(by, _)| by)) {
        let requested_bps = plan.too_much.as_bps();
        let available_bps =
            match player.stage.reserve(by, Stream::Second, plan.too_much, ANSWER_WITHIN)? {
                Answer::InPlace(_) => None,
                Answer::Refused(_) => Some(None),
                Answer::Offered(rate) => Some(Some(rate.as_bps())),
            };
        if let Some(available_bps) = available_bps {
            denials.push(Denial { protocol: by, requested_bps, available_bps });
        }
        player.stage.release(Stream::Second)?;
    }
    let many = denials.len();
    player.progress.note(&format!("{} more: refused to {many} of four protocols", plan.too_much));
    player.span(plan.stage / 2, "shared by all")?;
    let span = (from, player.stage.now());
    player.arrive()?;
    for stream in [Stream::Measured].into_iter().chain(SHARERS.map(|(_, stream)| stream)) {
        player.stage.release(stream)?;
    }
    Ok(((span, setup), denials))
}

/// Converts the answer of a YESSIR receiver: if hops have refused, the offer is the least of their available rates.
fn answered(answer: &earmark_yessir::Answer, setup: Duration) -> Answer {
    let available = answer.failures.iter().map(|note| note.available.0);
    match available.reduce(f32::min) {
        None => Answer::InPlace(setup),
        Some(least) => Answer::Offered(Rate::from_octets_per_second(least)),
    }
}

/// Requests a rate that fits; returns the time until the reservation was in place.
fn reserve(player: &mut Player<'_>, by: Protocol, stream: Stream, rate: Rate) -> Result<Duration> {
    match player.stage.reserve(by, stream, rate, ANSWER_WITHIN)? {
        Answer::InPlace(setup) => {
            let millis = setup.as_secs_f64() * 1e3;
            let name = by.name();
            player.progress.note(&format!("{rate} reserved by {name} in {millis:.1} ms"));
            Ok(setup)
        }
        Answer::Refused(refusal) => bail!("the first reservation was refused: {refusal}"),
        Answer::Offered(rate) => bail!("{} could have {rate} only", by.name()),
    }
}

/// Requests a rate that does not fit; returns `None` if it was granted.
fn refuse(player: &mut Player<'_>, plan: &Plan) -> Result<Option<Refusal>> {
    let refusal =
        match player.stage.reserve(Protocol::Rsvp, Stream::Second, plan.second, ANSWER_WITHIN)? {
            Answer::Refused(refusal) => {
                player.progress.note(&format!("a second reservation: {refusal}"));
                Some(refusal)
            }
            Answer::InPlace(_) | Answer::Offered(_) => None,
        };
    player.stage.release(Stream::Second)?;
    Ok(refusal)
}

fn restart_daemon(player: &mut Player<'_>, plan: &Plan) -> Result<DaemonRestart> {
    player.progress.note(&format!("kill -9 of the daemon on {ROUTER}"));
    // Twice the promised time distinguishes a late restoration from none.
    let within = plan.longest_refresh() * 2;
    let restart = player.stage.restart_daemon(ROUTER, Duration::from_secs(1), within)?;
    player.progress.note(&format!(
        "a new daemon runs; {:.1} s later, with the first Path, the reservation stood in its state again",
        restart.reformed.since(restart.ready).as_secs_f64()
    ));
    Ok(restart)
}

/// Runs the steps of the script with time and progress.
struct Player<'a> {
    stage: &'a mut dyn Stage,
    progress: &'a mut dyn Progress,
    received: u64,
}

impl Player<'_> {
    /// Lets time pass that belongs to no stage.
    fn pass(&mut self, how_long: Duration, what: &str) -> Result<()> {
        self.span(how_long, what).map(|_| ())
    }

    /// Waits for packets in flight: those sent in the previous span must arrive under its reservation.
    fn arrive(&mut self) -> Result<()> {
        self.pass(ARRIVAL, "the last packets arrive")
    }

    /// Measures a span; returns its begin and end.
    fn span(&mut self, how_long: Duration, what: &str) -> Result<(Time, Time)> {
        let from = self.stage.now();
        let steps = how_long.as_nanos().div_ceil(BIN.as_nanos());
        self.progress.begin(what, u64::try_from(steps)?);
        let end = from + how_long;
        while self.stage.now() < end {
            let began = self.stage.now();
            self.stage.wait(end.since(began).min(BIN))?;
            let received = self.stage.received_octets();
            let (octets, passed) = (received - self.received, self.stage.now().since(began));
            self.received = received;
            self.progress.step((octets as f64 * 8.0 / passed.as_secs_f64().max(1e-3)) as u64);
        }
        Ok((from, self.stage.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use earmark_scenario::topology::{DEMO, Topology};

    /// Ignores all progress.
    struct Unwatched;

    impl Progress for Unwatched {
        fn begin(&mut self, _: &str, _: u64) {}
        fn step(&mut self, _: u64) {}
        fn note(&mut self, _: &str) {}
    }

    fn simulated(plan: &Plan, seed: u64) -> Report {
        let topology = Topology::parse(DEMO).unwrap();
        let mut stage = OnSimulator::new(topology, plan.clone(), seed);
        play(&mut stage, plan, &mut Unwatched).unwrap()
    }

    /// The promises of the demo hold in the simulator with several seeds.
    #[test]
    fn promises_hold_in_the_simulator() {
        for seed in 1..=3 {
            let report = simulated(&Plan::default(), seed);
            assert_eq!(report.broken_promises(), [""; 0], "{report:?}");
            let refusal = report.refusal.unwrap();
            assert_eq!((refusal.node.as_str(), refusal.code, refusal.value), ("r1", 1, 2));
            assert!(report.stages[1].setup_ms.unwrap() > 0.0);
        }
    }

    #[test]
    fn a_killed_daemon_changes_nothing_in_the_simulator() {
        let plan = Plan { kill: true, ..Plan::default() };
        let report = simulated(&plan, 1);
        assert_eq!(report.broken_promises(), [""; 0], "{report:?}");
        let kill = report.kill.unwrap();
        // The first Path restores the reservation; in virtual time the machine itself takes none.
        assert!(kill.reformed_ms <= plan.longest_refresh().as_secs_f64() * 1e3 + 20.0, "{kill:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_report() {
        let plan = Plan { stage: Duration::from_secs(2), ..Plan::default() };
        assert_eq!(simulated(&plan, 5), simulated(&plan, 5));
        assert_ne!(simulated(&plan, 5), simulated(&plan, 6));
    }

    /// A stream that requests more than the bandwidth gets no first reservation, and the demo reports that.
    #[test]
    fn a_refused_first_reservation_is_an_error() {
        let mut plan = Plan { stage: Duration::from_secs(1), ..Plan::default() };
        plan.stream.rate = Rate::from_mbps(9);
        let topology = Topology::parse(DEMO).unwrap();
        let mut stage = OnSimulator::new(topology, plan.clone(), 1);
        let error = play(&mut stage, &plan, &mut Unwatched).unwrap_err();
        assert!(error.to_string().contains("admission control failure"), "{error}");
    }
}
