//! Recordings contain no secret, and are replayed exactly with the secrets beside them.

use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use earmark_core::SecretSeed;
use earmark_node::NodeConfig;
use earmark_testkit::command_line::TemporaryDirectory;
use earmarkd::record::{
    ReplaySecrets, Replayed, read_secrets, replay, secrets_path, write_secrets,
};

use crate::SEND;
use crate::host::Host;

const SEED: u64 = 0x1234_5678_9abc_def1;

fn effects(file: &Path, seed: SecretSeed) -> (Replayed, String) {
    let mut effects = Vec::new();
    let recording = BufReader::new(std::fs::File::open(file).unwrap());
    let secrets = ReplaySecrets { keys: None, seed };
    let replayed = replay(recording, secrets, &mut effects).unwrap();
    (replayed, String::from_utf8(effects).unwrap())
}

#[test]
fn recording_has_no_secret_seed_and_is_replayed_exactly_with_it() {
    let place = TemporaryDirectory::new("recording");
    let file = place.0.join("inputs.jsonl");
    let config = NodeConfig {
        name: "h1".into(),
        seed: 1,
        secret_seed: SecretSeed::Known(SEED),
        ..NodeConfig::default()
    };
    write_secrets(&file, &config).unwrap();
    let mut host = Host::with(config, Some(&file));
    let mut peer = host.connect();
    // The identifiers in the messages of NSIS and Boomerang derive from the secret seed.
    for protocol in ["rsvp", "boomerang", "nsis"] {
        let named = format!(r#""protocol":"{protocol}","to""#);
        let answer = host.ask(&mut peer, &SEND.replace(r#""to""#, &named));
        assert!(answer["ok"]["application"].is_u64(), "{protocol}: {answer}");
    }
    let sent: Vec<Vec<u8>> =
        host.driver.kernel().sent.drain(..).map(|(_, message)| message).collect();
    assert!(sent.len() >= 3);
    drop(host);

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&SEED.to_string()) && text.contains("\"secret_seed\":\"redacted\""));
    for path in [&file, &secrets_path(&file)] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
    }
    let hex = |octets: &[u8]| octets.iter().map(|o| format!("{o:02x}")).collect::<String>();
    let is_exact = |effects: &str| sent.iter().all(|message| effects.contains(&hex(message)));
    let seed = read_secrets(std::fs::File::open(secrets_path(&file)).unwrap()).unwrap();
    let (replayed, with) = effects(&file, seed);
    assert!(replayed.has_seed && is_exact(&with), "{with}");
    let (replayed, without) = effects(&file, SecretSeed::None);
    assert!(!replayed.has_seed && !is_exact(&without), "{without}");
}

#[test]
fn malformed_secrets_are_refused() {
    for (text, reason) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (r#"{"earmark_recording_secrets":9,"seed":1}"#, "unsupported version 9"),
        (r#"{"earmark_recording_secrets":1,"seed":-1}"#, "invalid value"),
        (r#"{"earmark_recording_secrets":1,"seed":1,"more":2}"#, "unknown field"),
    ] {
        let error = read_secrets(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}
