//! Tokens in one engine: their verification, at a limited rate, and the ends of those in use.
//!
//! An engine verifies a token when a request is new or changed, never for a refresh. One ordered set has the ends of all
//! tokens in use, and one timer of the engine its first entry. The ends are times of the wall clock, so that the timer
//! alone moves when the clock jumps.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::Time;
use earmark_core::throttle::Throttle;
use earmark_core::timer::{TimerId, TimingWheel};
use serde::{Deserialize, Serialize};

use crate::verify::{Issuer, TOLERANCE, TokenError, TokenUse, Verified, verify};

/// Settings for tokens. By default there are no issuers, and tokens are forwarded unread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// Name of this router, as in tokens that are bound to one of its interfaces.
    pub router: String,
    /// Wall-clock time at [`Time::ZERO`], nanoseconds since 1970.
    pub wall_clock: u64,
    /// Limit of tokens in one second that are verified for the requests through one access interface: a verification
    /// takes much more work than anything else in a message.
    pub verifications_per_second: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            issuers: Vec::new(),
            router: String::new(),
            wall_clock: 0,
            verifications_per_second: 500,
        }
    }
}

/// Why the name in a token is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The token does not cover the request.
    Token(TokenError),
    /// The requests through this access interface have too many tokens.
    TooMany,
}

impl Refused {
    /// Returns the name in counters.
    pub fn name(&self) -> &'static str {
        match self {
            Refused::Token(error) => error.name(),
            Refused::TooMany => "too_many",
        }
    }
}

/// Verification of tokens, and the requests `K` that depend on one.
#[derive(Debug)]
pub struct Tokens<K> {
    settings: Settings,
    budget: Throttle,
    /// Ends, seconds since 1970, with the requests.
    ends: BTreeSet<(u64, K)>,
    timer: Option<TimerId>,
}

/// A request whose token has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<K> {
    /// The request.
    pub request: K,
    /// The error of the token from now on.
    pub error: TokenError,
}

const NANOSECONDS: u64 = 1_000_000_000;

impl<K: Copy + Ord> Tokens<K> {
    /// Creates the state of an engine without requests.
    pub fn new(settings: Settings) -> Tokens<K> {
        let (budget, ends) = (Throttle::default(), BTreeSet::new());
        Tokens { settings, budget, ends, timer: None }
    }

