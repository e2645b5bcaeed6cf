//! Tokens: verification of the names in requests, and the end of the reservations that depend on them.
//!
//! A token is verified when a request is new or changed, never for a refresh. One ordered set has the ends of all tokens in
//! use, and one timer its first entry. The ends are times of the wall clock, so that the timer alone moves when the clock
//! jumps.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_token::{TokenError, TokenUse, verify};
use earmark_wire::rsvp::iana::{IdentityError, ObjectClass, PolicyControlError};
use earmark_wire::rsvp::{Carried, ErrorCode, PolicyData, PolicyElement};
use serde::{Deserialize, Serialize};

use super::Policy;
use super::evidence::Evidence;
use crate::api::{Change, Event};
use crate::error::ResvFault;
use crate::instance::{HandlerContext, Rsvp};
use crate::state::{Extra, Index, Rsb, Timer, TimerKind};

/// Name of a user, and whether a token proves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Name as in the token, or as claimed.
    pub name: String,
    /// Whether a token proves the name.
    pub verified: bool,
}

/// Ends of the tokens in use.
#[derive(Debug, Default)]
pub(super) struct TokensInUse {
    /// Ends, seconds since 1970, with the requests.
    ends: BTreeSet<(u64, Index)>,
    timer: Option<TimerId>,
}

/// Maximum length of an explanation of other nodes that is shown, octets.
const LONGEST_EXPLANATION: usize = 160;

const NANOSECONDS: u64 = 1_000_000_000;

impl Policy {
    /// Returns whether the token in some evidence is verified.
    pub(super) fn reads_token(&self, evidence: &Evidence<'_>) -> bool {
        evidence.token.is_some() && !self.settings.issuers.is_empty()
    }

    /// Verifies the token in some evidence for a request at `now`, seconds since 1970. Without issuers tokens are not
    /// read.
    pub(super) fn verify(
        &self,
        evidence: &mut Evidence<'_>,
        request: &TokenUse<'_>,
        now: u64,
    ) -> Result<(), ResvFault> {
        let issuers = &self.settings.issuers;
        let Some(token) = evidence.token.filter(|_| !issuers.is_empty()) else { return Ok(()) };
        let verified = verify(token, issuers, request, now).map_err(refused_token)?;
        evidence.verified = Some(verified);
        Ok(())
    }
}

impl Rsvp {
    /// Returns the time of the wall clock, seconds since 1970.
    pub(super) fn wall_clock(&self, now: Time) -> u64 {
        self.config.wall_clock.saturating_add(now.as_nanos()) / NANOSECONDS
    }

