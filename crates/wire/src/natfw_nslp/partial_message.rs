//! What can be read of a message that may have any fault, and the RESPONSE to it.

use super::error::ParseError;
use super::extra::Extra;
use super::header::HEADER;
use super::iana::{MessageType, ObjectType};
use super::message::Response;
use crate::nsis::object::objects;

/// Type and numbers of a message that may be malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialMessage {
    /// Message type; `None` of no octets.
    pub message_type: Option<MessageType>,
    /// Message sequence number.
    pub msn: Option<u32>,
    /// Lifetime, seconds; 0 deletes the session.
    pub lifetime: Option<u32>,
}

impl PartialMessage {
    /// Finds the values in a message that may have any fault: the first object of each kind, up to the first truncated
    /// object.
    pub fn parse(message: &[u8]) -> PartialMessage {
        let message_type = message.first().copied().map(MessageType::from_code);
        let mut found = PartialMessage { message_type, msn: None, lifetime: None };
        let body = message.get(HEADER..).unwrap_or_default();
        for object in objects(body, HEADER).map_while(Result::ok) {
            let place = match ObjectType::from_code(object.object_type()) {
                ObjectType::Msn => &mut found.msn,
                ObjectType::Lifetime => &mut found.lifetime,
                _ => continue,
            };
            if let (None, &[a, b, c, d]) = (*place, object.value()) {
                *place = Some(u32::from_be_bytes([a, b, c, d]));
            }
        }
        found
    }

    /// Whether a fault of the message is answered. RESPONSE and NOTIFY are never answered (RFC 5973 section 3.2.7), and
    /// requests that delete a session neither (section 3.7.4).
    pub fn is_answered(&self) -> bool {
        match self.message_type {
            Some(MessageType::Response | MessageType::Notify) => false,
            Some(MessageType::Create | MessageType::External) => self.lifetime != Some(0),
            Some(MessageType::Unknown(_)) | None => true,
        }
    }
}

impl ParseError {
    /// Returns the RESPONSE to the malformed message; `None` if it is not answered. A message without a sequence number gets
    /// a RESPONSE with the number 0.
    pub fn response(&self, message: &PartialMessage) -> Option<Response<'static>> {
        message.is_answered().then(|| Response {
            lifetime: None,
            msn: message.msn.unwrap_or(0),
            info: self.info(),
            external_address: None,
            external_binding: None,
            extra: Extra::NONE,
        })
    }
}
