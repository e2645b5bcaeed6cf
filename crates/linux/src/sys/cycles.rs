//! The processor's cycle counter, for times of nanoseconds, and the context switches of a thread.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Duration of one comparison with the system's clock.
const COMPARISON: Duration = Duration::from_millis(10);
/// Maximum relative difference between two comparisons if the counter runs evenly.
const EVEN: f64 = 0.01;

/// Reads the counter: ticks since an arbitrary moment. Earlier instructions have completed, later ones have not begun.
#[inline(always)]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every processor of this architecture has both instructions; they touch no memory.
        unsafe {
            _mm_lfence();
            let ticks = _rdtsc();
            _mm_lfence();
            ticks
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::LazyLock;
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        ORIGIN.elapsed().as_nanos() as u64
    }
}

/// Returns the nanoseconds per tick, by the system's clock.
///
/// # Errors
/// The counter runs unevenly and cannot measure time.
pub fn nanoseconds_of_a_tick() -> io::Result<f64> {
    let [first, second] = [compare(), compare()];
    if (first / second - 1.0).abs() > EVEN {
        return Err(io::Error::other("the processor's time-stamp counter is not constant"));
    }
    Ok((first + second) / 2.0)
}

fn compare() -> f64 {
    let (start, from) = (Instant::now(), now());
    thread::sleep(COMPARISON);
    let (time, ticks) = (start.elapsed(), now() - from);
    time.as_nanos() as f64 / ticks.max(1) as f64
}

/// Returns the number of context switches of the calling thread so far, voluntary and involuntary (`RUSAGE_THREAD`).
///
/// # Errors
/// The kernel does not report it.
pub fn thread_switches() -> io::Result<u64> {
    // SAFETY: all octets zero is a valid `rusage`, which is numbers alone.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local that outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((usage.ru_nvcsw + usage.ru_nivcsw).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_time_and_sleep_is_a_context_switch() {
        let tick = nanoseconds_of_a_tick().unwrap();
        let (before, switches) = (now(), thread_switches().unwrap());
        thread::sleep(Duration::from_millis(5));
        let nanoseconds = (now() - before) as f64 * tick;
        assert!(nanoseconds > 4.9e6, "{nanoseconds}");
        assert!(thread_switches().unwrap() > switches);
    }
}
