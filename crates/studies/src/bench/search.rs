//! Search for the largest load that goes through.

use anyhow::Result;

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// First load.
    pub first: u32,
    /// Largest load that is tried.
    pub last: u32,
    /// Granularity of the halving steps: only multiples of this are tried.
    pub step: u32,
    /// Number of halving steps.
    pub halvings: u32,
}

impl Search {
    /// Doubles the load until one does not go through, then halves the interval between that and the last one that
    /// did, [`Search::halvings`] times. Returns the largest load that went through, 0 if none did.
    ///
    /// # Errors
    /// The errors of an attempt.
    pub fn largest(self, mut attempt: impl FnMut(u32) -> Result<bool>) -> Result<u32> {
        let Search { first, last, step, halvings } = self;
        let (mut good, mut load) = (0, first);
        while load <= last && attempt(load)? {
            good = load;
            load *= 2;
        }
        if load > last {
            return Ok(good);
        }
        let mut bad = load;
        for _ in 0..halvings {
            let middle = (good + bad) / 2 / step * step;
            if middle <= good {
                break;
            }
            match attempt(middle)? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Ok(good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_load_is_found() {
        let search = Search { first: 1_000, last: 100_000, step: 20, halvings: 3 };
        let tried = |limit: u32| {
            let mut loads = Vec::new();
            let largest = search.largest(|load| {
                loads.push(load);
                Ok(load <= limit)
            });
            (loads, largest.unwrap())
        };
        let loads = vec![1_000, 2_000, 4_000, 8_000, 6_000, 5_000, 5_500];
        assert_eq!(tried(5_000), (loads, 5_000));
        assert_eq!(tried(0), (vec![1_000, 500, 240, 120], 0));
        let (loads, largest) = tried(u32::MAX);
        assert_eq!((loads.last(), largest), (Some(&64_000), 64_000));
    }
}
