//! SESSION_AUTH: tokens that prove the name behind a request (RFC 5981), and the end of the reservations that depend on
//! them.
//!
//! A RESERVE or QUERY carries a CBOR Web Token in the form that [`SessionAuth::web_token`] describes; objects of other forms
//! are forwarded unread. The objects are stored with a session and are part of its full RESERVEs, so that the next node after
//! a change of routes verifies them, too. Refreshes verify nothing. A refused token is an authorization failure (section 6.2.4).

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::{Flow, InterfaceId};
use earmark_token::{Ended, Entrance, Refused as RefusedToken, TokenUse, Verified};
use earmark_wire::nsis::iana::SESSION_AUTH;
use earmark_wire::nsis::{SessionAuth, Treatment};
use earmark_wire::qos_nslp::iana::{MessageType, PermanentFailure, TransientFailure};
use earmark_wire::qos_nslp::{Extra as Objects, Outcome};

use super::QosNslp;
use super::admission::Refused;
use super::api::Change;
use super::rmf;
use super::state::Index;
use super::wait::Wait;
use crate::auth_object::keep;
use crate::nslp::HandlerContext;

const FAILURE: Outcome = Outcome::PermanentFailure(PermanentFailure::Authorization);

/// A request whose token is verified.
pub(super) struct Authorization<'a> {
    pub(super) objects: Objects<'a>,
    pub(super) flow: &'a Flow,
    pub(super) qspec: &'a [u8],
    pub(super) message: MessageType,
    /// Interface through which the request came; `None` for one of this node.
    pub(super) arrival: Option<InterfaceId>,
}

impl QosNslp {
    /// Verifies the token of a request, if there is one and this node has issuers.
    ///
    /// # Errors
    /// The token does not cover the request, or the QSPEC is invalid.
    #[inline]
    pub(super) fn authorize(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        request: &Authorization<'_>,
    ) -> Result<Option<Box<Verified>>, Refused> {
        if !self.tokens.are_read() || request.objects.is_empty() {
            return Ok(None);
        }
        self.verify_token(cx, request)
    }

    #[cold]
    fn verify_token(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        request: &Authorization<'_>,
    ) -> Result<Option<Box<Verified>>, Refused> {
        // A malformed object may be a token, and has none.
        let mut tokens = request.objects.session_auths().filter_map(|value| {
            SessionAuth::parse(value).map_or(Some(&[][..]), SessionAuth::web_token)
        });
        let Some(token) = tokens.next() else { return Ok(None) };
        let rate = rmf::evaluate(request.qspec, request.message)?.demand.rate;
        let sources = request.flow.sources();
        let entrance = request.arrival.map(|interface| Entrance::of(cx.context, interface));
        let token_use = TokenUse::of(request.flow, &sources, rate, entrance);
        let verified = self.tokens.verify(cx.now, token, &token_use);
        verified.map(|verified| Some(Box::new(verified))).map_err(|refused| {
            self.counters.refuse_token(refused);
            match refused {
                RefusedToken::Token(error) => {
                    Refused { token: Some(error), ..Refused::of(FAILURE) }
                }
                RefusedToken::TooMany => {
                    let failure = TransientFailure::ReservationFailure;
                    Refused::of(Outcome::TransientFailure(failure))
                }
            }
        })
    }

    /// Returns whether a request has other SESSION_AUTH objects than its session.
    pub(super) fn differs_in_auth(&self, index: Index, objects: Objects<'_>) -> bool {
        let stored = Objects::wire(self.store.session(index).auth());
        (!stored.is_empty() || !objects.is_empty())
            && !stored.session_auths().eq(objects.session_auths())
    }

    /// Sets the user on whose token a session depends. Nearly all sessions depend on none.
    #[inline]
    pub(super) fn set_verified(&mut self, index: Index, verified: Option<Box<Verified>>) {
        if verified.is_some() || self.store.session(index).extra.is_some() {
            self.replace_verified(index, verified);
        }
    }

    #[cold]
    fn replace_verified(&mut self, index: Index, verified: Option<Box<Verified>>) {
        let session = self.store.session_mut(index);
        let after = verified.as_ref().map(|verified| verified.until);
        let before = core::mem::replace(&mut session.extra().verified, verified);
        let before = before.map(|verified| verified.until);
        session.trim();
        self.tokens.replace(index, before, after, &mut self.waits, Wait::Token);
    }

    /// Sets the wall clock after a jump.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.tokens.set_wall_clock(wall_clock, &mut self.waits, Wait::Token);
    }

    /// Ends the reservation whose token has ended first, and notifies its QNI. The timer is due again at once for the next
    /// one.
    pub(super) fn end_with_token(&mut self, cx: &mut HandlerContext<'_, '_>) {
        let ended = self.tokens.due(cx.now, &mut self.waits, Wait::Token);
        let Some(Ended { request: index, error }) = ended else { return };
        self.counters.refuse_token(RefusedToken::Token(error));
        self.store.session_mut(index).extra().verified = None;
        self.release_claim(cx, index, Change::Expired);
        let session = self.store.session_mut(index);
        session.trim();
        let session = session.id;
        self.report_denial(cx, session, &Refused { token: Some(error), ..Refused::of(FAILURE) });
        self.notify_qni(cx, index, FAILURE);
    }
}

/// Appends the SESSION_AUTH objects of a message.
pub(super) fn keep_auth(kept: &mut Vec<u8>, objects: Objects<'_>) {
    for value in objects.session_auths() {
        keep(kept, Treatment::Forward, SESSION_AUTH, value);
    }
}
