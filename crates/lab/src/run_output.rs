//! Results of runs of a scenario, as text, drawings and tables.
//!
//! - [`write_tables`]: CSV files, for any tool that reads tables.
//! - [`timeline`]: each reservation attempt of the watched flows, as text; [`timeline_svg`]: as a drawing.
//! - [`Summary`]: medians over many seeds, with intervals.

mod summary;
mod tables;
mod timeline;

pub use summary::{Summary, WatchedSummary};
pub use tables::write_tables;
pub use timeline::{timeline, timeline_svg};

#[cfg(test)]
mod tests {
    use earmark_core::outcome::Kind;
    use earmark_scenario::{Attempted, FlowOutcome, Outcome, Received, Reported, Signalling};
    use earmark_sim::Delays;

    /// Outcomes with a flow that r1 refuses at first; with the second seed, always.
    pub(super) fn outcomes() -> Vec<Outcome> {
        let run = |seed: u64| {
            let attempt = |at, node: &str, granted: bool| {
                let available = (!granted).then_some(20_000);
                Attempted { at, node: node.into(), granted, available }
            };
            let flow = FlowOutcome {
                flows: "test".into(),
                from: "h0".into(),
                to: "h1".into(),
                reserves: Some(1.5),
                completed_after: (seed == 1).then_some(2.25),
                retries: 1,
                attempts: vec![
                    attempt(1.5, "h0", true),
                    attempt(1.52, "r1", false),
                    attempt(3.75, "r1", seed == 1),
                ],
                reports: match seed {
                    1 => vec![Reported {
                        at: 2.25,
                        node: "h0".into(),
                        outcome: earmark_core::outcome::Outcome::of(Kind::Whole),
                    }],
                    _ => Vec::new(),
                },
                path: None,
                received: Received {
                    sent: 10,
                    arrived: 9,
                    lost: 1,
                    delay: (seed == 1).then_some(Delays {
                        mean: 0.25,
                        p50: 0.2,
                        p99: 0.5,
                        max: 0.75,
                        jitter: 0.125,
                        ipdv: 0.0625,
                    }),
                    rates: vec![100_000, 96_000],
                },
            };
            Outcome {
                scenario: "a, b".into(),
                seed,
                events: 100 * seed,
                attempts: 10 * seed,
                retries: 4 * seed,
                refused_retries: 2 * seed,
                served: 0.5,
                fragmented: 0.125,
                wanted: 5,
                completed: 2 + seed,
                waits: (seed == 1).then_some([0.5, 1.0, 2.0]),
                interruptions: 3 * (2 - seed),
                recoveries: 2 * (2 - seed),
                recovery_times: (seed == 1).then_some([1.0, 1.5, 2.5]),
                signalling: Signalling {
                    packets: 70 * seed,
                    octets: 7_000 * seed,
                    ..Signalling::default()
                },
                watched: vec![flow],
                ..Outcome::default()
            }
        };
        vec![run(1), run(2)]
    }
}
