//! Independent replications of a random experiment: the mean over ten seeds, with its confidence interval.

/// Half of a 95 % interval in standard errors: Student's t with nine degrees of freedom.
const STUDENT: f64 = 2.262;

/// Mean over ten seeds.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Mean.
    pub mean: f64,
    /// Half of its 95 % interval.
    pub half: f64,
}

impl Measured {
    /// Measures with the seeds from 1 to 10.
    pub fn over_seeds(of: impl Fn(u64) -> f64) -> Measured {
        let figures: Vec<f64> = (1..=10).map(of).collect();
        let mean = figures.iter().sum::<f64>() / 10.0;
        let square = figures.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 9.0;
        Measured { mean, half: STUDENT * (square / 10.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_that_of_student() {
        // The numbers 1 to 10 have the variance 55/6.
        let Measured { mean, half } = Measured::over_seeds(|seed| seed as f64);
        assert_eq!(mean, 5.5);
        assert!((half - 2.262 * (55.0_f64 / 60.0).sqrt()).abs() < 1e-12);
    }
}
