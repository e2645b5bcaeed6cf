//! First come, first served with reneging: every request waits for a circuit until its flow ends. The number of flows is
//! that of M/M/infinity, so of a Poisson distribution, and each circuit serves a flow as long as there is one.

use earmark_testkit::replications::Measured;

use super::{agrees, played, topology};

/// Returns the share of the flows' time in which they have a circuit.
fn served(load: f64, circuits: u32) -> f64 {
    let (mut probability, mut sum) = ((-load).exp(), 0.0);
    for n in 1..400_u32 {
        probability *= load / f64::from(n);
        sum += probability * f64::from(n.min(circuits));
    }
    sum / load
}

#[test]
fn queue_serves_as_many_as_circuits_carry() {
    assert!((served(1e-3, 1) - 0.999_5).abs() < 1e-4);
    for (load, circuits) in [(15, 20), (20, 20), (30, 20)] {
        let text = format!(
            r#"
            name = "reneging"
            topology = "none"
            protocol = "yessir"
            duration = "1500s"
            discard = "100s"
            refresh = "10000s"
            retry = {{ threshold = "infinite" }}
            data = "none"

            [[flows]]
            name = "calls"
            between = [["a", "b"]]
            count = {load}
            arrivals = "poisson"
            lifetime = "exponential 10s"
            rate = "100kbit"
            reserves = "0s"
            "#
        );
        let topology = topology(circuits, 1_000 * circuits);
        let measured = Measured::over_seeds(|seed| played(&text, &topology, seed).served);
        agrees(measured, &format!("{load} on {circuits}"), served(f64::from(load), circuits), 0.02);
    }
}
