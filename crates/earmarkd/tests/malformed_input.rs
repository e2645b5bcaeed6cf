//! Malformed input of users and files: settings, keys, requests, recordings and captures are read, or refused with their place,
//! without a panic.

#[path = "control/host.rs"]
#[allow(dead_code)] // this test uses a part of its functions only
mod host;
#[path = "malformed_input/valid_samples.rs"]
mod valid_samples;

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use earmark_core::{Datagram, InterfaceId};
use earmark_decode::{Format, decode};
use earmark_node::Input;
use earmark_testkit::damage::{ODD, damage, damaged};
use earmarkd::config::{Config, ConfigError, EXAMPLE};
use earmarkd::key_file::KeyFile;
use earmarkd::record::{ReplayError, ReplaySecrets, replay};
use host::Host;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

const KEYS: &str = r#"
[[key]]
id = 1
algorithm = "hmac-sha-256"
secret = "hidden-from-view"
start = 2027-01-01T00:00:00Z
end = 2027-02-01T01:00:00+01:00

[[key]]
id = 2
algorithm = "hmac-md5"
secret_hex = "00ff102030405060"
purpose = "accept"
interfaces = ["eth0"]
neighbors = ["10.0.1.2", "2001:db8::2"]
"#;

/// The example with everything in it that is commented out: a key there is one word before an equals sign.
fn every_key() -> String {
    let uncommented = EXAMPLE.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with('[') => rest,
        Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest,
        _ => line,
    });
    // A text that is no file includes none.
    let settings =
        uncommented.filter(|line| !line.starts_with('#') && !line.starts_with("include"));
    settings.collect::<Vec<_>>().join("\n")
}

/// Parses settings; an error must be at a line of the text and have a message and a hint.
fn settings_are_handled(text: &str) {
    let place = |error: &ConfigError| {
        assert!(error.place.line <= text.lines().count() + 1, "{error}\n{text}");
        assert!(!error.message.is_empty() && !error.hint.is_empty(), "{error}\n{text}");
    };
    let _ = Config::parse(text, Path::new("r1.toml")).map_err(|error| place(&error));
    let _ = KeyFile::parse(text, Path::new("keys.toml")).map_err(|error| {
        place(&error);
        assert!(!format!("{error} {error:?}").contains("hidden-from-view"), "{error}");
    });
}

#[test]
fn truncated_settings_are_handled() {
    let settings = every_key();
    assert!(Config::parse(&settings, Path::new("r1.toml")).is_ok());
    for end in (0..settings.len()).filter(|end| end % 19 == 0 && settings.is_char_boundary(*end)) {
        settings_are_handled(&settings[..end]);
    }
    for end in 0..KEYS.len() {
        settings_are_handled(&KEYS[..end]);
    }
}

/// Every value of the settings is replaced by several odd ones in turn.
#[test]
fn settings_with_odd_values_are_handled() {
    let settings = every_key();
    let lines: Vec<&str> = settings.lines().collect();
    let mut odd = ODD.iter().cycle();
    for (number, line) in lines.iter().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        for odd in odd.by_ref().take(2) {
            let line = format!("{key} = {odd}");
            let mut changed = lines.clone();
            changed[number] = &line;
            settings_are_handled(&changed.join("\n"));
        }
    }
}

/// Values that are possible in JSON, but invalid in a request.
fn odd_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(0),
        json!(-1),
        json!(1),
        json!(255),
        json!(65_535),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(true),
        json!([]),
        json!({}),
        json!(""),
        json!("0.0.0.0:0"),
        json!("[::]:0"),
        json!("255.255.255.255:65535"),
        json!("239.1.2.3:5001"),
        json!("127.0.0.1:1"),
        json!("é".repeat(3_000)),
        json!({ "secs": u64::MAX, "nanos": 999_999_999 }),
    ]
}

/// Collects the JSON pointers of all values that contain no others.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                leaves(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                leaves(value, &format!("{at}/{number}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Advances the time over the next few deadlines.
fn expire(host: &mut Host, deadlines: usize) {
    for _ in 0..deadlines {
        let Some(at) = host.driver.next_deadline() else { return };
        host.now = host.now.max(at);
        host.driver.expire(host.now);
    }
}

/// Every request is answered with each of its values replaced by odd ones in turn, without harm.
#[test]
fn requests_with_odd_values_are_answered() {
    for request in valid_samples::requests() {
        let mut places = Vec::new();
        leaves(&request, "", &mut places);
        for place in places {
            let mut host = Host::new();
            for odd in odd_values() {
                let mut peer = host.connect();
                let mut changed = request.clone();
                *changed.pointer_mut(&place).expect("it was found there") = odd;
                peer.say(format!("{changed}\n").as_bytes());
                host.serve(&peer);
                let lines = peer.lines();
                let answers = lines.iter().filter(|line| line.get("event").is_none()).count();
                assert_eq!(answers, 1, "{changed}: {lines:?}");
            }
            expire(&mut host, 8);
        }
    }
}

