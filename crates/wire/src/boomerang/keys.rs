//! Flow classifiers and the masks over them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use super::error::{ErrorKind, ParseError};
use crate::writer::{EmitError, Writer};

/// Address family of classifier and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Length of an address, octets.
    #[inline]
    pub const fn address_len(self) -> usize {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }

    /// Length of a classifier, and of a mask: two addresses and eight octets.
    #[inline]
    pub const fn keys_len(self) -> usize {
        2 * self.address_len() + 8
    }
}

/// Flow classifier. The mask says which of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Keys {
    /// Source address of the forward direction.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Flags, without meaning; kept as received.
    #[serde(skip)]
    pub flags: u16,
}

impl Keys {
    /// Returns the family of both addresses.
    ///
    /// # Errors
    /// The families differ.
    pub fn family(&self) -> Result<Family, EmitError> {
        match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Ok(Family::V4),
            (IpAddr::V6(_), IpAddr::V6(_)) => Ok(Family::V6),
            _ => Err(EmitError::Contradiction),
        }
    }

    /// Reads the keys of a family. Returns `None` if the length is that of neither family.
    #[inline]
    pub fn from_octets(octets: &[u8]) -> Option<Keys> {
        let (tail, source, destination): (_, IpAddr, IpAddr) = match octets.len() {
            16 => {
                let (source, rest) = octets.split_first_chunk::<4>()?;
                let (destination, tail) = rest.split_first_chunk::<4>()?;
                (tail, Ipv4Addr::from(*source).into(), Ipv4Addr::from(*destination).into())
            }
            40 => {
                let (source, rest) = octets.split_first_chunk::<16>()?;
                let (destination, tail) = rest.split_first_chunk::<16>()?;
                (tail, Ipv6Addr::from(*source).into(), Ipv6Addr::from(*destination).into())
            }
            _ => return None,
        };
        let &[s0, s1, d0, d1, protocol, tos, f0, f1] = tail else { return None };
        Some(Keys {
            source,
            destination,
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            protocol,
            tos,
            flags: u16::from_be_bytes([f0, f1]),
        })
    }

    /// Writes the keys to the start of `buffer`; returns their length.
    ///
    /// # Errors
    /// The buffer is too short, or the families differ.
    pub fn emit_to(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let length = self.family()?.keys_len();
        self.emit(&mut Writer::new(buffer))?;
        Ok(length)
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        for address in [self.source, self.destination] {
            match address {
                IpAddr::V4(address) => writer.put(address.octets())?,
                IpAddr::V6(address) => writer.put(address.octets())?,
            }
        }
        writer.put(self.source_port.to_be_bytes())?;
        writer.put(self.destination_port.to_be_bytes())?;
        writer.put([self.protocol, self.tos])?;
        writer.put(self.flags.to_be_bytes())
    }
}

/// A valid mask: which keys of a classifier count.
///
/// Addresses count up to a prefix, the other keys wholly or not at all, ports only together with the protocol, and the
/// flags, which have no meaning, never. Other masks are refused: no packet classifier could implement them, and each
/// distinct mask makes every look-up of a node more expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Shape {
    /// Prefix length of the source address.
    #[serde(rename = "source_bits")]
    pub source: u8,
    /// Whether the source port counts.
    pub source_port: bool,
    /// Prefix length of the destination address.
    #[serde(rename = "destination_bits")]
    pub destination: u8,
    /// Whether the destination port counts.
    pub destination_port: bool,
    /// Whether the protocol counts.
    pub protocol: bool,
    /// Whether the type of service counts.
    pub tos: bool,
}

impl Shape {
    /// The mask of a single flow: addresses, ports and protocol count.
    pub const fn exact(family: Family) -> Shape {
        let bits = (8 * family.address_len()) as u8;
        Shape {
            source: bits,
            destination: bits,
            source_port: true,
            destination_port: true,
            protocol: true,
            tos: false,
        }
    }

