//! Damaged messages of every protocol: what is in front of the damage is shown unchanged, and a remark stands.

use std::sync::LazyLock;

use earmark_testkit::messages::samples::{Sample, samples};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Returns the line of a message in place of that of the sample, and whether it is malformed; `None` if nothing is recognized.
fn decoded(sample: &Sample, message: &[u8]) -> Option<(Value, bool)> {
    let packet = ipv4_packet(sample.ip_protocol, &sample.payload(message));
    let (mut lines, summary) = json_lines(&pcap(101, &[packet]));
    Some((lines.pop()?, summary.malformed == 1))
}

/// Returns the objects of the sample.
fn original(sample: &Sample) -> Vec<Value> {
    let (line, is_malformed) = decoded(sample, &sample.message).expect("it is valid");
    assert!(!is_malformed, "{}: {line}", sample.name);
    let objects = line["objects"].as_array().expect("a list").clone();
    assert_eq!(objects.len(), sample.ends.len(), "{}: {objects:#?}", sample.name);
    objects
}

/// Asserts that all objects that end at `damage` or before are among those of the line.
#[track_caller]
fn assert_shown(sample: &Sample, objects: &[Value], damage: usize, line: &Value) {
    let shown = line["objects"].as_array().expect("a list");
    for (object, end) in objects.iter().zip(&sample.ends) {
        // The header of a message in another one has its error, and that of QSPEC the remarks on its length.
        let is_shown = shown.iter().any(|it| {
            let mut it = it.clone();
            if it["error"].is_object() {
                it.as_object_mut().and_then(|it| it.shift_remove("error"));
            }
            if it["class"] == "QSPEC" {
                it.as_object_mut().and_then(|it| it.shift_remove("malformed"));
            }
            it == *object
        });
        assert!(*end > damage || is_shown, "{} at {damage}: {object} in {line:#}", sample.name);
    }
}

#[test]
fn truncated_message_is_shown_up_to_its_end() {
    for sample in samples() {
        let objects = original(&sample);
        for (end, message) in sample.truncated() {
            let Some((line, is_malformed)) = decoded(&sample, message) else {
                assert!(end < sample.recognized, "{} at {end}", sample.name);
                continue;
            };
            assert_shown(&sample, &objects, end, &line);
            if !sample.whole.contains(&end) {
                assert!(is_malformed, "{} at {end}: {line:#}", sample.name);
            }
        }
    }
}

/// Lengths and checksums around the message are those of the whole one, as in a capture of the first octets of each packet.
#[test]
fn captured_beginning_is_shown_up_to_its_end() {
    for sample in samples() {
        let objects = original(&sample);
        let packet = ipv4_packet(sample.ip_protocol, &sample.payload(&sample.message));
        let start = packet.len() - sample.message.len();
        for end in start + sample.recognized.max(8)..packet.len() {
            let (lines, summary) = json_lines(&pcap(101, &[packet[..end].to_vec()]));
            let [line] = &lines[..] else { panic!("{} at {}", sample.name, end - start) };
            assert_shown(&sample, &objects, end - start, line);
            assert_eq!((&line["error"]["kind"], summary.malformed), (&json!("ip_header"), 1));
        }
    }
}

#[test]
fn message_with_another_length_is_shown_up_to_it() {
    let values = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 20, 64, 128, 200, 255];
    for sample in samples() {
        let objects = original(&sample);
        for (at, message) in sample.other_lengths(&values) {
            let Some((line, is_malformed)) = decoded(&sample, &message) else {
                panic!("{} at {at} is not recognized", sample.name);
            };
            assert_shown(&sample, &objects, at, &line);
            // Another number of rates leaves octets to options, of which unknown ones are allowed.
            let objects = line["objects"].as_array().into_iter().flatten();
            let has_warning = objects.into_iter().any(|object| object.get("warnings").is_some());
            let is_malformed = is_malformed || sample.name.starts_with("Boomerang") && has_warning;
            assert!(is_malformed, "{} at {at} {}: {line:#}", sample.name, message[at]);
        }
    }
}

proptest! {
    /// The number of messages and the error of the strict parser do not depend on what is shown.
    #[test]
    fn any_damage_is_survived(
        sample in any::<Index>(),
        changes in proptest::collection::vec(any::<(Index, u8)>(), 1..6),
        end in proptest::option::of(any::<Index>()),
    ) {
        static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(samples);
        let sample = sample.get(&SAMPLES);
        let mut message = sample.message.clone();
        for (at, octet) in changes {
            *at.get_mut(&mut message) = octet;
        }
        if let Some(end) = end {
            message.truncate(end.index(message.len()));
        }
        let packet = ipv4_packet(sample.ip_protocol, &sample.payload(&message));
        let file = pcap(101, &[packet]);
        let mut text = Vec::new();
        let counts = decode(&file[..], &mut text, Format::Text).expect("the file is whole");
        let (lines, summary) = json_lines(&file);
        prop_assert_eq!(counts, summary);
        let text = String::from_utf8(text).expect("text");
        let is_marked = text.contains("malformed: ");
        prop_assert_eq!(summary.malformed == 1, is_marked, "{:?} {}", lines, text);
    }
}
