//! Emission of messages, with objects in the order that RFC 2205 recommends (sections 3.1.3 to 3.1.9) and RFC 2961
//! prescribes (section 4.1).
//!
//! Every octet of the message is written, reserved ones as zero: the old contents of the buffer do not matter.

mod control;
mod object;

use core::net::IpAddr;

pub(super) use control::put_integrity;

use super::frame::{COMMON_HEADER, OBJECT_HEADER, VERSION_1};
use super::hello::Hello;
use super::iana::{ObjectClass, c_type};
use super::integrity::Challenge;
use super::message::*;
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, SourceSelector, Style};
use crate::checksum;
use crate::intserv::{FlowSpec, SenderTspec};
use crate::writer::{EmitError, Writer};

/// Offset of the checksum in the common header.
const CHECKSUM: usize = 2;
/// Offset of the length in the common header.
const LENGTH: usize = 6;

impl Message<'_> {
    /// Length of the message, octets. A message of more than 65 535 cannot be emitted; 24 less fit behind an IPv4
    /// header with router alert.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        COMMON_HEADER + self.leading_objects_len() + self.body.objects_len()
    }

    /// Writes the message with length and checksum, [`Message::buffer_len`] octets; returns the length.
    ///
    /// # Errors
    /// The buffer is too short, the message is too long for its length field, or its parts contradict each other.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        start(&mut writer, self.body.message_type().code(), self.flags, self.send_ttl)?;
        if !self.is_consistent() {
            return Err(EmitError::Contradiction);
        }
        self.put_leading_objects(&mut writer)?;
        self.body.put(&mut writer)?;
        finish(writer)
    }
}

/// Writes the common header. Length and checksum are zero until [`finish`].
#[inline]
pub(super) fn start(
    writer: &mut Writer<'_>,
    message_type: u8,
    flags: u8,
    send_ttl: u8,
) -> Result<(), EmitError> {
    writer.put([VERSION_1 | (flags & 0x0f), message_type, 0, 0, send_ttl, 0, 0, 0])
}

/// Writes length and checksum; returns the length.
#[inline]
pub(super) fn finish(mut writer: Writer<'_>) -> Result<usize, EmitError> {
    let written = writer.written().len();
    let length = u16::try_from(written).map_err(|_| EmitError::TooLong)?;
    writer.patch(LENGTH, length.to_be_bytes())?;
    writer.patch(CHECKSUM, checksum_of(writer.written()).to_be_bytes())?;
    Ok(written)
}

/// Computes the checksum of a whole message.
pub(super) fn set_checksum(message: &mut [u8]) -> Result<(), EmitError> {
    message.get_mut(CHECKSUM..CHECKSUM + 2).ok_or(EmitError::BufferTooShort)?.fill(0);
    let check = checksum_of(message).to_be_bytes();
    message
        .get_mut(CHECKSUM..CHECKSUM + 2)
        .ok_or(EmitError::BufferTooShort)?
        .copy_from_slice(&check);
    Ok(())
}

/// Returns the checksum of a message whose checksum field is zero.
#[inline]
fn checksum_of(message: &[u8]) -> u16 {
    // Zero would mean that no checksum was sent; all ones is the same number.
    match checksum::checksum(message) {
        0 => 0xffff,
        check => check,
    }
}

