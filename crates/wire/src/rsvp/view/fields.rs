//! Serialization of objects as flat maps (see [`super::DecodedObject`]).

use serde::Serialize;
use serde::ser::Serializer;

use super::{DecodedObject, Object, objects_in};
use crate::intserv::{Adspec, FlowSpec, GuaranteedTerms, Overrides, exact};
use crate::rsvp::*;
use crate::serialize::{Hex, Text};

serialize_as!(DecodedObject<'_>, |it| {
    #[derive(Serialize)]
    struct Flat<'a> {
        class_num: u8,
        c_type: u8,
        length: usize,
        offset: usize,
        class: &'static str,
        #[serde(flatten)]
        object: &'a Object<'a>,
    }
    Flat {
        class_num: it.raw.class_num(),
        c_type: it.raw.c_type(),
        length: it.raw.bytes.len(),
        offset: it.raw.offset,
        class: ObjectClass::from_code(it.raw.class_num()).name(),
        object: &it.object,
    }
});

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Object::Null => to.serialize_none(),
            Object::Session(session) => match session.dscp() {
                Some(dscp) => {
                    let Session { destination, flags, .. } = session;
                    map! { "destination": destination, "flags": flags, "dscp": dscp }.serialize(to)
                }
                None => session.serialize(to),
            },
            Object::GenericSession(session) | Object::SessionOfInterest(session) => {
                session.serialize(to)
            }
            Object::RsvpHop(hop) => hop.serialize(to),
            Object::TimeValues(refresh_ms) => map! { "refresh_ms": refresh_ms }.serialize(to),
            Object::ErrorSpec(error) => map! {
                "node": error.node,
                "flags": error.flags,
                "code": error.code.code(),
                "value": error.value,
                "text": error.code.name(),
            }
            .serialize(to),
            Object::Scope(senders) => map! { "senders": senders }.serialize(to),
            Object::Style(style) => map! { "style": style.name() }.serialize(to),
            Object::FlowSpec(flowspec) => flowspec_fields(flowspec).serialize(to),
            Object::FilterSpec(filter) | Object::SenderTemplate(filter) => {
                filter_fields(filter).serialize(to)
            }
            Object::SenderTspec(tspec) => tspec.serialize(to),
            Object::Adspec(adspec) => adspec_fields(adspec).serialize(to),
            Object::ResvConfirm(receiver) => map! { "receiver": receiver }.serialize(to),
            Object::Integrity(integrity) => integrity.serialize(to),
            Object::Challenge(challenge) => challenge.serialize(to),
            Object::Hello(hello) => map! {
                "kind": match hello.kind {
                    HelloKind::Request => "request",
                    HelloKind::Ack => "ack",
                },
                "source_instance": hello.source_instance,
                "destination_instance": hello.destination_instance,
            }
            .serialize(to),
            Object::RestartCap(restart_cap) => restart_cap.serialize(to),
            Object::Capability(Capability { flags }) => map! {
                "recovery_path_transmit": flags & Capability::RECOVERY_PATH_TRANSMIT != 0,
                "recovery_path_desired": flags & Capability::RECOVERY_PATH_DESIRED != 0,
                "recovery_path_srefresh": flags & Capability::RECOVERY_PATH_SREFRESH != 0,
            }
            .serialize(to),
            Object::MessageId(id) => id.serialize(to),
            Object::MessageIdAck(Acknowledgement { kind, epoch, id }) => map! {
                "kind": match kind {
                    AcknowledgementKind::Ack => "ack",
                    AcknowledgementKind::Nack => "nack",
                },
                "epoch": epoch,
                "id": id,
            }
            .serialize(to),
            Object::MessageIdList(RefreshList { epoch, ids }) => match ids {
                RefreshIds::Messages(ids) => map! { "epoch": epoch, "ids": ids }.serialize(to),
                RefreshIds::Sources(list) => map! { "epoch": epoch, "sources": list }.serialize(to),
                RefreshIds::Multicast(list) => {
                    map! { "epoch": epoch, "multicast": list }.serialize(to)
                }
            },
            Object::Diagnostic(diagnostic) => diagnostic_fields(diagnostic).serialize(to),
            Object::Route(Route { pointer, nodes }) => {
                map! { "pointer": pointer, "nodes": nodes }.serialize(to)
            }
            Object::DiagResponse(response) => response_fields(response).serialize(to),
            Object::DiagSelect(selected) => map! { "selected": selected }.serialize(to),
            Object::NotifyRequest(node) => map! { "node": node }.serialize(to),
            Object::DClass(code_points) => map! { "code_points": code_points }.serialize(to),
            Object::PolicyData(policy) => {
                map! { "options": policy.options, "elements": policy.elements }.serialize(to)
            }
            Object::UnknownPolicyData(body) | Object::Unknown(body) => {
                map! { "body": Hex(body) }.serialize(to)
            }
        }
    }
}

