//! Named points in message processing, for the lab to time. They compile to nothing unless `checkpoints` is on.
//!
//! An engine calls [`mark`] where a step of its message processing *ends*; the time since the mark before belongs to
//! the step. [`Checkpoint::Begin`] starts the clock. The steps are those that the overhead studies print figures for, so
//! that ours can stand beside theirs. What a mark does is up to the hook that the lab sets: it can read a cycle counter,
//! which this crate, having neither clock nor `unsafe`, cannot. A mark has no result, so it cannot change behaviour.

/// A step of message processing, at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Checkpoint {
    /// The message was handed to the engine; the steps begin.
    Begin,
    /// The octets are a message.
    Parse,
    /// The message is from whom it says.
    Integrity,
    /// The session or flow was looked for.
    FindSession,
    /// It was created.
    CreateSession,
    /// The path state block was looked for.
    SearchPsb,
    /// It was created.
    CreatePsb,
    /// The next hop is known.
    Route,
    /// The Path message went on.
    PathRefresh,
    /// The styles of the reservations agree.
    CheckStyles,
    /// The reservation state block was looked for.
    FindRsb,
    /// Admission control has spoken.
    Admission,
    /// The reservation was merged, admitted and handed to traffic control.
    ReservationManagement,
    /// The Resv message went on.
    ResvRefresh,
    /// The path state is gone.
    TearPsb,
    /// The reservation state is gone.
    TearRsb,
    /// The session is gone.
    TearSession,
    /// A message that says nothing new was noted (protocols of one pass).
    Refresh,
    /// The message went on, as it was or edited.
    Forward,
    /// The outgoing message was composed.
    Compose,
    /// Timers were armed or have fired.
    Timers,
    /// All consequences of the message are known.
    End,
    /// Traffic control has done what the consequences ask of it.
    TrafficControl,
    /// The messages that came of it were handed out to be sent.
    HandOut,
}

impl Checkpoint {
    /// All of them, in the order of their numbers: `ALL[n] as u8 == n`.
    pub const ALL: [Checkpoint; 24] = [
        Checkpoint::Begin,
        Checkpoint::Parse,
        Checkpoint::Integrity,
        Checkpoint::FindSession,
        Checkpoint::CreateSession,
        Checkpoint::SearchPsb,
        Checkpoint::CreatePsb,
        Checkpoint::Route,
        Checkpoint::PathRefresh,
        Checkpoint::CheckStyles,
        Checkpoint::FindRsb,
        Checkpoint::Admission,
        Checkpoint::ReservationManagement,
        Checkpoint::ResvRefresh,
        Checkpoint::TearPsb,
        Checkpoint::TearRsb,
        Checkpoint::TearSession,
        Checkpoint::Refresh,
        Checkpoint::Forward,
        Checkpoint::Compose,
        Checkpoint::Timers,
        Checkpoint::End,
        Checkpoint::TrafficControl,
        Checkpoint::HandOut,
    ];

    /// Its name in reports, `create_psb`.
    pub const fn name(self) -> &'static str {
        match self {
            Checkpoint::Begin => "begin",
            Checkpoint::Parse => "parse",
            Checkpoint::Integrity => "integrity",
            Checkpoint::FindSession => "find_session",
            Checkpoint::CreateSession => "create_session",
            Checkpoint::SearchPsb => "search_psb",
            Checkpoint::CreatePsb => "create_psb",
            Checkpoint::Route => "route",
            Checkpoint::PathRefresh => "path_refresh",
            Checkpoint::CheckStyles => "check_styles",
            Checkpoint::FindRsb => "find_rsb",
            Checkpoint::Admission => "admission",
            Checkpoint::ReservationManagement => "reservation_management",
            Checkpoint::ResvRefresh => "resv_refresh",
            Checkpoint::TearPsb => "tear_psb",
            Checkpoint::TearRsb => "tear_rsb",
            Checkpoint::TearSession => "tear_session",
            Checkpoint::Refresh => "refresh",
            Checkpoint::Forward => "forward",
            Checkpoint::Compose => "compose",
            Checkpoint::Timers => "timers",
            Checkpoint::End => "end",
            Checkpoint::TrafficControl => "traffic_control",
            Checkpoint::HandOut => "hand_out",
        }
    }
}

/// Marks the end of a step. Nothing at all without the feature `checkpoints`; one load and a branch with it, until somebody
/// wants marks ([`enable`]).
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

    /// What a mark does. It runs in the midst of message processing, so it should be quick and must not panic.
    pub type Hook = fn(Checkpoint);

    /// There is a hook already; one for the life of the process is all there can be.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    #[error("the hook for checkpoints is set already")]
    pub struct HookAlreadySet;

    /// Set once and then only read, so a mark needs no lock.
    static HOOK: OnceRef<'static, Hook> = OnceRef::new();

    /// Whether marks are wanted. Nothing else hangs on it, so it needs no order.
    static ENABLED: AtomicBool = AtomicBool::new(false);

    /// Has marks call the hook, or stops that: a process that measures something else must not pay for them.
    pub fn enable(enabled: bool) {
        ENABLED.store(enabled, Ordering::Relaxed);
    }

    /// Sets what every mark of the process does whenever marks are enabled: `set_hook(&(stamp as Hook))`.
    pub fn set_hook(hook: &'static Hook) -> Result<(), HookAlreadySet> {
        HOOK.set(hook).map_err(|()| HookAlreadySet)
    }

    #[inline(always)]
    pub(super) fn call(checkpoint: Checkpoint) {
        if ENABLED.load(Ordering::Relaxed) {
            call_enabled(checkpoint);
        }
    }

    /// Apart, so that a mark that nobody wants takes next to nothing of the function that it is in.
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
    fn the_list_is_complete_and_its_names_differ() {
        for (number, checkpoint) in Checkpoint::ALL.into_iter().enumerate() {
            assert_eq!(checkpoint as usize, number);
        }
        assert_eq!(Checkpoint::ALL.last(), Some(&Checkpoint::HandOut));
        let names: BTreeSet<_> = Checkpoint::ALL.into_iter().map(Checkpoint::name).collect();
        assert_eq!(names.len(), Checkpoint::ALL.len());
    }

    /// One test for all of the hook's life, because a process has only one.
    #[test]
    #[cfg(feature = "checkpoints")]
    fn the_hook_sees_every_mark_while_marks_are_enabled() {
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
