//! Events per second of one core at packet level, in the scenarios of the retry study.
//!
//! Each scenario is played several times with one seed. Printed for each run: the events, their rate by the wall
//! clock and by the processor time of this process, and virtual seconds per second; then medians, minima and maxima.
//! On a busy machine only the processor time is meaningful. `EARMARK_BENCH_RUNS` is the number of runs,
//! `EARMARK_BENCH_SECONDS` the virtual time of each, if it differs from that of the study.

use std::path::Path;
use std::time::{Duration, Instant};

use earmark_scenario::topology::Topology;
use earmark_scenario::{Scenario, play};

const SCENARIOS: [&str; 2] = ["retry-regular.toml", "retry-high.toml"];
const SEED: u64 = 1;
/// Goal, million events per second.
const GOAL: f64 = 3.0;

/// One run: its events, and its time by both clocks.
struct Run {
    events: u64,
    wall: f64,
    processor: f64,
}

impl Run {
    fn of(scenario: &Scenario, topology: &Topology) -> Run {
        let (begun, used) = (Instant::now(), processor_time());
        let outcome = play(scenario, topology, SEED).expect("the scenario fits its topology");
        let (wall, used) = (begun.elapsed(), processor_time() - used);
        Run { events: outcome.events, wall: wall.as_secs_f64(), processor: used.as_secs_f64() }
    }

    /// Returns million events per second, by the wall clock and by processor time.
    fn rates(&self) -> [f64; 2] {
        [self.wall, self.processor].map(|seconds| self.events as f64 / seconds / 1e6)
    }
}

fn main() {
    let [runs, seconds] = ["EARMARK_BENCH_RUNS", "EARMARK_BENCH_SECONDS"].map(number);
    for name in SCENARIOS {
        let (mut scenario, topology) = load(name);
        scenario.duration = seconds.map_or(scenario.duration, Duration::from_secs);
        println!("{name}: {} s of {}", scenario.duration.as_secs(), topology.name);
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..runs.unwrap_or(3).max(1) {
            let run = Run::of(&scenario, &topology);
            let [wall, processor] = run.rates();
            println!(
                "  {} events in {:.2} s: {wall:.2} million a second, {processor:.2} by processor time ({:.0} ns each), \
                 {:.0} virtual seconds a second",
                run.events,
                run.wall,
                1e3 / processor,
                scenario.duration.as_secs_f64() / run.wall,
            );
            rates[0].push(wall);
            rates[1].push(processor);
        }
        for (clock, rates) in ["wall clock", "processor time"].iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            let [low, median, high] = [0, rates.len() / 2, rates.len() - 1].map(|at| rates[at]);
            println!(
                "  by {clock}: median {median:.2}, {low:.2} to {high:.2} million a second (goal {GOAL})"
            );
        }
    }
}

/// Returns the number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Loads a scenario of this repository and its topology.
fn load(name: &str) -> (Scenario, Topology) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    earmark_scenario::load(&folder.join(name), &[]).expect("a scenario and its topology")
}

/// Returns the processor time of this thread (proc(5)): nanoseconds, the first number of the file.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}
