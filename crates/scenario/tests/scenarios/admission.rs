//! Admission control of a scenario: the file with on-off sources, by measurement and by parameters.

use std::path::Path;

use earmark_scenario::{Outcome, load, play};

/// Plays two minutes of `scenarios/on-off-sources.toml`.
fn outcome(overrides: &[&str]) -> Outcome {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/on-off-sources.toml");
    let overrides = ["duration=120s"].iter().chain(overrides);
    let overrides: Vec<_> = overrides.map(|set| set.parse().expect("KEY=VALUE")).collect();
    let (scenario, topology) = load(&file, &overrides).expect("a scenario");
    play(&scenario, &topology, 1).expect("it is valid")
}

/// By parameters 7 flows have a reservation at a time; by measurement it is almost twice as many.
#[test]
fn measured_links_serve_more_on_off_sources() {
    let [measured, by_parameters] =
        [outcome(&[]), outcome(&["admission=parameter"])].map(|outcome| outcome.served);
    assert!((0.18..0.26).contains(&by_parameters), "{by_parameters}");
    assert!(measured > 1.5 * by_parameters, "{measured} {by_parameters}");
}
