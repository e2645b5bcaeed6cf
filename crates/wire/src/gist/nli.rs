//! Network-Layer-Information: sender of a message, and the address of that node (RFC 5971 A.3.3).

use core::net::IpAddr;

use serde::Serialize;

use super::error::{ErrorKind, ParseError};
use super::mri::{address, put_address};
use super::reader::Reader;
use crate::nsis::{WORD, object::pad};
use crate::serialize::hex;
use crate::writer::{EmitError, Writer};

/// Identity and address of a message's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NetworkLayerInformation<'a> {
    /// Peer-Identity: identifies the node regardless of its addresses; at most 255 octets.
    #[serde(serialize_with = "hex")]
    pub peer_identity: &'a [u8],
    /// Interface address, to which answers are sent.
    pub interface_address: IpAddr,
    /// IP-TTL with which the packet is sent, or IP hops to the peer; 0 if unknown (RFC 5971 section 5.2.2).
    pub ip_ttl: u8,
    /// Routing state validity time: lifetime without a refresh, milliseconds; never 0.
    #[serde(rename = "routing_state_validity_ms")]
    pub routing_state_validity: u32,
}

impl<'a> NetworkLayerInformation<'a> {
    /// Length of the value, octets.
    pub fn value_len(&self) -> usize {
        let address = if self.interface_address.is_ipv4() { 4 } else { 16 };
        8 + self.peer_identity.len().next_multiple_of(WORD) + address
    }

    #[inline]
    pub(super) fn parse(mut reader: Reader<'a>) -> Result<Self, ParseError> {
        let start = reader.offset();
        let [identity_len, ip_ttl, version, _] = reader.take()?;
        let routing_state_validity = u32::from_be_bytes(reader.take()?);
        let peer_identity = reader.take_padded(0, usize::from(identity_len))?;
        let interface_address = address(&mut reader, version >> 4, start + 2)?;
        reader.finish()?;
        if routing_state_validity == 0 {
            return Err(reader.error_at(ErrorKind::NotSupported, start + 4));
        }
        Ok(Self { peer_identity, ip_ttl, interface_address, routing_state_validity })
    }

    #[inline]
    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let len = u8::try_from(self.peer_identity.len()).map_err(|_| EmitError::TooLong)?;
        if self.routing_state_validity == 0 {
            return Err(EmitError::Contradiction);
        }
        let version = if self.interface_address.is_ipv4() { 0x40 } else { 0x60 };
        let first = u32::from_be_bytes([len, self.ip_ttl, version, 0]);
        writer.put_numbers([first, self.routing_state_validity])?;
        writer.put_slice(self.peer_identity)?;
        pad(writer, self.peer_identity.len())?;
        put_address(writer, self.interface_address)
    }
}
