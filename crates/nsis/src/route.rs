//! The next hop of a flow that a session is about.
//!
//! Where several next hops share a destination, or policy rules apply, the hop is the flow's. Where the flow comes in is
//! left to the host to find out: GIST and its applications must be told the same.

use earmark_core::{Context, Flow, Hop};
use earmark_wire::gist::{Direction, Mri, PathCoupled};

/// The hop of the packets that routing information is about; against the flow, that to its source.
pub(crate) fn hop(context: &Context<'_>, mri: &Mri) -> Option<Hop> {
    match mri {
        Mri::PathCoupled(flow) if flow.direction == Direction::Downstream => {
            hop_of_flow(context, flow)
        }
        _ => {
            let (source, destination) = mri.addresses();
            let downstream = mri.direction() == Direction::Downstream;
            context.routes.lookup(if downstream { destination } else { source })
        }
    }
}

/// The hop of the packets of a flow.
pub(crate) fn hop_of_flow(context: &Context<'_>, mri: &PathCoupled) -> Option<Hop> {
    let routes = context.routes;
    if !routes.differs_by_flow(mri.destination) {
        return routes.lookup(mri.destination);
    }
    let all_bits = if mri.source.is_ipv4() { 32 } else { 128 };
    let flow = Flow {
        destination: mri.destination,
        source: (mri.source_prefix >= all_bits).then_some(mri.source),
        protocol: mri.protocol.unwrap_or_default(),
        destination_port: mri.destination_port.unwrap_or_default(),
        source_port: mri.source_port.unwrap_or_default(),
        flow_label: mri.flow_label.unwrap_or_default(),
        destination_open: 0,
        source_open: 0,
    };
    routes.lookup_flow(&flow, None)
}

/// The router that takes what follows a flow, where that depends on the flow: the one of its hop.
pub(crate) fn next_hop(context: &Context<'_>, mri: &Mri, hop: &Hop) -> Option<core::net::IpAddr> {
    let downstream = mri.direction() == Direction::Downstream;
    let by_flow = downstream && context.routes.differs_by_flow(mri.addresses().1);
    hop.gateway.filter(|_| by_flow)
}
