//! Routes of the flow that a message is about, which the message follows.
//!
//! If several next hops share a destination, or policy rules apply, the packets of a flow and the pings that reserve
//! for them may take different routes. So the route of the flow is used, and the message leaves by the same next hop.

use core::net::IpAddr;

use earmark_core::{Context, Flow, Hop, InterfaceId, Outgoing};

use crate::context::HandlerContext;
use crate::message::TransitMessage;
use crate::selector::{Direction, Selector};

/// Returns the next hop of the packets that a message is about, on its pass.
pub(crate) fn route<E>(
    cx: &HandlerContext<'_, '_, E>,
    transit: &TransitMessage<'_>,
) -> Option<Hop> {
    let routes = cx.context.routes;
    if !transit.differs_by_flow {
        return routes.lookup(transit.toward());
    }
    routes.lookup_flow(&flow_of(transit), transit.incoming)
}

/// Sets the next hop of a message to that of its packets.
#[inline]
pub(crate) fn follow_flow_route<E>(
    cx: &HandlerContext<'_, '_, E>,
    transit: &TransitMessage<'_>,
    how: &mut Outgoing,
) {
    if !transit.differs_by_flow {
        return;
    }
    let Some(hop) = route(cx, transit) else { return };
    if how.interface.is_none_or(|interface| interface == hop.interface) {
        how.interface = Some(hop.interface);
        how.next_hop = hop.gateway;
    }
}

/// Returns one flow of the packets that a message is about: a range has at least one destination, that of the
/// message.
fn flow_of(transit: &TransitMessage<'_>) -> Flow {
    let view = &transit.view;
    let selector = view.shape().ok().map(|shape| Selector::of_keys(&view.classifier(), &shape));
    flow_toward(transit.toward(), selector, transit.direction)
}

/// Returns the interface by which requests of this host about a flow leave.
pub(crate) fn own_interface(
    context: &Context<'_>,
    destination: IpAddr,
    selector: Selector,
) -> Option<InterfaceId> {
    let routes = context.routes;
    let hop = match routes.differs_by_flow(destination) {
        false => routes.lookup(destination),
        true => {
            let flow = flow_toward(destination, Some(selector), Direction::Forward);
            routes.lookup_flow(&flow, None)
        }
    };
    hop.map(|hop| hop.interface)
}

fn flow_toward(destination: IpAddr, selector: Option<Selector>, direction: Direction) -> Flow {
    let named = selector.and_then(|selector| selector.flow(false, direction));
    let all = named.unwrap_or_else(|| Flow::to_range(earmark_core::Prefix::host(destination)));
    Flow {
        destination,
        source: all.source.filter(|_| all.source_open == 0),
        destination_open: 0,
        source_open: 0,
        ..all
    }
}
