//! Faults in scenarios: each kind has its effect, and no other.

use earmark_scenario::topology::Topology;
use earmark_scenario::{FlowOutcome, Outcome, PlayError, Scenario, ScenarioError, play};

/// Two paths from a to b, of which packets take the shorter one; c and d are beside them.
///
/// ```text
/// a --- r1 --------- r2 --- b
///         \         /
///          r3 --- r4
///         /         \
///        c           d
/// ```
const TWO_WAYS: &str = r#"
    node = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" },
            { name = "r1" }, { name = "r2" }, { name = "r3" }, { name = "r4" }]
    link = [
        { ends = ["a", "r1"], bandwidth = "10Mbit", delay = "1ms" },
        { ends = ["r2", "b"], bandwidth = "10Mbit", delay = "1ms" },
        { ends = ["c", "r3"], bandwidth = "10Mbit", delay = "1ms" },
        { ends = ["r4", "d"], bandwidth = "10Mbit", delay = "1ms" },
        { ends = ["r1", "r2"], bandwidth = "1Mbit", delay = "1ms", prefix = "10.1.0.0/29" },
        { ends = ["r1", "r3"], bandwidth = "1Mbit", delay = "1ms" },
        { ends = ["r3", "r4"], bandwidth = "1Mbit", delay = "1ms" },
        { ends = ["r4", "r2"], bandwidth = "1Mbit", delay = "1ms" },
    ]"#;

const PROTOCOLS: [&str; 4] = ["rsvp", "boomerang", "yessir", "nsis"];

/// Runs a flow from a to b, and one from c to d, which request at 10 s, with these faults.
fn outcome(protocol: &str, faults: &str) -> Outcome {
    outcome_of(protocol, faults, 1)
}

fn outcome_of(protocol: &str, faults: &str, seed: u64) -> Outcome {
    let text = format!(
        r#"
        name = "two ways"
        topology = "two-ways.toml"
        protocol = "{protocol}"
        duration = "40s"
        refresh = "2s"

        [[flows]]
        name = "first"
        between = [["a", "b"]]
        rate = "100kbit"
        packet_octets = 500
        reserves = "10s"
        watch = true

        [[flows]]
        name = "second"
        between = [["c", "d"]]
        rate = "100kbit"
        packet_octets = 500
        reserves = "10s"
        watch = true
        {faults}"#
    );
    let scenario = Scenario::parse(&text).expect("a scenario");
    play(&scenario, &Topology::parse(TWO_WAYS).expect("a topology"), seed).expect("it fits")
}

/// Returns the flow from a to b with a fault of these lines.
fn first(protocol: &str, fault: &str) -> FlowOutcome {
    outcome(protocol, &format!("[[faults]]\n{fault}")).watched.swap_remove(0)
}

/// Returns whether 100 kbit/s arrive in all of these seconds, to within the packets of their ends.
fn arrives(flow: &FlowOutcome, mut seconds: std::ops::Range<usize>) -> bool {
    seconds.all(|second| flow.received.rates[second] > 90_000)
}

#[test]
fn run_without_faults_reserves_everything() {
    for protocol in PROTOCOLS {
        let outcome = outcome(protocol, "");
        assert_eq!((outcome.wanted, outcome.completed), (2, 2), "{protocol}");
        assert!(outcome.watched.iter().all(|flow| arrives(flow, 1..39)), "{protocol}");
    }
}

/// Lost or corrupted, no message arrives; data does.
#[test]
fn lost_and_corrupted_signalling_prevents_reservation() {
    for protocol in PROTOCOLS {
        for what in ["loss = 1.0", "corruption = 1.0"] {
            let flow = first(protocol, &format!("link = [\"r2\", \"r1\"]\n{what}"));
            assert_eq!(flow.completed_after, None, "{protocol}, {what}");
            assert!(arrives(&flow, 1..39), "{protocol}, {what}");
            let until = format!("link = [\"r2\", \"r1\"]\n{what}\nuntil = \"20s\"");
            let completed = first(protocol, &until).completed_after;
            let expected = (10.0..30.0).contains(&completed.unwrap_or_default());
            // Boomerang and NSIS give up before that, and report it.
            let gave_up = completed.is_none() && ["boomerang", "nsis"].contains(&protocol);
            assert!(expected || gave_up, "{protocol}, {what}: {completed:?}");
        }
    }
}

