//! The demo: a stream beside a flood, without and with a reservation, on any network that implements the
//! [`DemoNetwork`] trait.
//!
//! Four nodes in a row, h1 - r1 - r2 - h2, with 10 Mbit/s between the routers. A stream of 2 Mbit/s and a flood of
//! 20 Mbit/s go from h1 to h2 all the time. The script, the same for namespaces and for the simulator:
//!
//! 1. Nothing is reserved; the stream loses packets like the flood.
//! 2. The first of the [protocols](crate::protocols) reserves the stream's 2 Mbit/s. In the middle of it a second
//!    request for 8 Mbit/s does not fit and is refused; optionally, the daemon of r1 is killed and restarted. Neither
//!    may affect the stream, and the new daemon must restore the reservation with the first Path, within one refresh
//!    interval.
//! 3. The reservation is released, and the stream loses packets again.
//! 4. Each of the other protocols reserves the same, one after the other. The daemon of h2 is stopped for a protocol
//!    that needs none there.
//! 5. The first protocol reserves for the stream, and each of the others for a stream of 1 Mbit/s. Then each requests
//!    5 Mbit/s more; no more than 2.5 are left, so all must be refused, and no stream may be affected.
//!
//! A [second part](firewalls), on a network of its own, shows a reservation behind firewalls and a translator.
//!
//! Between stages the network gets a moment to settle, which belongs to no stage: queues fill or empty.

pub mod firewalls;
mod namespaces;
mod network;
mod plan;
pub(crate) mod protocol;
mod raw_results;
mod report;
mod simulated;
mod stage;

use std::time::Duration;

use anyhow::{Result, bail};
use earmark_core::Rate;

pub use namespaces::OnNamespaces;
#[cfg(test)]
pub(crate) use network::Unwatched;
pub use network::{DaemonRestart, DemoNetwork, NetworkKind, Progress};
pub use plan::{BIN, Plan, ROUTER, Stream};
pub use protocol::{Protocol, Reply};
use raw_results::{MeasuredStage, RawResults};
pub use report::{Denial, KillResult, Mark, Part, Refusal, Report, Series, Span, Timeline};
pub use simulated::OnSimulator;
pub use stage::{Reserver, StageResult};

use crate::protocols::PROTOCOLS;

/// Timeout until a reservation is in place or refused.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time in which a packet of a reserved stream arrives.
const ARRIVAL: Duration = Duration::from_millis(50);
/// Node that needs no daemon of its own for some protocols.
const FAR_END: &str = "h2";

/// Runs the demo.
///
/// # Errors
/// The network could not carry out the script. A promise that did not hold is not an error but part of the report.
pub fn run(
    network: &mut dyn DemoNetwork,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let (kind, start) = (network.kind(), network.now());
    network.start_traffic()?;
    let mut runner = Runner { network, progress, received: 0 };
    let [first, others @ ..] = PROTOCOLS;
    runner.span(plan.settle, "traffic starts")?;
    let mut stages = vec![runner.unreserved(plan, "nothing reserved")?];

    let setup = runner.reserve(first, Stream::Measured, plan.stream.rate)?;
    runner.span(plan.settle, "queues settle")?;
    let mut restart = None;
    let (mut refusal, mut refused) = (None, start);
    let stage = runner.stage(first.stage(), Reserver::Protocol(first), setup, |runner| {
        runner.span(plan.stage / 2, first.stage())?;
        refusal = runner.refuse(first, plan)?;
        refused = runner.network.now();
        restart = plan.kill.then(|| runner.restart_daemon(plan)).transpose()?;
        runner.span(plan.stage / 2, first.stage())
    })?;
    stages.push(stage);
    runner.arrive()?;
    runner.network.release(Stream::Measured)?;
    runner.progress.note("released");
    runner.span(plan.settle, "queues settle")?;
    stages.push(runner.unreserved(plan, "released")?);

    for protocol in others {
        stages.push(runner.other_stage(plan, protocol)?);
    }
    let (shared, denials) = runner.shared_stage(plan)?;
    stages.push(shared);
    let [stream, flood, sharers @ ..] = runner.network.stop_traffic()?;
    let refused_until = stage.until;
    let raw_results = RawResults {
        start,
        stages,
        denials,
        refusal,
        refused,
        refused_until,
        restart,
        stream,
        flood,
        sharers,
    };
    Ok(raw_results.report(kind, plan))
}

/// Runs the steps of the script with time and progress.
struct Runner<'a> {
    network: &'a mut dyn DemoNetwork,
    progress: &'a mut dyn Progress,
    received: u64,
}

