//! Messages of the applications of GIST as JSON: QoS NSLP with its QSPEC, and Ping NSLP. The message is added to the objects
//! of GIST, followed by its own objects.

use earmark_wire::ping_nslp::{self, Ping};
use earmark_wire::qos_nslp::iana::{AGGREGATION_LEVELS, NSLPID};
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, GenericFlags, InfoSpec, Message, MessageBinding, Rsn, Summary,
};
use earmark_wire::qspec::iana::ParameterId;
use earmark_wire::qspec::{Parameter, QosObject, Qspec, Value as ParameterValue};
use serde_json::{Map, Value, json};

use super::gist::hexadecimal;

/// Adds the data of the application `nslpid`, or their error. Offsets count from the start of the data.
pub(super) fn show(nslpid: u16, data: &[u8], objects: &mut Vec<Value>) {
    if (NSLPID..NSLPID + AGGREGATION_LEVELS).contains(&nslpid) {
        show_qos(data, objects);
    } else if nslpid == ping_nslp::iana::NSLPID {
        objects.push(show_ping(data));
    } else {
        objects.push(json!({ "class": "NSLP-Data", "octets": hexadecimal(data) }));
    }
}

/// An object that could not be parsed.
fn malformed(class: &str, kind: &str, offset: usize, text: &str) -> Value {
    json!({ "class": class, "error": { "kind": kind, "offset": offset, "text": text } })
}

fn show_qos(data: &[u8], objects: &mut Vec<Value>) {
    match Message::parse(data) {
        Ok(message) => show_message(&message, objects),
        Err(error) => {
            let text = error.to_string();
            objects.push(malformed("QoS NSLP", error.kind.name(), error.offset, &text));
        }
    }
}

fn show_message(message: &Message<'_>, objects: &mut Vec<Value>) {
    match message {
        Message::Reserve(reserve) => {
            let mut head = head("RESERVE", reserve.flags);
            head.insert("tear".into(), reserve.tear.into());
            head.insert("replace".into(), reserve.replace.into());
            objects.push(head.into());
            objects.push(rsn(reserve.rsn));
            objects.extend(reserve.rii.map(rii));
            let period = |ms| json!({ "class": "REFRESH-PERIOD", "ms": ms });
            objects.extend(reserve.refresh_period.map(period));
            bound(reserve.bound, objects);
            objects.extend(reserve.summary.iter().map(summary));
            objects.extend(reserve.binding.iter().map(binding));
            objects.extend(reserve.info.iter().map(info_spec));
            let classifier = |fields| json!({ "class": "PACKET-CLASSIFIER", "fields": fields });
            objects.extend(reserve.classifier.map(|it| classifier(it.0)));
            objects.extend(reserve.qspec.into_iter().flat_map(qspec));
        }
        Message::Query(query) => {
            let mut head = head("QUERY", query.flags);
            head.insert("reserve_init".into(), query.reserve_init.into());
            objects.push(head.into());
            objects.extend(query.rii.map(rii));
            bound(query.bound, objects);
            objects.extend(query.info.iter().map(info_spec));
            objects.extend(qspec(query.qspec));
            objects.extend(query.second_qspec.into_iter().flat_map(qspec));
        }
        Message::Response(response) => {
            objects.push(head("RESPONSE", response.flags).into());
            objects.extend(response.answers.map(|answers| match answers {
                Answers::Rii(number) => rii(number),
                Answers::Rsn(number) => rsn(number),
            }));
            objects.push(info_spec(&response.info));
            objects.extend(response.summary.iter().map(summary));
            objects.extend(response.qspec.into_iter().flat_map(qspec));
        }
        Message::Notify(notify) => {
            objects.push(head("NOTIFY", notify.flags).into());
            objects.push(info_spec(&notify.info));
            objects.extend(notify.qspec.into_iter().flat_map(qspec));
        }
    }
}

/// The name of a message and its flags.
fn head(class: &str, flags: GenericFlags) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("class".into(), class.into());
    let GenericFlags { scoping, proxy, ack_req, breaks } = flags;
    let set = [("scoping", scoping), ("proxy", proxy), ("ack_req", ack_req), ("break", breaks)];
    let set: Vec<&str> = set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    head.insert("flags".into(), set.into());
    head
}

fn rii(number: u32) -> Value {
    json!({ "class": "RII", "number": number })
}

fn rsn(rsn: Rsn) -> Value {
    json!({ "class": "RSN", "number": rsn.number, "epoch": rsn.epoch })
}

fn bound(bound: BoundSessions<'_>, objects: &mut Vec<Value>) {
    objects.extend(bound.iter().map(|bound| {
        let (session, binding) = (bound.session.to_string(), bound.binding.name());
        json!({ "class": "BOUND-SESSION-ID", "session": session, "binding": binding })
    }));
}

