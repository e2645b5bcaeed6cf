//! The network of a measurement of rates: a sender, a router with a daemon, a destination; and who runs on which processor.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use earmark_core::InterfaceId;
use earmark_linux::link;
use earmark_linux::netns::Namespace;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use super::super::network::{Network, Set};
use super::super::process::Sample;
use super::destination;
use super::ends::{Ending, Sender, Shared};
use super::nsis::VALIDITY;
use super::speaker::{Protocol, SESSIONS, Speaker};
use crate::testbed::Settings;

/// The router.
const ROUTER: usize = 1;
/// A refresh period in which nobody refreshes anything while a load is tried.
pub const NEVER: Duration = Duration::from_secs(300);
/// Nobody is kept from changing many sessions a second.
const LIMITS: &str =
    "max_sessions = 4000000\nmax_per_source = 4000000\nchanges_per_second = 4000000000\n";

/// Likewise with NSIS.
fn nsis_settings(refresh: Duration) -> String {
    format!(
        "refresh = \"{}ms\"\nvalidity = \"{}s\"\nmax_states = 4000000\nmax_states_per_peer = 4000000\n\
         queries_per_second = 4000000000\nmax_sessions = 4000000\nmax_sessions_per_peer = 4000000\n\
         changes_per_second = 4000000000\n",
        refresh.as_millis(),
        VALIDITY.as_secs()
    )
}

/// Who runs on which processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Processors {
    /// Daemon and both ends share one.
    One,
    /// The daemon has one, both ends share another.
    Two,
}

impl Processors {
    /// Those that are to be had on this machine.
    pub fn available() -> Vec<Processors> {
        match allowed() {
            Ok(processors) if processors.len() > 1 => vec![Processors::Two, Processors::One],
            _ => vec![Processors::One],
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Processors::One => "one",
            Processors::Two => "two",
        }
    }

    /// That of the daemon, and that of the ends.
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

/// The processors that this thread may run on.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask on which processors this may run")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}

/// Puts a process, or this thread, on one processor.
fn put(process: Option<Pid>, processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(process, &set)
        .with_context(|| format!("cannot run anything on processor {processor}"))
}

/// A network that is up. It goes down when it is dropped.
pub struct Line {
    network: Network,
    speaker: Speaker,
}

impl Line {
    /// Builds one of this very program, for a protocol whose sessions are refreshed so often: whole seconds.
    ///
    /// # Errors
    /// Namespaces are not to be had; the daemon does not start.
    pub fn up(protocol: Protocol, refresh: Duration) -> Result<Line> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Line::of(program, protocol, refresh)
    }

    /// Likewise, for another program that runs `earmark-lab`.
    ///
    /// # Errors
    /// As of [`Line::up`].
    pub fn of(program: PathBuf, protocol: Protocol, refresh: Duration) -> Result<Line> {
        let interface =
            format!("queues = \"none\"\nprotocols = [\"{}\"]\n", protocol.name_in_settings());
        let settings = Settings {
            boomerang: LIMITS.to_owned(),
            yessir: LIMITS.to_owned(),
            nsis: nsis_settings(refresh),
            interface,
            ..Settings::default()
        };
        let set = Set { routers: 1, refresh, reduction: false, settings };
        let network = Network::of(program, &set, SESSIONS)?;
        let sessions = network.sessions(SESSIONS, refresh)?;
        let (to, router) = (network.destination()?, network.first_router()?);
        let speaker = Speaker { protocol, sessions, to, router };
        Ok(Line { network, speaker })
    }

    /// Puts the daemon where it belongs.
    ///
    /// # Errors
    /// The machine has fewer processors, or the daemon has ended.
    pub fn pin(&self, processors: Processors) -> Result<()> {
        let [place, _] = processors.places()?;
        let process = i32::try_from(self.network.process(ROUTER)?).ok().and_then(Pid::from_raw);
        put(Some(process.context("a daemon without a number")?), place)
    }

    /// Does something on a thread at the sender, while the other end answers.
    ///
    /// # Errors
    /// An end cannot open its sockets, or what is to be done fails.
    pub fn with_ends<T: Send>(
        &self,
        processors: Processors,
        work: impl FnOnce(&mut Sender<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let [_, place] = processors.places()?;
        let shared = &Shared::default();
        let [source, destination] = self.network.ends();
        std::thread::scope(|scope| {
            let answering = scope.spawn(move || -> Result<()> {
                let interface = interface(destination)?;
                destination.run_in(|| {
                    put(None, place)?;
                    destination::answer(&self.speaker, interface, shared)
                })?
            });
            let ending = Ending(shared);
            let outcome = interface(source).and_then(|interface| {
                source.run_in(|| {
                    put(None, place)?;
                    shared.await_listener()?;
                    work(&mut Sender::open(&self.speaker, interface, shared)?)
                })?
            });
            drop(ending);
            let answered = answering.join().expect("nothing there panics");
            // Why the other end failed is why nothing came through.
            answered.and(outcome)
        })
    }

    /// What the daemon has cost so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn sample(&self) -> Result<Sample> {
        self.network.sample(ROUTER)
    }

    /// Reservations that the daemon holds, on all links.
    ///
    /// # Errors
    /// It does not answer.
    pub fn claims(&self) -> Result<u32> {
        let links = self.network.client(ROUTER)?.show_links()?.rows;
        Ok(links.iter().map(|link| link.claims).sum())
    }

    /// Messages that the daemon's sockets have lost so far.
    ///
    /// # Errors
    /// It does not answer.
    pub fn lost(&self) -> Result<u64> {
        self.network.lost_in_routers()
    }
}

/// The one interface of an end.
fn interface(end: &Namespace) -> Result<InterfaceId> {
    link::index(end, "eth0")?.context("an end without a link")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_processor_and_nobody_gets_two_of_one() {
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
