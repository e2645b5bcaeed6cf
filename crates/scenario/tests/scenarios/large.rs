//! Scenarios on generated or published networks: every protocol reserves there, between random hosts.

use std::path::Path;

use earmark_scenario::{Scenario, play};

const FLOWS: &str = r#"
    [[flows]]
    name = "reserved"
    between = "random"
    count = 12
    lifetime = "exponential 20s"
    spread = "5s"
    rate = "100kbit"
    reserves = "1s"
    watch = true
    "#;

fn check(topology: &str) {
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let text = format!(
            "name = 'large'\nprotocol = '{protocol}'\nduration = '30s'\ndata = 'none'\ntopology = {topology}\n{FLOWS}"
        );
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let read = |file: &str| std::fs::read_to_string(folder.join(file));
        let scenario = Scenario::parse(&text).expect("a scenario");
        let topology = scenario.topology.build(read).expect("a topology");
        let [first, again, other] =
            [1, 1, 2].map(|seed| play(&scenario, &topology, seed).expect("it fits"));
        let in_json = |outcome| serde_json::to_string(outcome).expect("plain data");
        assert_eq!(in_json(&first), in_json(&again), "{protocol}");
        assert_ne!(in_json(&first), in_json(&other), "{protocol}");
        // A flow that ends before its request is not counted as wanted.
        assert!(first.wanted >= 12 && first.completed == first.wanted, "{protocol}: {first:?}");
        assert!(first.watched.iter().all(|flow| flow.from != flow.to));
        assert!(first.watched.iter().any(|flow| flow.completed_after > Some(0.01)));
    }
}

#[test]
fn every_protocol_reserves_on_random_network() {
    check("{ waxman = { routers = 50 }, hosts = 70, bandwidth = '10Mbit' }");
}

#[test]
fn every_protocol_reserves_on_backbone() {
    check("'abilene.graphml'");
}
