//! The retry study's network with fluid data compared with packets.

use earmark_scenario::topology::Topology;
use earmark_scenario::{Data, Outcome, Scenario, play};

/// The study on a smaller scale: 24 s instead of 600 s, and the test flow reserves at 10 s.
const SCENARIO: &str = r#"
    name = "study in little"
    topology = "retry.toml"
    protocol = "yessir"
    duration = "24s"
    retry = { threshold = 1 }

    [[flows]]
    name = "best effort"
    between = [["n7", "n11"], ["n8", "n12"], ["n9", "n13"], ["n10", "n14"]]
    count = 27
    lifetime = "exponential 150s"
    rate = "500kbit"
    bursts = { on = "1s", off = "500ms" }

    [[flows]]
    name = "reserved"
    between = [["n7", "n11"], ["n8", "n12"], ["n9", "n13"], ["n10", "n14"]]
    count = 40
    lifetime = "exponential 60s"
    spread = "3s"
    rate = "100kbit"
    reserves = "0s"

    [[flows]]
    name = "test"
    between = [["n0", "n6"]]
    rate = "100kbit"
    reserves = "12s"
    watch = true
"#;

fn played(data: Data) -> Outcome {
    // All flows share all links, so that losses happen at the first.
    let text = include_str!("../../../../topologies/retry.toml")
        .replace(r#""n10", "n3""#, r#""n10", "n1""#)
        .replace(r#""n13", "n4""#, r#""n13", "n5""#);
    let topology = Topology::parse(&text);
    let scenario = Scenario::parse(SCENARIO).expect("a scenario");
    let scenario = Scenario { data, ..scenario };
    play(&scenario, &topology.expect("a topology"), 1).expect("it fits")
}

/// 13 Mbit/s are offered to 10, of which 4 are reserved. Before its reservation the test flow loses as much as all,
/// and nothing after it. Per second, 100 packets are counted to within one, and chance is 5 %: over ten seconds 2 %.
/// Signalling differs by microseconds.
#[test]
fn fluid_test_flow_receives_like_packets() {
    let [packets, fluid] = [Data::Packets, Data::Fluid].map(played);
    assert_eq!(packets.attempts, fluid.attempts);
    let ([packets], [fluid]) = (&packets.watched[..], &fluid.watched[..]) else {
        panic!("one flow is watched");
    };
    let (reserves, done) = (packets.completed_after, fluid.completed_after);
    assert!((reserves.expect("it fits") - done.expect("it fits")).abs() < 0.01);
    let mean = |rates: &[u64]| rates.iter().sum::<u64>() as f64 / rates.len() as f64;
    for (seconds, tolerance) in [(1..12, 0.04), (13..23, 0.01)] {
        let [packets, fluid] =
            [packets, fluid].map(|flow| mean(&flow.received.rates[seconds.clone()]));
        let off = (packets - fluid).abs() / packets;
        assert!(off < tolerance, "{seconds:?}: {packets} in packets, {fluid} as fluid");
    }
    assert_eq!(fluid.received.rates[16], 100_000);
    assert!(mean(&fluid.received.rates[1..12]) < 95_000.0, "there is congestion");
    assert!(packets.received.sent.abs_diff(fluid.received.sent) <= 1);
}

#[test]
fn same_seed_gives_same_outcome() {
    let outcome = || serde_json::to_string(&played(Data::Fluid)).expect("plain data");
    assert_eq!(outcome(), outcome());
}
