//! The four messages with their required and optional objects (RFC 5974 section 5.1.2).

use serde::Serialize;

use super::collect::{Allowed, Collected};
use super::error::{ErrorKind, ParseError};
use super::extra::Extra;
use super::header::{GenericFlags, Header};
use super::iana::{MessageType, ObjectType, flag};
use super::info_spec::InfoSpec;
use super::objects::{BoundSessions, MessageBinding, MessageId, PacketClassifier, Rsn, Summary};
use crate::serialize::{Hex, Sequence, objects};

/// A QoS NSLP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Creates, refreshes, modifies or removes a reservation.
    Reserve(Reserve<'a>),
    /// Queries available resources, or requests a RESERVE.
    Query(Query<'a>),
    /// Answers a RESERVE or QUERY.
    Response(Response<'a>),
    /// Notifies without a request.
    Notify(Notify<'a>),
}

/// RESERVE (RFC 5974 section 5.1.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve<'a> {
    /// Flags of the common header. ACK-REQ and an RII exclude each other.
    pub flags: GenericFlags,
    /// T: state is removed.
    pub tear: bool,
    /// R: the reservation on the old branch is replaced.
    pub replace: bool,
    /// Reservation sequence number.
    pub rsn: Rsn,
    /// RII, which requests a response from the end of the path.
    pub rii: Option<u32>,
    /// Refresh period, milliseconds; 30 000 if absent.
    pub refresh_period: Option<u32>,
    /// Sessions to which this session is bound.
    pub bound: BoundSessions<'a>,
    /// Other sessions that are refreshed or torn down as well.
    pub summary: Option<Summary<'a>>,
    /// Message binding, MSG-ID or BOUND-MSG-ID.
    pub binding: Option<MessageBinding>,
    /// INFO-SPEC.
    pub info: Option<InfoSpec<'a>>,
    /// Packet classifier, if not all fields of the message routing information count. Only beside a QSPEC.
    pub classifier: Option<PacketClassifier>,
    /// QSPEC, whole words; [`crate::qspec`] parses it. Absent in a reduced refresh.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// QUERY (RFC 5974 section 5.1.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Flags of the common header.
    pub flags: GenericFlags,
    /// R: the recipient answers with a RESERVE.
    pub reserve_init: bool,
    /// RII, which requests a response. Required unless `reserve_init` is set.
    pub rii: Option<u32>,
    /// Sessions to which this session is bound.
    pub bound: BoundSessions<'a>,
    /// Packet classifier.
    pub classifier: Option<PacketClassifier>,
    /// INFO-SPEC.
    pub info: Option<InfoSpec<'a>>,
    /// QSPEC, whole words.
    pub qspec: &'a [u8],
    /// Second QSPEC.
    pub second_qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// Reference of a RESPONSE to the message that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answers {
    /// RII of the message.
    Rii(u32),
    /// RSN of the peer's RESERVE.
    Rsn(Rsn),
}

/// RESPONSE (RFC 5974 section 5.1.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Flags of the common header, without ACK-REQ.
    pub flags: GenericFlags,
    /// Reference to the answered message.
    pub answers: Option<Answers>,
    /// Outcome of the request.
    pub info: InfoSpec<'a>,
    /// Sessions of a summary that are unknown or have a wrong sequence number.
    pub summary: Option<Summary<'a>>,
    /// QSPEC with the reserved or available resources; whole words.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// NOTIFY (RFC 5974 section 5.1.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// Flags of the common header, without ACK-REQ.
    pub flags: GenericFlags,
    /// Event that is notified.
    pub info: InfoSpec<'a>,
    /// QSPEC concerned; whole words.
    pub qspec: Option<&'a [u8]>,
    /// Unknown objects to be kept, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

impl<'a> Message<'a> {
    /// Parses the data delivered by GIST.
    ///
    /// # Errors
    /// The first fault in the order of the octets, then missing objects. [`ParseError::info_spec`] returns the
    /// INFO-SPEC for the sender.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Message<'a>, ParseError> {
        let (header, body) = Header::parse(octets)?;
        // Each arm ends in the whole message, which is large, and is constructed at its final place.
        match header.message_type {
            MessageType::Reserve => Ok(Message::Reserve(Reserve::parse(header, body)?)),
            MessageType::Query => Ok(Message::Query(Query::parse(header, body)?)),
            MessageType::Response => Ok(Message::Response(Response::parse(header, body)?)),
            MessageType::Notify => Ok(Message::Notify(Notify::parse(header, body)?)),
            MessageType::Unknown(_) => Err(ParseError::new(ErrorKind::MessageType, 0)),
        }
    }

    /// Returns the message type.
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

serialize_as!(Reserve<'_>, |it| {
    let (own, bound) = match &it.binding {
        Some(MessageBinding::Id(id)) => (Some(id), None),
        Some(MessageBinding::Bound(id)) => (None, Some(id)),
        None => (None, None),
    };
    map! {
        "flags": Sequence(it.flags.names()),
        "tear": it.tear,
        "replace": it.replace,
        "RSN": it.rsn,
        "RII": it.rii.map(|rii| map! { "number": rii }),
        "REFRESH-PERIOD": it.refresh_period.map(|ms| map! { "ms": ms }),
        "BOUND-SESSION-ID": bound_sessions(it.bound),
        "SESSION-ID-LIST": it.summary,
        "MSG-ID": own.map(message_id),
        "BOUND-MSG-ID": bound.map(message_id),
        "INFO-SPEC": it.info,
        "PACKET-CLASSIFIER": it.classifier.map(|fields| map! { "fields": fields }),
        "SESSION_AUTH"?: it.extra.session_auth_views(),
    }
});

serialize_as!(Query<'_>, |it| map! {
    "flags": Sequence(it.flags.names()),
    "reserve_init": it.reserve_init,
    "RII": it.rii.map(|rii| map! { "number": rii }),
    "BOUND-SESSION-ID": bound_sessions(it.bound),
    "INFO-SPEC": it.info,
    "SESSION_AUTH"?: it.extra.session_auth_views(),
});

serialize_as!(Response<'_>, |it| {
    let (rii, rsn) = match it.answers {
        Some(Answers::Rii(rii)) => (Some(map! { "number": rii }), None),
        Some(Answers::Rsn(rsn)) => (None, Some(rsn)),
        None => (None, None),
    };
    map! {
        "flags": Sequence(it.flags.names()),
        "RII": rii,
        "RSN": rsn,
        "INFO-SPEC": it.info,
        "SESSION-ID-LIST": it.summary,
    }
});

serialize_as!(Notify<'_>, |it| map! {
    "flags": Sequence(it.flags.names()),
    "INFO-SPEC": it.info,
});

fn bound_sessions(bound: BoundSessions<'_>) -> Option<impl Serialize> {
    objects(bound.iter().map(|bound| {
        map! { "session": bound.session, "binding": bound.binding.name() }
    }))
}

fn message_id(id: &MessageId) -> impl Serialize {
    map! { "id": Hex(&id.id), "bidirectional": id.bidirectional }
}
