//! The demo: a stream beside a flood, without and with a reservation, played on any network that can do what the
//! [`Stage`] trait asks for.
//!
//! Four nodes in a row, h1 - r1 - r2 - h2, with 10 Mbit/s between the routers. A stream of 2 Mbit/s and a flood of
//! 20 Mbit/s go from h1 to h2 all the time. The script, the same for namespaces and for the simulator:
//!
//! 1. *none*: nothing is reserved; the stream shares the fate of the flood.
//! 2. *rsvp*: the stream's 2 Mbit/s are reserved. In the middle of it somebody asks for 8 Mbit/s more, which do not fit
//!    and are refused; if asked for, the daemon of r1 is killed and started again. The stream must not notice either,
//!    and the new daemon must know of the reservation again with the first Path, within one refresh interval.
//! 3. *none*: the reservation is released, and the stream suffers again.
//! 4. *boomerang*: a loop reserves the same. The daemon of h2 is stopped meanwhile: its kernel answers the ping.
//! 5. *yessir*: reports of the stream reserve the same.
//! 6. *nsis*: h1 finds the nodes on the path by GIST, and reserves the same at each by QoS NSLP.
//! 7. *shared*: the stream by RSVP, and a stream of 1 Mbit/s each by Boomerang, YESSIR and NSIS. Then each of the four asks for
//!    5 Mbit/s more; no more than 2.5 are left, so all four must be refused, and no stream may notice.
//!
//! Between stages the network gets a moment to settle, which belongs to none of them: queues fill or empty.

mod namespaces;
mod report;
mod simulated;
mod story;

use std::time::Duration;

use anyhow::{Result, bail};
use earmark_core::{Rate, Time};
use earmark_sim::{Protocol, Trace};

pub use namespaces::OnNamespaces;
pub use report::{
    Denial, KillResult, Mark, NetworkKind, Part, Refusal, Report, Series, Span, Timeline,
};
pub use simulated::OnSimulator;
use story::Story;

use crate::traffic::Shape;

/// Bins of the rate over time.
pub const BIN: Duration = Duration::from_millis(100);
/// How long a reservation may take to be in place or refused.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// More than a packet of a reserved stream takes.
const ARRIVAL: Duration = Duration::from_millis(50);
/// The node whose daemon is killed, and whose signalling is captured: the router before the bottleneck.
pub const ROUTER: &str = "r1";
/// How many streams are sent.
const SENT: usize = 5;
/// Who shares the bottleneck with the measured stream in the last stage, and what each reserves for.
const SHARERS: [(Protocol, Stream); 3] = [
    (Protocol::Boomerang, Stream::ByBoomerang),
    (Protocol::Yessir, Stream::ByYessir),
    (Protocol::Nsis, Stream::ByNsis),
];
/// The node that needs no daemon of its own for Boomerang.
const FAR_END: &str = "h2";

/// What the demo does, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Length of each stage.
    pub stage: Duration,
    /// Time between stages that is not counted.
    pub settle: Duration,
    /// The stream that is measured.
    pub stream: Shape,
    /// The traffic beside it.
    pub flood: Shape,
    /// Each of the streams that share with it in the last stage.
    pub sharer: Shape,
    /// What each protocol asks for in vain in the last stage.
    pub too_much: Rate,
    /// Rate of the second reservation, which must not fit.
    pub second: Rate,
    /// Refresh period R of all nodes.
    pub refresh: Duration,
    /// Whether the daemon of r1 is killed while the reservation stands.
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
    /// The longest time between two refreshes, 1.5 R (RFC 2205 section 3.7).
    pub fn longest_refresh(&self) -> Duration {
        self.refresh * 3 / 2
    }
}

