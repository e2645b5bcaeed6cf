//! Emission of single objects, for rows of objects such as those in a DIAG_RESPONSE.

use core::net::{IpAddr, Ipv4Addr};

use super::control::{put_acknowledgement, put_challenge, put_message_id, put_refresh_list};
use crate::rsvp::dclass::put_dclass;
use crate::rsvp::diagnostics::put_select;
use crate::rsvp::frame::OBJECT_HEADER;
use crate::rsvp::generic_aggregate::put_generic;
use crate::rsvp::hello::put_hello;
use crate::rsvp::iana::{ObjectClass, c_type};
use crate::rsvp::notify::put_notify_request;
use crate::rsvp::object_writer::*;
use crate::rsvp::view::Object;
use crate::writer::{EmitError, Writer};

impl Object<'_> {
    /// Writes the object with its header to the start of `buffer`; returns its length in octets. A SCOPE or ROUTE
    /// without addresses is written as one of IPv4.
    ///
    /// # Errors
    /// The buffer is too short; the object is too long; its parts contradict each other; or it is one of those kept as
    /// octets ([`Object::Unknown`] and the like), whose header is unknown.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        if let Object::Adspec(adspec) = self {
            let body = adspec.buffer_len();
            let mut writer = Writer::new(&mut *buffer);
            put_header(&mut writer, ObjectClass::Adspec, c_type::INTSERV, body)?;
            let rest = buffer.get_mut(OBJECT_HEADER..).ok_or(EmitError::BufferTooShort)?;
            return adspec.emit(rest).map(|written| OBJECT_HEADER + written);
        }
        let mut writer = Writer::new(buffer);
        self.put(&mut writer)?;
        Ok(writer.written().len())
    }

    fn put(&self, w: &mut Writer<'_>) -> Result<(), EmitError> {
        match self {
            Object::Null => put_header(w, ObjectClass::Null, 0, 0),
            Object::Session(session) => put_session(w, session),
            Object::GenericSession(session) => put_generic(w, ObjectClass::Session, session),
            Object::RsvpHop(hop) => put_hop(w, hop),
            Object::Integrity(integrity) => put_integrity(w, integrity),
            Object::TimeValues(refresh_ms) => put_time_values(w, *refresh_ms),
            Object::ErrorSpec(error) => put_error(w, error),
            Object::Scope(senders) => {
                let first = senders.iter().next().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                put_scope(w, &Some(*senders), first)
            }
            Object::Style(style) => put_style(w, *style),
            Object::FlowSpec(flowspec) => put_flowspec(w, &Some(*flowspec)),
            Object::FilterSpec(filter) => put_filter(w, ObjectClass::FilterSpec, filter),
            Object::SenderTemplate(filter) => put_filter(w, ObjectClass::SenderTemplate, filter),
            Object::SenderTspec(tspec) => put_tspec(w, tspec),
            Object::PolicyData(policy) => policy.put(w),
            Object::ResvConfirm(receiver) => put_confirm(w, *receiver),
            Object::Hello(hello) => put_hello(w, hello),
            Object::RestartCap(restart_cap) => restart_cap.put(w),
            Object::Capability(capability) => capability.put(w),
            Object::MessageId(id) => put_message_id(w, id),
            Object::MessageIdAck(acknowledgement) => put_acknowledgement(w, acknowledgement),
            Object::MessageIdList(list) => put_refresh_list(w, list),
            Object::Challenge(challenge) => put_challenge(w, challenge),
            Object::Diagnostic(diagnostic) => diagnostic.put(w),
            Object::Route(route) => route.put(w, route.first()),
            Object::DiagResponse(response) => response.put(w),
            Object::DiagSelect(selected) => put_select(w, *selected),
            Object::NotifyRequest(node) => put_notify_request(w, *node),
            Object::DClass(code_points) => put_dclass(w, *code_points),
            Object::SessionOfInterest(session) => {
                put_generic(w, ObjectClass::SessionOfInterest, session)
            }
            // An ADSPEC is emitted directly into the buffer.
            Object::Adspec(_) | Object::UnknownPolicyData(_) | Object::Unknown(_) => {
                Err(EmitError::Contradiction)
            }
        }
    }
}
