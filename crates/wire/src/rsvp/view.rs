//! Single objects as they are on the wire, for tools that display messages.
//!
//! No rules between objects are checked, so that messages can be displayed that [`super::Message::parse`] refuses.
//! Every [`DecodedObject`] serializes as one flat map: `class_num`, `c_type`, `length`, `offset`, `class`, then its
//! fields.

mod fields;

use core::net::IpAddr;

use super::dclass::{self, Dscp};
use super::decode;
use super::diagnostics::{self, DiagResponse, Diagnostic, Route, Selected};
use super::error::ParseError;
use super::frame::{COMMON_HEADER, CommonHeader, Frames, RawObject};
use super::generic_aggregate::{self, GenericAggregate};
use super::hello::{self, Capability, Hello, RestartCap};
use super::iana::{ObjectClass, c_type};
use super::integrity::{self, Challenge, Integrity};
use super::list::List;
use super::notify;
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, Style};
use super::policy::PolicyData;
use super::refresh_reduction::{self, Acknowledgement, MessageId, RefreshList};
use crate::intserv::{Adspec, FlowSpec, SenderTspec};

/// A decoded object.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Object<'a> {
    Null,
    Session(Session),
    /// SESSION of a generic aggregate.
    GenericSession(GenericAggregate),
    RsvpHop(RsvpHop),
    Integrity(Integrity<'a>),
    /// Refresh period R, milliseconds.
    TimeValues(u32),
    ErrorSpec(ErrorSpec),
    Scope(List<'a, IpAddr>),
    Style(Style),
    FlowSpec(FlowSpec),
    FilterSpec(FilterSpec),
    SenderTemplate(FilterSpec),
    SenderTspec(SenderTspec),
    Adspec(Adspec<'a>),
    PolicyData(PolicyData<'a>),
    /// POLICY_DATA of unknown C-Type.
    UnknownPolicyData(&'a [u8]),
    ResvConfirm(IpAddr),
    Hello(Hello),
    RestartCap(RestartCap),
    Capability(Capability),
    MessageId(MessageId),
    MessageIdAck(Acknowledgement),
    MessageIdList(RefreshList<'a>),
    Challenge(Challenge),
    Diagnostic(Diagnostic),
    Route(Route<'a>),
    DiagResponse(DiagResponse<'a>),
    DiagSelect(List<'a, Selected>),
    /// Notify Node Address.
    NotifyRequest(IpAddr),
    DClass(List<'a, Dscp>),
    SessionOfInterest(GenericAggregate),
    /// Body of an object of unknown class.
    Unknown(&'a [u8]),
}

/// An object with its octets and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodedObject<'a> {
    /// Octets of the object, with their offset.
    pub raw: RawObject<'a>,
    /// Decoded value.
    pub object: Object<'a>,
}

/// Iterates over the objects of an RSVP message; over none if it is shorter than a common header. Length fields of the
/// common header are ignored. Iteration continues behind an object that cannot be decoded, and ends at one that is
/// framed wrongly, because everything behind it is unreadable.
pub fn objects(message: &[u8]) -> impl Iterator<Item = Result<DecodedObject<'_>, ParseError>> {
    let objects = CommonHeader::split(message).map_or(&[][..], |(_, objects)| objects);
    Frames::new(objects, COMMON_HEADER).map(|object| object.and_then(decode))
}

/// Iterates over consecutive objects without a common header, as in DIAG_RESPONSE and [`super::Carried`]. Offsets count
/// from the start of `row`; otherwise equal to [`objects`].
pub fn objects_in(row: &[u8]) -> impl Iterator<Item = Result<DecodedObject<'_>, ParseError>> {
    Frames::new(row, 0).map(|object| object.and_then(decode))
}

fn decode(raw: RawObject<'_>) -> Result<DecodedObject<'_>, ParseError> {
    let object = match ObjectClass::from_code(raw.class_num()) {
        ObjectClass::Null => Object::Null,
        ObjectClass::Session if generic_aggregate::is_generic(&raw) => {
            Object::GenericSession(generic_aggregate::session(&raw)?)
        }
        ObjectClass::Session => Object::Session(decode::session(&raw)?),
        ObjectClass::RsvpHop => Object::RsvpHop(decode::rsvp_hop(&raw)?),
        ObjectClass::Integrity => Object::Integrity(Integrity::parse(&raw)?),
        ObjectClass::TimeValues => Object::TimeValues(decode::time_values(&raw)?),
        ObjectClass::ErrorSpec => Object::ErrorSpec(decode::error_spec(&raw)?),
        ObjectClass::Scope => {
            decode::scope(&raw)?;
            Object::Scope(List::Wire(raw.bytes))
        }
        ObjectClass::Style => Object::Style(decode::style(&raw)?),
        ObjectClass::FlowSpec => Object::FlowSpec(decode::flowspec(&raw)?),
        ObjectClass::FilterSpec => Object::FilterSpec(decode::filter_spec(&raw)?),
        ObjectClass::SenderTemplate => Object::SenderTemplate(decode::filter_spec(&raw)?),
        ObjectClass::SenderTspec => Object::SenderTspec(decode::sender_tspec(&raw)?),
        ObjectClass::Adspec => Object::Adspec(decode::adspec(&raw)?),
        ObjectClass::PolicyData if raw.c_type() == c_type::POLICY_DATA => {
            Object::PolicyData(PolicyData::parse(&raw)?)
        }
        ObjectClass::PolicyData => Object::UnknownPolicyData(raw.body()),
        ObjectClass::ResvConfirm => Object::ResvConfirm(decode::resv_confirm(&raw)?),
        ObjectClass::Hello => Object::Hello(hello::hello(&raw)?),
        ObjectClass::RestartCap => Object::RestartCap(RestartCap::parse(&raw)?),
        ObjectClass::Capability => Object::Capability(Capability::parse(&raw)?),
        ObjectClass::MessageId => Object::MessageId(refresh_reduction::message_id(&raw)?),
        ObjectClass::MessageIdAck => {
            Object::MessageIdAck(refresh_reduction::acknowledgement(&raw)?)
        }
        ObjectClass::MessageIdList => Object::MessageIdList(refresh_reduction::refresh_list(&raw)?),
        ObjectClass::Diagnostic => Object::Diagnostic(diagnostics::diagnostic(&raw)?),
        ObjectClass::Route => Object::Route(diagnostics::route(&raw)?),
        ObjectClass::DiagResponse => Object::DiagResponse(diagnostics::diag_response(&raw)?),
        ObjectClass::DiagSelect => Object::DiagSelect(diagnostics::diag_select(&raw)?),
        ObjectClass::NotifyRequest => Object::NotifyRequest(notify::notify_request(&raw)?),
        ObjectClass::DClass => Object::DClass(dclass::dclass(&raw)?),
        ObjectClass::SessionOfInterest => {
            Object::SessionOfInterest(generic_aggregate::session_of_interest(&raw)?)
        }
        ObjectClass::Challenge => Object::Challenge(integrity::challenge(&raw)?),
        ObjectClass::Unknown(_) => Object::Unknown(raw.body()),
    };
    Ok(DecodedObject { raw, object })
}
