use std::sync::Arc;

use earmark_core::random::Stream;

use super::*;
use crate::arrivals::ArrivalLaw;
use crate::topology::DEMO;

/// Returns a scenario of 100 s with flows of these lines.
fn scenario(lines: &str) -> Scenario {
    let text = format!(
        r#"
        name = "some"
        topology = "demo.toml"
        protocol = "rsvp"
        duration = "100s"
        [[flows]]
        name = "calls"
        between = [["h1", "h2"], ["h2", "h1"]]
        rate = "1Mbit"
        {lines}"#
    );
    Scenario::parse(&text).expect("a scenario")
}

fn topology() -> Topology {
    Topology::parse(DEMO).expect("a topology")
}

/// Returns source, start and end of each flow, in seconds.
fn drawn(lines: &str) -> Vec<(usize, f64, f64)> {
    let (scenario, topology) = (scenario(lines), topology());
    assert_eq!(scenario.check(&topology), Ok(()), "{lines}");
    let seconds = |at: Time| at.since(Time::ZERO).as_secs_f64();
    let flows = draw(&scenario, &topology, 1).expect("few flows");
    flows.iter().map(|flow| (flow.from, seconds(flow.starts), seconds(flow.ends))).collect()
}

#[test]
fn trace_gives_start_end_and_endpoints_of_each_flow() {
    let [h1, h2] = ["h1", "h2"].map(|name| topology().node(name).unwrap());
    let arrivals = r#"arrivals = ["0s", "1.5s", "1.5s", "30s", "99s", "100s", "2000s"]"#;
    let lifetimes = r#"lifetime = ["60s", "10s", "1ms", "100s", "0.5s", "1s", "1s"]"#;
    let expected = [
        (h1, 0.0, 60.0),
        (h2, 1.5, 11.5),
        (h1, 1.5, 1.501),
        (h2, 30.0, 100.0), // until the end of the run
        (h1, 99.0, 99.5),
    ];
    assert_eq!(drawn(&format!("{arrivals}\n{lifetimes}")), expected);
    let offset = format!("{arrivals}\n{lifetimes}\nstarts = \"20s\"");
    let later =
        expected.map(|(from, starts, ends)| (from, starts + 20.0, (ends + 20.0).min(100.0)));
    let later: Vec<_> = later.into_iter().filter(|flow| flow.1 < 100.0).collect();
    assert_eq!(drawn(&offset), later);
    assert_eq!(drawn("arrivals = []\nlifetime = []"), []);
    // Without lifetimes, or with a law, only the starts are given.
    let forever = drawn("arrivals = [\"10s\", \"50s\"]\ninitial = \"none\"");
    assert_eq!(forever, [(h1, 10.0, 100.0), (h2, 50.0, 100.0)]);
    let constant = drawn("arrivals = [\"10s\", \"50s\"]\nlifetime = \"constant 5s\"");
    assert_eq!(constant, [(h1, 10.0, 15.0), (h2, 50.0, 55.0)]);
}

#[test]
fn periodic_flows_start_at_equal_intervals() {
    let flows = drawn("count = 5\narrivals = \"periodic\"\nlifetime = \"constant 10s\"");
    let starts: Vec<f64> = flows.iter().map(|flow| flow.1).filter(|start| *start > 0.0).collect();
    assert!((49..=50).contains(&starts.len()), "{starts:?}");
    let is_interval = |pair: &[f64]| (pair[1] - pair[0] - 2.0).abs() < 1e-6;
    assert!(starts[0] < 2.0 && starts.windows(2).all(is_interval), "{starts:?}");
    assert_eq!(flows.len() - starts.len(), 5, "at the start");
}

/// Laws of programs, or extreme ones, whose times are zero again and again.
#[test]
fn endless_arrivals_and_lifetimes_are_refused() {
    #[derive(Debug)]
    struct AllAtOnce;
    impl ArrivalLaw for AllAtOnce {
        fn first(&self, _: Duration, _: &mut Stream) -> Option<Duration> {
            self.next(Duration::ZERO, &mut RandomStreams::new(1).stream("none"))
        }
        fn next(&self, _: Duration, _: &mut Stream) -> Option<Duration> {
            Some(Duration::ZERO)
        }
    }
    let mut at_once = scenario("count = 5\nlifetime = \"constant 10s\"");
    at_once.flows[0].arrivals = Arrivals::Law(Arc::new(AllAtOnce));
    let short = scenario("count = 5\ninitial = \"new\"\nlifetime = \"lognormal 10s 100\"");
    for scenario in [at_once, short] {
        let error = draw_at_most(1_000, &scenario, &topology(), 1).expect_err("too many");
        let text =
            "`flows.calls`: its laws give too many flows; choose others, or fewer and longer flows";
        assert_eq!(error.to_string(), text);
    }
    let several = scenario("count = 5\nlifetime = \"constant 10s\"");
    assert!(draw_at_most(1_000, &several, &topology(), 1).is_ok_and(|flows| flows.len() >= 50));
}
