//! Progress of measurements on standard error, and their interruption by signals.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bench::Watcher;

/// Returns a flag that is set when a signal asks the program to end.
pub(super) fn interruption() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// A progress bar on a terminal; elsewhere a line for each step.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {elapsed}");
        Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// Hides the bar while `print` runs.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Watcher for Bar {
    fn begin(&self, what: &str, total: u64) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        }
        self.0.reset();
        self.0.set_length(total.max(1));
        self.0.set_message(what.to_owned());
    }

    fn reached(&self, count: u64) {
        self.0.set_position(count);
    }
}
