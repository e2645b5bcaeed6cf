//! Reports to the service manager by the protocol of `sd_notify(3)`: ready, reloading, stopping, a status line, and the watchdog.
//!
//! The event loop itself reports that it is alive, so that a loop that is stuck is noticed, whatever other threads do. Without
//! a service manager nothing is sent.

use std::time::Duration;

use earmark_core::Time;
use earmark_core::listing::{LinkRow, LinkState};
use sd_notify::NotifyState;
use tracing::warn;

use crate::config::ConfigError;

/// The service manager that has started the daemon, if any.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    /// Interval of reports to the watchdog: half of its timeout. `None` without a watchdog.
    interval: Option<Duration>,
    next_report: Time,
    /// Why the last reload has changed nothing.
    obstacle: Option<String>,
}

impl ServiceManager {
    /// Finds the service manager by the environment of the process.
    pub(crate) fn from_environment(now: Time) -> ServiceManager {
        let interval = sd_notify::watchdog_enabled().map(|timeout| timeout / 2);
        ServiceManager { interval, next_report: now, obstacle: None }
    }

    /// Reports that the daemon serves.
    pub(crate) fn ready(&self, links: impl Iterator<Item = LinkRow>) {
        notify(&[NotifyState::Ready, NotifyState::Status(&self.status(links))]);
    }

    /// Reports that the daemon reads its configuration again; [`ServiceManager::reloaded`] must follow.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(time) => notify(&[NotifyState::Reloading, time]),
            Err(error) => warn!(%error, "cannot read the clock for the service manager"),
        }
    }

    /// Reports the end of a reload.
    pub(crate) fn reloaded(
        &mut self,
        outcome: Result<(), ConfigError>,
        links: impl Iterator<Item = LinkRow>,
    ) {
        self.obstacle = outcome.err().map(|error| format!("{}: {}", error.place, error.message));
        self.ready(links);
    }

    /// Reports that the daemon ends.
    pub(crate) fn stopping(&self) {
        notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// Reports to the watchdog if it is time, with the status of the moment.
    pub(crate) fn keep_alive<L: Iterator<Item = LinkRow>>(
        &mut self,
        now: Time,
        links: impl FnOnce() -> L,
    ) {
        if let Some(interval) = self.interval
            && self.next_report <= now
        {
            self.next_report = now + interval;
            notify(&[NotifyState::Watchdog, NotifyState::Status(&self.status(links()))]);
        }
    }

    /// Time of the next report to the watchdog.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.interval.map(|_| self.next_report)
    }

    fn status(&self, links: impl Iterator<Item = LinkRow>) -> String {
        let (mut up, mut all, mut claims, mut adopted) = (0, 0, 0, 0);
        for link in links {
            all += 1;
            up += u32::from(link.state == LinkState::Up);
            claims += link.claims;
            adopted += link.adopted;
        }
        let summary =
            format!("{up} of {all} interfaces up, {claims} reservations, {adopted} adopted");
        match &self.obstacle {
            Some(obstacle) => format!("{summary}; not reloaded: {}", obstacle.replace('\n', " ")),
            None => summary,
        }
    }
}

/// Sends a report. One that cannot be sent is lost: a daemon that serves is worth more than its report.
fn notify(report: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(report) {
        warn!(%error, "cannot tell the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(interval: Option<Duration>) -> ServiceManager {
        ServiceManager { interval, next_report: Time::ZERO, obstacle: None }
    }

    #[test]
    fn watchdog_is_reported_to_once_in_an_interval() {
        let mut manager = manager(Some(Duration::from_secs(2)));
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut reports = Vec::new();
        for millis in [0, 1, 1_999, 2_000, 2_100, 9_000, 9_001] {
            manager.keep_alive(at(millis), || {
                reports.push(millis);
                std::iter::empty()
            });
        }
        assert_eq!(reports, [0, 2_000, 9_000]);
        assert_eq!(manager.next_deadline(), Some(at(11_000)));
    }

    #[test]
    fn without_watchdog_nothing_is_due() {
        let mut manager = manager(None);
        assert_eq!(manager.next_deadline(), None);
        manager.keep_alive(Time::MAX, || -> std::iter::Empty<LinkRow> { panic!("not due") });
    }

    #[test]
    fn failed_reload_stays_in_the_status() {
        let mut manager = manager(None);
        assert_eq!(
            manager.status(std::iter::empty()),
            "0 of 0 interfaces up, 0 reservations, 0 adopted"
        );
        manager.obstacle = Some("a.toml:3: one\nline".to_owned());
        let status = manager.status(std::iter::empty());
        assert!(status.ends_with("; not reloaded: a.toml:3: one line"), "{status}");
        manager.reloaded(Ok(()), std::iter::empty());
        assert!(!manager.status(std::iter::empty()).contains("reloaded"));
    }
}
