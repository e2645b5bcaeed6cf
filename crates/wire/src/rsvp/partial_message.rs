//! The readable parts of a malformed message, from which the error message to its sender is built.
//!
//! A Resv with an object of unknown class is rejected as a whole (RFC 2205 section 3.10), but the ResvErr must contain
//! session, hop, style and a flow descriptor. [`PartialMessage::scan`] reads the message once more and keeps the first
//! readable object of each kind.

use super::decode;
use super::emit::{finish, start};
use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, CommonHeader, Frames, RawObject};
use super::iana::{MessageType, ObjectClass};
use super::list::List;
use super::message::FlowDescriptors;
use super::object_writer::{
    put_error, put_filter, put_flowspec, put_hop, put_option_vector, put_session, put_tspec,
};
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, SenderTemplate, Session, Style};
use crate::intserv::{FlowSpec, SenderTspec};
use crate::writer::{EmitError, Writer};

/// Readable parts of a message, the first of each kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartialMessage<'a> {
    /// Message type; `Unknown(0)` without a common header.
    pub message_type: MessageType,
    /// SESSION.
    pub session: Option<Session>,
    /// RSVP_HOP: addressee of the error message.
    pub hop: Option<RsvpHop>,
    /// SENDER_TEMPLATE.
    pub sender_template: Option<SenderTemplate>,
    /// SENDER_TSPEC.
    pub sender_tspec: Option<SenderTspec>,
    /// Option vector of STYLE, 24 bits, known or unknown.
    pub option_vector: Option<u32>,
    /// The first FLOWSPEC.
    pub flowspec: Option<FlowSpec>,
    /// The first FILTER_SPEC.
    pub filter: Option<FilterSpec>,
    /// SESSION, SENDER_TEMPLATE and FILTER_SPEC of an unknown C-Type, as received.
    pub unknown: UnknownObjects<'a>,
    /// Known style with the first flow descriptor for a ResvErr: complete or empty (RFC 2205 section 3.1.8).
    pub flows: Option<FlowDescriptors<'a>>,
}

/// Objects that say which flow a message is about, in forms that are unknown here. They are quoted in errors only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnknownObjects<'a> {
    /// SESSION.
    pub session: Option<&'a [u8]>,
    /// SENDER_TEMPLATE.
    pub template: Option<&'a [u8]>,
    /// FILTER_SPEC.
    pub filter: Option<&'a [u8]>,
}

impl UnknownObjects<'_> {
    /// Maximum length of one that is quoted, octets; those of traffic engineering are shorter (RFC 3209 section 4.6).
    const MAX_QUOTED: usize = 64;
}

impl<'a> PartialMessage<'a> {
    /// Maximum length of an error by [`PartialMessage::emit_resv_err`] or [`PartialMessage::emit_path_err`], octets.
    pub const MAX_ANSWER: usize =
        8 + UnknownObjects::MAX_QUOTED + 24 + 24 + 8 + 48 + UnknownObjects::MAX_QUOTED;

    /// Scans the message as far as its objects are framed correctly. The fields of the common header and the order of
    /// the objects are ignored, and so are objects with values that no message may have, a hop of another address family
    /// than the session, and a template and filter that the session cannot have: an answer with them would be malformed
    /// itself.
    pub fn scan(bytes: &'a [u8]) -> PartialMessage<'a> {
        let mut salvage = PartialMessage {
            message_type: MessageType::Unknown(0),
            session: None,
            hop: None,
            sender_template: None,
            sender_tspec: None,
            option_vector: None,
            flowspec: None,
            filter: None,
            unknown: UnknownObjects::default(),
            flows: None,
        };
        let Some((header, objects)) = CommonHeader::split(bytes) else {
            return salvage;
        };
        salvage.message_type = MessageType::from_code(header.message_type);
        // The octets of the first readable FLOWSPEC and FILTER_SPEC.
        let (mut flowspec, mut filter) = (None, None);
        for object in Frames::new(objects, COMMON_HEADER).map_while(Result::ok) {
            match ObjectClass::from_code(object.class_num()) {
                ObjectClass::Session => keep_or_quote(
                    &mut salvage.session,
                    &mut salvage.unknown.session,
                    decode::valid_session(&object),
                    &object,
                ),
                ObjectClass::RsvpHop => keep(&mut salvage.hop, decode::valid_hop(&object)),
                ObjectClass::SenderTemplate => keep_or_quote(
                    &mut salvage.sender_template,
                    &mut salvage.unknown.template,
                    decode::valid_filter(&object),
                    &object,
                ),
                ObjectClass::SenderTspec => {
                    keep(&mut salvage.sender_tspec, decode::sender_tspec(&object));
                }
                ObjectClass::Style => {
                    keep(&mut salvage.option_vector, decode::option_vector(&object));
                }
                ObjectClass::FlowSpec => {
                    keep(&mut salvage.flowspec, decode::flowspec(&object));
                    flowspec = flowspec.or(salvage.flowspec.map(|_| object));
                }
                ObjectClass::FilterSpec => {
                    keep_or_quote(
                        &mut salvage.filter,
                        &mut salvage.unknown.filter,
                        decode::valid_filter(&object),
                        &object,
                    );
                    filter = filter.or(salvage.filter.map(|_| object));
                }
                _ => {}
            }
        }
        if let Some(session) = salvage.session {
            let ipv4 = session.destination.is_ipv4();
            salvage.hop.take_if(|hop| hop.address.is_ipv4() != ipv4);
            salvage.sender_template.take_if(|template| template.conflict(&session).is_some());
            if salvage.filter.take_if(|filter| filter.conflict(&session).is_some()).is_some() {
                filter = None;
            }
        }
        salvage.flows = salvage.flow_descriptors(bytes, flowspec, filter);
        salvage
    }

    /// Returns the style, if it is present and known.
    pub fn style(&self) -> Option<Style> {
        self.option_vector.and_then(Style::from_option_vector)
    }

    /// Combines style and first flow descriptor, without copying.
    fn flow_descriptors(
        &self,
        bytes: &'a [u8],
        flowspec: Option<RawObject<'a>>,
        filter: Option<RawObject<'a>>,
    ) -> Option<FlowDescriptors<'a>> {
        let only_filter = filter.map_or(&[][..], |filter| filter.bytes);
        Some(match self.style()? {
            Style::Wildcard => FlowDescriptors::Wildcard(self.flowspec),
            Style::FixedFilter => {
                // Adjacent objects are taken as one slice; otherwise the filter alone identifies the flow.
                let pair = flowspec.zip(filter).and_then(|(first, second)| {
                    let behind = first.offset + first.bytes.len();
                    let end = second.offset + second.bytes.len();
                    (behind == second.offset).then(|| bytes.get(first.offset..end)).flatten()
                });
                FlowDescriptors::FixedFilter(List::Wire(pair.unwrap_or(only_filter)))
            }
            Style::SharedExplicit => {
                let flowspec = self.flowspec.filter(|_| filter.is_some());
                FlowDescriptors::SharedExplicit(flowspec, List::Wire(only_filter))
            }
        })
    }

