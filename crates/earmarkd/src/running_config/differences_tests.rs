//! Differences are named by key, without secrets, and with what a reload makes of them.

use std::path::Path;

use earmark_testkit::command_line::TemporaryDirectory;

use super::*;
use crate::config::{Config, Reloaded};

const RUNNING: &str = "[node]\nname = \"r1\"\n\
    [[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n\
    [[interface]]\nname = \"eth1\"\nbandwidth = \"10Mbit\"\n[rsvp]\nrefresh = \"30s\"\n";

fn load(text: &str) -> Config {
    let place = TemporaryDirectory::new("differences");
    Config::load(Path::new(&place.file("r1.toml", text))).expect("valid")
}

/// Returns the differences as text, and those that remain after a reload.
fn compare(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let (mut started, new) = (load(before), load(after));
    let running = started.files.values().expect("TOML");
    let values = new.files.values().expect("TOML");
    let Reloaded { waiting, .. } = started.reload(new);
    let text = |row: &ConfigDifference| {
        let value = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
        format!("{} {} {} {}", row.effect.name(), row.key, value(&row.running), value(&row.file))
    };
    let found = differences(&running, &values, &waiting);
    let left = differences(&found.after_reload, &values, &waiting);
    (found.rows.iter().map(text).collect(), left.rows.iter().map(text).collect())
}

#[test]
fn differences_say_what_a_reload_changes_and_what_needs_a_restart() {
    let replace = |from: &str, to: &str| RUNNING.replacen(from, to, 1);
    for (after, told) in [
        (RUNNING.to_owned(), &[][..]),
        (format!("\n# A comment.\n{RUNNING}"), &[]),
        (replace("30s", "9s"), &[r#"reload rsvp.refresh "30s" "9s""#]),
        (replace("refresh = \"30s\"", ""), &[r#"reload rsvp.refresh "30s" -"#]),
        (replace("r1", "r2"), &[r#"restart node.name "r1" "r2""#]),
        (
            replace(
                "10Mbit\"",
                "20Mbit\"\nclasses = 9\nprotocols = [\"rsvp\", \"nsis\"]\noverhead = 24",
            ),
            &[
                r#"reload interface eth0: bandwidth "10Mbit" "20Mbit""#,
                "restart interface eth0: classes - 9",
                "reload interface eth0: overhead - 24",
                r#"reload interface eth0: protocols - ["rsvp", "nsis"]"#,
            ],
        ),
        (
            replace("[[interface]]\nname = \"eth0\"\nbandwidth = \"10Mbit\"\n", ""),
            &[
                r#"restart interface eth0: bandwidth "10Mbit" -"#,
                r#"restart interface eth0: name "eth0" -"#,
            ],
        ),
        (
            format!("{RUNNING}[[interface]]\nname = \"eth2\"\n"),
            &[r#"reload interface eth2: name - "eth2""#],
        ),
        (
            format!(
                "{RUNNING}[[interface]]\nname = \"eth2\"\nintegrity = \"both\"\n[integrity]\nkeys = \"k\"\n"
            ),
            &[
                r#"restart integrity.keys - "k""#,
                r#"restart interface eth2: integrity - "both""#,
                r#"restart interface eth2: name - "eth2""#,
            ],
        ),
        (
            format!(
                "{RUNNING}[[policy.rule]]\npriority = 3\n[nsis]\ntcp = 5\nlevel = 3\n[metrics]\nreservations = 3\naddress = \"[::1]:9\"\n"
            ),
            &[
                r#"restart metrics.address - "[::1]:9""#,
                "restart metrics.reservations - 3",
                "restart nsis.level - 3",
                "restart nsis.tcp - 5",
                "reload policy.rule 1: priority - 3",
            ],
        ),
        (
            format!(
                "{RUNNING}[[mark]]\nmark = 7\ninterface = \"eth0\"\n[daemon]\nuser = \"nobody\"\nreconcile = \"9s\"\n"
            ),
            &[
                r#"reload daemon.reconcile - "9s""#,
                r#"restart daemon.user - "nobody""#,
                r#"restart mark 1: interface - "eth0""#,
                "restart mark 1: mark - 7",
            ],
        ),
    ] {
        let (found, left) = compare(RUNNING, &after);
        assert_eq!(found, told, "{after}");
        let restart: Vec<_> = told.iter().filter(|row| row.starts_with("restart")).collect();
        assert_eq!(left.iter().collect::<Vec<_>>().len(), restart.len(), "{after}: {left:?}");
    }
}

/// No protocol of this program has secrets in its settings.
#[test]
fn secrets_are_compared_and_not_shown() {
    let place = TemporaryDirectory::new("difference-secret");
    let values = |name: &str, secret: &str| {
        let text = format!("[protocol.x]\nuser = [{{ name = \"a\", secret = \"{secret}\" }}]\n");
        let file = place.file(name, &text);
        Config::read_files(Path::new(&file)).expect("readable").values().expect("TOML")
    };
    let (old, new) = (values("old.toml", "hidden one"), values("new.toml", "hidden two"));
    let found = differences(&old, &new, &[]);
    assert_eq!(found.rows.len(), 1);
    assert_eq!(found.rows[0].key, "protocol.x.user 1: secret");
    assert_eq!(found.rows[0].running.as_deref(), Some("(secret)"));
    assert_eq!(found.rows[0].file.as_deref(), Some("(secret)"));
    assert!(!format!("{:?}{old:?}{new:?}", found.rows).contains("hidden"));
    assert!(found.rows[0].place.as_deref().is_some_and(|place| place.ends_with("new.toml:2")));
}

#[test]
fn long_values_and_lists_are_bounded() {
    let mut text = String::from("[[interface]]\nname = \"eth0\"\nsources = [\"10.0.0.0/8\"]\n");
    let sources = vec!["\"10.0.0.0/8\""; 100].join(", ");
    let long = text.replace("\"10.0.0.0/8\"", &sources);
    let (found, _) = compare(&text, &long);
    assert!(found.len() == 1 && found[0].len() < 150 && found[0].ends_with("..."), "{found:?}");
    for number in 0..MOST {
        text.push_str(&format!("[[interface]]\nname = \"i{number}\"\n"));
    }
    let new = load(&format!("{text}[[interface]]\nname = \"x\"\n")).files.values().expect("TOML");
    let found = differences(&Values::new(), &new, &[]);
    assert!(found.more && found.rows.len() == MOST, "{}", found.rows.len());
    assert_eq!(found.after_reload.len(), new.len(), "also those that are not named");
}
