//! Times of one structure with one number of sessions.

/// Times with a number of sessions, in order of time.
pub(super) struct TimesBySize {
    pub(super) name: &'static str,
    pub(super) sessions: u32,
    pub(super) times: Vec<f64>,
}

impl TimesBySize {
    pub(super) fn new(name: &'static str, sessions: u32) -> TimesBySize {
        TimesBySize { name, sessions, times: Vec::new() }
    }
}
