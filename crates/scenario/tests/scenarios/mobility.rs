//! Hosts that move during a run: they stay reachable, and their reservations follow.

use std::sync::Arc;
use std::time::Duration;

use earmark_core::random::Stream;
use earmark_scenario::topology::Topology;
use earmark_scenario::{Data, MobilityLaw, OtherLaw, Scenario, play};

const PROTOCOLS: [&str; 4] = ["rsvp", "boomerang", "yessir", "nsis"];

/// A host at home behind `r1` that may visit `r2` and `r3`, and one that stays behind `r0`.
fn topology() -> Topology {
    let link = |one: &str, other: &str| {
        format!(r#"{{ ends = ["{one}", "{other}"], bandwidth = "10Mbit", delay = "5ms" }}"#)
    };
    let pairs = [
        ("fixed", "r0"),
        ("r0", "r1"),
        ("r0", "r2"),
        ("r2", "r3"),
        ("mobile", "r1"),
        ("mobile", "r2"),
        ("mobile", "r3"),
    ];
    let links = pairs.map(|(one, other)| link(one, other)).join(", ");
    let routers =
        [0, 1, 2, 3].map(|n| format!(r#"{{ name = "r{n}", role = "router" }}"#)).join(", ");
    let text = format!(
        "node = [{routers}, {{ name = \"fixed\" }}, {{ name = \"mobile\", role = \"host\" }}]\nlink = [{links}]"
    );
    Topology::parse(&text).expect("a topology")
}

fn scenario(protocol: &str, between: [&str; 2], mobility: &str) -> Scenario {
    let [from, to] = between;
    let text = format!(
        r#"
        name = "mobile"
        topology = "mobile.toml"
        protocol = "{protocol}"
        duration = "300s"
        refresh = "5s"

        [[flows]]
        name = "call"
        between = [["{from}", "{to}"]]
        rate = "100kbit"
        reserves = "0s"
        watch = true

        [[mobility]]
        nodes = ["mobile"]
        {mobility}
        "#
    );
    Scenario::parse(&text).expect("a scenario")
}

/// Away, on, back to where it was, and home: the reservation follows each move of a sender or receiver, and of its data only what is
/// under way is lost.
#[test]
fn reservation_and_data_follow_the_host() {
    let moves = r#"moves = [["60s", "r2"], ["100s", "r3"], ["140s", "r2"], ["180s", "r1"]]"#;
    for protocol in PROTOCOLS {
        for (between, seed) in [["fixed", "mobile"], ["mobile", "fixed"]]
            .into_iter()
            .flat_map(|between| (0..6).map(move |seed| (between, seed)))
        {
            let mut scenario = scenario(protocol, between, moves);
            if seed > 0 {
                scenario.data = Data::None;
            }
            let outcome = play(&scenario, &topology(), seed).expect("it fits");
            assert_eq!(
                outcome.interruptions, outcome.recoveries,
                "{protocol} {between:?}: {outcome:?}"
            );
            // One with each move, unless the way back is still reserved.
            assert!(
                (3..=4).contains(&outcome.interruptions),
                "{protocol} {between:?}: {outcome:?}"
            );
            let [.., longest] = outcome.recovery_times.expect("it recovers");
            assert!(longest < 15.0, "{protocol} {between:?}: {longest}");
            if seed > 0 {
                continue;
            }
            let received = &outcome.watched[0].received;
            // 100 packets a second: a few are under way at each move.
            let (sent, arrived) = (received.sent, received.arrived);
            assert!(sent >= 29_990, "{protocol} {between:?}: {sent}");
            assert!((sent - 30..=sent).contains(&arrived), "{protocol} {between:?}: {arrived}");
        }
    }
}

#[test]
fn host_without_link_for_some_time_gets_nothing() {
    let moves =
        "gap = \"10s\"\nmoves = [[\"60s\", \"r2\"], [\"100s\", \"r3\"], [\"105s\", \"r1\"]]";
    let scenario = scenario("rsvp", ["fixed", "mobile"], moves);
    let outcome = play(&scenario, &topology(), 3).expect("it fits");
    let rates = &outcome.watched[0].received.rates;
    // It leaves r3 before it has a link there.
    let silent: Vec<usize> = (0..rates.len()).filter(|second| rates[*second] < 50_000).collect();
    assert_eq!(silent, (60..70).chain(100..115).collect::<Vec<_>>());
}

#[test]
fn senseless_movement_is_refused() {
    for (mobility, why) in [
        ("stays = \"soon\"", "invalid lifetime"),
        ("", "`mobility.0.stays`: give either stays"),
        ("stays = \"constant 1s\"\nmoves = [[\"1s\", \"r2\"]]", "give either stays"),
        ("moves = [[\"2s\", \"r2\"], [\"1s\", \"r1\"]]", "not in ascending order"),
        (
            "moves = [[\"2s\", \"r0\"]]",
            "`mobility.0.moves` `r0`: a host has no link to this router",
        ),
        ("stays = \"constant 1us\"", "more than a million moves"),
        (
            "stays = \"constant 1s\"\n[[mobility]]\nnodes = [\"mobile\"]\nstays = \"forever\"",
            "moves already",
        ),
        (
            "stays = \"constant 1s\"\n[[mobility]]\nnodes = [\"fixed\"]\nstays = \"forever\"",
            "`fixed`: the host needs",
        ),
        (
            "stays = \"constant 1s\"\n[[mobility]]\nnodes = [\"r1\"]\nstays = \"forever\"",
            "a router does not move",
        ),
        (
            "stays = \"constant 1s\"\n[[mobility]]\nnodes = [\"nobody\"]\nstays = \"forever\"",
            "`nobody`: the topology has no",
        ),
        ("stays = \"constant 1s\"\nnext = \"home\"", "unknown variant `home`"),
        ("stays = \"constant 1s\"\nspeed = 3", "unknown field `speed`"),
    ] {
        let text = format!(
            "name = \"m\"\ntopology = \"m.toml\"\nprotocol = \"rsvp\"\nduration = \"1000000s\"\n\
             [[mobility]]\nnodes = [\"mobile\"]\n{mobility}"
        );
        let parsed = Scenario::parse(&text);
        let error = parsed.and_then(|it| it.check(&topology())).expect_err(mobility).to_string();
        assert!(error.contains(why), "{mobility}: {error}");
    }
}

/// A law of a program: there and back every 40 s.
#[derive(Debug)]
struct Commuter;

impl MobilityLaw for Commuter {
    fn first(&self, _: usize, _: &mut Stream) -> (usize, Option<Duration>) {
        (0, Some(Duration::from_secs(40)))
    }

    fn next(&self, from: usize, _: usize, _: &mut Stream) -> (usize, Option<Duration>) {
        (1 - from, Some(Duration::from_secs(40)))
    }
}

#[test]
fn program_gives_a_law_of_its_own() {
    for protocol in PROTOCOLS {
        let mut scenario = scenario(protocol, ["mobile", "fixed"], "");
        scenario.data = Data::None;
        scenario.mobility[0].law = Some(OtherLaw(Arc::new(Commuter)));
        for seed in 0..6 {
            let outcome = play(&scenario, &topology(), seed).expect("it fits");
            let counts = (outcome.interruptions, outcome.recoveries);
            assert_eq!(counts, (7, 7), "{protocol}, seed {seed}: {outcome:?}");
        }
    }
}