fn summary(summary: &Summary<'_>) -> Value {
    let sessions: Vec<String> = summary.ids().map(|session| session.to_string()).collect();
    let rsns: Option<Vec<u32>> = summary.rsns.map(|list| list.numbers().collect());
    let epoch = summary.rsns.map(|list| list.epoch);
    json!({ "class": "SESSION-ID-LIST", "sessions": sessions, "rsns": rsns, "epoch": epoch })
}

fn binding(binding: &MessageBinding) -> Value {
    let (class, id) = match binding {
        MessageBinding::Id(id) => ("MSG-ID", id),
        MessageBinding::Bound(id) => ("BOUND-MSG-ID", id),
    };
    json!({ "class": class, "id": hexadecimal(&id.id), "bidirectional": id.bidirectional })
}

fn info_spec(info: &InfoSpec<'_>) -> Value {
    json!({
        "class": "INFO-SPEC",
        "severity": info.outcome.class().name(),
        "outcome": info.outcome.name(),
        "code": info.outcome.code(),
        "source": info.source.map(|source| format!("{source:?}")),
    })
}

/// The objects of a QSPEC with their parameters.
fn qspec(octets: &[u8]) -> Vec<Value> {
    let qspec = match Qspec::parse(octets) {
        Ok(qspec) => qspec,
        Err(error) => {
            return vec![malformed("QSPEC", error.kind.name(), error.offset, &error.to_string())];
        }
    };
    let mut objects = vec![json!({
        "class": "QSPEC",
        "model": qspec.qspec_type.name(),
        "local": qspec.is_local,
        "procedure": qspec.procedure.sequence.name(),
        "combination": qspec.procedure.combination,
    })];
    let places = [
        ("QoS Desired", qspec.desired),
        ("QoS Available", qspec.available),
        ("QoS Reserved", qspec.reserved),
        ("Minimum QoS", qspec.minimum),
    ];
    objects.extend(places.into_iter().filter_map(|(class, object)| Some(qos(class, &object?))));
    objects.extend(qspec.initiator.into_iter().flat_map(self::qspec));
    objects
}

fn qos(class: &str, object: &QosObject<'_>) -> Value {
    let mut shown = Map::new();
    shown.insert("class".into(), class.into());
    if object.is_failed {
        shown.insert("failed".into(), true.into());
    }
    shown.extend(object.parameters.iter().map(|it| (name(&it), parameter(&it))));
    shown.into()
}

fn name(parameter: &Parameter<'_>) -> String {
    match parameter.value.id() {
        ParameterId::Unknown(id) => format!("parameter {id}"),
        id => id.name().to_owned(),
    }
}

/// The value of a parameter, in a list with its flags.
fn parameter(parameter: &Parameter<'_>) -> Value {
    let value = match parameter.value {
        ParameterValue::Tmod1(bucket) | ParameterValue::Tmod2(bucket) => json!(bucket),
        ParameterValue::PathLatency(number) | ParameterValue::SlackTerm(number) => json!(number),
        ParameterValue::PathJitter(jitter) => json!(jitter),
        ParameterValue::PathPlr(ratio) | ParameterValue::PathPer(ratio) => json!(ratio.get()),
        ParameterValue::PreemptionPriority(priority) => json!(priority),
        ParameterValue::AdmissionPriority(priority) => {
            json!({ "y2171": priority.y2171.name(), "local": priority.local })
        }
        ParameterValue::RphPriority(priority) => json!(priority),
        ParameterValue::ExcessTreatment(treatment) => {
            json!({ "excess": treatment.excess.name(), "remark": treatment.remark })
        }
        ParameterValue::PhbClass(field) => json!(field.0),
        ParameterValue::DsteClassType(class) | ParameterValue::Y1541QosClass(class) => json!(class),
        ParameterValue::Unknown { octets, .. } => json!(hexadecimal(octets)),
    };
    let flags = [("failed", parameter.is_failed), ("not supported", parameter.is_not_supported)];
    let mut shown = vec![value];
    shown.extend(flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| flag.into()));
    if shown.len() == 1 { shown.swap_remove(0) } else { shown.into() }
}

fn show_ping(data: &[u8]) -> Value {
    let ping = match Ping::parse(data) {
        Ok(ping) => ping,
        Err(error) => {
            return malformed("Ping NSLP", error.kind.name(), error.offset, &error.to_string());
        }
    };
    let record = |record: ping_nslp::Record<'_>| {
        let time = record.time().map(|time| format!("{}.{:06}", time.seconds, time.microseconds));
        json!({ "address": record.address(), "time": time, "available_bps": record.available() })
    };
    json!({
        "class": "Ping NSLP",
        "version": match ping.version {
            ping_nslp::Version::V1 => 1,
            ping_nslp::Version::V2 => 2,
        },
        "hops": ping.hops,
        "sequence": ping.sequence,
        "records": ping.records().map(record).collect::<Vec<_>>(),
    })
}
