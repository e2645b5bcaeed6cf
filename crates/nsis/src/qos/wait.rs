//! Timers besides those of the sessions.

use super::api::Application;

/// Timers besides those of the sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// A RESERVE waits for the message with this MSG-ID.
    Message([u8; 16]),
    /// A QUERY of an application waits for its response.
    OwnQuery(Application),
    /// An aggregate, by its number, waits to shrink.
    Aggregate(usize),
    /// The first token ends.
    Token,
    /// The sessions that are bound to what has ended.
    Dependents,
}
