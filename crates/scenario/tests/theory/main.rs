//! The simulator against theory: quantities whose distribution is known in closed form, over ten seeds each. The waiting
//! times of packets and of messages stand with the schedulers and processors of the simulator.

mod erlang;
mod fluid;
mod reneging;
mod stationary;

use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Scenario, play};
use earmark_testkit::replications::Measured;

/// One link, with room for `circuits` flows of 100 kbit/s, between two hosts and their routers.
fn topology(circuits: u32, bandwidth_kbit: u32) -> Topology {
    let text = format!(
        r#"
        node = [{{ name = "r1", role = "router" }}, {{ name = "r2", role = "router" }}, {{ name = "a" }}, {{ name = "b" }}]
        link = [
            {{ ends = ["r1", "r2"], bandwidth = "{bandwidth_kbit}kbit", delay = "1us", reservable = "{}kbit" }},
            {{ ends = ["a", "r1"], bandwidth = "100Gbit", delay = "1us" }},
            {{ ends = ["b", "r2"], bandwidth = "100Gbit", delay = "1us" }},
        ]"#,
        100 * circuits
    );
    Topology::parse(&text).expect("a topology")
}

fn played(text: &str, topology: &Topology, seed: u64) -> Outcome {
    let scenario = Scenario::parse(text).expect("a scenario");
    play(&scenario, topology, seed).expect("it fits")
}

/// Asserts that theory lies within twice the interval, so that none of the comparisons fails by chance, and that the
/// interval is narrow enough to tell.
fn agrees(measured: Measured, what: &str, theory: f64, precision: f64) {
    let Measured { mean, half } = measured;
    assert!(half < precision, "{what}: {mean} +- {half} says too little");
    assert!((mean - theory).abs() < 2.0 * half, "{what}: {mean} +- {half}, not {theory}");
}