fn filter_fields(filter: &FilterSpec) -> impl Serialize {
    let port = matches!(filter.selector, SourceSelector::Port(_)).then(|| filter.port());
    map! {
        "source": filter.source,
        "port"?: port,
        "flow_label"?: filter.flow_label(),
        "spi"?: filter.spi(),
    }
}

fn diagnostic_fields(diagnostic: &Diagnostic) -> impl Serialize {
    map! {
        "max_hops": diagnostic.max_hops,
        "hop_count": diagnostic.hop_count,
        "more_fragments": diagnostic.more_fragments,
        "request_id": diagnostic.request_id,
        "path_mtu": diagnostic.path_mtu,
        "fragment_offset": diagnostic.fragment_offset,
        "last_hop": diagnostic.last_hop,
        "sender": filter_fields(&diagnostic.sender),
        "requester": filter_fields(&diagnostic.requester),
    }
}

fn response_fields(response: &DiagResponse<'_>) -> impl Serialize {
    map! {
        "arrival": response.arrival,
        "incoming": response.incoming,
        "outgoing": response.outgoing,
        "previous_hop": response.previous_hop,
        "ip_hops": response.ip_hops,
        "merged": response.merged,
        "error": response.error,
        "refresh_multiple": response.refresh_multiple,
        "refresh_s": response.refresh_s,
        "objects": NestedObjects(response.objects),
    }
}

/// Objects within another object. An object that cannot be decoded is shown as the text of its error.
struct NestedObjects<'a>(&'a [u8]);

impl Serialize for NestedObjects<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Entry<'a> {
            Object(DecodedObject<'a>),
            Error(Text<ParseError>),
        }
        to.collect_seq(objects_in(self.0).map(|object| match object {
            Ok(object) => Entry::Object(object),
            Err(error) => Entry::Error(Text(error)),
        }))
    }
}

serialize_as!(PolicyOption<'_>, |it| {
    #[derive(Serialize)]
    struct Flat<'a> {
        class: &'static str,
        #[serde(flatten)]
        object: Object<'a>,
    }
    let (class, object) = match *it {
        PolicyOption::Filter(filter) => (ObjectClass::FilterSpec, Object::FilterSpec(filter)),
        PolicyOption::Scope(senders) => (ObjectClass::Scope, Object::Scope(senders)),
        PolicyOption::Hop(hop) => (ObjectClass::RsvpHop, Object::RsvpHop(hop)),
        PolicyOption::Integrity(integrity) => {
            (ObjectClass::Integrity, Object::Integrity(integrity))
        }
        PolicyOption::RefreshMs(ms) => (ObjectClass::TimeValues, Object::TimeValues(ms)),
    };
    Flat { class: class.name(), object }
});