/// Which traffic of the demo something belongs to; each has a port of its own at h2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The stream that is measured.
    Measured,
    /// The traffic beside it.
    Flood,
    /// What nobody sends, but somebody wants to reserve for.
    Second,
    /// What Boomerang reserves for while others share the link.
    ByBoomerang,
    /// What YESSIR does.
    ByYessir,
    /// What NSIS does.
    ByNsis,
}

impl Stream {
    /// Those that are sent, in the order of [`Stage::stop_traffic`].
    pub const SENT: [Stream; SENT] =
        [Stream::Measured, Stream::Flood, Stream::ByBoomerang, Stream::ByYessir, Stream::ByNsis];

    /// What it looks like.
    fn shape(self, plan: &Plan) -> Shape {
        match self {
            Stream::Measured | Stream::Second => plan.stream,
            Stream::Flood => plan.flood,
            Stream::ByBoomerang | Stream::ByYessir | Stream::ByNsis => plan.sharer,
        }
    }

    /// Destination port, and source port alike.
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

/// What came of asking for a reservation.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It stands on the whole path; so long did it take from the sender's call.
    InPlace(Duration),
    /// It was refused, by RSVP.
    Refused(Refusal),
    /// It was refused by another protocol; so much could be had.
    Offered(Rate),
}

/// When a daemon died, when the next one was ready, and when the reservation stood in it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revival {
    /// End of the first daemon.
    pub killed: Time,
    /// The second one serves its control socket.
    pub ready: Time,
    /// The reservation is in its state again.
    pub reformed: Time,
}

/// A network that can play the demo; see [`OnNamespaces`] and [`OnSimulator`].
pub trait Stage {
    /// Which kind of network it is.
    fn kind(&self) -> NetworkKind;
    /// The present, by its own clock.
    fn now(&self) -> Time;
    /// Lets time pass.
    fn wait(&mut self, how_long: Duration) -> Result<()>;
    /// Starts stream and flood.
    fn start_traffic(&mut self) -> Result<()>;
    /// Octets of the measured stream that have arrived so far.
    fn received_octets(&self) -> u64;
    /// Reserves from h1 to h2, by one of the protocols.
    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<Answer>;
    /// Releases what was reserved for a stream, at both ends.
    fn release(&mut self, stream: Stream) -> Result<()>;
    /// Kills the daemon of a node, starts another after `pause`, and waits until the reservation stands there again.
    fn revive(&mut self, node: &str, pause: Duration, within: Duration) -> Result<Revival>;
    /// Stops the daemon of a node.
    fn stop_daemon(&mut self, node: &str) -> Result<()>;
    /// Starts it again, and waits until it serves.
    fn start_daemon(&mut self, node: &str) -> Result<()>;
    /// Ends all traffic: what became of it, in the order of [`Stream::SENT`].
    fn stop_traffic(&mut self) -> Result<[Trace; SENT]>;
}

/// Somebody who wants to know how far the demo is.
pub trait Progress {
    /// A new part begins, in words, and takes about so many steps.
    fn begin(&mut self, what: &str, steps: u64);
    /// A step was done; the stream's present rate, bits per second.
    fn step(&mut self, stream_bps: u64);
    /// Something worth a line happened.
    fn note(&mut self, what: &str);
}

/// Plays the demo.
///
/// # Errors
/// The network could not do what the script asked for. A promise that did not hold is no error but in the report.
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
    let revival = if plan.kill { Some(revive(&mut player, plan)?) } else { None };
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
    let story = Story {
        start,
        spans: [before, during, after],
        others,
        shared,
        parts,
        sharers,
        setup,
        refusal,
        refused,
        revival,
        longest_refresh: plan.longest_refresh(),
        stream,
        flood,
    };
    Ok(story.report(network, plan))
}

/// From when until when, and how long the set-up took.
type Stay = ((Time, Time), Duration);

