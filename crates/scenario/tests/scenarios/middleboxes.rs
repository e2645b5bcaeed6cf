//! Firewalls and translators of a scenario: the shipped file, and files that are invalid.

use std::path::Path;

use earmark_scenario::{Outcome, PathOutcome, load, play};

/// Plays `scenarios/firewalls.toml`.
fn outcome(overrides: &[&str]) -> Outcome {
    let (scenario, topology) = load(&file(), &parsed(overrides)).expect("a scenario");
    play(&scenario, &topology, 1).expect("it is valid")
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/firewalls.toml")
}

fn parsed(overrides: &[&str]) -> Vec<earmark_scenario::Override> {
    overrides.iter().map(|set| set.parse().expect("KEY=VALUE")).collect()
}

fn path(outcome: &Outcome, flows: &str) -> PathOutcome {
    let flow = outcome.watched.iter().find(|flow| flow.flows == flows).expect("it is watched");
    flow.path.unwrap_or_else(|| panic!("{flows} has no path"))
}

#[test]
fn data_pass_only_while_their_path_is_open() {
    let outcome = outcome(&[]);
    for flows in ["call", "call back", "to the edge", "for the sender"] {
        let path = path(&outcome, flows);
        assert_eq!(path.asked, 10.0, "{flows}");
        let granted = path.granted.unwrap_or_else(|| panic!("{flows}: {path:?}"));
        assert!((10.0..10.5).contains(&granted), "{flows}: {granted}");
        assert_eq!(path.ended, Some(40.0), "{flows}");
        assert!(path.lost_before > 0.99, "{flows}: {path:?}");
        assert!(path.lost_while_open < 0.01, "{flows}: {path:?}");
        assert!(path.lost_after > 0.99, "{flows}: {path:?}");
    }
    let uninvited = outcome.watched.iter().find(|flow| flow.flows == "uninvited");
    let uninvited = uninvited.expect("it is watched");
    assert_eq!((uninvited.path, uninvited.received.arrived), (None, 0));
    // Three sources and two destinations ask.
    let paths = outcome.paths.expect("some ask");
    assert_eq!((paths.asked, paths.granted), (5, 5));
    let [lower, median, upper] = paths.waits.expect("some are granted");
    assert!(0.0 < lower && lower <= median && median <= upper && upper < 0.5, "{paths:?}");
}

#[test]
fn requests_in_the_discarded_time_do_not_count() {
    assert_eq!(outcome(&["discard=8s"]).paths.expect("four remain").asked, 4);
    assert_eq!(outcome(&["discard=20s"]).paths, None);
}

#[test]
fn path_without_room_for_its_rule_does_not_open() {
    let outcome = outcome(&["middleboxes.2.rules=0"]);
    let call = path(&outcome, "call");
    assert!(call.ended.is_some_and(|ended| ended < 11.0), "{call:?}");
    assert!(call.lost_after > 0.99, "{call:?}");
    assert!(path(&outcome, "call back").lost_while_open < 0.01);
}

#[test]
fn invalid_middleboxes_are_refused() {
    for (set, why) in [
        ("middleboxes.0.node=nowhere", "middleboxes.0.node"),
        ("middleboxes.0.node=client", "a host forwards nothing"),
        ("middleboxes.0.node=nat", "middleboxes.0.guard"),
        ("middleboxes.0.guard=[]", "middleboxes.0.guard"),
        ("middleboxes.0.guard=[\"wall\"]", "middleboxes.0.guard"),
        ("protocol=rsvp", "opens no firewall"),
        ("data=fluid", "only packets meet packet filters"),
        ("flows.call.closes=5s", "flows.call.closes"),
        ("flows.uninvited.closes=5s", "flows.uninvited.closes"),
    ] {
        let loaded = load(&file(), &parsed(&[set]));
        let error = match loaded {
            Ok((scenario, topology)) => {
                let error = play(&scenario, &topology, 1).expect_err(set);
                error.to_string()
            }
            Err(error) => error.to_string(),
        };
        assert!(error.contains(why), "{set}: {error}");
    }
}
