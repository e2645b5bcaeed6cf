//! Reservation request of a flow.

use std::net::IpAddr;

use earmark_core::{Flow, Rate};
use earmark_sim::NodeId;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// Reservation request of a flow, for [`ScenarioProtocol::request`](crate::ScenarioProtocol::request).
#[derive(Clone, Copy, Debug)]
pub struct ReservationRequest {
    /// Number of the flow.
    pub number: u64,
    /// Number of earlier requests of the flow.
    pub time: u64,
    /// Source and destination node.
    pub nodes: [NodeId; 2],
    /// Source and destination address.
    pub addresses: [IpAddr; 2],
    /// Source and destination port.
    pub port: u16,
    /// Requested rate.
    pub rate: Rate,
    /// Depth of the token bucket, octets.
    pub bucket_octets: u32,
    /// Size of packets, octets.
    pub packet_octets: u32,
    /// Priority, if any.
    pub priority: Option<u16>,
}

/// Position of the number of earlier requests in the number of an application.
const TIME_SHIFT: u32 = 40;

/// Returns the number of the flow of an application.
pub(crate) fn number_of(application: u64) -> u64 {
    application & ((1 << TIME_SHIFT) - 1)
}

impl ReservationRequest {
    /// Returns the number of the application at each end: a new one for each request, since the previous one may still be
    /// ending.
    pub fn application(&self) -> u64 {
        self.number | self.time << TIME_SHIFT
    }

    /// Returns the packets of the flow.
    pub fn flow(&self) -> Flow {
        let [source, destination] = self.addresses;
        Flow {
            destination,
            source: Some(source),
            protocol: UDP,
            destination_port: self.port,
            source_port: self.port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }
}
