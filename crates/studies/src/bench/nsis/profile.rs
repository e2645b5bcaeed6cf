//! Profile of a GIST router's instructions by component, as in Table III of *Overhead and Performance Study of GIST*.
//!
//! This program runs itself under valgrind's tool callgrind, with three nodes without I/O in it
//! ([`engines`](super::engines)). Valgrind counts the turns of the middle node for one period of GIST in which
//! sessions exist and are pinged: transit messages, its refreshes, and its timers.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use super::super::Supervision;
pub use super::components::Component;
use super::components::components;
use super::engines::{COUNTED, Engines};
use crate::callgrind::{self, Costs, Directory, Running};

/// Timeout of valgrind.
const TIMEOUT: Duration = Duration::from_secs(1_800);

/// Result of the profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Number of sessions.
    pub sessions: u32,
    /// Total instructions.
    pub instructions: u64,
    /// Share of each component, 0 to 1, in the order of [`Component::ALL`].
    pub shares: Vec<(Component, f64)>,
}

/// Takes a profile with `sessions` sessions. Returns `None` if valgrind is not installed.
///
/// # Errors
/// Valgrind fails on this program or this machine; the measurement was interrupted.
pub fn measure(sessions: u32, supervision: &Supervision<'_>) -> Result<Option<Profile>> {
    let directory = Directory::new("turns")?;
    let file = directory.0.join("counts");
    let mut child = match start(sessions, &file) {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot start valgrind"),
    };
    let what = format!("GIST under valgrind, {sessions} sessions");
    let ended =
        supervision.await_all(&what, 1, TIMEOUT, || Ok(child.0.try_wait()?.is_some().into()))?;
    if !ended || !child.0.wait()?.success() {
        bail!("valgrind could not run this program with {sessions} sessions");
    }
    let text = fs::read_to_string(&file).context("valgrind has not counted")?;
    let profile = Profile::of(sessions, &text);
    ensure!(profile.instructions > 0, "valgrind counted no turn of the router");
    Ok(Some(profile))
}

/// Runs the counted turns; runs under valgrind.
pub fn take_counted_turns(sessions: u32) {
    Engines::with_sessions(sessions).count();
}

fn start(sessions: u32, file: &Path) -> std::io::Result<Running> {
    callgrind::command(COUNTED, file, &[])?
        .args(["counted-turns", "--sessions", &sessions.to_string()])
        .spawn()
        .map(Running)
}

impl Profile {
    fn of(sessions: u32, text: &str) -> Profile {
        let costs = Costs::parse(text);
        let taken = components(&costs);
        let all: u64 = costs.own.values().sum();
        let share = |component| {
            let part = taken.get(component).copied().unwrap_or_default();
            (*component, part / (all as f64).max(1.0))
        };
        Profile { sessions, instructions: all, shares: Component::ALL.iter().map(share).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_that_was_counted() {
        let text = "fl=(1) /x/crates/core/src/timer.rs\nfn=(1) earmark_core::timer::f\n1 25\n\
            fl=(2) /x/crates/nsis/src/gist/step.rs\nfn=(2) earmark_nsis::gist::step::g\n1 75\n";
        let profile = Profile::of(7, text);
        assert_eq!((profile.sessions, profile.instructions), (7, 100));
        assert!(profile.shares.contains(&(Component::Timers, 0.25)));
        assert!(profile.shares.contains(&(Component::Fsm, 0.75)));
        assert_eq!(profile.shares.iter().map(|(_, share)| share).sum::<f64>(), 1.0);
    }
}
