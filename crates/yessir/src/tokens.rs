//! Tokens that prove the name behind a request, and the end of the streams that depend on them.
//!
//! Every report of a sender carries its token, so that routers on a new route find it. A token is verified when a request is
//! new or changed, never for a refresh. A refused request is noted in the forwarded message.

use alloc::boxed::Box;

use earmark_core::{Context, Rate, Time};
use earmark_token::{Ended, Entrance, HeldToken, Refused as RefusedToken, TokenUse, Verified};
use earmark_wire::yessir::FailureReason;

use crate::api::{Change, Event};
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Yessir};
use crate::origin::OWN;
use crate::reserve::Request;
use crate::state::{Index, Timer, TimerKind};

/// The one timer for the ends of tokens.
const TIMER: Timer = Timer { kind: TimerKind::Token, block: 0 };

impl Yessir {
    /// Checks the token of a new request, or of one whose rate has changed to `rate`. Returns the token for the state of the stream.
    ///
    /// # Errors
    /// The reason for the note in the message.
    #[inline]
    pub(crate) fn check_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        request: &Request<'_>,
        rate: Rate,
    ) -> Result<Option<Box<HeldToken>>, FailureReason> {
        if request.token.is_none() && !self.config.required.needs_name() {
            return Ok(None);
        }
        self.accept_token(now, context, request, rate)
    }

    #[inline(never)]
    fn accept_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        request: &Request<'_>,
        rate: Rate,
    ) -> Result<Option<Box<HeldToken>>, FailureReason> {
        let mut verified = None;
        if request.arrival != OWN {
            if let Some(token) = request.token.filter(|_| self.tokens.are_read()) {
                verified = Some(self.verify_token(now, context, request, (token, rate))?);
            }
            let name = verified.as_ref().map(|verified| verified.name.as_str());
            if !self.config.required.allows(name) {
                *self.counters.ignored.entry(DropReason::NotVerified).or_default() += 1;
                return Err(FailureReason::Authorization);
            }
        }
        Ok(HeldToken::of(request.token, verified))
    }

    fn verify_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        request: &Request<'_>,
        (token, rate): (&[u8], Rate),
    ) -> Result<Verified, FailureReason> {
        let (flow, entrance) = (request.stream.flow(), Entrance::of(context, request.arrival));
        let sources = flow.sources();
        let token_use = TokenUse::of(&flow, &sources, rate, Some(entrance));
        self.tokens.verify(now, token, &token_use).map_err(|refused| {
            self.counters.refuse_token(refused);
            match refused {
                RefusedToken::Token(_) => {
                    *self.counters.ignored.entry(DropReason::Token).or_default() += 1;
                    FailureReason::Authorization
                }
                RefusedToken::TooMany => self.limit_reached().reason,
            }
        })
    }

    /// Sets the token of a stream, and with it the time until which the stream is reserved at most. Most streams have none.
    #[inline]
    pub(crate) fn set_token(&mut self, index: Index, token: Option<Box<HeldToken>>) {
        if token.is_some() || self.store.session(index).extra.is_some() {
            self.replace_token(index, token);
        }
    }

    #[cold]
    fn replace_token(&mut self, index: Index, token: Option<Box<HeldToken>>) {
        let session = self.store.session_mut(index);
        let after = token.as_ref().and_then(|token| token.until());
        let extra = session.extra.get_or_insert_default();
        let before = core::mem::replace(&mut extra.token, token);
        let before = before.and_then(|token| token.until());
        self.tokens.replace(index, before, after, &mut self.store.timers, TIMER);
    }

    /// Sets the wall clock after a jump.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.tokens.set_wall_clock(wall_clock, &mut self.store.timers, TIMER);
    }

    /// Ends the reservation of the stream whose token has ended first. The sender learns it from the note in its next
    /// report. The timer is due again at once for the next stream.
    pub(crate) fn end_with_token<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let ended = self.tokens.due(cx.now, &mut self.store.timers, TIMER);
        let Some(Ended { request: index, error }) = ended else { return };
        self.counters.refuse_token(RefusedToken::Token(error));
        if let Some(extra) = &mut self.store.session_mut(index).extra {
            extra.token = None;
        }
        self.remove_session(cx, index, Change::Expired);
    }
}
