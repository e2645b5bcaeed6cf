//! Writers of single objects, used by the emitters of all messages.

use core::net::IpAddr;

use super::frame::{Carried, OBJECT_HEADER};
use super::iana::{ObjectClass, c_type};
use super::integrity::Integrity;
use super::list::List;
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, SourceSelector, Style};
use crate::intserv::{FlowSpec, SenderTspec};
use crate::writer::{EmitError, Writer};

/// Length of a SENDER_TSPEC object, octets.
pub(super) const TSPEC: usize = OBJECT_HEADER + SenderTspec::BODY_LEN;

/// Length of an object that is one address and `more` octets.
#[inline]
pub(super) fn with_address_len(address: IpAddr, more: usize) -> usize {
    OBJECT_HEADER + if address.is_ipv4() { 4 } else { 16 } + more
}

#[inline]
pub(super) fn filter_len(filter: &FilterSpec) -> usize {
    let more = if filter.selector == SourceSelector::Aggregator { 0 } else { 4 };
    with_address_len(filter.source, more)
}

#[inline]
pub(super) fn scope_len(scope: &Option<List<'_, IpAddr>>) -> usize {
    let octets = |senders: List<'_, IpAddr>| -> usize {
        OBJECT_HEADER + senders.iter().map(|a| if a.is_ipv4() { 4 } else { 16 }).sum::<usize>()
    };
    scope.map_or(0, octets)
}

/// Writes an object's header in front of `body` octets.
#[inline]
pub(super) fn put_header(
    w: &mut Writer<'_>,
    class: ObjectClass,
    c_type: u8,
    body: usize,
) -> Result<(), EmitError> {
    let length = u16::try_from(OBJECT_HEADER + body).map_err(|_| EmitError::TooLong)?;
    let [high, low] = length.to_be_bytes();
    w.put([high, low, class.code(), c_type])
}

#[inline]
pub(super) fn put_address(w: &mut Writer<'_>, address: IpAddr) -> Result<(), EmitError> {
    match address {
        IpAddr::V4(address) => w.put(address.octets()),
        IpAddr::V6(address) => w.put(address.octets()),
    }
}

/// Returns the header of an object with `body` octets, as a number.
const fn header(class: ObjectClass, c_type: u8, body: usize) -> u32 {
    ((OBJECT_HEADER + body) as u32) << 16 | (class.code() as u32) << 8 | c_type as u32
}

/// Writes an object that is one address and one more word.
#[inline]
fn put_with_address(
    w: &mut Writer<'_>,
    class: ObjectClass,
    address: IpAddr,
    more: u32,
) -> Result<(), EmitError> {
    put_with_c_type(w, class, [c_type::IPV4, c_type::IPV6], address, more)
}

/// Writes an object that is one address and one more word; it has one of two C-Types, for IPv4 and for IPv6.
#[inline]
fn put_with_c_type(
    w: &mut Writer<'_>,
    class: ObjectClass,
    c_types: [u8; 2],
    address: IpAddr,
    more: u32,
) -> Result<(), EmitError> {
    match address {
        IpAddr::V4(address) => {
            w.put_numbers([header(class, c_types[0], 8), address.to_bits(), more])
        }
        IpAddr::V6(address) => {
            put_header(w, class, c_types[1], 16 + 4)?;
            w.put(address.octets())?;
            w.put_numbers([more])
        }
    }
}

#[inline]
pub(super) fn put_session(w: &mut Writer<'_>, session: &Session) -> Result<(), EmitError> {
    let [p0, p1] = session.port.to_be_bytes();
    let more = u32::from_be_bytes([session.protocol, session.flags, p0, p1]);
    let (class, destination) = (ObjectClass::Session, session.destination);
    if session.has_gpi() {
        let c_types = [c_type::SESSION_IPV4_GPI, c_type::SESSION_IPV6_GPI];
        return put_with_c_type(w, class, c_types, destination, more);
    }
    if session.is_aggregate() {
        let c_types = [c_type::AGGREGATE_IPV4, c_type::AGGREGATE_IPV6];
        return put_with_c_type(w, class, c_types, destination, more);
    }
    put_with_address(w, class, destination, more)
}

#[inline]
pub(super) fn put_hop(w: &mut Writer<'_>, hop: &RsvpHop) -> Result<(), EmitError> {
    put_with_address(w, ObjectClass::RsvpHop, hop.address, hop.lih)
}

#[inline]
pub(super) fn put_time_values(w: &mut Writer<'_>, refresh_ms: u32) -> Result<(), EmitError> {
    w.put_numbers([header(ObjectClass::TimeValues, c_type::TIME_VALUES, 4), refresh_ms])
}

#[inline]
pub(super) fn put_error(w: &mut Writer<'_>, error: &ErrorSpec) -> Result<(), EmitError> {
    let [v0, v1] = error.value.to_be_bytes();
    let more = u32::from_be_bytes([error.flags, error.code.code(), v0, v1]);
    put_with_address(w, ObjectClass::ErrorSpec, error.node, more)
}

