//! Key files: what is read, what is refused, and that no error quotes a secret.

use std::os::unix::fs::PermissionsExt;

use super::*;

const KEYS: &str = r#"
[[key]]
id = 1
algorithm = "hmac-sha-256"
secret = "correct horse battery"
start = 2027-01-01T00:00:00Z
end = 2027-02-01T01:00:00+01:00

[[key]]
id = 2
algorithm = "hmac-md5"
secret_hex = "00FF10203040506070"
purpose = "accept"
interfaces = ["eth1"]
neighbors = ["10.0.1.2", "fe80::1"]
"#;

fn read(text: &str) -> Result<KeyFile, ConfigError> {
    KeyFile::parse(text, Path::new("keys.toml"))
}

#[test]
fn keys_are_parsed() {
    let origin: Timestamp = "2027-01-11T00:00:00Z".parse().unwrap();
    let file = read(KEYS).unwrap();
    let [first, second] = &file.keys[..] else { panic!("{file:?}") };
    assert_eq!(
        (first.id, first.algorithm, &first.protocols[..]),
        (1, Algorithm::HmacSha256, &["rsvp"][..])
    );
    assert_eq!(first.secret, Secret::new(b"correct horse battery".to_vec()));
    assert_eq!(first.start(origin), Time::ZERO, "it has begun already");
    assert_eq!(first.age(origin), Duration::from_secs(10 * 86_400));
    assert_eq!(first.end(origin), Time::from_secs(21 * 86_400));
    assert_eq!(second.secret, Secret::new(vec![0, 255, 16, 32, 48, 64, 80, 96, 112]));
    assert_eq!((second.purpose, second.end(origin)), (Directions::Accept, Time::MAX));
    assert_eq!(second.neighbors.len(), 2);
    let earlier: Timestamp = "2026-12-31T00:00:00Z".parse().unwrap();
    assert_eq!(first.start(earlier), Time::from_secs(86_400));
    assert_eq!(first.age(earlier), Duration::ZERO);
}

/// Each error names its line and key, and none quotes the secret.
#[test]
fn invalid_keys_are_refused_without_quoting_secrets() {
    let one = "[[key]]\nid = 1\nalgorithm = \"hmac-md5\"\nsecret = \"hidden-from-view\"\n";
    let sha = one.replace("md5", "sha-256");
    let cases = [
        ("[[key]]\nid = 1\n".into(), "missing field `algorithm`", 1),
        ("[key]\n".into(), "expected a sequence", 1),
        (one.replace("md5", "md4"), "unknown variant `hmac-md4`", 3),
        (one.replace("id = 1", "id = 281474976710656"), "48 bits", 2),
        (one.replace("id = 1", "id = -1"), "invalid value", 2),
        (one.replace("\"hidden-from-view\"", "\"short\""), "at least 8 octets", 2),
        (one.replace("\"hidden-from-view\"", "1234567890"), "malformed secret", 4),
        (one.replace("\"hidden-from-view\"", "hidden-from-view"), "malformed secret", 4),
        (one.replace("secret =", "secret_hex ="), "at least 8 octets", 2),
        (format!("{one}secret_hex = \"0011223344556677\"\n"), "at least 8 octets", 2),
        (format!("{one}secrets = \"hidden-from-view\"\n"), "malformed secret", 5),
        (format!("{one}start = 2027-01-01\n"), "invalid time", 5),
        (format!("{one}start = \"tomorrow\"\n"), "invalid", 5),
        (
            format!("{one}start = 2027-01-01T00:00:00Z\nend = 2027-01-01T00:00:00Z\n"),
            "end is before start",
            6,
        ),
        (format!("{one}neighbors = [\"r2\"]\n"), "invalid IP address", 5),
        (format!("{one}purpose = \"none\"\n"), "unknown variant", 5),
        (format!("{one}{one}"), "line 2 has it", 6),
        (format!("{one}protocols = [\"nsis\"]\n"), "no keys for protocol \"nsis\"", 5),
        (format!("{one}protocols = [\"rsvp\", \"all\"]\n"), "no keys for protocol \"all\"", 5),
        (format!("{one}user = \"alice\"\n"), "no protocol of the key has users", 2),
        (format!("{one}protocols = [\"yessir\"]\n"), "another digest", 2),
        (format!("{one}protocols = [\"boomerang\"]\nuser = \"a\"\n"), "another digest", 2),
        (format!("{sha}protocols = [\"boomerang\"]\n"), "needs a user", 2),
        (format!("{sha}protocols = [\"boomerang\"]\nuser = \"\"\n"), "needs a user", 2),
        (format!("{sha}protocols = [\"boomerang\"]\nuser = \"ninechars\"\n"), "needs a user", 2),
        (
            format!("{sha}protocols = [\"rsvp\", \"yessir\"]\nneighbors = [\"10.0.0.1\"]\n"),
            "knows no neighbors",
            2,
        ),
        (
            format!("{sha}protocols = [\"yessir\"]\n").replace("id = 1", "id = 4294967296"),
            "32 bits",
            2,
        ),
    ];
    for (text, message, line) in cases {
        let error = read(&text).expect_err(&text);
        assert!(error.message.contains(message), "{text}\n{error}");
        assert_eq!(error.place.line, line, "{text}\n{error}");
        for secret in ["hidden", "1234567890"] {
            assert!(!format!("{error} {error:?}").contains(secret), "{error}");
        }
    }
    let shown = format!("{:?}", read(KEYS).unwrap());
    assert!(!shown.contains("correct") && shown.contains("Secret(..)"), "{shown}");
}