    /// Writes the ResvErr that answers this Resv, sent through `hop`, with the style as received. This answers unknown
    /// styles, for which [`PartialMessage::flows`] is `None`. Returns the length in octets, or `None` if too little is
    /// readable.
    ///
    /// # Errors
    /// The buffer is shorter than the answer; [`PartialMessage::MAX_ANSWER`] octets always suffice.
    pub fn emit_resv_err(
        &self,
        hop: &RsvpHop,
        error: &ErrorSpec,
        send_ttl: u8,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        let Some(option_vector) = self.option_vector else { return Ok(None) };
        let mut writer = Writer::new(buffer);
        start(&mut writer, MessageType::ResvErr.code(), 0, send_ttl)?;
        if !self.quote_session(&mut writer)? {
            return Ok(None);
        }
        put_hop(&mut writer, hop)?;
        put_error(&mut writer, error)?;
        put_option_vector(&mut writer, option_vector)?;
        put_flowspec(&mut writer, &self.flowspec)?;
        quote_filter(&mut writer, ObjectClass::FilterSpec, &self.filter, self.unknown.filter)?;
        finish(writer).map(Some)
    }

    /// Writes the PathErr that answers this Path, with SESSION and SENDER_TEMPLATE as received. Returns the length in
    /// octets, or `None` if too little is readable.
    ///
    /// # Errors
    /// The buffer is shorter than the answer; [`PartialMessage::MAX_ANSWER`] octets always suffice.
    pub fn emit_path_err(
        &self,
        error: &ErrorSpec,
        send_ttl: u8,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, EmitError> {
        let mut writer = Writer::new(buffer);
        start(&mut writer, MessageType::PathErr.code(), 0, send_ttl)?;
        if !self.quote_session(&mut writer)? {
            return Ok(None);
        }
        put_error(&mut writer, error)?;
        let (class, unknown) = (ObjectClass::SenderTemplate, self.unknown.template);
        if !quote_filter(&mut writer, class, &self.sender_template, unknown)? {
            return Ok(None);
        }
        if let Some(tspec) = &self.sender_tspec {
            put_tspec(&mut writer, tspec)?;
        }
        finish(writer).map(Some)
    }

    /// Writes the SESSION as received. Returns whether there is one.
    fn quote_session(&self, writer: &mut Writer<'_>) -> Result<bool, EmitError> {
        match (&self.session, self.unknown.session) {
            (Some(session), _) => put_session(writer, session)?,
            (None, Some(octets)) => writer.put_slice(octets)?,
            (None, None) => return Ok(false),
        }
        Ok(true)
    }
}

/// Writes a FILTER_SPEC or SENDER_TEMPLATE as received. Returns whether there is one.
fn quote_filter(
    writer: &mut Writer<'_>,
    class: ObjectClass,
    known: &Option<FilterSpec>,
    unknown: Option<&[u8]>,
) -> Result<bool, EmitError> {
    match (known, unknown) {
        (Some(filter), _) => put_filter(writer, class, filter)?,
        (None, Some(octets)) => writer.put_slice(octets)?,
        (None, None) => return Ok(false),
    }
    Ok(true)
}

/// Keeps the first valid value, and the octets of the first object of an unknown C-Type.
fn keep_or_quote<'a, T>(
    slot: &mut Option<T>,
    unknown: &mut Option<&'a [u8]>,
    value: Result<T, ParseError>,
    object: &RawObject<'a>,
) {
    let is_unknown = matches!(value, Err(ParseError { kind: ErrorKind::UnknownCType, .. }));
    if is_unknown && unknown.is_none() && object.bytes.len() <= UnknownObjects::MAX_QUOTED {
        *unknown = Some(object.bytes);
    }
    keep(slot, value);
}

