//! The flow of a session: its packets for traffic control, and its outgoing interface.

use earmark_core::{Flow, InterfaceId, Prefix};
use earmark_wire::gist::PathCoupled;
use earmark_wire::qos_nslp::PacketClassifier;

use crate::nslp::HandlerContext;
use crate::route;

/// Returns the packets of a session for traffic control. `None` if traffic control cannot match them: by DSCP, by an SPI
/// or flow label of 0, or because the fields contradict each other.
pub(super) fn flow_of(mri: &PathCoupled, classifier: Option<PacketClassifier>) -> Option<Flow> {
    packets_of(mri, classifier).filter(|flow| flow.check().is_ok())
}

/// Returns the packets of a session whose fields were already checked.
pub(super) fn packets_of(mri: &PathCoupled, classifier: Option<PacketClassifier>) -> Option<Flow> {
    let has = |field: u8| classifier.is_none_or(|classifier| classifier.has(field));
    let by_dscp = mri.ds_field.is_some() && has(PacketClassifier::DSCP);
    // In a `Flow` they stand for any, so the reservation would be for more packets than were asked for.
    let by_zero = mri.spi == Some(0) && has(PacketClassifier::SPI)
        || mri.flow_label == Some(0) && has(PacketClassifier::FLOW_LABEL);
    if by_dscp || by_zero {
        return None;
    }
    let bits = if mri.source.is_ipv4() { 32 } else { 128 };
    let open = |prefix: u8| bits - prefix.min(bits);
    let source = (has(PacketClassifier::SOURCE_ADDRESS) && mri.source_prefix > 0)
        .then(|| Prefix::new(mri.source, mri.source_prefix));
    let to = if has(PacketClassifier::DESTINATION_ADDRESS) { mri.destination_prefix } else { 0 };
    let destination = Prefix::new(mri.destination, to);
    let protocol = mri.protocol.filter(|_| has(PacketClassifier::PROTOCOL)).unwrap_or(0);
    let port = |port: Option<u16>, field| port.filter(|_| has(field)).unwrap_or(0);
    Some(Flow {
        destination: destination.address(),
        source: source.map(Prefix::address),
        protocol,
        destination_port: port(mri.destination_port, PacketClassifier::DESTINATION_PORT),
        source_port: port(mri.source_port, PacketClassifier::SOURCE_PORT),
        flow_label: mri.flow_label.filter(|_| has(PacketClassifier::FLOW_LABEL)).unwrap_or(0),
        spi: mri.spi.filter(|_| has(PacketClassifier::SPI)).unwrap_or(0),
        destination_open: open(destination.length()),
        source_open: source.map_or(0, |source| open(source.length())),
        dscp: 0,
    })
}

/// Returns whether a classifier asks for fields that the MRI lacks (RFC 5974 section 5.1.3.5).
pub(super) fn is_foreign(mri: &PathCoupled, classifier: PacketClassifier) -> bool {
    let wants = |field: u8, there: bool| classifier.has(field) && !there;
    wants(PacketClassifier::PROTOCOL, mri.protocol.is_some())
        || wants(PacketClassifier::DSCP, mri.ds_field.is_some())
        || wants(PacketClassifier::FLOW_LABEL, mri.flow_label.is_some())
        || wants(PacketClassifier::SPI, mri.spi.is_some())
        || wants(PacketClassifier::SOURCE_PORT, mri.source_port.is_some())
        || wants(PacketClassifier::DESTINATION_PORT, mri.destination_port.is_some())
}

/// There is no route to a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoute;

/// Returns the outgoing interface of a flow; `Err` without a route, `Ok(None)` if the packets end here.
pub(super) fn outgoing_interface(
    cx: &HandlerContext<'_, '_>,
    mri: &PathCoupled,
) -> Result<Option<InterfaceId>, NoRoute> {
    if cx.context.interfaces.is_local(mri.destination) {
        return Ok(None);
    }
    route::hop_of_flow(cx.context, mri).map(|hop| Some(hop.interface)).ok_or(NoRoute)
}

#[cfg(test)]
mod tests {
    use earmark_testkit::messages::gist::udp_flow;
    use earmark_wire::ipsec;

    use super::*;

    /// RFC 5971 section 5.8.1.1: the SPI of an MRI, unless the classifier leaves it out (RFC 5974 section 5.1.3.5).
    #[test]
    fn packets_are_found_by_their_spi() {
        let udp = udp_flow(([10, 0, 0, 1], 0), ([10, 0, 0, 2], 0));
        let udp = PathCoupled { source_port: None, destination_port: None, ..udp };
        let esp = PathCoupled { protocol: Some(ipsec::ESP), spi: Some(0x1000), ..udp };
        let flow = flow_of(&esp, None).expect("traffic control can match it");
        assert_eq!((flow.protocol, flow.spi, flow.destination_port), (ipsec::ESP, 0x1000, 0));
        let without =
            PacketClassifier(PacketClassifier::DESTINATION_ADDRESS | PacketClassifier::PROTOCOL);
        assert_eq!(flow_of(&esp, Some(without)).map(|flow| flow.spi), Some(0));
        assert_eq!(flow_of(&PathCoupled { spi: Some(0x1000), ..udp }, None), None, "UDP has none");
        let zero = PathCoupled { spi: Some(0), ..esp };
        assert_eq!(flow_of(&zero, None), None, "not the packets of all SPIs");
        assert_eq!(flow_of(&zero, Some(without)).map(|flow| flow.spi), Some(0));
        let unlabelled = PathCoupled { flow_label: Some(0), ..udp };
        assert_eq!(flow_of(&unlabelled, None), None, "not the packets of all flow labels");
    }
}
