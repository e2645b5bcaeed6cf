//! Erlang's loss formula: requests of a Poisson process on a link with so many circuits, without retries. Any law of the
//! lifetimes gives the same loss. With other independent times between arrivals, and exponential lifetimes, it is Palm's
//! (GI/M/n/n, in textbooks on teletraffic).

use earmark_testkit::replications::Measured;

use super::{agrees, played, topology};

/// Returns the share of refused requests with an offered load in Erlang.
fn loss(load: f64, circuits: u32) -> f64 {
    (1..=circuits).fold(1.0, |loss, n| load * loss / (f64::from(n) + load * loss))
}

/// Returns the share of refused requests with exponential lifetimes, for the Laplace transform of the times between
/// arrivals at n by the mean lifetime.
fn renewal_loss(transform: impl Fn(f64) -> f64, circuits: u32) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for n in (1..=circuits).map(f64::from) {
        let share = transform(n);
        term *= (f64::from(circuits) - n + 1.0) / n * (1.0 - share) / share;
        sum += term;
    }
    1.0 / sum
}

/// Share of refused requests after the discarded time. Refreshes are rarer than flows are long, since they would retry.
fn refused(
    protocol: &str,
    (arrivals, lifetime): (&str, &str),
    (load, circuits): (u32, u32),
    seed: u64,
) -> f64 {
    let text = format!(
        r#"
        name = "Erlang"
        topology = "none"
        protocol = "{protocol}"
        duration = "1500s"
        discard = "60s"
        refresh = "255s"
        data = "none"

        [[flows]]
        name = "calls"
        between = [["a", "b"]]
        count = {load}
        arrivals = "{arrivals}"
        lifetime = "{lifetime}"
        rate = "100kbit"
        reserves = "0s"
        "#
    );
    let outcome = played(&text, &topology(circuits, 1_000 * circuits), seed);
    assert!(outcome.wanted > 800);
    1.0 - outcome.completed as f64 / outcome.wanted as f64
}

#[test]
fn loss_of_every_protocol_is_erlangs() {
    assert!((loss(1.0, 1) - 0.5).abs() < 1e-12 && (loss(30.0, 50) - 0.000_2).abs() < 5e-5);
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let measured = Measured::over_seeds(|seed| {
            refused(protocol, ("poisson", "exponential 10s"), (7, 10), seed)
        });
        agrees(measured, protocol, loss(7.0, 10), 0.025);
    }
}

#[test]
fn loss_does_not_depend_on_the_law_of_lifetimes() {
    for lifetime in ["constant 10s", "uniform 0s 20s", "lognormal 10s 0.8", "pareto 10s 2.5"] {
        let measured =
            Measured::over_seeds(|seed| refused("boomerang", ("poisson", lifetime), (7, 10), seed));
        agrees(measured, lifetime, loss(7.0, 10), 0.025);
    }
}

/// Bursty arrivals lose more than those of a Poisson process with the same rate, and regular ones less.
#[test]
fn loss_depends_on_the_law_of_arrivals() {
    let rate = 7.0; // arrivals by the mean lifetime
    let poisson = renewal_loss(|n| rate / (rate + n), 10);
    assert!((poisson - loss(7.0, 10)).abs() < 1e-12);
    let periodic = renewal_loss(|n| (-n / rate).exp(), 10);
    // With the probability 2/3 no time, otherwise an exponential one between batches.
    let batches = renewal_loss(|n| 2.0 / 3.0 + (rate / 3.0) / (rate / 3.0 + n) / 3.0, 10);
    assert!(periodic < 0.6 * poisson && batches > 2.0 * poisson, "{periodic}, {batches}");
    for (arrivals, theory, precision) in
        [("periodic", periodic, 0.025), ("batches 3", batches, 0.035)]
    {
        let laws = (arrivals, "exponential 10s");
        let measured = Measured::over_seeds(|seed| refused("boomerang", laws, (7, 10), seed));
        agrees(measured, arrivals, theory, precision);
    }
}

/// With constant lifetimes and 30 Erlang on 50 circuits hardly any request is refused from the first one on: the flows at
/// the start are as many and as old as those of a steady state.
#[test]
fn a_run_begins_in_its_steady_state() {
    let text = r#"
        name = "start"
        topology = "none"
        protocol = "boomerang"
        duration = "150s"
        refresh = "255s"
        data = "none"

        [[flows]]
        name = "calls"
        between = [["a", "b"]]
        count = 30
        arrivals = "poisson"
        lifetime = "constant 150s"
        rate = "100kbit"
        reserves = "0s"
        "#;
    let topology = topology(50, 50_000);
    let share = |text: &str| {
        let outcomes: Vec<_> = (1..=40).map(|seed| played(text, &topology, seed)).collect();
        let sum = |of: fn(&earmark_scenario::Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        1.0 - sum(|it| it.completed) as f64 / sum(|it| it.wanted) as f64
    };
    let stationary = share(text);
    assert!(stationary < 0.002, "{stationary}");
    // What a start with new flows, and arrivals beside them, would say.
    let full = share(&text.replace("lifetime", "initial = \"new\"\nlifetime"));
    assert!(full > 0.05, "{full}");
}