    /// Replaces the settings, except the wall clock, which [`Tokens::set_wall_clock`] sets. Requests that have been
    /// granted stay until their tokens end.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = Settings { wall_clock: self.settings.wall_clock, ..settings };
    }

    /// Returns whether tokens are read: without issuers they are not.
    #[inline]
    pub fn are_read(&self) -> bool {
        !self.settings.issuers.is_empty()
    }

    /// Returns the time of the wall clock, seconds since 1970.
    fn wall_clock(&self, now: Time) -> u64 {
        self.settings.wall_clock.saturating_add(now.as_nanos()) / NANOSECONDS
    }

    /// Verifies a token for a request, if tokens [are read](Tokens::are_read).
    ///
    /// # Errors
    /// The token does not cover the request, or the budget of the interface is used up.
    pub fn verify(
        &mut self,
        now: Time,
        token: &[u8],
        request: &TokenUse<'_>,
    ) -> Result<Verified, Refused> {
        if let Some(entrance) = request.entrance.filter(|entrance| !entrance.is_core) {
            let (key, rate) = (entrance.interface.0, self.settings.verifications_per_second);
            if !self.budget.admits(now, key.into(), rate) {
                return Err(Refused::TooMany);
            }
        }
        let Settings { issuers, router, .. } = &self.settings;
        let verified = verify(token, issuers, router, request, self.wall_clock(now));
        verified.map_err(Refused::Token)
    }

    /// Notes that a request depends on a token until `after` instead of `before`, seconds since 1970. The payload is that of
    /// the engine's timer for tokens.
    pub fn replace<T: Copy>(
        &mut self,
        request: K,
        before: Option<u64>,
        after: Option<u64>,
        timers: &mut TimingWheel<T>,
        payload: T,
    ) {
        if before == after {
            return;
        }
        if let Some(end) = before {
            self.ends.remove(&(end, request));
        }
        if let Some(end) = after {
            self.ends.insert((end, request));
        }
        self.rearm(timers, payload);
    }

    /// Sets the wall clock, nanoseconds since 1970 at [`Time::ZERO`], after a jump. Requests whose tokens have ended by the
    /// new time are due at once.
    pub fn set_wall_clock<T: Copy>(
        &mut self,
        wall_clock: u64,
        timers: &mut TimingWheel<T>,
        payload: T,
    ) {
        self.settings.wall_clock = wall_clock;
        self.rearm(timers, payload);
    }

    /// Returns the request whose token has ended first, when the timer for tokens is due. The timer is due again at once for
    /// the next one.
    pub fn due<T: Copy>(
        &mut self,
        now: Time,
        timers: &mut TimingWheel<T>,
        payload: T,
    ) -> Option<Ended<K>> {
        self.timer = None;
        let clock = self.wall_clock(now);
        let ended = self.ends.first().copied().filter(|&(end, _)| end <= clock);
        if let Some(first) = ended {
            self.ends.remove(&first);
        }
        self.rearm(timers, payload);
        ended.map(|(end, request)| Ended {
            request,
            error: TokenError::Expired(end.saturating_sub(TOLERANCE)),
        })
    }

    /// Arms the timer for the first token that ends.
    fn rearm<T: Copy>(&mut self, timers: &mut TimingWheel<T>, payload: T) {
        let first = self.ends.first().map(|&(end, _)| {
            let at = end.saturating_mul(NANOSECONDS);
            Time::from_nanos(at.saturating_sub(self.settings.wall_clock))
        });
        match (first, self.timer) {
            (Some(at), Some(timer)) if timers.rearm(timer, at) => {}
            (Some(at), _) => self.timer = Some(timers.arm(at, payload)),
            (None, Some(timer)) => {
                timers.cancel(timer);
                self.timer = None;
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const NOW: u64 = 1_000;

    fn tokens() -> Tokens<u32> {
        Tokens::new(Settings { wall_clock: NOW * NANOSECONDS, ..Settings::default() })
    }

    fn ended(tokens: &mut Tokens<u32>, timers: &mut TimingWheel<()>, at: Time) -> Vec<u32> {
        let mut ended = Vec::new();
        while timers.pop_due(at).is_some() {
            ended.extend(tokens.due(at, timers, ()).map(|ended| ended.request));
        }
        ended
    }

    #[test]
    fn requests_end_with_their_tokens_in_order() {
        let (mut tokens, mut timers) = (tokens(), TimingWheel::new());
        for (request, end) in [(1, 30), (2, 10), (3, 10), (4, 20)] {
            tokens.replace(request, None, Some(NOW + end), &mut timers, ());
        }
        tokens.replace(4, Some(NOW + 20), Some(NOW + 40), &mut timers, ());
        tokens.replace(1, Some(NOW + 30), None, &mut timers, ());
        assert_eq!(ended(&mut tokens, &mut timers, Time::from_secs(9)), [0_u32; 0]);
        assert_eq!(ended(&mut tokens, &mut timers, Time::from_secs(10)), [2, 3]);
        assert_eq!(ended(&mut tokens, &mut timers, Time::from_secs(39)), [0_u32; 0]);
        assert_eq!(ended(&mut tokens, &mut timers, Time::from_secs(40)), [4]);
        assert!(timers.is_empty() && tokens.ends.is_empty());
    }

    /// A clock that goes back delays the ends, one that goes forth brings them at once.
    #[test]
    fn jump_of_the_clock_moves_the_ends() {
        for (jump, at) in [(NOW - 5, 15), (NOW + 5, 5), (NOW + 500, 1)] {
            let (mut tokens, mut timers) = (tokens(), TimingWheel::new());
            tokens.replace(1, None, Some(NOW + 10), &mut timers, ());
            let start = Time::from_secs(1);
            assert_eq!(timers.pop_due(start), None);
            tokens.set_wall_clock(jump * NANOSECONDS, &mut timers, ());
            let end = Time::from_secs(at);
            let early = end.as_nanos().checked_sub(1_000_000).map(Time::from_nanos);
            if let Some(early) = early.filter(|early| *early > start) {
                assert_eq!(ended(&mut tokens, &mut timers, early), [0_u32; 0]);
            }
            assert_eq!(ended(&mut tokens, &mut timers, end + Duration::from_millis(1)), [1]);
        }
    }
}
