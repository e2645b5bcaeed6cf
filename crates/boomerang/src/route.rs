//! Where the packets that a message is about leave this node, and the message with them.
//!
//! Where several next hops share a destination, or policy rules apply, the packets of a flow and the pings that reserve
//! for them may part. So the route is the flow's, and the message leaves by the same next hop.

use earmark_core::{Flow, Hop, Outgoing};

use crate::admission::flow;
use crate::api::Selector;
use crate::instance::HandlerContext;
use crate::message::Passing;

/// The hop of the packets that a message is about, on its pass.
pub(crate) fn route<E>(cx: &HandlerContext<'_, '_, E>, passing: &Passing<'_>) -> Option<Hop> {
    let routes = cx.context.routes;
    if !routes.differs_by_flow(passing.toward) {
        return routes.lookup(passing.toward);
    }
    routes.lookup_flow(&packets(passing), passing.incoming)
}

/// Has a message leave as the packets do that it is about.
#[inline]
pub(crate) fn follow<E>(cx: &HandlerContext<'_, '_, E>, passing: &Passing<'_>, how: &mut Outgoing) {
    if !cx.context.routes.differs_by_flow(passing.toward) {
        return;
    }
    let Some(hop) = route(cx, passing) else { return };
    if how.interface.is_none_or(|interface| interface == hop.interface) {
        how.interface = Some(hop.interface);
        how.next_hop = hop.gateway;
    }
}

/// One flow of the packets that a message is about: a range has one destination at least, that of the message.
fn packets(passing: &Passing<'_>) -> Flow {
    let view = &passing.view;
    let named = view.shape().ok().and_then(|shape| {
        flow(&Selector::of_keys(&view.classifier(), &shape), false, passing.direction)
    });
    let all = named.unwrap_or_else(|| Flow::to_range(earmark_core::Prefix::host(passing.toward)));
    Flow {
        destination: passing.toward,
        source: all.source.filter(|_| all.source_open == 0),
        destination_open: 0,
        source_open: 0,
        ..all
    }
}