/// A recording of all requests and of messages of all protocols, as lines.
fn recording() -> Vec<String> {
    // Other tests create recordings at the same time.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir()
        .join(format!("earmark-malformed-{}-{number}.jsonl", std::process::id()));
    let mut host = Host::recorded(Some(&file));
    let mut peer = host.connect();
    for request in valid_samples::requests() {
        peer.say(format!("{request}\n").as_bytes());
        host.serve(&peer);
    }
    for (protocol, payload) in valid_samples::messages() {
        let datagram = Datagram {
            interface: InterfaceId(2),
            source: valid_samples::NEIGHBOR.into(),
            destination: valid_samples::HERE.into(),
            ttl: 63,
            router_alert: true,
            encapsulated: false,
            payload: &payload,
        };
        host.driver.handle(host.now, Input::Datagram(protocol, datagram));
    }
    for event in valid_samples::stream_events() {
        host.driver.handle(host.now, Input::Stream(event.replay()));
    }
    expire(&mut host, 12);
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it was written");
    text.lines().map(str::to_owned).collect()
}

/// Replays a recording; an error must be at one of its lines.
fn replayed(lines: &[String]) {
    let text = lines.join("\n");
    let mut effects = Vec::new();
    match replay(text.as_bytes(), ReplaySecrets::default(), &mut effects) {
        Ok(replayed) => assert!(replayed.inputs < lines.len().max(1)),
        Err(ReplayError::Line { line, .. }) => assert!((2..=lines.len() + 1).contains(&line)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Numbers of a recording are replaced by the largest and the smallest ones, in settings as well as in inputs. Settings with a
/// time of zero are left out, because the recorded daemon could not have them.
#[test]
fn recordings_with_odd_numbers_are_replayed_or_refused() {
    let lines = recording();
    replayed(&lines);
    let odd = [json!(0), json!(u64::MAX), json!(1), json!(u32::MAX)];
    let mut odd = odd.iter().cycle();
    for number in 0..lines.len() {
        let line: Value = serde_json::from_str(&lines[number]).expect("it was recorded");
        let mut places = Vec::new();
        leaves(&line, "", &mut places);
        // Testing all of them would take long.
        for place in places.into_iter().skip(number % 3).step_by(3) {
            let mut changed = line.clone();
            let value = changed.pointer_mut(&place).expect("it was found there");
            if !value.is_number() {
                continue;
            }
            *value = match number == 0 && place.ends_with("secs") {
                true => json!(u64::MAX),
                false => odd.next().expect("without end").clone(),
            };
            let mut lines = lines.clone();
            lines[number] = changed.to_string();
            replayed(&lines);
        }
    }
}

/// A time span of ages is refused at its line.
#[test]
fn excessive_time_span_is_refused() {
    let mut lines = recording();
    let mut header: Value = serde_json::from_str(&lines[0]).expect("it was recorded");
    header["node"]["nsis"]["qos"]["refresh"]["secs"] = json!(u64::MAX);
    lines[0] = header.to_string();
    let error = replay(lines.join("\n").as_bytes(), ReplaySecrets::default(), &mut Vec::new())
        .expect_err("ages");
    assert!(
        matches!(&error, ReplayError::NoRecording(text) if text.contains("too long")),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn damaged_settings_are_handled(damage in vec(damage(), 1..4)) {
        settings_are_handled(&damaged(&every_key(), &damage));
        settings_are_handled(&damaged(KEYS, &damage));
    }

    #[test]
    fn any_text_is_handled(text: String, octets in vec(any::<u8>(), 0..200)) {
        settings_are_handled(&text);
        settings_are_handled(&String::from_utf8_lossy(&octets));
        replayed(&[text]);
        for format in [Format::Text, Format::Json] {
            let _ = decode(&octets[..], &mut Vec::new(), format);
        }
    }

    /// Lines change places, are repeated or left out, and have octets changed.
    #[test]
    fn damaged_recordings_are_replayed_or_refused(
        changes in vec((0..4_u8, any::<Index>(), any::<Index>(), any::<u8>()), 1..4),
    ) {
        static RECORDING: LazyLock<Vec<String>> = LazyLock::new(recording);
        let mut lines = RECORDING.clone();
        for (how, one, other, octet) in changes {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            match how {
                0 => lines.swap(one, other),
                1 => lines.insert(one, lines[other].clone()),
                2 => drop(lines.remove(one)),
                _ => {
                    let mut octets = lines[one].clone().into_bytes();
                    let at = other % octets.len().max(1);
                    if let Some(changed) = octets.get_mut(at) {
                        *changed = octet;
                    }
                    lines[one] = String::from_utf8_lossy(&octets).into_owned();
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        replayed(&lines);
    }

    /// Captures of both formats have some octets changed and the end cut off.
    #[test]
    fn damaged_captures_are_read_or_refused(
        next_generation: bool,
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
        end in proptest::option::of(any::<Index>()),
    ) {
        let mut file = if next_generation { valid_samples::pcapng() } else { valid_samples::pcap() };
        prop_assert!(decode(&file[..], &mut Vec::new(), Format::Text).is_ok_and(|it| it.messages > 3));
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        if let Some(end) = end {
            file.truncate(end.index(file.len()));
        }
        for format in [Format::Text, Format::Json] {
            if let Err(error) = decode(&file[..], &mut Vec::new(), format) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// Every octet of a capture, including lengths, is replaced by the largest one.
#[test]
fn wrong_lengths_in_captures_are_handled() {
    for mut file in [valid_samples::pcap(), valid_samples::pcapng()] {
        // Headers and the first packets.
        for at in 0..file.len().min(300) {
            let octet = std::mem::replace(&mut file[at], 0xff);
            let _ = decode(&file[..], &mut Vec::new(), Format::Json);
            file[at] = octet;
        }
    }
}
