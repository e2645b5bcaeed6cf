//! Outcomes that the applications of watched flows are told, from the log of the simulator, for all protocols.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::Time;
use earmark_core::outcome::Outcome;
use earmark_node::outcome;
use earmark_sim::{LogEntry, LogEvent, NodeId};

use crate::reservation::number_of;

/// Reports by flow number.
#[derive(Debug, Default)]
pub(crate) struct ReportTracker {
    /// Numbers and end nodes of the flows that are tracked.
    ends: BTreeSet<(u64, NodeId)>,
    reports: BTreeMap<u64, Vec<(Time, NodeId, Outcome)>>,
}

impl ReportTracker {
    /// Starts tracking the applications of a flow at both ends.
    pub(crate) fn begin(&mut self, number: u64, nodes: [NodeId; 2]) {
        self.ends.extend(nodes.map(|node| (number, node)));
    }

    /// Returns what the applications of a flow were told, oldest first. An outcome that is told again, as with each
    /// refresh, is included once.
    pub(crate) fn of(&self, number: u64) -> &[(Time, NodeId, Outcome)] {
        self.reports.get(&number).map_or(&[], Vec::as_slice)
    }

    /// Processes entries of the log.
    pub(crate) fn process(&mut self, log: &[LogEntry]) {
        if self.ends.is_empty() {
            return;
        }
        for LogEntry { at, node, what } in log {
            let LogEvent::Event(event) = what else { continue };
            let Some(number) = outcome::application_of(event).map(number_of) else { continue };
            if !self.ends.contains(&(number, *node)) {
                continue;
            }
            let reports = self.reports.entry(number).or_default();
            let before = reports.iter().rev().find(|(_, reported_at, _)| reported_at == node);
            let before = before.map(|(.., outcome)| outcome.clone());
            let after = outcome::after(before.as_ref().unwrap_or(&Outcome::default()), event);
            if let Some(after) = after.filter(|after| Some(after) != before.as_ref()) {
                reports.push((*at, *node, after));
            }
        }
    }
}
