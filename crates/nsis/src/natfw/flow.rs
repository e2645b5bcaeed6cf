//! The packets of a session, and the translation between its two sides.

use core::net::IpAddr;

use earmark_core::{Endpoint, FilteredPackets, Flow, Prefix};
use earmark_wire::gist::{Direction, Mri, PathCoupled};
use earmark_wire::ipsec;
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure as Failure;
use earmark_wire::natfw_nslp::{DataTerminal, TransportSelector};

use super::state::Kind;

/// Returns the packets of a flow, or why no rule can be for them.
///
/// # Errors
/// A range is neither one address nor all, or the fields contradict each other.
pub(super) fn packets_of(mri: &PathCoupled) -> Result<FilteredPackets, Failure> {
    let bits = if mri.source.is_ipv4() { 32 } else { 128 };
    if mri.destination_prefix < bits {
        return Err(Failure::DestinationRangeTooLarge);
    }
    if mri.source_prefix != 0 && mri.source_prefix < bits {
        return Err(Failure::SourceRangeTooLarge);
    }
    // The packet filter cannot tell these packets from others of the same addresses.
    if mri.ds_field.is_some() || mri.flow_label.is_some() || mri.spi == Some(0) {
        return Err(Failure::PolicyConflict);
    }
    let packets = known_packets_of(mri);
    match packets.flow.check() {
        Ok(()) if !packets.flow.destination.is_multicast() => Ok(packets),
        _ => Err(Failure::PolicyConflict),
    }
}

/// Returns the packets of a flow whose fields were checked before.
pub(super) fn known_packets_of(mri: &PathCoupled) -> FilteredPackets {
    let flow = Flow {
        destination: mri.destination,
        source: (mri.source_prefix != 0).then_some(mri.source),
        protocol: mri.protocol.unwrap_or(0),
        destination_port: mri.destination_port.unwrap_or(0),
        source_port: mri.source_port.unwrap_or(0),
        flow_label: 0,
        spi: mri.spi.unwrap_or(0),
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    FilteredPackets { flow, icmp_type: None }
}

/// Returns the end of a flow that asks: the data sender for a CREATE, the data receiver for an EXTERNAL.
pub(super) fn asking_end(kind: Kind, near: &Mri) -> IpAddr {
    let (source, destination) = near.addresses();
    match (kind, near) {
        (Kind::Create, _) | (Kind::External, Mri::LooseEnd(_)) => source,
        (Kind::External, Mri::PathCoupled(_)) => destination,
    }
}

/// Returns source and destination of a flow, with their ports.
pub(super) fn endpoints(mri: &PathCoupled) -> (Endpoint, Endpoint) {
    let port = |port: Option<u16>| port.unwrap_or(0);
    (
        Endpoint { address: mri.source, port: port(mri.source_port) },
        Endpoint { address: mri.destination, port: port(mri.destination_port) },
    )
}

/// Returns the flow with another source. A port that is not known stays so.
pub(super) fn with_source(mri: &PathCoupled, source: Endpoint) -> PathCoupled {
    let source_port = mri.source_port.map(|port| if source.port == 0 { port } else { source.port });
    PathCoupled { source: source.address, source_port, ..*mri }
}

/// Returns the flow with another destination.
pub(super) fn with_destination(mri: &PathCoupled, destination: Endpoint) -> PathCoupled {
    let port = |known| if destination.port == 0 { known } else { destination.port };
    let destination_port = mri.destination_port.map(port);
    PathCoupled { destination: destination.address, destination_port, ..*mri }
}

/// Returns the data of an EXTERNAL: from the data sender, which may be any, to `receiver`.
pub(super) fn flow_of_terminal(terminal: &DataTerminal, receiver: Endpoint) -> PathCoupled {
    let (source_port, destination_port, spi) = match terminal.transport {
        TransportSelector::Any | TransportSelector::Protocol(_) => (None, None, None),
        TransportSelector::Ports { source, .. } => (Some(source), Some(receiver.port), None),
        TransportSelector::Spi { spi, .. } => (None, None, Some(spi)),
    };
    PathCoupled {
        source: terminal.sender.into(),
        destination: receiver.address,
        source_prefix: terminal.sender_prefix,
        destination_prefix: if receiver.address.is_ipv4() { 32 } else { 128 },
        protocol: terminal.transport.protocol(),
        ds_field: None,
        flow_label: None,
        spi,
        source_port,
        destination_port,
        direction: Direction::Downstream,
    }
}

/// Returns the port at the data receiver; 0 for any.
pub(super) fn receiver_port(terminal: &DataTerminal) -> u16 {
    match terminal.transport {
        TransportSelector::Ports { destination, .. } => destination,
        _ => 0,
    }
}

/// Returns the data terminal information with another port at the data receiver.
pub(super) fn with_receiver_port(terminal: &DataTerminal, port: u16) -> DataTerminal {
    let transport = match terminal.transport {
        TransportSelector::Ports { protocol, source, .. } => {
            TransportSelector::Ports { protocol, destination: port, source }
        }
        other => other,
    };
    DataTerminal { transport, ..*terminal }
}

/// Returns whether a data sender may be the one that an EXTERNAL is for: the parameters of its table 1 marked with (w) may be
/// wildcards on both sides.
pub(super) fn admits_sender(terminal: &DataTerminal, create: &PathCoupled) -> bool {
    let sender = Prefix::new(terminal.sender.into(), terminal.sender_prefix);
    let from = Prefix::new(create.source, create.source_prefix);
    let address = sender.length() == 0 || sender.covers(from);
    let protocol = terminal.transport.protocol().is_none_or(|own| create.protocol == Some(own));
    let rest = match terminal.transport {
        TransportSelector::Ports { source, .. } => {
            source == 0 || create.source_port == Some(source)
        }
        TransportSelector::Spi { spi, .. } => create.spi == Some(spi),
        TransportSelector::Any | TransportSelector::Protocol(_) => true,
    };
    address && protocol && rest
}

/// Returns whether packets of a protocol can have ports, or an SPI, or neither is known.
pub(super) fn is_plain_ip(flow: &Flow) -> bool {
    let has_selector = flow.destination_port != 0 || flow.source_port != 0 || flow.spi != 0;
    flow.protocol == 0 || !has_selector && !is_icmp(flow) && !ipsec::has_spi(flow.protocol)
}

/// Returns whether the packets are those of ICMP or ICMPv6.
pub(super) fn is_icmp(flow: &Flow) -> bool {
    flow.protocol == if flow.destination.is_ipv4() { 1 } else { 58 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_packets_have_no_selector() {
        let destination = Prefix::host([198, 51, 100, 9].into());
        let of = |protocol| Flow { protocol, ..Flow::to_range(destination) };
        assert!(is_plain_ip(&of(0)), "every protocol");
        assert!(is_plain_ip(&of(17)), "every port");
        assert!(!is_plain_ip(&Flow { source_port: 700, ..of(17) }));
        assert!(!is_plain_ip(&Flow { destination_port: 700, ..of(17) }));
        assert!(!is_plain_ip(&Flow { spi: 7, ..of(50) }));
        assert!(!is_plain_ip(&of(1)), "ICMP has types");
        assert!(!is_plain_ip(&of(50)), "ESP has an SPI");
        assert!(is_plain_ip(&of(47)), "GRE has nothing");
    }
}
