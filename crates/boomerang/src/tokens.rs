//! Tokens that prove the name behind a request, and the end of the sessions that depend on them.
//!
//! Every request of an initiating node carries the token in an option, so that nodes on a new route find it. A token is
//! verified when a request makes or changes a reservation, never for a refresh. It is for the packets of the forward
//! direction; its rate limits each direction. On the return pass the access interface is that of the request.

use alloc::boxed::Box;

use earmark_core::{Context, InterfaceId, Rate, Time};
use earmark_token::{Ended, Entrance, HeldToken, Refused as RefusedToken, TokenUse, Verified};

use crate::api::{Change, Event};
use crate::arrival::NONE;
use crate::context::HandlerContext;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::selector::{Direction, Selector};
use crate::state::{Index, Timer};

impl Boomerang {
    /// Checks the token of a message that makes or changes a reservation, and stores it with a known session.
    #[inline]
    pub(crate) fn check_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
        wanted: u32,
    ) -> Result<(), Refused> {
        let needs_name = self.config.required.needs_name() && transit.origin != Origin::Own;
        let has_token = |index| self.store.session(index).token().is_some();
        let is_plain = !transit.view.has_options() && !known.is_some_and(has_token);
        if wanted == 0 || (is_plain && !needs_name) {
            return Ok(());
        }
        self.accept_token(now, context, transit, known, wanted)
    }

    /// Returns whether a message brings another token than that of its session. A message without one changes nothing by
    /// that.
    #[inline]
    pub(crate) fn has_other_token(&self, transit: &TransitMessage<'_>, index: Index) -> bool {
        transit.view.has_options() && {
            let token = transit.view.options().token();
            token.is_some() && !self.store.session(index).token().is_some_and(|held| held.is(token))
        }
    }

    #[inline(never)]
    fn accept_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
        wanted: u32,
    ) -> Result<(), Refused> {
        let token = transit.view.options().token();
        let mut verified = None;
        if transit.origin == Origin::Others {
            if let Some(token) = token.filter(|_| self.tokens.are_read()) {
                verified =
                    Some(self.verify_token(now, context, transit, known, (token, wanted))?);
            }
            let name = verified.as_ref().map(|verified| verified.name.as_str());
            if !self.config.required.allows(name) {
                return Err(Refused::without_offer(RefusalReason::NotVerified));
            }
        }
        let held = HeldToken::of(token, verified);
        match known {
            Some(index) => self.set_token(index, held),
            None => self.pending_token = held,
        }
        Ok(())
    }

    fn verify_token(
        &mut self,
        now: Time,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        known: Option<Index>,
        (token, wanted): (&[u8], u32),
    ) -> Result<Verified, Refused> {
        let shape =
            transit.view.shape().map_err(|_| Refused::without_offer(RefusalReason::Mask))?;
        let selector = Selector::of_keys(&transit.view.classifier(), &shape);
        let flow = selector.flow(shape.tos, Direction::Forward);
        let flow = flow.ok_or(Refused::without_offer(RefusalReason::Mask))?;
        let (sources, rate) = (flow.sources(), Rate::from_bps(wanted.into()));
        let entrance = Entrance::of(context, self.entrance(transit, known));
        let token_use = TokenUse::of(&flow, &sources, rate, Some(entrance));
        self.tokens.verify(now, token, &token_use).map_err(|refused| {
            self.counters.refuse_token(refused);
            Refused::without_offer(match refused {
                RefusedToken::Token(_) => RefusalReason::Token,
                RefusedToken::TooMany => RefusalReason::Limit,
            })
        })
    }

    /// Returns the interface where the request of a message entered this node.
    fn entrance(&self, transit: &TransitMessage<'_>, known: Option<Index>) -> InterfaceId {
        let recorded = known.filter(|_| transit.is_reply);
        let recorded = recorded.map(|index| self.store.request_arrival(index));
        recorded.filter(|interface| *interface != NONE).unwrap_or(transit.arrival)
    }

    /// Sets the token of a session, and with it the time until which the session lasts at most. Most sessions have none.
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
        self.tokens.replace(index, before, after, &mut self.store.timers, Timer::TOKEN);
    }

    /// Sets the wall clock after a jump.
    pub(crate) fn set_wall_clock(&mut self, wall_clock: u64) {
        self.tokens.set_wall_clock(wall_clock, &mut self.store.timers, Timer::TOKEN);
    }

    /// Ends the session whose token has ended first. Its initiating node learns it from the answer to its next request. The
    /// timer is due again at once for the next session.
    pub(crate) fn end_with_token<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let ended = self.tokens.due(cx.now, &mut self.store.timers, Timer::TOKEN);
        let Some(Ended { request: index, error }) = ended else { return };
        self.counters.refuse_token(RefusedToken::Token(error));
        if let Some(extra) = &mut self.store.session_mut(index).extra {
            extra.token = None;
        }
        self.release_session(cx, index, Change::Expired);
    }
}
