//! Files with rubbish in them: scenarios, topologies and values from outside are read or refused with the place, and nothing
//! panics.

use std::io;

use earmark_scenario::topology::{Choice, ChoiceError, DEMO, GraphmlProblem, Topology};
use earmark_scenario::{Override, OverrideError, Scenario, ScenarioError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const RETRY: &str = include_str!("../../../topologies/retry.toml");
const ABILENE: &str = include_str!("../../../topologies/abilene.graphml");
const SCENARIOS: [&str; 2] = [
    include_str!("../../../scenarios/retry-mixed.toml"),
    include_str!("../../../scenarios/retry-priorities.toml"),
];

/// What can stand where something else belongs: ends of all ranges, other types, text that is none.
const ODD: [&str; 22] = [
    "",
    "0",
    "-1",
    "1e999",
    "nan",
    "4294967296",
    "9223372036854775807",
    "18000000000000000000",
    "\"18000000000000000000s\"",
    "\"uniform 0s 18000000000000000000s\"",
    "\"uniform 18000000000000000000s 18000000000000000000s\"",
    "\"99999999999999999999Gbit\"",
    "\"0bit\"",
    "\"0.0.0.0/0\"",
    "\"\"",
    "\"\u{0}é€😀\"",
    "true",
    "[]",
    "{}",
    "[[[[[]]]]]",
    "[[flows]]",
    "\n=\n",
];

/// What happens to a text: an octet is changed, a value or a line becomes something odd, the end is lost.
#[derive(Clone, Debug)]
enum Damage {
    Octet(Index, u8),
    Value(Index, &'static str),
    Line(Index, &'static str),
    Twice(Index),
    Lost(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<(Index, u8)>().prop_map(|(at, octet)| Damage::Octet(at, octet)),
        (any::<Index>(), select(&ODD[..])).prop_map(|(at, odd)| Damage::Value(at, odd)),
        (any::<Index>(), select(&ODD[..])).prop_map(|(at, odd)| Damage::Line(at, odd)),
        any::<Index>().prop_map(Damage::Twice),
        any::<Index>().prop_map(Damage::Lost),
    ]
}

fn damaged(text: &str, damage: &[Damage]) -> String {
    let mut text = text.to_owned();
    for damage in damage {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.is_empty() {
            return text;
        }
        match damage {
            Damage::Octet(at, octet) => {
                let mut octets = text.into_bytes();
                let at = at.index(octets.len());
                octets[at] = *octet;
                text = String::from_utf8_lossy(&octets).into_owned();
                continue;
            }
            Damage::Lost(at) => {
                text.truncate(text.floor_char_boundary(at.index(text.len())));
                continue;
            }
            Damage::Value(at, odd) => {
                let line = &mut lines[at.index(text.lines().count())];
                if let Some((key, _)) = line.split_once('=') {
                    *line = format!("{key}= {odd}");
                }
            }
            Damage::Line(at, odd) => {
                let at = at.index(lines.len());
                lines[at] = (*odd).to_owned();
            }
            Damage::Twice(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at].clone());
            }
        }
        text = lines.join("\n");
    }
    text
}

fn nowhere(_: &str) -> io::Result<String> {
    Err(io::Error::other("no file is needed"))
}

/// An error is in a line of the text, and says something.
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

/// The file as the scenario's topology, read by the name it has there.
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
fn topologies_may_end_anywhere() {
    for text in [DEMO, RETRY] {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            topology_is_handled(&text[..end]);
        }
    }
}

#[test]
fn scenarios_may_end_anywhere() {
    let topology = Topology::parse(RETRY).expect("a topology");
    for text in SCENARIOS {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            scenario_is_handled(&text[..end], &[], &topology);
        }
    }
}

/// A mean that no clock has is no reason to stop.
#[test]
fn lives_may_be_longer_than_time() {
    let ages = "18000000000000000000s";
    let topology = Topology::parse(RETRY).expect("a topology");
    for lifetime in [
        format!("constant {ages}"),
        format!("exponential {ages}"),
        format!("uniform {ages} {ages}"),
    ] {
        for text in SCENARIOS {
            let lives = format!("lifetime = \"{lifetime}\"");
            let text: Vec<&str> = text
                .lines()
                .map(|line| if line.starts_with("lifetime") { &lives[..] } else { line })
                .collect();
            let text = text.join("\n");
            assert!(text.contains(ages));
            let scenario = Scenario::parse(&text).expect("it can be read");
            assert_eq!(scenario.check(&topology), Ok(()), "{lifetime}");
        }
    }
}

/// However deep a key goes, and whatever is set there.
#[test]
fn keys_may_have_many_dots() {
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
    fn any_text_is_handled(text: String, octets in vec(any::<u8>(), 0..200)) {
        let topology = Topology::parse(DEMO).expect("a topology");
        for text in [&text[..], &String::from_utf8_lossy(&octets)] {
            topology_is_handled(text);
            scenario_is_handled(text, &[], &topology);
            graphml_is_handled(text);
            let _ = text.parse::<Override>();
        }
    }

    #[test]
    fn damaged_topologies_are_handled(damage in vec(damage(), 1..4), retry: bool) {
        topology_is_handled(&damaged(if retry { RETRY } else { DEMO }, &damage));
    }

    #[test]
    fn damaged_scenarios_are_handled(damage in vec(damage(), 1..4), which in 0..SCENARIOS.len()) {
        let topology = Topology::parse(RETRY).expect("a topology");
        scenario_is_handled(&damaged(SCENARIOS[which], &damage), &[], &topology);
    }

    #[test]
    fn damaged_graphs_are_handled(damage in vec(damage(), 1..4)) {
        graphml_is_handled(&damaged(ABILENE, &damage));
    }

    #[test]
    fn odd_values_are_handled(
        key in prop_oneof![
            select(&["duration", "refresh", "discard", "flows.0.rate", "flows.0.lifetime", "flows.0.count",
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
