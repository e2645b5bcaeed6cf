//! Errors of the system as text.

use earmark_linux::TcError;

use crate::driver::TrafficControlFailure;

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failure(error: TcError) -> TrafficControlFailure {
    TrafficControlFailure { errno: error.errno(), text: with_cause(&error) }
}

/// Formats an error and its causes in one line, without repetition.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // The text of some errors already ends with their cause.
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