/// Keeps the first valid value.
fn keep<T, E>(slot: &mut Option<T>, value: Result<T, E>) {
    if slot.is_none() {
        *slot = value.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SESSION of IPv4 with RSVP_HOP, SENDER_TEMPLATE and FILTER_SPEC of IPv4 or IPv6.
    #[test]
    fn addresses_of_another_family_are_ignored() {
        for is_same in [true, false] {
            let mut message = alloc::vec![0x10, 1, 0, 0, 63, 0, 0, 0];
            message.extend([0, 12, 1, 1, 10, 0, 2, 3, 17, 0, 19, 136]);
            for class in [3, 11, 10] {
                let (length, c_type) = if is_same { (12, 1) } else { (24, 2) };
                message.extend([0, length, class, c_type, 10, 0, 1, 1]);
                message.resize(message.len() + usize::from(length) - 8, 0);
            }
            let salvage = PartialMessage::scan(&message);
            assert!(salvage.session.is_some());
            assert_eq!(salvage.hop.is_some(), is_same);
            assert_eq!(salvage.sender_template.is_some(), is_same);
            assert_eq!(salvage.filter.is_some(), is_same);
        }
    }

    /// Each kind of session with each kind of sender in a Path and a Resv whose traffic is malformed.
    #[test]
    fn senders_that_a_session_cannot_have_are_ignored() {
        // SESSION: C-Type, protocol, reserved, port or vDstPort or DSCP.
        let sessions = [
            ("port", 1, [17, 0, 19, 136], "port"),
            ("no port", 1, [17, 0, 0, 0], "no port"),
            ("SPI", 3, [50, 0, 19, 136], "SPI"),
            ("aggregate", 9, [0, 0, 0, 46], "aggregate"),
        ];
        // SENDER_TEMPLATE or FILTER_SPEC: C-Type and the octets behind the address.
        let senders: [(&str, u8, &[u8]); 4] = [
            ("port", 1, &[0, 0, 19, 136]),
            ("no port", 1, &[0, 0, 0, 0]),
            ("SPI", 4, &[0, 0, 19, 136]),
            ("aggregate", 9, &[]),
        ];
        for (name, session, [protocol, flags, p0, p1], own) in sessions {
            for (sender, c_type, selector) in senders {
                let mut message = alloc::vec![0x10, 1, 0, 0, 63, 0, 0, 0];
                message.extend([0, 12, 1, session, 10, 0, 2, 3, protocol, flags, p0, p1]);
                for class in [11, 10] {
                    let length = 8 + selector.len() as u8;
                    message.extend([0, length, class, c_type, 10, 0, 1, 1]);
                    message.extend(selector);
                }
                let salvage = PartialMessage::scan(&message);
                assert!(salvage.session.is_some(), "{name}");
                // A session with a port may have senders without one.
                let is_possible = sender == own || (name, sender) == ("port", "no port");
                assert_eq!(salvage.sender_template.is_some(), is_possible, "{name}, {sender}");
                assert_eq!(salvage.filter.is_some(), is_possible, "{name}, {sender}");
            }
        }
    }

    #[test]
    fn values_that_no_message_may_have_are_ignored() {
        let session = |protocol| [0, 12, 1, 1, 10, 0, 2, 3, protocol, 0, 19, 136];
        let hop = |first| [0, 12, 3, 1, first, 0, 1, 1, 0, 0, 0, 0];
        let filter = |class, address: [u8; 4]| {
            let [a, b, c, d] = address;
            [0, 12, class, 1, a, b, c, d, 0, 0, 19, 136]
        };
        for is_valid in [true, false] {
            let protocol = if is_valid { 17 } else { 0 };
            let first = if is_valid { 10 } else { 239 };
            let source = if is_valid { [10, 0, 1, 1] } else { [0; 4] };
            let objects = [session(protocol), hop(first), filter(11, source), filter(10, source)];
            let mut message = alloc::vec![0x10, 1, 0, 0, 63, 0, 0, 56];
            message.extend(objects.into_iter().flatten());
            let salvage = PartialMessage::scan(&message);
            assert_eq!(salvage.session.is_some(), is_valid);
            assert_eq!(salvage.hop.is_some(), is_valid);
            assert_eq!(salvage.sender_template.is_some(), is_valid);
            assert_eq!(salvage.filter.is_some(), is_valid);
        }
    }
}
