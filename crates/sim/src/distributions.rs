//! Random numbers of distributions other than those of [`Stream`] itself.
//!
//! Logarithms are computed in software, so that they are the same on all machines.

use core::time::Duration;

use earmark_core::Time;
use earmark_core::random::Stream;

/// Returns an exponentially distributed time with this mean.
pub fn exponential(random: &mut Stream, mean: Duration) -> Duration {
    let drawn = -libm::log(1.0 - fraction(random)) * mean.as_nanos() as f64;
    Duration::from_nanos(drawn as u64) // saturates
}

/// Returns a normally distributed number with mean 0 and standard deviation 1 (Box and Muller's method).
pub fn normal(random: &mut Stream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - fraction(random)));
    radius * libm::cos(2.0 * core::f64::consts::PI * fraction(random))
}

/// Returns a number of Poisson's distribution with this mean: of arrivals with exponentially distributed distances, the
/// number within the time. The work grows with the mean.
pub fn poisson(random: &mut Stream, mean: f64) -> u64 {
    let (mut number, mut at) = (0, 0.0);
    loop {
        at -= libm::log(1.0 - fraction(random));
        if at > mean {
            return number;
        }
        number += 1;
    }
}

/// Returns the time when an on-off source with these mean times is on for the first time. The source starts in its
/// steady state: it is off with the usual probability, and the elapsed part of a period does not matter.
pub(crate) fn first_burst(
    random: &mut Stream,
    starts: Time,
    mean_on: Duration,
    mean_off: Duration,
) -> Time {
    let cycle = mean_on.saturating_add(mean_off);
    match random.uniform(Duration::ZERO, cycle) < mean_off {
        true => starts + exponential(random, mean_off),
        false => starts,
    }
}

/// Returns a number from 0 up to and without 1, of 53 bits, the precision of a float.
pub fn fraction(random: &mut Stream) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns an integer below `limit`, uniform to within `limit` / 2^64; 0 if `limit` is 0.
pub fn below(random: &mut Stream, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}

/// Returns `true` with this probability.
pub fn happens(random: &mut Stream, probability: f64) -> bool {
    fraction(random) < probability
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use earmark_core::random::RandomStreams;

    use super::*;

    /// Mean 2 s; the mean of 100 000 has a standard deviation of 0.32 %. A share of 1/e is longer than the mean.
    #[test]
    fn exponential_times_have_their_mean_and_their_tail() {
        let mut random = RandomStreams::new(4).stream("dice");
        let times: Vec<f64> = (0..100_000)
            .map(|_| exponential(&mut random, Duration::from_secs(2)).as_secs_f64())
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((1.98..2.02).contains(&mean), "{mean}");
        let longer = times.iter().filter(|time| **time > 2.0).count();
        assert!((36_300..37_300).contains(&longer), "{longer}");
        assert_eq!(exponential(&mut random, Duration::ZERO), Duration::ZERO);
    }

    /// 20 000 numbers: the mean has a standard deviation of 0.5 to 0.7 %, the variance one of 1 to 1.5 %.
    #[test]
    fn normal_and_poisson_numbers_have_their_moments() {
        let mut random = RandomStreams::new(6).stream("dice");
        let moments = |mut draw: alloc::boxed::Box<dyn FnMut() -> f64 + '_>| {
            let drawn: Vec<f64> = (0..20_000).map(|_| draw()).collect();
            let mean = drawn.iter().sum::<f64>() / 20_000.0;
            let square = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 20_000.0;
            (mean, square)
        };
        let (mean, variance) = moments(alloc::boxed::Box::new(|| normal(&mut random)));
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        for rate in [0.5, 50.0] {
            let (mean, variance) =
                moments(alloc::boxed::Box::new(|| poisson(&mut random, rate) as f64));
            let right = |x: f64| (x / rate - 1.0).abs() < 0.06;
            assert!(right(mean) && right(variance), "{rate}: {mean} {variance}");
        }
        assert_eq!(poisson(&mut random, 0.0), 0);
    }

    #[test]
    fn whole_numbers_keep_below_their_limit_and_reach_all_of_it() {
        let mut random = RandomStreams::new(5).stream("dice");
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[below(&mut random, 7) as usize] += 1;
        }
        // 1000 expected, standard deviation 29.
        assert!(seen.iter().all(|count| (860..1_140).contains(count)), "{seen:?}");
        assert_eq!(below(&mut random, 0), 0);
    }
}
