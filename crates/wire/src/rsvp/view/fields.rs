//! Serialization of objects as flat maps (see [`super::DecodedObject`]).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{DecodedObject, Object, objects_in};
use crate::intserv::{Adspec, FlowSpec, GuaranteedTerms, Overrides, TokenBucket, exact};
use crate::rsvp::*;
use crate::serialize::{Hex, Text};

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
            Object::Diagnostic(diagnostic) => diagnostic_fields(diagnostic, map),
            Object::Route(route) => {
                map.serialize_entry("pointer", &route.pointer)?;
                map.serialize_entry("nodes", &Each(route.nodes))
            }
            Object::DiagResponse(response) => response_fields(response, map),
            Object::DiagSelect(selected) => map.serialize_entry("selected", &Each(*selected)),
            Object::DClass(code_points) => map.serialize_entry("code_points", &Each(*code_points)),
            Object::PolicyData(policy) => {
                map.serialize_entry("options", &Each(policy.options))?;
                map.serialize_entry("elements", &Each(policy.elements))
            }
            Object::UnknownPolicyData(body) | Object::Unknown(body) => {
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
    match list.ids {
        RefreshIds::Messages(ids) => map.serialize_entry("ids", &Each(ids)),
        RefreshIds::Sources(items) => map.serialize_entry("sources", &Each(items)),
        RefreshIds::Multicast(items) => map.serialize_entry("multicast", &Each(items)),
    }
}

fn diagnostic_fields<M: SerializeMap>(
    diagnostic: &Diagnostic,
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("max_hops", &diagnostic.max_hops)?;
    map.serialize_entry("hop_count", &diagnostic.hop_count)?;
    map.serialize_entry("more_fragments", &diagnostic.more_fragments)?;
    map.serialize_entry("request_id", &diagnostic.request_id)?;
    map.serialize_entry("path_mtu", &diagnostic.path_mtu)?;
    map.serialize_entry("fragment_offset", &diagnostic.fragment_offset)?;
    map.serialize_entry("last_hop", &diagnostic.last_hop)?;
    map.serialize_entry("sender", &Filter(diagnostic.sender))?;
    map.serialize_entry("requester", &Filter(diagnostic.requester))
}

fn response_fields<M: SerializeMap>(
    response: &DiagResponse<'_>,
    map: &mut M,
) -> Result<(), M::Error> {
    map.serialize_entry("arrival", &response.arrival)?;
    map.serialize_entry("incoming", &response.incoming)?;
    map.serialize_entry("outgoing", &response.outgoing)?;
    map.serialize_entry("previous_hop", &response.previous_hop)?;
    map.serialize_entry("ip_hops", &response.ip_hops)?;
    map.serialize_entry("merged", &response.merged)?;
    map.serialize_entry("error", &response.error)?;
    map.serialize_entry("refresh_multiple", &response.refresh_multiple)?;
    map.serialize_entry("refresh_s", &response.refresh_s)?;
    map.serialize_entry("objects", &NestedObjects(response.objects))
}

/// A FILTER_SPEC or SENDER_TEMPLATE within another object.
struct Filter(FilterSpec);

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Object::FilterSpec(self.0).fields(&mut map)?;
        map.end()
    }
}

/// Objects within another object. An object that cannot be decoded is shown as the text of its error.
struct NestedObjects<'a>(&'a [u8]);

impl Serialize for NestedObjects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Entry<'a> {
            Object(DecodedObject<'a>),
            Error(Text<ParseError>),
        }
        serializer.collect_seq(objects_in(self.0).map(|object| match object {
            Ok(object) => Entry::Object(object),
            Err(error) => Entry::Error(Text(error)),
        }))
    }
}

impl Serialize for PolicyOption<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (class, object) = match *self {
            PolicyOption::Filter(filter) => (ObjectClass::FilterSpec, Object::FilterSpec(filter)),
            PolicyOption::Scope(senders) => (ObjectClass::Scope, Object::Scope(senders)),
            PolicyOption::Hop(hop) => (ObjectClass::RsvpHop, Object::RsvpHop(hop)),
            PolicyOption::Integrity(integrity) => {
                (ObjectClass::Integrity, Object::Integrity(integrity))
            }
            PolicyOption::RefreshMs(ms) => (ObjectClass::TimeValues, Object::TimeValues(ms)),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("class", class.name())?;
        object.fields(&mut map)?;
        map.end()
    }
}

impl Serialize for PolicyElement<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let p_type = self.element_type();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("p_type", &p_type.code())?;
        map.serialize_entry("policy", p_type.name())?;
        match self {
            PolicyElement::Empty(_) => {}
            PolicyElement::Preemption(priority) => {
                map.serialize_entry("merge_strategy", &priority.merge_strategy)?;
                map.serialize_entry("error", &priority.error)?;
                map.serialize_entry("preemption", &priority.preemption)?;
                map.serialize_entry("defending", &priority.defending)?;
            }
            PolicyElement::Admission(priority) => {
                map.serialize_entry("merge_strategy", &priority.merge_strategy)?;
                map.serialize_entry("error", &priority.error)?;
                map.serialize_entry("priority", &priority.priority)?;
            }
            PolicyElement::User(attributes) | PolicyElement::Application(attributes) => {
                map.serialize_entry("attributes", &Each(*attributes))?;
            }
            PolicyElement::Resource(list) => map.serialize_entry("priorities", &Each(*list))?,
            PolicyElement::Unknown(_, body) => map.serialize_entry("body", &Hex(body))?,
        }
        map.end()
    }
}

/// Serialized with the value as text if readable, otherwise as octets.
impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("a_type", &self.a_type.code())?;
        map.serialize_entry("attribute", self.a_type.name())?;
        map.serialize_entry("sub_type", &self.sub_type)?;
        if let Some((error, text)) = self.policy_error() {
            map.serialize_entry("error", &error)?;
            map.serialize_entry("reason", iana::IdentityError::from_code(error).name())?;
            map.serialize_entry("detail", &Hex(text))?;
        } else if let Some(text) = self.ascii().filter(|text| !text.contains(char::is_control)) {
            map.serialize_entry("text", text)?;
        } else {
            map.serialize_entry("octets", &Hex(self.value))?;
        }
        map.end()
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

/// Fragment of one service in an ADSPEC; absent values are left out.
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

/// A number without loss in text formats; see [`exact`].
#[derive(Serialize)]
#[serde(transparent)]
struct Exact(#[serde(with = "exact")] f32);

struct Each<'a, T>(List<'a, T>);

impl<'a, T: Item<'a> + Serialize> Serialize for Each<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}
