//! What is known about a router over time: its state, its latest metrics, and a short history of its links.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use jiff::Timestamp;

use crate::metrics::{Metrics, slow_turns};
use crate::scrape::ScrapeError;

/// Samples that are kept of each link.
pub const SAMPLES: usize = 60;

/// Whether a router is reachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// No scrape has ended yet.
    Pending,
    /// The last scrape succeeded.
    Reachable,
    /// The last scrape failed, for this reason.
    Unreachable(String),
}

/// A sample of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSample {
    /// Time of the scrape.
    pub at: Timestamp,
    /// Reserved rate, bit/s; `None` if the scrape has failed.
    pub reserved_bps: Option<f64>,
    /// Rate that the reservations have sent since the scrape before, bit/s; `None` without a scrape before or a counter.
    pub used_bps: Option<f64>,
}

/// The latest successful scrape of a router, and what has changed since the one before.
#[derive(Clone, Debug)]
pub struct Latest {
    /// Wall-clock time.
    pub at: Timestamp,
    /// Time for the difference to the next scrape.
    instant: Instant,
    /// The metrics.
    pub metrics: Metrics,
    /// Refusals per minute.
    pub refusals_per_minute: Option<f64>,
    /// Dropped messages per minute.
    pub drops_per_minute: Option<f64>,
    /// Upper bound of 99 of 100 turns of the event loop, seconds.
    pub slow_turns_s: Option<f64>,
}

/// What is known about a router.
#[derive(Clone, Debug)]
pub struct RouterState {
    /// Whether the router is reachable.
    pub reachability: Reachability,
    /// Time of the last change between reachable and unreachable.
    pub since: Timestamp,
    /// The latest successful scrape.
    pub latest: Option<Latest>,
    /// History of the links, by their names.
    pub history: BTreeMap<String, VecDeque<LinkSample>>,
}

impl RouterState {
    /// Creates the state of a router that was not scraped yet.
    pub fn new(now: Timestamp) -> RouterState {
        let reachability = Reachability::Pending;
        RouterState { reachability, since: now, latest: None, history: BTreeMap::new() }
    }

    /// Takes over the result of a scrape. Returns whether the router has become reachable or unreachable by it.
    pub fn note(
        &mut self,
        result: Result<Metrics, ScrapeError>,
        now: Timestamp,
        instant: Instant,
    ) -> bool {
        let reachability = match result {
            Ok(metrics) => {
                self.note_metrics(metrics, now, instant);
                Reachability::Reachable
            }
            Err(error) => {
                let text = earmark_control::command::with_cause(&error);
                // Rates are between two scrapes that follow each other.
                if let Some(latest) = &mut self.latest {
                    (latest.refusals_per_minute, latest.drops_per_minute) = (None, None);
                    latest.slow_turns_s = None;
                }
                // Interrupts the lines.
                for samples in self.history.values_mut() {
                    push(samples, LinkSample { at: now, reserved_bps: None, used_bps: None });
                }
                Reachability::Unreachable(text)
            }
        };
        let kind = |reachability: &Reachability| std::mem::discriminant(reachability);
        let has_changed = kind(&reachability) != kind(&self.reachability);
        if has_changed {
            self.since = now;
        }
        self.reachability = reachability;
        has_changed
    }

