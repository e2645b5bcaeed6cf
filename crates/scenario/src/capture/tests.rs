use super::*;
use crate::play;

const TOPOLOGY: &str = r#"
    node = [{ name = "a" }, { name = "r1", role = "router" }, { name = "r2", role = "router" }, { name = "b" }]
    link = [
        { ends = ["a", "r1"], bandwidth = "10Mbit", delay = "5ms" },
        { ends = ["r1", "r2"], bandwidth = "10Mbit", delay = "5ms" },
        { ends = ["r2", "b"], bandwidth = "10Mbit", delay = "5ms" },
    ]"#;
const SCENARIO: &str = r#"
    name = "tapped"
    topology = "line.toml"
    protocol = "rsvp"
    duration = "10s"

    [[flows]]
    name = "only"
    between = [["a", "b"]]
    rate = "100kbit"
    reserves = "0s"
    "#;

#[test]
fn link_capture_has_half_of_router_capture() {
    let topology = Topology::parse(TOPOLOGY).expect("a topology");
    let scenario = Scenario::parse(SCENARIO).expect("a scenario");
    let tapped = |tap: &str| {
        let Ok(tap) = tap.parse::<Tap>();
        play_tapped(&scenario, &topology, 1, &tap)
    };
    let (outcome, all) = tapped("r1").expect("it is there");
    assert_eq!(outcome, play(&scenario, &topology, 1).expect("it fits"), "a tap disturbs nothing");
    let (_, before) = tapped("r1:a").expect("it is there");
    let (_, behind) = tapped("r1:r2").expect("it is there");
    assert!(all.is_sorted_by_key(|tapped| tapped.at) && behind.len() >= 2);
    assert_eq!(all.len(), before.len() + behind.len());
    assert!(behind.iter().all(|tapped| all.contains(tapped) && !before.contains(tapped)));
    let wrong = [tapped("r3"), tapped("r1:r3"), tapped("r1:b")].map(|result| match result {
        Ok(_) => String::new(),
        Err(why) => why.to_string(),
    });
    assert_eq!(wrong[0], "the topology has no node `r3`");
    assert_eq!(wrong[1], wrong[0]);
    assert_eq!(wrong[2], "the topology has no link between `r1` and `b`");
}
