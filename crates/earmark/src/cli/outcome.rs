//! Outcome of a command: its exit status.

use earmark_control::command::Failure;

/// Outcome of a command, and its exit status. Wrong usage is 2, by convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command succeeded.
    Done = 0,
    /// The command failed.
    Failed = 1,
    /// A reservation was refused.
    Refused = 3,
    /// No answer arrived in time.
    TimedOut = 4,
    /// Only a part of the path was reserved or queried, and `--partial` was not given.
    Part = 5,
    /// No other node takes part, and `--partial` was not given.
    OnlyHere = 6,
}

/// Code of a failure by [`wrong_usage`].
pub(super) const WRONG_USAGE: &str = "wrong_usage";

/// Returns the failure of arguments that contradict each other, which the command line reports like any wrong usage.
pub(crate) fn wrong_usage(message: &str) -> Failure {
    Failure::new(WRONG_USAGE, message, "")
}
