//! NATFW_DTINFO, the data terminal information: the data sender and the transport of a flow (RFC 5973 section 4.2.8).

use core::fmt;
use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::error::ErrorKind;
use crate::serialize::Text;
use crate::writer::{EmitError, Writer};

/// Flags in the first octet.
mod flag {
    /// I: the protocol counts.
    pub(super) const PROTOCOL: u8 = 1 << 7;
    /// P: ports are present.
    pub(super) const PORTS: u8 = 1 << 6;
    /// S: an SPI is present.
    pub(super) const SPI: u8 = 1 << 5;
}

/// Length of the longest sender prefix, bits.
const ADDRESS_BITS: u8 = 32;

/// NATFW_DTINFO object. Its address is that of IPv4; the RFC defines no form for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct DataTerminal {
    /// Address of the data sender; zero if the prefix is 0.
    pub sender: Ipv4Addr,
    /// Length of the sender's prefix, at most 32 bits; 0 for any sender.
    pub sender_prefix: u8,
    /// Protocol, and what identifies the flow within it.
    pub transport: TransportSelector,
}

/// Protocol and ports or SPI of NATFW_DTINFO: the flags I, P and S with the fields that they announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransportSelector {
    /// No flag: any protocol.
    Any,
    /// I: an IP protocol.
    Protocol(u8),
    /// I and P: a protocol with ports.
    Ports {
        /// IP protocol.
        protocol: u8,
        /// Port at the data receiver; 0 for any.
        destination: u16,
        /// Port at the data sender; 0 for any.
        source: u16,
    },
    /// I and S: a protocol of IPsec with its SPI.
    Spi {
        /// IP protocol.
        protocol: u8,
        /// Security parameters index.
        spi: u32,
    },
}

impl TransportSelector {
    /// Returns the IP protocol; `None` for any.
    pub const fn protocol(self) -> Option<u8> {
        match self {
            TransportSelector::Any => None,
            TransportSelector::Protocol(protocol)
            | TransportSelector::Ports { protocol, .. }
            | TransportSelector::Spi { protocol, .. } => Some(protocol),
        }
    }
}

impl DataTerminal {
    /// Length of the value, octets.
    pub(super) const fn len(&self) -> usize {
        match self.transport {
            TransportSelector::Any | TransportSelector::Protocol(_) => 8,
            TransportSelector::Ports { .. } | TransportSelector::Spi { .. } => 12,
        }
    }

    pub(super) fn parse(value: &[u8]) -> Result<DataTerminal, ErrorKind> {
        let Some((&[flags, _, sender_prefix, protocol], rest)) = value.split_first_chunk() else {
            return Err(ErrorKind::ValueLength);
        };
        let has = |flag: u8| flags & flag != 0;
        // The flags determine the length and are checked before it.
        let (transport, rest) = match (has(flag::PROTOCOL), has(flag::PORTS), has(flag::SPI)) {
            (false, false, false) => (TransportSelector::Any, rest),
            (true, false, false) => (TransportSelector::Protocol(protocol), rest),
            (true, true, false) => {
                let (&[d0, d1, s0, s1], rest) =
                    rest.split_first_chunk().ok_or(ErrorKind::ValueLength)?;
                let destination = u16::from_be_bytes([d0, d1]);
                let source = u16::from_be_bytes([s0, s1]);
                (TransportSelector::Ports { protocol, destination, source }, rest)
            }
            (true, false, true) => {
                let (spi, rest) = rest.split_first_chunk().ok_or(ErrorKind::ValueLength)?;
                (TransportSelector::Spi { protocol, spi: u32::from_be_bytes(*spi) }, rest)
            }
            (false, true, _) | (false, _, true) | (_, true, true) => {
                return Err(ErrorKind::Combination);
            }
        };
        let sender = <[u8; 4]>::try_from(rest).map_err(|_| ErrorKind::ValueLength)?;
        let sender = match sender_prefix {
            0 => Ipv4Addr::UNSPECIFIED,
            1..=ADDRESS_BITS => Ipv4Addr::from(sender),
            _ => return Err(ErrorKind::SenderPrefix),
        };
        Ok(DataTerminal { sender, sender_prefix, transport })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let DataTerminal { sender, sender_prefix, transport } = *self;
        if sender_prefix > ADDRESS_BITS || sender_prefix == 0 && !sender.is_unspecified() {
            return Err(EmitError::Contradiction);
        }
        let flags = match transport {
            TransportSelector::Any => 0,
            TransportSelector::Protocol(_) => flag::PROTOCOL,
            TransportSelector::Ports { .. } => flag::PROTOCOL | flag::PORTS,
            TransportSelector::Spi { .. } => flag::PROTOCOL | flag::SPI,
        };
        writer.put([flags, 0, sender_prefix, transport.protocol().unwrap_or(0)])?;
        match transport {
            TransportSelector::Any | TransportSelector::Protocol(_) => {}
            TransportSelector::Ports { destination, source, .. } => {
                let ([d0, d1], [s0, s1]) = (destination.to_be_bytes(), source.to_be_bytes());
                writer.put([d0, d1, s0, s1])?;
            }
            TransportSelector::Spi { spi, .. } => writer.put_numbers([spi])?,
        }
        writer.put(sender.octets())
    }
}

serialize_as!(DataTerminal, |it| {
    let (sender, prefix) = (it.sender, it.sender_prefix);
    let (ports, spi) = match it.transport {
        TransportSelector::Ports { destination, source, .. } => (Some((destination, source)), None),
        TransportSelector::Spi { spi, .. } => (None, Some(spi)),
        TransportSelector::Any | TransportSelector::Protocol(_) => (None, None),
    };
    map! {
        "sender": Text(fmt::from_fn(move |f| write!(f, "{sender}/{prefix}"))),
        "protocol"?: it.transport.protocol(),
        "source_port"?: ports.map(|(_, source)| source),
        "destination_port"?: ports.map(|(destination, _)| destination),
        "spi"?: spi,
    }
});
