//! Interrupted reservations, signalling on the links, and reservations beside their path: what an outcome says of them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use earmark_core::Time;
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Scenario, ScenarioRun, play};
use earmark_sim::{Direction, HookedMessage, MessageAction, MessageHook};

const PROTOCOLS: [&str; 4] = ["rsvp", "boomerang", "yessir", "nsis"];

/// Two paths of different length between the hosts. The shorter one fails at 60 s.
fn topology(has_detour: bool) -> Topology {
    let detour = match has_detour {
        true => r#"{ ends = ["r3", "r2"], bandwidth = "10Mbit", delay = "5ms" },"#,
        false => "",
    };
    let text = format!(
        r#"
        node = [{{ name = "r1", role = "router" }}, {{ name = "r2", role = "router" }},
                {{ name = "r3", role = "router" }}, {{ name = "a" }}, {{ name = "b" }}]
        link = [
            {{ ends = ["a", "r1"], bandwidth = "10Mbit", delay = "5ms" }},
            {{ ends = ["r1", "r2"], bandwidth = "10Mbit", delay = "5ms" }},
            {{ ends = ["r1", "r3"], bandwidth = "10Mbit", delay = "5ms" }},
            {detour}
            {{ ends = ["r2", "b"], bandwidth = "10Mbit", delay = "5ms" }},
        ]"#
    );
    Topology::parse(&text).expect("a topology")
}

fn scenario(protocol: &str) -> Scenario {
    let text = format!(
        r#"
        name = "recovery"
        topology = "recovery.toml"
        protocol = "{protocol}"
        duration = "300s"
        refresh = "5s"
        data = "none"

        [[flows]]
        name = "calls"
        between = [["a", "b"]]
        count = 8
        spread = "10s"
        rate = "100kbit"
        reserves = "0s"

        [[faults]]
        link = ["r1", "r2"]
        from = "60s"
        outage = true
        "#
    );
    Scenario::parse(&text).expect("a scenario")
}

fn run(protocol: &str, has_detour: bool) -> Outcome {
    play(&scenario(protocol), &topology(has_detour), 3).expect("it fits")
}

/// Every protocol sends its messages along the path again, at the latest with the next refresh, 1.5 periods of 5 s; a message
/// whose previous peer is still unknown takes another one.
#[test]
fn interrupted_reservations_recover_on_another_path() {
    for protocol in PROTOCOLS {
        let outcome = run(protocol, true);
        let counts = (outcome.interruptions, outcome.recoveries);
        assert_eq!(counts, (8, 8), "{protocol}: {outcome:?}");
        let [lower, median, upper] = outcome.recovery_times.expect("they recover");
        assert!(
            0.0 < lower && lower <= median && median <= upper && upper < 15.0,
            "{protocol}: {upper}"
        );
        assert_eq!(outcome.path_lengths.keys().collect::<Vec<_>>(), [&4], "{protocol}: the detour");
        assert!(outcome.served > 0.9, "{protocol}: {}", outcome.served);
    }
}

#[test]
fn interrupted_reservations_without_another_path_do_not_recover() {
    for protocol in PROTOCOLS {
        let outcome = run(protocol, false);
        assert_eq!((outcome.interruptions, outcome.recoveries), (8, 0), "{protocol}: {outcome:?}");
        assert_eq!(outcome.recovery_times, None, "{protocol}");
        assert!(outcome.path_lengths.is_empty(), "{protocol}: no path at the end");
        // Complete until 60 s, and wanted until 300 s, from a start in the first 10 s.
        assert!((0.16..0.21).contains(&outcome.served), "{protocol}: {}", outcome.served);
        // Until the soft state of the first link has ended, it is reserved in vain.
        assert!(outcome.fragmented > 0.0, "{protocol}");
    }
}

/// The shorter path returns, and all follow: both changes interrupt a reservation, and nothing that still happens on the path that
/// was left does.
#[test]
fn path_that_returns_interrupts_once_more() {
    for (protocol, refresh_reduction) in
        PROTOCOLS.map(|it| (it, true)).into_iter().chain([("rsvp", false)])
    {
        let (mut scenario, topology) = (scenario(protocol), topology(true));
        scenario.faults[0].until = Some(Duration::from_secs(120));
        scenario.refresh_reduction = refresh_reduction;
        for (refresh, seed) in [5, 10].into_iter().flat_map(|it| (0..8).map(move |seed| (it, seed)))
        {
            scenario.refresh = Duration::from_secs(refresh);
            let outcome = play(&scenario, &topology, seed).expect("it fits");
            let counts = (outcome.interruptions, outcome.recoveries);
            assert_eq!(
                counts,
                (16, 16),
                "{protocol} {refresh_reduction} {refresh} s, seed {seed}: {outcome:?}"
            );
        }
    }
}

/// Counts messages as they leave, from a time on.
struct Counter {
    packets: Rc<Cell<u64>>,
    octets: Rc<Cell<u64>>,
    from: Time,
}

impl MessageHook for Counter {
    fn message(&mut self, message: &HookedMessage<'_>) -> MessageAction {
        if message.direction == Direction::Out && message.at >= self.from {
            self.packets.set(self.packets.get() + 1);
            let octets = message.packet.map_or(0, <[u8]>::len);
            self.octets.set(self.octets.get() + octets as u64);
        }
        MessageAction::Pass
    }
}

#[test]
fn signalling_is_all_that_leaves_after_the_discarded_time() {
    for protocol in PROTOCOLS {
        let (mut scenario, topology) = (scenario(protocol), topology(true));
        scenario.discard = Duration::from_secs(20);
        let [packets, octets] = [(); 2].map(|()| Rc::new(Cell::new(0)));
        let mut run = ScenarioRun::begin(&scenario, &topology, 3).expect("it fits");
        let from = Time::from_secs(20);
        let counter = Counter { packets: packets.clone(), octets: octets.clone(), from };
        run.network_mut().set_message_hook(Some(Box::new(counter)));
        run.advance(Time::from_secs(200), u64::MAX);
        // The messages of the ends that the end of the run brings are not counted.
        let [packets, octets] = [packets, octets].map(|it| it.get());
        let (outcome, _) = run.finish();
        let signalling = &outcome.signalling;
        assert!(packets > 100, "{protocol}: {packets}");
        assert_eq!((signalling.packets, signalling.octets), (packets, octets), "{protocol}");
        assert!(signalling.busiest_router_packets < signalling.packets, "{protocol}");
        assert!(outcome.state.values().any(|entries| *entries >= 8), "{protocol}: {outcome:?}");
        assert_eq!(
            outcome,
            run_again(&scenario, &topology),
            "{protocol}: the hook changes nothing"
        );
    }
}

fn run_again(scenario: &Scenario, topology: &Topology) -> Outcome {
    let mut run = ScenarioRun::begin(scenario, topology, 3).expect("it fits");
    run.advance(Time::from_secs(200), u64::MAX);
    run.finish().0
}
