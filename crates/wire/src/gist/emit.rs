//! How messages are written: canonically, and only such as [`Message::parse`] takes.

use super::continuation::Continuation;
use super::header::{Flags, HEADER, Header};
use super::iana::{MessageType, NSLP_DATA_CONTINUATION, ObjectType};
use super::message::{Body, Extension, Extensions, Message};
use super::mri::{Direction, Mri};
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::report::ErrorObject;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::object::{emit_object, object_len, put_header};
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
        let mut length = Length(0);
        // Nothing of what adds lengths up can fail.
        let _ = self.show(&mut length);
        length.0
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.check()?;
        self.show(writer)
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

    /// Shows its objects in the order of the grammar.
    #[inline]
    fn show(&self, to: &mut impl Visitor) -> Result<(), EmitError> {
        match self {
            Body::Query(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(Part::NatTraversal))?;
                to.visit(Part::Mri(&body.mri))?;
                to.visit(Part::Session(&body.session))?;
                to.visit(Part::Nli(&body.nli))?;
                to.visit(Part::Words(ObjectType::QueryCookie, body.query_cookie))?;
                to.visit_stack(body.stack.as_ref())?;
                to.visit_some(body.nslp_data.map(Part::data))
            }
            Body::Response(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(Part::NatTraversal))?;
                to.visit(Part::Mri(&body.mri))?;
                to.visit(Part::Session(&body.session))?;
                to.visit(Part::Nli(&body.nli))?;
                to.visit(Part::Words(ObjectType::QueryCookie, body.query_cookie))?;
                if let Some(part) = &body.responder {
                    to.visit(Part::Words(ObjectType::ResponderCookie, part.cookie))?;
                    to.visit_stack(part.stack.as_ref())?;
                }
                to.visit_some(body.nslp_data.map(Part::data))
            }
            Body::Confirm(body) => {
                to.visit(Part::Mri(&body.mri))?;
                to.visit(Part::Session(&body.session))?;
                to.visit(Part::Nli(&body.nli))?;
                if let Some(part) = &body.returned {
                    to.visit(Part::Words(ObjectType::ResponderCookie, part.cookie))?;
                    to.visit_some(part.proposal.as_ref().map(Part::Proposal))?;
                    to.visit_some(part.configuration.as_ref().map(Part::Configuration))?;
                }
                to.visit_some(body.nslp_data.map(Part::data))
            }
            Body::Data(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(Part::NatTraversal))?;
                to.visit(Part::Mri(&body.mri))?;
                to.visit(Part::Session(&body.session))?;
                to.visit_some(body.nli.as_ref().map(Part::Nli))?;
                to.visit(Part::data(body.nslp_data))?;
                if body.continuation.is_empty() {
                    return Ok(());
                }
                to.visit(Part::Continuation(body.continuation))
            }
            Body::Error(body) => {
                to.visit_some(body.nat_traversal.as_ref().map(Part::NatTraversal))?;
                to.visit_some(body.nli.as_ref().map(Part::Nli))?;
                to.visit(Part::Error(&body.error))
            }
            Body::Hello(body) => to.visit(Part::Hello(body.id)),
        }
    }
}

/// What the objects of a message are shown to, one after the other.
trait Visitor {
    fn visit(&mut self, part: Part<'_>) -> Result<(), EmitError>;

    /// An object that need not be there.
    #[inline(always)] // as `visit`
    fn visit_some(&mut self, part: Option<Part<'_>>) -> Result<(), EmitError> {
        match part {
            Some(part) => self.visit(part),
            None => Ok(()),
        }
    }

    /// Proposal and configuration, which go together.
    #[inline(always)] // as `visit`
    fn visit_stack(&mut self, stack: Option<&Stack<'_>>) -> Result<(), EmitError> {
        let Some(Stack { proposal, configuration }) = stack else { return Ok(()) };
        self.visit(Part::Proposal(proposal))?;
        self.visit(Part::Configuration(configuration))
    }
}

/// Adds up how long objects are, octets, headers included.
struct Length(usize);

impl Visitor for Length {
    #[inline]
    fn visit(&mut self, part: Part<'_>) -> Result<(), EmitError> {
        self.0 += part.len();
        Ok(())
    }
}

/// Writes them.
impl Visitor for Writer<'_> {
    #[inline(always)] // each call is about one kind of object, and needs no more than its code
    fn visit(&mut self, part: Part<'_>) -> Result<(), EmitError> {
        part.emit(self)
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

impl<'p> Part<'p> {
    /// NSLP-Data.
    fn data(data: &'p [u8]) -> Part<'p> {
        Part::Words(ObjectType::NslpData, data)
    }

    /// Octets of it, header included.
    #[inline]
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

    #[inline(always)] // see `Visitor`
    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let object_type = self.object_type().code();
        match self {
            // The length of those that nearly every message has is known beforehand.
            Part::Mri(part) => {
                put_header(writer, Treatment::Mandatory, object_type, part.value_len())?;
                part.emit(writer)
            }
            Part::Session(part) => {
                put_header(writer, Treatment::Mandatory, object_type, SessionId::LEN)?;
                writer.put(part.0)
            }
            Part::Nli(part) => {
                put_header(writer, Treatment::Mandatory, object_type, part.value_len())?;
                part.emit(writer)
            }
            Part::Words(_, value) => put_words(writer, Treatment::Mandatory, object_type, value),
            Part::Continuation(part) => part.emit(writer),
            Part::NatTraversal(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            Part::Proposal(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            Part::Configuration(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            Part::Error(part) => self.emit_rare(writer, |writer| part.emit(writer)),
            Part::Hello(id) => self.emit_rare(writer, |writer| writer.put_numbers([*id])),
        }
    }

    /// One that few messages have.
    #[inline(never)]
    fn emit_rare(
        &self,
        writer: &mut Writer<'_>,
        value: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        emit_object(writer, Treatment::Mandatory, self.object_type().code(), value)
    }
}

/// An object whose value is taken as it is: whole words, since nothing inside says where it ends.
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

/// An MRI that no Q-mode message may have (RFC 5971 A.3.1.2).
pub(super) fn is_loose_upstream(mri: &Mri) -> bool {
    matches!(mri, Mri::LooseEnd(_)) && mri.direction() == Direction::Upstream
}
