//! The IPv6 header (RFC 8200) with the hop-by-hop router-alert option (RFC 2711).
//!
//! [`Packet`] skips a hop-by-hop header and detects fragments. Callers parse all other extension headers.

use core::net::Ipv6Addr;

use crate::writer::{EmitError, Writer};

/// Length of the fixed header, octets.
pub const HEADER_LEN: usize = 40;
/// Length of a hop-by-hop header with router alert and padding, octets.
const ALERT_HEADER_LEN: usize = 8;
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const OPTION_PAD_1: u8 = 0;
const OPTION_PAD_N: u8 = 1;
const OPTION_ROUTER_ALERT: u8 = 5;

/// Parse errors of an IPv6 packet. Offsets are octets from the start of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HeaderError {
    /// The packet has fewer than 40 octets.
    #[error("IPv6 header truncated at octet {0}")]
    Truncated(usize),
    /// The version is not 6.
    #[error("IP version at octet 0 is {0}, not 6")]
    Version(u8),
    /// Payload Length leads past the end.
    #[error("invalid length {0} in Payload Length at octet 4 of IPv6 header")]
    PayloadLength(usize),
    /// A hop-by-hop header, or an option in it, leads past its end.
    #[error("invalid length of hop-by-hop header at octet 40")]
    HopByHop,
}

/// A checked packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Traffic Class, 8 bits, and Flow Label, 20 bits.
    class_and_label: u32,
    /// Hop Limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Value of the router-alert option, if present.
    pub router_alert: Option<u16>,
    /// Protocol of `payload`: the first Next Header that is not hop-by-hop.
    pub next_header: u8,
    /// Octets behind the fixed and the hop-by-hop header.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the fixed header and the hop-by-hop header, if there is one. Octets behind Payload Length are not part of
    /// the packet.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn parse(octets: &'a [u8]) -> Result<Packet<'a>, HeaderError> {
        let (header, rest) =
            octets.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated(octets.len()))?;
        let [w0, w1, w2, w3, l0, l1, next_header, hop_limit, addresses @ ..] = *header;
        if w0 >> 4 != 6 {
            return Err(HeaderError::Version(w0 >> 4));
        }
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let payload = rest.get(..length).ok_or(HeaderError::PayloadLength(length))?;
        let [source, destination] = [0, 16].map(|at| {
            let octets = addresses.get(at..).and_then(<[u8]>::first_chunk::<16>);
            Ipv6Addr::from(octets.copied().unwrap_or_default())
        });
        let mut packet = Packet {
            class_and_label: u32::from_be_bytes([w0, w1, w2, w3]) & 0x0fff_ffff,
            hop_limit,
            source,
            destination,
            router_alert: None,
            next_header,
            payload,
        };
        if next_header == HOP_BY_HOP {
            packet.skip_hop_by_hop().ok_or(HeaderError::HopByHop)?;
        }
        Ok(packet)
    }

    /// Parses the options of the hop-by-hop header in front of the payload and removes that header.
    fn skip_hop_by_hop(&mut self) -> Option<()> {
        let [next_header, eights, ..] = *self.payload else {
            return None;
        };
        let (header, rest) = self.payload.split_at_checked((usize::from(eights) + 1) * 8)?;
        self.router_alert = read_options(header.get(2..)?)?;
        (self.next_header, self.payload) = (next_header, rest);
        Some(())
    }

    /// Traffic class: DSCP and ECN.
    pub fn traffic_class(&self) -> u8 {
        (self.class_and_label >> 20) as u8 // the upper four bits are masked away
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.class_and_label & 0x000f_ffff
    }

    /// Whether the packet is a fragment; the fragment header then has the protocol.
    pub fn is_fragment(&self) -> bool {
        self.next_header == FRAGMENT
    }

    /// Returns the protocol of the payload; for a fragment the one in its fragment header.
    pub fn protocol(&self) -> u8 {
        match *self.payload {
            [next_header, ..] if self.is_fragment() => next_header,
            _ => self.next_header,
        }
    }
}

/// Returns the value of router alert in a hop-by-hop header, as sockets deliver it in ancillary data (RFC 3542 section
/// 8); `None` if the header has no such option or is malformed.
pub fn router_alert(hop_by_hop: &[u8]) -> Option<u16> {
    let [_, eights, ..] = *hop_by_hop else {
        return None;
    };
    read_options(hop_by_hop.get(2..(usize::from(eights) + 1) * 8)?)?
}

