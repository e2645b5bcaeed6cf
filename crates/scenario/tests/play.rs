//! Scenarios played: who gets what, whatever protocol reserves, and that it is the same every time.

use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Scenario, play};

/// A link with room for two of 100 kbit/s.
///
/// ```text
/// a ---\                /--- c
///       r1 --- r2 -----
/// b ---/                \--- d
/// ```
const NARROW: &str = r#"
    node = [{ name = "r1", role = "router" }, { name = "r2", role = "router" }, { name = "a" }, { name = "b" },
            { name = "c" }, { name = "d" }]
    link = [
        { ends = ["r1", "r2"], bandwidth = "400kbit", delay = "20ms", reservable = "220kbit" },
        { ends = ["a", "r1"], bandwidth = "100Mbit", delay = "10ms" },
        { ends = ["b", "r1"], bandwidth = "100Mbit", delay = "10ms" },
        { ends = ["c", "r2"], bandwidth = "100Mbit", delay = "10ms" },
        { ends = ["d", "r2"], bandwidth = "100Mbit", delay = "10ms" },
    ]"#;

fn scenario(protocol: &str) -> String {
    format!(
        r#"
        name = "narrow"
        topology = "narrow.toml"
        protocol = "{protocol}"
        duration = "400s"

        [[flows]]
        name = "first"
        between = [["a", "c"], ["b", "d"]]
        count = 2
        lifetime = "constant 100s"
        rate = "100kbit"
        reserves = "0s"

        [[flows]]
        name = "late"
        between = [["a", "d"]]
        starts = "10s"
        rate = "100kbit"
        reserves = "10s"
        watch = true
        "#
    )
}

fn played(text: &str, seed: u64) -> Outcome {
    let topology = Topology::parse(NARROW).expect("a topology");
    let scenario = Scenario::parse(text).expect("a scenario");
    play(&scenario, &topology, seed).expect("it fits")
}

/// Two flows have the link until 100 s, when others of their kind want it at once; the late one wants it from 20 s on.
#[test]
fn who_comes_late_waits_for_room() {
    for protocol in ["rsvp", "yessir"] {
        let outcome = played(&scenario(protocol), 1);
        let [late] = &outcome.watched[..] else { panic!("{outcome:?}") };
        assert_eq!((late.from.as_str(), late.to.as_str()), ("a", "d"));
        assert_eq!(late.reserves, Some(20.0));
        assert!(
            late.attempts.iter().any(|attempt| !attempt.granted && attempt.node == "r1"),
            "{protocol}"
        );
        assert!(outcome.retries > 0 && outcome.wanted > 4, "{protocol}: {outcome:?}");
        assert!(late.received.sent >= 38_900, "{protocol}: {:?}", late.received.sent);
    }
}

#[test]
fn one_seed_is_one_outcome() {
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let text = scenario(protocol);
        let [first, second] =
            [3, 3].map(|seed| serde_json::to_string(&played(&text, seed)).expect("plain data"));
        assert_eq!(first, second, "{protocol}");
    }
}
