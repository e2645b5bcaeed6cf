//! The four messages: what each may have, and what it must (RFC 5974 section 5.1.2).

use super::collect::{Allowed, Collected};
use super::error::{ErrorKind, ParseError};
use super::extra::Extra;
use super::header::{GenericFlags, Header};
use super::iana::{MessageType, ObjectType, flag};
use super::info_spec::InfoSpec;
use super::objects::{BoundSessions, MessageBinding, PacketClassifier, Rsn, Summary};

/// A message of QoS NSLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Makes, refreshes, changes or removes a reservation.
    Reserve(Reserve<'a>),
    /// Asks what there is, or for a RESERVE.
    Query(Query<'a>),
    /// Answers.
    Response(Response<'a>),
    /// Says something unasked.
    Notify(Notify<'a>),
}

/// RESERVE (RFC 5974 section 5.1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve<'a> {
    /// Of the common header. ACK-REQ does not go together with an RII.
    pub flags: GenericFlags,
    /// T: state goes away.
    pub tear: bool,
    /// R: the reservation on the old branch may go away.
    pub replace: bool,
    /// Which state it speaks of.
    pub rsn: Rsn,
    /// Wants a response from the end.
    pub rii: Option<u32>,
    /// Milliseconds between refreshes; 30 000 where it is not said.
    pub refresh_period: Option<u32>,
    /// Other sessions that this one is bound to.
    pub bound: BoundSessions<'a>,
    /// Other sessions that are refreshed or torn down as well.
    pub summary: Option<Summary<'a>>,
    /// What it waits for, or what waits for it.
    pub binding: Option<MessageBinding>,
    /// Something to tell.
    pub info: Option<InfoSpec<'a>>,
    /// Which packets, where not all that the message routing information names. Only beside a QSPEC.
    pub classifier: Option<PacketClassifier>,
    /// What is asked for, whole words; [`crate::qspec`] reads it. Without one it is a reduced refresh.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept.
    pub extra: Extra<'a>,
}

/// QUERY (RFC 5974 section 5.1.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Of the common header.
    pub flags: GenericFlags,
    /// R: the recipient shall answer by a RESERVE.
    pub reserve_init: bool,
    /// Wants a response. Must be there if `reserve_init` is not set.
    pub rii: Option<u32>,
    /// Other sessions that this one is bound to.
    pub bound: BoundSessions<'a>,
    /// Which packets.
    pub classifier: Option<PacketClassifier>,
    /// Something to tell.
    pub info: Option<InfoSpec<'a>>,
    /// What is asked for, whole words.
    pub qspec: &'a [u8],
    /// A second one.
    pub second_qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept.
    pub extra: Extra<'a>,
}

/// What a RESPONSE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answers {
    /// The message with this RII.
    Rii(u32),
    /// The RESERVE with this RSN, which the peer sent.
    Rsn(Rsn),
}

/// RESPONSE (RFC 5974 section 5.1.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Of the common header, without ACK-REQ.
    pub flags: GenericFlags,
    /// What it answers.
    pub answers: Option<Answers>,
    /// What became of it.
    pub info: InfoSpec<'a>,
    /// Sessions that the peer named and that are not known, or whose sequence numbers are wrong.
    pub summary: Option<Summary<'a>>,
    /// What has been reserved, or could be; whole words.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept.
    pub extra: Extra<'a>,
}

/// NOTIFY (RFC 5974 section 5.1.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// Of the common header, without ACK-REQ.
    pub flags: GenericFlags,
    /// What has happened.
    pub info: InfoSpec<'a>,
    /// About what; whole words.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept.
    pub extra: Extra<'a>,
}

impl<'a> Message<'a> {
    /// Reads the data that GIST has delivered.
    ///
    /// # Errors
    /// The first fault, in the order of the octets; after them, what is missing. [`ParseError::info_spec`] says it to
    /// the sender.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Message<'a>, ParseError> {
        let (header, body) = Header::parse(octets)?;
        // Each arm ends in the whole message, which is large, and is written where it stays.
        match header.message_type {
            MessageType::Reserve => Ok(Message::Reserve(Reserve::parse(header, body)?)),
            MessageType::Query => Ok(Message::Query(Query::parse(header, body)?)),
            MessageType::Response => Ok(Message::Response(Response::parse(header, body)?)),
            MessageType::Notify => Ok(Message::Notify(Notify::parse(header, body)?)),
            MessageType::Unknown(_) => Err(ParseError::new(ErrorKind::MessageType, 0)),
        }
    }

    /// Which it is.
    pub const fn message_type(&self) -> MessageType {
        match self {
            Message::Reserve(_) => MessageType::Reserve,
            Message::Query(_) => MessageType::Query,
            Message::Response(_) => MessageType::Response,
            Message::Notify(_) => MessageType::Notify,
        }
    }
}

