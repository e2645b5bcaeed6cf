//! Summary of many runs of one scenario: the median of each count over the seeds, with its confidence interval.

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use earmark_scenario::{FlowOutcome, Outcome};
use serde::Serialize;

use crate::statistics::{ENOUGH, Median};

/// Summary of runs of one scenario. See [`Outcome`] for the counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Number of runs, each with a seed of its own.
    pub runs: usize,
    /// Events that the simulator processed.
    pub events: Median,
    /// Reservation attempts.
    pub attempts: Median,
    /// Attempts after the first.
    pub retries: Median,
    /// Refused attempts after the first.
    pub refused_retries: Median,
    /// Share of the requested reservation time in which reservations were complete.
    pub served: Median,
    /// Share of the reserved bandwidth that belonged to incomplete reservations, or lay beside the path.
    pub fragmented: Median,
    /// Flows with a request for a reservation.
    pub wanted: Median,
    /// Flows with a complete reservation.
    pub completed: Median,
    /// Complete reservations that ceased to be complete.
    pub interruptions: Median,
    /// Packets of signalling on all links.
    pub signalling_packets: Median,
    /// Watched flows, by their name in the scenario.
    pub watched: Vec<WatchedSummary>,
}

/// Watched flows of one name. Each run contributes one value, combined from its flows of this name as each field
/// describes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchedSummary {
    /// Name of the flows.
    pub flows: String,
    /// Flows that requested a reservation, in all runs together.
    pub asked: usize,
    /// Flows that got a complete one, in all runs together.
    pub completed: usize,
    /// Time to completion, seconds: the median of the run, infinite for flows without completion. `None` if no flow
    /// requested a reservation.
    pub completed_after: Option<Median>,
    /// Number of retries, summed over the flows of the run.
    pub retries: Median,
    /// Share of packets that arrived, over all flows of the run.
    pub arrived_share: Median,
}

impl Summary {
    /// Summarizes runs of one scenario; `None` if there are none.
    pub fn of(outcomes: &[Outcome]) -> Option<Summary> {
        let first = outcomes.first()?;
        let count = |count: fn(&Outcome) -> u64| {
            Median::of(outcomes.iter().map(|outcome| count(outcome) as f64))
        };
        let mut names: Vec<&str> = Vec::new();
        for flow in outcomes.iter().flat_map(|outcome| &outcome.watched) {
            if !names.contains(&flow.flows.as_str()) {
                names.push(&flow.flows);
            }
        }
        Some(Summary {
            scenario: first.scenario.clone(),
            runs: outcomes.len(),
            events: count(|outcome| outcome.events)?,
            attempts: count(|outcome| outcome.attempts)?,
            retries: count(|outcome| outcome.retries)?,
            refused_retries: count(|outcome| outcome.refused_retries)?,
            served: Median::of(outcomes.iter().map(|outcome| outcome.served))?,
            fragmented: Median::of(outcomes.iter().map(|outcome| outcome.fragmented))?,
            wanted: count(|outcome| outcome.wanted)?,
            completed: count(|outcome| outcome.completed)?,
            interruptions: count(|outcome| outcome.interruptions)?,
            signalling_packets: count(|outcome| outcome.signalling.packets)?,
            watched: names.into_iter().filter_map(|name| watched(name, outcomes)).collect(),
        })
    }

