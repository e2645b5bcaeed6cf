//! Parsing of valid and invalid files.

use super::*;

const KEYS: &str = r#"<key attr.name="Latitude" for="node" id="d1"/>
<key attr.name="Longitude" for="node" id="d2"/>
<key attr.name="label" for="node" id="d3"/>
<key attr.name="LinkSpeedRaw" for="edge" id="d4"/>
<key attr.name="Network" for="graph" id="d5"/>"#;

fn node(id: &str, label: &str, north: &str, east: &str) -> String {
    format!(
        "<node id=\"{id}\"><data key=\"d3\">{label}</data><data key=\"d1\">{north}</data>\
         <data key=\"d2\">{east}</data></node>"
    )
}

fn file(graph: &str) -> String {
    format!("<graphml>{KEYS}\n<graph edgedefault=\"undirected\">\n{graph}\n</graph></graphml>")
}

/// London to New York: 5 570 km, 27.9 ms.
#[test]
fn delay_follows_distance() {
    let (london, york) =
        (node("0", "London", "51.5074", "-0.1278"), node("1", "New York", "40.7128", "-74.0060"));
    let link = "<edge source=\"0\" target=\"1\"><data key=\"d4\">1e10</data></edge>";
    let backbone = parse(&file(&format!("<data key=\"d5\">Two!</data>{london}{york}{link}")))
        .expect("a backbone");
    let [trunk] = &backbone.trunks[..] else { panic!("{backbone:?}") };
    assert!((27_800..27_950).contains(&trunk.delay.as_micros()), "{:?}", trunk.delay);
    assert_eq!(trunk.bandwidth, Some(Rate::from_mbps(10_000)));
    let names: Vec<&str> = backbone.routers.iter().map(|site| site.name.as_str()).collect();
    assert_eq!((backbone.name.as_str(), &names[..]), ("Two", &["London", "New-York"][..]));
    // Half around the Earth, the maximum distance.
    let far = great_circle([90.0, 0.0], [-90.0, 77.0]);
    assert!((20_015_000.0..20_016_000.0).contains(&far), "{far}");
    assert_eq!(great_circle([10.0, 20.0], [10.0, 20.0]), 0.0);
}

#[test]
fn names_are_made_valid_and_unique() {
    let labels =
        ["Z&#252;rich", "A", "A", "A-2", "A", "", "?", "A very long name that is cut somewhere"];
    let nodes: String =
        labels.iter().enumerate().map(|(n, label)| node(&n.to_string(), label, "1", "1")).collect();
    let edges: String =
        (1..labels.len()).map(|n| format!("<edge source=\"0\" target=\"{n}\"/>")).collect();
    let backbone = parse(&file(&(nodes + &edges))).expect("a backbone");
    let names: Vec<&str> = backbone.routers.iter().map(|site| site.name.as_str()).collect();
    let expected =
        ["Z-rich", "A", "A-2", "A-2-2", "A-3", "router", "router-2", "A-very-long-name-th"];
    assert_eq!(names, expected);
}

/// Every error names its position and reason.
#[test]
fn errors_name_position_and_reason() {
    let two = node("0", "a", "1", "1") + &node("1", "b", "2", "2");
    let cases: &[(String, (u32, u32), &str)] = &[
        ("<graphml>".into(), (1, 1), "root"),
        ("".into(), (1, 1), "root node"),
        ("<!DOCTYPE a><graphml/>".into(), (1, 1), "DTD"),
        ("\n <gpx/>".into(), (2, 2), "<graphml> is missing"),
        ("<graphml/>".into(), (1, 1), "<graph> is missing"),
        (file(""), (6, 1), "at least two nodes and one edge"),
        (file(&two), (6, 1), "at least two nodes and one edge"),
        (file("<node/>"), (7, 1), "<node> has no attribute `id`"),
        (file("\n <node id=\"7\"/>"), (8, 2), "node `7` has no Latitude"),
        (
            file("<node id=\"7\"><data key=\"d1\">1</data></node>"),
            (7, 1),
            "node `7` has no Longitude",
        ),
        (file(&node("0", "a", "91", "1")), (7, 37), "invalid Latitude `91`: -90 to 90"),
        (file(&node("0", "a", "north", "1")), (7, 37), "invalid Latitude `north`"),
        (file(&node("0", "a", "NaN", "1")), (7, 37), "invalid Latitude `NaN`"),
        (file(&node("0", "a", "1", "-180.5")), (7, 60), "invalid Longitude `-180.5`"),
        (file(&(two.clone() + "\n<node id=\"1\"/>")), (8, 1), "duplicate node id `1`"),
        (file(&(two.clone() + "\n<edge source=\"0\"/>")), (8, 1), "no attribute `target`"),
        (file(&(two.clone() + "\n<edge target=\"0\"/>")), (8, 1), "no attribute `source`"),
        (
            file(&(two.clone() + "\n<edge source=\"0\" target=\"x\"/>")),
            (8, 1),
            "unknown node id `x`",
        ),
        (
            file(&(two.clone() + "\n<edge source=\"1\" target=\"1\"/>")),
            (8, 1),
            "node `1` is linked with itself",
        ),
        (
            file(
                &(two.clone()
                    + "\n<edge source=\"0\" target=\"1\"><data key=\"d4\">0</data></edge>"),
            ),
            (8, 29),
            "invalid LinkSpeedRaw `0`: bits per second",
        ),
        (
            file(&(two + "<edge source=\"0\" target=\"1\"/>\n" + &node("x", "c", "3", "3"))),
            (8, 1),
            "node `x` cannot reach the first node",
        ),
        (
            file(
                &(0..=MAX_ROUTERS)
                    .map(|n| node(&n.to_string(), "a", "1", "1") + "\n")
                    .collect::<String>(),
            ),
            (7 + MAX_ROUTERS as u32, 1),
            "at most 2048 nodes",
        ),
    ];
    for (text, place, reason) in cases {
        let error = parse(text).expect_err(text);
        let start: String = text.chars().take(600).collect();
        assert!(error.to_string().contains(reason), "{start}\n{error}");
        assert_eq!((error.line, error.column), *place, "{start}\n{error}");
    }
}