/// The stages of Boomerang, of YESSIR and of NSIS.
fn other_stages(player: &mut Player<'_>, plan: &Plan) -> Result<[Stay; 3]> {
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
) -> Result<Stay> {
    let setup = reserve(player, by, Stream::Measured, plan.stream.rate)?;
    player.pass(plan.settle, "queues settle")?;
    let span = player.span(plan.stage, what)?;
    player.arrive()?;
    player.stage.release(Stream::Measured)?;
    player.pass(plan.settle, "queues settle")?;
    Ok((span, setup))
}

/// The stage in which all share: its span, the set-up of the measured stream, and what each was refused.
fn share(player: &mut Player<'_>, plan: &Plan) -> Result<(Stay, Vec<Denial>)> {
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

/// What a YESSIR receiver's answer comes to: where hops have refused, the least that one of them could have given.
fn answered(answer: &earmark_yessir::Answer, setup: Duration) -> Answer {
    let available = answer.failures.iter().map(|note| note.available.0);
    match available.reduce(f32::min) {
        None => Answer::InPlace(setup),
        Some(least) => Answer::Offered(Rate::from_octets_per_second(least)),
    }
}

/// Asks for what fits: how long it took until it stood.
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

/// Asks for what does not fit; `None` where it was granted after all.
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

fn revive(player: &mut Player<'_>, plan: &Plan) -> Result<Revival> {
    player.progress.note(&format!("kill -9 of the daemon on {ROUTER}"));
    // Twice what is promised, so that a promise that is broken can be told from a state that never comes.
    let within = plan.longest_refresh() * 2;
    let revival = player.stage.revive(ROUTER, Duration::from_secs(1), within)?;
    player.progress.note(&format!(
        "a new daemon runs; {:.1} s later, with the first Path, the reservation stood in its state again",
        revival.reformed.since(revival.ready).as_secs_f64()
    ));
    Ok(revival)
}

/// The script's hands: lets time pass step by step and tells how it goes.
struct Player<'a> {
    stage: &'a mut dyn Stage,
    progress: &'a mut dyn Progress,
    received: u64,
}

impl Player<'_> {
    /// Time that belongs to no stage.
    fn pass(&mut self, how_long: Duration, what: &str) -> Result<()> {
        self.span(how_long, what).map(|_| ())
    }

    /// What left in the span that is over is on its way yet; it is to arrive by what was reserved for it.
    fn arrive(&mut self) -> Result<()> {
        self.pass(ARRIVAL, "the last packets arrive")
    }

    /// Time that is measured: from when until when.
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

    /// Nobody watches.
    struct Silent;

    impl Progress for Silent {
        fn begin(&mut self, _: &str, _: u64) {}
        fn step(&mut self, _: u64) {}
        fn note(&mut self, _: &str) {}
    }

    fn simulated(plan: &Plan, seed: u64) -> Report {
        let topology = Topology::parse(DEMO).unwrap();
        let mut stage = OnSimulator::new(topology, plan.clone(), seed);
        play(&mut stage, plan, &mut Silent).unwrap()
    }

    /// What the demo promises holds in the simulator, whatever the dice say.
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
        // With the first Path; in virtual time the machine takes none of its own.
        assert!(kill.reformed_ms <= plan.longest_refresh().as_secs_f64() * 1e3 + 20.0, "{kill:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_report() {
        let plan = Plan { stage: Duration::from_secs(2), ..Plan::default() };
        assert_eq!(simulated(&plan, 5), simulated(&plan, 5));
        assert_ne!(simulated(&plan, 5), simulated(&plan, 6));
    }

    /// A stream that wants more than there is has no first reservation, and the demo says so.
    #[test]
    fn a_refused_first_reservation_is_an_error() {
        let mut plan = Plan { stage: Duration::from_secs(1), ..Plan::default() };
        plan.stream.rate = Rate::from_mbps(9);
        let topology = Topology::parse(DEMO).unwrap();
        let mut stage = OnSimulator::new(topology, plan.clone(), 1);
        let error = play(&mut stage, &plan, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("admission control failure"), "{error}");
    }
}