serialize_as!(PolicyElement<'_>, |it| {
    #[derive(Serialize)]
    struct Flat<V> {
        p_type: u16,
        policy: &'static str,
        #[serde(flatten)]
        value: V,
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Fields<'a> {
        Empty {},
        Preemption(PreemptionPriority),
        Admission(AdmissionPriority),
        Attributes { attributes: List<'a, Attribute<'a>> },
        Priorities { priorities: List<'a, ResourcePriority> },
        ReceiverProxy { control: u8, text: &'static str },
        Unknown { body: Hex<'a> },
    }
    let p_type = it.element_type();
    let value = match *it {
        PolicyElement::Empty(_) => Fields::Empty {},
        PolicyElement::Preemption(priority) => Fields::Preemption(priority),
        PolicyElement::Admission(priority) => Fields::Admission(priority),
        PolicyElement::User(attributes) | PolicyElement::Application(attributes) => {
            Fields::Attributes { attributes }
        }
        PolicyElement::Resource(priorities) => Fields::Priorities { priorities },
        PolicyElement::ReceiverProxy(control) => Fields::ReceiverProxy {
            control,
            text: iana::ReceiverProxyControl::from_code(control).name(),
        },
        PolicyElement::Unknown(_, body) => Fields::Unknown { body: Hex(body) },
    };
    Flat { p_type: p_type.code(), policy: p_type.name(), value }
});

// The value is text if it is readable, otherwise octets.
serialize_as!(Attribute<'_>, |it| {
    let error = it.policy_error();
    let text = it.ascii().filter(|text| error.is_none() && !text.contains(char::is_control));
    let is_other = error.is_none() && text.is_none();
    map! {
        "a_type": it.a_type.code(),
        "attribute": it.a_type.name(),
        "sub_type": it.sub_type,
        "error"?: error.map(|(error, _)| error),
        "reason"?: error.map(|(error, _)| iana::IdentityError::from_code(error).name()),
        "detail"?: error.map(|(_, text)| Hex(text)),
        "text"?: text,
        "octets"?: is_other.then_some(Hex(it.value)),
    }
});

fn flowspec_fields(flowspec: &FlowSpec) -> impl Serialize {
    let (service, rspec) = match flowspec {
        FlowSpec::ControlledLoad(_) => ("controlled-load", None),
        FlowSpec::Guaranteed(_, rspec) => ("guaranteed", Some(rspec)),
    };
    let bucket = flowspec.token_bucket();
    map! {
        "service": service,
        "rate": Exact(bucket.rate),
        "depth": Exact(bucket.depth),
        "peak": Exact(bucket.peak),
        "min_policed_unit": bucket.min_policed_unit,
        "max_packet_size": bucket.max_packet_size,
        "reserved_rate"?: rspec.map(|rspec| Exact(rspec.rate)),
        "slack_us"?: rspec.map(|rspec| rspec.slack_us),
    }
}

fn adspec_fields(adspec: &Adspec<'_>) -> impl Serialize {
    let general = &adspec.general;
    let guaranteed = adspec.guaranteed.map(|it| service(it.break_bit, it.terms, &it.overrides));
    let controlled_load =
        adspec.controlled_load.map(|it| service(it.break_bit, None, &it.overrides));
    map! {
        "break_bit": general.break_bit,
        "hops": general.hops,
        "bandwidth": Exact(general.bandwidth),
        "latency_us": general.latency_us,
        "mtu": general.mtu,
        "guaranteed"?: guaranteed,
        "controlled_load"?: controlled_load,
    }
}

/// Fragment of one service in an ADSPEC; absent values are left out.
fn service(
    break_bit: bool,
    terms: Option<GuaranteedTerms>,
    overrides: &Overrides<'_>,
) -> impl Serialize + use<> {
    map! {
        "break_bit": break_bit,
        "c_total"?: terms.map(|terms| terms.c_total),
        "d_total"?: terms.map(|terms| terms.d_total),
        "c_sum"?: terms.map(|terms| terms.c_sum),
        "d_sum"?: terms.map(|terms| terms.d_sum),
        "hops"?: overrides.hops,
        "latency_us"?: overrides.latency_us,
        "mtu"?: overrides.mtu,
        "bandwidth"?: overrides.bandwidth.map(Exact),
    }
}

/// A number without loss in text formats; see [`exact`].
#[derive(Serialize)]
#[serde(transparent)]
struct Exact(#[serde(with = "exact")] f32);

impl<'a, T: Item<'a> + Serialize> Serialize for List<'a, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(*self)
    }
}
