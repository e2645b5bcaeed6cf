//! Endpoints, senders and IP protocols as text.

use std::net::{IpAddr, SocketAddr};

use crate::SenderName;

/// Formats an endpoint: `10.0.2.2:5001`, or the address alone if the protocol has no ports.
pub fn with_port(address: IpAddr, port: u16) -> String {
    match port {
        0 => address.to_string(),
        port => SocketAddr::new(address, port).to_string(),
    }
}

/// Formats a sender: its address, alone or with a port, flow label or SPI.
pub fn sender(name: &SenderName) -> String {
    match (name.flow_label, name.spi) {
        (Some(label), _) => format!("{} label {label:#x}", name.address),
        (None, Some(spi)) => format!("{} spi {spi:#x}", name.address),
        (None, None) => with_port(name.address, name.port),
    }
}

/// Returns the name of an IP protocol, or its number.
pub fn ip_protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        50 => "esp".to_owned(),
        51 => "ah".to_owned(),
        number => number.to_string(),
    }
}