    fn note_metrics(&mut self, metrics: Metrics, now: Timestamp, instant: Instant) {
        let before = self.latest.take();
        let seconds = before
            .as_ref()
            .map(|before| instant.saturating_duration_since(before.instant).as_secs_f64())
            .filter(|seconds| *seconds > 0.0);
        // A counter that has become smaller began again with the daemon.
        let rate = |earlier: f64, later: f64| {
            seconds.filter(|_| later >= earlier).map(|seconds| (later - earlier) / seconds)
        };
        let before = before.map(|before| before.metrics);
        let per_minute = |of: fn(&Metrics) -> f64| {
            before.as_ref().and_then(|before| Some(rate(of(before), of(&metrics))? * 60.0))
        };
        let refusals_per_minute = per_minute(|metrics| metrics.refused);
        let drops_per_minute = per_minute(|metrics| metrics.dropped);
        let slow_turns_s =
            before.as_ref().and_then(|before| slow_turns(&before.turns, &metrics.turns));
        self.history.retain(|name, _| metrics.links.contains_key(name));
        for (name, link) in &metrics.links {
            let earlier = before.as_ref().and_then(|before| before.links.get(name)?.sent_octets);
            let used = earlier.zip(link.sent_octets);
            let used_bps = used.and_then(|(earlier, later)| Some(rate(earlier, later)? * 8.0));
            let samples = self.history.entry(name.clone()).or_default();
            push(samples, LinkSample { at: now, reserved_bps: link.reserved_bps, used_bps });
        }
        self.latest = Some(Latest {
            at: now,
            instant,
            metrics,
            refusals_per_minute,
            drops_per_minute,
            slow_turns_s,
        });
    }
}

/// Appends a sample, and removes the oldest one if there are too many.
fn push(samples: &mut VecDeque<LinkSample>, sample: LinkSample) {
    if samples.len() == SAMPLES {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::LinkMetrics;

    fn metrics(link: &str, sent: f64, refused: f64) -> Metrics {
        let link_metrics = LinkMetrics {
            reserved_bps: Some(1e6),
            sent_octets: Some(sent),
            ..LinkMetrics::default()
        };
        Metrics { links: [(link.to_owned(), link_metrics)].into(), refused, ..Metrics::default() }
    }

    #[test]
    fn rates_are_between_two_scrapes() {
        let (now, begin) = (Timestamp::UNIX_EPOCH, Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut state = RouterState::new(now);
        assert!(state.note(Ok(metrics("e", 0.0, 0.0)), now, at(0)));
        assert_eq!(state.latest.as_ref().expect("latest").refusals_per_minute, None);
        assert!(!state.note(Ok(metrics("e", 1_000.0, 5.0)), now, at(10)));
        let latest = state.latest.as_ref().expect("latest");
        assert_eq!(latest.refusals_per_minute, Some(30.0));
        let used: Vec<_> = state.history["e"].iter().map(|sample| sample.used_bps).collect();
        assert_eq!(used, [None, Some(800.0)]);

        // The daemon starts again: its counters are smaller, and no rate is known.
        state.note(Ok(metrics("e", 10.0, 0.0)), now, at(20));
        assert_eq!(state.latest.as_ref().expect("latest").refusals_per_minute, None);
        assert_eq!(state.history["e"].back().expect("a sample").used_bps, None);
    }

    #[test]
    fn failure_keeps_metrics_and_has_its_first_time() {
        let time = |second| Timestamp::from_second(second).expect("a time");
        let begin = Instant::now();
        let mut state = RouterState::new(time(0));
        state.note(Ok(metrics("e", 0.0, 0.0)), time(1), begin);
        let failure = || Err(ScrapeError::OtherProgram);
        assert!(state.note(failure(), time(2), begin));
        assert!(!state.note(failure(), time(3), begin));
        assert_eq!(state.since, time(2));
        assert!(
            matches!(&state.reachability, Reachability::Unreachable(text) if text.contains("earmark_build_info"))
        );
        assert_eq!(state.latest.as_ref().expect("latest").at, time(1));
        let reserved: Vec<_> =
            state.history["e"].iter().map(|sample| sample.reserved_bps).collect();
        assert_eq!(reserved, [Some(1e6), None, None]);
        assert!(state.note(Ok(metrics("e", 0.0, 0.0)), time(4), begin));
        assert_eq!(state.since, time(4));
    }

    #[test]
    fn history_is_bounded_and_follows_the_links() {
        let (now, begin) = (Timestamp::UNIX_EPOCH, Instant::now());
        let mut state = RouterState::new(now);
        for number in 0..100_u32 {
            state.note(Ok(metrics("e", f64::from(number), 0.0)), now, begin);
        }
        assert_eq!(state.history["e"].len(), SAMPLES);
        state.note(Ok(metrics("f", 0.0, 0.0)), now, begin);
        assert_eq!(state.history.keys().collect::<Vec<_>>(), ["f"]);
    }
}
