//! QSPEC as JSON: a header, objects, and their parameters (RFC 5975 section 5).

use earmark_wire::nsis::WORD;
use earmark_wire::qspec::Qspec;
use earmark_wire::qspec::iana::{
    Excess, MessageSequence, ObjectType, ParameterId, QspecType, VERSION, Y2171Priority, flag,
};
use serde_json::{Map, Value};

use super::list::{Element, elements};
use crate::fields::{Fields, Remarks};
use crate::objects;

/// Length of the header, octets.
const HEADER: usize = 4;

/// Shows a QSPEC with its objects, and the Initiator QSPEC in it. Offsets count from the start of each QSPEC. `remarks` are
/// those on the object of QoS NSLP around it.
pub(super) fn show(octets: &[u8], mut remarks: Remarks, list: &mut Vec<Value>) {
    let mut rest = octets;
    loop {
        let Some(&[h0, h1, h2, h3]) = rest.first_chunk::<HEADER>() else {
            let mut fields = Fields::new("QSPEC header", rest, 0, HEADER);
            fields.append(remarks);
            return list.push(objects::read("QSPEC", fields, |_| {}));
        };
        let is_local = h0 & 0x08 != 0;
        let length = HEADER + WORD * usize::from(u16::from_be_bytes([h2, h3]) & 0x0fff);
        let (body, behind) = rest.split_at(length.min(rest.len()));
        let mut head = objects::object("QSPEC", Map::new());
        let mut put = |name: &str, value: Value| head.insert(name.into(), value);
        if h0 >> 4 != VERSION {
            put("version", (h0 >> 4).into());
        }
        put("model", QspecType::from_code((h0 & 0x07) << 2 | h1 >> 6).name().into());
        put("local", is_local.into());
        put("procedure", MessageSequence::from_code(h1 & 0xf).name().into());
        put("combination", (h2 >> 4).into());
        if let Err(error) = Qspec::parse(rest) {
            put("error", objects::error(error.kind.name(), error.offset, &error));
        }
        if length > rest.len() || !is_local && !behind.is_empty() {
            remarks.length("QSPEC", 0, length, rest.len());
        }
        if !is_local && !behind.is_empty() {
            put("rest", objects::hex(behind).into());
        }
        std::mem::take(&mut remarks).show(&mut head);
        list.push(head.into());
        list.extend(elements(body.get(HEADER..).unwrap_or_default(), HEADER).map(|it| object(&it)));
        if !is_local || behind.is_empty() {
            return;
        }
        rest = behind;
    }
}

/// An object with its parameters by name.
fn object(element: &Element<'_>) -> Value {
    let object_type = element.object_type.map(ObjectType::from_code);
    let known = object_type.filter(|it| !matches!(it, ObjectType::Unknown(_)));
    element.show(known.map(ObjectType::name), |fields| {
        if flags(element) & flag::OBJECT_ERROR != 0 {
            fields.put("failed", true);
        }
        for parameter in elements(fields.remaining(), element.offset + HEADER) {
            show_parameter(&parameter, fields);
        }
    })
}

fn flags(element: &Element<'_>) -> u8 {
    element.octets.first().copied().unwrap_or_default()
}

/// Shows a parameter as its value, in a list with its flags if any are set.
fn show_parameter(element: &Element<'_>, object: &mut Fields<'_>) {
    let name = match element.object_type.map(ParameterId::from_code) {
        Some(ParameterId::Unknown(id)) => format!("parameter {id}"),
        Some(id) => id.name().to_owned(),
        None => "parameter header".to_owned(),
    };
    let mut fields = element.fields(&name);
    if let Some(id) = element.object_type.map(ParameterId::from_code) {
        read_parameter(id, &mut fields);
    }
    let (mut shown, remarks) = fields.finish();
    object.append(remarks);
    // A value without further fields stands alone.
    let value = match (shown.len(), shown.remove("value")) {
        (1, Some(value)) => value,
        (_, Some(value)) => {
            shown.shift_insert(0, "value".into(), value);
            shown.into()
        }
        (_, None) => shown.into(),
    };
    // TMOD-1 has constant flags.
    let flags = match element.object_type.map(ParameterId::from_code) {
        Some(ParameterId::Tmod1) => flags(element) & !flag::NOT_SUPPORTED,
        _ => flags(element),
    };
    let mut list = vec![value];
    for (bit, name) in [(flag::ERROR, "failed"), (flag::NOT_SUPPORTED, "not supported")] {
        list.extend((flags & bit != 0).then(|| Value::from(name)));
    }
    let value = if list.len() == 1 { list.swap_remove(0) } else { list.into() };
    object.put_again(&name, value);
}

fn read_parameter(id: ParameterId, fields: &mut Fields<'_>) {
    match id {
        ParameterId::Tmod1 | ParameterId::Tmod2 => fields.token_bucket(),
        ParameterId::PathLatency | ParameterId::SlackTerm => fields.u32("value"),
        ParameterId::PathJitter => {
            fields.u32("variance");
            fields.u32("percentile");
            fields.u32("minimum_latency");
            fields.skip(4);
        }
        ParameterId::PathPlr | ParameterId::PathPer => {
            let ratio = fields.take().map(f32::from_be_bytes);
            fields.put_some("value", ratio);
        }
        ParameterId::PreemptionPriority => {
            fields.u16("preemption");
            fields.u16("defending");
        }
        ParameterId::AdmissionPriority => {
            let y2171 = fields.take().map(u8::from_be_bytes).map(Y2171Priority::from_code);
            fields.put_some("y2171", y2171.map(Y2171Priority::name));
            fields.u8("local");
            fields.skip(2);
        }
        ParameterId::RphPriority => {
            fields.u16("namespace");
            fields.u8("priority");
            fields.skip(1);
        }
        ParameterId::ExcessTreatment => {
            let excess = fields.take().map(u8::from_be_bytes).map(Excess::from_code);
            fields.put_some("excess", excess.map(Excess::name));
            let remark = fields.take().map(u8::from_be_bytes);
            fields.put_some("remark", remark.map(|remark| remark >> 2));
            fields.skip(2);
        }
        ParameterId::PhbClass => {
            fields.u16("value");
            fields.skip(2);
        }
        ParameterId::DsteClassType | ParameterId::Y1541QosClass => {
            fields.u8("value");
            fields.skip(3);
        }
        ParameterId::Unknown(_) => fields.hex("value", fields.left()),
    }
}
