//! The contract of every protocol engine.

use crate::{Context, Effects, Input, Time};

/// A protocol engine without I/O.
///
/// # Contract
/// - `now` never goes back from one call to the next.
/// - All effects of an input are in `out` when [`handle`](Engine::handle) returns; none follow later.
/// - The driver calls `handle` with [`Input::Expire`] at or after the deadline of
///   [`next_deadline`](Engine::next_deadline); early or surplus calls do nothing, a late one catches up.
pub trait Engine {
    /// Commands of this node's users.
    type Command;
    /// Events of this engine.
    type Event;
    /// Purpose of the next deadline.
    type TimerKind: Copy + core::fmt::Debug;

    /// Handles one input and writes all its effects. Never blocks, never reads a clock, does bounded work.
    fn handle<E: From<Self::Event>>(
        &mut self,
        now: Time,
        input: Input<'_, Self::Command>,
        context: &mut Context<'_>,
        out: &mut Effects<E>,
    );

    /// Returns when [`Input::Expire`] is due next, and why. O(1). `None` if no deadline is set.
    fn next_deadline(&self) -> Option<(Time, Self::TimerKind)>;
}
