//! How messages are written: canonically, and only such as [`Message::parse`] takes.

use super::continuation::Continuation;
use super::header::{Flags, HEADER, Header};
use super::iana::{MessageType, NSLP_DATA_CONTINUATION, ObjectType};
use super::message::{Body, Extension, Message};
use super::mri::{Direction, Mri};
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::report::ErrorObject;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::object::{emit_object, object_len};
use crate::nsis::{SessionId, Treatment, WORD};
use crate::writer::{EmitError, Writer};

impl Message<'_> {
    /// Octets that [`emit`](Message::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let extensions = self.extensions.iter().map(|extension| object_len(extension.value.len()));
        HEADER + self.body.len() + extensions.sum::<usize>()
    }

    /// Writes the message to the start of `buffer` and gives its length.
    ///
    /// # Errors
    /// The buffer is too short; an object is longer than 16 380 octets, or the message than 262 148; parts contradict
    /// each other, or are such as [`parse`](Message::parse) refuses.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        let mut header = Header {
            hops: self.hops,
            words: 0,
            nslpid: self.nslpid,
            message_type: self.body.message_type(),
            flags: Flags { source_is_peer: self.source_is_peer, ..self.body.flags() },
        };
        header.emit(&mut writer)?;
        self.body.emit(&mut writer)?;
        for Extension { object_type, value } in self.extensions.iter() {
            if !matches!(ObjectType::from_code(object_type), ObjectType::Unknown(_)) {
                return Err(EmitError::Contradiction);
            }
            put_words(&mut writer, Treatment::Forward, object_type, value)?;
        }
        let len = writer.written().len();
        header.words = u16::try_from((len - HEADER) / WORD).map_err(|_| EmitError::TooLong)?;
        writer.patch(0, header.to_octets()?)?;
        Ok(len)
    }
}

impl Body<'_> {
    /// What kind of message it is.
    pub const fn message_type(&self) -> MessageType {
        match self {
            Body::Query(_) => MessageType::Query,
            Body::Response(_) => MessageType::Response,
            Body::Confirm(_) => MessageType::Confirm,
            Body::Data(_) => MessageType::Data,
            Body::Error(_) => MessageType::Error,
            Body::Hello(_) => MessageType::Hello,
        }
    }

    /// The flags that follow from it.
    fn flags(&self) -> Flags {
        let none = Flags::default();
        match self {
            Body::Query(_) => Flags { context_free: true, reply_requested: true, ..none },
            Body::Response(body) => Flags { reply_requested: body.confirm_requested, ..none },
            Body::Confirm(_) | Body::Error(_) => none,
            Body::Data(body) => Flags {
                context_free: body.context_free,
                explicitly_routed: body.explicitly_routed,
                ..none
            },
            Body::Hello(body) => Flags { reply_requested: body.reply_requested, ..none },
        }
    }

    /// Octets of its objects.
    fn len(&self) -> usize {
        self.parts().into_iter().flatten().map(|part| part.len()).sum()
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.check()?;
        self.parts().iter().flatten().try_for_each(|part| part.emit(writer))
    }

    /// Whether anybody could read it.
    fn check(&self) -> Result<(), EmitError> {
        let stack_is_sound =
            |stack: Option<Stack<'_>>| stack.is_none_or(|stack| stack.is_consistent());
        let sound = match self {
            Body::Query(body) => stack_is_sound(body.stack) && !is_loose_upstream(&body.mri),
            Body::Response(body) => match body.responder {
                Some(part) => {
                    body.confirm_requested
                        && stack_is_sound(part.stack)
                        && part.stack.is_none_or(|stack| stack.has_ports())
                }
                None => true,
            },
            Body::Confirm(body) => body.returned.is_none_or(|returned| {
                returned.proposal.is_some() || returned.configuration.is_none()
            }),
            Body::Data(body) => {
                (!body.context_free || body.nli.is_some() && !is_loose_upstream(&body.mri))
                    && (body.continuation.is_empty() || body.nli.is_none())
            }
            Body::Error(_) => true,
            Body::Hello(body) => !body.reply_requested || body.id != 0,
        };
        if sound { Ok(()) } else { Err(EmitError::Contradiction) }
    }

    /// Its objects in the order of the grammar.
    fn parts(&self) -> [Option<Part<'_>>; 9] {
        let none = None;
        match self {
            Body::Query(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                Some(Part::Mri(&body.mri)),
                Some(Part::Session(&body.session)),
                Some(Part::Nli(&body.nli)),
                Some(Part::Words(ObjectType::QueryCookie, body.query_cookie)),
                body.stack.as_ref().map(|stack| Part::Proposal(&stack.proposal)),
                body.stack.as_ref().map(|stack| Part::Configuration(&stack.configuration)),
                body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                none,
            ],
            Body::Response(body) => {
                let stack = body.responder.as_ref().and_then(|part| part.stack.as_ref());
                [
                    body.nat_traversal.as_ref().map(Part::NatTraversal),
                    Some(Part::Mri(&body.mri)),
                    Some(Part::Session(&body.session)),
                    Some(Part::Nli(&body.nli)),
                    Some(Part::Words(ObjectType::QueryCookie, body.query_cookie)),
                    body.responder
                        .map(|part| Part::Words(ObjectType::ResponderCookie, part.cookie)),
                    stack.map(|stack| Part::Proposal(&stack.proposal)),
                    stack.map(|stack| Part::Configuration(&stack.configuration)),
                    body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                ]
            }
            Body::Confirm(body) => {
                let returned = body.returned.as_ref();
                [
                    Some(Part::Mri(&body.mri)),
                    Some(Part::Session(&body.session)),
                    Some(Part::Nli(&body.nli)),
                    returned.map(|part| Part::Words(ObjectType::ResponderCookie, part.cookie)),
                    returned.and_then(|part| part.proposal.as_ref()).map(Part::Proposal),
                    returned.and_then(|part| part.configuration.as_ref()).map(Part::Configuration),
                    body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                    none,
                    none,
                ]
            }
            Body::Data(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                Some(Part::Mri(&body.mri)),
                Some(Part::Session(&body.session)),
                body.nli.as_ref().map(Part::Nli),
                Some(Part::Words(ObjectType::NslpData, body.nslp_data)),
                Some(Part::Continuation(body.continuation)),
                none,
                none,
                none,
            ],
            Body::Error(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                body.nli.as_ref().map(Part::Nli),
                Some(Part::Error(&body.error)),
                none,
                none,
                none,
                none,
                none,
                none,
            ],
            Body::Hello(body) => {
                [Some(Part::Hello(body.id)), none, none, none, none, none, none, none, none]
            }
        }
    }
}

