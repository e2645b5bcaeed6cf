//! Runs that are played in parts: their outcomes are those of runs played at once, and their state can be seen and changed
//! in between.

use std::time::Duration;

use earmark_core::Time;
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Scenario, ScenarioRun, play};
use earmark_sim::{HookedMessage, MessageAction, MessageHook};

const TOPOLOGY: &str = r#"
    node = [{ name = "r1", role = "router" }, { name = "r2", role = "router" }, { name = "a" }, { name = "b" }]
    link = [
        { ends = ["a", "r1"], bandwidth = "1Mbit", delay = "10ms" },
        { ends = ["r1", "r2"], bandwidth = "400kbit", delay = "20ms", reservable = "220kbit" },
        { ends = ["r2", "b"], bandwidth = "1Mbit", delay = "10ms" },
    ]"#;

/// Three flows, of which two fit; a fault, and flows that come and go.
fn scenario(protocol: &str) -> Scenario {
    let text = format!(
        r#"
        name = "parts"
        topology = "parts.toml"
        protocol = "{protocol}"
        duration = "60s"
        refresh = "5s"
        rollback = {{ after = "2s", again = "uniform 1s 3s" }}

        [[flows]]
        name = "test"
        between = [["a", "b"]]
        count = 3
        lifetime = "exponential 15s"
        rate = "100kbit"
        reserves = "1s"
        watch = true

        [[faults]]
        link = ["r1", "r2"]
        from = "20.5s"
        until = "25s"
        loss = 0.5
        "#
    );
    Scenario::parse(&text).expect("a scenario")
}

fn topology() -> Topology {
    Topology::parse(TOPOLOGY).expect("a topology")
}

fn begun<'a>(scenario: &'a Scenario, topology: &'a Topology) -> ScenarioRun<'a> {
    ScenarioRun::begin(scenario, topology, 7).expect("it fits")
}

#[test]
fn outcome_does_not_depend_on_the_parts() {
    let topology = topology();
    for protocol in ["rsvp", "boomerang", "yessir", "nsis"] {
        let scenario = scenario(protocol);
        let whole = play(&scenario, &topology, 7).expect("it fits");
        assert!(whole.watched.len() > 5 && whole.retries > 0, "{protocol}: {whole:?}");

        let mut by_time = begun(&scenario, &topology);
        for tenth in 1..=600 {
            let until = Time::from_millis(100 * tenth);
            assert!(by_time.advance(until, u64::MAX));
            assert_eq!(by_time.network().now(), until);
        }
        assert_eq!(by_time.finish().0, whole, "{protocol}");

        let mut by_events = begun(&scenario, &topology);
        let mut parts = 0;
        while !by_events.advance(by_events.end(), 17) {
            parts += 1;
        }
        assert!(parts > 100, "{protocol}: {parts}");
        assert_eq!(by_events.finish().0, whole, "{protocol}");
    }
}

#[test]
fn early_end_gives_the_outcome_so_far() {
    let (scenario, topology) = (scenario("rsvp"), topology());
    let mut run = begun(&scenario, &topology);
    assert!(run.advance(Time::from_secs(10), u64::MAX));
    let (early, network) = run.finish();
    assert_eq!(network.now(), Time::from_secs(10));
    let running = early.watched.iter().filter(|flow| flow.received.arrived > 0).count();
    assert!(running >= 3, "{early:?}");
    assert!(early.watched.iter().all(|flow| flow.received.rates.len() == 10));
    let shorter = Scenario { duration: Duration::from_secs(10), ..scenario };
    let Outcome { wanted, completed, .. } = play(&shorter, &topology, 7).expect("it fits");
    assert_eq!((early.wanted, early.completed), (wanted, completed));
}

/// Drops everything that is seen.
struct Wall;

impl MessageHook for Wall {
    fn message(&mut self, _: &HookedMessage<'_>) -> MessageAction {
        MessageAction::Drop
    }
}

#[test]
fn network_can_be_changed_between_parts() {
    let (scenario, topology) = (scenario("yessir"), topology());
    let mut run = begun(&scenario, &topology);
    run.network_mut().set_message_hook(Some(Box::new(Wall)));
    assert!(run.advance(Time::from_secs(10), u64::MAX));
    assert!(run.nodes().iter().all(|node| run.network().traffic_control(*node).count() <= 3));
    let (outcome, _) = run.finish();
    assert_eq!(outcome.completed, 0, "no message has left its host");
    assert!(outcome.wanted > 0);
}

/// The delay of a packet on an idle path is that of the links; lost packets and those on their way are told apart.
#[test]
fn delays_and_losses_are_those_of_the_path() {
    let (mut scenario, topology) = (scenario("rsvp"), topology());
    scenario.flows.truncate(1);
    scenario.flows[0].count = Some(1);
    scenario.faults.clear();
    let outcome = play(&scenario, &topology, 7).expect("it fits");
    let received = &outcome.watched[0].received;
    let delay = received.delay.expect("packets arrived");
    // 40 ms on the links; a packet of 139 octets takes 1.1 ms on the outer links and 2.8 ms on the inner one.
    assert!((0.0450..0.0452).contains(&delay.p50), "{delay:?}");
    assert!(delay.mean >= delay.p50 * 0.99 && delay.p99 <= delay.max, "{delay:?}");
    assert_eq!(received.lost, 0, "{received:?}");
    assert!(received.sent > received.arrived, "the last packets are on their way: {received:?}");

    scenario.flows[0].count = Some(5); // more than the link can carry
    scenario.flows[0].reserves = None;
    let outcome = play(&scenario, &topology, 7).expect("it fits");
    let lost: u64 = outcome.watched.iter().map(|flow| flow.received.lost).sum();
    let delay = outcome.watched[0].received.delay.expect("packets arrived");
    assert!(lost > 100, "{lost}");
    assert!(delay.max > 0.12, "the queue of 50 packets is full: {delay:?}");
    for flow in &outcome.watched {
        let on_their_way = flow.received.sent - flow.received.arrived - flow.received.lost;
        assert!(on_their_way <= 60, "{flow:?}");
    }
}

/// A refused attempt has the rate that was available, and the application at an end is told.
#[test]
fn refusals_are_reported_with_the_available_rate() {
    let (mut scenario, topology) = (scenario("boomerang"), topology());
    scenario.rollback = None;
    let outcome = play(&scenario, &topology, 7).expect("it fits");
    let refused: Vec<_> = outcome
        .watched
        .iter()
        .flat_map(|flow| &flow.attempts)
        .filter(|attempt| !attempt.granted)
        .collect();
    assert!(!refused.is_empty());
    assert!(refused.iter().all(|attempt| attempt.available.is_some_and(|rate| rate < 100_000)));
    let kinds: Vec<&str> = outcome
        .watched
        .iter()
        .flat_map(|flow| &flow.reports)
        .map(|report| report.outcome.kind.name())
        .collect();
    for kind in ["unverified", "refused"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}
