//! Checkpoints that a test's messages pass.

use std::sync::atomic::{AtomicU32, Ordering};

use earmark_core::checkpoint::Checkpoint;

/// Bit `n` is checkpoint number `n`, set if it was passed since the last query.
static PASSED: AtomicU32 = AtomicU32::new(0);

/// Hook that notes a passed checkpoint. A process has only one hook, so all cases are one test.
pub fn note(checkpoint: Checkpoint) {
    PASSED.fetch_or(1 << checkpoint as u32, Ordering::Relaxed);
}

/// Returns whether a checkpoint was passed since the last query.
pub fn passed(checkpoint: Checkpoint) -> bool {
    PASSED.swap(0, Ordering::Relaxed) & 1 << checkpoint as u32 != 0
}
