//! Emission of messages: objects in the order of the grammar (RFC 5974 section 5.1.2), unknown ones at the end.

use super::extra::Extra;
use super::header::{GenericFlags, HEADER};
use super::iana::{MessageType, ObjectType, flag};
use super::info_spec::InfoSpec;
use super::message::{Answers, Message, Notify, Query, Reserve, Response};
use super::objects::{BoundSessions, MessageBinding, PacketClassifier, Rsn, Summary};
use crate::nsis::object::{Treatment, WORD, emit_object, object_len, put_header};
use crate::writer::{EmitError, Writer};

impl Message<'_> {
    /// Length of the emitted message, octets; see [`emit`](Message::emit).
    pub fn buffer_len(&self) -> usize {
        let word = |present: bool| if present { object_len(WORD) } else { 0 };
        let qspec = |qspec: Option<&[u8]>| qspec.map_or(0, |qspec| object_len(qspec.len()));
        let info = |info: &InfoSpec<'_>| object_len(info.len());
        HEADER
            + match self {
                Message::Reserve(reserve) => {
                    object_len(8)
                        + word(reserve.rii.is_some())
                        + word(reserve.refresh_period.is_some())
                        + bound_len(reserve.bound)
                        + summary_len(reserve.summary.as_ref())
                        + reserve.binding.map_or(0, |_| object_len(20))
                        + reserve.info.as_ref().map_or(0, info)
                        + word(reserve.classifier.is_some())
                        + qspec(reserve.qspec)
                        + reserve.extra.len()
                }
                Message::Query(query) => {
                    word(query.rii.is_some())
                        + bound_len(query.bound)
                        + word(query.classifier.is_some())
                        + query.info.as_ref().map_or(0, info)
                        + qspec(Some(query.qspec))
                        + qspec(query.second_qspec)
                        + query.extra.len()
                }
                Message::Response(response) => {
                    let answers = match response.answers {
                        None => 0,
                        Some(Answers::Rii(_)) => object_len(WORD),
                        Some(Answers::Rsn(_)) => object_len(8),
                    };
                    answers
                        + info(&response.info)
                        + summary_len(response.summary.as_ref())
                        + qspec(response.qspec)
                        + response.extra.len()
                }
                Message::Notify(notify) => {
                    info(&notify.info) + qspec(notify.qspec) + notify.extra.len()
                }
            }
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; an object or a source is too long; objects or flags contradict each other, so that
    /// receivers would refuse or misread the message.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut objects = ObjectWriter { writer: Writer::new(buffer) };
        match self {
            Message::Reserve(reserve) => write_reserve(reserve, &mut objects)?,
            Message::Query(query) => write_query(query, &mut objects)?,
            Message::Response(response) => write_response(response, &mut objects)?,
            Message::Notify(notify) => write_notify(notify, &mut objects)?,
        }
        Ok(objects.writer.written().len())
    }
}

fn bound_len(bound: BoundSessions<'_>) -> usize {
    if bound.is_empty() { 0 } else { bound.iter().count() * object_len(20) }
}

fn summary_len(summary: Option<&Summary<'_>>) -> usize {
    summary.map_or(0, |Summary { sessions, rsns }| {
        let rsns = rsns.map_or(0, |rsns| object_len(WORD + rsns.wire.as_flattened().len()));
        object_len(sessions.as_flattened().len()) + rsns
    })
}

fn write_reserve(reserve: &Reserve<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    let unread = reserve.flags.ack_req && reserve.rii.is_some()
        || reserve.classifier.is_some() && reserve.qspec.is_none();
    if unread {
        return Err(EmitError::Contradiction);
    }
    let tear = if reserve.tear { flag::TEAR } else { 0 };
    let replace = if reserve.replace { flag::REPLACE } else { 0 };
    to.header(MessageType::Reserve, tear | replace, reserve.flags)?;
    to.rsn(reserve.rsn)?;
    to.word(ObjectType::Rii, reserve.rii)?;
    to.word(ObjectType::RefreshPeriod, reserve.refresh_period)?;
    to.bound(reserve.bound)?;
    to.summary(reserve.summary.as_ref())?;
    match reserve.binding {
        None => {}
        Some(MessageBinding::Id(id)) => to.object(ObjectType::MessageId, &id.to_octets())?,
        Some(MessageBinding::Bound(id)) => {
            to.object(ObjectType::BoundMessageId, &id.to_octets())?;
        }
    }
    to.info(reserve.info.as_ref())?;
    to.classifier(reserve.classifier)?;
    to.qspec(reserve.qspec)?;
    to.extra(reserve.extra)
}

