//! Sets and maps of the packet filter: one for each purpose and shape of key.

use std::fmt;

use earmark_core::{Endpoint, FilterAction, FilterRule};

use super::shape::{KeyShape, address, octets};

/// Purpose of a set or map. The order is that of the lookups of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Purpose {
    /// Destinations that packets get, with a port.
    DestinationEndpoint,
    /// Destinations that packets get; the port stays.
    DestinationAddress,
    /// Packets that are dropped.
    Deny,
    /// Packets that are forwarded.
    Allow,
    /// Sources that packets get, with a port.
    SourceEndpoint,
    /// Sources that packets get; the port stays.
    SourceAddress,
}

const PURPOSES: [Purpose; 6] = [
    Purpose::DestinationEndpoint,
    Purpose::DestinationAddress,
    Purpose::Deny,
    Purpose::Allow,
    Purpose::SourceEndpoint,
    Purpose::SourceAddress,
];

/// A translation of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Purpose {
    /// Returns the address that a map translates; `None` for a set of pinholes.
    pub(super) fn side(self) -> Option<Side> {
        match self {
            Purpose::Deny | Purpose::Allow => None,
            Purpose::DestinationEndpoint | Purpose::DestinationAddress => Some(Side::Destination),
            Purpose::SourceEndpoint | Purpose::SourceAddress => Some(Side::Source),
        }
    }

    /// Whether a map translates the port, too.
    pub(super) fn has_port(self) -> bool {
        matches!(self, Purpose::DestinationEndpoint | Purpose::SourceEndpoint)
    }

    fn translation(side: Side, endpoint: Endpoint) -> Purpose {
        match (side, endpoint.port) {
            (Side::Source, 0) => Purpose::SourceAddress,
            (Side::Source, _) => Purpose::SourceEndpoint,
            (Side::Destination, 0) => Purpose::DestinationAddress,
            (Side::Destination, _) => Purpose::DestinationEndpoint,
        }
    }
}

/// A set or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SetId {
    pub(super) purpose: Purpose,
    pub(super) shape: KeyShape,
}

impl SetId {
    /// Returns every set, in the order of the lookups of a packet.
    pub(super) fn all() -> impl Iterator<Item = SetId> {
        PURPOSES
            .into_iter()
            .flat_map(|purpose| KeyShape::all().map(move |shape| SetId { purpose, shape }))
    }

    /// Returns the set with a name.
    pub(super) fn named(name: &str) -> Option<SetId> {
        SetId::all().find(|set| set.to_string() == name)
    }

    /// Returns the octets of the data of a map's element; 0 for a set.
    pub(super) fn data_length(self) -> usize {
        let address = if self.shape.ipv6 { 16 } else { 4 };
        match self.purpose.side() {
            None => 0,
            Some(_) if self.purpose.has_port() => address + 4,
            Some(_) => address,
        }
    }

    /// Returns the data type of a map by the numbers of nft.
    pub(super) fn data_type(self) -> u32 {
        let address = if self.shape.ipv6 { 8 } else { 7 };
        if self.purpose.has_port() { address << 6 | 13 } else { address }
    }

    /// Returns the translation that the data of an element means.
    pub(super) fn endpoint(self, data: &[u8]) -> Option<Endpoint> {
        let (start, port) = match self.purpose.has_port() {
            false => (data, 0),
            true => {
                let (start, port) = data.split_at_checked(data.len().checked_sub(4)?)?;
                (start, u16::from_be_bytes([port[0], port[1]]))
            }
        };
        let address = address(start)?;
        let is_valid =
            address.is_ipv6() == self.shape.ipv6 && (port != 0) == self.purpose.has_port();
        is_valid.then_some(Endpoint { address, port })
    }
}

/// Displays the name of the set.
impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = match self.purpose {
            Purpose::DestinationEndpoint => "dnat_port",
            Purpose::DestinationAddress => "dnat",
            Purpose::Deny => "deny",
            Purpose::Allow => "allow",
            Purpose::SourceEndpoint => "snat_port",
            Purpose::SourceAddress => "snat",
        };
        write!(f, "{purpose}_{}", self.shape)
    }
}

/// An element of a set, without its timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) set: SetId,
    pub(super) key: Vec<u8>,
    /// Translation; empty in sets of pinholes.
    pub(super) data: Vec<u8>,
}

/// Returns the elements of a rule: that of its pinhole, and one for each address that it translates.
pub(super) fn elements(rule: &FilterRule, shape: KeyShape) -> Vec<Element> {
    let key = shape.key(&rule.packets);
    let purpose = match rule.action {
        FilterAction::Allow => Purpose::Allow,
        FilterAction::Deny => Purpose::Deny,
    };
    let mut elements = Vec::with_capacity(1);
    let translations = [(Side::Destination, rule.destination), (Side::Source, rule.source)];
    for (side, endpoint) in translations {
        let Some(endpoint) = endpoint else { continue };
        let mut data = octets(endpoint.address);
        if endpoint.port != 0 {
            data.extend(endpoint.port.to_be_bytes());
            data.extend([0; 2]);
        }
        let purpose = Purpose::translation(side, endpoint);
        elements.push(Element { set: SetId { purpose, shape }, key: key.clone(), data });
    }
    elements.push(Element { set: SetId { purpose, shape }, key, data: Vec::new() });
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_are_read_back() {
        let all: Vec<SetId> = SetId::all().collect();
        assert_eq!(all.len(), 6 * 28);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "in the order of lookups");
        for set in all {
            assert_eq!(SetId::named(&set.to_string()), Some(set));
            assert!(set.to_string().len() < 64);
        }
        assert_eq!(SetId::named("allow_ip5"), None);
    }

    #[test]
    fn translation_is_read_back() {
        let shape = KeyShape::all().next().expect("a shape");
        for (purpose, data, expected) in [
            (Purpose::SourceAddress, &[192, 0, 2, 1][..], Some(("192.0.2.1", 0))),
            (Purpose::DestinationEndpoint, &[192, 0, 2, 1, 0, 80, 0, 0], Some(("192.0.2.1", 80))),
            (Purpose::DestinationEndpoint, &[192, 0, 2, 1, 0, 0, 0, 0], None),
            (Purpose::DestinationEndpoint, &[192, 0], None),
            (Purpose::SourceAddress, &[0; 16], None),
        ] {
            let set = SetId { purpose, shape };
            let expected = expected.map(|(address, port)| Endpoint {
                address: address.parse().expect("an address"),
                port,
            });
            assert_eq!(set.endpoint(data), expected, "{set} {data:?}");
        }
    }
}
