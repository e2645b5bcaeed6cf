//! Emission of messages: objects in the order of the grammar (RFC 5973 section 4.3), unknown ones at the end.

use super::data_terminal::DataTerminal;
use super::header::{HEADER, ProxyMode};
use super::iana::{ErrorClass, MessageType, ObjectType};
use super::info::Info;
use super::message::{Create, External, Message, Notify, Response};
use super::objects::{ExternalBinding, Nonce, icmp_types_len};
use crate::nsis::object::{Treatment, WORD, emit_object, object_len, put_header};
use crate::writer::{EmitError, Writer};

/// Length of an object with a value of one word, octets.
const WORD_OBJECT: usize = object_len(WORD);

impl Message<'_> {
    /// Length of the emitted message, octets; see [`emit`](Message::emit).
    pub fn buffer_len(&self) -> usize {
        let word = |present: bool| if present { WORD_OBJECT } else { 0 };
        let icmp =
            |types: Option<&[u8]>| types.map_or(0, |types| object_len(icmp_types_len(types.len())));
        let binding = |binding: Option<ExternalBinding<'_>>| {
            binding.map_or(0, |it| object_len(WORD + it.wire.as_flattened().len()))
        };
        HEADER
            + match self {
                Message::Create(create) => {
                    3 * WORD_OBJECT
                        + word(create.nonce.is_some())
                        + icmp(create.icmp_types)
                        + create.extra.len()
                }
                Message::External(external) => {
                    3 * WORD_OBJECT
                        + object_len(external.data_terminal.len())
                        + word(external.nonce.is_some())
                        + icmp(external.icmp_types)
                        + binding(external.external_binding)
                        + external.extra.len()
                }
                Message::Response(response) => {
                    2 * WORD_OBJECT
                        + word(response.lifetime.is_some())
                        + response.external_address.map_or(0, |_| object_len(2 * WORD))
                        + binding(response.external_binding)
                        + response.extra.len()
                }
                Message::Notify(notify) => {
                    WORD_OBJECT + word(notify.msn.is_some()) + notify.extra.len()
                }
            }
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; a list is too long; objects or flags contradict each other, so that receivers would refuse
    /// or misread the message.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut objects = ObjectWriter { writer: Writer::new(buffer) };
        match self {
            Message::Create(create) => write_create(create, &mut objects)?,
            Message::External(external) => write_external(external, &mut objects)?,
            Message::Response(response) => write_response(response, &mut objects)?,
            Message::Notify(notify) => write_notify(notify, &mut objects)?,
        }
        Ok(objects.writer.written().len())
    }
}

fn write_create(create: &Create<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    to.request_header(MessageType::Create, create.proxy, create.nonce)?;
    to.word(ObjectType::Lifetime, Some(create.lifetime))?;
    to.object(ObjectType::ExtendedFlow, &create.extended_flow.octets())?;
    to.word(ObjectType::Msn, Some(create.msn))?;
    to.word(ObjectType::Nonce, create.nonce.map(|nonce| nonce.0))?;
    to.icmp_types(create.icmp_types)?;
    create.extra.write(&mut to.writer)
}

fn write_external(external: &External<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    to.request_header(MessageType::External, external.proxy, external.nonce)?;
    to.word(ObjectType::Lifetime, Some(external.lifetime))?;
    to.word(ObjectType::Msn, Some(external.msn))?;
    to.object(ObjectType::ExtendedFlow, &external.extended_flow.octets())?;
    to.data_terminal(&external.data_terminal)?;
    to.word(ObjectType::Nonce, external.nonce.map(|nonce| nonce.0))?;
    to.icmp_types(external.icmp_types)?;
    to.external_binding(external.external_binding)?;
    external.extra.write(&mut to.writer)
}

fn write_response(response: &Response<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    let has_addresses = response.external_address.is_some() || response.external_binding.is_some();
    let is_allowed = match response.info.outcome.class() {
        ErrorClass::Informational => false,
        ErrorClass::Success => response.lifetime.is_some(),
        _ => !has_addresses,
    };
    if !is_allowed {
        return Err(EmitError::Contradiction);
    }
    to.header(MessageType::Response, ProxyMode::Off)?;
    to.word(ObjectType::Lifetime, response.lifetime)?;
    to.word(ObjectType::Msn, Some(response.msn))?;
    to.info(&response.info)?;
    if let Some(address) = response.external_address {
        to.object(ObjectType::ExternalAddress, &address.octets())?;
    }
    to.external_binding(response.external_binding)?;
    response.extra.write(&mut to.writer)
}

fn write_notify(notify: &Notify<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    if notify.info.outcome.class() != ErrorClass::Informational {
        return Err(EmitError::Contradiction);
    }
    to.header(MessageType::Notify, ProxyMode::Off)?;
    to.word(ObjectType::Msn, notify.msn)?;
    to.info(&notify.info)?;
    notify.extra.write(&mut to.writer)
}

/// Writer of consecutive objects.
struct ObjectWriter<'b> {
    writer: Writer<'b>,
}

impl ObjectWriter<'_> {
    fn header(&mut self, message_type: MessageType, proxy: ProxyMode) -> Result<(), EmitError> {
        self.writer.put([message_type.code(), proxy.bits(), 0, 0])
    }

    /// Writes the header of a CREATE or EXTERNAL. Proxy mode requires a nonce (RFC 5973 sections 4.3.1, 4.3.2).
    fn request_header(
        &mut self,
        message_type: MessageType,
        proxy: ProxyMode,
        nonce: Option<Nonce>,
    ) -> Result<(), EmitError> {
        if proxy.is_proxy() && nonce.is_none() {
            return Err(EmitError::Contradiction);
        }
        self.header(message_type, proxy)
    }

    /// Writes an object whose value is whole words. All objects of the standard must be understood (RFC 5973 section
    /// 4.3).
    fn object(&mut self, object_type: ObjectType, value: &[u8]) -> Result<(), EmitError> {
        put_header(&mut self.writer, Treatment::Mandatory, object_type.code(), value.len())?;
        self.writer.put_slice(value)
    }

    fn word(&mut self, object_type: ObjectType, value: Option<u32>) -> Result<(), EmitError> {
        value.map_or(Ok(()), |value| self.object(object_type, &value.to_be_bytes()))
    }

    fn info(&mut self, info: &Info) -> Result<(), EmitError> {
        self.object(ObjectType::Info, &info.octets()?)
    }

    fn data_terminal(&mut self, data_terminal: &DataTerminal) -> Result<(), EmitError> {
        let (code, writer) = (ObjectType::DataTerminal.code(), &mut self.writer);
        emit_object(writer, Treatment::Mandatory, code, |writer| data_terminal.write(writer))
    }

    fn icmp_types(&mut self, types: Option<&[u8]>) -> Result<(), EmitError> {
        let Some(types) = types else { return Ok(()) };
        let count = u8::try_from(types.len()).map_err(|_| EmitError::TooLong)?;
        let (code, writer) = (ObjectType::IcmpTypes.code(), &mut self.writer);
        emit_object(writer, Treatment::Mandatory, code, |writer| {
            writer.put([count])?;
            writer.put_slice(types)
        })
    }

    fn external_binding(&mut self, binding: Option<ExternalBinding<'_>>) -> Result<(), EmitError> {
        let Some(binding) = binding else { return Ok(()) };
        let (code, writer) = (ObjectType::ExternalBinding.code(), &mut self.writer);
        emit_object(writer, Treatment::Mandatory, code, |writer| {
            writer.put(ExternalBinding::head(binding.port))?;
            writer.put_slice(binding.wire.as_flattened())
        })
    }
}
