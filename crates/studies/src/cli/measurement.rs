//! Frame of a command that measures: progress, interruption, results, and exit status.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use earmark_lab::testbed;
use serde::Serialize;

use super::BROKEN_PROMISE;
use super::progress::{Bar, interruption};
use crate::bench::Supervision;

/// A measurement in progress.
pub(super) struct Measurement {
    bar: Bar,
    interrupted: Arc<AtomicBool>,
    json: bool,
}

impl Measurement {
    /// Begins a measurement, whose results are shown as tables or as one JSON object.
    pub(super) fn begin(json: bool) -> Result<Measurement> {
        Ok(Measurement { bar: Bar::new(), interrupted: interruption()?, json })
    }

    /// Begins a measurement in network namespaces.
    ///
    /// # Errors
    /// Namespaces are unavailable; `what` is in the error.
    pub(super) fn in_namespaces(json: bool, what: &str) -> Result<Measurement> {
        match testbed::obstacle() {
            Some(obstacle) => bail!("{obstacle}; measuring {what} needs root"),
            None => Measurement::begin(json),
        }
    }

    pub(super) fn supervision(&self) -> Supervision<'_> {
        Supervision { watcher: &self.bar, interrupted: &self.interrupted }
    }

    /// Shows a part of the results as soon as it is complete, unless they are shown as JSON.
    pub(super) fn show(&self, text: impl FnOnce() -> String) {
        if !self.json {
            self.bar.suspend(|| println!("{}", text()));
        }
    }

    /// Ends the measurement: prints the results as JSON if requested, and the failure of a promise.
    pub(super) fn finish(
        self,
        results: &impl Serialize,
        broken: Option<String>,
    ) -> Result<ExitCode> {
        self.bar.finish();
        if self.json {
            println!("{}", serde_json::to_string(results)?);
        }
        match broken {
            None => Ok(ExitCode::SUCCESS),
            Some(broken) => {
                eprintln!("{broken}");
                Ok(ExitCode::from(BROKEN_PROMISE))
            }
        }
    }
}
