//! What is shown of a well-formed message is what its wire format serializes.

use earmark_testkit::messages::{
    boomerang, gist, natfw_nslp, packets, ping_nslp, qos_nslp, yessir,
};
use earmark_wire::boomerang::{OptionItem, Options, Reservation};
use earmark_wire::gist::{MAGIC_LEN, Mode, emit_magic};
use earmark_wire::qspec::Qspec;
use earmark_wire::{icmp, natfw_nslp as natfw, qos_nslp as qos, udp};
use proptest::prelude::*;
use serde::Serialize;

use super::*;

/// Returns the objects of a message as the wire format serializes them.
fn serialized(message: impl Serialize) -> Vec<(String, Value)> {
    // Numbers lose digits in the text of the line as they do here.
    let value = serde_json::to_value(message).expect("it can be serialized");
    let value: Value = serde_json::from_str(&value.to_string()).expect("it is JSON");
    let mut objects = Vec::new();
    for (name, value) in value.as_object().expect("a map").clone() {
        match value {
            Value::Object(_) => objects.push((name, value)),
            Value::Array(list) if list.first().is_some_and(Value::is_object) => {
                objects.extend(list.into_iter().map(|value| (name.clone(), value)));
            }
            _ => {}
        }
    }
    objects
}

/// Returns the line of a UDP packet or ping.
fn line(ip_protocol: u8, payload: &[u8]) -> Value {
    let (mut lines, summary) = json_lines(&pcap(101, &[ipv4_packet(ip_protocol, payload)]));
    let line = lines.pop().expect("it is recognized");
    assert_eq!(summary.malformed, 0, "{line:#}");
    let objects = line["objects"].as_array().expect("a list");
    assert!(objects.iter().all(|it| it.get("malformed").is_none()), "{line:#}");
    line
}

/// Whether a value is another one, or a map with at least its entries.
fn has(shown: &Value, expected: &Value) -> bool {
    match (shown, expected) {
        (Value::Object(shown), Value::Object(expected)) => {
            expected.iter().all(|(name, it)| shown.get(name).is_some_and(|shown| has(shown, it)))
        }
        (Value::Array(shown), Value::Array(expected)) => {
            shown.len() == expected.len() && shown.iter().zip(expected).all(|(a, b)| has(a, b))
        }
        _ => shown == expected,
    }
}

/// Asserts that each object is shown with at least these fields.
fn assert_shown(line: &Value, objects: &[(String, Value)]) {
    let shown = line["objects"].as_array().expect("a list");
    for (class, fields) in objects {
        let fields = fields.as_object().expect("a map");
        let class = fields.get("class").unwrap_or(&Value::Null).as_str().unwrap_or(class);
        let is_same = |it: &&Value| {
            it["class"] == class
                && fields.iter().all(|(name, value)| it.get(name).is_some_and(|it| has(it, value)))
        };
        assert!(shown.iter().any(|it| is_same(&it)), "{class} {fields:?} in {line:#}");
    }
}

/// Returns the line of a message of an application, in a message of GIST. Values of QSPEC and SESSION_AUTH may be malformed.
fn in_gist(nslpid: u16, data: &[u8]) -> Value {
    let (mut lines, _) = json_lines(&pcap(101, &[super::gist::data(nslpid, data)]));
    lines.pop().expect("it is recognized")
}

proptest! {
    #[test]
    fn gist_is_shown_as_serialized(kit in gist::kit()) {
        gist::with_message(&kit, |message, mode| {
            if mode == Mode::C {
                return;
            }
            // The data of these messages are no messages of an application.
            let message = earmark_wire::gist::Message { nslpid: 99, ..*message };
            let mut octets = vec![0; MAGIC_LEN + message.buffer_len()];
            message.emit(emit_magic(&mut octets).expect("it fits")).expect("it fits");
            let payload = packets::udp(earmark_wire::gist::iana::PORT, &octets);
            assert_shown(&line(udp::PROTOCOL, &payload), &serialized(message));
        });
    }

    #[test]
    fn qos_nslp_is_shown_as_serialized(owned in qos_nslp::owned()) {
        owned.with(|message| {
            let octets = qos_nslp::emit(message);
            let (mut expected, qspecs) = match message {
                qos::Message::Reserve(it) => (serialized(it), [it.qspec, None]),
                qos::Message::Query(it) => (serialized(it), [Some(it.qspec), it.second_qspec]),
                qos::Message::Response(it) => (serialized(it), [it.qspec, None]),
                qos::Message::Notify(it) => (serialized(it), [it.qspec, None]),
            };
            // Two objects of the message are one when it is serialized.
            expected.retain(|(class, _)| class != "SESSION-ID-LIST");
            let line = in_gist(1, &octets);
            assert_shown(&line, &expected);
            for qspec in qspecs.into_iter().flatten().filter_map(|it| Qspec::parse(it).ok()) {
                assert_shown(&line, &serialized(qspec));
            }
        });
    }

    #[test]
    fn natfw_nslp_is_shown_as_serialized(owned in natfw_nslp::owned()) {
        owned.with(|message| {
            let octets = natfw_nslp::emit(&message);
            let expected = match &message {
                natfw::Message::Create(it) => serialized(it),
                natfw::Message::External(it) => serialized(it),
                natfw::Message::Response(it) => serialized(it),
                natfw::Message::Notify(it) => serialized(it),
            };
            assert_shown(&in_gist(33, &octets), &expected);
        });
    }

    #[test]
    fn ping_nslp_is_shown_as_serialized(owned in ping_nslp::owned()) {
        let ping = owned.ping();
        let mut octets = vec![0; ping.buffer_len().next_multiple_of(4)];
        ping.emit(&mut octets).expect("it fits");
        let ping = serde_json::to_value(ping).expect("it can be serialized");
        assert_shown(&in_gist(32_704, &octets), &[("Ping NSLP".into(), ping)]);
    }

    #[test]
    fn yessir_is_shown_as_serialized(owned in yessir::message()) {
        let line = line(udp::PROTOCOL, &owned.packet(&[]));
        let mut expected = owned.with(|message| serialized(message));
        // Its fields are shown without the nesting of the serialized flowspec.
        expected.retain(|(class, _)| class != "FLOWSPEC_INTSERV");
        assert_shown(&line, &expected);
    }

    #[test]
    fn boomerang_is_shown_as_serialized(parts in boomerang::parts()) {
        let options = parts.options();
        let message = parts.message(&options);
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets).expect("it fits");
        let line = line(icmp::PROTOCOL_V4, &packets::echo(&octets));
        // An option with a token cannot be serialized in a message.
        let without = Reservation { options: Options::NONE, ..message };
        assert_shown(&line, &serialized(without));
        for option in &options {
            let expected = match option {
                OptionItem::Token(token) => json!({ "class": "TOKEN", "octets": token.len() }),
                option => serde_json::to_value(option).expect("it can be serialized"),
            };
            assert_shown(&line, &[(String::new(), expected)]);
        }
        let fields = serde_json::to_value(without).expect("it can be serialized");
        for name in ["transaction_id", "nack", "no_echo", "refresh_interval_s", "key"] {
            prop_assert_eq!(&line[name], &fields[name]);
        }
    }
}
