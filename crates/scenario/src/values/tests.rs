use super::*;
use crate::topology::{DEMO, Topology};

const SCENARIO: &str = r#"
    name = "some"
    topology = "demo.toml"
    protocol = "yessir"
    duration = "60s"
    [[flows]]
    name = "test"
    between = [["h1", "h2"]]
    rate = "1Mbit"
    reserves = "1s"
"#;

fn set(values: &[&str]) -> Result<Scenario, ScenarioError> {
    let values: Vec<_> = values.iter().map(|value| value.parse().expect("KEY=VALUE")).collect();
    Scenario::parse_with(SCENARIO, &values)
}

#[test]
fn invalid_value_is_named() {
    let topology = Topology::parse(DEMO).expect("a topology");
    assert_eq!(set(&[]).unwrap().check(&topology), Ok(()));
    for (value, key) in [
        ("duration=0s", "duration"),
        ("discard=60s", "discard"),
        ("refresh=999ms", "refresh"),
        ("admission={ measured = { target = 0.0 } }", "admission.measured.target"),
        ("admission={ measured = { target = 1.1 } }", "admission.measured.target"),
        ("admission={ measured = { sample = \"0s\" } }", "admission.measured.sample"),
        ("admission={ measured = { window = \"999ms\" } }", "admission.measured.window"),
        ("flows.test.rate=0bit", "flows.test.rate"),
        ("flows.test.packet_octets=27", "flows.test.packet_octets"),
        ("flows.test.packet_octets=65536", "flows.test.packet_octets"),
        ("flows.test.bucket_octets=124", "flows.test.bucket_octets"),
        ("flows.test.bursts={ on = \"0s\", off = \"1s\" }", "flows.test.bursts.on"),
        ("flows.test.lifetime=constant 0s", "flows.test.lifetime"),
        ("flows.test.lifetime=exponential 0s", "flows.test.lifetime"),
        ("flows.test.count=10000001", "flows"),
    ] {
        let checked = set(&[value]).expect(value).check(&topology);
        let Err(ScenarioError::Value { key: wrong, .. }) = checked else {
            panic!("{value}: {checked:?}");
        };
        assert_eq!(wrong, key, "{value}");
    }
    let many = set(&["flows.test.count=1000", "flows.test.lifetime=constant 1ms"]);
    assert!(many.unwrap().check(&topology).is_err(), "60 million come and go");
    let unseen = set(&["admission={ measured = {} }", "data=fluid"]);
    assert!(unseen.unwrap().check(&topology).is_err(), "fluid is not measured");
    let mut twice = set(&[]).unwrap();
    twice.flows.push(twice.flows[0].clone());
    let message = twice.check(&topology).unwrap_err().to_string();
    assert_eq!(message, "`flows.test`: duplicate name");
}

/// Errors in lists of arrivals and lifetimes name the flows, and say what to write.
#[test]
fn invalid_trace_is_named() {
    let topology = Topology::parse(DEMO).expect("a topology");
    let arrivals = "flows.test.arrivals=[\"0s\", \"2s\", \"5s\"]";
    let lifetimes = "flows.test.lifetime=[\"1s\", \"2s\", \"3s\"]";
    let checked = |values: &[&str]| {
        set(values).expect("well-formed").check(&topology).map_err(|error| error.to_string())
    };
    for valid in [&[arrivals][..], &[arrivals, "flows.test.initial=none"]] {
        assert_eq!(checked(valid), Ok(()));
    }
    for (value, message) in [
        (
            "flows.test.count=3",
            "`flows.test.count`: the list of arrivals has all flows; leave it out",
        ),
        (
            "flows.test.count=1",
            "`flows.test.count`: the list of arrivals has all flows; leave it out",
        ),
        (
            "flows.test.initial=new",
            "`flows.test.initial`: the list of arrivals has all flows; leave it out",
        ),
        (
            "flows.test.initial=stationary",
            "`flows.test.initial`: the list of arrivals has all flows; leave it out",
        ),
        (
            "flows.test.spread=1s",
            "`flows.test.spread`: the list of arrivals has each start; leave it out",
        ),
        (
            "flows.test.arrivals=[\"0s\", \"2s\", \"1s\"]",
            "`flows.test.arrivals.2`: it is before the preceding time; give ascending times",
        ),
        (
            "flows.test.lifetime=[\"1s\", \"2s\"]",
            "flows `test`: the list of arrivals has length 3, that of lifetimes 2: give one lifetime for each arrival",
        ),
        (
            "flows.test.lifetime=[\"1s\", \"0s\", \"1s\"]",
            "`flows.test.lifetime.1`: the lifetime is 0",
        ),
        (
            "flows.test.arrivals=poisson",
            "`flows.test.lifetime`: a list needs a list of as many arrivals",
        ),
    ] {
        assert_eq!(checked(&[arrivals, lifetimes, value]), Err(message.to_owned()), "{value}");
    }
}

