//! Rounds: what is measured again and again, each time as another run of the program would.
//!
//! Two runs differ by more than two measurements of one run do: by where memory lies, and by what else the machine does meanwhile. So
//! a round makes what it measures anew, on a thread of its own, and rounds lie apart in time. An interval over rounds then has in it
//! what lies between runs.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bench::Supervision;

/// Does so many rounds, numbered from 0, which begin no sooner after each other than `apart`.
///
/// # Errors
/// A round has failed; it was interrupted.
pub(super) fn do_all(
    rounds: u32,
    apart: Duration,
    supervision: &Supervision<'_>,
    mut round: impl FnMut(u32) -> Result<()>,
) -> Result<()> {
    for number in 0..rounds {
        supervision.go_on()?;
        let begun = Instant::now();
        round(number)?;
        supervision.watcher.reached(u64::from(number) + 1);
        if number + 1 < rounds {
            std::thread::sleep(apart.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

/// Does some work on a thread of its own, and so with a stack and a heap elsewhere: by where memory lies alone times differ by some
/// hundredths, which else would be the same all through one run and other in the next.
pub(super) fn elsewhere<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::bench::Unwatched;

    #[test]
    fn rounds_lie_apart_and_end_when_one_fails() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        let apart = Duration::from_millis(10);
        let mut begun = Vec::new();
        let round = |_| {
            begun.push(Instant::now());
            Ok(())
        };
        do_all(3, apart, &supervision, round).unwrap();
        assert!(begun.len() == 3 && begun.windows(2).all(|two| two[1] - two[0] >= apart));
        let mut done = Vec::new();
        let round = |number| {
            done.push(number);
            anyhow::ensure!(number < 1, "enough");
            Ok(())
        };
        assert!(do_all(9, Duration::ZERO, &supervision, round).is_err());
        assert_eq!(done, [0, 1]);
        interrupted.store(true, Ordering::Relaxed);
        assert!(do_all(1, apart, &supervision, |_| unreachable!("it was interrupted")).is_err());
    }

    #[test]
    fn what_is_done_elsewhere_gives_what_it_gave() {
        let here = std::thread::current().id();
        assert!(elsewhere(|| Ok(std::thread::current().id() != here)).unwrap());
        assert!(elsewhere(|| -> Result<()> { anyhow::bail!("no") }).is_err());
    }
}
