use earmark_core::random::RandomStreams;

use super::*;

/// Mean time between arrivals.
const MEAN: Duration = Duration::from_secs(10);
/// Number of seeds of a mean.
const SEEDS: u64 = 10_000;

/// Returns the number of arrivals within so many mean times from the first instant on.
fn arrivals(law: &str, times: f64, seed: u64) -> f64 {
    let law: Arrivals = law.parse().expect("a law");
    let mut dice = RandomStreams::new(seed).stream("arrivals");
    let (until, mut number) = (MEAN.mul_f64(times), 0.0);
    let mut at = law.first(MEAN, &mut dice).expect("an arrival");
    while at <= until {
        number += 1.0;
        at += law.next(MEAN, &mut dice).expect("another arrival");
    }
    number
}

/// Returns the mean and the variance of the number of arrivals within so many mean times, over many seeds.
fn moments(law: &str, times: f64) -> (f64, f64) {
    let numbers: Vec<f64> = (0..SEEDS).map(|seed| arrivals(law, times, seed)).collect();
    let mean = numbers.iter().sum::<f64>() / SEEDS as f64;
    let variance =
        numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64;
    (mean, variance)
}

#[test]
fn arrivals_are_parsed() {
    for (text, arrivals) in [
        ("replaced", Arrivals::Replaced),
        ("poisson", Arrivals::Poisson),
        ("periodic", Arrivals::Periodic),
        ("pareto 1.5", Arrivals::Pareto(1.5)),
        ("lognormal 1.2", Arrivals::Lognormal(1.2)),
        ("batches 10", Arrivals::Batches(10.0)),
        ("batches 1", Arrivals::Batches(1.0)),
    ] {
        assert_eq!(text.parse(), Ok(arrivals));
    }
    for text in [
        "",
        "never",
        "Poisson",
        "poisson 2",
        "pareto",
        "pareto 1",
        "pareto NaN",
        "pareto 101",
        "pareto 60s 1.5",
        "lognormal 0",
        "lognormal inf",
        "batches",
        "batches 0.9",
        "batches NaN",
        "batches 1e7",
        "batches 10 10",
    ] {
        assert!(text.parse::<Arrivals>().is_err(), "{text}");
    }
}

/// The number of arrivals within 100 000 mean times has a standard deviation of 0.3 % for Poisson's process, 1.4 % for
/// batches of 10 on average, and 0.6 % for the last two.
#[test]
fn rate_is_that_of_the_mean() {
    for (law, within) in [
        ("periodic", 0.000_02),
        ("poisson", 0.01),
        ("batches 10", 0.05),
        ("pareto 2.2", 0.03),
        ("lognormal 1.2", 0.03),
    ] {
        let rate = arrivals(law, 100_000.0, 1) / 100_000.0;
        assert!((rate - 1.0).abs() < within, "{law}: {rate}");
    }
}

/// A process that began with a whole time between arrivals would have none in the first half of the mean if it is periodic,
/// and none in a third of the mean with Pareto's law of shape 1.5.
#[test]
fn arrivals_are_stationary_from_the_first_instant_on() {
    for law in ["periodic", "poisson", "batches 10", "pareto 1.5", "pareto 2.5", "lognormal 1.2"] {
        for times in [0.1, 0.3, 0.9, 2.5] {
            let (mean, variance) = moments(law, times);
            let error = (variance / SEEDS as f64).sqrt();
            assert!((mean - times).abs() < 4.0 * error, "{law}, {times}: {mean} +- {error}");
            assert!(error < 0.15 * times, "{law}, {times}: {error} says too little");
        }
    }
}

/// The variance by the mean of the number in an interval: of a Poisson process 1, of periodic arrivals at most 1/4 by the
/// mean, and of batches with geometric sizes of mean b, 2 b - 1.
#[test]
fn dispersion_is_that_of_the_law() {
    let index = |law| {
        let (mean, variance) = moments(law, 5.5);
        variance / mean
    };
    let periodic = index("periodic");
    assert!((periodic - 0.25 / 5.5).abs() < 0.002, "{periodic}");
    for (law, expected) in [("poisson", 1.0), ("batches 1", 1.0), ("batches 4", 7.0)] {
        let index = index(law);
        assert!((index / expected - 1.0).abs() < 0.06, "{law}: {index}, not {expected}");
    }
    for law in ["pareto 1.5", "lognormal 1.2"] {
        assert!(index(law) > 1.5, "{law}: {}", index(law));
    }
}

/// The geometric distribution of the sizes: one flow with the probability 1/4, and so on.
#[test]
fn batches_have_geometric_sizes() {
    let law = Arrivals::Batches(4.0);
    let mut dice = RandomStreams::new(1).stream("arrivals");
    let mut sizes = [0_u32; 100];
    for _ in 0..20_000 {
        let size = std::iter::repeat_with(|| law.next(MEAN, &mut dice))
            .take_while(|next| *next == Some(Duration::ZERO))
            .count();
        sizes[size.min(99)] += 1;
    }
    let mut share = 0.25;
    for (more, number) in sizes.into_iter().enumerate().take(6) {
        let deviation = (20_000.0_f64 * share).sqrt();
        let expected = 20_000.0 * share;
        assert!((f64::from(number) - expected).abs() < 4.0 * deviation, "{more}: {number}");
        share *= 0.75;
    }
}

#[test]
fn program_gives_a_law_of_its_own() {
    #[derive(Debug)]
    struct Twice;
    impl ArrivalLaw for Twice {
        fn first(&self, mean: Duration, _: &mut Stream) -> Option<Duration> {
            Some(mean / 2)
        }
        fn next(&self, _: Duration, _: &mut Stream) -> Option<Duration> {
            None
        }
    }
    let law = Arrivals::Law(Arc::new(Twice));
    let mut dice = RandomStreams::new(1).stream("arrivals");
    assert_eq!(law.first(MEAN, &mut dice), Some(Duration::from_secs(5)));
    assert_eq!(law.next(MEAN, &mut dice), None);
    assert!(law == law.clone() && law != Arrivals::Law(Arc::new(Twice)));
    for none in [Arrivals::Replaced, Arrivals::Trace(vec![MEAN])] {
        assert_eq!((none.first(MEAN, &mut dice), none.next(MEAN, &mut dice)), (None, None));
    }
}
