//! Next hop of the flow of a session.
//!
//! If several next hops share a destination, or if policy rules apply, the hop is looked up by flow. The incoming
//! interface of the flow is left out of the lookup, so that GIST and its applications get one result.

use earmark_core::{Context, Flow, Hop};
use earmark_wire::gist::{Direction, Mri, PathCoupled};

/// Returns the next hop in the direction of the MRI: downstream that of the flow, upstream that towards its source.
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

/// Returns the next hop of the packets of a flow.
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
        spi: mri.spi.unwrap_or_default(),
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    routes.lookup_flow(&flow, None)
}

/// Returns the gateway that must carry messages of a flow, if the route depends on the flow: that of its hop.
pub(crate) fn next_hop(context: &Context<'_>, mri: &Mri, hop: &Hop) -> Option<core::net::IpAddr> {
    let downstream = mri.direction() == Direction::Downstream;
    let by_flow = downstream && context.routes.differs_by_flow(mri.addresses().1);
    hop.gateway.filter(|_| by_flow)
}
