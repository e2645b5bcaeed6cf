//! Named checkpoints in message processing, for the lab to time. They compile to nothing without the feature
//! `checkpoints`.
//!
//! An engine calls [`mark`] where a step of its message processing *ends*; the time since the mark before belongs to
//! the step. [`Checkpoint::Begin`] starts the clock. The steps are those that the overhead studies publish figures
//! for, so that ours can be compared. The effect of a mark is up to the hook that the lab sets: it can read a cycle
//! counter, which this crate, having neither clock nor `unsafe`, cannot. A mark has no result, so it cannot change
//! behaviour.

crate::named_enum! {
    /// End of a step of message processing. The numbers are those of the order: `ALL[n] as u8 == n`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum Checkpoint {
        /// The message was passed to the engine; the steps begin.
        Begin = "begin",
        /// The message was parsed.
        Parse = "parse",
        /// The message was authenticated.
        Integrity = "integrity",
        /// The session or flow was looked up.
        FindSession = "find_session",
        /// The session or flow was created.
        CreateSession = "create_session",
        /// The path state block was looked up.
        SearchPsb = "search_psb",
        /// The path state block was created.
        CreatePsb = "create_psb",
        /// The next hop is known.
        Route = "route",
        /// The Path message was forwarded.
        PathRefresh = "path_refresh",
        /// The styles of the reservations were compared.
        CheckStyles = "check_styles",
        /// The reservation state block was looked up.
        FindRsb = "find_rsb",
        /// Admission control has decided.
        Admission = "admission",
        /// The reservation was merged, admitted and passed to traffic control.
        ReservationManagement = "reservation_management",
        /// The Resv message was forwarded.
        ResvRefresh = "resv_refresh",
        /// The path state was removed.
        TearPsb = "tear_psb",
        /// The reservation state was removed.
        TearRsb = "tear_rsb",
        /// The session was removed.
        TearSession = "tear_session",
        /// A refresh without a change was processed (one-pass protocols).
        Refresh = "refresh",
        /// The message was forwarded, unchanged or edited.
        Forward = "forward",
        /// The outgoing message was composed.
        Compose = "compose",
        /// Timers were armed or have fired.
        Timers = "timers",
        /// All effects of the message are known.
        End = "end",
        /// Traffic control has applied the effects.
        TrafficControl = "traffic_control",
        /// The resulting messages were passed on to be sent.
        HandOut = "hand_out",
    }
}

/// Marks the end of a step. Compiles to nothing without the feature `checkpoints`; with it, one load and a branch
/// until marks are enabled ([`enable`]).
#[inline(always)]
pub fn mark(checkpoint: Checkpoint) {
    #[cfg(feature = "checkpoints")]
    hook::call(checkpoint);
    #[cfg(not(feature = "checkpoints"))]
    let _ = checkpoint;
}

#[cfg(feature = "checkpoints")]
pub use hook::{Hook, HookAlreadySet, enable, set_hook};

#[cfg(feature = "checkpoints")]
mod hook {
    use core::sync::atomic::{AtomicBool, Ordering};

    use once_cell::race::OnceRef;

    use super::Checkpoint;

    /// Function called by each mark. Runs during message processing, so it should be quick and must not panic.
    pub type Hook = fn(Checkpoint);

    /// Error: a hook is set already; a process has only one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[error("the hook for checkpoints is already set")]
    pub struct HookAlreadySet;

    /// Set once and then only read, so a mark needs no lock.
    static HOOK: OnceRef<'static, Hook> = OnceRef::new();

    /// Whether marks are enabled. No other data depends on it, so relaxed ordering is enough.
    static ENABLED: AtomicBool = AtomicBool::new(false);

    /// Enables or disables marks: a process that measures something else must not pay for them.
    pub fn enable(enabled: bool) {
        ENABLED.store(enabled, Ordering::Relaxed);
    }

    /// Sets the function that every mark of the process calls while marks are enabled: `set_hook(&(stamp as Hook))`.
    pub fn set_hook(hook: &'static Hook) -> Result<(), HookAlreadySet> {
        HOOK.set(hook).map_err(|()| HookAlreadySet)
    }

    #[inline(always)]
    pub(super) fn call(checkpoint: Checkpoint) {
        if ENABLED.load(Ordering::Relaxed) {
            call_enabled(checkpoint);
        }
    }

    /// A separate function, so that a disabled mark adds almost nothing to its caller.
    #[cold]
    #[inline(never)]
    fn call_enabled(checkpoint: Checkpoint) {
        if let Some(hook) = HOOK.get() {
            hook(checkpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct() {
        let names: BTreeSet<_> = Checkpoint::ALL.into_iter().map(Checkpoint::name).collect();
        assert_eq!(names.len(), Checkpoint::ALL.len());
    }

    /// One test for the hook's whole life, since a process has only one.
    #[test]
    #[cfg(feature = "checkpoints")]
    fn hook_is_called_for_every_enabled_mark() {
        use core::sync::atomic::{AtomicU32, Ordering};
        static SEEN: AtomicU32 = AtomicU32::new(0);
        fn see(checkpoint: Checkpoint) {
            SEEN.fetch_or(1 << checkpoint as u32, Ordering::Relaxed);
        }

        mark(Checkpoint::Begin);
        assert_eq!(SEEN.load(Ordering::Relaxed), 0);
        assert_eq!(set_hook(&(see as Hook)), Ok(()));
        mark(Checkpoint::Begin);
        assert_eq!(SEEN.load(Ordering::Relaxed), 0);
        enable(true);
        mark(Checkpoint::Parse);
        mark(Checkpoint::End);
        enable(false);
        mark(Checkpoint::Begin);
        let expected = 1 << Checkpoint::Parse as u32 | 1 << Checkpoint::End as u32;
        assert_eq!(SEEN.load(Ordering::Relaxed), expected);
        assert_eq!(set_hook(&(see as Hook)), Err(HookAlreadySet));
    }
}
