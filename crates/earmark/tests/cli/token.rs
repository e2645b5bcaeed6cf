//! `earmark token`: keys, tokens, and the example of docs/policy.md.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Output};

use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use serde_json::{Value, json};

use super::{RESERVE, ScriptedDaemon, event, opened};

const ISSUE: &str = "token issue --key provider --name alice@example.org --to 10.0.2.2:5001/udp --rate 64kbit --valid 1h";

/// Runs `earmark` in a directory.
fn earmark_in(place: &TemporaryDirectory, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
    command.args(arguments.split_whitespace()).current_dir(&place.0).output().expect("it runs")
}

/// A directory with the keys of a provider, and a token in `alice.token`.
fn issued(name: &str) -> TemporaryDirectory {
    let place = TemporaryDirectory::new(name);
    assert_eq!(status(&earmark_in(&place, "token key provider")), 0);
    let token = stdout(&earmark_in(&place, ISSUE));
    std::fs::write(place.0.join("alice.token"), token).expect("an own directory");
    place
}

#[test]
fn keys_are_made_once_and_for_their_owner() {
    let place = TemporaryDirectory::new("token-keys");
    let made = earmark_in(&place, "token key provider --json");
    assert_eq!(status(&made), 0, "{}", stderr(&made));
    let mode = |name: &str| std::fs::metadata(place.0.join(name)).expect(name).mode() & 0o777;
    assert_eq!(mode("provider"), 0o600);
    let public = std::fs::read_to_string(place.0.join("provider.pub")).expect("a public key");
    assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"), "{public}");
    let secret = std::fs::read_to_string(place.0.join("provider")).expect("a private key");
    assert!(!stdout(&made).contains(secret.lines().nth(1).expect("a line")));
    let again = earmark_in(&place, "token key provider");
    assert_eq!(status(&again), 1);
    assert!(stderr(&again).contains("cannot make provider"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(place.0.join("provider")).expect("a key"), secret);
}

#[test]
fn token_says_what_was_issued() {
    let place = issued("token-claims");
    let shown = earmark_in(&place, "token show alice.token --key provider.pub --json");
    let shown: Value = serde_json::from_str(&stdout(&shown)).expect("JSON");
    let claims = &shown["claims"];
    assert_eq!(shown["verified"], json!(true));
    assert_eq!(
        (&claims["name"], &claims["issuer"]),
        (&json!("alice@example.org"), &json!("provider"))
    );
    assert_eq!((&claims["to"], &claims["rate_bps"]), (&json!("10.0.2.2:5001/udp"), &json!(64_000)));
    assert_eq!((&claims["from"], &claims["at"]), (&Value::Null, &Value::Null));
    let all = "--from 10.7.0.0/16 --at r1/eth1 --issuer other --starts-in 30d";
    let issued = earmark_in(&place, &format!("{ISSUE} {all} --json"));
    let issued: Value = serde_json::from_str(&stdout(&issued)).expect("JSON");
    let claims = &issued["claims"];
    assert_eq!((&claims["from"], &claims["at"]), (&json!("10.7.0.0/16"), &json!("r1/eth1")));
    assert_eq!(claims["issuer"], json!("other"));
    assert!(claims["not_before"].as_str() < claims["expires"].as_str(), "{claims}");
}

#[test]
fn unusable_files_are_refused() {
    let place = issued("token-refused");
    assert_eq!(status(&earmark_in(&place, "token key stranger")), 0);
    std::fs::write(place.0.join("text"), "no token").expect("an own directory");
    std::fs::write(place.0.join("octets"), "AAAA").expect("an own directory");
    std::fs::copy(place.0.join("provider"), place.0.join("open")).expect("an own directory");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.0.join("open"), open).expect("an own file");
    for (arguments, exit, message) in [
        ("token show absent", 1, "cannot read absent"),
        ("token show text", 1, "one line of letters"),
        ("token show octets", 1, "malformed token"),
        ("token show alice.token --key provider", 1, "belongs to the issuer only"),
        ("token show alice.token --key stranger.pub", 1, "is not signed with stranger.pub"),
        (&ISSUE.replace("provider", "open"), 1, "chmod 600 open"),
        (&ISSUE.replace("provider", "provider.pub"), 1, "other users can use provider.pub"),
        (&ISSUE.replace("10.0.2.2:5001/udp", "somewhere"), 2, "a destination looks like"),
        (&ISSUE.replace("1h", "0s"), 1, "a token must end after its start"),
        (&ISSUE.replace("alice@example.org", "\u{c4}lice"), 1, "printable ASCII"),
    ] {
        let refused = earmark_in(&place, arguments);
        assert_eq!(status(&refused), exit, "{arguments}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(message), "{arguments}: {}", stderr(&refused));
    }
}

#[test]
fn requests_present_the_token() {
    let place = issued("token-requests");
    let file = place.0.join("alice.token");
    let text = std::fs::read_to_string(&file).expect("a token");
    let file = file.to_str().expect("a name of letters");
    for protocol in ["rsvp", "nsis"] {
        let daemon = ScriptedDaemon::start("token-daemon", vec![vec![opened("receiver")]]);
        let listen = ["listen", "--on", "10.0.2.2:5001", "--protocol", protocol, "--token", file];
        let (_, requests) = daemon.run(&listen);
        let token = &requests[0]["listen"]["identity"]["token"];
        assert_eq!(*token, json!(text.trim()), "{protocol}: {requests:?}");
    }
    let daemon = ScriptedDaemon::start("token-absent", vec![]);
    let (refused, requests) = daemon.run(&["listen", "--on", "10.0.2.2:5001", "--token", "absent"]);
    assert_eq!((status(&refused), requests), (1, vec![]));
    assert!(stderr(&refused).contains("cannot read absent"), "{}", stderr(&refused));
}

/// The commands of the provider in docs/policy.md work as they stand.
#[test]
fn example_of_the_page_works() {
    let page = include_str!("../../../../docs/policy.md");
    let commands: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("provider$ ")).collect();
    assert_eq!(commands.len(), 3);
    let place = TemporaryDirectory::new("token-example");
    let program = env!("CARGO_BIN_EXE_earmark");
    for command in commands {
        let command = command.replacen("earmark", program, 1);
        let done = Command::new("sh").args(["-c", &command]).current_dir(&place.0).output();
        let done = done.expect("a shell");
        assert_eq!(status(&done), 0, "{command}: {}", stderr(&done));
    }
}

#[test]
fn refused_token_is_reported_with_the_reason_of_the_router() {
    let error =
        json!({ "node": "10.0.2.1", "flags": 0, "code": "PolicyControlFailure", "value": 3 });
    let reason = "token not yet valid: it starts at 2026-11-27T00:00:00Z";
    let refused = event("resv_error", &json!({ "error": error, "explanation": reason }));
    let released = json!({ "ok": { "applications": [7] } });
    let script = vec![vec![opened("receiver"), refused], vec![released]];
    let daemon = ScriptedDaemon::start("token-reason", script);
    let (output, _) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 3);
    let text = stdout(&output);
    assert!(text.contains(&format!("found by 10.0.2.1: {reason}\n")), "{text}");
}
