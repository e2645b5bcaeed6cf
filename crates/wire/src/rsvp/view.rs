//! Objects one by one, as they stand on the wire: for whoever shows messages instead of acting on them.
//!
//! Nothing is judged that spans two objects, so this also reads messages that [`super::Message::parse`] refuses. Every
//! [`DecodedObject`] serializes as one flat map: `class_num`, `c_type`, `length`, `offset`, `class`, then its fields.

use core::net::IpAddr;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::decode;
use super::error::ParseError;
use super::frame::{COMMON_HEADER, CommonHeader, Frames};
use super::hello::{self, Hello, HelloKind};
use super::iana::ObjectClass;
use super::integrity::{self, Challenge, Integrity};
use super::list::Item;
use super::message::{List, RawObject};
use super::objects::{ErrorSpec, FilterSpec, RsvpHop, Session, SourceSelector, Style};
use super::reduction::{
    self, Acknowledgement, AcknowledgementKind, MessageId, RefreshList, RefreshNames,
};
use crate::intserv::{
    Adspec, FlowSpec, GuaranteedTerms, Overrides, SenderTspec, TokenBucket, exact,
};

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
    /// Unexamined.
    PolicyData(&'a [u8]),
    ResvConfirm(IpAddr),
    Hello(Hello),
    MessageId(MessageId),
    MessageIdAck(Acknowledgement),
    MessageIdList(RefreshList<'a>),
    Challenge(Challenge),
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
        ObjectClass::PolicyData => Object::PolicyData(raw.body()),
        ObjectClass::ResvConfirm => Object::ResvConfirm(decode::resv_confirm(&raw)?),
        ObjectClass::Hello => Object::Hello(hello::hello(&raw)?),
        ObjectClass::MessageId => Object::MessageId(reduction::message_id(&raw)?),
        ObjectClass::MessageIdAck => Object::MessageIdAck(reduction::acknowledgement(&raw)?),
        ObjectClass::MessageIdList => Object::MessageIdList(reduction::refresh_list(&raw)?),
        ObjectClass::Challenge => Object::Challenge(integrity::challenge(&raw)?),
        ObjectClass::Unknown(_) => Object::Unknown(raw.body()),
    };
    Ok(DecodedObject { raw, object })
}

impl Serialize for DecodedObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let class = self.raw.class_num();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("class_num", &class)?;
        map.serialize_entry("c_type", &self.raw.c_type())?;
        map.serialize_entry("length", &self.raw.bytes.len())?;
        map.serialize_entry("offset", &self.raw.offset)?;
        map.serialize_entry("class", ObjectClass::from_code(class).name())?;
        self.object.fields(&mut map)?;
        map.end()
    }
}

impl Object<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Object::Null => Ok(()),
            Object::Session(session) => {
                map.serialize_entry("destination", &session.destination)?;
                map.serialize_entry("protocol", &session.protocol)?;
                map.serialize_entry("flags", &session.flags)?;
                map.serialize_entry("port", &session.port)
            }
            Object::RsvpHop(hop) => {
                map.serialize_entry("address", &hop.address)?;
                map.serialize_entry("lih", &hop.lih)
            }
            Object::TimeValues(refresh_ms) => map.serialize_entry("refresh_ms", refresh_ms),
            Object::ErrorSpec(error) => {
                map.serialize_entry("node", &error.node)?;
                map.serialize_entry("flags", &error.flags)?;
                map.serialize_entry("code", &error.code.code())?;
                map.serialize_entry("value", &error.value)?;
                map.serialize_entry("text", error.code.name())
            }
            Object::Scope(senders) => map.serialize_entry("senders", &Each(*senders)),
            Object::Style(style) => map.serialize_entry("style", style.name()),
            Object::FlowSpec(flowspec) => flowspec_fields(flowspec, map),
            Object::FilterSpec(filter) | Object::SenderTemplate(filter) => {
                map.serialize_entry("source", &filter.source)?;
                match filter.selector {
                    SourceSelector::Port(port) => map.serialize_entry("port", &port),
                    SourceSelector::FlowLabel(label) => map.serialize_entry("flow_label", &label),
                }
            }
            Object::SenderTspec(tspec) => bucket_fields(tspec, map),
            Object::Adspec(adspec) => adspec_fields(adspec, map),
            Object::ResvConfirm(receiver) => map.serialize_entry("receiver", receiver),
            Object::Integrity(integrity) => integrity_fields(integrity, map),
            Object::Challenge(challenge) => {
                map.serialize_entry("key_id", &challenge.key_id)?;
                map.serialize_entry("cookie", &challenge.cookie)
            }
            Object::Hello(hello) => {
                let kind = match hello.kind {
                    HelloKind::Request => "request",
                    HelloKind::Ack => "ack",
                };
                map.serialize_entry("kind", kind)?;
                map.serialize_entry("source_instance", &hello.source_instance)?;
                map.serialize_entry("destination_instance", &hello.destination_instance)
            }
            Object::MessageId(MessageId { flags, epoch, id }) => {
                map.serialize_entry("flags", flags)?;
                map.serialize_entry("epoch", epoch)?;
                map.serialize_entry("id", id)
            }
            Object::MessageIdAck(Acknowledgement { kind, epoch, id }) => {
                let kind = match kind {
                    AcknowledgementKind::Ack => "ack",
                    AcknowledgementKind::Nack => "nack",
                };
                map.serialize_entry("kind", kind)?;
                map.serialize_entry("epoch", epoch)?;
                map.serialize_entry("id", id)
            }
            Object::MessageIdList(list) => refresh_list_fields(list, map),
            Object::PolicyData(body) | Object::Unknown(body) => {
                map.serialize_entry("body", &Hex(body))
            }
        }
    }
}

