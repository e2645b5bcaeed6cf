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

mod reports;

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Rate};
use earmark_wire::boomerang::{Family, QosView};

use crate::api::{Event, LinkRate, Offloaded};
use crate::arrival::NONE;
use crate::context::HandlerContext;
use crate::instance::Boomerang;
use crate::message::{Edits, Origin, TransitMessage};
use crate::selector::Selector;
use crate::state::{Half, Index, flag};

/// Timeout for the answer to [`Event::Expiring`].
const ANSWER: Duration = Duration::from_secs(1);

impl Boomerang {
    /// Offloads a session after a message has created or changed it, or checked it against the routes, if its
    /// refreshes are plain. `before` is its previous half in this direction.
    pub(crate) fn offload<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        edits: &Edits,
        index: Index,
        before: Half,
    ) {
        // The offload forwards refreshes by their own destinations, and the flow may leave elsewhere.
        if transit.differs_by_flow {
            return self.withhold(cx, index);
        }
        let view = &transit.view;
        let config = &self.config;
        let trusting =
            !config.lock && !self.credentials.are_required && !config.required.needs_name();
        let alone = !config.aggregate_only && self.aggregates.is_empty();
        let session = self.store.session(index);
        let origin = (transit.initiator, self.store.request_arrival(index));
        let plain = trusting
            && alone
            && transit.origin == Origin::Others
            && !transit.toward().is_multicast()
            && *edits == Edits::NONE
            && session.flags & !(flag::OFFLOAD | flag::UNPROVEN) == 0
            && session.prime == 0
            && view.family() == Family::V4
            && matches!(view.qos(), QosView::Bitrate(_))
            && !view.has_options()
            && view.flags().0 == 0
            && view.key() == 1;
        // Bits outside the mask may differ in the next message; usually they are zero.
        let named = self.store.keys(index).filter(|(keys, _)| *keys == view.classifier());
        let Some((keys, shape)) = named.filter(|(_, shape)| plain && !shape.tos) else {
            let half = session.half(transit.direction);
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
            initiator: transit.initiator,
            far_end: transit.far_end,
            arrivals: [origin.1, session.reply_arrival],
            interval: view.refresh_interval(),
            forward,
            reverse,
        };
        let session = self.store.session_mut(index);
        session.flags = (session.flags | flag::OFFLOADED) & !flag::ASKED;
        cx.out.notify(Event::Offload(offloaded));
        self.allow(cx, origin);
    }

    /// Tells the offload how many changes of an initiating node it may process whose requests arrive through an
    /// interface.
    pub(super) fn allow<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        (initiator, interface): (IpAddr, InterfaceId),
    ) {
        if interface == NONE {
            return;
        }
        let changes = self.allowance(cx.now, cx.context, (initiator, interface));
        cx.out.notify(Event::Allowance { initiator, interface, changes });
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
        if let Some(selector) = self.store.selector(index) {
            cx.out.notify(Event::Withhold { selector });
        }
    }

    /// Notifies the offload that a session ended: it may forget the session, and set it up again.
    pub(crate) fn recall<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if let Some(selector) = self.store.selector(index) {
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
        self.store.arm(index, cx.now + ANSWER);
        if let Some(selector) = self.store.selector(index) {
            cx.out.notify(Event::Expiring { selector });
        }
        true
    }
}
