//! Medians of repeated runs, each with a confidence interval; percentiles and means of values.
//!
//! The interval is the one of order statistics (David and Nagaraja, *Order Statistics*, 7.1): for any distribution,
//! the number of values below the true median is binomial with one half, so that the k-th least and the k-th greatest
//! value enclose it with a known probability. The values must only be independent; a value that never occurred may be
//! infinite.

use std::fmt;

use serde::{Serialize, Serializer};

/// Least probability with which an interval contains the true median.
pub const CONFIDENCE: f64 = 0.95;
/// Number of values from which on intervals reach [`CONFIDENCE`]; with fewer the interval is the whole range.
pub const ENOUGH: usize = 6;

/// Median of some values, and its confidence interval. An infinite value is null in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Median {
    /// Half of the values are below; with an even number, the mean of the two in the middle.
    #[serde(serialize_with = "finite")]
    pub median: f64,
    /// Lower end of the interval.
    #[serde(serialize_with = "finite")]
    pub low: f64,
    /// Upper end of the interval.
    #[serde(serialize_with = "finite")]
    pub high: f64,
}

impl Median {
    /// Computes the median of values, none of which may be NaN; `None` if there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Median> {
        let values = sorted(values);
        let count = values.len();
        let rank = rank(count);
        let (&low, &high) = (values.get(rank - 1)?, values.get(count - rank)?);
        let (left, right) = (values[(count - 1) / 2], values[count / 2]);
        // Two infinite values have no arithmetic mean; two equal values are their own.
        let median = if left == right { left } else { left / 2.0 + right / 2.0 };
        Some(Median { median, low, high })
    }

    /// Returns the median of the values times a positive factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Median {
        let Median { median, low, high } = *self;
        Median { median: median * factor, low: low * factor, high: high * factor }
    }

    /// Returns whether this interval is wholly below that of another.
    pub fn is_below(&self, other: &Median) -> bool {
        self.high < other.low
    }
}

/// Returns the nearest-rank percentile of sorted values: the least value that so many percent do not exceed. `None` if
/// there are no values.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Returns these values in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns sorted values without the lowest and the highest part: a tenth of them with `part` 10.
pub fn trimmed(sorted: &[f64], part: usize) -> &[f64] {
    let cut = sorted.len() / part;
    &sorted[cut..sorted.len() - cut]
}

/// Returns the mean of values without the lowest and the highest tenth, which may include interruptions; 0 if there
/// are no values.
pub fn trimmed_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let kept = trimmed(&values, 10);
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// Returns the rank of the interval's ends among `count` values, counted from 1 from both sides: the largest for which
/// at most half of what [`CONFIDENCE`] leaves lies below it.
fn rank(count: usize) -> usize {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    // Of `count` values, `below` are below the median with probability C(count, below) / 2^count. The logarithm of
    // each is that of the one before and a quotient, so that none becomes zero for large counts.
    let mut logarithm = -(count as f64) * std::f64::consts::LN_2;
    let mut sum = 0.0;
    for below in 0..count / 2 {
        sum += logarithm.exp();
        if sum > tail {
            return below.max(1);
        }
        logarithm += ((count - below) as f64 / (below + 1) as f64).ln();
    }
    (count / 2).max(1)
}

/// Serializes infinity as null, because JSON has none.
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*value).filter(|value| value.is_finite()).serialize(serializer)
}

impl fmt::Display for Median {
    /// Formats as `12 (9 to 15)`, with the requested number of decimals; an infinite value is a dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(0);
        let show = |value: f64| match value.is_finite() {
            true => format!("{value:.decimals$}"),
            false => "-".to_owned(),
        };
        write!(f, "{} ({} to {})", show(self.median), show(self.low), show(self.high))
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;
    use earmark_sim::distributions;

    use super::*;

    /// The expected ranks are those of sign-test tables for 95 % (Conover, *Practical Nonparametric Statistics*,
    /// table A3).
    #[test]
    fn intervals_have_the_ranks_of_the_tables() {
        let ranks = [1, 5, ENOUGH, 8, 9, 10, 12, 15, 20, 25, 30, 50, 100].map(rank);
        assert_eq!(ranks, [1, 1, 1, 1, 2, 2, 3, 4, 6, 8, 10, 18, 40]);
    }

    #[test]
    fn medians_are_in_the_middle() {
        let of = |values: &[f64]| Median::of(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), Some(Median { median: 3.0, low: 3.0, high: 3.0 }));
        assert_eq!(of(&[4.0, 1.0]), Some(Median { median: 2.5, low: 1.0, high: 4.0 }));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let ten = of(&ten).unwrap();
        assert_eq!(ten, Median { median: 5.5, low: 2.0, high: 9.0 });
        assert_eq!(format!("{ten:.1}"), "5.5 (2.0 to 9.0)");
        assert!(of(&[1.0]).unwrap().is_below(&ten) && !ten.is_below(&ten));
    }

    #[test]
    fn percentiles_have_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!([0, 50, 95, 100].map(|p| percentile(&hundred, p)), [1, 50, 95, 100].map(Some));
        assert_eq!(percentile(&[5, 7, 9], 50), Some(7));
        assert_eq!((percentile(&[2], 99), percentile::<u32>(&[], 50)), (Some(2), None));
    }

    #[test]
    fn trimmed_mean_leaves_out_a_tenth_on_either_side() {
        assert_eq!(trimmed_mean([5.0, 1.0, 9.0]), 5.0);
        let values = [100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, -100.0];
        assert_eq!((trimmed_mean(values), trimmed_mean([])), (4.5, 0.0));
    }

    #[test]
    fn infinite_values_rank_last() {
        let never = f64::INFINITY;
        let half = Median::of([never, 1.0, never, 2.0]).unwrap();
        assert_eq!(half, Median { median: never, low: 1.0, high: never });
        assert_eq!(
            serde_json::to_string(&half).unwrap(),
            r#"{"median":null,"low":1.0,"high":null}"#
        );
        assert_eq!(half.to_string(), "- (1 to -)");
    }

    /// With 2 000 samples of 30 exponential times the intervals contain the true median, ln 2, in 95.7 %; the
    /// standard deviation is 0.45 %.
    #[test]
    fn intervals_contain_the_true_median_with_their_confidence() {
        let mut dice = RandomStreams::new(1).stream("medians");
        let mean = std::time::Duration::from_secs(1);
        let holds = |_: &i32| {
            let drawn = (0..30).map(|_| distributions::exponential(&mut dice, mean).as_secs_f64());
            let Median { low, high, .. } = Median::of(drawn).unwrap();
            (low..=high).contains(&std::f64::consts::LN_2)
        };
        let held = (0..2_000).filter(holds).count();
        assert!((1_885..=1_940).contains(&held), "{held}");
    }
}
