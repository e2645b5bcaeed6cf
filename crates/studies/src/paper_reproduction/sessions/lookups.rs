//! Session look-ups in each structure, that of Earmark and those of earlier implementations, with a number of sessions.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::times::TimesBySize;
use crate::bench::messages::STRIDE;
use crate::paper_reproduction::baselines::{Index, Key, indexes};

/// Number of look-ups that are timed in one batch.
const BATCH: u32 = 200;
/// Number of sessions that are inserted between two checks for an interrupt.
const CHUNK: u32 = 10_000;

/// A structure with its sessions, and its measurements.
pub(super) struct Lookups {
    /// Time of one look-up, round by round, nanoseconds.
    pub(super) timed: TimesBySize,
    index: Box<dyn Index>,
    looked_up: u32,
}

/// Returns every structure with `sessions` sessions, at least one. `go_on` receives the total number of inserted
/// sessions.
pub(super) fn all(
    sessions: u32,
    mut check_interrupted: impl FnMut(u64) -> Result<()>,
) -> Result<Vec<Lookups>> {
    let mut entered = 0;
    let fill = |(name, mut index): (&'static str, Box<dyn Index>)| {
        for number in 0..sessions {
            index.enter(Key::numbered(number));
            entered += 1;
            if number.is_multiple_of(CHUNK) {
                check_interrupted(entered)?;
            }
        }
        Ok(Lookups { timed: TimesBySize::new(name, sessions), index, looked_up: 0 })
    };
    indexes().into_iter().map(fill).collect()
}

impl Lookups {
    /// Looks up sessions that are far from each other.
    ///
    /// # Errors
    /// A session was not found.
    pub(super) fn round(&mut self) -> Result<()> {
        let place = |n: u32| u64::from(n) * STRIDE % u64::from(self.timed.sessions);
        let numbers = self.looked_up..self.looked_up + BATCH;
        self.looked_up = numbers.end;
        let keys: Vec<Key> = numbers.map(|n| Key::numbered(place(n) as u32)).collect();
        let start = Instant::now();
        let found = keys.iter().filter(|&key| black_box(self.index.find(key)).is_some()).count();
        let took = start.elapsed();
        ensure!(found == keys.len(), "{}: {found} of {} found", self.timed.name, keys.len());
        self.timed.times.push(took.as_secs_f64() * 1e9 / f64::from(BATCH));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_is_looked_up_in() {
        for sessions in [1, 500] {
            let mut all = all(sessions, |_| Ok(())).unwrap();
            assert_eq!(all.len(), indexes().len());
            for lookups in &mut all {
                lookups.round().unwrap();
                lookups.round().unwrap();
                assert_eq!(lookups.looked_up, 2 * BATCH);
                let times = &lookups.timed.times;
                assert!(times.len() == 2 && times.iter().all(|&time| time > 0.0));
            }
        }
        assert!(all(1, |_| anyhow::bail!("interrupted")).is_err());
    }
}