impl Runner<'_> {
    /// Runs a stage: its begin and end are those of `steps`.
    fn stage(
        &mut self,
        name: &'static str,
        reserver: Reserver,
        setup: impl Into<Option<Duration>>,
        steps: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<MeasuredStage> {
        let from = self.network.now();
        steps(self)?;
        let until = self.network.now();
        Ok(MeasuredStage { name, reserver, from, until, setup: setup.into() })
    }

    /// Runs a stage without reservation.
    fn unreserved(&mut self, plan: &Plan, name: &'static str) -> Result<MeasuredStage> {
        self.stage(name, Reserver::Nothing, None, |runner| runner.span(plan.stage, name))
    }

    /// Runs the stage of a protocol after the first.
    fn other_stage(&mut self, plan: &Plan, by: Protocol) -> Result<MeasuredStage> {
        if !by.needs_receiver() {
            self.network.stop_daemon(FAR_END)?;
            self.progress.note(&format!("{FAR_END} has no daemon now: its kernel answers pings"));
        }
        let setup = self.reserve(by, Stream::Measured, plan.stream.rate)?;
        self.span(plan.settle, "queues settle")?;
        let name = by.stage();
        let stage = self
            .stage(name, Reserver::Protocol(by), setup, |runner| runner.span(plan.stage, name))?;
        self.arrive()?;
        self.network.release(Stream::Measured)?;
        self.span(plan.settle, "queues settle")?;
        if !by.needs_receiver() {
            self.network.start_daemon(FAR_END)?;
        }
        Ok(stage)
    }

    /// Runs the stage with all protocols; returns each refusal of a further request, too.
    fn shared_stage(&mut self, plan: &Plan) -> Result<(MeasuredStage, Vec<Denial>)> {
        let streams = || {
            (0..).map(|index| match index {
                0 => Stream::Measured,
                index => Stream::Sharer(index),
            })
        };
        let mut setups = Vec::new();
        for (by, stream) in PROTOCOLS.into_iter().zip(streams()) {
            setups.push(self.reserve(by, stream, stream.shape(plan).rate)?);
        }
        self.span(plan.settle, "queues settle")?;
        let mut denials = Vec::new();
        let name = "shared by all";
        let stage = self.stage(name, Reserver::All, setups[0], |runner| {
            runner.span(plan.stage / 2, name)?;
            for protocol in PROTOCOLS {
                let available_bps = match runner.request(protocol, Stream::Second, plan.too_much)? {
                    (Reply::InPlace, _) => None,
                    (Reply::Refused(_), _) => Some(None),
                    (Reply::Offered(rate), _) => Some(Some(rate.as_bps())),
                };
                let requested_bps = plan.too_much.as_bps();
                denials.extend(available_bps.map(|available_bps| Denial {
                    protocol,
                    requested_bps,
                    available_bps,
                }));
                runner.network.release(Stream::Second)?;
            }
            let many = denials.len();
            let note = format!("{} more: refused to {many} of four protocols", plan.too_much);
            runner.progress.note(&note);
            runner.span(plan.stage / 2, name)
        })?;
        self.arrive()?;
        for stream in streams().take(PROTOCOLS.len()) {
            self.network.release(stream)?;
        }
        Ok((stage, denials))
    }

    fn request(&mut self, by: Protocol, stream: Stream, rate: Rate) -> Result<(Reply, Duration)> {
        self.network.reserve(by, stream, rate, ANSWER_WITHIN)
    }

    /// Requests a rate that fits; returns the time until the reservation was in place.
    fn reserve(&mut self, by: Protocol, stream: Stream, rate: Rate) -> Result<Duration> {
        match self.request(by, stream, rate)? {
            (Reply::InPlace, setup) => {
                let millis = setup.as_secs_f64() * 1e3;
                let name = by.name();
                self.progress.note(&format!("{rate} reserved by {name} in {millis:.1} ms"));
                Ok(setup)
            }
            (Reply::Refused(error), _) => {
                let refusal = Refusal::new(rate, error, self.network.topology());
                bail!("the first reservation was refused: {refusal}")
            }
            (Reply::Offered(rate), _) => bail!("{} could have {rate} only", by.name()),
        }
    }

    /// Requests a rate that does not fit; returns `None` if it was granted.
    fn refuse(&mut self, by: Protocol, plan: &Plan) -> Result<Option<Refusal>> {
        let refusal = match self.request(by, Stream::Second, plan.second)? {
            (Reply::Refused(error), _) => {
                let refusal = Refusal::new(plan.second, error, self.network.topology());
                self.progress.note(&format!("a second reservation: {refusal}"));
                Some(refusal)
            }
            (Reply::InPlace | Reply::Offered(_), _) => None,
        };
        self.network.release(Stream::Second)?;
        Ok(refusal)
    }

    fn restart_daemon(&mut self, plan: &Plan) -> Result<DaemonRestart> {
        self.progress.note(&format!("kill -9 of the daemon on {ROUTER}"));
        // Twice the promised time distinguishes a late restoration from none.
        let within = plan.longest_refresh() * 2;
        let restart = self.network.restart_daemon(ROUTER, Duration::from_secs(1), within)?;
        self.progress.note(&format!(
            "a new daemon runs; {:.1} s later, the first Path has restored the reservation",
            restart.reformed.since(restart.ready).as_secs_f64()
        ));
        Ok(restart)
    }

    /// Waits for packets in flight: those sent in the previous span must arrive under its reservation.
    fn arrive(&mut self) -> Result<()> {
        self.span(ARRIVAL, "the last packets arrive")
    }

    /// Lets time pass, with progress.
    fn span(&mut self, how_long: Duration, what: &str) -> Result<()> {
        let steps = how_long.as_nanos().div_ceil(BIN.as_nanos());
        self.progress.begin(what, u64::try_from(steps)?);
        let end = self.network.now() + how_long;
        while self.network.now() < end {
            let began = self.network.now();
            self.network.wait(end.since(began).min(BIN))?;
            let received = self.network.received_octets();
            let (octets, passed) = (received - self.received, self.network.now().since(began));
            self.received = received;
            self.progress.step((octets as f64 * 8.0 / passed.as_secs_f64().max(1e-3)) as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use earmark_scenario::topology::{DEMO, Topology};

    fn simulated(plan: &Plan, seed: u64) -> Report {
        let topology = Topology::parse(DEMO).unwrap();
        let mut network = OnSimulator::new(topology, plan.clone(), seed);
        run(&mut network, plan, &mut Unwatched).unwrap()
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
        let mut network = OnSimulator::new(topology, plan.clone(), 1);
        let error = run(&mut network, &plan, &mut Unwatched).unwrap_err();
        assert!(error.to_string().contains("admission control failure"), "{error}");
    }
}