/// Returns the router-alert value among options. The outer `None` means that an option leads past the end.
fn read_options(mut options: &[u8]) -> Option<Option<u16>> {
    let mut router_alert = None;
    while let [kind, after_kind @ ..] = options {
        if *kind == OPTION_PAD_1 {
            options = after_kind;
            continue;
        }
        let (length, after_length) = after_kind.split_first()?;
        let (data, after_data) = after_length.split_at_checked(usize::from(*length))?;
        if let (OPTION_ROUTER_ALERT, &[v0, v1]) = (*kind, data) {
            router_alert = Some(u16::from_be_bytes([v0, v1]));
        }
        options = after_data;
    }
    Some(router_alert)
}

/// Headers to be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Value of a router-alert option (RFC 2711 section 2.1).
    pub router_alert: Option<u16>,
    /// Protocol of the payload.
    pub next_header: u8,
    /// Length of the payload, octets.
    pub payload_len: usize,
}

impl Repr {
    /// Returns the headers of a packet, without options other than router alert.
    pub fn from_packet(packet: &Packet<'_>) -> Repr {
        Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            hop_limit: packet.hop_limit,
            source: packet.source,
            destination: packet.destination,
            router_alert: packet.router_alert,
            next_header: packet.next_header,
            payload_len: packet.payload.len(),
        }
    }

    /// Length of the headers, octets.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + if self.router_alert.is_some() { ALERT_HEADER_LEN } else { 0 }
    }

    /// Writes the headers, [`Repr::header_len`] octets; returns the length. The payload follows behind them.
    ///
    /// # Errors
    /// The buffer is too short, or the payload is too long for its length field.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let length = self.header_len();
        let behind = (length - HEADER_LEN).saturating_add(self.payload_len);
        let [l0, l1] = u16::try_from(behind).map_err(|_| EmitError::TooLong)?.to_be_bytes();
        let class = u32::from(self.traffic_class) << 20;
        let first = 6 << 28 | class | self.flow_label & 0x000f_ffff;
        let next = if self.router_alert.is_some() { HOP_BY_HOP } else { self.next_header };
        let mut writer = Writer::new(buffer);
        writer.put(first.to_be_bytes())?;
        writer.put([l0, l1, next, self.hop_limit])?;
        writer.put(self.source.octets())?;
        writer.put(self.destination.octets())?;
        if let Some(value) = self.router_alert {
            let [v0, v1] = value.to_be_bytes();
            let options = [OPTION_ROUTER_ALERT, 2, v0, v1, OPTION_PAD_N, 0];
            writer.put([self.next_header, 0])?;
            writer.put(options)?;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_version_is_named() {
        for version in [0, 4, 15] {
            let mut octets = [0; HEADER_LEN];
            octets[0] = version << 4 | 6;
            assert_eq!(Packet::parse(&octets).err(), Some(HeaderError::Version(version)));
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            traffic_class: u8,
            flow_label in 0u32..1 << 20,
            hop_limit: u8,
            source: u128,
            destination: u128,
            router_alert: Option<u16>,
            payload_len in 0usize..50,
        ) {
            let (source, destination) = (source.into(), destination.into());
            let repr = Repr {
                traffic_class,
                flow_label,
                hop_limit,
                source,
                destination,
                router_alert,
                next_header: 46,
                payload_len,
            };
            let mut octets = std::vec![0xa5; repr.header_len() + payload_len + 3];
            prop_assert_eq!(repr.emit(&mut octets), Ok(repr.header_len()));
            let packet = Packet::parse(&octets).expect("what was emitted parses");
            if router_alert.is_some() {
                prop_assert_eq!(super::router_alert(&octets[HEADER_LEN..]), router_alert);
                prop_assert_eq!(super::router_alert(&octets[HEADER_LEN..HEADER_LEN + 7]), None);
            }
            prop_assert_eq!(Repr::from_packet(&packet), repr);
            for length in 0..repr.header_len() + payload_len {
                prop_assert!(Packet::parse(&octets[..length]).is_err());
            }
        }

        #[test]
        fn arbitrary_octets_do_not_panic(mut octets in proptest::collection::vec(any::<u8>(), 40..99)) {
            octets[0] = 0x60;
            let length = u8::try_from(octets.len() - HEADER_LEN).expect("short");
            (octets[4], octets[5], octets[6]) = (0, length, HOP_BY_HOP);
            let _ = Packet::parse(&octets).map(|packet| (packet.is_fragment(), packet.protocol()));
        }
    }
}