impl Body<'_> {
    #[inline]
    fn objects_len(&self) -> usize {
        const TIME_VALUES: usize = OBJECT_HEADER + 4;
        let session = self.session().map_or(0, |s| with_address_len(s.destination, 4));
        let hop = |hop: &RsvpHop| with_address_len(hop.address, 4);
        let error = |error: &ErrorSpec| with_address_len(error.node, 4);
        match self {
            Body::Path(m) => {
                let adspec = m.sender.adspec.map_or(0, |body| OBJECT_HEADER + body.len());
                let sender = filter_len(&m.sender.template) + TSPEC + adspec;
                session + hop(&m.hop) + TIME_VALUES + m.carried.octets() + sender
            }
            Body::Resv(m) => {
                let confirm = m.confirm.map_or(0, |to| with_address_len(to, 0));
                let before = session + hop(&m.hop) + TIME_VALUES + confirm + scope_len(&m.scope);
                before + m.carried.octets() + m.flows.objects_len()
            }
            Body::PathErr(m) => {
                let sender = m.sender.map_or(0, |(template, tspec)| {
                    filter_len(&template) + tspec.map_or(0, |_| TSPEC)
                });
                session + error(&m.error) + m.carried.octets() + sender
            }
            Body::ResvErr(m) => {
                let before = session + hop(&m.hop) + error(&m.error) + scope_len(&m.scope);
                before + m.carried.octets() + m.flows.objects_len()
            }
            Body::PathTear(m) => {
                let sender = filter_len(&m.template) + m.tspec.map_or(0, |_| TSPEC);
                session + hop(&m.hop) + m.carried.octets() + sender
            }
            Body::ResvTear(m) => {
                let before = session + hop(&m.hop) + scope_len(&m.scope);
                before + m.carried.octets() + m.flows.objects_len()
            }
            Body::ResvConf(m) => {
                let before = session + error(&m.error) + with_address_len(m.confirm, 0);
                before + m.carried.octets() + m.flows.objects_len()
            }
            Body::Bundle(bundle) => bundle.octets().len(),
            Body::Ack => 0,
            Body::Srefresh(m) => m.objects_len(),
            Body::Hello(_) => Hello::OBJECT_LEN,
            Body::IntegrityChallenge(_) | Body::IntegrityResponse(_) => Challenge::OBJECT_LEN,
            Body::Dreq(m) | Body::Drep(m) => session + hop(&m.hop) + m.rest_len(),
        }
    }

    #[inline]
    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        if let Some(session) = self.session() {
            put_session(w, session)?;
        }
        match self {
            Body::Path(m) => {
                put_hop(w, &m.hop)?;
                put_time_values(w, m.refresh_ms)?;
                put_carried(w, &m.carried)?;
                put_filter(w, ObjectClass::SenderTemplate, &m.sender.template)?;
                put_tspec(w, &m.sender.tspec)?;
                m.sender.adspec.map_or(Ok(()), |body| put_adspec(w, body))
            }
            Body::Resv(m) => {
                put_hop(w, &m.hop)?;
                put_time_values(w, m.refresh_ms)?;
                if let Some(receiver) = m.confirm {
                    put_confirm(w, receiver)?;
                }
                put_scope(w, &m.scope, m.session.destination)?;
                put_carried(w, &m.carried)?;
                m.flows.put(w)
            }
            Body::PathErr(m) => {
                put_error(w, &m.error)?;
                put_carried(w, &m.carried)?;
                let Some((template, tspec)) = &m.sender else {
                    return Ok(());
                };
                put_filter(w, ObjectClass::SenderTemplate, template)?;
                tspec.as_ref().map_or(Ok(()), |tspec| put_tspec(w, tspec))
            }
            Body::ResvErr(m) => {
                put_hop(w, &m.hop)?;
                put_error(w, &m.error)?;
                put_scope(w, &m.scope, m.session.destination)?;
                put_carried(w, &m.carried)?;
                m.flows.put(w)
            }
            Body::PathTear(m) => {
                put_hop(w, &m.hop)?;
                put_carried(w, &m.carried)?;
                put_filter(w, ObjectClass::SenderTemplate, &m.template)?;
                m.tspec.as_ref().map_or(Ok(()), |tspec| put_tspec(w, tspec))
            }
            Body::ResvTear(m) => {
                put_hop(w, &m.hop)?;
                put_scope(w, &m.scope, m.session.destination)?;
                put_carried(w, &m.carried)?;
                m.flows.put(w)
            }
            Body::ResvConf(m) => {
                put_error(w, &m.error)?;
                put_confirm(w, m.confirm)?;
                put_carried(w, &m.carried)?;
                m.flows.put(w)
            }
            Body::Bundle(bundle) => w.put_slice(bundle.octets()),
            Body::Ack => Ok(()),
            Body::Srefresh(m) => m.put(w),
            Body::Hello(hello) => control::put_hello(w, hello),
            Body::IntegrityChallenge(challenge) | Body::IntegrityResponse(challenge) => {
                control::put_challenge(w, challenge)
            }
            Body::Dreq(m) | Body::Drep(m) => {
                put_hop(w, &m.hop)?;
                m.put_rest(w)
            }
        }
    }
}