/// A fifth of the messages is lost, in bursts of four. Requests are repeated until they are answered; Boomerang and NSIS give
/// up after some times without an answer, and report it.
#[test]
fn reservation_completes_in_spite_of_bursts_of_losses() {
    let faults = "[[faults]]\nlink = [\"r1\", \"r2\"]\nloss = \"bursts 0.2 4\"";
    for protocol in PROTOCOLS {
        let flows: Vec<FlowOutcome> = (1..=20)
            .map(|seed| outcome_of(protocol, faults, seed).watched.swap_remove(0))
            .collect();
        let [failed, completed] = [false, true]
            .map(|done| flows.iter().filter(move |it| it.completed_after.is_some() == done));
        let gives_up = ["boomerang", "nsis"].contains(&protocol);
        assert!(failed.clone().all(|flow| gives_up && !flow.reports.is_empty()), "{protocol}");
        assert!(failed.count() <= 2, "{protocol}");
        let waited = completed.filter(|flow| flow.completed_after > Some(0.1)).count();
        assert!(waited > 0, "{protocol}: bursts have an effect");
    }
}

/// A list that loses every message is the same as a share of 1, and one that loses none as no rule. If the first message of
/// each direction is lost, the second one reserves.
#[test]
fn list_says_which_messages_are_lost() {
    for protocol in PROTOCOLS {
        let play = |loss: &str| {
            let rule = format!("[[faults]]\nlink = [\"r1\", \"r2\"]\nloss = {loss}");
            outcome(protocol, &rule).watched.swap_remove(0)
        };
        let plain = outcome(protocol, "").watched.swap_remove(0);
        assert_eq!(play("[true]"), play("1.0"), "{protocol}");
        assert_eq!(play("[false, false]"), plain, "{protocol}");
        let late = play(&format!("[true{}]", ", false".repeat(1_000))).completed_after;
        assert!(late > plain.completed_after && late.is_some(), "{protocol}: {late:?}");
    }
}

#[test]
fn duplicated_and_delayed_signalling_reserves() {
    for protocol in PROTOCOLS {
        let plain = outcome(protocol, "");
        let link = "[[faults]]\nlink = [\"r1\", \"r2\"]\n";
        let doubled = outcome(protocol, &format!("{link}duplication = 1.0"));
        assert!(doubled.events > plain.events, "{protocol}");
        assert_eq!(doubled.completed, 2, "{protocol}");
        let delayed = outcome(protocol, &format!("{link}jitter = \"900ms\""));
        let [usual, late] = [&plain, &delayed].map(|o| o.watched[0].completed_after);
        assert!(late > usual.map(|usual| usual + 0.01), "{protocol}: {usual:?}, {late:?}");
    }
}

/// The other path is used while the link is down, by data and reservation alike.
#[test]
fn outage_reroutes_data_and_reservation() {
    for protocol in PROTOCOLS {
        let fault = "link = [\"r1\", \"r2\"]\noutage = true\nfrom = \"20s\"\nuntil = \"30s\"";
        let flow = first(protocol, fault);
        assert!(arrives(&flow, 1..20) && arrives(&flow, 21..39), "{protocol}: {flow:?}");
        let detour = |node: &str| {
            let mut on_it = flow.attempts.iter().filter(|attempt| attempt.node == node);
            on_it.any(|attempt| attempt.granted && (20.0..30.0).contains(&attempt.at))
        };
        assert!(detour("r3") && detour("r4"), "{protocol}: {:?}", flow.attempts);
        let only_way = "link = [\"a\", \"r1\"]\noutage = true\nfrom = \"20s\"\nuntil = \"30s\"";
        let flow = first(protocol, only_way);
        assert!(flow.received.rates[21..29].iter().all(|rate| *rate == 0), "{protocol}");
        assert!(arrives(&flow, 31..39), "{protocol}");
    }
}

/// Data is forwarded without a daemon, and the next daemon receives a new request.
#[test]
fn crashed_daemon_reserves_again_after_restart() {
    for protocol in PROTOCOLS {
        let flow = first(
            protocol,
            "node = \"r1\"\ncrash = true\nfrom = \"20s\"\nuntil = \"25s\"\ngrace = \"9s\"",
        );
        assert!(flow.completed_after.is_some_and(|after| after < 1.0), "{protocol}");
        let again = flow.attempts.iter().find(|a| a.node == "r1" && a.at > 15.0);
        assert!(
            again.is_some_and(|again| again.at >= 25.0 && again.granted),
            "{protocol}: {again:?}"
        );
        assert!(arrives(&flow, 1..39), "{protocol}");
        let dead = first(protocol, "node = \"r1\"\ncrash = true");
        assert!(dead.attempts.iter().all(|attempt| attempt.node != "r1"), "{protocol}");
    }
}

