//! Messages of the applications of GIST as JSON: QoS NSLP with its QSPEC, NATFW NSLP, and Ping NSLP. The message is added to
//! the objects of GIST, followed by its own objects.

use std::fmt::Display;

use earmark_wire::natfw_nslp;
use earmark_wire::ping_nslp::{self, Ping};
use earmark_wire::qos_nslp::Message;
use earmark_wire::qos_nslp::iana::{AGGREGATION_LEVELS, NSLPID};
use earmark_wire::qspec::Qspec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::objects;

/// Adds the data of the application `nslpid`, or their error. Offsets count from the start of the data.
pub(super) fn show(nslpid: u16, data: &[u8], objects: &mut Vec<Value>) {
    if (NSLPID..NSLPID + AGGREGATION_LEVELS).contains(&nslpid) {
        show_qos(data, objects);
    } else if nslpid == natfw_nslp::iana::NSLPID {
        show_natfw(data, objects);
    } else if nslpid == ping_nslp::iana::NSLPID {
        objects.push(match Ping::parse(data) {
            Ok(ping) => objects::object("Ping NSLP", ping),
            Err(error) => malformed("Ping NSLP", error.kind.name(), error.offset, &error),
        });
    } else {
        let octets: String = data.iter().map(|octet| format!("{octet:02x}")).collect();
        objects.push(json!({ "class": "NSLP-Data", "octets": octets }));
    }
}

/// An object that could not be parsed.
fn malformed(class: &str, kind: &str, offset: usize, text: &impl Display) -> Value {
    json!({ "class": class, "error": objects::error(kind, offset, text) })
}

fn show_qos(data: &[u8], objects: &mut Vec<Value>) {
    let message = match Message::parse(data) {
        Ok(message) => message,
        Err(error) => {
            objects.push(malformed("QoS NSLP", error.kind.name(), error.offset, &error));
            return;
        }
    };
    let name = message.message_type().name();
    let qspecs = match &message {
        Message::Reserve(reserve) => {
            add(name, reserve, objects);
            [reserve.qspec, None]
        }
        Message::Query(query) => {
            add(name, query, objects);
            [Some(query.qspec), query.second_qspec]
        }
        Message::Response(response) => {
            add(name, response, objects);
            [response.qspec, None]
        }
        Message::Notify(notify) => {
            add(name, notify, objects);
            [notify.qspec, None]
        }
    };
    for qspec in qspecs.into_iter().flatten() {
        show_qspec(qspec, objects);
    }
}

fn show_natfw(data: &[u8], objects: &mut Vec<Value>) {
    let message = match natfw_nslp::Message::parse(data) {
        Ok(message) => message,
        Err(error) => {
            objects.push(malformed("NATFW NSLP", error.kind.name(), error.offset, &error));
            return;
        }
    };
    let name = message.message_type().name();
    match &message {
        natfw_nslp::Message::Create(create) => add(name, create, objects),
        natfw_nslp::Message::External(external) => add(name, external, objects),
        natfw_nslp::Message::Response(response) => add(name, response, objects),
        natfw_nslp::Message::Notify(notify) => add(name, notify, objects),
    }
}

/// Adds a message as an object of its name with its flags and numbers, then its own objects.
fn add(class: &str, message: &impl Serialize, objects: &mut Vec<Value>) {
    let mut head = Map::new();
    let mut own = Vec::new();
    head.insert("class".into(), class.into());
    objects::add(message, &mut head, &mut own);
    objects.push(head.into());
    objects.append(&mut own);
}

/// Adds a QSPEC and its objects with their parameters.
fn show_qspec(octets: &[u8], objects: &mut Vec<Value>) {
    match Qspec::parse(octets) {
        Ok(qspec) => {
            add("QSPEC", &qspec, objects);
            if let Some(initiator) = qspec.initiator {
                show_qspec(initiator, objects);
            }
        }
        Err(error) => objects.push(malformed("QSPEC", error.kind.name(), error.offset, &error)),
    }
}