    /// Returns the summary as text.
    pub fn describe(&self) -> String {
        let mut rows = vec![
            ["attempts to reserve".to_owned(), format!("{:.0}", self.attempts)],
            ["retries".to_owned(), format!("{:.0}", self.retries)],
            ["retries that were refused".to_owned(), format!("{:.0}", self.refused_retries)],
            ["share of the time served".to_owned(), format!("{:.3}", self.served)],
            ["share reserved in vain".to_owned(), format!("{:.3}", self.fragmented)],
            ["reservations wanted".to_owned(), format!("{:.0}", self.wanted)],
            ["reservations completed".to_owned(), format!("{:.0}", self.completed)],
            ["reservations interrupted".to_owned(), format!("{:.0}", self.interruptions)],
            ["packets of signalling".to_owned(), format!("{:.0}", self.signalling_packets)],
        ];
        for flows in &self.watched {
            let name = &flows.flows;
            if let Some(after) = flows.completed_after {
                let share = format!("{} of {}", flows.completed, flows.asked);
                rows.extend([
                    [format!("{name}: completed"), share],
                    [format!("{name}: completed after, s"), format!("{after:.1}")],
                ]);
            }
            rows.extend([
                [format!("{name}: retries"), format!("{:.0}", flows.retries)],
                [format!("{name}: share that arrived"), format!("{:.3}", flows.arrived_share)],
            ]);
        }
        rows.push(["events".to_owned(), format!("{:.0}", self.events)]);
        let sure = match self.runs < ENOUGH {
            true => "least and most",
            false => "95 % interval",
        };
        let heading = format!("{}, {} runs", self.scenario, self.runs);
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header([heading, format!("median ({sure})")]);
        table.add_rows(rows);
        table.to_string()
    }
}

/// Summarizes the flows of one name in all runs; `None` if no run has any.
fn watched(name: &str, outcomes: &[Outcome]) -> Option<WatchedSummary> {
    let runs: Vec<Vec<&FlowOutcome>> = outcomes
        .iter()
        .map(|outcome| outcome.watched.iter().filter(|flow| flow.flows == name).collect())
        .filter(|flows: &Vec<_>| !flows.is_empty())
        .collect();
    let all = || runs.iter().flatten();
    let after =
        |flow: &&FlowOutcome| flow.reserves.map(|_| flow.completed_after.unwrap_or(f64::INFINITY));
    let completed_after = |run: &Vec<&FlowOutcome>| Median::of(run.iter().filter_map(after));
    let sum = |run: &[&FlowOutcome], count: fn(&FlowOutcome) -> u64| -> f64 {
        run.iter().map(|flow| count(flow) as f64).sum()
    };
    let arrived_share = |run: &Vec<&FlowOutcome>| {
        let sent = sum(run, |flow| flow.received.sent);
        // A flow without packets lost none.
        if sent == 0.0 { 1.0 } else { sum(run, |flow| flow.received.arrived) / sent }
    };
    Some(WatchedSummary {
        flows: name.to_owned(),
        asked: all().filter(|flow| flow.reserves.is_some()).count(),
        completed: all().filter(|flow| flow.completed_after.is_some()).count(),
        completed_after: Median::of(runs.iter().filter_map(completed_after).map(|run| run.median)),
        retries: Median::of(runs.iter().map(|run| sum(run, |flow| flow.retries)))?,
        arrived_share: Median::of(runs.iter().map(arrived_share))?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes;
    use super::*;

    #[test]
    fn two_runs_are_summarized() {
        let mut outcomes = outcomes();
        // Another flow that ends before its request.
        outcomes[0].watched.push(FlowOutcome { flows: "test".into(), ..FlowOutcome::default() });
        let summary = Summary::of(&outcomes).unwrap();
        assert_eq!(summary.attempts, Median { median: 15.0, low: 10.0, high: 20.0 });
        let [test] = &summary.watched[..] else { panic!("{summary:?}") };
        assert_eq!((test.asked, test.completed), (2, 1));
        let never = f64::INFINITY;
        let after = Median { median: never, low: 2.25, high: never };
        assert_eq!(test.completed_after, Some(after));
        assert_eq!(test.arrived_share, Median { median: 0.9, low: 0.9, high: 0.9 });
        let text = summary.describe();
        for line in [
            "a, b, 2 runs              ┆ median (least and most)",
            "reservations completed    ┆ 4 (3 to 4)",
            "test: completed           ┆ 1 of 2",
            "test: completed after, s  ┆ - (2.2 to -)",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(Summary::of(&[]), None);
    }
}
