//! Errors of the system as text.

use earmark_control::command::with_cause;
use earmark_linux::TcError;

use crate::driver::TrafficControlFailure;

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failure(error: TcError) -> TrafficControlFailure {
    TrafficControlFailure { errno: error.errno(), text: with_cause(&error) }
}
