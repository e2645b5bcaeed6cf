use earmark_core::Outgoing;
use earmark_node::NodeConfig;
use earmark_sim::LogEvent;

use super::*;
use crate::build::{Built, build};

const TOPOLOGY: &str = r#"
    node = [{ name = "a" }, { name = "b" }]
    link = [{ ends = ["a", "b"], bandwidth = "10Mbit", delay = "1ms" }]"#;

/// Begin and end of other rules at a link do not change the place of a list.
#[test]
fn losses_continue_while_other_rules_begin_and_end() {
    let topology = Topology::parse(TOPOLOGY).expect("a topology");
    let rule = |lines: &str| {
        toml::from_str::<Fault>(&format!("link = [\"b\", \"a\"]\n{lines}")).expect("a rule")
    };
    let faults = [
        rule("loss = [true, false, false]"),
        rule("from = \"5s\"\nuntil = \"8s\"\nloss = [false, false, true]"),
        rule("from = \"6s\"\nuntil = \"7s\"\njitter = \"0.001ms\""),
    ];
    let Built { mut network, nodes, mut routing, .. } = build(&topology, 1, &NodeConfig::default());
    let mut schedule = FaultSchedule::new(&faults, &topology);
    let [from, to] = [0, 1].map(|node| topology.address(node).expect("an address").into());
    let how = Outgoing::new(46, from, to, 1);
    let mut lost = Vec::new();
    for second in 0..10 {
        network.run_until(Time::from_secs(second));
        schedule.apply(&mut network, &nodes, &topology, &mut routing);
        let lost_so_far = |network: &Network| {
            network.log().iter().filter(|entry| matches!(entry.what, LogEvent::Lost(_))).count()
        };
        let before = lost_so_far(&network);
        network.send_datagram(nodes[0], &how, &[0; 20]);
        network.run_until(Time::from_secs(second) + Duration::from_millis(100));
        lost.push(lost_so_far(&network) > before);
    }
    let first = (0..10).map(|second| second % 3 == 0);
    let both: Vec<bool> = first.zip(0..).map(|(lost, second)| lost || second == 7).collect();
    assert_eq!(lost, both);
    assert_eq!(schedule.next(), None, "all rules were applied");
}
