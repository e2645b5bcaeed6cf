//! One key file for all protocols: requests of applications are signed with it, and a reload changes the keys of all.

use std::path::Path;

use earmark_core::keys::Directions;
use earmark_node::{Input, NodeConfig};
use earmark_wire::{boomerang, icmp, rsvp, udp, yessir};
use earmarkd::config::Config;
use earmarkd::key_file::KeyFile;
use earmarkd::record::{ReplaySecrets, replay};
use jiff::Timestamp;

use super::host::Host;

const REQUESTS: [&str; 3] = [
    r#"{"reserve":{"to":"10.0.9.9:5001","rate_bps":2000000}}"#,
    r#"{"reserve":{"protocol":"boomerang","to":"10.0.9.9:5001","options":{"rates":[{"forward":2000000,"reverse":0}]}}}"#,
    r#"{"reserve":{"protocol":"yessir","from":"10.0.1.1:5000","to":"10.0.9.9:5000","rate_bps":8000,"options":{"class":46}}}"#,
];

const NOW: &str = "2027-01-11T00:00:00Z";

/// Keys of a year each, which overlap by a month.
fn keys(first: u64, start: [&str; 2]) -> KeyFile {
    let key = |id: u64, start: &str, end: &str| {
        format!(
            "[[key]]\nid = {id}\nalgorithm = \"hmac-sha-256\"\nsecret = \"secret number {id}\"\nuser = \"user-{id}\"\n\
             protocols = [\"rsvp\", \"boomerang\", \"yessir\"]\nstart = {start}\nend = {end}\n"
        )
    };
    let text = key(first, start[0], "2027-02-01T00:00:00Z")
        + &key(first + 1, start[1], "2028-01-01T00:00:00Z");
    KeyFile::parse(&text, Path::new("keys.toml")).expect("valid keys")
}

fn origin() -> Timestamp {
    NOW.parse().expect("a time")
}

fn config(file: &KeyFile) -> NodeConfig {
    let mut config = NodeConfig { name: "h1".into(), seed: 1, ..NodeConfig::default() };
    let secured = || [("eth0".to_owned(), Directions::Send)].into();
    config.rsvp.integrity.interfaces = secured();
    config.boomerang.credentials.interfaces = secured();
    config.yessir.auth.interfaces = secured();
    file.configure(origin(), &mut config);
    config
}

/// Returns the number of the key of each message that was sent since the last call, by protocol.
fn signers(host: &mut Host) -> Vec<(u8, u64)> {
    let sent = std::mem::take(&mut host.driver.kernel().sent);
    let signer = |(how, octets): &(earmark_core::Outgoing, Vec<u8>)| {
        let key = match how.protocol {
            46 => rsvp::Message::parse(octets).expect("RSVP").integrity?.key_id,
            1 => {
                let view = boomerang::View::parse(&octets[icmp::HEADER..]).expect("Boomerang");
                view.options().iter().find_map(|option| match option {
                    boomerang::OptionItem::UserId(id) => Some(u64::from(id.user[5] - b'0')),
                    _ => None,
                })?
            }
            _ => {
                let packet = udp::Packet::parse(octets).expect("UDP");
                let report = yessir::Report::parse(packet.payload).expect("a report");
                report.message?.0.auth?.key.into()
            }
        };
        Some((how.protocol, key))
    };
    sent.iter().map(|sent| signer(sent).expect("a signed message")).collect()
}

#[test]
fn requests_of_all_protocols_are_signed_and_keys_change_together() {
    let file = std::env::temp_dir().join(format!("earmark-signed-{}.jsonl", std::process::id()));
    let past = "2026-01-01T00:00:00Z";
    // Key 1 signs until the middle of its overlap with key 2, which is later than now; key 4 has passed that of key 3.
    let first = keys(1, [past, "2027-01-01T00:00:00Z"]);
    let second = keys(3, [past, past]);
    let mut host = Host::with(config(&first), Some(&file));
    let mut peer = host.connect();
    let mut expected = vec![(46, 1), (1, 1), (17, 1)];
    for reload in [false, true] {
        if reload {
            for command in second.commands(origin()) {
                host.driver.handle(host.now, Input::Command(command));
            }
            signers(&mut host);
            expected = vec![(46, 4), (1, 4), (17, 4)];
        }
        let mut found = Vec::new();
        for request in REQUESTS {
            let request = if reload { request.replace(":500", ":600") } else { request.to_owned() };
            let opened = host.ask(&mut peer, &request);
            assert!(opened["ok"].is_object(), "{opened}");
            found.extend(signers(&mut host));
        }
        found.sort_unstable_by_key(|(protocol, _)| {
            expected.iter().position(|(known, _)| known == protocol)
        });
        found.dedup();
        assert_eq!(found, expected);
    }
    drop(host);
    // The recording has no secret, and is replayed exactly with the key file beside it.
    let text = std::fs::read_to_string(&file).expect("a recording");
    assert!(!text.contains("secret number"));
    let effects = |keys: Option<&KeyFile>| {
        let mut effects = Vec::new();
        let secrets = ReplaySecrets { keys, ..ReplaySecrets::default() };
        replay(text.as_bytes(), secrets, &mut effects).expect("a recording");
        String::from_utf8(effects).expect("text").lines().count()
    };
    let (with, without) = (effects(Some(&first)), effects(None));
    assert!(without < with, "without secrets nothing leaves: {without} of {with}");
    std::fs::remove_file(&file).expect("an own file");
}

/// With a file that lacks a key, or has a mistake, nothing is applied: the error names what is wrong.
#[test]
fn invalid_file_is_refused_as_a_whole() {
    let place = earmark_testkit::command_line::TemporaryDirectory::new("invalid-keys");
    let key = "[[key]]\nid = 1\nalgorithm = \"hmac-sha-256\"\nsecret = \"eight octets\"\n";
    for (text, expected) in [
        (key.to_owned(), "eth0 has integrity for boomerang, but no key for it"),
        (
            format!("{key}protocols = [\"yessir\", \"boomerang\"]\nuser = \"a\"\n"),
            "integrity for rsvp",
        ),
        (format!("{key}protocols = [\"rsvp\"\n"), ""),
        (format!("{key}[[key]]\nid = 2\n"), "missing field `algorithm`"),
    ] {
        let path = place.file("keys.toml", &text);
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .expect("an own file");
        let config = format!(
            "[[interface]]\nname = \"eth0\"\nintegrity = \"both\"\n[integrity]\nkeys = {path:?}\n"
        );
        let config = Config::parse(&config, Path::new("r1.toml")).expect("valid settings");
        let error = KeyFile::of(&config).expect_err(&text).to_string();
        assert!(error.contains(expected) && !error.contains("eight"), "{error}");
    }
}