fn write_query(query: &Query<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    if !query.reserve_init && query.rii.is_none() {
        return Err(EmitError::Contradiction);
    }
    let reserve_init = if query.reserve_init { flag::RESERVE_INIT } else { 0 };
    to.header(MessageType::Query, reserve_init, query.flags)?;
    to.word(ObjectType::Rii, query.rii)?;
    to.bound(query.bound)?;
    to.classifier(query.classifier)?;
    to.info(query.info.as_ref())?;
    to.qspec(Some(query.qspec))?;
    to.qspec(query.second_qspec)?;
    to.extra(query.extra)
}

fn write_response(response: &Response<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    if response.flags.ack_req {
        return Err(EmitError::Contradiction);
    }
    to.header(MessageType::Response, 0, response.flags)?;
    match response.answers {
        None => {}
        Some(Answers::Rii(rii)) => to.word(ObjectType::Rii, Some(rii))?,
        Some(Answers::Rsn(rsn)) => to.rsn(rsn)?,
    }
    to.info(Some(&response.info))?;
    to.summary(response.summary.as_ref())?;
    to.qspec(response.qspec)?;
    to.extra(response.extra)
}

fn write_notify(notify: &Notify<'_>, to: &mut ObjectWriter<'_>) -> Result<(), EmitError> {
    if notify.flags.ack_req {
        return Err(EmitError::Contradiction);
    }
    to.header(MessageType::Notify, 0, notify.flags)?;
    to.info(Some(&notify.info))?;
    to.qspec(notify.qspec)?;
    to.extra(notify.extra)
}

/// Writer of consecutive objects.
struct ObjectWriter<'b> {
    writer: Writer<'b>,
}

impl ObjectWriter<'_> {
    fn header(
        &mut self,
        message_type: MessageType,
        flags: u8,
        generic: GenericFlags,
    ) -> Result<(), EmitError> {
        let [high, low] = generic.bits().to_be_bytes();
        self.writer.put([message_type.code(), flags, high, low])
    }

    /// Writes an object whose value is whole words. All objects of the standard must be understood (RFC 5974 section
    /// 5.1.3).
    fn object(&mut self, object_type: ObjectType, value: &[u8]) -> Result<(), EmitError> {
        put_header(&mut self.writer, Treatment::Mandatory, object_type.code(), value.len())?;
        self.writer.put_slice(value)
    }

    fn word(&mut self, object_type: ObjectType, value: Option<u32>) -> Result<(), EmitError> {
        value.map_or(Ok(()), |value| self.object(object_type, &value.to_be_bytes()))
    }

    fn rsn(&mut self, rsn: Rsn) -> Result<(), EmitError> {
        self.object(ObjectType::Rsn, &rsn.to_octets())
    }

    fn bound(&mut self, bound: BoundSessions<'_>) -> Result<(), EmitError> {
        if bound.is_empty() {
            return Ok(());
        }
        bound
            .iter()
            .try_for_each(|bound| self.object(ObjectType::BoundSessionId, &bound.to_octets()))
    }

    fn summary(&mut self, summary: Option<&Summary<'_>>) -> Result<(), EmitError> {
        let Some(Summary { sessions, rsns }) = summary else { return Ok(()) };
        self.object(ObjectType::SessionIdList, sessions.as_flattened())?;
        let Some(rsns) = rsns else { return Ok(()) };
        if rsns.wire.len() != sessions.len() {
            return Err(EmitError::Contradiction);
        }
        let (code, writer) = (ObjectType::RsnList.code(), &mut self.writer);
        emit_object(writer, Treatment::Mandatory, code, |writer| {
            writer.put(rsns.epoch.to_be_bytes())?;
            writer.put_slice(rsns.wire.as_flattened())
        })
    }

    fn info(&mut self, info: Option<&InfoSpec<'_>>) -> Result<(), EmitError> {
        let Some(info) = info else { return Ok(()) };
        let (code, writer) = (ObjectType::InfoSpec.code(), &mut self.writer);
        emit_object(writer, Treatment::Mandatory, code, |writer| info.write(writer))
    }

    fn classifier(&mut self, classifier: Option<PacketClassifier>) -> Result<(), EmitError> {
        classifier.map_or(Ok(()), |PacketClassifier(flags)| {
            self.object(ObjectType::PacketClassifier, &[flags, 0, 0, 0])
        })
    }

    fn qspec(&mut self, qspec: Option<&[u8]>) -> Result<(), EmitError> {
        let Some(qspec) = qspec else { return Ok(()) };
        if qspec.is_empty() || !qspec.len().is_multiple_of(WORD) {
            return Err(EmitError::Contradiction);
        }
        self.object(ObjectType::Qspec, qspec)
    }

    fn extra(&mut self, extra: Extra<'_>) -> Result<(), EmitError> {
        extra.write(&mut self.writer)
    }
}
