//! Objects one by one, as they stand on the wire: for whoever shows messages instead of acting on them.
//!
//! Nothing is judged that spans two objects, so this also reads messages that [`super::Message::parse`] refuses. Every
//! [`DecodedObject`] serializes as one flat map: `class_num`, `c_type`, `length`, `offset`, `class`, then its fields.

mod fields;

use core::net::IpAddr;

use super::dclass::{self, Dscp};
use super::decode;
use super::diagnostics::{self, DiagResponse, Diagnostic, Route, Selected};
use super::error::ParseError;
use super::frame::{COMMON_HEADER, CommonHeader, Frames};
use super::hello::{self, Hello};
use super::iana::{ObjectClass, c_type};
use super::integrity::{self, Challenge, Integrity};
use super::message::{List, RawObject};
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, Style};
use super::policy::PolicyData;
use super::reduction::{self, Acknowledgement, MessageId, RefreshList};
use crate::intserv::{Adspec, FlowSpec, SenderTspec};

/// What an object says.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Object<'a> {
    Null,
    Session(Session),
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
    /// POLICY_DATA of a C-Type that is not known.
    UnknownPolicyData(&'a [u8]),
    ResvConfirm(IpAddr),
    Hello(Hello),
    MessageId(MessageId),
    MessageIdAck(Acknowledgement),
    MessageIdList(RefreshList<'a>),
    Challenge(Challenge),
    Diagnostic(Diagnostic),
    Route(Route<'a>),
    DiagResponse(DiagResponse<'a>),
    DiagSelect(List<'a, Selected>),
    DClass(List<'a, Dscp>),
    /// The body of an object whose class is not known.
    Unknown(&'a [u8]),
}

/// An object, what it says, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodedObject<'a> {
    /// The octets.
    pub raw: RawObject<'a>,
    /// Their meaning.
    pub object: Object<'a>,
}

/// Every object of an RSVP message, in order; nothing if it is shorter than a common header. Lengths of the common header
/// are not looked at. After an object that cannot be read the next one follows; after one that is framed wrongly,
/// which makes everything behind it unreadable, the iterator ends.
pub fn objects(message: &[u8]) -> impl Iterator<Item = Result<DecodedObject<'_>, ParseError>> {
    let objects = CommonHeader::split(message).map_or(&[][..], |(_, objects)| objects);
    Frames::new(objects, COMMON_HEADER).map(|object| object.and_then(decode))
}

/// Every object of a row of objects that has no header before it, as DIAG_RESPONSE and [`super::Carried`] hold them. Offsets
/// count from the start of the row. Otherwise like [`objects`].
pub fn objects_of(row: &[u8]) -> impl Iterator<Item = Result<DecodedObject<'_>, ParseError>> {
    Frames::new(row, 0).map(|object| object.and_then(decode))
}

fn decode(raw: RawObject<'_>) -> Result<DecodedObject<'_>, ParseError> {
    let object = match ObjectClass::from_code(raw.class_num()) {
        ObjectClass::Null => Object::Null,
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
        ObjectClass::MessageId => Object::MessageId(reduction::message_id(&raw)?),
        ObjectClass::MessageIdAck => Object::MessageIdAck(reduction::acknowledgement(&raw)?),
        ObjectClass::MessageIdList => Object::MessageIdList(reduction::refresh_list(&raw)?),
        ObjectClass::Diagnostic => Object::Diagnostic(diagnostics::diagnostic(&raw)?),
        ObjectClass::Route => Object::Route(diagnostics::route(&raw)?),
        ObjectClass::DiagResponse => Object::DiagResponse(diagnostics::diag_response(&raw)?),
        ObjectClass::DiagSelect => Object::DiagSelect(diagnostics::diag_select(&raw)?),
        ObjectClass::DClass => Object::DClass(dclass::dclass(&raw)?),
        ObjectClass::Challenge => Object::Challenge(integrity::challenge(&raw)?),
        ObjectClass::Unknown(_) => Object::Unknown(raw.body()),
    };
    Ok(DecodedObject { raw, object })
}
