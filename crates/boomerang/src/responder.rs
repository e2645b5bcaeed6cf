//! The responding node: replies to a message for this host, as to any ping.
//!
//! Hosts without Boomerang reply as well. This node also reserves the first link of the way back, where its packets
//! of the reverse direction leave.

use earmark_core::Datagram;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::boomerang::{Editor, View};
use earmark_wire::icmp::{self, PseudoHeader};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::{Boomerang, outgoing};
use crate::message::{Origin, TransitMessage};
use crate::participation::returned_record;
use crate::route::follow_flow_route;
use crate::selector::Direction;

impl Boomerang {
    /// Replies to a ping for this host. `view` is its reservation request, if it carries a valid one.
    pub(crate) fn respond<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        ends: PseudoHeader,
        view: Option<&View<'_>>,
    ) {
        if datagram.source.is_unspecified() || datagram.source.is_multicast() {
            return self.drop(cx, datagram, DropReason::BadSource);
        }
        self.counters.bounced += 1;
        if view.is_some_and(|view| view.flags().is_no_echo()) {
            return;
        }
        let transit = view.filter(|_| !cx.context.interfaces.is_local(datagram.source));
        let transit = transit.map(|view| TransitMessage {
            view: *view,
            direction: Direction::Reverse,
            initiator: datagram.source,
            far_end: datagram.destination,
            is_reply: false,
            arrival: datagram.interface,
            from_core: cx.context.is_core(datagram.interface),
            differs_by_flow: cx.context.routes.differs_by_flow(datagram.source),
            incoming: None,
            origin: Origin::Others,
        });
        if let Some(transit) = &transit {
            let view = &transit.view;
            let found = self.store.find(view.classifier_octets(), view.mask_octets());
            if let Err(reason) = self.check_origin(cx.context, transit, found) {
                return self.drop(cx, datagram, reason);
            }
        }
        let outcome = transit.as_ref().map(|transit| self.process(cx, transit));
        let mut how = outgoing(datagram.destination, datagram.source);
        how.router_alert = datagram.router_alert;
        how.interface = outcome.and_then(|outcome| outcome.interface);
        if let Some(transit) = &transit {
            follow_flow_route(cx, transit, &mut how);
        }
        let record = outcome.zip(view).and_then(|(outcome, view)| {
            returned_record(cx.context, datagram, view, &outcome, how.ttl)
        });
        let message = cx.out.send_copy(how, datagram.payload);
        icmp::make_reply(message, ends);
        if let (Some(outcome), Some(view)) = (outcome, view) {
            outcome.edits.apply(message, view);
            if let Some((at, record)) = record {
                Editor::new(message, view).set_participation(at, &record);
            }
        }
        mark(Checkpoint::Forward);
    }
}
