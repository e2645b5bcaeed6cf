//! Parsing of valid and invalid topologies.

use super::*;

/// Text of a topology, the line and key of the error, and a part of the reason.
type Mistake = (String, usize, &'static str, &'static str);

/// Nodes `a` and `b`, and the beginning of a link.
const TWO: &str = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\n";

fn assert_named(mistakes: &[Mistake]) {
    for (text, line, key, reason) in mistakes {
        let error = Topology::parse(text).expect_err(text);
        assert_eq!((error.line, error.key), (*line, *key), "{error}\n{text}");
        assert!(error.to_string().contains(reason), "{error}\n{text}");
    }
}

/// Every error in nodes and link ends names its line, key and reason.
#[test]
fn node_errors_name_line_and_key() {
    let two = TWO;
    let link = format!("{two}ends = [\"a\", \"b\"]\n");
    assert_named(&[
        ("node = 5\n".into(), 1, "", "invalid type"),
        ("\n\nnonsense\n".into(), 3, "", ""),
        ("".into(), 1, "node", "at least two nodes"),
        (
            two.replace("\"b\"", "\"a\"") + "ends = [\"a\", \"a\"]\nbandwidth = \"1Mbit\"",
            4,
            "node.name",
            "defined twice",
        ),
        (
            two.replace("\"b\"", "\"b/c\"") + "ends = [\"a\", \"b\"]\nbandwidth = \"1Mbit\"",
            4,
            "node.name",
            "invalid name",
        ),
        (
            format!("{two}ends = [\"a\", \"c\"]\nbandwidth = \"1Mbit\""),
            6,
            "link.ends",
            "unknown node `c`",
        ),
        (
            format!("{two}ends = [\"b\", \"b\"]\nbandwidth = \"1Mbit\""),
            6,
            "link.ends",
            "linked with itself",
        ),
        (format!("{two}ends = [\"a\"]\nbandwidth = \"1Mbit\""), 6, "", "invalid length 1"),
        (link.clone(), 5, "", "missing field `bandwidth`"),
        (
            format!("[[node]]\nname = \"lonely\"\n{link}bandwidth = \"1Mbit\""),
            4,
            "node.name",
            "`lonely` cannot reach node `a`",
        ),
    ]);
}

/// Every error in the settings of a link names its line, key and reason.
#[test]
fn link_errors_name_line_and_key() {
    let link = format!("{TWO}ends = [\"a\", \"b\"]\n");
    assert_named(&[
        (format!("{link}bandwidth = \"fast\""), 7, "link.bandwidth", "starts with a number"),
        (format!("{link}bandwidth = \"10MB\""), 7, "link.bandwidth", "unit of a rate"),
        (format!("{link}bandwidth = \"0\""), 7, "link.bandwidth", "more than zero"),
        (format!("{link}bandwidth = \"1Mbit\"\nspeed = 3"), 8, "", "unknown field `speed`"),
        (
            format!("{link}bandwidth = \"1Mbit\"\nreservable = \"101%\""),
            8,
            "link.reservable",
            "neither a share",
        ),
        (
            format!("{link}bandwidth = \"1Mbit\"\nreservable = \"most\""),
            8,
            "link.reservable",
            "neither a share",
        ),
        (
            format!("{link}bandwidth = \"1Mbit\"\nreservable = \"2Mbit\""),
            8,
            "link.reservable",
            "more than the bandwidth",
        ),
        (
            format!("{link}bandwidth = \"1Mbit\"\ndelay = \"soon\""),
            8,
            "link.delay",
            "invalid duration",
        ),
        (format!("{link}bandwidth = \"1Mbit\"\ndelay = \"11s\""), 8, "link.delay", "at most 10s"),
        (
            format!("{link}bandwidth = \"1Mbit\"\nqueue_packets = 0"),
            8,
            "link.queue_packets",
            "at least one",
        ),
        (format!("{link}bandwidth = \"1Mbit\"\nprefix = \"ten\""), 8, "link.prefix", "looks like"),
        (
            format!("{link}bandwidth = \"1Mbit\"\nprefix = \"10.0.0.0/31\""),
            8,
            "link.prefix",
            "no room",
        ),
        (
            format!("{link}bandwidth = \"1Mbit\"\nprefix = \"fd00::/64\""),
            8,
            "link.prefix",
            "no room",
        ),
        (
            format!(
                "{link}bandwidth = \"1Mbit\"\n[[link]]\nends = [\"a\", \"b\"]\nbandwidth = \"1Mbit\"\nprefix = \"10.0.0.0/16\""
            ),
            11,
            "link.prefix",
            "overlaps 10.0.0.0/30",
        ),
    ]);
}

/// A host between two others does not connect them.
#[test]
fn hosts_do_not_forward() {
    let text = r#"
        node = [{ name = "a" }, { name = "b", role = "host" }, { name = "c" }]
        link = [
            { ends = ["a", "b"], bandwidth = "1Mbit" },
            { ends = ["b", "c"], bandwidth = "1Mbit" },
        ]"#;
    let error = Topology::parse(text).unwrap_err();
    assert_eq!(error.problem, Problem::Disconnected { from: "a".into(), to: "c".into() });
    assert!(Topology::parse(&text.replace("host", "router")).is_ok());
}

/// The shipped topology matches the module documentation.
#[test]
fn demo_is_the_documented_chain() {
    let demo = Topology::parse(crate::topology::DEMO).unwrap();
    let roles: Vec<_> = demo.nodes.iter().map(|n| (n.name.as_str(), n.role)).collect();
    assert_eq!(
        roles,
        [("h1", Role::Host), ("r1", Role::Router), ("r2", Role::Router), ("h2", Role::Host)]
    );
    let middle = &demo.links[1];
    assert_eq!(middle.bandwidth, Rate::from_mbps(10));
    assert_eq!(middle.reservable, Rate::from_bps(7_500_000));
    assert_eq!(middle.prefix.to_string(), "10.0.1.0/30");
    assert_eq!(middle.ends[0].interface, "eth1");
    assert_eq!(middle.ends[1].interface, "eth0");
    assert_eq!(demo.owner_of("10.0.1.2".parse().unwrap()), Some("r2"));
}