fn integrity_fields<M: SerializeMap>(
    integrity: &Integrity<'_>,
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("flags", &integrity.flags)?;
    map.serialize_entry("key_id", &integrity.key_id)?;
    map.serialize_entry("sequence", &integrity.sequence)?;
    map.serialize_entry("digest", &Hex(integrity.digest))
}

fn refresh_list_fields<M: SerializeMap>(
    list: &RefreshList<'_>,
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("epoch", &list.epoch)?;
    match list.names {
        RefreshNames::Messages(ids) => map.serialize_entry("ids", &Each(ids)),
        RefreshNames::Sources(items) => map.serialize_entry("sources", &Each(items)),
        RefreshNames::Multicast(items) => map.serialize_entry("multicast", &Each(items)),
    }
}

fn bucket_fields<M: SerializeMap>(bucket: &TokenBucket, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("rate", &Exact(bucket.rate))?;
    map.serialize_entry("depth", &Exact(bucket.depth))?;
    map.serialize_entry("peak", &Exact(bucket.peak))?;
    map.serialize_entry("min_policed_unit", &bucket.min_policed_unit)?;
    map.serialize_entry("max_packet_size", &bucket.max_packet_size)
}

fn flowspec_fields<M: SerializeMap>(flowspec: &FlowSpec, map: &mut M) -> Result<(), M::Error> {
    let service = match flowspec {
        FlowSpec::ControlledLoad(_) => "controlled-load",
        FlowSpec::Guaranteed(..) => "guaranteed",
    };
    map.serialize_entry("service", service)?;
    bucket_fields(flowspec.token_bucket(), map)?;
    if let FlowSpec::Guaranteed(_, rspec) = flowspec {
        map.serialize_entry("reserved_rate", &Exact(rspec.rate))?;
        map.serialize_entry("slack_us", &rspec.slack_us)?;
    }
    Ok(())
}

fn adspec_fields<M: SerializeMap>(adspec: &Adspec<'_>, map: &mut M) -> Result<(), M::Error> {
    let general = &adspec.general;
    map.serialize_entry("break_bit", &general.break_bit)?;
    map.serialize_entry("hops", &general.hops)?;
    map.serialize_entry("bandwidth", &Exact(general.bandwidth))?;
    map.serialize_entry("latency_us", &general.latency_us)?;
    map.serialize_entry("mtu", &general.mtu)?;
    if let Some(fragment) = adspec.guaranteed {
        let service = Service {
            break_bit: fragment.break_bit,
            terms: fragment.terms,
            overrides: fragment.overrides,
        };
        map.serialize_entry("guaranteed", &service)?;
    }
    if let Some(fragment) = adspec.controlled_load {
        let service =
            Service { break_bit: fragment.break_bit, terms: None, overrides: fragment.overrides };
        map.serialize_entry("controlled_load", &service)?;
    }
    Ok(())
}

/// One service's fragment of an ADSPEC; values that are not there are left out.
struct Service<'a> {
    break_bit: bool,
    terms: Option<GuaranteedTerms>,
    overrides: Overrides<'a>,
}

impl Serialize for Service<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("break_bit", &self.break_bit)?;
        if let Some(terms) = self.terms {
            map.serialize_entry("c_total", &terms.c_total)?;
            map.serialize_entry("d_total", &terms.d_total)?;
            map.serialize_entry("c_sum", &terms.c_sum)?;
            map.serialize_entry("d_sum", &terms.d_sum)?;
        }
        let Overrides { hops, bandwidth, latency_us, mtu, .. } = self.overrides;
        for (name, value) in [("hops", hops), ("latency_us", latency_us), ("mtu", mtu)] {
            if let Some(value) = value {
                map.serialize_entry(name, &value)?;
            }
        }
        if let Some(bandwidth) = bandwidth {
            map.serialize_entry("bandwidth", &Exact(bandwidth))?;
        }
        map.end()
    }
}

/// A number that survives text formats; see [`exact`].
#[derive(Serialize)]
#[serde(transparent)]
struct Exact(#[serde(with = "exact")] f32);

struct Each<'a, T>(List<'a, T>);

impl<'a, T: Item<'a> + Serialize> Serialize for Each<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}

/// Octets as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl core::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