    /// Number of bits that count. A larger number is more specific.
    pub fn specificity(&self) -> u16 {
        let whole = |matters: bool, bits: u16| if matters { bits } else { 0 };
        u16::from(self.source)
            + u16::from(self.destination)
            + whole(self.source_port, 16)
            + whole(self.destination_port, 16)
            + whole(self.protocol, 8)
            + whole(self.tos, 8)
    }

    /// Returns the mask as keys in which all bits that count are set.
    ///
    /// # Errors
    /// The mask is invalid for this family.
    pub fn keys(&self, family: Family) -> Result<Keys, EmitError> {
        let bits = (8 * family.address_len()) as u8;
        let ports = self.source_port || self.destination_port;
        if self.source > bits || self.destination > bits || (ports && !self.protocol) {
            return Err(EmitError::Contradiction);
        }
        let address = |length: u8| -> IpAddr {
            match family {
                Family::V4 => Ipv4Addr::from_bits(ones_32(length)).into(),
                Family::V6 => Ipv6Addr::from_bits(ones_128(length)).into(),
            }
        };
        Ok(Keys {
            source: address(self.source),
            destination: address(self.destination),
            source_port: if self.source_port { u16::MAX } else { 0 },
            destination_port: if self.destination_port { u16::MAX } else { 0 },
            protocol: if self.protocol { u8::MAX } else { 0 },
            tos: if self.tos { u8::MAX } else { 0 },
            flags: 0,
        })
    }

    /// Reads a mask from `octets`, which have the length of a family's keys. Offsets of errors count from `at`.
    pub(super) fn from_mask(octets: &[u8], at: usize) -> Result<Shape, ParseError> {
        let truncated = ParseError::new(ErrorKind::Truncated, at + octets.len());
        let mask = Keys::from_octets(octets).ok_or(truncated)?;
        let ports = at + octets.len() - 8;
        let address = octets.len() / 2 - 4;
        let fault = |kind, offset| move || ParseError::new(kind, offset);
        let shape = Shape {
            source: prefix(mask.source).ok_or_else(fault(ErrorKind::SourceMask, at))?,
            destination: prefix(mask.destination)
                .ok_or_else(fault(ErrorKind::DestinationMask, at + address))?,
            source_port: all_or_nothing(mask.source_port.into(), u16::MAX.into())
                .ok_or_else(fault(ErrorKind::SourcePortMask, ports))?,
            destination_port: all_or_nothing(mask.destination_port.into(), u16::MAX.into())
                .ok_or_else(fault(ErrorKind::DestinationPortMask, ports + 2))?,
            protocol: all_or_nothing(mask.protocol.into(), u8::MAX.into())
                .ok_or_else(fault(ErrorKind::ProtocolMask, ports + 4))?,
            tos: all_or_nothing(mask.tos.into(), u8::MAX.into())
                .ok_or_else(fault(ErrorKind::TosMask, ports + 5))?,
        };
        if mask.flags != 0 {
            return Err(ParseError::new(ErrorKind::FlagsMask, ports + 6));
        }
        if (shape.source_port || shape.destination_port) && !shape.protocol {
            return Err(ParseError::new(ErrorKind::PortsWithoutProtocol, ports + 4));
        }
        Ok(shape)
    }
}

/// Returns the prefix length of an address mask; `None` if the mask is not a prefix.
fn prefix(mask: IpAddr) -> Option<u8> {
    match mask {
        IpAddr::V4(mask) => {
            let length = mask.to_bits().leading_ones() as u8;
            (mask.to_bits() == ones_32(length)).then_some(length)
        }
        IpAddr::V6(mask) => {
            let length = mask.to_bits().leading_ones() as u8;
            (mask.to_bits() == ones_128(length)).then_some(length)
        }
    }
}

fn ones_32(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
}

fn ones_128(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)
}

/// Returns whether a key counts: `true` for all ones, `false` for zero, `None` for any other mask.
fn all_or_nothing(mask: u32, all: u32) -> Option<bool> {
    match mask {
        0 => Some(false),
        mask if mask == all => Some(true),
        _ => None,
    }
}
