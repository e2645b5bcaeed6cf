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

/// IP protocols with a name.
const IP_PROTOCOLS: [(u8, &str); 7] =
    [(1, "icmp"), (6, "tcp"), (17, "udp"), (50, "esp"), (51, "ah"), (58, "icmpv6"), (132, "sctp")];

/// Returns the name of an IP protocol, or its number.
pub fn ip_protocol(number: u8) -> String {
    let known = IP_PROTOCOLS.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}

/// Returns the number of an IP protocol, by its name or as decimal text; `None` for 0 and other text.
pub fn ip_protocol_number(text: &str) -> Option<u8> {
    let known = IP_PROTOCOLS.iter().find(|(_, name)| *name == text);
    known
        .map_or_else(|| text.parse().ok(), |(number, _)| Some(*number))
        .filter(|number| *number != 0)
}
