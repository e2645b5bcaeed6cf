//! Checkpoint 3: named points in message processing, each with a timestamp of the processor's counter.
//!
//! A thread enables its marks ([`record`]) and gets them back; marks of other threads cost a check of a variable. The
//! cost of a mark itself is measured in the same way ([`Clock::calibrate`]), and subtracted from every step.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use earmark_core::checkpoint::{Checkpoint, Hook, enable, mark, set_hook};
use earmark_lab::statistics::trimmed_mean;
use earmark_linux::cycles;

/// Capacity of one recording, marks.
const CAPACITY: usize = 2_048;

/// A mark, and its time in ticks of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TracePoint {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) ticks: u64,
}

/// The marks of a thread.
struct ThreadTrace {
    wanted: Cell<bool>,
    count: Cell<usize>,
    stamps: [Cell<TracePoint>; CAPACITY],
}

thread_local! {
    static TRACE: ThreadTrace = const {
        const NOTHING: TracePoint = TracePoint { checkpoint: Checkpoint::Begin, ticks: 0 };
        ThreadTrace {
            wanted: Cell::new(false),
            count: Cell::new(0),
            stamps: [const { Cell::new(NOTHING) }; CAPACITY],
        }
    };
}

static HOOK: Hook = stamp;
/// Number of values of [`CheckpointTracing`] that exist.
static HOLDERS: Mutex<u32> = Mutex::new(0);

fn stamp(checkpoint: Checkpoint) {
    TRACE.with(|stamps| {
        if !stamps.wanted.get() {
            return;
        }
        let count = stamps.count.get();
        if let Some(cell) = stamps.stamps.get(count) {
            cell.set(TracePoint { checkpoint, ticks: cycles::now() });
        }
        stamps.count.set(count + 1);
    });
}

/// Enables marks for as long as the value exists.
pub(crate) struct CheckpointTracing(());

impl CheckpointTracing {
    /// Enables marks.
    pub(crate) fn begin() -> CheckpointTracing {
        // Only this module sets a hook, so an existing one is this one.
        let _ = set_hook(&HOOK);
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        *holders += 1;
        enable(true);
        CheckpointTracing(())
    }
}

impl Drop for CheckpointTracing {
    fn drop(&mut self) {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        *holders -= 1;
        enable(*holders > 0);
    }
}

/// Runs `work`, and replaces the content of `into` by the marks of this run; returns the result, and whether the
/// thread kept its processor all the while.
///
/// # Errors
/// There were more marks than a recording holds.
pub(crate) fn record<T>(
    _: &CheckpointTracing,
    into: &mut Vec<TracePoint>,
    work: impl FnOnce() -> T,
) -> Result<(T, bool)> {
    let switches = cycles::thread_switches().context("cannot count context switches")?;
    TRACE.with(|stamps| {
        stamps.count.set(0);
        stamps.wanted.set(true);
    });
    let done = work();
    let undisturbed = cycles::thread_switches()? == switches;
    into.clear();
    let count = TRACE.with(|stamps| {
        stamps.wanted.set(false);
        into.extend(stamps.stamps.iter().take(stamps.count.get()).map(Cell::get));
        stamps.count.get()
    });
    ensure!(
        count <= CAPACITY,
        "{count} marks, and room for {CAPACITY}: record fewer messages at once"
    );
    Ok((done, undisturbed))
}

/// Conversion from ticks to time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Length of a tick, nanoseconds.
    pub(crate) tick: f64,
    /// Cost of a mark, ticks.
    pub(crate) mark: f64,
}

impl Clock {
    /// Compares the counter with the system's clock, and measures the cost of a mark: the time between two marks with
    /// nothing between them.
    ///
    /// # Errors
    /// The counter does not advance evenly.
    pub(crate) fn calibrate(marks: &CheckpointTracing) -> Result<Clock> {
        let cannot = "the steps of messages cannot be timed here";
        let tick = cycles::nanoseconds_of_a_tick().context(cannot)?;
        let mut clock = Clock { tick, mark: 0.0 };
        clock.measure_mark_cost(marks)?;
        Ok(clock)
    }

    /// Measures the cost of a mark again.
    ///
    /// # Errors
    /// The kernel does not report context switches.
    pub(crate) fn measure_mark_cost(&mut self, marks: &CheckpointTracing) -> Result<()> {
        let mut stamps = Vec::new();
        record(marks, &mut stamps, || (0..CAPACITY).for_each(|_| mark(Checkpoint::Parse)))?;
        let between = stamps.windows(2).map(|pair| (pair[1].ticks - pair[0].ticks) as f64);
        self.mark = trimmed_mean(between);
        Ok(())
    }

    /// Returns the time from one mark to the next, less the cost of the mark, microseconds. A step below the
    /// resolution of the counter may come out slightly negative, so that the mean of many is right.
    pub(crate) fn step_us(&self, from: TracePoint, to: TracePoint) -> f64 {
        let ticks = to.ticks.saturating_sub(from.ticks) as f64 - self.mark;
        ticks * self.tick / 1e3
    }

    /// Returns the total time of a message's steps that end with such a mark, microseconds.
    pub(crate) fn steps_us(
        &self,
        message: &[TracePoint],
        is_one: impl Fn(Checkpoint) -> bool,
    ) -> f64 {
        let pairs = message.windows(2).filter(|pair| is_one(pair[1].checkpoint));
        pairs.map(|pair| self.step_us(pair[0], pair[1])).sum()
    }

    /// Returns the cost of a mark, nanoseconds.
    pub(crate) fn mark_ns(&self) -> f64 {
        self.mark * self.tick
    }
}

/// Divides marks by message, from [`Checkpoint::Begin`] on.
pub(crate) fn by_message(stamps: &[TracePoint]) -> impl Iterator<Item = &[TracePoint]> {
    stamps
        .chunk_by(|_, next| next.checkpoint != Checkpoint::Begin)
        .filter(|message| message[0].checkpoint == Checkpoint::Begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_recorded_in_order_and_only_if_enabled() {
        let marks = CheckpointTracing::begin();
        mark(Checkpoint::Parse);
        let mut stamps = Vec::new();
        let work = || {
            for _ in 0..3 {
                [Checkpoint::Begin, Checkpoint::Parse, Checkpoint::End].into_iter().for_each(mark);
            }
            7
        };
        let (done, _) = record(&marks, &mut stamps, work).unwrap();
        assert_eq!((done, stamps.len()), (7, 9));
        assert!(stamps.windows(2).all(|pair| pair[0].ticks <= pair[1].ticks));
        assert!(by_message(&stamps).map(<[TracePoint]>::len).eq([3, 3, 3]));
        assert_eq!(by_message(&stamps[1..]).count(), 2, "the first has lost its beginning");
        let work = || (0..=CAPACITY).for_each(|_| mark(Checkpoint::Parse));
        assert!(record(&marks, &mut stamps, work).is_err());
    }

    #[test]
    fn checkpoint_cost_is_small_and_subtracted() {
        let marks = CheckpointTracing::begin();
        let clock = Clock::calibrate(&marks).unwrap();
        assert!(clock.mark_ns() > 0.0 && clock.mark_ns() < 100_000.0, "{clock:?}");
        let at = |ticks| TracePoint { checkpoint: Checkpoint::Parse, ticks };
        let clock = Clock { tick: 0.5, mark: 20.0 };
        assert_eq!(clock.step_us(at(100), at(2_120)), 1.0);
        assert_eq!(clock.step_us(at(100), at(110)), -0.005);
    }
}
