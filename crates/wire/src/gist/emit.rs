//! Emission of messages: canonical, and only those that [`Message::parse`] accepts.

use super::continuation::Continuation;
use super::error_data::ErrorData;
use super::header::{Flags, HEADER, Header};
use super::iana::{MessageType, NSLP_DATA_CONTINUATION, ObjectType};
use super::message::{Body, Extension, Extensions, Message};
use super::mri::{Direction, Mri};
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::object::{emit_object, object_len, put_header};
use crate::nsis::{SessionId, Treatment, WORD};
use crate::writer::{EmitError, Writer};

impl Message<'_> {
    /// Length of the emitted message, octets; see [`emit`](Message::emit).
    pub fn buffer_len(&self) -> usize {
        let extensions = self.extensions.iter().map(|extension| object_len(extension.value.len()));
        HEADER + self.body.len() + extensions.sum::<usize>()
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; an object is longer than 16 380 octets, or the message longer than 262 148; parts
    /// contradict each other, or [`parse`](Message::parse) would refuse them.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        writer.put([0; HEADER])?; // until the length is known
        self.body.emit(&mut writer)?;
        if !matches!(self.extensions, Extensions::Items([])) {
            self.emit_extensions(&mut writer)?;
        }
        let len = writer.position();
        let header = Header {
            hops: self.hops,
            words: u16::try_from((len - HEADER) / WORD).map_err(|_| EmitError::TooLong)?,
            nslpid: self.nslpid,
            message_type: self.body.message_type(),
            flags: Flags { source_is_peer: self.source_is_peer, ..self.body.flags() },
        };
        writer.patch(0, header.to_octets()?)?;
        Ok(len)
    }

    #[inline(never)] // few messages have any
    fn emit_extensions(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        for Extension { object_type, value } in self.extensions.iter() {
            if !matches!(ObjectType::from_code(object_type), ObjectType::Unknown(_)) {
                return Err(EmitError::Contradiction);
            }
            put_words(writer, Treatment::Forward, object_type, value)?;
        }
        Ok(())
    }
}

impl Body<'_> {
    /// Returns the type of the message.
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

    /// Returns the flags that the body implies.
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

    /// Length of all objects, octets.
    fn len(&self) -> usize {
        let mut length = Length(0);
        // Adding lengths cannot fail.
        let _ = self.visit_objects(&mut length);
        length.0
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.check()?;
        self.visit_objects(writer)
    }

    /// Checks that receivers could parse the message.
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

    /// Visits the objects in the order of the grammar.
    #[inline]
    fn visit_objects(&self, to: &mut impl ObjectVisitor) -> Result<(), EmitError> {
        match self {
            Body::Query(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(OutgoingObject::NatTraversal))?;
                to.visit(OutgoingObject::Mri(&body.mri))?;
                to.visit(OutgoingObject::Session(&body.session))?;
                to.visit(OutgoingObject::Nli(&body.nli))?;
                to.visit(OutgoingObject::Words(ObjectType::QueryCookie, body.query_cookie))?;
                to.visit_stack(body.stack.as_ref())?;
                to.visit_some(body.nslp_data.map(OutgoingObject::data))
            }
            Body::Response(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(OutgoingObject::NatTraversal))?;
                to.visit(OutgoingObject::Mri(&body.mri))?;
                to.visit(OutgoingObject::Session(&body.session))?;
                to.visit(OutgoingObject::Nli(&body.nli))?;
                to.visit(OutgoingObject::Words(ObjectType::QueryCookie, body.query_cookie))?;
                if let Some(part) = &body.responder {
                    to.visit(OutgoingObject::Words(ObjectType::ResponderCookie, part.cookie))?;
                    to.visit_stack(part.stack.as_ref())?;
                }
                to.visit_some(body.nslp_data.map(OutgoingObject::data))
            }
            Body::Confirm(body) => {
                to.visit(OutgoingObject::Mri(&body.mri))?;
                to.visit(OutgoingObject::Session(&body.session))?;
                to.visit(OutgoingObject::Nli(&body.nli))?;
                if let Some(part) = &body.returned {
                    to.visit(OutgoingObject::Words(ObjectType::ResponderCookie, part.cookie))?;
                    to.visit_some(part.proposal.as_ref().map(OutgoingObject::Proposal))?;
                    to.visit_some(part.configuration.as_ref().map(OutgoingObject::Configuration))?;
                }
                to.visit_some(body.nslp_data.map(OutgoingObject::data))
            }
            Body::Data(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(OutgoingObject::NatTraversal))?;
                to.visit(OutgoingObject::Mri(&body.mri))?;
                to.visit(OutgoingObject::Session(&body.session))?;
                to.visit_some(body.nli.as_ref().map(OutgoingObject::Nli))?;
                to.visit(OutgoingObject::data(body.nslp_data))?;
                if body.continuation.is_empty() {
                    return Ok(());
                }
                to.visit(OutgoingObject::Continuation(body.continuation))
            }
            Body::Error(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(OutgoingObject::NatTraversal))?;
                to.visit_some(body.nli.as_ref().map(OutgoingObject::Nli))?;
                to.visit(OutgoingObject::Error(&body.error))
            }
            Body::Hello(body) => to.visit(OutgoingObject::Hello(body.id)),
        }
    }
}

