//! Malformed input: scenarios, topologies and values from outside are parsed or rejected with the position, and
//! nothing panics.

use std::io;

use earmark_scenario::topology::{Choice, ChoiceError, DEMO, GraphmlProblem, Topology};
use earmark_scenario::{Override, OverrideError, Scenario, ScenarioError};
use earmark_testkit::damage::{ODD, damage, damaged};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const RETRY: &str = include_str!("../../../../topologies/retry.toml");
const ABILENE: &str = include_str!("../../../../topologies/abilene.graphml");
const SCENARIOS: [&str; 2] = [
    include_str!("../../../../scenarios/retry-mixed.toml"),
    include_str!("../../../../scenarios/retry-priorities.toml"),
];

fn nowhere(_: &str) -> io::Result<String> {
    Err(io::Error::other("no file is needed"))
}

/// Checks that an error has a line of the text and a message.
fn topology_is_handled(text: &str) {
    if let Err(error) = Topology::parse(text) {
        assert!((1..=text.lines().count().max(1) + 1).contains(&error.line), "{error}\n{text}");
        assert!(error.to_string().starts_with(&format!("line {}: ", error.line)), "{error}");
    }
}

fn scenario_is_handled(text: &str, overrides: &[Override], topology: &Topology) {
    match Scenario::parse_with(text, overrides) {
        Ok(scenario) => {
            let _ =
                scenario.check(topology).map_err(|error| assert!(!error.to_string().is_empty()));
            let _ = scenario.topology.build(nowhere);
        }
        Err(ScenarioError::Toml { line, why }) => {
            assert!((1..=text.lines().count().max(1) + 1).contains(&line), "line {line}\n{text}");
            assert!(!why.is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Uses the file as the scenario's topology, by its name there.
fn graphml_is_handled(text: &str) {
    let scenario = "name = \"n\"\nprotocol = \"rsvp\"\nduration = \"1s\"\n\
                    topology = { file = \"some.graphml\", bandwidth = \"10Mbit\" }\n";
    let scenario = Scenario::parse(scenario).expect("a scenario");
    let Choice::Made(_) = &scenario.topology else { panic!("{:?}", scenario.topology) };
    match scenario.topology.build(|_| Ok(text.to_owned())) {
        Err(ChoiceError::Graphml { why, .. }) => {
            assert!(why.line >= 1 && why.column >= 1, "{why}");
            assert!((why.line as usize) <= text.lines().count() + 1, "{why}");
            assert!(!matches!(why.problem, GraphmlProblem::Xml(ref text) if text.is_empty()));
        }
        other => drop(other),
    }
}

#[test]
fn truncated_topology_is_handled() {
    for text in [DEMO, RETRY] {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            topology_is_handled(&text[..end]);
        }
    }
}

#[test]
fn truncated_scenario_is_handled() {
    let topology = Topology::parse(RETRY).expect("a topology");
    for text in SCENARIOS {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            scenario_is_handled(&text[..end], &[], &topology);
        }
    }
}

/// A mean longer than any clock does not stop the run.
#[test]
fn lifetime_longer_than_time_is_handled() {
    let ages = "18000000000000000000s";
    let topology = Topology::parse(RETRY).expect("a topology");
    for lifetime in [
        format!("constant {ages}"),
        format!("exponential {ages}"),
        format!("uniform {ages} {ages}"),
    ] {
        for text in SCENARIOS {
            let schedule = format!("lifetime = \"{lifetime}\"");
            let text: Vec<&str> = text
                .lines()
                .map(|line| if line.starts_with("lifetime") { &schedule[..] } else { line })
                .collect();
            let text = text.join("\n");
            assert!(text.contains(ages));
            let scenario = Scenario::parse(&text).expect("it can be read");
            assert_eq!(scenario.check(&topology), Ok(()), "{lifetime}");
        }
    }
}

/// Keys of any depth, with any value.
#[test]
fn deep_override_key_is_handled() {
    for dots in [1, 10, 100, 200_000] {
        let key = vec!["a"; dots + 1].join(".");
        for value in ["1".to_owned(), "[".repeat(dots)] {
            let value: Override = format!("{key}={value}").parse().expect("KEY=VALUE");
            let error = Scenario::parse_with(SCENARIOS[0], &[value]).expect_err("unknown key");
            let ScenarioError::Override { why, .. } = error else { panic!("{dots}: {error}") };
            assert_eq!(why == OverrideError::TooDeep, dots > 64, "{dots}: {why}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_text_is_handled(text: String, octets in vec(any::<u8>(), 0..200)) {
        let topology = Topology::parse(DEMO).expect("a topology");
        for text in [&text[..], &String::from_utf8_lossy(&octets)] {
            topology_is_handled(text);
            scenario_is_handled(text, &[], &topology);
            graphml_is_handled(text);
            let _ = text.parse::<Override>();
        }
    }

    #[test]
    fn damaged_topology_is_handled(damage in vec(damage(), 1..4), retry: bool) {
        topology_is_handled(&damaged(if retry { RETRY } else { DEMO }, &damage));
    }

    #[test]
    fn damaged_scenario_is_handled(damage in vec(damage(), 1..4), which in 0..SCENARIOS.len()) {
        let topology = Topology::parse(RETRY).expect("a topology");
        scenario_is_handled(&damaged(SCENARIOS[which], &damage), &[], &topology);
    }

    #[test]
    fn damaged_graphml_is_handled(damage in vec(damage(), 1..4)) {
        graphml_is_handled(&damaged(ABILENE, &damage));
    }

    #[test]
    fn odd_override_value_is_handled(
        key in prop_oneof![
            select(&["duration", "refresh", "discard", "flows.0.rate", "flows.0.lifetime", "flows.0.arrivals", "flows.0.count",
                "flows.0.packet_octets", "retry.threshold", "seed", "topology", "flows", "protocol", "faults"][..])
                .prop_map(str::to_owned),
            "[a-z0-9.]{1,12}",
        ],
        odd in select(&ODD[..]),
    ) {
        let topology = Topology::parse(RETRY).expect("a topology");
        let odd = odd.trim_matches('"');
        if let Ok(value) = format!("{key}={odd}").parse() {
            scenario_is_handled(SCENARIOS[0], &[value], &topology);
        }
    }
}