/// The other path is used while an interface is away; then the first one again, by the index and the address that it has now.
#[test]
fn removed_interface_reroutes_data_and_reservation_until_it_returns() {
    for protocol in PROTOCOLS {
        for returns in ["same", "renumbered", "readdressed"] {
            let fault = format!(
                "link = [\"r1\", \"r2\"]\nremoved = \"r1\"\nreturns = \"{returns}\"\nfrom = \"20s\"\nuntil = \"25s\""
            );
            let flow = first(protocol, &fault);
            assert!(arrives(&flow, 1..20) && arrives(&flow, 21..39), "{protocol}: {flow:?}");
            let granted = |node: &str, seconds: std::ops::Range<f64>| {
                let mut attempts = flow.attempts.iter();
                attempts.any(|it| it.node == node && it.granted && seconds.contains(&it.at))
            };
            let detour = granted("r3", 20.0..25.0) && granted("r4", 20.0..25.0);
            assert!(detour, "{protocol}, {returns}: {:?}", flow.attempts);
            assert!(granted("r1", 25.0..40.0), "{protocol}, {returns}: {flow:?}");
        }
        let only_way = "link = [\"a\", \"r1\"]\nremoved = \"r1\"\nfrom = \"20s\"\nuntil = \"30s\"";
        let flow = first(protocol, only_way);
        assert!(flow.received.rates[21..29].iter().all(|rate| *rate == 0), "{protocol}");
        assert!(arrives(&flow, 31..39), "{protocol}");
    }
}

#[test]
fn refusal_by_traffic_control_prevents_reservation() {
    for protocol in PROTOCOLS {
        let flow = first(protocol, "node = \"r1\"\nrefusal = true");
        assert_eq!(flow.completed_after, None, "{protocol}");
        assert!(flow.attempts.iter().any(|attempt| attempt.node == "r1"), "{protocol}");
    }
}

/// While a link has less room than the flow requests, or takes no reservation as large, the flow is not reserved there; with as
/// much, and after the rule, it is.
#[test]
fn link_without_room_refuses_until_it_has_room() {
    for protocol in PROTOCOLS {
        let link = |rule: &str| format!("link = [\"a\", \"r1\"]\n{rule}");
        let flow = first(protocol, &link("reservable = \"50kbit\""));
        assert_eq!(flow.completed_after, None, "{protocol}");
        let flow = first(protocol, &link("reservable = \"50kbit\"\nuntil = \"25s\""));
        // A request by NSIS ends with its refusal; the others are tried again.
        let comes_late = flow.completed_after.is_some_and(|after| after > 10.0);
        assert_eq!(comes_late, protocol != "nsis", "{protocol}: {flow:?}");
        let flow = first(protocol, &link("largest = \"50kbit\""));
        assert_eq!(flow.completed_after, None, "{protocol}");
        for enough in ["reservable = \"100kbit\"", "largest = \"100kbit\""] {
            let flow = first(protocol, &link(enough));
            assert!(flow.completed_after.is_some_and(|after| after < 5.0), "{protocol}: {flow:?}");
        }
    }
}

/// Runs are reproducible; and the part of the network without the fault is not affected.
#[test]
fn fault_leaves_other_flows_unchanged() {
    for protocol in PROTOCOLS {
        let faults = r#"
            [[faults]]
            link = ["a", "r1"]
            loss = 0.3
            duplication = 0.2
            corruption = 0.1
            jitter = "30ms"
            [[faults]]
            node = "r1"
            crash = true
            from = "15s"
            until = "17s""#;
        let text = |outcome: &Outcome| serde_json::to_string(outcome).expect("plain data");
        let [one, again] = [1, 2].map(|_| outcome(protocol, faults));
        assert_eq!(text(&one), text(&again), "{protocol}");
        let plain = outcome(protocol, "");
        assert_ne!(one.watched[0], plain.watched[0], "{protocol}");
        assert_eq!(one.watched[1], plain.watched[1], "{protocol}");
    }
}

/// If rules overlap the worst counts, and the end of one leaves the other active.
#[test]
fn overlapping_rules_apply_the_worst() {
    let faults = r#"
        [[faults]]
        link = ["r1", "a"]
        outage = true
        from = "5s"
        until = "15s"
        [[faults]]
        link = ["a", "r1"]
        outage = true
        from = "10s"
        until = "20s""#;
    let rates = &outcome("rsvp", faults).watched[0].received.rates.clone();
    assert!(rates[6..20].iter().all(|rate| *rate == 0), "{rates:?}");
    assert!(rates[21..39].iter().all(|rate| *rate > 90_000), "{rates:?}");
}

