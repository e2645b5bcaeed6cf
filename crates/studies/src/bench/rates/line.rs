//! Network of a rate measurement: a sender, a router with a daemon, a destination; and the assignment of processors.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_control::Client;
use earmark_core::InterfaceId;
use earmark_linux::link;
use earmark_linux::netns::Namespace;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use super::super::network::{Network, Set};
use super::super::process::Sample;
use super::destination;
use super::message_writer::{MessageWriter, SESSIONS};
use super::nsis::VALIDITY;
use super::sender::{Sender, SharedState, StopOnDrop};
use crate::bench::router::Protocol;
use earmark_lab::testbed::Settings;

/// Index of the router.
const ROUTER: usize = 1;
/// Refresh period without a refresh during a load.
pub const NEVER: Duration = Duration::from_secs(300);
/// Settings that lift the limits on session changes a second.
const LIMITS: &str =
    "max_sessions = 4000000\nmax_per_source = 4000000\nchanges_per_second = 4000000000\n";

/// Settings that lift the limits of NSIS.
fn nsis_settings(refresh: Duration) -> String {
    format!(
        "refresh = \"{}ms\"\nvalidity = \"{}s\"\nmax_states = 4000000\nmax_states_per_peer = 4000000\n\
         queries_per_second = 4000000000\nmax_sessions = 4000000\nmax_sessions_per_peer = 4000000\n\
         changes_per_second = 4000000000\n",
        refresh.as_millis(),
        VALIDITY.as_secs()
    )
}

earmark_core::named_enum! {
    /// Assignment of processors.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Processors {
        /// Daemon and both ends share one.
        One = "one",
        /// The daemon has one, both ends share another.
        Two = "two",
    }
}

impl Processors {
    /// Returns the assignments that are possible on this machine.
    pub fn available() -> Vec<Processors> {
        match allowed() {
            Ok(processors) if processors.len() > 1 => vec![Processors::Two, Processors::One],
            _ => vec![Processors::One],
        }
    }

    /// Returns the processor of the daemon and that of the ends.
    fn places(self) -> Result<[usize; 2]> {
        let allowed = allowed()?;
        let first = *allowed.first().context("this program may run nowhere")?;
        match self {
            Processors::One => Ok([first, first]),
            Processors::Two => {
                let second = *allowed.get(1).context("there is one processor only")?;
                Ok([second, first])
            }
        }
    }
}

/// Returns the processors that this thread may run on.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask on which processors this may run")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}

/// Binds a process, or this thread (`None`), to one processor.
fn put(process: Option<Pid>, processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(process, &set)
        .with_context(|| format!("cannot run anything on processor {processor}"))
}

/// A running network. Dropping the value removes it.
pub struct Line {
    network: Network,
    writer: MessageWriter,
}

impl Line {
    /// Builds a network of this very program, for a protocol whose sessions are refreshed every `refresh`, in whole
    /// seconds.
    ///
    /// # Errors
    /// The protocol does not reserve; namespaces are unavailable; the daemon does not start.
    pub fn up(protocol: Protocol, refresh: Duration) -> Result<Line> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Line::of(program, protocol, refresh, String::new())
    }

    /// Builds a network of a program that runs `earmark-studies`, whose daemon has further tables in its configuration.
    ///
    /// # Errors
    /// The errors of [`Line::up`].
    pub fn of(
        program: PathBuf,
        protocol: Protocol,
        refresh: Duration,
        tables: String,
    ) -> Result<Line> {
        ensure!(protocol.reserves(), "{}: rates are those of reservations", protocol.name());
        let interface =
            format!("queues = \"none\"\nprotocols = [\"{}\"]\n", protocol.name_in_settings());
        let settings = Settings {
            protocols: [
                ("boomerang", LIMITS.to_owned()),
                ("yessir", LIMITS.to_owned()),
                ("nsis", nsis_settings(refresh)),
            ]
            .into(),
            interface,
            tables,
            ..Settings::default()
        };
        let set = Set { routers: 1, refresh, reduction: false, settings };
        let network = Network::of(program, &set, SESSIONS)?;
        let sessions = network.sessions(SESSIONS, refresh)?;
        let (to, router) = (network.destination()?, network.first_router()?);
        let writer = MessageWriter { protocol, sessions, to, router };
        Ok(Line { network, writer })
    }

    /// Binds the daemon to its processor.
    ///
    /// # Errors
    /// The machine has fewer processors, or the daemon has ended.
    pub fn pin(&self, processors: Processors) -> Result<()> {
        let [place, _] = processors.places()?;
        let process = i32::try_from(self.network.process(ROUTER)?).ok().and_then(Pid::from_raw);
        put(Some(process.context("a daemon without a number")?), place)
    }

    /// Runs a function on a thread at the sender, while the other end answers.
    ///
    /// # Errors
    /// An end cannot open its sockets, or the function fails.
    pub fn with_ends<T: Send>(
        &self,
        processors: Processors,
        work: impl FnOnce(&mut Sender<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let [_, place] = processors.places()?;
        let shared = &SharedState::default();
        let [source, destination] = self.network.ends();
        std::thread::scope(|scope| {
            let responder = scope.spawn(move || -> Result<()> {
                let interface = interface(destination)?;
                destination.run_in(|| {
                    put(None, place)?;
                    destination::answer(&self.writer, interface, shared)
                })?
            });
            let ending = StopOnDrop(shared);
            let outcome = interface(source).and_then(|interface| {
                source.run_in(|| {
                    put(None, place)?;
                    shared.await_listener()?;
                    work(&mut Sender::open(&self.writer, interface, shared)?)
                })?
            });
            drop(ending);
            let answered = responder.join().expect("nothing there panics");
            // An error of the other end explains a failure here, so it comes first.
            answered.and(outcome)
        })
    }

    /// Samples the resource use of the daemon.
    ///
    /// # Errors
    /// The daemon has ended.
    pub fn sample(&self) -> Result<Sample> {
        self.network.sample(ROUTER)
    }

    /// Returns the number of reservations that the daemon holds, on all links.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn claims(&self) -> Result<u32> {
        let links = self.network.client(ROUTER)?.show_links()?.rows;
        Ok(links.iter().map(|link| link.claims).sum())
    }

    /// Connects to the control socket of the daemon.
    ///
    /// # Errors
    /// The daemon does not serve clients.
    pub fn client(&self) -> Result<Client> {
        self.network.client(ROUTER)
    }

    /// Namespace of the router.
    pub fn router(&self) -> &Namespace {
        self.network.router(ROUTER)
    }

    /// Returns the number of messages that the daemon's sockets have lost so far.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn lost(&self) -> Result<u64> {
        self.network.lost_in_routers()
    }
}

/// Returns the one interface of an end.
fn interface(end: &Namespace) -> Result<InterfaceId> {
    link::index(end, "eth0")?.context("an end without a link")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_available_and_distinct() {
        let available = Processors::available();
        assert!(available.contains(&Processors::One));
        let [daemon, ends] = Processors::One.places().unwrap();
        assert_eq!(daemon, ends);
        if available.contains(&Processors::Two) {
            let [daemon, ends] = Processors::Two.places().unwrap();
            assert_ne!(daemon, ends);
        }
    }
}
