//! Damaged messages of every protocol in tshark: our dissectors, and its own for RSVP, show the fields in front of the damage,
//! and mark the message.
//!
//! Without tshark the tests are listed as ignored.

mod tshark;

use std::collections::BTreeSet;
use std::process::ExitCode;

use earmark_testkit::messages::samples::{self, Sample};
use earmark_wire::rsvp::objects;
use earmark_wire::{icmp, udp};
use libtest_mimic::Failed;
use tshark::Field;

fn main() -> ExitCode {
    tshark::run(&[
        ("tshark_shows_damaged_boomerang", || check("boomerang", &samples::boomerang())),
        ("tshark_shows_damaged_yessir", || check("yessir", &samples::yessir())),
        ("tshark_shows_damaged_nsis", || check("nsis", &samples::gist())),
        ("tshark_shows_damaged_rsvp_with_same_classes", rsvp),
    ])
}

/// Length of the IP header with router alert, octets.
const IP: usize = 24;

/// Length of the headers in front of a message, octets.
fn headers(sample: &Sample) -> usize {
    IP + match sample.ip_protocol {
        icmp::PROTOCOL_V4 => icmp::HEADER,
        udp::PROTOCOL => udp::HEADER,
        _ => 0,
    }
}

/// A damaged message, and the first octet that is not as it was.
struct Damaged<'a> {
    sample: &'a Sample,
    at: usize,
    message: Vec<u8>,
}

/// Returns the samples cut off behind each octet, and with other lengths.
fn damaged(samples: &[Sample]) -> Vec<Damaged<'_>> {
    let mut all = Vec::new();
    for sample in samples {
        let cut = sample.truncated().map(|(at, message)| (at, message.to_vec()));
        // All of the word with a length counts as damaged.
        let changed = sample.other_lengths(&[0, 1, 3, 255]).into_iter();
        let changed = changed.map(|(at, message)| (at - at % 4, message));
        all.extend(cut.chain(changed).map(|(at, message)| Damaged { sample, at, message }));
    }
    all
}

/// Fields of our dissectors that are in front of an octet of the message, except those that cover what was damaged.
fn in_front<'a>(fields: &'a [Field], prefixes: &[&str], end: usize) -> BTreeSet<&'a Field> {
    let is_ours = |field: &&Field| prefixes.iter().any(|it| field.name.starts_with(it));
    fields.iter().filter(is_ours).filter(|field| field.at + field.size <= end).collect()
}

/// Checks the dissector of this name with all damage to the samples.
fn check(dissector: &str, samples: &[Sample]) -> Result<(), Failed> {
    let prefixes: &[&str] = match dissector {
        "boomerang" => &["boomerang."],
        "yessir" => &["yessir."],
        _ => &["gist.", "qosnslp.", "qspec.", "natfwnslp.", "pingnslp."],
    };
    let packets = |messages: &mut dyn Iterator<Item = (&Sample, &[u8])>| {
        messages.map(|(sample, message)| (sample.ip_protocol, sample.payload(message))).collect()
    };
    let whole: Vec<_> = packets(&mut samples.iter().map(|it| (it, &it.message[..])));
    let whole = tshark::fields(dissector, &format!("{dissector}-whole"), &whole);
    let damaged = damaged(samples);
    let changed: Vec<_> = packets(&mut damaged.iter().map(|it| (it.sample, &it.message[..])));
    let shown = tshark::fields(dissector, &format!("{dissector}-damaged"), &changed);
    assert_eq!((whole.len(), shown.len()), (samples.len(), damaged.len()));
    let is_fault = |field: &Field| {
        let faults = ["malformed", "short", "unknown", "bad_version"];
        prefixes.iter().any(|it| faults.iter().any(|fault| field.name == format!("{it}{fault}")))
    };
    for (fields, sample) in whole.iter().zip(samples) {
        let fault = fields.iter().find(|field| is_fault(field));
        assert!(fault.is_none(), "{}: {fault:?}", sample.name);
    }
    for (damaged, shown) in damaged.iter().zip(&shown) {
        let Damaged { sample, at, message } = damaged;
        let number =
            samples.iter().position(|it| it.name == sample.name).expect("it is one of them");
        // Wireshark shows fewer than eight octets of a ping to no dissector.
        let recognized = if dissector == "boomerang" { 8 } else { sample.recognized };
        if message.len() < recognized {
            continue;
        }
        let expected = in_front(&whole[number], prefixes, headers(sample) + at);
        let found: BTreeSet<_> = shown.iter().collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        let name = &sample.name;
        assert!(missing.is_empty(), "{name} at {at}, {} octets: {missing:#?}", message.len());
        if !sample.whole.contains(&message.len()) {
            let is_marked = shown.iter().any(is_fault);
            let shown = in_front(shown, prefixes, usize::MAX);
            assert!(is_marked, "{name} at {at}, {} octets: {shown:#?}", message.len());
        }
    }
    Ok(())
}

/// Each object in front of the damage has its class for tshark where it has it for us; behind it, tshark may guess.
fn rsvp() -> Result<(), Failed> {
    let samples = samples::rsvp();
    let damaged = damaged(&samples);
    let payloads: Vec<_> =
        damaged.iter().map(|it| (it.sample.ip_protocol, it.sample.payload(&it.message))).collect();
    // Any script will do: the dissector of RSVP is tshark's own.
    let shown = tshark::fields("yessir", "rsvp-damaged", &payloads);
    assert_eq!(shown.len(), damaged.len());
    for (Damaged { sample, at, message }, shown) in damaged.iter().zip(&shown) {
        if message.len() < sample.message.len() && message.len() < 8 {
            continue;
        }
        let ours: Vec<_> = objects(message)
            .map_while(Result::ok)
            .map(|it| (it.raw.offset, it.raw.bytes.len(), it.raw.class_num()))
            .filter(|(offset, length, _)| offset + length <= *at)
            .collect();
        let in_front = sample.ends.iter().filter(|end| *end <= at).count();
        assert_eq!(ours.len(), in_front, "{} at {at}", sample.name);
        for (offset, _, class_num) in ours {
            let is_same =
                |field: &&Field| field.name == "rsvp.object" && field.at == IP + offset + 2;
            let theirs = shown.iter().find(is_same).map(|field| field.show.clone());
            // A wrong length of the message keeps tshark from the objects.
            if let Some(theirs) = theirs {
                assert_eq!(theirs, class_num.to_string(), "{} at {at}", sample.name);
            } else {
                assert!(*at < 8 || message.len() < sample.message.len(), "{} at {at}", sample.name);
            }
        }
    }
    Ok(())
}