impl<'a> Reserve<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Rsn,
        ObjectType::Rii,
        ObjectType::RefreshPeriod,
        ObjectType::BoundSessionId,
        ObjectType::SessionIdList,
        ObjectType::RsnList,
        ObjectType::MessageId,
        ObjectType::BoundMessageId,
        ObjectType::InfoSpec,
        ObjectType::PacketClassifier,
        ObjectType::Qspec,
    ]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<Reserve<'a>, ParseError> {
        let mut found = Collected::new(body);
        found.walk(body, Self::ALLOWED, false)?;
        let Some(rsn) = found.rsn else {
            return Err(found.error(ErrorKind::MissingObject, ObjectType::Rsn));
        };
        if found.classifier.is_some() && found.qspec.is_none() {
            return Err(found.error(ErrorKind::IllegalObject, ObjectType::PacketClassifier));
        }
        if header.generic.ack_req && found.rii.is_some() {
            return Err(ParseError::new(ErrorKind::Acknowledgement, 2));
        }
        Ok(Reserve {
            flags: header.generic,
            tear: header.flags & flag::TEAR != 0,
            replace: header.flags & flag::REPLACE != 0,
            rsn,
            rii: found.rii,
            refresh_period: found.refresh_period,
            bound: found.bound,
            summary: found.summary,
            binding: found.binding,
            info: found.info,
            classifier: found.classifier,
            qspec: found.qspec,
            extra: found.extra,
        })
    }
}

impl<'a> Query<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Rii,
        ObjectType::BoundSessionId,
        ObjectType::PacketClassifier,
        ObjectType::InfoSpec,
        ObjectType::Qspec,
    ]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<Query<'a>, ParseError> {
        let mut found = Collected::new(body);
        found.walk(body, Self::ALLOWED, true)?;
        let Some(qspec) = found.qspec else {
            return Err(found.error(ErrorKind::MissingObject, ObjectType::Qspec));
        };
        let reserve_init = header.flags & flag::RESERVE_INIT != 0;
        if !reserve_init && found.rii.is_none() {
            return Err(found.error(ErrorKind::MissingObject, ObjectType::Rii));
        }
        Ok(Query {
            flags: header.generic,
            reserve_init,
            rii: found.rii,
            bound: found.bound,
            classifier: found.classifier,
            info: found.info,
            qspec,
            second_qspec: found.second_qspec,
            extra: found.extra,
        })
    }
}

impl<'a> Response<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Rii,
        ObjectType::Rsn,
        ObjectType::InfoSpec,
        ObjectType::SessionIdList,
        ObjectType::RsnList,
        ObjectType::Qspec,
    ]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<Response<'a>, ParseError> {
        let mut found = Collected::new(body);
        found.walk(body, Self::ALLOWED, false)?;
        let Some(info) = found.info else {
            return Err(found.error(ErrorKind::MissingObject, ObjectType::InfoSpec));
        };
        let answers = match (found.rii, found.rsn) {
            (None, None) => None,
            (Some(rii), None) => Some(Answers::Rii(rii)),
            (None, Some(rsn)) => Some(Answers::Rsn(rsn)),
            (Some(_), Some(_)) => {
                return Err(found.error(ErrorKind::IllegalObject, ObjectType::Rsn));
            }
        };
        Ok(Response {
            flags: GenericFlags { ack_req: false, ..header.generic },
            answers,
            info,
            summary: found.summary,
            qspec: found.qspec,
            extra: found.extra,
        })
    }
}

impl<'a> Notify<'a> {
    const ALLOWED: Allowed = Allowed::of(&[ObjectType::InfoSpec, ObjectType::Qspec]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<Notify<'a>, ParseError> {
        let mut found = Collected::new(body);
        found.walk(body, Self::ALLOWED, false)?;
        let Some(info) = found.info else {
            return Err(found.error(ErrorKind::MissingObject, ObjectType::InfoSpec));
        };
        Ok(Notify {
            flags: GenericFlags { ack_req: false, ..header.generic },
            info,
            qspec: found.qspec,
            extra: found.extra,
        })
    }
}
