//! Packets of an aggregate, as a core that runs RSVP tells them apart.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// Packets of an aggregate in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CorePackets {
    /// All packets with a DSCP, from 1 to 63 (RFC 3175).
    Dscp(u8),
    /// All packets of a tunnel between the two edges (RFC 2746 section 3.1.1).
    Tunnel(TunnelProtocol),
}

impl CorePackets {
    /// Returns whether these are the packets of a tunnel. There the overhead of the interface is added to the packets before the
    /// aggregate's reservation counts them, and the nodes of the core see no messages of the flows.
    pub fn is_tunnel(self) -> bool {
        matches!(self, CorePackets::Tunnel(_))
    }
}

/// Protocol of a tunnel: what its packets have behind the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelProtocol {
    /// IP protocol number.
    pub ip_protocol: u8,
    /// Destination port, of tunnels in UDP; otherwise 0.
    #[serde(default)]
    pub port: u16,
}

/// IP protocol numbers of tunnels, as Linux names their interfaces.
const NAMES: [(&str, u8); 4] = [("ipip", 4), ("sit", 41), ("gre", 47), ("esp", 50)];
const UDP: u8 = earmark_wire::udp::PROTOCOL;

/// A text is no protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected \"gre\", \"ipip\", \"sit\", \"esp\", or \"udp\" with a port such as \"udp:51820\""
)]
pub struct TunnelProtocolError;

impl FromStr for TunnelProtocol {
    type Err = TunnelProtocolError;

    fn from_str(text: &str) -> Result<TunnelProtocol, TunnelProtocolError> {
        if let Some(port) = text.strip_prefix("udp:") {
            let port = port.parse().ok().filter(|&port| port != 0).ok_or(TunnelProtocolError)?;
            return Ok(TunnelProtocol { ip_protocol: UDP, port });
        }
        let known = NAMES.iter().find(|(name, _)| *name == text).ok_or(TunnelProtocolError)?;
        Ok(TunnelProtocol { ip_protocol: known.1, port: 0 })
    }
}

impl fmt::Display for TunnelProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.ip_protocol) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "udp:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn protocols_of_tunnels_are_read_as_they_are_shown() {
        for (text, ip_protocol, port) in [
            ("gre", 47, 0),
            ("ipip", 4, 0),
            ("sit", 41, 0),
            ("esp", 50, 0),
            ("udp:51820", 17, 51820),
        ] {
            let protocol: TunnelProtocol = text.parse().expect(text);
            assert_eq!(protocol, TunnelProtocol { ip_protocol, port });
            assert_eq!(protocol.to_string(), text);
        }
        for text in ["", "udp", "udp:", "udp:0", "udp:70000", "gre:1", "47", "GRE"] {
            assert_eq!(text.parse::<TunnelProtocol>(), Err(TunnelProtocolError), "{text}");
        }
    }
}
