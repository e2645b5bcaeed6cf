//! A network as the demo uses it.

use std::time::Duration;

use anyhow::Result;
use earmark_core::{Rate, Time};
use earmark_scenario::topology::Topology;
use earmark_sim::Trace;
use serde::Serialize;

use super::plan::{SENT, Stream};
use super::protocol::{Protocol, Reply};

/// Kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    /// Network namespaces of this machine: real daemons, real traffic control, real packets.
    Netns,
    /// The simulator: the same engines, modelled links, virtual time.
    Simulated,
}

impl NetworkKind {
    /// Returns a description for tables.
    pub const fn describe(self) -> &'static str {
        match self {
            NetworkKind::Netns => "network namespaces on this machine",
            NetworkKind::Simulated => "simulated, in virtual time",
        }
    }
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

/// A network that can run the demo; see [`OnNamespaces`](super::OnNamespaces) and
/// [`OnSimulator`](super::OnSimulator).
pub trait DemoNetwork {
    /// Returns the kind of network.
    fn kind(&self) -> NetworkKind;
    /// Returns the topology.
    fn topology(&self) -> &Topology;
    /// Returns the current time of the network's clock.
    fn now(&self) -> Time;
    /// Lets time pass.
    fn wait(&mut self, how_long: Duration) -> Result<()>;
    /// Starts stream and flood.
    fn start_traffic(&mut self) -> Result<()>;
    /// Returns the octets of the measured stream that have arrived so far.
    fn received_octets(&self) -> u64;
    /// Requests a reservation from h1 to h2, by one of the protocols; returns the reply, and the time from the
    /// sender's request until it arrived.
    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<(Reply, Duration)>;
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

/// Ignores all progress.
#[cfg(test)]
pub(crate) struct Unwatched;

#[cfg(test)]
impl Progress for Unwatched {
    fn begin(&mut self, _: &str, _: u64) {}
    fn step(&mut self, _: u64) {}
    fn note(&mut self, _: &str) {}
}
