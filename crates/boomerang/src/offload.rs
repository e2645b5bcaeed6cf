//! Offload: sessions whose refreshes a kernel program handles, which recognizes plain refreshes.
//!
//! The engine reports which sessions can be offloaded ([`Event::Offload`]) and when one no longer can
//! ([`Event::Recall`]). It receives none of their refreshes. So before such a session expires, the engine asks
//! ([`Event::Expiring`]) and waits for [`Command::Seen`](crate::Command::Seen); no answer counts as no refresh.
//!
//! The offload may also set up and release sessions: as many as an initiating node is allowed ([`Event::Allowance`]),
//! from a share of a link that the driver assigns to it. The engine receives each such message
//! ([`Command::Settled`](crate::Command::Settled)), before any later one, and makes the same changes to its own state.
//!
//! Sessions can be offloaded if their messages need no decision: IPv4, bit rates, no options, no locks, no users, no
//! edits. When routes change, the offload must pass the next message of each session to the engine.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Rate, Time};
use earmark_wire::boomerang::{Family, QosView, View};
use earmark_wire::icmp::{Echo, PseudoHeader};

use crate::api::{Event, LinkRate, Offloaded, Passed, Seen, Settled, Settlement};

use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Edits, MessagePass, Origin};
use crate::selector::Selector;
use crate::state::{Half, Index, flag};
use crate::store::Key;

/// Timeout for the answer to [`Event::Expiring`].
const ANSWER: Duration = Duration::from_secs(1);