/// An object to be written.
#[derive(Clone, Copy)]
enum Part<'p> {
    NatTraversal(&'p NatTraversal<'p>),
    Mri(&'p Mri),
    Session(&'p SessionId),
    Nli(&'p NetworkLayerInformation<'p>),
    Proposal(&'p Profiles<'p>),
    Configuration(&'p StackConfiguration<'p>),
    Error(&'p ErrorObject<'p>),
    Hello(u32),
    /// Any number of objects.
    Continuation(Continuation<'p>),
    /// One without inner form: cookies and data.
    Words(ObjectType, &'p [u8]),
}

impl Part<'_> {
    /// Octets of it, header included.
    fn len(&self) -> usize {
        match self {
            Part::Continuation(part) => part.buffer_len(),
            _ => object_len(self.value_len()),
        }
    }

    fn object_type(&self) -> ObjectType {
        match self {
            Part::NatTraversal(_) => ObjectType::NatTraversal,
            Part::Mri(_) => ObjectType::MessageRoutingInformation,
            Part::Session(_) => ObjectType::SessionId,
            Part::Nli(_) => ObjectType::NetworkLayerInformation,
            Part::Proposal(_) => ObjectType::StackProposal,
            Part::Configuration(_) => ObjectType::StackConfigurationData,
            Part::Error(_) => ObjectType::Error,
            Part::Hello(_) => ObjectType::HelloId,
            Part::Continuation(_) => ObjectType::from_code(NSLP_DATA_CONTINUATION),
            Part::Words(object_type, _) => *object_type,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Part::NatTraversal(part) => part.value_len(),
            Part::Mri(part) => part.value_len(),
            Part::Session(_) => SessionId::LEN,
            Part::Nli(part) => part.value_len(),
            Part::Proposal(part) => part.value_len(),
            Part::Configuration(part) => part.value_len(),
            Part::Error(part) => part.value_len(),
            Part::Hello(_) => WORD,
            Part::Continuation(part) => part.buffer_len(),
            Part::Words(_, value) => value.len(),
        }
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let object_type = self.object_type().code();
        if let Part::Continuation(part) = self {
            return part.emit(writer);
        }
        if let Part::Words(_, value) = self {
            return put_words(writer, Treatment::Mandatory, object_type, value);
        }
        emit_object(writer, Treatment::Mandatory, object_type, |writer| match self {
            Part::NatTraversal(part) => part.emit(writer),
            Part::Mri(part) => part.emit(writer),
            Part::Session(part) => writer.put(part.0),
            Part::Nli(part) => part.emit(writer),
            Part::Proposal(part) => part.emit(writer),
            Part::Configuration(part) => part.emit(writer),
            Part::Error(part) => part.emit(writer),
            Part::Hello(id) => writer.put(id.to_be_bytes()),
            Part::Continuation(part) => part.emit(writer),
            Part::Words(_, value) => writer.put_slice(value),
        })
    }
}

/// An object whose value is taken as it is: whole words, since nothing inside says where it ends.
#[inline]
pub(super) fn put_words(
    writer: &mut Writer<'_>,
    treatment: Treatment,
    object_type: u16,
    value: &[u8],
) -> Result<(), EmitError> {
    if !value.len().is_multiple_of(WORD) {
        return Err(EmitError::Contradiction);
    }
    emit_object(writer, treatment, object_type, |writer| writer.put_slice(value))
}

/// An MRI that no Q-mode message may have (RFC 5971 A.3.1.2).
pub(super) fn is_loose_upstream(mri: &Mri) -> bool {
    matches!(mri, Mri::LooseEnd(_)) && mri.direction() == Direction::Upstream
}
