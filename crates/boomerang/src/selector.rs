//! The packets of a session, and its two directions.

use core::fmt;
use core::net::IpAddr;

use earmark_core::{Flow, Prefix};
use earmark_wire::boomerang::{Keys, Shape};
use serde::{Deserialize, Serialize};

/// Packets of the forward direction, as classifier and mask name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// IP protocol number; `None` for any, in which case there are no ports.
    pub protocol: Option<u8>,
    /// Source port; `None` for any.
    pub source_port: Option<u16>,
    /// Destination port; `None` for any.
    pub destination_port: Option<u16>,
}

impl Selector {
    /// Creates the selector of one flow or range. A port that the flow leaves open stays open.
    pub fn of_flow(flow: &Flow) -> Selector {
        let everything = match flow.destination {
            IpAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
        };
        let port = |port: u16| (port != 0).then_some(port);
        Selector {
            source: flow.sources().unwrap_or(Prefix::new(everything, 0)),
            destination: flow.destinations(),
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
        }
    }

    /// Returns classifier and mask, as in a message.
    pub fn keys(&self) -> (Keys, Shape) {
        let keys = Keys {
            source: self.source.address(),
            destination: self.destination.address(),
            source_port: self.source_port.unwrap_or(0),
            destination_port: self.destination_port.unwrap_or(0),
            protocol: self.protocol.unwrap_or(0),
            tos: 0,
            flags: 0,
        };
        let shape = Shape {
            source: self.source.length(),
            destination: self.destination.length(),
            source_port: self.source_port.is_some(),
            destination_port: self.destination_port.is_some(),
            protocol: self.protocol.is_some(),
            tos: false,
        };
        (keys, shape)
    }

    /// Creates a selector from classifier and mask of a message, without the type of service.
    #[inline]
    pub(crate) fn of_keys(keys: &Keys, shape: &Shape) -> Selector {
        Selector {
            source: Prefix::new(keys.source, shape.source),
            destination: Prefix::new(keys.destination, shape.destination),
            protocol: shape.protocol.then_some(keys.protocol),
            source_port: shape.source_port.then_some(keys.source_port),
            destination_port: shape.destination_port.then_some(keys.destination_port),
        }
    }

    /// Returns whether the packets of a flow are among these.
    pub fn covers(&self, flow: &Flow) -> bool {
        let port = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
        self.destination.covers(flow.destinations())
            && flow
                .sources()
                .map_or(self.source.length() == 0, |sources| self.source.covers(sources))
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && port(self.source_port, flow.source_port)
            && port(self.destination_port, flow.destination_port)
    }

    /// Returns whether all packets of `other` are among these.
    pub(crate) fn contains(&self, other: &Selector) -> bool {
        let wider = |wide: Prefix, narrow: Prefix| {
            wide.length() <= narrow.length() && wide.contains(narrow.address())
        };
        wider(self.source, other.source)
            && wider(self.destination, other.destination)
            && (self.protocol.is_none() || self.protocol == other.protocol)
            && (self.source_port.is_none() || self.source_port == other.source_port)
            && (self.destination_port.is_none() || self.destination_port == other.destination_port)
    }

    /// Returns the packets of one direction as traffic control can match them: address prefixes, a protocol or none, and
    /// non-zero ports.
    #[inline]
    pub(crate) fn flow(&self, tos: bool, direction: Direction) -> Option<Flow> {
        let &Selector { source, destination, protocol, source_port, destination_port } = self;
        let zero = |port: Option<u16>| port == Some(0);
        if tos || protocol == Some(0) || zero(source_port) || zero(destination_port) {
            return None;
        }
        let (from, to, source_port, destination_port) = match direction {
            Direction::Forward => (source, destination, source_port, destination_port),
            Direction::Reverse => (destination, source, destination_port, source_port),
        };
        let all = if destination.address().is_ipv4() { 32 } else { 128 };
        let flow = Flow {
            destination: to.address(),
            source: (from.length() != 0).then_some(from.address()),
            protocol: protocol.unwrap_or(0),
            destination_port: destination_port.unwrap_or(0),
            source_port: source_port.unwrap_or(0),
            flow_label: 0,
            spi: 0,
            destination_open: all - to.length(),
            source_open: if from.length() == 0 { 0 } else { all - from.length() },
            dscp: 0,
        };
        // Whether traffic control can match a single flow is its own decision.
        (!flow.is_range() || flow.check().is_ok()).then_some(flow)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = |f: &mut fmt::Formatter<'_>, port: Option<u16>| match port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        };
        write!(f, "{}", self.source)?;
        port(f, self.source_port)?;
        write!(f, " > {}", self.destination)?;
        port(f, self.destination_port)?;
        match self.protocol {
            Some(protocol) => write!(f, " protocol {protocol}"),
            None => Ok(()),
        }
    }
}

/// Direction, seen from the initiating node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Towards the far end; reserved by the echo request.
    Forward,
    /// From the far end; reserved by the echo reply.
    Reverse,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow {
        destination: IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 9, 9)),
        source: Some(IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1))),
        protocol: 17,
        source_port: 4_000,
        destination_port: 5_004,
        flow_label: 0,
        spi: 0,
        source_open: 0,
        destination_open: 0,
        dscp: 0,
    };

    /// A flow is covered if each of its fields is, and so is the selector of these packets by itself.
    #[test]
    fn all_fields_count() {
        let exact = Selector::of_flow(&FLOW);
        let other = [10, 0, 0, 2].into();
        let others = [
            Flow { destination: other, ..FLOW },
            Flow { source: Some(other), ..FLOW },
            Flow { protocol: 6, ..FLOW },
            Flow { source_port: 4_001, ..FLOW },
            Flow { destination_port: 5_005, ..FLOW },
        ];
        let any = "0.0.0.0/0".parse().expect("a prefix");
        let wide = [
            Selector { destination: any, ..exact },
            Selector { source: any, ..exact },
            Selector { protocol: None, ..exact },
            Selector { source_port: None, ..exact },
            Selector { destination_port: None, ..exact },
        ];
        assert!(exact.covers(&FLOW) && exact.contains(&exact));
        for (open, wide) in wide.iter().enumerate() {
            assert!(wide.covers(&FLOW) && wide.contains(&exact) && !exact.contains(wide), "{open}");
            for (changed, other) in others.iter().enumerate() {
                assert!(!exact.covers(other), "{changed}");
                assert_eq!(wide.covers(other), open == changed, "{open} {changed}");
                let other = Selector::of_flow(other);
                assert_eq!(wide.contains(&other), open == changed, "{open} {changed}");
            }
        }
        let from_anywhere = Flow { source: None, ..FLOW };
        assert!(wide[1].covers(&from_anywhere) && !exact.covers(&from_anywhere));
    }
}
