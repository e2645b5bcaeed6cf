//! Message-Routing-Information: how a message is routed (RFC 5971 A.3.1).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize, Serializer};

use super::error::{ErrorKind, ParseError};
use super::iana::RoutingMethod;
use super::reader::Reader;
use crate::serialize::Text;
use crate::writer::{EmitError, Writer};

/// N-flag: NATs need not translate this MRI. No existing method sets it.
const N: u8 = 0x80;

/// Flags of a path-coupled MRI, in the half word that begins with the IP version.
mod flag {
    pub(super) const PROTOCOL: u16 = 0x0800;
    pub(super) const DS_FIELD: u16 = 0x0400;
    pub(super) const FLOW_LABEL: u16 = 0x0200;
    pub(super) const SPI: u16 = 0x0100;
    pub(super) const SOURCE_PORT: u16 = 0x0080;
    pub(super) const DESTINATION_PORT: u16 = 0x0040;
    pub(super) const UPSTREAM: u16 = 0x0020;
    /// Direction flag of the loose-end method: the first bit.
    pub(super) const LOOSE_UPSTREAM: u16 = 0x0800;
}

/// Direction along the flow: the D-flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Along the flow; for a loose end, towards the edge of the network.
    Downstream,
    /// Against the flow; for a loose end, from the edge of the network.
    Upstream,
}

impl Direction {
    /// Returns the opposite direction.
    pub const fn inverted(self) -> Direction {
        match self {
            Direction::Downstream => Direction::Upstream,
            Direction::Upstream => Direction::Downstream,
        }
    }

    const fn of(upstream: bool) -> Direction {
        if upstream { Direction::Upstream } else { Direction::Downstream }
    }
}

/// Routing method and its information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mri {
    /// Path-coupled: along the path of a flow.
    PathCoupled(PathCoupled),
    /// Loose-end: towards an address, or from it.
    LooseEnd(LooseEnd),
}

/// A flow (RFC 5971 A.3.1.1). Fields that are `None` do not count and are not on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathCoupled {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Prefix length of the source address, at most 32 or 128.
    pub source_prefix: u8,
    /// Prefix length of the destination address, at most 32 or 128.
    pub destination_prefix: u8,
    /// IP protocol; in IPv6 the one behind all extension headers.
    pub protocol: Option<u8>,
    /// Diffserv codepoint, 6 bits.
    pub ds_field: Option<u8>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// IPsec SPI; requires the protocol and excludes ports.
    pub spi: Option<u32>,
    /// Source port; requires the protocol. 0 is a port that is not known yet.
    pub source_port: Option<u16>,
    /// Destination port; requires the protocol. 0 is a port that is not known yet.
    pub destination_port: Option<u16>,
    /// Direction of the message along the flow.
    pub direction: Direction,
}

/// A pair of addresses (RFC 5971 A.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LooseEnd {
    /// Source address: the node that searches.
    pub source: IpAddr,
    /// Destination address, towards which the search goes; of the same family.
    pub destination: IpAddr,
    /// Direction of the message.
    pub direction: Direction,
}

/// An [`Mri`] as an object of a message, with the prefixes as text and without absent fields.
pub(super) struct MriObject<'a>(pub(super) &'a Mri);

impl Serialize for MriObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let prefix = |address: IpAddr, length: u8| {
            Text(fmt::from_fn(move |f| write!(f, "{address}/{length}")))
        };
        match self.0 {
            Mri::LooseEnd(flow) => map! {
                "method": "loose-end",
                "direction": flow.direction,
                "source": flow.source,
                "destination": flow.destination,
            }
            .serialize(serializer),
            Mri::PathCoupled(flow) => map! {
                "method": "path-coupled",
                "direction": flow.direction,
                "source": prefix(flow.source, flow.source_prefix),
                "destination": prefix(flow.destination, flow.destination_prefix),
                "protocol"?: flow.protocol,
                "source_port"?: flow.source_port,
                "destination_port"?: flow.destination_port,
                "dscp"?: flow.ds_field,
                "flow_label"?: flow.flow_label,
                "spi"?: flow.spi,
            }
            .serialize(serializer),
        }
    }
}

impl Mri {
    /// Returns the direction of the message.
    pub const fn direction(&self) -> Direction {
        match self {
            Mri::PathCoupled(mri) => mri.direction,
            Mri::LooseEnd(mri) => mri.direction,
        }
    }