/// Visitor of the objects of a message, in their order.
trait ObjectVisitor {
    fn visit(&mut self, part: OutgoingObject<'_>) -> Result<(), EmitError>;

    /// Visits an optional object.
    #[inline(always)] // as `visit`
    fn visit_some(&mut self, part: Option<OutgoingObject<'_>>) -> Result<(), EmitError> {
        match part {
            Some(part) => self.visit(part),
            None => Ok(()),
        }
    }

    /// Visits Stack-Proposal and Stack-Configuration-Data, which belong together.
    #[inline(always)] // as `visit`
    fn visit_stack(&mut self, stack: Option<&Stack<'_>>) -> Result<(), EmitError> {
        let Some(Stack { proposal, configuration }) = stack else { return Ok(()) };
        self.visit(OutgoingObject::Proposal(proposal))?;
        self.visit(OutgoingObject::Configuration(configuration))
    }
}

/// Visitor that adds up the lengths of objects, headers included; octets.
struct Length(usize);

impl ObjectVisitor for Length {
    #[inline]
    fn visit(&mut self, part: OutgoingObject<'_>) -> Result<(), EmitError> {
        self.0 += part.len();
        Ok(())
    }
}

/// Visitor that writes the objects.
impl ObjectVisitor for Writer<'_> {
    #[inline(always)] // each call is about one kind of object, and needs no more than its code
    fn visit(&mut self, part: OutgoingObject<'_>) -> Result<(), EmitError> {
        part.emit(self)
    }
}

/// An object to be emitted.
#[derive(Clone, Copy)]
enum OutgoingObject<'p> {
    NatTraversal(&'p NatTraversal<'p>),
    Mri(&'p Mri),
    Session(&'p SessionId),
    Nli(&'p NetworkLayerInformation<'p>),
    Proposal(&'p Profiles<'p>),
    Configuration(&'p StackConfiguration<'p>),
    Error(&'p ErrorData<'p>),
    Hello(u32),
    /// Any number of continuation objects.
    Continuation(Continuation<'p>),
    /// An object without inner structure: cookies and data.
    Words(ObjectType, &'p [u8]),
}

impl<'p> OutgoingObject<'p> {
    /// Creates an NSLP-Data object.
    fn data(data: &'p [u8]) -> OutgoingObject<'p> {
        OutgoingObject::Words(ObjectType::NslpData, data)
    }

    /// Length of the object, header included; octets.
    #[inline]
    fn len(&self) -> usize {
        match self {
            OutgoingObject::Continuation(part) => part.buffer_len(),
            _ => object_len(self.value_len()),
        }
    }

    fn object_type(&self) -> ObjectType {
        match self {
            OutgoingObject::NatTraversal(_) => ObjectType::NatTraversal,
            OutgoingObject::Mri(_) => ObjectType::MessageRoutingInformation,
            OutgoingObject::Session(_) => ObjectType::SessionId,
            OutgoingObject::Nli(_) => ObjectType::NetworkLayerInformation,
            OutgoingObject::Proposal(_) => ObjectType::StackProposal,
            OutgoingObject::Configuration(_) => ObjectType::StackConfigurationData,
            OutgoingObject::Error(_) => ObjectType::Error,
            OutgoingObject::Hello(_) => ObjectType::HelloId,
            OutgoingObject::Continuation(_) => ObjectType::from_code(NSLP_DATA_CONTINUATION),
            OutgoingObject::Words(object_type, _) => *object_type,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            OutgoingObject::NatTraversal(part) => part.value_len(),
            OutgoingObject::Mri(part) => part.value_len(),
            OutgoingObject::Session(_) => SessionId::LEN,
            OutgoingObject::Nli(part) => part.value_len(),
            OutgoingObject::Proposal(part) => part.value_len(),
            OutgoingObject::Configuration(part) => part.value_len(),
            OutgoingObject::Error(part) => part.value_len(),
            OutgoingObject::Hello(_) => WORD,
            OutgoingObject::Continuation(part) => part.buffer_len(),
            OutgoingObject::Words(_, value) => value.len(),
        }
    }

    #[inline(always)] // see `Visitor`
    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let object_type = self.object_type().code();
        match self {
            // Objects that nearly every message has have a length known in advance.
            OutgoingObject::Mri(part) => {
                put_header(writer, Treatment::Mandatory, object_type, part.value_len())?;
                part.emit(writer)
            }
            OutgoingObject::Session(part) => {
                put_header(writer, Treatment::Mandatory, object_type, SessionId::LEN)?;
                writer.put(part.0)
            }
            OutgoingObject::Nli(part) => {
                put_header(writer, Treatment::Mandatory, object_type, part.value_len())?;
                part.emit(writer)
            }
            OutgoingObject::Words(_, value) => {
                put_words(writer, Treatment::Mandatory, object_type, value)
            }
            OutgoingObject::Continuation(part) => part.emit(writer),
            OutgoingObject::NatTraversal(part) => {
                self.emit_rare(writer, |writer| part.emit(writer))
            }
            OutgoingObject::Proposal(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            OutgoingObject::Configuration(part) => {
                self.emit_rare(writer, |writer| part.emit(writer))
            }
            OutgoingObject::Error(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            OutgoingObject::Hello(id) => self.emit_rare(writer, |writer| writer.put_numbers([*id])),
        }
    }

    /// Writes an object that few messages have.
    #[inline(never)]
    fn emit_rare(
        &self,
        writer: &mut Writer<'_>,
        value: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        emit_object(writer, Treatment::Mandatory, self.object_type().code(), value)
    }
}

/// Writes an object without inner structure. Its value is whole words, because nothing in it marks its end.
#[inline(always)] // see `Visitor`
pub(super) fn put_words(
    writer: &mut Writer<'_>,
    treatment: Treatment,
    object_type: u16,
    value: &[u8],
) -> Result<(), EmitError> {
    put_header(writer, treatment, object_type, value.len())?;
    writer.put_slice(value)
}

/// Whether an MRI is invalid in Q-mode messages: upstream with the loose-end method (RFC 5971 A.3.1.2).
pub(super) fn is_loose_upstream(mri: &Mri) -> bool {
    matches!(mri, Mri::LooseEnd(_)) && mri.direction() == Direction::Upstream
}
