use std::time::Duration;

use super::*;
use crate::scenario::Threshold;

const TEXT: &str = r#"
    name = "two"
    topology = "two.toml"
    protocol = "yessir"
    duration = "60s"

    [[flows]]
    name = "best effort"
    between = [["a", "b"]]
    rate = "100kbit"

    [[flows]]
    name = "test"
    between = [["a", "b"]]
    rate = "100kbit"
    "#;

fn with(overrides: &[&str]) -> Result<Scenario, ScenarioError> {
    let read = |text: &&str| text.parse().expect("an override");
    let overrides: Vec<Override> = overrides.iter().map(read).collect();
    Scenario::parse_with(TEXT, &overrides)
}

#[test]
fn values_are_set_at_any_depth() {
    let scenario = with(&[
        "refresh=5s",
        "protocol = rsvp",
        "retry.threshold=3",
        "retry.counting=\"tries\"",
        "flows.best effort.count=7",
        "flows.1.bursts.on=1s", // bursts need both times
    ]);
    assert!(scenario.is_err(), "{scenario:?}");
    let scenario = with(&[
        "refresh=5s",
        "protocol = rsvp",
        "retry.threshold=3",
        "flows.best effort.count=7",
        "flows.best effort.count=8",
        "flows.1.bursts={on = \"1s\", off = \"2s\"}",
        "flows.test.bursts.off=3s",
    ])
    .unwrap();
    assert_eq!(scenario.refresh, Duration::from_secs(5));
    assert_eq!(scenario.protocol, "rsvp");
    assert_eq!(scenario.retry.threshold, Threshold::Times(3));
    assert_eq!(scenario.flows[0].count(), 8, "the last one holds");
    assert_eq!(scenario.flows[1].bursts.unwrap().off, Duration::from_secs(3));
    assert_eq!(with(&[]).unwrap(), Scenario::parse(TEXT).unwrap());
}

#[test]
fn invalid_override_is_named() {
    for (overrides, error) in [
        (&["refrehs=5s"][..], "`refrehs`: unknown field `refrehs`, expected one of"),
        (&["refresh=5s", "retry.treshold=1"], "`retry.treshold`: unknown field `treshold`"),
        (&["refresh=5"], "`refresh`: invalid type: integer `5`, expected a string"),
        (
            &["flows.tset.count=1"],
            "`flows.tset.count`: flows has no element `tset`; there are `best effort`, `test`",
        ),
        (&["flows.2.count=1"], "flows has no element `2`"),
        (&["name.first=1"], "`name.first`: name is neither"),
        (&["flows.test.between.0.1.x=1"], "flows.test.between.0.1 is neither"),
    ] {
        let message = with(overrides).unwrap_err().to_string();
        assert!(message.contains(error), "{message}");
    }
    for text in ["refresh", "=5s", "refresh="] {
        assert!(text.parse::<Override>().is_err(), "{text}");
    }
}

/// A name with a dot, and one that is its prefix.
#[test]
fn longer_matching_name_is_taken() {
    let text = TEXT.replace("best effort", "test.v2");
    let rate = "flows.test.v2.count=4".parse().unwrap();
    let scenario = Scenario::parse_with(&text, &[rate]).unwrap();
    assert_eq!([scenario.flows[0].count(), scenario.flows[1].count()], [4, 1]);
}