    /// Sets the wall clock after a jump. Reservations whose tokens have ended by the new time end at once, a bounded number in
    /// each turn.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.config.wall_clock = wall_clock;
        self.rearm_token_timer();
    }

    /// Counts a refused token.
    pub(super) fn count_token(&mut self, fault: &ResvFault) {
        if let Some(error) = &fault.token {
            *self.counters.tokens.entry(error.name()).or_default() += 1;
        }
    }

    /// Notes that a request has another token than before, or none.
    #[inline]
    pub(crate) fn replace_token(
        &mut self,
        rsb: Index,
        before: Option<&Extra>,
        after: Option<&Extra>,
    ) {
        let (before, after) = (end_of(before), end_of(after));
        if before != after {
            self.move_token(rsb, before, after);
        }
    }

    /// Notes the token of a new request.
    pub(crate) fn follow_token(&mut self, rsb: Index) {
        let end = end_of(self.store.rsb(rsb).extra.as_deref());
        if end.is_some() {
            self.move_token(rsb, None, end);
        }
    }

    #[cold]
    fn move_token(&mut self, rsb: Index, before: Option<u64>, after: Option<u64>) {
        let Some(policy) = &mut self.policy else { return };
        if let Some(end) = before {
            policy.tokens.ends.remove(&(end, rsb));
        }
        if let Some(end) = after {
            policy.tokens.ends.insert((end, rsb));
        }
        self.rearm_token_timer();
    }

    /// Arms the timer for the first token that ends.
    fn rearm_token_timer(&mut self) {
        let wall_clock = self.config.wall_clock;
        let Some(policy) = &mut self.policy else { return };
        let tokens = &mut policy.tokens;
        let first = tokens.ends.first().map(|&(end, _)| {
            Time::from_nanos(end.saturating_mul(NANOSECONDS).saturating_sub(wall_clock))
        });
        let timers = &mut self.store.timers;
        match (first, tokens.timer) {
            (Some(at), Some(timer)) if timers.rearm(timer, at) => {}
            (Some(at), _) => {
                let timer = Timer { kind: TimerKind::Token, block: 0 };
                tokens.timer = Some(timers.arm(at, timer));
            }
            (None, Some(timer)) => {
                timers.cancel(timer);
                tokens.timer = None;
            }
            (None, None) => {}
        }
    }

    /// Ends the reservation whose token has ended first; the timer is due again at once for the next one.
    pub(crate) fn tokens_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let now = self.wall_clock(cx.now);
        let Some(policy) = &mut self.policy else { return };
        policy.tokens.timer = None;
        let first = policy.tokens.ends.first().copied();
        if let Some((end, rsb)) = first.filter(|&(end, _)| end <= now) {
            policy.tokens.ends.remove(&(end, rsb));
            let expired = end.saturating_sub(earmark_token::TOLERANCE);
            let fault = refused_token(TokenError::Expired(expired));
            self.count_token(&fault);
            self.report_loss(cx, rsb, &fault, None);
            self.drop_reservation(cx, rsb, Change::Expired, Carried::NONE);
        }
        self.rearm_token_timer();
    }

    /// Returns the user behind a request, if it names one.
    pub(crate) fn user_of(&self, rsb: &Rsb) -> Option<User> {
        if let Some(grant) = rsb.grant()
            && grant.token_until.is_some()
        {
            return Some(User { name: grant.account.clone(), verified: true });
        }
        let carried = rsb.carried();
        if carried.is_empty() {
            return None;
        }
        let evidence = Evidence::read(Carried::Objects(carried)).ok()?;
        evidence.users.first().map(|&name| User { name: name.into(), verified: false })
    }

    /// Returns the user behind the first request of a reservation.
    pub(crate) fn user_of_block(&self, tcsb: Index) -> Option<Box<User>> {
        let rsb = self.store.first_rsb(tcsb)?;
        self.user_of(self.store.rsb(rsb)).map(Box::new)
    }
}

fn end_of(extra: Option<&Extra>) -> Option<u64> {
    extra?.grant.as_deref()?.token_until
}

/// Returns the error for a token that does not cover its request.
pub(crate) fn refused_token(error: TokenError) -> ResvFault {
    let value = match error {
        TokenError::TooLong | TokenError::Malformed => PolicyControlError::BadPolicyElement,
        TokenError::BadSignature => PolicyControlError::PolicyDataIntegrity,
        TokenError::Expired(_) => PolicyControlError::Expired,
        TokenError::RateTooLarge(_) => PolicyControlError::FlowSpecRejected,
        TokenError::UnknownIssuer
        | TokenError::NotYetValid(_)
        | TokenError::OtherDestination
        | TokenError::OtherSources
        | TokenError::OtherInterface => PolicyControlError::Rejected,
    };
    let fault = ResvFault::new(ErrorCode::PolicyControlFailure, value.code());
    ResvFault { token: Some(error), ..fault }
}

/// Returns the error value of POLICY_ERROR_OBJECT for a refused token, or for a request that rules refuse.
pub(super) fn identity_error(token: Option<TokenError>) -> IdentityError {
    match token {
        Some(TokenError::Expired(_)) => IdentityError::ExpiredCredential,
        Some(TokenError::UnknownIssuer) => IdentityError::UnsupportedCredentialType,
        _ => IdentityError::InsufficientPrivileges,
    }
}

/// Returns what a policy node says about its refusal in POLICY_ERROR_OBJECT, if it is short and printable.
pub(crate) fn stated_reason(carried: Carried<'_>) -> Option<String> {
    let objects = carried.iter();
    let data = objects
        .filter(|object| ObjectClass::from_code(object.class_num()) == ObjectClass::PolicyData)
        .filter_map(|object| PolicyData::parse(&object).ok());
    let attributes = data.flat_map(|data| data.elements).filter_map(|element| match element {
        PolicyElement::User(attributes) | PolicyElement::Application(attributes) => {
            Some(attributes)
        }
        _ => None,
    });
    let mut texts = attributes.flatten().filter_map(|attribute| Some(attribute.policy_error()?.1));
    let is_printable = |octet: &u8| *octet == b' ' || octet.is_ascii_graphic();
    let text = texts.find(|text| !text.is_empty() && text.len() <= LONGEST_EXPLANATION)?;
    let text =
        core::str::from_utf8(text).ok().filter(|text| text.as_bytes().iter().all(is_printable));
    text.map(Into::into)
}