    /// Returns the same flow in the opposite direction, as in a Response (RFC 5971 section 5.1).
    #[must_use]
    #[inline]
    pub const fn inverted(mut self) -> Mri {
        match &mut self {
            Mri::PathCoupled(mri) => mri.direction = mri.direction.inverted(),
            Mri::LooseEnd(mri) => mri.direction = mri.direction.inverted(),
        }
        self
    }

    /// Returns source and destination address.
    #[inline]
    pub const fn addresses(&self) -> (IpAddr, IpAddr) {
        match self {
            Mri::PathCoupled(mri) => (mri.source, mri.destination),
            Mri::LooseEnd(mri) => (mri.source, mri.destination),
        }
    }

    /// Length of the value, octets.
    pub fn value_len(&self) -> usize {
        let word = |present: bool| if present { 4 } else { 0 };
        let addresses = match self.addresses() {
            (IpAddr::V4(_), _) => 8,
            (IpAddr::V6(_), _) => 32,
        };
        match self {
            Mri::PathCoupled(mri) => {
                let ports = mri.source_port.is_some() || mri.destination_port.is_some();
                8 + addresses
                    + word(mri.flow_label.is_some())
                    + word(mri.spi.is_some())
                    + word(ports)
            }
            Mri::LooseEnd(_) => 4 + addresses,
        }
    }

    #[inline]
    pub(super) fn parse(mut reader: Reader<'_>) -> Result<Mri, ParseError> {
        let start = reader.offset();
        let [method, n, b0, b1] = reader.take()?;
        let bits = u16::from_be_bytes([b0, b1]);
        let end = |reader: &Reader<'_>| {
            reader.finish()?;
            if n & N == 0 {
                Ok(())
            } else {
                Err(reader.error_at(ErrorKind::Combination, start + 1))
            }
        };
        match RoutingMethod::from_code(method) {
            RoutingMethod::PathCoupled => PathCoupled::parse(reader, bits, start + 2, end),
            RoutingMethod::LooseEnd => {
                let (source, destination) = addresses(&mut reader, bits, start + 2)?;
                let direction = Direction::of(bits & flag::LOOSE_UPSTREAM != 0);
                end(&reader)?;
                Ok(Mri::LooseEnd(LooseEnd { source, destination, direction }))
            }
            RoutingMethod::Unknown(_) => Err(reader.error_at(ErrorKind::NotSupported, start)),
        }
    }

    #[inline]
    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        match self {
            Mri::PathCoupled(mri) => mri.emit(writer),
            Mri::LooseEnd(LooseEnd { source, destination, direction }) => {
                let bits = set(*direction == Direction::Upstream, flag::LOOSE_UPSTREAM);
                put_head(writer, RoutingMethod::LooseEnd, bits, *source, *destination)
            }
        }
    }
}

impl PathCoupled {
    /// Parses the rest of the value behind the first word. `bits` is the second half of that word, at offset `bits_at`;
    /// `end` checks that nothing is left.
    #[inline]
    fn parse(
        mut reader: Reader<'_>,
        bits: u16,
        bits_at: usize,
        end: impl Fn(&Reader<'_>) -> Result<(), ParseError>,
    ) -> Result<Mri, ParseError> {
        let has = |flag: u16| bits & flag != 0;
        let (source, destination) = addresses(&mut reader, bits, bits_at)?;
        let ports = has(flag::SOURCE_PORT | flag::DESTINATION_PORT);
        if has(flag::FLOW_LABEL) && source.is_ipv4()
            || (has(flag::SPI) || ports) && !has(flag::PROTOCOL)
            || has(flag::SPI) && ports
        {
            return Err(reader.error_at(ErrorKind::Combination, bits_at));
        }
        let prefixes_at = reader.offset();
        let [source_prefix, destination_prefix, protocol, ds_field] = reader.take()?;
        for (prefix, at) in [(source_prefix, 0), (destination_prefix, 1)] {
            if prefix > address_bits(source) {
                return Err(reader.error_at(ErrorKind::Combination, prefixes_at + at));
            }
        }
        let mut word = |present: bool| -> Result<Option<u32>, ParseError> {
            if present { Ok(Some(u32::from_be_bytes(reader.take()?))) } else { Ok(None) }
        };
        let flow_label = word(has(flag::FLOW_LABEL))?.map(|label| label & 0x000f_ffff);
        let spi = word(has(flag::SPI))?;
        let ports = word(ports)?.unwrap_or_default();
        end(&reader)?;
        Ok(Mri::PathCoupled(PathCoupled {
            source,
            destination,
            source_prefix,
            destination_prefix,
            protocol: has(flag::PROTOCOL).then_some(protocol),
            ds_field: has(flag::DS_FIELD).then_some(ds_field >> 2),
            flow_label,
            spi,
            source_port: has(flag::SOURCE_PORT).then_some((ports >> 16) as u16),
            destination_port: has(flag::DESTINATION_PORT).then_some((ports & 0xffff) as u16),
            direction: Direction::of(has(flag::UPSTREAM)),
        }))
    }

    #[inline]
    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.check()?;
        let bits = set(self.protocol.is_some(), flag::PROTOCOL)
            | set(self.ds_field.is_some(), flag::DS_FIELD)
            | set(self.flow_label.is_some(), flag::FLOW_LABEL)
            | set(self.spi.is_some(), flag::SPI)
            | set(self.source_port.is_some(), flag::SOURCE_PORT)
            | set(self.destination_port.is_some(), flag::DESTINATION_PORT)
            | set(self.direction == Direction::Upstream, flag::UPSTREAM);
        put_head(writer, RoutingMethod::PathCoupled, bits, self.source, self.destination)?;
        writer.put([
            self.source_prefix,
            self.destination_prefix,
            self.protocol.unwrap_or_default(),
            self.ds_field.unwrap_or_default() << 2,
        ])?;
        if let Some(label) = self.flow_label {
            writer.put_numbers([label])?;
        }
        if let Some(spi) = self.spi {
            writer.put_numbers([spi])?;
        }
        if self.source_port.is_some() || self.destination_port.is_some() {
            let [source, destination] = [self.source_port, self.destination_port]
                .map(|port| u32::from(port.unwrap_or_default()));
            writer.put_numbers([source << 16 | destination])?;
        }
        Ok(())
    }

