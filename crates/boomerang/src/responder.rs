//! The responding node: a message to this host turns round here, as any ping does.
//!
//! Hosts that know nothing of Boomerang answer as well. What this node adds is that it reserves the first link of the way
//! back, where its packets of the reverse direction leave.

use earmark_core::Datagram;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::boomerang::{Editor, View};
use earmark_wire::icmp::{self, PseudoHeader};

use crate::api::{Direction, Event};
use crate::counters::DropReason;
use crate::instance::{Boomerang, HandlerContext, outgoing};
use crate::message::{Origin, Passing};
use crate::participation::turned_round;
use crate::route::follow;

impl Boomerang {
    /// A ping for this host; `view` is what it carries, if that is a reservation that can be read.
    pub(crate) fn bounce<E: From<Event>>(
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
        let passing = view.filter(|_| !cx.context.interfaces.is_local(datagram.source));
        let passing = passing.map(|view| Passing {
            view: *view,
            direction: Direction::Reverse,
            initiator: datagram.source,
            toward: datagram.source,
            incoming: None,
            origin: Origin::Others,
        });
        let outcome = passing.as_ref().map(|passing| self.treat(cx, passing));
        let mut how = outgoing(datagram.destination, datagram.source);
        how.router_alert = datagram.router_alert;
        how.interface = outcome.and_then(|outcome| outcome.interface);
        if let Some(passing) = &passing {
            follow(cx, passing, &mut how);
        }
        let record = outcome.zip(view).and_then(|(outcome, view)| {
            turned_round(cx.context, datagram, view, &outcome, how.ttl)
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
