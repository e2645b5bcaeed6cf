//! A straight line through measured points, by least squares.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::paper_reproduction::section::{Estimate, parts};
use earmark_lab::statistics::CONFIDENCE;

/// Returns the slope of the regression line, with the interval of Student's t at n - 2 degrees of freedom. The model
/// assumes a straight line; a deviation from it widens the interval.
///
/// Returns `None` if there are fewer than three points, or all have one x.
fn slope(points: &[(f64, f64)]) -> Option<Estimate> {
    let count = points.len() as f64;
    let freedom = count - 2.0;
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|&(x, y)| of(x - x_mean, y - y_mean)).sum()
    };
    let spread = sum(&|x, _| x * x);
    if spread <= 0.0 {
        return None;
    }
    let slope = sum(&|x, y| x * y) / spread;
    let residual = sum(&|x, y| (y - slope * x).powi(2));
    let deviation = (residual / freedom / spread).sqrt();
    let reach = student.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * deviation;
    let (low, high) = (slope - reach, slope + reach);
    Some(Estimate::between(low, slope, high, points.len() as u64))
}

/// Returns the slope of all points, with an interval widened to include the slope of each part: on a machine whose
/// speed varies with time, the interval of one line is too narrow, however many points it has.
///
/// Returns `None` if there are fewer than three points, or all have one x.
pub(in crate::paper_reproduction) fn slope_of_parts(parts: &[Vec<(f64, f64)>]) -> Option<Estimate> {
    let all = slope(&parts.concat())?;
    let slopes = || parts.iter().filter_map(|part| Some(slope(part)?.median));
    Some(Estimate {
        low: slopes().fold(all.low, f64::min),
        high: slopes().fold(all.high, f64::max),
        ..all
    })
}

/// Returns the slope of a measurement per session, from values in order of time at each number of sessions.
pub(super) fn slope_over<'a>(values: impl Iterator<Item = (f64, &'a [f64])>) -> Option<Estimate> {
    let mut of_parts: Vec<Vec<(f64, f64)>> = Vec::new();
    for (sessions, values) in values {
        let values = parts(values);
        of_parts.resize(of_parts.len().max(values.len()), Vec::new());
        of_parts.iter_mut().zip(values).for_each(|(part, value)| part.push((sessions, value)));
    }
    slope_of_parts(&of_parts)
}

#[cfg(test)]
mod tests {
    use earmark_lab::statistics::Median;
    use statrs::distribution::{Binomial, DiscreteCDF};

    use super::*;

    /// The laboratory computes the ranks of a median's interval without a library, because its build is to be short.
    #[test]
    fn interval_of_a_median_has_the_ranks_of_the_binomial_distribution() {
        for count in (1..=300).chain([2_000, 50_000]) {
            let below_median = Binomial::new(0.5, count).unwrap();
            let is_sure = |rank: &u64| below_median.cdf(rank - 1) <= (1.0 - CONFIDENCE) / 2.0;
            let rank = (1..=count / 2).take_while(is_sure).last().unwrap_or(1);
            let median = Median::of((1..=count).map(|value| value as f64)).unwrap();
            let ends = (rank as f64, (count + 1 - rank) as f64);
            assert_eq!((median.low, median.high), ends, "{count} values");
        }
    }

    #[test]
    fn parts_are_in_the_interval_of_the_whole() {
        let line = |slope: f64| -> Vec<(f64, f64)> {
            (0..200).map(|x| (f64::from(x), slope * f64::from(x))).collect()
        };
        let slope = slope_of_parts(&[line(1.0), line(2.0)]).unwrap();
        assert!((slope.median - 1.5).abs() < 1e-9 && slope.repetitions == 400);
        assert!((slope.low - 1.0).abs() < 1e-9 && (slope.high - 2.0).abs() < 1e-9, "{slope:?}");
    }

    #[test]
    fn slope_without_noise_is_exact() {
        let points: Vec<(f64, f64)> =
            (0..5).map(|x| (f64::from(x), 2.0 + 0.5 * f64::from(x))).collect();
        let slope = slope(&points).unwrap();
        assert!((slope.median - 0.5).abs() < 1e-12 && slope.high - slope.low < 1e-9, "{slope:?}");
    }

    /// Slope and standard error of five points, computed by hand: 0.6 and sqrt(0.08); t is 3.182.
    #[test]
    fn interval_matches_the_one_by_hand() {
        let points = [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)];
        let slope = slope(&points).unwrap();
        let reach = 3.182_446 * 0.08_f64.sqrt();
        assert!((slope.median - 0.6).abs() < 1e-12);
        assert!((slope.high - slope.median - reach).abs() < 1e-5, "{slope:?}");
        assert!((slope.median - slope.low - reach).abs() < 1e-5, "{slope:?}");
    }

    #[test]
    fn too_few_different_points_have_no_slope() {
        assert_eq!(slope(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
