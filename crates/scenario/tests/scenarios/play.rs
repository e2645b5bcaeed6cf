//! Scenarios: which flows are reserved, by any protocol, and reproducibility.

use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Scenario, play};

/// A link with room for two flows of 100 kbit/s.
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
        initial = "new"
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

/// Two flows have the link until 100 s, when their successors request it at once; the late one requests it from 20 s
/// on.
#[test]
fn late_flow_waits_for_room() {
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
fn same_seed_gives_same_outcome() {
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let text = scenario(protocol).replace("400s", "150s");
        let [first, second] =
            [3, 3].map(|seed| serde_json::to_string(&played(&text, seed)).expect("plain data"));
        assert_eq!(first, second, "{protocol}");
    }
}

/// The link has 400 kbit/s; 700 kbit/s want it, of which one flow of 100 kbit/s is reserved.
#[test]
fn reservation_counts_by_the_scheduler_of_the_link() {
    let flood = scenario("yessir").replace("count = 2", "count = 6");
    let flood = flood
        .replace("reserves = \"0s\"", "")
        .replace("\"10s\"\n        watch", "\"0s\"\n        watch");
    let of_link = |name| format!("[{{ link = [\"r1\", \"r2\"], discipline = \"{name}\" }}]");
    let arrived = |scheduler: &str| {
        let text = flood.replace("duration", &format!("scheduler = {scheduler}\nduration"));
        let received = &played(&text.replace("400s", "60s"), 1).watched[0].received;
        received.arrived as f64 / received.sent as f64
    };
    for name in ["priority", "wfq", "fifo"] {
        let share = arrived(&format!("\"{name}\""));
        match name {
            "fifo" => assert!((0.3..0.7).contains(&share), "{name}: {share}"),
            _ => assert!(share > 0.98, "{name}: {share}"),
        }
        assert_eq!(arrived(&of_link(name)), share, "only one link is congested");
    }
}

/// Returns the flows of the other test, but all at once and for ever, with additional settings.
fn crowd(protocol: &str, more: &str) -> String {
    let text = scenario(protocol).replace("lifetime = \"constant 100s\"", "starts = \"1s\"");
    text.replace("duration", &format!("{more}\ndata = \"none\"\nduration"))
}

/// A flow that has waited too long retries later; with room for two of three, no flow holds a part of the path in
/// vain.
#[test]
fn partial_reservation_is_rolled_back() {
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let rollback = "rollback = { after = \"2s\", again = \"uniform 5s 10s\" }";
        let patient = played(&crowd(protocol, ""), 1);
        let hasty = played(&crowd(protocol, rollback), 1);
        assert_eq!((patient.completed, hasty.completed), (2, 2), "{protocol}");
        assert!(hasty.retries_at["r1"] >= 20, "{protocol}: {:?}", hasty.retries_at);
        assert!(hasty.fragmented <= patient.fragmented + 0.01, "{protocol}");
        if protocol == "yessir" {
            assert!(patient.fragmented > 0.1 && hasty.fragmented < 0.1, "{patient:?} {hasty:?}");
        }
        assert!((0.6..0.7).contains(&hasty.served), "two of three: {}", hasty.served);
    }
}

/// A reservation of higher priority displaces another; only RSVP signals priorities.
#[test]
fn higher_priority_displaces_reservation() {
    let important = |protocol: &str| {
        crowd(protocol, "").replace("reserves = \"10s\"", "reserves = \"10s\"\npriority = 7")
    };
    let outcome = played(&important("rsvp"), 1);
    let [late] = &outcome.watched[..] else { panic!("{outcome:?}") };
    assert!(late.completed_after.is_some_and(|after| after < 1.0), "{late:?}");
    let topology = Topology::parse(NARROW).expect("a topology");
    let scenario = Scenario::parse(&important("yessir")).expect("a scenario");
    let refused = play(&scenario, &topology, 1).expect_err("no priorities there");
    assert_eq!(
        refused.to_string(),
        "flows `late` have a priority, but only rsvp tells routers of it"
    );
}

/// Flows of a Poisson process: the mean number is as configured, and each has its own lifetime.
#[test]
fn poisson_arrivals_keep_their_mean() {
    let text = scenario("yessir").replace("count = 2", "count = 50\narrivals = \"poisson\"");
    let text = text.replace("constant 100s\"\n        initial = \"new", "exponential 10s");
    let topology = Topology::parse(NARROW).expect("a topology");
    let scenario = Scenario::parse(&text).expect("a scenario");
    let schedule =
        earmark_scenario::flow_schedule::draw(&scenario, &topology, 1).expect("few flows");
    let at = |second: u64| {
        let now = earmark_core::Time::from_nanos(second * 1_000_000_000);
        schedule
            .iter()
            .filter(|flow| flow.flows == 0 && flow.starts <= now && now < flow.ends)
            .count()
    };
    let mean = (1..400).map(at).sum::<usize>() as f64 / 399.0;
    assert!((44.0..56.0).contains(&mean), "{mean}"); // its standard deviation is 1.6
}

/// A refresh interval that messages cannot state is refused, and not rounded.
#[test]
fn refresh_interval_of_protocol_is_checked() {
    let topology = Topology::parse(NARROW).expect("a topology");
    let checked = |protocol, refresh: &str| {
        let refresh = format!("refresh={refresh}").parse().expect("KEY=VALUE");
        let scenario = Scenario::parse_with(&crowd(protocol, ""), &[refresh]).expect("a scenario");
        scenario.check(&topology).map_err(|error| error.to_string())
    };
    let whole = |protocol, most, seconds| {
        Err(format!(
            "`refresh`: {protocol} states it in whole seconds, from 1 to {most}, so \"{seconds}s\" would do"
        ))
    };
    for (protocol, most) in [("boomerang", 255), ("yessir", 65_535)] {
        assert_eq!(checked(protocol, &format!("{most}s")), Ok(()));
        assert_eq!(checked(protocol, &format!("{}s", most + 1)), whole(protocol, most, most));
        assert_eq!(checked(protocol, "2500ms"), whole(protocol, most, 2));
    }
    for protocol in ["rsvp", "nsis"] {
        assert_eq!(checked(protocol, "2500ms"), Ok(()));
        assert_eq!(checked(protocol, "300s"), Ok(()));
    }
}
