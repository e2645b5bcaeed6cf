//! Reports of the offload: messages that it has forwarded, and set-ups and releases that it has processed.

use earmark_core::{Rate, Time};
use earmark_wire::boomerang::View;
use earmark_wire::icmp::{Echo, PseudoHeader};

use crate::api::{Event, LinkRate, Passed, Seen, Settled, Settlement};
use crate::context::HandlerContext;
use crate::instance::Boomerang;
use crate::message::{Edits, Origin, TransitMessage};
use crate::route::route;
use crate::selector::{Direction, Selector};
use crate::state::{Index, flag};

impl Boomerang {
    /// Handles a message that the offload has processed. Makes the same changes here, without sending; if the result
    /// differs, the offload's information about the session is withdrawn.
    pub(crate) fn settled<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        settled: &Settled,
    ) {
        let Settled { interface, source, destination, ref message, outcome } = *settled;
        let Some(ends) = PseudoHeader::of(source, destination) else { return };
        let Ok(echo) = Echo::parse(message, ends) else { return };
        let Ok(view) = View::parse(echo.data) else { return };
        let (direction, initiator, far_end) = self.count_pass(echo.kind, source, destination);
        let transit = TransitMessage {
            view,
            direction,
            initiator,
            far_end,
            is_reply: direction == Direction::Reverse,
            arrival: interface,
            from_core: cx.context.is_core(interface),
            differs_by_flow: cx.context.routes.differs_by_flow(destination),
            incoming: None, // not offloaded where the flow decides the route
            origin: Origin::Settled,
        };
        let find = |engine: &Self| engine.store.find(view.classifier_octets(), view.mask_octets());
        let before = find(self);
        if self.check_origin(cx.context, &transit, before).is_err() {
            if let Some(index) = before {
                self.withhold(cx, index);
            }
            return;
        }
        if let Some(index) = before {
            // The offload is notified at the end only, whatever happens now.
            self.store.session_mut(index).flags &= !flag::OFFLOAD;
        }
        if !transit.from_core
            && let Some(hop) = route(cx, &transit)
            && let Some(link) = cx.context.interfaces.by_id(hop.interface)
        {
            cx.context.ledger.charge_request(cx.now, interface.0.into(), link);
        }
        let edits = self.process(cx, &transit).edits;
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
                let arrival = self.store.request_arrival(index);
                self.allow(cx, (initiator, arrival));
            }
            _ => self.withhold(cx, index),
        }
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
        let mut ends = [seen.forward, seen.reverse];
        if seen.reverse.is_some() {
            if session.flags & flag::FORWARD_UNPROVEN != 0 {
                ends[0] = seen.forward.max(seen.reverse);
            }
            session.flags &= !flag::UNPROVEN;
        } else if seen.forward.is_some() {
            session.flags &= !flag::FORWARD_UNPROVEN;
        }
        for (half, at) in session.halves.iter_mut().zip(ends) {
            let Some(at) = at.filter(|_| half.is_there()) else { continue };
            let end = self.config.expiry_time(at, seen.interval);
            half.expires_at = half.expires_at.max(end);
        }
        let end = session.first_end();
        if end > now {
            session.flags &= !flag::ASKED;
        }
        self.store.arm(index, end);
    }

    fn find_selector(&self, selector: &Selector) -> Option<Index> {
        let (keys, shape) = selector.keys();
        let mut octets = [[0; 40]; 2];
        let [classifier, mask] = &mut octets;
        let length = keys.emit_to(classifier).ok()?;
        shape.keys(keys.family().ok()?).ok()?.emit_to(mask).ok()?;
        let [classifier, mask] = octets.each_ref().map(|octets| &octets[..length]);
        self.store.find(classifier, mask)
    }
}
