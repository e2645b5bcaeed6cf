//! Fields that tshark must show for a message, by tshark's names, each with all its values.

use std::collections::BTreeMap;

use earmark_wire::rsvp::*;

use earmark_testkit::messages::rsvp::{Parts, octets};

/// Values by field name.
pub(crate) type Fields = BTreeMap<&'static str, Vec<String>>;

/// Returns the fields of a message, with the expected values.
pub(crate) fn expected_fields(parts: &Parts) -> Fields {
    let wire = octets(&parts.message());
    let raw: Vec<_> = objects(&wire).filter_map(Result::ok).map(|object| object.raw).collect();
    let each = |field: &dyn Fn(&RawObject<'_>) -> usize| -> Vec<String> {
        raw.iter().map(|object| field(object).to_string()).collect()
    };
    let mut fields = BTreeMap::from([
        ("rsvp.msg", one(parts.kind.code().into())),
        ("rsvp.sending_ttl", one(parts.send_ttl.into())),
        ("rsvp.message_length", vec![wire.len().to_string()]),
        ("rsvp.object", each(&|object| object.class_num().into())),
        ("rsvp.ctype", each(&|object| object.c_type().into())),
        ("rsvp.length", each(&|object| object.bytes.len())),
    ]);
    let classes: Vec<u8> = raw.iter().map(RawObject::class_num).collect();
    expect_hop_by_hop(parts, &classes, &mut fields);
    expect_flows(parts, &classes, &mut fields);
    expect_traffic(&classes, &mut fields);
    fields
}

/// Adds the fields about the hop, and about the whole message.
fn expect_hop_by_hop(parts: &Parts, classes: &[u8], fields: &mut Fields) {
    let ipv6 = parts.session.destination.is_ipv6();
    if classes.contains(&3) {
        fields.insert("rsvp.hop.logical_interface", one(parts.hop.lih));
        let field = match ipv6 {
            true => "rsvp.neighbor_address_ipv6",
            false => "rsvp.hop.neighbor_address_ipv4",
        };
        fields.insert(field, vec![parts.hop.address.to_string()]);
    }
    if classes.contains(&5) {
        fields.insert("rsvp.refresh_interval", one(parts.refresh_ms));
    }
    if classes.contains(&6) {
        fields.insert("rsvp.error.error_code", one(parts.error.code.code().into()));
        let field = match ipv6 {
            true => "rsvp.error.error_node_ipv6",
            false => "rsvp.error.error_node_ipv4",
        };
        fields.insert(field, vec![parts.error.node.to_string()]);
    }
    if classes.contains(&8) {
        let style = match parts.style {
            Style::Wildcard => "0x000011",
            Style::FixedFilter => "0x00000a",
            Style::SharedExplicit => "0x000012",
        };
        fields.insert("rsvp.style.style", vec![style.into()]);
    }
}

/// Adds the fields about session and senders.
fn expect_flows(parts: &Parts, classes: &[u8], fields: &mut Fields) {
    let ipv6 = parts.session.destination.is_ipv6();
    let [destination, source, port] = match ipv6 {
        true => [
            "rsvp.session.destination_address",
            "rsvp.template_filter.source_address_ipv6",
            "rsvp.template_filter.source_port",
        ],
        false => ["rsvp.session.ip", "rsvp.sender.ip", "rsvp.sender.port"],
    };
    fields.insert(destination, vec![parts.session.destination.to_string()]);
    if !ipv6 {
        fields.insert("rsvp.session.proto", one(parts.session.protocol.into()));
        fields.insert("rsvp.session.port", one(parts.session.port.into()));
    }
    let flows = if parts.style == Style::FixedFilter { parts.fixed.len() } else { 2 };
    let senders = match (classes.contains(&10), classes.contains(&11)) {
        (true, _) => &parts.filters[..flows],
        (_, true) => &parts.filters[..1],
        _ => &[],
    };
    if !senders.is_empty() {
        fields.insert(source, senders.iter().map(|filter| filter.source.to_string()).collect());
        let ports = (5000..).take(senders.len()).map(|port: u16| port.to_string());
        fields.insert(port, ports.collect());
    }
}

/// Adds the fields about offered and requested traffic.
fn expect_traffic(classes: &[u8], fields: &mut Fields) {
    if classes.contains(&12) {
        fields.insert("rsvp.tspec.token_bucket_rate", vec!["250000".into()]);
        fields.insert("rsvp.tspec.token_bucket_size", vec!["3000".into()]);
        fields.insert("rsvp.tspec.peak_data_rate", vec!["1.25e+06".into()]);
    }
    if classes.contains(&9) {
        let flowspecs = classes.iter().filter(|&&class| class == 9).count();
        fields.insert("rsvp.flowspec.token_bucket_rate", vec!["250000".into(); flowspecs]);
        fields.insert("rsvp.flowspec.token_bucket_size", vec!["3000".into(); flowspecs]);
    }
    if classes.contains(&13) {
        // General parameters, and the four error terms, which are zero at the sender.
        let values = ["1", "50", "1500", "0", "0", "0", "0"].map(String::from);
        fields.insert("rsvp.adspec.uint", values.into());
        fields.insert("rsvp.adspec.float", vec!["1.25e+06".into()]);
        fields.insert("rsvp.adspec.break_bit", ["0", "1", "1"].map(String::from).into());
    }
}

fn one(number: u32) -> Vec<String> {
    vec![number.to_string()]
}

/// Returns the fields in the objects of an extension, with the expected values.
pub(crate) fn expected_extension_fields(message: &[u8]) -> Fields {
    let mut fields = Fields::new();
    let mut expect = |field, value: String| fields.entry(field).or_default().push(value);
    expect("rsvp.msg", message[1].to_string());
    expect("rsvp.message_length", message.len().to_string());
    for object in objects(message) {
        let object = object.expect("every object decodes");
        expect("rsvp.object", object.raw.class_num().to_string());
        expect("rsvp.length", object.raw.bytes.len().to_string());
        match object.object {
            Object::Integrity(integrity) => {
                let hex = |octets: &[u8]| {
                    octets.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().join(":")
                };
                expect("rsvp.integrity.key_identifier", hex(&integrity.key_id.to_be_bytes()[2..]));
                expect("rsvp.integrity.sequence_number", integrity.sequence.to_string());
                expect("rsvp.integrity.hash", hex(integrity.digest));
            }
            Object::MessageId(MessageId { flags, epoch, id }) => {
                expect("rsvp.message_id.flags", flags.to_string());
                expect("rsvp.message_id.epoch", epoch.to_string());
                expect("rsvp.message_id.message_id", id.to_string());
            }
            Object::MessageIdAck(Acknowledgement { epoch, id, .. }) => {
                expect("rsvp.message_id_ack.epoch", epoch.to_string());
                expect("rsvp.message_id_ack.message_id", id.to_string());
            }
            Object::MessageIdList(RefreshList { epoch, ids: RefreshIds::Messages(ids) }) => {
                expect("rsvp.message_id_list.epoch", epoch.to_string());
                for id in ids {
                    expect("rsvp.message_id_list.message_id", id.to_string());
                }
            }
            Object::Hello(hello) => {
                expect("rsvp.hello.source_instance", format!("0x{:08x}", hello.source_instance));
                expect(
                    "rsvp.hello.destination_instance",
                    format!("0x{:08x}", hello.destination_instance),
                );
            }
            _ => {}
        }
    }
    fields
}
