//! The four messages with their required and optional objects (RFC 5973 section 4.3).

use serde::Serialize;

use super::collect::{Allowed, Collected};
use super::data_terminal::DataTerminal;
use super::error::{ErrorKind, ParseError};
use super::extra::Extra;
use super::header::{Header, ProxyMode};
use super::iana::{ErrorClass, MessageType, ObjectType};
use super::info::Info;
use super::objects::{ExtendedFlow, ExternalAddress, ExternalBinding, Nonce};
use crate::serialize::Sequence;

/// A NATFW NSLP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Creates, changes, refreshes or deletes a session from the data sender's side.
    Create(Create<'a>),
    /// Creates, changes, refreshes or deletes a reservation of an external address, or a blocking rule, from the data
    /// receiver's side.
    External(External<'a>),
    /// Answers a CREATE or EXTERNAL.
    Response(Response<'a>),
    /// Reports an event.
    Notify(Notify<'a>),
}

/// CREATE (RFC 5973 section 4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// Proxy mode, which requires a nonce.
    pub proxy: ProxyMode,
    /// NATFW_LT: requested lifetime of the session, seconds; 0 deletes it.
    pub lifetime: u32,
    /// NATFW_EFI.
    pub extended_flow: ExtendedFlow,
    /// NATFW_MSN: message sequence number, in serial number arithmetic (RFC 1982).
    pub msn: u32,
    /// NATFW_NONCE.
    pub nonce: Option<Nonce>,
    /// NATFW_ICMP_TYPES: ICMP types to which the rule applies, at most 255.
    pub icmp_types: Option<&'a [u8]>,
    /// Unknown objects to be forwarded, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// EXTERNAL (RFC 5973 section 4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External<'a> {
    /// Proxy mode, which requires a nonce.
    pub proxy: ProxyMode,
    /// NATFW_LT: requested lifetime of the session, seconds; 0 deletes it.
    pub lifetime: u32,
    /// NATFW_MSN: message sequence number, in serial number arithmetic (RFC 1982).
    pub msn: u32,
    /// NATFW_EFI.
    pub extended_flow: ExtendedFlow,
    /// NATFW_DTINFO.
    pub data_terminal: DataTerminal,
    /// NATFW_NONCE.
    pub nonce: Option<Nonce>,
    /// NATFW_ICMP_TYPES: ICMP types to which the rule applies, at most 255.
    pub icmp_types: Option<&'a [u8]>,
    /// NATFW_EXTERNAL_BINDING, which requests the addresses of the NATs on the path.
    pub external_binding: Option<ExternalBinding<'a>>,
    /// Unknown objects to be forwarded, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// RESPONSE (RFC 5973 section 4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// NATFW_LT: granted lifetime of the session, seconds; the acceptable one if it is refused. Required on success.
    pub lifetime: Option<u32>,
    /// NATFW_MSN: message sequence number of the request.
    pub msn: u32,
    /// Outcome of the request, of any class but Informational.
    pub info: Info,
    /// NATFW_EXTERNAL_IP. On success only.
    pub external_address: Option<ExternalAddress>,
    /// NATFW_EXTERNAL_BINDING. On success only.
    pub external_binding: Option<ExternalBinding<'a>>,
    /// Unknown objects to be forwarded, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

/// NOTIFY (RFC 5973 section 4.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// NATFW_MSN, which section 4.3.4 does not list and section 3.5 demands.
    pub msn: Option<u32>,
    /// Event, of the class Informational.
    pub info: Info,
    /// Unknown objects to be forwarded, and SESSION_AUTH.
    pub extra: Extra<'a>,
}

impl<'a> Message<'a> {
    /// Parses the data delivered by GIST.
    ///
    /// # Errors
    /// The first fault in the order of the octets, then missing objects, then objects that the class of the RESPONSE
    /// excludes. [`ParseError::response`] returns the RESPONSE for the sender.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Message<'a>, ParseError> {
        let (header, body) = Header::parse(octets)?;
        match header.message_type {
            MessageType::Create => Ok(Message::Create(Create::parse(header, body)?)),
            MessageType::External => Ok(Message::External(External::parse(header, body)?)),
            MessageType::Response => Ok(Message::Response(Response::parse(body)?)),
            MessageType::Notify => Ok(Message::Notify(Notify::parse(body)?)),
            MessageType::Unknown(_) => Err(ParseError::new(ErrorKind::MessageType, 0)),
        }
    }

    /// Returns the message type.
    pub const fn message_type(&self) -> MessageType {
        match self {
            Message::Create(_) => MessageType::Create,
            Message::External(_) => MessageType::External,
            Message::Response(_) => MessageType::Response,
            Message::Notify(_) => MessageType::Notify,
        }
    }
}

/// Checks that proxy mode has a nonce.
fn check_nonce(header: Header, found: &Collected<'_>) -> Result<(), ParseError> {
    if header.proxy.is_proxy() {
        found.required(found.nonce, ObjectType::Nonce)?;
    }
    Ok(())
}

impl<'a> Create<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Lifetime,
        ObjectType::ExtendedFlow,
        ObjectType::Msn,
        ObjectType::Nonce,
        ObjectType::IcmpTypes,
    ]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<Create<'a>, ParseError> {
        let found = Collected::parse(body, Self::ALLOWED)?;
        let create = Create {
            proxy: header.proxy,
            lifetime: found.required(found.lifetime, ObjectType::Lifetime)?,
            extended_flow: found.required(found.extended_flow, ObjectType::ExtendedFlow)?,
            msn: found.required(found.msn, ObjectType::Msn)?,
            nonce: found.nonce,
            icmp_types: found.icmp_types,
            extra: found.extra,
        };
        check_nonce(header, &found)?;
        Ok(create)
    }
}