#[test]
fn scheduler_is_checked_against_topology_and_data() {
    let topology = Topology::parse(DEMO).expect("a topology");
    let checked = |values: &[&str]| {
        set(values).expect("well-formed").check(&topology).map_err(|error| error.to_string())
    };
    let of_link = "scheduler=[{ link = [\"h1\", \"r1\"], discipline = \"wfq\" }]";
    for valid in [&["scheduler=wfq"][..], &["scheduler=fifo", "data=fluid"], &[of_link]] {
        assert_eq!(checked(valid), Ok(()));
    }
    for scheduler in ["scheduler=wfq", of_link] {
        assert_eq!(
            checked(&[scheduler, "data=fluid"]).unwrap_err(),
            "`scheduler`: wfq cannot be simulated with data = \"fluid\"; use \"packets\""
        );
    }
    assert_eq!(
        checked(&["scheduler=[{ link = [\"h1\", \"h2\"], discipline = \"fifo\" }]"]).unwrap_err(),
        "scheduler: `h1` and `h2` are not joined"
    );
}

/// Errors in malformed values name what is valid instead, or what is wrong.
#[test]
fn malformed_value_is_named() {
    for (value, message) in [
        ("rollback={ after = \"5s\" }", "missing field `again`"),
        ("rollback={ after = \"5 s\", again = \"soon\" }", "invalid lifetime `soon`"),
        ("rollback={ after = 5, again = \"constant 1s\" }", "invalid type: integer `5`"),
        ("rollback={ after = \"5s\", again = \"constant 1s\", how = 1 }", "unknown field `how`"),
        ("retry.counting=some", "unknown variant `some`, expected `entries` or `tries`"),
        ("retry.discipline=fair", "unknown variant `fair`"),
        ("retry.threshold=-1", "retry.threshold"),
        ("retry.threshold=many", "retry.threshold"),
        ("flows.test.arrivals=never", "invalid arrivals `never`; write \"replaced\", \"poisson\","),
        ("flows.test.arrivals=batches 0", "`0`: a mean size of batches is from 1 to a million"),
        ("flows.test.arrivals=pareto 1", "`1`: a shape is a number above 1, and at most 100"),
        ("flows.test.arrivals=5", "expected a text, or a list of times such as [\"0s\", \"1.5s\"]"),
        ("flows.test.arrivals=[0, 1.5]", "expected a text, or a list of times"),
        (
            "flows.test.arrivals=[\"0s\", \"15\"]",
            "time 2 of the list, `15`: a time is a number and its unit",
        ),
        ("flows.test.lifetime=[\"-1s\"]", "time 1 of the list, `-1s`: a time is a number"),
        ("flows.test.lifetime=soon", "invalid lifetime `soon`"),
        ("flows.test.priority=70000", "invalid value: integer `70000`"),
        ("flows.test.priority=high", "invalid type: string \"high\""),
        ("flows.test.rate=fast", "invalid rate `fast`"),
        ("data=waves", "unknown variant `waves`"),
        ("scheduler=fair", "`priority`, `wfq`, `fifo`, or a list of { link, discipline }"),
        ("admission=guess", "unknown variant `guess`, expected `parameter` or `measured`"),
        ("admission={ measured = { load = 1 } }", "unknown field `load`"),
        ("admission={ measured = { window = 10 } }", "invalid type: integer `10`"),
    ] {
        let error = set(&[value]).expect_err(value).to_string();
        assert!(error.contains(message), "{value}: {error}");
    }
}
