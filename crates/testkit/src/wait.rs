//! Waiting for a condition, in tests with real daemons.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;

/// Calls `look` until it returns a value.
///
/// # Errors
/// The error of `look`; no value within `within`.
pub fn wait_for<T>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> Result<Option<T>, Failed>,
) -> Result<T, Failed> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("not within {within:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