/// One number may serve different protocols with different secrets.
#[test]
fn each_protocol_has_its_keys() {
    let key = |id: u64, rest: &str| {
        format!(
            "[[key]]\nid = {id}\nalgorithm = \"hmac-sha-256\"\nsecret = \"eight octets\"\n{rest}\n"
        )
    };
    let all = "protocols = [\"rsvp\", \"boomerang\", \"yessir\"]\nuser = \"alice\"";
    let text = key(1, "protocols = [\"yessir\"]") + &key(1, "") + &key(2, all);
    let file = read(&text).unwrap();
    let ids = |protocol| file.keys_of(protocol).map(|key| key.id).collect::<Vec<_>>();
    assert_eq!(
        ["rsvp", "boomerang", "yessir", "nsis"].map(ids),
        [vec![1, 2], vec![2], vec![1, 2], vec![]]
    );
    let twice = key(1, "protocols = [\"yessir\"]") + &key(1, "protocols = [\"rsvp\", \"yessir\"]");
    assert!(read(&twice).unwrap_err().message.contains("duplicate key 1"));
}

/// An interface that is secured for a protocol needs keys of it, for each direction.
#[test]
fn secured_interface_without_key_is_refused() {
    let key = |id: u64, rest: &str| {
        format!(
            "[[key]]\nid = {id}\nalgorithm = \"hmac-sha-256\"\nsecret = \"eight octets\"\n{rest}\n"
        )
    };
    let yessir = |rest: &str| key(1, &format!("protocols = [\"yessir\"]\n{rest}"));
    let user = |id, name: &str, rest: &str| {
        key(id, &format!("protocols = [\"boomerang\"]\nuser = \"{name}\"\n{rest}"))
    };
    let only = |protocols: &str| format!("protocols = [{protocols}]\nintegrity = \"both\"");
    let (accept, send) = ("purpose = \"accept\"", "purpose = \"send\"");
    let cases: [(String, String, Option<&str>); 14] = [
        (only("\"rsvp\""), key(1, ""), None),
        (only("\"rsvp\""), String::new(), Some("integrity for rsvp, but no key")),
        (only("\"rsvp\", \"yessir\""), key(1, ""), Some("integrity for yessir, but no key")),
        (only("\"rsvp\", \"nsis\""), key(1, ""), None),
        ("integrity = \"both\"".into(), key(1, ""), Some("integrity for boomerang, but no key")),
        ("integrity = { rsvp = \"both\" }".into(), key(1, ""), None),
        ("integrity = { yessir = \"both\" }".into(), yessir(accept), Some("for yessir")),
        ("integrity = { yessir = \"both\" }".into(), yessir(send), Some("for yessir")),
        ("integrity = { yessir = \"accept\" }".into(), yessir(accept), None),
        (
            "integrity = { yessir = \"send\" }".into(),
            yessir("interfaces = [\"eth9\"]"),
            Some("for yessir"),
        ),
        ("integrity = { yessir = \"send\" }".into(), yessir("interfaces = [\"eth0\"]"), None),
        (
            "integrity = { boomerang = \"both\" }".into(),
            user(1, "alice", "") + &user(2, "bob", ""),
            Some("with keys of alice and of bob"),
        ),
        (
            "integrity = { boomerang = \"both\" }".into(),
            user(1, "alice", "") + &user(2, "bob", accept) + &user(3, "alice", ""),
            None,
        ),
        (
            "integrity = { boomerang = \"accept\" }".into(),
            user(1, "alice", "") + &user(2, "bob", ""),
            None,
        ),
    ];
    for (interface, keys, expected) in cases {
        let text =
            format!("[[interface]]\nname = \"eth0\"\n{interface}\n[integrity]\nkeys = \"k\"\n");
        let config = Config::parse(&text, Path::new("r1.toml")).expect(&text);
        let checked = read(&keys).expect(&keys).check(&config);
        let message = checked.as_ref().map_err(|error| error.message.as_str());
        match expected {
            None => assert_eq!(message, Ok(&()), "{text}\n{keys}"),
            Some(expected) => {
                let message = message.expect_err(&text);
                assert!(message.contains(expected), "{text}\n{message}");
                assert_eq!(checked.unwrap_err().place.line, 2);
            }
        }
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let path = std::env::temp_dir().join(format!("earmark-keys-{}", std::process::id()));
    std::fs::write(&path, KEYS).unwrap();
    let mut found = Vec::new();
    for mode in [0o644, 0o640, 0o602, 0o600, 0o400] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        found.push(KeyFile::load(&path).map(|keys| keys.count()).map_err(|error| error.message));
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(found[3..], [Ok(2), Ok(2)]);
    for (refused, mode) in found.iter().zip(["644", "640", "602"]) {
        let message = refused.clone().unwrap_err();
        assert!(message.contains(mode), "{message}");
    }
    assert!(KeyFile::load(&path).unwrap_err().message.contains("cannot read"));
}
