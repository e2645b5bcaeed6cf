//! Emission of messages, with objects in the order that RFC 2205 recommends (sections 3.1.3 to 3.1.9) and RFC 2961
//! prescribes (section 4.1).
//!
//! Every octet of the message is written, reserved ones as zero: the old contents of the buffer do not matter.

mod control;
mod object;

use super::frame::{CHECKSUM, COMMON_HEADER, OBJECT_HEADER, VERSION_1, checksum_of};
use super::iana::ObjectClass;
use super::integrity::Challenge;
use super::message::*;
use super::object_writer::*;
use super::objects::{ErrorSpec, RsvpHop};
use crate::intserv::FlowSpec;
use crate::writer::{EmitError, Writer};

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

impl Body<'_> {
    #[inline]
    fn objects_len(&self) -> usize {
        const TIME_VALUES: usize = OBJECT_HEADER + 4;
        let session = self.session().map_or(0, |s| with_address_len(s.destination, 4));
        let hop = |hop: &RsvpHop| with_address_len(hop.address, 4);
        let error = |error: &ErrorSpec| with_address_len(error.node, 4);
        match self {
            Body::Path(m) | Body::RecoveryPath(m) => {
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
            Body::Hello(m) => m.objects_len(),
            Body::IntegrityChallenge(_) | Body::IntegrityResponse(_) => Challenge::OBJECT_LEN,
            Body::Dreq(m) | Body::Drep(m) => session + hop(&m.hop) + m.rest_len(),
            Body::Notify(m) => m.objects_len(),
        }
    }

    #[inline]
    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        if let Some(session) = self.session() {
            put_session(w, session)?;
        }
        match self {
            Body::Path(m) | Body::RecoveryPath(m) => {
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
            Body::Hello(m) => m.put(w),
            Body::IntegrityChallenge(challenge) | Body::IntegrityResponse(challenge) => {
                control::put_challenge(w, challenge)
            }
            Body::Dreq(m) | Body::Drep(m) => {
                put_hop(w, &m.hop)?;
                m.put_rest(w)
            }
            Body::Notify(m) => m.put(w),
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
