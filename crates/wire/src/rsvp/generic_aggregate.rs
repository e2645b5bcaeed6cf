//! Generic aggregate sessions (RFC 4860): SESSION of C-Types 17 and 18, and SESSION-OF-INTEREST.
//!
//! Messages of these sessions are refused with "unknown object C-Type"; SESSION-OF-INTEREST is of a class that nodes may
//! ignore. So both are decoded for display only.

use core::net::IpAddr;
use serde::Serialize;

use super::decode;
use super::error::{ErrorKind, ParseError};
use super::frame::RawObject;
use super::iana::{ObjectClass, c_type};
use super::object_writer::{put_address, put_header};
use crate::writer::{EmitError, Writer};

/// SESSION of a generic aggregate (RFC 4860 section 2.1): GENERIC-AGGREGATE-IP4 or GENERIC-AGGREGATE-IP6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GenericAggregate {
    /// DestAddress, of the receiver or the deaggregating router.
    pub destination: IpAddr,
    /// Flag bits, as in [`super::Session::flags`].
    pub flags: u8,
    /// PHB-ID (RFC 3140 section 2): the packets of the aggregate.
    pub phb_id: u16,
    /// vDstPort, which is not in the packets.
    pub port: u16,
    /// Extended vDstPort: an address of the aggregating router, or zero. Of the family of the destination.
    pub extended_port: IpAddr,
}

/// Octets between the two addresses.
const FIXED: usize = 8;

/// Returns whether a SESSION is that of a generic aggregate.
pub(super) fn is_generic(object: &RawObject<'_>) -> bool {
    matches!(object.c_type(), c_type::GENERIC_AGGREGATE_IPV4 | c_type::GENERIC_AGGREGATE_IPV6)
}

/// Parses a SESSION of a generic aggregate.
pub(super) fn session(object: &RawObject<'_>) -> Result<GenericAggregate, ParseError> {
    body(object, object.c_type() == c_type::GENERIC_AGGREGATE_IPV4)
}

/// Parses a SESSION-OF-INTEREST (RFC 4860 section 2.2).
pub(super) fn session_of_interest(object: &RawObject<'_>) -> Result<GenericAggregate, ParseError> {
    match object.c_type() {
        c_type::IPV4 => body(object, true),
        c_type::IPV6 => body(object, false),
        _ => Err(object.error(ErrorKind::UnknownCType)),
    }
}

fn body(object: &RawObject<'_>, is_ipv4: bool) -> Result<GenericAggregate, ParseError> {
    let fields = || {
        let mut rest = object.body();
        let destination = decode::take_address(&mut rest, is_ipv4)?;
        let (fixed, mut rest) = rest.split_first_chunk::<FIXED>()?;
        let extended_port = decode::take_address(&mut rest, is_ipv4)?;
        let [_, flags, i0, i1, _, _, p0, p1] = *fixed;
        let (phb_id, port) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([p0, p1]));
        let found = GenericAggregate { destination, flags, phb_id, port, extended_port };
        rest.is_empty().then_some(found)
    };
    fields().ok_or_else(|| object.error(ErrorKind::ObjectSize))
}

/// Writes a SESSION or SESSION-OF-INTEREST.
pub(super) fn put_generic(
    w: &mut Writer<'_>,
    class: ObjectClass,
    session: &GenericAggregate,
) -> Result<(), EmitError> {
    let GenericAggregate { destination, flags, phb_id, port, extended_port } = *session;
    let is_ipv4 = destination.is_ipv4();
    if extended_port.is_ipv4() != is_ipv4 {
        return Err(EmitError::Contradiction);
    }
    let c_types = match class {
        ObjectClass::Session => [c_type::GENERIC_AGGREGATE_IPV4, c_type::GENERIC_AGGREGATE_IPV6],
        _ => [c_type::IPV4, c_type::IPV6],
    };
    let (c_type, addresses) = if is_ipv4 { (c_types[0], 8) } else { (c_types[1], 32) };
    put_header(w, class, c_type, addresses + FIXED)?;
    put_address(w, destination)?;
    let ([i0, i1], [p0, p1]) = (phb_id.to_be_bytes(), port.to_be_bytes());
    w.put([0, flags, i0, i1, 0, 0, p0, p1])?;
    put_address(w, extended_port)
}
