//! Steady state from the start: at any time the number of flows has the distribution that the arrivals and lifetimes
//! imply, from the end of `spread` on.

use earmark_core::Time;
use earmark_scenario::{Scenario, flow_schedule};

use earmark_testkit::replications::Measured;

use super::{agrees, topology};

/// Number of flows at a time, and the mean remaining lifetime of them.
fn present(text: &str, second: u64, seed: u64) -> (f64, f64) {
    let scenario = Scenario::parse(text).expect("a scenario");
    let now = Time::from_nanos(second * 1_000_000_000);
    let schedule = flow_schedule::draw(&scenario, &topology(1, 100), seed).expect("few flows");
    let there = schedule.iter().filter(|flow| flow.starts <= now && now < flow.ends);
    let remaining: Vec<f64> = there.map(|flow| flow.ends.since(now).as_secs_f64()).collect();
    let count = remaining.len() as f64;
    (count, remaining.iter().sum::<f64>() / count)
}

fn scenario(arrivals: &str, lifetime: &str, initial: &str) -> String {
    format!(
        r#"
        name = "start"
        topology = "none"
        protocol = "rsvp"
        duration = "2000s"

        [[flows]]
        name = "flows"
        between = [["a", "b"]]
        count = 400
        arrivals = "{arrivals}"
        lifetime = "{lifetime}"
        initial = "{initial}"
        spread = "30s"
        rate = "100kbit"
        "#
    )
}

/// Poisson arrivals, M/G/infinity: the number has the mean 400 and the variance 400.
#[test]
fn poisson_arrivals_are_stationary() {
    for (lifetime, remaining) in [
        ("constant 100s", 50.0),
        ("exponential 100s", 100.0),
        ("uniform 0s 200s", 200.0 / 3.0),
        ("lognormal 100s 0.5", 50.0 * 1.284_025),
    ] {
        let text = scenario("poisson", lifetime, "stationary");
        for second in [30, 50, 170] {
            let what = format!("{lifetime} at {second} s");
            let of = |seed| present(&text, second, seed);
            agrees(Measured::over_seeds(|seed| of(seed).0), &what, 400.0, 30.0);
            agrees(Measured::over_seeds(|seed| of(seed).1), &what, remaining, 8.0);
        }
    }
    let text = scenario("poisson", "exponential 100s", "stationary");
    let counts: Vec<f64> = (1..=200).map(|seed| present(&text, 60, seed).0).collect();
    let mean = counts.iter().sum::<f64>() / 200.0;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 199.0;
    // The variance of 200 values has a standard deviation of 10 %.
    assert!((280.0..520.0).contains(&variance), "{variance}");
}

/// The mean number is that of the steady state from the start on, and in it the spread of the number follows that of the
/// arrivals.
#[test]
fn arrivals_of_every_law_are_stationary_in_the_mean() {
    for arrivals in ["periodic", "batches 5", "pareto 2.5", "lognormal 1.2"] {
        let text = scenario(arrivals, "exponential 100s", "stationary");
        for second in [30, 80, 600] {
            let what = format!("{arrivals} at {second} s");
            let of = |seed| present(&text, second, seed);
            agrees(Measured::over_seeds(|seed| of(seed).0), &what, 400.0, 50.0);
            agrees(Measured::over_seeds(|seed| of(seed).1), &what, 100.0, 8.0);
        }
    }
    // Variance by mean: of D/M/infinity 1/2 with so many flows, of batches b with exponential lifetimes b.
    for (arrivals, low, high) in [("periodic", 0.35, 0.65), ("batches 5", 3.5, 6.5)] {
        let text = scenario(arrivals, "exponential 100s", "stationary");
        let counts: Vec<f64> = (1..=200).map(|seed| present(&text, 600, seed).0).collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let index = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 199.0 / mean;
        assert!((low..high).contains(&index), "{arrivals}: {index}");
    }
}

/// Each flow that ends is replaced: 400 are there, in any phase of their lifetimes.
#[test]
fn replaced_flows_are_stationary() {
    for (lifetime, remaining) in [("constant 100s", 50.0), ("uniform 0s 200s", 200.0 / 3.0)] {
        let text = scenario("replaced", lifetime, "stationary");
        for second in [31, 170] {
            let what = format!("{lifetime} at {second} s");
            assert_eq!(present(&text, second, 1).0, 400.0, "{what}");
            agrees(
                Measured::over_seeds(|seed| present(&text, second, seed).1),
                &what,
                remaining,
                8.0,
            );
        }
    }
}

#[test]
fn other_starts_are_possible() {
    let new = scenario("replaced", "constant 100s", "new").replace("spread = \"30s\"", "");
    assert_eq!(present(&new, 0, 1), (400.0, 100.0));
    let none = scenario("poisson", "constant 100s", "none");
    assert!(present(&none, 1, 1).0 < 20.0);
    agrees(Measured::over_seeds(|seed| present(&none, 50, seed).0), "none at 50 s", 200.0, 30.0);
    for (wrong, why) in [("replaced", "no flow is there"), ("poisson", "never end")] {
        let text = scenario(wrong, "forever", "none");
        let error = Scenario::parse(&text).unwrap().check(&topology(1, 100)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}