#[inline]
pub(super) fn put_confirm(w: &mut Writer<'_>, receiver: IpAddr) -> Result<(), EmitError> {
    let (c_type, size) = if receiver.is_ipv4() { (c_type::IPV4, 4) } else { (c_type::IPV6, 16) };
    put_header(w, ObjectClass::ResvConfirm, c_type, size)?;
    put_address(w, receiver)
}

/// `session` determines the family, which a list without addresses does not show.
#[inline]
pub(super) fn put_scope(
    w: &mut Writer<'_>,
    scope: &Option<List<'_, IpAddr>>,
    session: IpAddr,
) -> Result<(), EmitError> {
    let Some(senders) = scope else {
        return Ok(());
    };
    let c_type = if session.is_ipv4() { c_type::IPV4 } else { c_type::IPV6 };
    put_header(w, ObjectClass::Scope, c_type, scope_len(scope) - OBJECT_HEADER)?;
    senders.iter().try_for_each(|sender| put_address(w, sender))
}

#[inline]
pub(super) fn put_carried(w: &mut Writer<'_>, carried: &Carried<'_>) -> Result<(), EmitError> {
    // Of most messages.
    if let Carried::Objects([]) = carried {
        return Ok(());
    }
    carried.iter().try_for_each(|object| w.put_slice(object.bytes))
}

#[inline]
pub(super) fn put_style(w: &mut Writer<'_>, style: Style) -> Result<(), EmitError> {
    put_option_vector(w, u32::from(style.option_vector()))
}

/// Writes a STYLE object with any option vector, known or unknown.
#[inline]
pub(super) fn put_option_vector(w: &mut Writer<'_>, vector: u32) -> Result<(), EmitError> {
    w.put_numbers([header(ObjectClass::Style, c_type::STYLE, 4), vector & 0x00ff_ffff])
}

#[inline]
pub(super) fn put_flowspec(
    w: &mut Writer<'_>,
    flowspec: &Option<FlowSpec>,
) -> Result<(), EmitError> {
    let Some(flowspec) = flowspec else {
        return Ok(());
    };
    put_header(w, ObjectClass::FlowSpec, c_type::INTSERV, flowspec.buffer_len())?;
    flowspec.put(w)
}

/// Writes FILTER_SPEC or SENDER_TEMPLATE. A flow label with an IPv4 source, which no object can hold, becomes port 0.
#[inline]
pub(super) fn put_filter(
    w: &mut Writer<'_>,
    class: ObjectClass,
    filter: &FilterSpec,
) -> Result<(), EmitError> {
    match (filter.source, filter.selector) {
        (IpAddr::V6(source), SourceSelector::FlowLabel(label)) => {
            put_header(w, class, c_type::IPV6_FLOW_LABEL, 16 + 4)?;
            w.put(source.octets())?;
            w.put((label & 0x00ff_ffff).to_be_bytes())
        }
        (source, SourceSelector::Port(port)) => put_with_address(w, class, source, port.into()),
        (source, SourceSelector::FlowLabel(_)) => put_with_address(w, class, source, 0),
        (source, SourceSelector::Spi(spi)) => {
            let c_types = [c_type::SENDER_IPV4_GPI, c_type::SENDER_IPV6_GPI];
            put_with_c_type(w, class, c_types, source, spi)
        }
        (source, SourceSelector::Aggregator) => {
            let (c_type, size) = match source {
                IpAddr::V4(_) => (c_type::AGGREGATE_IPV4, 4),
                IpAddr::V6(_) => (c_type::AGGREGATE_IPV6, 16),
            };
            put_header(w, class, c_type, size)?;
            put_address(w, source)
        }
    }
}

#[inline]
pub(super) fn put_tspec(w: &mut Writer<'_>, tspec: &SenderTspec) -> Result<(), EmitError> {
    put_header(w, ObjectClass::SenderTspec, c_type::INTSERV, SenderTspec::BODY_LEN)?;
    tspec.put(w)
}

#[inline]
pub(super) fn put_adspec(w: &mut Writer<'_>, body: &[u8]) -> Result<(), EmitError> {
    put_header(w, ObjectClass::Adspec, c_type::INTSERV, body.len())?;
    w.put_slice(body)
}

#[inline]
pub(super) fn put_integrity(
    w: &mut Writer<'_>,
    integrity: &Integrity<'_>,
) -> Result<(), EmitError> {
    let digest = integrity.digest;
    if digest.is_empty() || !digest.len().is_multiple_of(4) {
        return Err(EmitError::Contradiction);
    }
    put_header(w, ObjectClass::Integrity, c_type::INTEGRITY, 16 + digest.len())?;
    w.put(integrity.fixed_octets())?;
    w.put_slice(digest)
}
