//! The second part of the demo: a host behind a firewall and a translator receives the stream that it has asked for, with its
//! bandwidth, and nothing else.
//!
//! ```text
//!   client --- inner --- nat --- wall --- server
//! ```
//!
//! A stream goes from the server to the external address of the client all the time, and a flood since the path is open. The
//! client exposes its port, the server opens the path, and reserves for it in a session that is bound to that of the path. Then
//! the client stops asking.

mod namespaces;
mod simulated;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use earmark_core::Time;
use earmark_sim::Trace;
use serde::Serialize;

use super::network::Progress;
use super::plan::Plan;

pub use namespaces::FirewallsOnNamespaces;
pub use simulated::FirewallsInSimulator;

/// Network of this part.
pub const TOPOLOGY: &str = include_str!("../../../../topologies/behind-firewalls.toml");
/// Port of the stream at both ends.
const PORT: u16 = 5_001;
/// Port to which the flood goes.
const FLOOD_PORT: u16 = 5_002;
/// Time until messages have gone along the path.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Loss above which the stream shows the need for a reservation.
const UNRESERVED_LOSS: f64 = 0.3;

/// What this part of the demo needs of a network.
pub trait FirewallNetwork {
    /// Returns the current time of the network's clock.
    fn now(&self) -> Time;
    /// Lets time pass.
    fn wait(&mut self, how_long: Duration) -> Result<()>;
    /// Exposes the port of the client; returns its external address and port.
    fn expose(&mut self) -> Result<SocketAddr>;
    /// Starts the stream from the server to the external address and port.
    fn start_stream(&mut self, external: SocketAddr, plan: &Plan) -> Result<()>;
    /// Starts the flood from the server to another port of the external address.
    fn start_flood(&mut self, external: SocketAddr, plan: &Plan) -> Result<()>;
    /// Opens the path of the stream.
    fn open(&mut self, external: SocketAddr) -> Result<()>;
    /// Reserves for the stream, bound to its path.
    fn reserve(&mut self, external: SocketAddr, plan: &Plan) -> Result<()>;
    /// Releases the port of the client.
    fn stop_asking(&mut self) -> Result<()>;
    /// Returns the number of reservations on all routers.
    fn reservations(&mut self) -> Result<usize>;
    /// Ends all traffic; returns the trace of the stream.
    fn stop_traffic(&mut self) -> Result<Trace>;
}

/// State of the path in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// The port is exposed, and the path is not open.
    Exposed,
    /// The path is open.
    Open,
    /// The path is open, and the bandwidth is reserved.
    Reserved,
    /// The client has stopped asking.
    Closed,
}

impl PathState {
    /// Returns the name of the stage.
    pub const fn name(self) -> &'static str {
        match self {
            PathState::Exposed => "exposed, not opened",
            PathState::Open => "opened",
            PathState::Reserved => "opened and reserved",
            PathState::Closed => "no longer asked for",
        }
    }
}

/// One stage. Rates count IP packet octets, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FirewallStage {
    /// State of the path.
    pub path: PathState,
    /// Offered rate of the stream.
    pub offered_bps: u64,
    /// Received rate of the stream.
    pub received_bps: u64,
    /// Share of its packets that did not arrive, 0 to 1.
    pub loss: f64,
    /// Reservations on all routers at the end of the stage.
    pub reservations: usize,
}

/// Runs this part of the demo.
///
/// # Errors
/// The network could not carry out the script.
pub fn run(
    network: &mut dyn FirewallNetwork,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Vec<FirewallStage>> {
    let external = network.expose()?;
    progress.note(&format!("the client is reached at {external}"));
    network.start_stream(external, plan)?;
    let mut spans = Vec::new();
    for path in [PathState::Exposed, PathState::Open, PathState::Reserved, PathState::Closed] {
        match path {
            PathState::Exposed => {}
            PathState::Open => {
                network.open(external)?;
                network.start_flood(external, plan)?;
            }
            PathState::Reserved => network.reserve(external, plan)?,
            PathState::Closed => network.stop_asking()?,
        }
        network.wait(plan.settle * 2)?;
        progress.begin(path.name(), 1);
        let from = network.now();
        network.wait(plan.stage / 2)?;
        progress.step(0);
        spans.push((path, from, network.now(), network.reservations()?));
        network.wait(plan.settle)?;
    }
    let stream = network.stop_traffic()?;
    let stage = |(path, from, until, reservations)| {
        let figures = stream.figures(from, until);
        let (offered_bps, received_bps) = (figures.offered_bps, figures.received_bps);
        FirewallStage { path, offered_bps, received_bps, loss: figures.loss, reservations }
    };
    Ok(spans.into_iter().map(stage).collect())
}

/// Returns a sentence for each promise that did not hold.
pub fn broken_promises(stages: &[FirewallStage]) -> Vec<String> {
    let broken = |stage: &FirewallStage| {
        let FirewallStage { path, loss, reservations, .. } = *stage;
        let loss_percent = loss * 100.0;
        match path {
            PathState::Exposed | PathState::Closed if loss < 1.0 => {
                Some(format!("through the firewalls came {:.2} %", 100.0 - loss_percent))
            }
            PathState::Open if loss <= UNRESERVED_LOSS => {
                Some(format!("the stream lost only {loss_percent:.1} %: the flood is too small"))
            }
            PathState::Reserved if loss > 0.0 => {
                Some(format!("the stream lost {loss_percent:.2} % although its rate was reserved"))
            }
            PathState::Closed if reservations > 0 => {
                Some(format!("{reservations} reservations are left"))
            }
            _ => None,
        }
    };
    let named = |stage| broken(stage).map(|why| format!("path {}: {why}", stage.path.name()));
    stages.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::super::network::Unwatched;
    use super::*;

    #[test]
    fn promises_hold_in_the_simulator() {
        for seed in 1..=3 {
            let plan = Plan::default();
            let mut network = FirewallsInSimulator::new(&plan, seed).unwrap();
            let stages = run(&mut network, &plan, &mut Unwatched).unwrap();
            assert_eq!(broken_promises(&stages), [""; 0], "{stages:?}");
            let states: Vec<usize> = stages.iter().map(|stage| stage.reservations).collect();
            assert_eq!(states, [0, 0, 3, 0], "inner, nat and wall reserve");
        }
    }

    /// Each promise can fail alone, and is then named.
    #[test]
    fn each_broken_promise_is_named() {
        let good = [
            (PathState::Exposed, 1.0),
            (PathState::Open, 0.5),
            (PathState::Reserved, 0.0),
            (PathState::Closed, 1.0),
        ];
        let stages = good.map(|(path, loss)| FirewallStage {
            path,
            offered_bps: 2_000_000,
            received_bps: 0,
            loss,
            reservations: 0,
        });
        assert_eq!(broken_promises(&stages), [""; 0]);
        let cases: [(usize, f64, usize, &str); 5] = [
            (0, 0.9, 0, "came 10.00 %"),
            (1, 0.3, 0, "too small"),
            (2, 0.001, 0, "although"),
            (3, 0.99, 0, "came 1.00 %"),
            (3, 1.0, 2, "2 reservations are left"),
        ];
        for (place, loss, reservations, reason) in cases {
            let mut stages = stages;
            (stages[place].loss, stages[place].reservations) = (loss, reservations);
            let broken = broken_promises(&stages);
            assert!(broken.len() == 1 && broken[0].contains(reason), "{broken:?}");
        }
    }
}
