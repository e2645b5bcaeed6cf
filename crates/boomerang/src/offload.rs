//! Sessions whose refreshes somebody else treats: a program in the kernel that knows what a plain refresh looks like.
//!
//! The engine says which sessions are fit for that ([`Event::Offload`]) and when one is no longer ([`Event::Recall`]).
//! It hears of none of their refreshes. So before it lets such a session expire it asks ([`Event::Expiring`]), waits a
//! while for [`Command::Seen`], and without an answer takes it that there was none.
//!
//! They may set up and release sessions, too: as many as an initiating node is allowed ([`Event::Allowance`]), out of a
//! part of a link that the driver lends them. The engine hears of each such message ([`Command::Settled`]), before any
//! that came by after it, and does the same with its own state.
//!
//! Fit is what needs no judgement: IPv4, bit rates, no options, no locks and no users, nothing to be edited. When routes
//! change, whoever treats refreshes must let the next message of each session come here.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Rate, Time};
use earmark_wire::boomerang::{Family, QosView, View};
use earmark_wire::icmp::{Echo, PseudoHeader};

use crate::api::{Event, LinkRate, Offloaded, Seen, Selector, Settled, Settlement};
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Edits, Origin, Passing};
use crate::state::{Half, Index, flag};
use crate::store::Key;

/// How long the answer to [`Event::Expiring`] may take.
const ANSWER: Duration = Duration::from_secs(1);

impl Boomerang {
    /// A message has made or changed a session, or brought it in line with the routes: its refreshes need not come here
    /// any more, if they are plain. `before` is what it had in this direction.
    pub(crate) fn offload<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        edits: &Edits,
        index: Index,
        before: Half,
    ) {
        // Whoever treats refreshes sends them on by their own destinations, and the flow may go elsewhere.
        if cx.context.routes.differs_by_flow(passing.toward) {
            return self.withhold(cx, index);
        }
        let view = &passing.view;
        let config = &self.config;
        let trusting = !config.lock && config.users.is_empty();
        let alone = !config.aggregate_only && self.aggregates.is_empty();
        let session = self.store.session(index);
        let plain = trusting
            && alone
            && passing.origin == Origin::Others
            && !passing.toward.is_multicast()
            && *edits == Edits::NONE
            && session.flags & !flag::OFFLOAD == 0
            && session.prime == 0
            && view.family() == Family::V4
            && matches!(view.qos(), QosView::Bitrate(_))
            && !view.has_options()
            && view.flags().0 == 0
            && view.key() == 1;
        // What the mask does not look at could be anything in the next message; as a rule it is zero.
        let named = self.keys_of(index).filter(|(keys, _)| *keys == view.classifier());
        let Some((keys, shape)) = named.filter(|(_, shape)| plain && !shape.tos) else {
            let half = session.half(passing.direction);
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
            initiator: passing.initiator,
            interval: view.refresh_interval(),
            forward,
            reverse,
        };
        let session = self.store.session_mut(index);
        session.flags = (session.flags | flag::OFFLOADED) & !flag::ASKED;
        cx.out.notify(Event::Offload(offloaded));
        self.allow(cx, passing.initiator);
    }

    fn allow<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, initiator: IpAddr) {
        let changes = self.allowance(cx.now, initiator);
        cx.out.notify(Event::Allowance { initiator, changes });
    }

    /// Others have treated a message. The same is done here, but for sending it on; where that leads to something
    /// else, what they know of the session is void.
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
        let passing = Passing {
            view,
            direction,
            initiator,
            toward: destination,
            incoming: None, // nothing is lent where that could matter
            origin: Origin::Settled,
        };
        let find = |engine: &Self| engine.find_octets(view.classifier_octets(), view.mask_octets());
        let before = find(self);
        if let Some(index) = before {
            // Whatever is done now, nobody has to be told before the end of it.
            self.store.session_mut(index).flags &= !flag::OFFLOAD;
        }
        let edits = self.treat(cx, &passing).edits;
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

    /// Something about a session has changed that others should know: its messages are to come here again.
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

    /// A session ends: others may forget it, and set it up again.
    pub(crate) fn recall<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if let Some(selector) = self.selector(index) {
            cx.out.notify(Event::Recall { selector });
        }
    }

    /// A session seems to have ended. Whether the question had to be asked first; its timer is armed then.
    pub(crate) fn ask_before_end<E: From<Event>>(
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

    /// The refreshes of a session that others have seen.
    pub(crate) fn refreshes_seen(&mut self, now: Time, seen: &Seen) {
        let Some(index) = self.find_selector(&seen.selector) else { return };
        let session = &mut self.store.sessions[index as usize];
        for (half, at) in session.halves.iter_mut().zip([seen.forward, seen.reverse]) {
            let Some(at) = at.filter(|_| half.is_there()) else { continue };
            let end = self.config.end_of_life(at, seen.interval);
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
