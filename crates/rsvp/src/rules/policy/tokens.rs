//! Tokens: verification of the names in requests, and the end of the reservations that depend on them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Prefix, Rate, Time};
use earmark_token::{Ended, Entrance, Refused, TokenError, TokenUse, User};
use earmark_wire::rsvp::iana::{IdentityError, ObjectClass, PolicyControlError};
use earmark_wire::rsvp::{Carried, ErrorCode, PolicyData, PolicyElement, Session};

use super::evidence::Evidence;
use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::state::{Extra, Index, Rsb, Timer, TimerKind};

/// Maximum length of an explanation of other nodes that is shown, octets.
const LONGEST_EXPLANATION: usize = 160;

/// Timer for the first token that ends.
const TIMER: Timer = Timer { kind: TimerKind::Token, block: 0 };

impl Rsvp {
    /// Verifies the token in some evidence for a request. Without issuers tokens are not read.
    pub(super) fn verify_token(
        &mut self,
        now: Time,
        evidence: &mut Evidence<'_>,
        session: &Session,
        sources: &[IpAddr],
        rate: Rate,
        entrance: Entrance<'_>,
    ) -> Result<(), ResvFault> {
        let Some(token) = evidence.token.filter(|_| self.tokens.are_read()) else { return Ok(()) };
        let Session { destination, protocol, port, .. } = *session;
        let sources: Vec<Prefix> = sources.iter().copied().map(Prefix::host).collect();
        let (destination, entrance) = (Prefix::host(destination), Some(entrance));
        let request = TokenUse { destination, protocol, port, sources: &sources, rate, entrance };
        let verified = self.tokens.verify(now, token, &request).map_err(|refused| {
            self.counters.refuse_token(refused);
            match refused {
                Refused::Token(error) => refused_token(error),
                Refused::TooMany => ResvFault::limit_reached(),
            }
        })?;
        evidence.verified = Some(verified);
        Ok(())
    }

    /// Sets the wall clock after a jump. Reservations whose tokens have ended by the new time end at once, a bounded number in
    /// each turn.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.tokens.set_wall_clock(wall_clock, &mut self.store.timers, TIMER);
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
        self.tokens.replace(rsb, before, after, &mut self.store.timers, TIMER);
    }

    /// Ends the reservation whose token has ended first; the timer is due again at once for the next one.
    pub(crate) fn tokens_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let ended = self.tokens.due(cx.now, &mut self.store.timers, TIMER);
        let Some(Ended { request: rsb, error }) = ended else { return };
        self.counters.refuse_token(Refused::Token(error));
        self.report_loss(cx, rsb, &refused_token(error), None);
        self.drop_reservation(cx, rsb, Change::Expired, Carried::NONE);
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
    #[inline]
    pub(crate) fn user_of_block(&self, tcsb: Index) -> Option<Box<User>> {
        let rsb = self.store.rsb(self.store.first_rsb(tcsb)?);
        // Most requests carry no object that could name one.
        rsb.extra.as_ref().and_then(|_| self.user_of(rsb)).map(Box::new)
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
