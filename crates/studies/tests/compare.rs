//! Cases of the comparison against models of their own: scripts that share nothing with the simulator but the text of the scenario.

use std::path::Path;
use std::process::Command;

use earmark_lab::statistics::{Median, percentile, sorted};
use earmark_scenario::{FlowOutcome, Outcome, play};
use earmark_studies::study::compare::{Case, Network, PROFILE, cases};
use serde_json::Value;

/// Number of seeds of the simulator.
const SEEDS: u64 = 10;
/// Number of seeds of a model, which takes no time.
const MODEL_SEEDS: u64 = 60;

fn case(network: Network, condition: &str, flows: u32, protocol: &str) -> Case {
    let all = cases(network, &[(flows, SEEDS)], PROFILE).expect("the network exists");
    let is_it = |case: &Case| case.key.condition == condition && case.key.protocol == protocol;
    all.into_iter().find(is_it).expect("the case exists")
}

/// A metric: its name in the output of a script, and its value in an outcome.
type Metric<'m> = (&'m str, &'m dyn Fn(&Outcome) -> f64);

/// Plays a case; returns the values of each metric, by seed.
fn simulated(case: &Case, metrics: &[Metric<'_>]) -> Vec<Vec<f64>> {
    let (scenario, topology) = case.scenario().expect("a scenario");
    let run = |seed| play(&scenario, &topology, seed).expect("it fits");
    let outcomes: Vec<Outcome> = (1..=case.seeds).map(run).collect();
    metrics.iter().map(|(_, value)| outcomes.iter().map(value).collect()).collect()
}

/// Runs a script with the scenario of a case; returns the values of each metric, by seed.
fn modelled(case: &Case, script: &str, metrics: &[&str]) -> Vec<Vec<f64>> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let file = std::env::temp_dir().join(format!("earmark-{script}-{}.toml", std::process::id()));
    std::fs::write(&file, &case.text).expect("a directory for temporary files");
    let output = Command::new("python3")
        .arg(models.join(script))
        .args([file.as_os_str(), MODEL_SEEDS.to_string().as_ref()])
        .output()
        .expect("python3 runs");
    std::fs::remove_file(&file).expect("the file is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |metric: &&str| {
        let values = all[*metric].as_array().unwrap_or_else(|| panic!("{metric}: {all}"));
        values.iter().filter_map(Value::as_f64).collect()
    };
    metrics.iter().map(of).collect()
}

/// Checks that the intervals of the medians overlap; `tolerance` is what the model leaves out, relative.
fn assert_agree(case: &Case, script: &str, metrics: &[Metric<'_>], tolerance: f64) {
    let names: Vec<&str> = metrics.iter().map(|(name, _)| *name).collect();
    let (ours, theirs) = (simulated(case, metrics), modelled(case, script, &names));
    for ((name, ours), theirs) in names.iter().zip(ours).zip(theirs) {
        let median = |values: Vec<f64>| Median::of(values).expect("there are values");
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{script}, {name}: simulated {ours:.4}, modelled {theirs:.4}");
        let wide = Median {
            low: theirs.low * (1.0 - tolerance),
            high: theirs.high * (1.0 + tolerance),
            ..theirs
        };
        assert!(
            !ours.is_below(&wide) && !wide.is_below(&ours),
            "{name}: simulated {ours:.4}, modelled {theirs:.4}"
        );
    }
}

#[test]
fn refusals_of_an_overloaded_row_are_those_of_its_model() {
    let case = case(Network::Chain, "overload", 100, "yessir");
    let metrics: [Metric<'_>; 3] = [
        ("completed", &|run| run.completed as f64 / run.wanted as f64),
        ("served", &|run| run.served),
        ("fragmented", &|run| run.fragmented),
    ];
    assert_agree(&case, "overload_yessir.py", &metrics, 0.0);
}

/// Daemons take some microseconds for each message, up to 2 % of the propagation.
#[test]
fn set_up_time_with_losses_is_that_of_its_model() {
    let mut case = case(Network::Chain, "loss", 500, "rsvp");
    case.text = case.text.replace("reserves = \"0s\"", "reserves = \"0s\"\nwatch = true");
    let waits = |run: &Outcome| {
        let counted = |flow: &&FlowOutcome| flow.reserves.is_some_and(|at| at >= 60.0);
        let flows = run.watched.iter().filter(counted);
        sorted(flows.filter_map(|flow| flow.completed_after))
    };
    let late = |run: &Outcome| {
        let waits = waits(run);
        waits.iter().filter(|wait| **wait > 0.5).count() as f64 / waits.len() as f64
    };
    let metrics: [Metric<'_>; 3] = [
        ("median", &|run| percentile(&waits(run), 50).expect("flows complete")),
        ("decile", &|run| percentile(&waits(run), 90).expect("flows complete")),
        ("late", &late),
    ];
    assert_agree(&case, "loss_rsvp.py", &metrics, 0.02);
}

#[test]
fn recovery_of_a_failed_link_is_that_of_its_model() {
    let case = case(Network::Abilene, "failure", 500, "yessir");
    let quartile = |run: &Outcome, of: usize| run.recovery_times.expect("some recover")[of];
    let metrics: [Metric<'_>; 4] = [
        ("recovered", &|run| run.recoveries as f64 / run.interruptions as f64),
        ("lower", &|run| quartile(run, 0)),
        ("median", &|run| quartile(run, 1)),
        ("upper", &|run| quartile(run, 2)),
    ];
    assert_agree(&case, "failure_yessir.py", &metrics, 0.0);
}
