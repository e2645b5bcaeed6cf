//! Transit: a Boomerang node reserves on the link through which a message leaves, or writes a refusal into the
//! message, and forwards it.

use core::net::Ipv4Addr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, Outgoing};
use earmark_wire::boomerang::{CommonForm, Editor, View};
use earmark_wire::icmp::{Kind, PROTOCOL_V4};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Boomerang;
use crate::lookup::Lookup;
use crate::message::{Origin, Outcome, TransitMessage};
use crate::participation::counted_record;
use crate::route::follow_flow_route;
use crate::selector::Direction;

impl Boomerang {
    /// Processes a message in transit.
    pub(crate) fn transit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        kind: Kind,
        view: &View<'_>,
    ) {
        if datagram.ttl <= 1 {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        }
        let (direction, initiator, far_end) =
            self.count_pass(kind, datagram.source, datagram.destination);
        let transit = TransitMessage {
            view: *view,
            direction,
            initiator,
            far_end,
            is_reply: direction == Direction::Reverse,
            arrival: datagram.interface,
            from_core: cx.context.is_core(datagram.interface),
            differs_by_flow: cx.context.routes.differs_by_flow(datagram.destination),
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        if !self.aggregates.is_empty() || (self.config.aggregate_only && view.has_options()) {
            let found = self.store.find(view.classifier_octets(), view.mask_octets());
            let checked = self.check_origin(cx.context, &transit, found);
            return match checked.and_then(|()| self.check_share(cx, &transit, found)) {
                Ok(()) => self.transit_with_aggregates(cx, datagram, &transit),
                Err(reason) => self.drop(cx, datagram, reason),
            };
        }
        let found = self.look_up_message(cx.now, &transit);
        self.complete_transit(cx, datagram, &transit, found);
    }

    /// Processes a plain message in transit. Nearly all messages are plain refreshes.
    pub(crate) fn transit_plain<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        plain: &CommonForm<'_>,
    ) {
        if datagram.ttl <= 1 || !self.aggregates.is_empty() {
            return self.transit(cx, datagram, plain.kind, &plain.view());
        }
        let (direction, initiator, far_end) = self.count_pass(plain.kind, source, destination);
        let ends = (initiator, far_end);
        let found = self.look_up_plain(cx.now, plain, direction, ends, datagram.interface);
        let differs_by_flow = cx.context.routes.differs_by_flow(datagram.destination);
        let transit = || TransitMessage {
            view: plain.view(),
            direction,
            initiator: initiator.into(),
            far_end: far_end.into(),
            is_reply: direction == Direction::Reverse,
            arrival: datagram.interface,
            from_core: cx.context.is_core(datagram.interface),
            differs_by_flow,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        let Lookup::Refreshed(interface) = found else {
            return self.complete_transit(cx, datagram, &transit(), found);
        };
        if differs_by_flow {
            return self.complete_transit(cx, datagram, &transit(), found);
        }
        let how = Outgoing { interface, ..datagram.forwarded(PROTOCOL_V4) };
        cx.out.send_copy(how, datagram.payload);
        mark(Checkpoint::Forward);
    }

    /// Processes a message that is more than a refresh, and forwards it.
    fn complete_transit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        transit: &TransitMessage<'_>,
        found: Lookup,
    ) {
        if !matches!(found, Lookup::Refreshed(_)) {
            let checked = self.check_origin(cx.context, transit, found.found());
            let checked = checked.and_then(|()| self.check_share(cx, transit, found.found()));
            if let Err(reason) = checked {
                return self.drop(cx, datagram, reason);
            }
        }
        let outcome = self.process_found(cx, transit, found);
        let Outcome { interface, edits } = outcome;
        let Some(mut how) = self.transit_outgoing(cx, datagram, interface) else { return };
        follow_flow_route(cx, transit, &mut how);
        let record =
            counted_record(cx.context, datagram, &transit.view, transit.direction, &outcome);
        let message = cx.out.send_copy(how, datagram.payload);
        if !edits.is_empty() {
            edits.apply(message, &transit.view);
        }
        if let Some((at, record)) = record {
            Editor::new(message, &transit.view).set_participation(at, &record);
        }
        mark(Checkpoint::Forward);
    }

    /// Counts a message in transit. Returns its direction, initiating node and far end.
    #[inline]
    pub(crate) fn count_pass<A>(
        &mut self,
        kind: Kind,
        source: A,
        destination: A,
    ) -> (Direction, A, A) {
        match kind {
            Kind::Request => {
                self.counters.requests += 1;
                (Direction::Forward, source, destination)
            }
            Kind::Reply => {
                self.counters.replies += 1;
                (Direction::Reverse, destination, source)
            }
        }
    }
}
