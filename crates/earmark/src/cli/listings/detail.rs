//! Everything that is known about a row, one member a line, with units as people write them.

use std::fmt::Write;

use earmark_core::Rate;
use earmark_core::amounts::show_octets;
use serde::Serialize;
use serde_json::Value;

use super::seconds;

/// Returns the members of a row, one a line. Members without a value are left out.
pub(super) fn detail(row: &impl Serialize) -> String {
    let mut text = String::new();
    // Our own rows always serialize.
    if let Ok(Value::Object(members)) = serde_json::to_value(row) {
        for (name, value) in &members {
            add(name, value, "", &mut text);
        }
    }
    text
}

/// Columns of the names.
const NAMES: usize = 20;

/// Returns a line with a member without members of its own.
pub(super) fn name_and_value(name: &str, value: &str) -> String {
    format!("{name:NAMES$} {value}\n")
}

/// Adds a member, and its own members below it.
fn add(name: &str, value: &Value, indent: &str, text: &mut String) {
    let (label, value) = match value {
        Value::Null => return,
        Value::Array(items) if items.is_empty() => return,
        Value::Object(members) => {
            let _ = writeln!(text, "{indent}{}", words(name));
            for (name, value) in members {
                add(name, value, &format!("{indent}  "), text);
            }
            return;
        }
        Value::Array(items) => {
            (words(name), items.iter().map(inline).collect::<Vec<_>>().join("; "))
        }
        leaf => with_unit(name, leaf),
    };
    let width = NAMES.saturating_sub(indent.len());
    let _ = writeln!(text, "{indent}{label:width$} {value}");
}

/// Returns the name and the value of a member whose name ends with its unit.
fn with_unit(name: &str, value: &Value) -> (String, String) {
    let shown = match (value.as_u64(), value.as_f64()) {
        (Some(bps), _) if name.ends_with("_bps") => Rate::from_bps(bps).to_string(),
        (Some(octets), _) if name.ends_with("octets") => show_octets(octets),
        (_, Some(span)) if name.ends_with("_s") => seconds(span),
        _ => inline(value),
    };
    let name = name.strip_suffix("_bps").or(name.strip_suffix("_s")).unwrap_or(name);
    (words(name.strip_suffix("_octets").unwrap_or(name)), shown)
}

/// Returns a value in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(is_true) => if *is_true { "yes" } else { "no" }.to_owned(),
        Value::Object(members) => {
            let known = members.iter().filter(|(_, value)| !value.is_null());
            let text = known.map(|(name, value)| {
                let (name, value) = with_unit(name, value);
                format!("{name} {value}")
            });
            text.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn detail_has_every_known_member_with_its_unit() {
        let row = json!({
            "protocol": "tickets", "destination": "10.0.2.2", "destination_port": 5_001, "rate_bps": 2_500_000,
            "burst_octets": 10_000, "expires_in_s": 3_725.2, "next_hop": null, "outgoing": ["eth1", "eth2"],
            "senders": [{ "address": "10.0.1.1", "port": 4_000 }], "here": false,
            "traffic": { "packets": 7, "octets": 12_345 }
        });
        let expected = "\
protocol             tickets
destination          10.0.2.2
destination port     5001
rate                 2.5 Mbit/s
burst                10.0 kB
expires in           1 h 2 min
outgoing             eth1; eth2
senders              address 10.0.1.1, port 4000
here                 no
traffic
  packets            7
  octets             12.3 kB
";
        assert_eq!(detail(&row), expected);
    }
}
