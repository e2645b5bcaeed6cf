//! Messages of the applications of GIST as JSON: QoS NSLP with its QSPEC, NATFW NSLP, and Ping NSLP. The message is added to
//! the objects of GIST, followed by its own objects in their order.

use earmark_wire::qos_nslp::iana::{AGGREGATION_LEVELS, NSLPID};
use earmark_wire::{natfw_nslp, ping_nslp};
use serde_json::{Value, json};

use super::list::{Element, elements};
use crate::fields::Fields;
use crate::objects::{self, hex};

mod natfw;
mod ping;
mod qos;
mod session_auth;

/// Length of the header of QoS NSLP and NATFW NSLP, octets.
const HEADER: usize = 4;

/// Adds the data of the application `nslpid`, with their error. Offsets count from the start of the data.
pub(super) fn show(nslpid: u16, data: &[u8], list: &mut Vec<Value>) {
    if (NSLPID..NSLPID + AGGREGATION_LEVELS).contains(&nslpid) {
        qos::show(data, list);
    } else if nslpid == natfw_nslp::iana::NSLPID {
        natfw::show(data, list);
    } else if nslpid == ping_nslp::iana::NSLPID {
        list.push(ping::show(data));
    } else {
        list.push(json!({ "class": "NSLP-Data", "octets": hex(data) }));
    }
}

/// Adds the header of a message, with the fields that `read` finds behind its type, and the error of the message; then its
/// objects. `title` is the name of the application, and `name` that of a message type.
fn show_message(
    data: &[u8],
    title: &str,
    name: fn(u8) -> Option<&'static str>,
    read: impl FnOnce(u8, &mut Fields<'_>),
    error: Option<Value>,
    mut show: impl FnMut(&Element<'_>, &mut Vec<Value>),
    list: &mut Vec<Value>,
) {
    let end = HEADER.min(data.len());
    let (header, rest) = data.split_at(end);
    let message_type = header.first().copied();
    let class = message_type.and_then(name).unwrap_or(title);
    let fields = Fields::new(format!("{title} header"), header, 0, HEADER);
    let mut head = objects::read(class, fields, |fields| {
        if let Some(message_type) = message_type {
            if class == title {
                fields.put("message_type", message_type);
            }
            fields.skip(1);
            read(message_type, fields);
        }
    });
    if let (Some(head), Some(error)) = (head.as_object_mut(), error) {
        head.insert("error".into(), error);
    }
    list.push(head);
    for element in elements(rest, HEADER) {
        show(&element, list);
    }
}

/// Returns the names of the flags that are set.
fn names(flags: &[(&'static str, bool)]) -> Vec<&'static str> {
    flags.iter().filter_map(|(name, is_set)| is_set.then_some(*name)).collect()
}
