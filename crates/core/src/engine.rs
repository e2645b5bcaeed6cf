//! The contract that every protocol engine fulfils.

use crate::{Context, Effects, Input, Time};

/// A protocol, without I/O.
///
/// # Contract
/// - `now` never goes back from one call to the next.
/// - All consequences of an input are in `out` when [`handle`](Engine::handle) returns; none come later by themselves.
/// - The driver calls `handle` with [`Input::Expire`] at or after the deadline of
///   [`next_deadline`](Engine::next_deadline); early or surplus calls do nothing, a late one catches up.
pub trait Engine {
    /// What a user of this node can ask for.
    type Command;
    /// What this engine reports.
    type Event;
    /// Why the next deadline exists.
    type TimerKind: Copy + core::fmt::Debug;

    /// One input, all its consequences. Never blocks, never reads a clock, does bounded work.
    fn handle<E: From<Self::Event>>(
        &mut self,
        now: Time,
        input: Input<'_, Self::Command>,
        context: &mut Context<'_>,
        out: &mut Effects<E>,
    );

    /// When [`Input::Expire`] is due next, and why. O(1). `None`: not before another input came.
    fn next_deadline(&self) -> Option<(Time, Self::TimerKind)>;
}
