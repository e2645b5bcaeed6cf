//! Helpers of the ledger tests: claims of an engine, told apart by number.

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::Flow;
use earmark_core::admission::{Owner, Protocol};

pub(crate) fn owner(block: u32) -> Owner {
    Owner { protocol: Protocol::new(1), block }
}

pub(crate) fn flow(port: u16) -> Flow {
    Flow {
        destination: IpAddr::V4(Ipv4Addr::LOCALHOST),
        source: None,
        protocol: 17,
        destination_port: port,
        source_port: 0,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}