    /// Checks that receivers could parse the MRI (RFC 5971 A.3.1.1).
    #[inline]
    fn check(&self) -> Result<(), EmitError> {
        let bits = address_bits(self.source);
        let ports = self.source_port.is_some() || self.destination_port.is_some();
        let sound = self.source_prefix <= bits
            && self.destination_prefix <= bits
            && self.ds_field.is_none_or(|field| field < 0x40)
            && self.flow_label.is_none_or(|label| self.source.is_ipv6() && label < 0x0010_0000)
            && (self.protocol.is_some() || self.spi.is_none() && !ports)
            && !(self.spi.is_some() && ports);
        if sound { Ok(()) } else { Err(EmitError::Contradiction) }
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn set(set: bool, bits: u16) -> u16 {
    if set { bits } else { 0 }
}

/// Reads both addresses, of the version in the high bits of `bits`.
#[inline]
fn addresses(
    reader: &mut Reader<'_>,
    bits: u16,
    bits_at: usize,
) -> Result<(IpAddr, IpAddr), ParseError> {
    match bits >> 12 {
        4 => {
            let [a, b, c, d, e, f, g, h] = reader.take()?;
            Ok((IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h])))
        }
        6 => Ok((IpAddr::from(reader.take::<16>()?), IpAddr::from(reader.take::<16>()?))),
        _ => Err(reader.error_at(ErrorKind::NotSupported, bits_at)),
    }
}

/// Reads an address of IP version `version`, a field at offset `version_at`.
#[inline]
pub(super) fn address(
    reader: &mut Reader<'_>,
    version: u8,
    version_at: usize,
) -> Result<IpAddr, ParseError> {
    match version {
        4 => Ok(IpAddr::V4(Ipv4Addr::from(reader.take::<4>()?))),
        6 => Ok(IpAddr::V6(Ipv6Addr::from(reader.take::<16>()?))),
        _ => Err(reader.error_at(ErrorKind::NotSupported, version_at)),
    }
}

#[inline]
pub(super) fn put_address(writer: &mut Writer<'_>, address: IpAddr) -> Result<(), EmitError> {
    match address {
        IpAddr::V4(address) => writer.put(address.octets()),
        IpAddr::V6(address) => writer.put(address.octets()),
    }
}

/// Writes the start of an MRI: the method, flags with IP-Ver in front, and both addresses.
#[inline]
fn put_head(
    writer: &mut Writer<'_>,
    method: RoutingMethod,
    bits: u16,
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), EmitError> {
    let first = u32::from(method.code()) << 24 | u32::from(bits);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            writer.put_numbers([first | 0x4000, source.to_bits(), destination.to_bits()])
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            writer.put_numbers([first | 0x6000])?;
            writer.put(source.octets())?;
            writer.put(destination.octets())
        }
        _ => Err(EmitError::Contradiction),
    }
}