impl FlowDescriptors<'_> {
    #[inline]
    fn objects_len(&self) -> usize {
        const STYLE: usize = OBJECT_HEADER + 4;
        let flowspec_len = |flowspec: &Option<FlowSpec>| {
            flowspec.as_ref().map_or(0, |flowspec| OBJECT_HEADER + flowspec.buffer_len())
        };
        let descriptors: usize = match self {
            FlowDescriptors::Wildcard(flowspec) => flowspec_len(flowspec),
            FlowDescriptors::FixedFilter(flows) => {
                flows.sum(|flow| flowspec_len(&flow.flowspec) + filter_len(&flow.filter))
            }
            FlowDescriptors::SharedExplicit(flowspec, filters) => {
                flowspec_len(flowspec) + filters.sum(filter_len)
            }
        };
        STYLE + descriptors
    }

    #[inline]
    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        put_style(w, self.style())?;
        match self {
            FlowDescriptors::Wildcard(flowspec) => put_flowspec(w, flowspec),
            FlowDescriptors::FixedFilter(flows) => flows.try_for_each(|flow| {
                put_flowspec(w, &flow.flowspec)?;
                put_filter(w, ObjectClass::FilterSpec, &flow.filter)
            }),
            FlowDescriptors::SharedExplicit(flowspec, filters) => {
                put_flowspec(w, flowspec)?;
                filters.try_for_each(|filter| put_filter(w, ObjectClass::FilterSpec, filter))
            }
        }
    }
}

/// Length of a SENDER_TSPEC object, octets.
const TSPEC: usize = OBJECT_HEADER + SenderTspec::BODY_LEN;

/// Length of an object that is one address and `more` octets.
#[inline]
pub(super) fn with_address_len(address: IpAddr, more: usize) -> usize {
    OBJECT_HEADER + if address.is_ipv4() { 4 } else { 16 } + more
}

#[inline]
pub(super) fn filter_len(filter: &FilterSpec) -> usize {
    with_address_len(filter.source, 4)
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
    match address {
        IpAddr::V4(address) => {
            w.put_numbers([header(class, c_type::IPV4, 8), address.to_bits(), more])
        }
        IpAddr::V6(address) => {
            put_header(w, class, c_type::IPV6, 16 + 4)?;
            w.put(address.octets())?;
            w.put_numbers([more])
        }
    }
}

#[inline]
pub(super) fn put_session(w: &mut Writer<'_>, session: &Session) -> Result<(), EmitError> {
    let [p0, p1] = session.port.to_be_bytes();
    let more = u32::from_be_bytes([session.protocol, session.flags, p0, p1]);
    put_with_address(w, ObjectClass::Session, session.destination, more)
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
fn put_confirm(w: &mut Writer<'_>, receiver: IpAddr) -> Result<(), EmitError> {
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
fn put_carried(w: &mut Writer<'_>, carried: &Carried<'_>) -> Result<(), EmitError> {
    carried.iter().try_for_each(|object| w.put_slice(object.bytes))
}

#[inline]
fn put_style(w: &mut Writer<'_>, style: Style) -> Result<(), EmitError> {
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
    }
}

#[inline]
pub(super) fn put_tspec(w: &mut Writer<'_>, tspec: &SenderTspec) -> Result<(), EmitError> {
    put_header(w, ObjectClass::SenderTspec, c_type::INTSERV, SenderTspec::BODY_LEN)?;
    tspec.put(w)
}

#[inline]
fn put_adspec(w: &mut Writer<'_>, body: &[u8]) -> Result<(), EmitError> {
    put_header(w, ObjectClass::Adspec, c_type::INTSERV, body.len())?;
    w.put_slice(body)
}
