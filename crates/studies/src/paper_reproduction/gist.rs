//! Section on GIST: the figures of *Overhead and Performance Study of GIST*.
//!
//! - [`octets`]: octets of messages (Table I, Figure 5).
//! - [`components`]: instructions of a router by component (Table III).
//! - [`sessions`]: sessions between two nodes, and RSVP's beside them (Figures 8 to 10).
//! - [`transit_time`]: time that messages stay in a router between two senders.
//! - [`refresh_interval`]: cost of GIST's refresh interval (Table II).
//!
//! Measurements on networks run in rounds, each of which covers every level, load and interval with daemons of its
//! own, so that the spread between rounds includes that between reports. A full report measures the published numbers
//! of sessions with the published periods, once; a quick one measures fewer sessions several times, and compares them
//! with nothing ([`scaling`]).

mod components;
mod octets;
mod refresh_interval;
mod scaling;
mod sessions;
mod transit_time;

use std::time::Duration;

use anyhow::Result;

use super::PartOptions;
use super::repeated::run_rounds;
use super::section::Section;
use crate::bench::Supervision;
use refresh_interval::RefreshInterval;
use sessions::Sessions;
use transit_time::TransitTime;

/// Keys of figures that need network namespaces.
const OF_NETWORKS: [&str; 13] = [
    "gist.sessions_effective",
    "gist.sessions_max",
    "gist.memory_per_session_kb",
    "gist.gist_data_processing_ms_20000",
    "gist.gist_query_processing_ms_20000",
    "gist.gist_query_processing_ms_60000",
    "gist.gist_data_processing_ms_60000",
    "gist.rtt_ms_below_50000",
    "gist.rtt_ms_55000",
    "gist.rtt_s_60000",
    "gist.setup_ms_ma_reused",
    "gist.cpu_pct_60000",
    "gist.table2_refresh_cpu.cpu_pct",
];

/// Counts and measures the figures.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let mut section = Section::default();
    section.append(octets::measure());
    section.append(components::measure(order, supervision)?);
    if let Some(obstacle) = &order.obstacle {
        section.heading("Sessions, and the time of messages");
        section.text(format!(
            "Not measured here: {obstacle}. As root the same command measures them."
        ));
        OF_NETWORKS.iter().for_each(|key| section.leave_out(*key, obstacle.as_str()));
        return Ok(section);
    }
    let rounds = if order.quick { 3 } else { 1 };
    let mut sessions = Sessions::new(order.quick);
    let mut middle = TransitTime::new(order.quick);
    let mut refreshing = RefreshInterval::new(order.quick);
    run_rounds(rounds, Duration::ZERO, supervision, |round| {
        sessions.round(round, supervision)?;
        middle.round(supervision)?;
        refreshing.round(supervision)
    })?;
    section.append(sessions.section());
    section.append(middle.section());
    section.append(refreshing.section());
    Ok(section)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::paper_reproduction::published;

    /// Every published figure is counted, or is left out without namespaces.
    #[test]
    fn every_published_figure_is_covered_or_left_out() {
        let is_of_networks =
            |key: &str| OF_NETWORKS.iter().any(|above| published::is_under(key, above));
        let counted = octets::measure();
        let counted: BTreeSet<&str> =
            counted.entries.iter().map(|entry| entry.key.as_str()).collect();
        for (key, _) in published::measurements().filter(|(key, _)| key.starts_with("gist.")) {
            let is_component = key.starts_with("gist.table3_runtime_pct");
            let places = [is_of_networks(key), counted.contains(key.as_str()), is_component];
            assert_eq!(places.iter().filter(|place| **place).count(), 1, "{key}");
        }
    }
}
