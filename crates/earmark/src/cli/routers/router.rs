//! A router whose daemon has answered.

use std::path::PathBuf;
use std::time::Duration;

use earmark_control::command::Failure;

use super::names::RouterName;

/// Time for an answer of a daemon that has answered before.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A router that is connected.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub(crate) name: RouterName,
    /// Local socket that is forwarded to the daemon.
    pub(crate) socket: PathBuf,
}

/// Returns the failure of a daemon that does not answer within [`ANSWER_TIMEOUT`].
pub(crate) fn no_answer() -> Failure {
    let message = format!("the daemon does not answer within {} s", ANSWER_TIMEOUT.as_secs());
    Failure::new("timeout", message, "`systemctl status earmark` there says what it does")
}
