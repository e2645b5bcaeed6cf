//! The keys of a flow, and the masks over them that make sense.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use crate::writer::{EmitError, Writer};

/// The address family of classifier and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Octets of an address.
    #[inline]
    pub const fn address_len(self) -> usize {
        match self {
            Family::V4 => 4,
            Family::V6 => 16,
        }
    }

    /// Octets of a classifier, and of a mask: two addresses and eight.
    #[inline]
    pub const fn keys_len(self) -> usize {
        2 * self.address_len() + 8
    }
}

/// A classifier: which packets. Its bits matter as far as the mask has them set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Keys {
    /// Source address of the forward direction.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Without meaning; kept as they came.
    pub flags: u16,
}

impl Keys {
    /// The family, if it is one.
    pub fn family(&self) -> Result<Family, EmitError> {
        match (self.source, self.destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Ok(Family::V4),
            (IpAddr::V6(_), IpAddr::V6(_)) => Ok(Family::V6),
            _ => Err(EmitError::Contradiction),
        }
    }

    /// From as many octets as a family's keys have; `None` where it is another number.
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

    /// Writes them to the start of `buffer`.
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

/// A mask that makes sense: which of the keys matter.
///
/// Addresses matter up to a prefix, the other keys wholly or not at all, ports only together with the protocol, and
/// the flags, which mean nothing, never. All else is refused: no classifier of packets could be built for it, and each
/// different mask costs a node something with every look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Leading bits of the source address that matter.
    pub source: u8,
    /// Leading bits of the destination address that matter.
    pub destination: u8,
    /// Whether the source port matters.
    pub source_port: bool,
    /// Whether the destination port matters.
    pub destination_port: bool,
    /// Whether the protocol matters.
    pub protocol: bool,
    /// Whether the type of service matters.
    pub tos: bool,
}

impl Shape {
    /// One flow: addresses, ports and protocol matter.
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

    /// How many bits matter; the more, the more specific.
    pub fn specificity(&self) -> u16 {
        let whole = |matters: bool, bits: u16| if matters { bits } else { 0 };
        u16::from(self.source)
            + u16::from(self.destination)
            + whole(self.source_port, 16)
            + whole(self.destination_port, 16)
            + whole(self.protocol, 8)
            + whole(self.tos, 8)
    }

    /// The mask as keys with all bits set that matter.
    ///
    /// # Errors
    /// The mask makes no sense for this family.
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

    /// What the mask in `octets`, as many as a family's keys have, means. Offsets of errors count from `at`.
    pub(super) fn judge(octets: &[u8], at: usize) -> Result<Shape, ParseError> {
        let truncated = ParseError::new(ErrorKind::Truncated, at + octets.len());
        let mask = Keys::from_octets(octets).ok_or(truncated)?;
        let ports = at + octets.len() - 8;
        let address = octets.len() / 2 - 4;
        let fault = |kind, offset| move || ParseError::new(kind, offset);
        let shape = Shape {
            source: prefix(mask.source).ok_or_else(fault(ErrorKind::SourceMask, at))?,
            destination: prefix(mask.destination)
                .ok_or_else(fault(ErrorKind::DestinationMask, at + address))?,
            source_port: whole(mask.source_port.into(), u16::MAX.into())
                .ok_or_else(fault(ErrorKind::SourcePortMask, ports))?,
            destination_port: whole(mask.destination_port.into(), u16::MAX.into())
                .ok_or_else(fault(ErrorKind::DestinationPortMask, ports + 2))?,
            protocol: whole(mask.protocol.into(), u8::MAX.into())
                .ok_or_else(fault(ErrorKind::ProtocolMask, ports + 4))?,
            tos: whole(mask.tos.into(), u8::MAX.into())
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

/// Length of the prefix that a mask of an address is, if it is one.
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

/// Whether a key matters, if its mask is all or nothing.
fn whole(mask: u32, all: u32) -> Option<bool> {
    match mask {
        0 => Some(false),
        mask if mask == all => Some(true),
        _ => None,
    }
}