/// Errors in a rule name what is wrong and what is valid.
#[test]
fn invalid_rule_is_rejected() {
    let base = "name = \"x\"\ntopology = \"y\"\nprotocol = \"rsvp\"\nduration = \"1s\"\n";
    let topology = Topology::parse(TWO_WAYS).expect("a topology");
    for (fault, why) in [
        ("loss = 0.1", "fault 1: give either link = [\"a\", \"b\"] or node = \"a\""),
        (
            "link = [\"r1\", \"r4\"]\nloss = 0.1",
            "fault 1: link: `r1` and `r4` are not joined; links of `r1` lead to a, r2, r3",
        ),
        (
            "node = \"r9\"\ncrash = true",
            "fault 1: node: unknown node `r9`: one of a, b, c, d, r1, r2, r3, r4",
        ),
        (
            "link = [\"r1\", \"r2\"]\ncorruption = 1.5",
            "fault 1: invalid share corruption = 1.5: give a number from 0 to 1",
        ),
        (
            "link = [\"r1\", \"r2\"]\nloss = -0.5",
            "fault 1: invalid share loss = -0.5: give a number from 0 to 1",
        ),
        (
            "node = \"r1\"\nloss = [true]",
            "fault 1: loss does not apply to a node: use crash (with grace), refusal",
        ),
        (
            "link = [\"r1\", \"r2\"]\nloss = 0.5\nfrom = \"2s\"\nuntil = \"1s\"",
            "fault 1: until must be after the start",
        ),
        (
            "link = [\"r1\", \"r2\"]\ncrash = true",
            "fault 1: crash does not apply to a link: use loss, duplication, corruption, jitter, outage, reservable, largest, removed (with returns)",
        ),
        (
            "node = \"r1\"\nloss = 0.5",
            "fault 1: loss does not apply to a node: use crash (with grace), refusal",
        ),
        (
            "node = \"r1\"\nreservable = \"1Mbit\"",
            "fault 1: reservable does not apply to a node: use crash (with grace), refusal",
        ),
        (
            "link = [\"r1\", \"r2\"]\nremoved = \"r3\"",
            "fault 1: removed: `r3` is not an end of the link: use `r1` or `r2`",
        ),
        (
            "link = [\"r1\", \"r3\"]\nremoved = \"r3\"\nreturns = \"readdressed\"",
            "fault 1: 10.0.5.0/30 has no other address for the interface: give the link a prefix of /29 or larger",
        ),
        (
            "link = [\"r1\", \"r3\"]\nreturns = \"renumbered\"",
            "fault 1: empty fault: give loss, duplication, corruption, jitter, outage, reservable, largest, removed (with returns)",
        ),
        (
            "node = \"r1\"\nremoved = \"r1\"",
            "fault 1: removed does not apply to a node: use crash (with grace), refusal",
        ),
        ("node = \"r1\"", "fault 1: empty fault: give crash (with grace), refusal"),
    ] {
        let text = format!("{base}[[faults]]\n{fault}");
        let scenario = Scenario::parse(&text).expect("it is read");
        let error = play(&scenario, &topology, 1).expect_err(fault);
        assert!(matches!(error, PlayError::Scenario(ScenarioError::Fault(_))), "{error:?}");
        assert_eq!(error.to_string(), why);
    }
    for (fault, why) in [
        ("loss = \"much\"", "invalid loss `much`; write a share such as 0.1, \"bursts 0.05 8\""),
        ("loss = \"bursts 0.05\"", "invalid loss `bursts 0.05`; write"),
        ("loss = \"bursts 0.05 long\"", "invalid loss `bursts 0.05 long`; write"),
        ("loss = \"bursts 5 8\"", "loss `bursts 5 8`: a share of lost messages is above 0"),
        ("loss = \"bursts NaN 8\"", "a share of lost messages is above 0"),
        ("loss = \"bursts 0.05 0\"", "a mean length of bursts is a number of messages, 1 or more"),
        ("loss = \"bursts 0.9 8\"", "give a mean length of 9.00 or more, or a smaller share"),
        (
            "loss = \"bursts 0.05 8 2\"",
            "a share of lost messages within bursts is above that of all",
        ),
        ("loss = []", "loss: the list is empty; give true or false for each message"),
        ("loss = [0, 1]", "expected a share of lost messages such as 0.1, a text such as"),
        ("loss = true", "or a list of true and false"),
        ("reservable = \"much\"", "much"),
        ("largest = \"much\"", "much"),
        ("reservable = -1", "expected"),
        ("returns = \"never\"", "unknown variant"),
        ("break = true", "unknown field"),
    ] {
        let error = Scenario::parse(&format!("{base}[[faults]]\n{fault}")).expect_err(fault);
        assert!(error.to_string().contains(why), "{error}");
    }
}
