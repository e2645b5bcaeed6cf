//! The `earmarkd` command as seen by users and scripts: output, its stream, and exit status.

use std::process::{Command, Output};

use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use serde_json::Value;

fn earmarkd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_earmarkd")).args(arguments).output().unwrap()
}

#[test]
fn a_configuration_is_checked_without_privileges() {
    let place = TemporaryDirectory::new("config");
    let example = earmarkd(&["config", "example"]);
    assert_eq!(status(&example), 0);
    let good = place.file("good.toml", &stdout(&example));
    let output = earmarkd(&["config", "check", "--elsewhere", &good]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));

    let here = "[[interface]]\nname = 'none9'\nbandwidth = '10Mbit'\n";
    let waits = place.file("waits.toml", here);
    let output = earmarkd(&["config", "check", &waits]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("warning: interface.name: there is no interface none9"));
    let fails = place.file("fails.toml", &format!("{here}[daemon]\nuser = 'nobody9'\n"));
    let output = earmarkd(&["config", "check", "--json", &fails]);
    assert_eq!(status(&output), 1);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["here"][1]["key"], "daemon.user", "{answer}");
    assert_eq!(answer["here"][1]["prevents_start"], true, "{answer}");
    assert!(stderr(&output).contains("would not start on this host"), "{}", stderr(&output));

    let bad = place.file("bad.toml", "[[interface]]\nname = 'eth0'\nbandwidth = '10MB'\n");
    let output = earmarkd(&["config", "check", &bad]);
    assert_eq!(status(&output), 1);
    let text = stderr(&output);
    assert!(text.contains("bad.toml:3: interface.bandwidth: the unit of a rate"), "{text}");
    let daemon = earmarkd(&["--config", &bad]);
    assert_eq!(status(&daemon), 1);
    assert!(stderr(&daemon).contains("bad.toml:3: interface.bandwidth"));
}

/// The drop-ins of a file are checked with it; a mistake has the name of the drop-in.
#[test]
fn drop_ins_are_checked_with_their_file() {
    let place = TemporaryDirectory::new("drop-ins");
    let interface = "[[interface]]\nname = 'none9'\nbandwidth = '10Mbit'\n";
    let main = place.file("r1.toml", interface);
    std::fs::create_dir(place.0.join("r1.toml.d")).unwrap();
    let drop_in = place.file("r1.toml.d/local.toml", "[node]\nname = 'r9'\n");
    let output = earmarkd(&["config", "check", "--elsewhere", &main]);
    assert!(stdout(&output).ends_with("is valid: node r9, 1 interfaces, 2 files\n"), "{output:?}");
    let output = earmarkd(&["config", "check", "--elsewhere", "--json", &main]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["files"], serde_json::json!([main, drop_in]));
    place.file("r1.toml.d/local.toml", &interface.replace("10Mbit", "10MB"));
    let output = earmarkd(&["config", "check", "--elsewhere", &main]);
    assert_eq!(status(&output), 1);
    let text = stderr(&output);
    assert!(text.contains("r1.toml.d/local.toml:3: interface.bandwidth: the unit"), "{text}");
}

/// Invalid files lead to status 1 and one error that names the file and the reason.
#[test]
fn invalid_files_are_named_with_reason() {
    let place = TemporaryDirectory::new("bad-files");
    let file = |name: &str, content: &str| place.file(name, content);
    let interface = "[[interface]]\nname = 'a'\nbandwidth = '1Mbit'\n";
    let directory = place.0.to_str().unwrap();
    let empty = &file("empty", "");
    let binary = place.0.join("binary").to_str().unwrap().to_owned();
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    let missing = &format!("{directory}/none/s");
    let twice = &file("twice", &interface.repeat(2));
    let nothing = &file("nothing", &interface.replace("1Mbit", "0bit"));
    let share = &file("share", &format!("{interface}reservable = '120%'\n"));
    let unknown = &file("unknown", &interface.replace("bandwidth", "bandwith"));
    let table: &[(&[&str], &str)] = &[
        (&["config", "check", missing], "No such file"),
        (&["config", "check", directory], "Is a directory"),
        (&["config", "check", &binary], "UTF-8"),
        (
            &["config", "check", twice],
            "twice:5: interface.name: a is configured already, in line 2",
        ),
        (&["config", "check", nothing], "the bandwidth is 0"),
        (&["config", "check", share], "share 120% is outside 0 to 100%"),
        (&["config", "check", unknown], "did you mean `bandwidth`?"),
        (&["--config", missing], "No such file"),
        (&["--config", unknown], "did you mean `bandwidth`?"),
        (&["replay", missing], "No such file"),
        (&["replay", directory], "Is a directory"),
        (&["replay", empty], "it is empty"),
    ];
    for (arguments, reason) in table {
        let output = earmarkd(arguments);
        let text = stderr(&output);
        assert_eq!(status(&output), 1, "{arguments:?}: {text}");
        assert!(text.starts_with("earmarkd: ") && text.contains(reason), "{arguments:?}: {text}");
        assert!(stdout(&output).is_empty(), "{arguments:?}");
        let named = arguments.iter().any(|argument| text.contains(argument));
        assert!(named, "{arguments:?}: the file is not named: {text}");

        let output = earmarkd(&[arguments, &["--json"][..]].concat());
        let error: Value = serde_json::from_str(&stderr(&output)).expect("errors are JSON too");
        assert!(error["error"]["code"].is_string(), "{error}");
    }
}

#[test]
fn invalid_recording_is_refused_with_line() {
    let place = TemporaryDirectory::new("replay");
    let none = place.file("none.jsonl", "{\"hello\":1}\n");
    let output = earmarkd(&["replay", &none]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("not a recording"), "{}", stderr(&output));
    let header = r#"{"earmark_recording":1,"node":{"name":"r1","seed":1,"rsvp":{}}}"#;
    let cut =
        place.file("cut.jsonl", &format!("{header}\n{{\"at\":5,\"what\":\"Expire\"}}\n{{\"at\":"));
    let output = earmarkd(&["replay", &cut]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("line 3"), "{}", stderr(&output));
}

/// The configuration of the package takes no interface in, and is the beginning of one that does.
#[test]
fn configuration_of_the_package_is_valid_before_and_after_its_first_change() {
    let place = TemporaryDirectory::new("package");
    let shipped = include_str!("../../../packaging/earmark.toml");
    let interfaces = |name: &str, text: &str| {
        let file = place.file(name, text);
        let output = earmarkd(&["config", "check", "--elsewhere", "--json", &file]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let answer: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        answer["interfaces"].as_u64()
    };
    assert_eq!(interfaces("shipped.toml", shipped), Some(0));
    let table = shipped.find("# [[interface]]").expect("the example of an interface");
    let (head, table) = shipped.split_at(table);
    let is_setting = |line: &str| line.starts_with("[[") || line.contains(" = ");
    let lines = table.lines().map(|line| line.trim_start_matches("# "));
    let settings: String =
        lines.filter(|line| is_setting(line)).map(|l| format!("{l}\n")).collect();
    assert!(settings.starts_with("[[interface]]\nname = "), "{settings}");
    assert_eq!(interfaces("adapted.toml", &format!("{head}{settings}")), Some(1));
}
