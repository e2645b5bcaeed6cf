//! SESSION_AUTH: tokens that prove the name behind a request (RFC 5981), and the end of the sessions that depend on them.

use alloc::boxed::Box;

use earmark_core::{Flow, Rate};
use earmark_token::{Ended, Entrance, Refused as RefusedToken, TokenUse, Verified};
use earmark_wire::natfw_nslp::iana::PermanentFailure;
use earmark_wire::natfw_nslp::{Extra, Outcome};
use earmark_wire::nsis::SessionAuth;

use super::instance::NatfwNslp;
use super::outcome::{FULL, permanent};
use super::state::Index;
use super::store::Wait;
use crate::nslp::{HandlerContext, Received};

impl NatfwNslp {
    /// Verifies the token of a request, if there is one and this node has issuers.
    ///
    /// # Errors
    /// The outcome for the peer: the token does not cover the request.
    pub(super) fn verify(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        (objects, flow): (Extra<'_>, &Flow),
    ) -> Result<Option<Box<Verified>>, Outcome> {
        if !self.tokens.are_read() {
            return Ok(None);
        }
        // A malformed object may be a token, and has none.
        let mut tokens = objects.session_auths().filter_map(|value| {
            SessionAuth::parse(value).map_or(Some(&[][..]), SessionAuth::web_token)
        });
        let Some(token) = tokens.next() else { return Ok(None) };
        let sources = flow.sources();
        let entrance = Some(Entrance::of(cx.context, message.interface));
        let token_use = TokenUse::of(flow, &sources, Rate::ZERO, entrance);
        match self.tokens.verify(cx.now, token, &token_use) {
            Ok(verified) => Ok(Some(Box::new(verified))),
            Err(refused) => {
                self.counters.refuse_token(refused);
                Err(match refused {
                    RefusedToken::Token(_) => permanent(PermanentFailure::Authentication),
                    RefusedToken::TooMany => FULL,
                })
            }
        }
    }

    /// Sets the user on whose token a session depends. Nearly all sessions depend on none.
    pub(super) fn set_verified(&mut self, index: Index, verified: Option<Box<Verified>>) {
        let session = self.store.session_mut(index);
        let known = session.extra.as_ref().and_then(|extra| extra.verified.as_ref());
        let (before, after) = (
            known.map(|verified| verified.until),
            verified.as_ref().map(|verified| verified.until),
        );
        if before.is_none() && after.is_none() {
            return;
        }
        session.extra().verified = verified;
        self.tokens.replace(index, before, after, &mut self.store.timers, Wait::Token);
    }

    /// Sets the wall clock after a jump.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.tokens.set_wall_clock(wall_clock, &mut self.store.timers, Wait::Token);
    }

    /// Ends the session whose token has ended first. The timer is due again at once for the next one.
    pub(super) fn end_with_token(&mut self, cx: &mut HandlerContext<'_, '_>) {
        let ended = self.tokens.due(cx.now, &mut self.store.timers, Wait::Token);
        let Some(Ended { request: index, error }) = ended else { return };
        self.counters.refuse_token(RefusedToken::Token(error));
        self.store.session_mut(index).extra().verified = None;
        self.terminate(cx, index);
    }
}