impl<'a> External<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Lifetime,
        ObjectType::Msn,
        ObjectType::ExtendedFlow,
        ObjectType::DataTerminal,
        ObjectType::Nonce,
        ObjectType::IcmpTypes,
        ObjectType::ExternalBinding,
    ]);

    #[inline]
    fn parse(header: Header, body: &'a [u8]) -> Result<External<'a>, ParseError> {
        let found = Collected::parse(body, Self::ALLOWED)?;
        let external = External {
            proxy: header.proxy,
            lifetime: found.required(found.lifetime, ObjectType::Lifetime)?,
            msn: found.required(found.msn, ObjectType::Msn)?,
            extended_flow: found.required(found.extended_flow, ObjectType::ExtendedFlow)?,
            data_terminal: found.required(found.data_terminal, ObjectType::DataTerminal)?,
            nonce: found.nonce,
            icmp_types: found.icmp_types,
            external_binding: found.external_binding.map(|(binding, _)| binding),
            extra: found.extra,
        };
        check_nonce(header, &found)?;
        Ok(external)
    }
}

impl<'a> Response<'a> {
    const ALLOWED: Allowed = Allowed::of(&[
        ObjectType::Lifetime,
        ObjectType::Msn,
        ObjectType::Info,
        ObjectType::ExternalAddress,
        ObjectType::ExternalBinding,
    ]);

    #[inline]
    fn parse(body: &'a [u8]) -> Result<Response<'a>, ParseError> {
        let found = Collected::parse(body, Self::ALLOWED)?;
        let msn = found.required(found.msn, ObjectType::Msn)?;
        let (info, info_offset) = found.required(found.info, ObjectType::Info)?;
        match info.outcome.class() {
            ErrorClass::Informational => {
                return Err(ParseError::of(ErrorKind::Class, ObjectType::Info, info_offset));
            }
            ErrorClass::Success => {
                found.required(found.lifetime, ObjectType::Lifetime)?;
            }
            _ => {
                let illegal =
                    |object, offset| Err(ParseError::of(ErrorKind::IllegalObject, object, offset));
                if let Some((_, offset)) = found.external_address {
                    return illegal(ObjectType::ExternalAddress, offset);
                }
                if let Some((_, offset)) = found.external_binding {
                    return illegal(ObjectType::ExternalBinding, offset);
                }
            }
        }
        Ok(Response {
            lifetime: found.lifetime,
            msn,
            info,
            external_address: found.external_address.map(|(address, _)| address),
            external_binding: found.external_binding.map(|(binding, _)| binding),
            extra: found.extra,
        })
    }
}

impl<'a> Notify<'a> {
    const ALLOWED: Allowed = Allowed::of(&[ObjectType::Msn, ObjectType::Info]);

    #[inline]
    fn parse(body: &'a [u8]) -> Result<Notify<'a>, ParseError> {
        let found = Collected::parse(body, Self::ALLOWED)?;
        let (info, offset) = found.required(found.info, ObjectType::Info)?;
        if info.outcome.class() != ErrorClass::Informational {
            return Err(ParseError::of(ErrorKind::Class, ObjectType::Info, offset));
        }
        Ok(Notify { msn: found.msn, info, extra: found.extra })
    }
}

serialize_as!(Create<'_>, |it| map! {
    "flags": Sequence(it.proxy.names()),
    "NATFW_LT": seconds(it.lifetime),
    "NATFW_EFI": it.extended_flow,
    "NATFW_MSN": number(it.msn),
    "NATFW_NONCE": it.nonce.map(number_of_nonce),
    "NATFW_ICMP_TYPES": it.icmp_types.map(icmp_types),
    "SESSION_AUTH"?: it.extra.session_auth_views(),
});

serialize_as!(External<'_>, |it| map! {
    "flags": Sequence(it.proxy.names()),
    "NATFW_LT": seconds(it.lifetime),
    "NATFW_MSN": number(it.msn),
    "NATFW_EFI": it.extended_flow,
    "NATFW_DTINFO": it.data_terminal,
    "NATFW_NONCE": it.nonce.map(number_of_nonce),
    "NATFW_ICMP_TYPES": it.icmp_types.map(icmp_types),
    "NATFW_EXTERNAL_BINDING": it.external_binding,
    "SESSION_AUTH"?: it.extra.session_auth_views(),
});

serialize_as!(Response<'_>, |it| map! {
    "NATFW_LT": it.lifetime.map(seconds),
    "NATFW_MSN": number(it.msn),
    "NATFW_INFO": it.info,
    "NATFW_EXTERNAL_IP": it.external_address,
    "NATFW_EXTERNAL_BINDING": it.external_binding,
    "SESSION_AUTH"?: it.extra.session_auth_views(),
});

serialize_as!(Notify<'_>, |it| map! {
    "NATFW_MSN": it.msn.map(number),
    "NATFW_INFO": it.info,
    "SESSION_AUTH"?: it.extra.session_auth_views(),
});

fn seconds(seconds: u32) -> impl Serialize {
    map! { "seconds": seconds }
}

fn number(number: u32) -> impl Serialize {
    map! { "number": number }
}

fn number_of_nonce(nonce: Nonce) -> impl Serialize {
    number(nonce.0)
}

fn icmp_types(types: &[u8]) -> impl Serialize {
    map! { "types": types }
}