impl Boomerang {
    /// Offloads a session after a message has created or changed it, or checked it against the routes, if its
    /// refreshes are plain. `before` is its previous half in this direction.
    pub(crate) fn offload<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        edits: &Edits,
        index: Index,
        before: Half,
    ) {
        // The offload forwards refreshes by their own destinations, and the flow may leave elsewhere.
        if cx.context.routes.differs_by_flow(pass.toward) {
            return self.withhold(cx, index);
        }
        let view = &pass.view;
        let config = &self.config;
        let trusting = !config.lock && config.users.is_empty();
        let alone = !config.aggregate_only && self.aggregates.is_empty();
        let session = self.store.session(index);
        let plain = trusting
            && alone
            && pass.origin == Origin::Others
            && !pass.toward.is_multicast()
            && *edits == Edits::NONE
            && session.flags & !flag::OFFLOAD == 0
            && session.prime == 0
            && view.family() == Family::V4
            && matches!(view.qos(), QosView::Bitrate(_))
            && !view.has_options()
            && view.flags().0 == 0
            && view.key() == 1;
        // Bits outside the mask may differ in the next message; usually they are zero.
        let named = self.keys_of(index).filter(|(keys, _)| *keys == view.classifier());
        let Some((keys, shape)) = named.filter(|(_, shape)| plain && !shape.tos) else {
            let half = session.half(pass.direction);
            if (half.rate, half.interface) != (before.rate, before.interface) {
                self.withhold(cx, index);
            }
            return;
        };
        let share = |half: Half| {
            let rate = Rate::from_bps(half.rate.into());
            half.is_there().then_some(LinkRate { interface: half.interface, rate })
        };
        let [forward, reverse] = session.halves.map(share);
        let offloaded = Offloaded {
            selector: Selector::of_keys(&keys, &shape),
            initiator: pass.initiator,
            interval: view.refresh_interval(),
            forward,
            reverse,
        };
        let session = self.store.session_mut(index);
        session.flags = (session.flags | flag::OFFLOADED) & !flag::ASKED;
        cx.out.notify(Event::Offload(offloaded));
        self.allow(cx, pass.initiator);
    }

    fn allow<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, initiator: IpAddr) {
        let changes = self.allowance(cx.now, initiator);
        cx.out.notify(Event::Allowance { initiator, changes });
    }

    /// Handles a message that the offload has processed. Makes the same changes here, without sending; if the result
    /// differs, the offload's information about the session is withdrawn.
    pub(crate) fn settled<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        settled: &Settled,
    ) {
        let Settled { source, destination, ref message, outcome } = *settled;
        let Some(ends) = PseudoHeader::of(source, destination) else { return };
        let Ok(echo) = Echo::parse(message, ends) else { return };
        let Ok(view) = View::parse(echo.data) else { return };
        let (direction, initiator) = self.count_pass(echo.kind, source, destination);
        let pass = MessagePass {
            view,
            direction,
            initiator,
            toward: destination,
            incoming: None, // not offloaded where the flow decides the route
            origin: Origin::Settled,
        };
        let find = |engine: &Self| engine.find_octets(view.classifier_octets(), view.mask_octets());
        let before = find(self);
        if let Some(index) = before {
            // The offload is notified at the end only, whatever happens now.
            self.store.session_mut(index).flags &= !flag::OFFLOAD;
        }
        let edits = self.process(cx, &pass).edits;
        let Some(index) = find(self) else {
            if let (None, Ok(shape)) = (before, view.shape()) {
                let selector = Selector::of_keys(&view.classifier(), &shape);
                cx.out.notify(Event::Recall { selector });
            }
            return;
        };
        let session = self.store.session_mut(index);
        let half = *session.half(direction);
        let has = LinkRate { interface: half.interface, rate: Rate::from_bps(half.rate.into()) };
        session.flags |= flag::OFFLOADED;
        match outcome {
            Settlement::Reserved(share) if share == has && edits == Edits::NONE => {
                self.allow(cx, initiator);
            }
            _ => self.withhold(cx, index),
        }
    }

    /// Ends the offload of a session after a change that the offload has to know: its messages come to the engine
    /// again.
    pub(crate) fn withhold<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let session = self.store.session_mut(index);
        if session.flags & flag::OFFLOADED == 0 {
            return;
        }
        session.flags &= !flag::OFFLOAD;
        if let Some(selector) = self.selector(index) {
            cx.out.notify(Event::Withhold { selector });
        }
    }

    /// Notifies the offload that a session ended: it may forget the session, and set it up again.
    pub(crate) fn recall<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if let Some(selector) = self.selector(index) {
            cx.out.notify(Event::Recall { selector });
        }
    }

    /// Asks the offload for refreshes if a session seems to have expired. Returns whether it asked; the timer is
    /// armed then.
    pub(crate) fn ask_before_expiry<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> bool {
        let session = self.store.session_mut(index);
        if session.flags & flag::OFFLOAD != flag::OFFLOADED || session.first_end() > cx.now {
            session.flags &= !flag::ASKED;
            return false;
        }
        session.flags |= flag::ASKED;
        self.arm(index, cx.now + ANSWER);
        if let Some(selector) = self.selector(index) {
            cx.out.notify(Event::Expiring { selector });
        }
        true
    }

    /// Counts messages that the offload has handled.
    pub(crate) fn count_passed(&mut self, passed: Passed) {
        self.counters.requests += passed.requests;
        self.counters.replies += passed.replies;
        self.counters.refreshed += passed.refreshed;
    }

    /// Applies the refreshes of a session that the offload has seen.
    pub(crate) fn apply_seen_refreshes(&mut self, now: Time, seen: &Seen) {
        let Some(index) = self.find_selector(&seen.selector) else { return };
        let session = &mut self.store.sessions[index as usize];
        for (half, at) in session.halves.iter_mut().zip([seen.forward, seen.reverse]) {
            let Some(at) = at.filter(|_| half.is_there()) else { continue };
            let end = self.config.expiry_time(at, seen.interval);
            half.expires_at = half.expires_at.max(end);
        }
        let end = session.first_end();
        if end > now {
            session.flags &= !flag::ASKED;
        }
        self.arm(index, end);
    }

    fn find_selector(&self, selector: &Selector) -> Option<Index> {
        let (keys, shape) = selector.keys();
        let mut octets = [[0; 40]; 2];
        let [classifier, mask] = &mut octets;
        let length = keys.emit_to(classifier).ok()?;
        shape.keys(keys.family().ok()?).ok()?.emit_to(mask).ok()?;
        let [classifier, mask] = octets.each_ref().map(|octets| &octets[..length]);
        self.find_octets(classifier, mask)
    }

    fn find_octets(&self, classifier: &[u8], mask: &[u8]) -> Option<Index> {
        let number = self.store.masks.find(mask)?;
        self.store.look_up(&Key::new(number, self.store.masks.mask(number), classifier)).ok()
    }
}
